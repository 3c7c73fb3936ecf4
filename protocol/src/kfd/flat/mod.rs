//! A call without its process: the memory that an ioctl reads and writes, gathered into plain data.
//!
//! [`FlatCall::collect`] gathers, on the program's side, what the ioctl's declaration says that the kernel may
//! read. It travels as bytes. On the device's side [`FlatMem`] gives it back as a [`UserMem`] and records what
//! the device writes; [`FlatWrites`] travels back, and [`FlatCall::apply`] puts it into the program's memory.
//!
//! Neither side trusts the other. The device can touch only what the call declares, anything else is a
//! [`Fault`]; the program's side writes only where the declaration said that the kernel may write.
//!
//! One difference to the kernel remains: memory that cannot be **written** is found out when the writes are
//! applied, after the call. The call then fails with `EFAULT`, as in the kernel, but without what the kernel
//! does in a few calls between the failed copy and the return (GET_TILE_CONFIG zeroes a count). Memory that
//! cannot be **read** faults exactly when the device touches it: a call that fails for an earlier reason fails
//! for that reason.

mod codec;
mod mem;

pub use codec::DecodeError;
pub use mem::FlatMem;

use super::ioctl::{FdPlace, Flow, Ioctl, Length, Reaches, Stride};
use super::user_mem::{Fault, UserMem};

/// Pointers of one call at most. A test compares this with the table.
pub const MAX_RANGES: usize = 8;

/// Memory is gathered in steps of this many bytes, so that a length that nothing stands behind costs nothing.
const STEP: usize = 64 << 10;

/// Granularity of memory protection.
const PAGE: u64 = 4096;

/// A call of which it is declared what it touches.
pub trait Declared: Copy {
    /// Everything that a call with these arguments touches.
    fn reaches(self, args: &[u8]) -> Reaches<'_>;
}

impl Declared for Ioctl {
    fn reaches(self, args: &[u8]) -> Reaches<'_> {
        self.decl().reaches(args)
    }
}

/// The memory behind the pointers of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlatCall {
    ranges: Vec<Range>,
}

/// One range of the program's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    addr: u64,
    len: u64,
    flow: Flow,
    /// What stands there, if the kernel reads it. Shorter than `len` where the rest cannot be read.
    data: Vec<u8>,
}

impl Range {
    /// Where `[addr, addr + len)` lies in this range, or `None` if it does not lie in it wholly.
    fn locate(&self, addr: u64, len: u64) -> Option<u64> {
        let offset = addr.checked_sub(self.addr)?;
        (offset.checked_add(len)? <= self.len).then_some(offset)
    }
}

/// Why the writes of a call could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The program's memory cannot be written: `EFAULT`.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The device wrote where the call declares nothing to be written: it is broken or hostile.
    #[error("the device wrote {len} bytes at {addr:#x}, where the call has no memory to write")]
    Undeclared {
        /// First byte.
        addr: u64,
        /// Length in bytes.
        len: usize,
    },
}

impl FlatCall {
    /// Gathers what a call may read, and notes what it may write.
    ///
    /// `args` is the argument struct as the program passed it. Memory that cannot be read is left out, to be a
    /// fault when the device touches it. A length that the kernel refuses before it touches the memory gathers
    /// nothing.
    #[must_use]
    pub fn collect(call: impl Declared, args: &[u8], mem: &dyn UserMem) -> FlatCall {
        let mut flat = FlatCall::declare(call, args);
        for range in flat.ranges.iter_mut().filter(|range| range.flow.reads()) {
            range.data = gather(range.addr, range.len, mem);
        }
        flat
    }

    /// The ranges of a call without their contents: enough to [`apply`](FlatCall::apply) what a device wrote.
    #[must_use]
    pub fn declare(call: impl Declared, args: &[u8]) -> FlatCall {
        let pointers = call.reaches(args).flat_map(|reach| reach.pointers);
        let ranges = pointers.filter_map(|pointer| {
            let extent = pointer.extent(args).ok().filter(|extent| extent.len > 0)?;
            Some(Range { addr: extent.addr, len: extent.len, flow: pointer.flow, data: Vec::new() })
        });
        FlatCall { ranges: ranges.collect() }
    }

    /// The descriptors that a call with these arguments passes in: in the arguments themselves, then in the
    /// arrays that were gathered.
    #[must_use]
    pub fn descriptors(&self, call: impl Declared, args: &[u8]) -> Vec<i32> {
        let mut found = Vec::new();
        for reach in call.reaches(args) {
            for fd in reach.fds.iter().filter(|fd| fd.flow.reads()) {
                match fd.place {
                    FdPlace::Args(field) => found.push(to_fd(field.get(args))),
                    FdPlace::Element { pointer, field } => {
                        let Some(pointer) = reach.pointers.get(pointer) else { continue };
                        let Length::Array { stride: Stride::Bytes(stride), .. } = pointer.length else {
                            continue;
                        };
                        let stride = usize::try_from(stride).unwrap_or(usize::MAX).max(1);
                        let elements = self.data_at(pointer.addr.get(args)).chunks_exact(stride);
                        found.extend(elements.map(|element| to_fd(field.get(element))));
                    }
                }
            }
        }
        found
    }

    /// Whether the call reaches no memory: there is nothing to be carried.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes of all memory that the call may write.
    #[must_use]
    pub fn writable_len(&self) -> u64 {
        let writable = self.ranges.iter().filter(|range| range.flow.writes());
        writable.fold(0, |sum, range| sum.saturating_add(range.len))
    }

    /// Whether the call declares all of `[addr, addr + len)` to be written.
    fn may_write(&self, addr: u64, len: u64) -> bool {
        self.ranges.iter().any(|range| range.flow.writes() && range.locate(addr, len).is_some())
    }

    /// What was gathered at `addr`.
    fn data_at(&self, addr: u64) -> &[u8] {
        let range = self.ranges.iter().find(|range| range.addr == addr && range.flow.reads());
        range.map(|range| range.data.as_slice()).unwrap_or_default()
    }

    /// Puts what the device wrote into the program's memory, in the order in which it was written.
    ///
    /// # Errors
    /// At the first write that faults or that the call does not declare; the ones before it are done, as when
    /// the kernel faults. Writes that are not declared are never made.
    pub fn apply(&self, writes: &FlatWrites, mem: &dyn UserMem) -> Result<(), ApplyError> {
        for (addr, data) in &writes.list {
            if !self.may_write(*addr, data.len() as u64) {
                return Err(ApplyError::Undeclared { addr: *addr, len: data.len() });
            }
            mem.write(*addr, data)?;
        }
        Ok(())
    }
}

/// A descriptor number: the low 32 bits, as the kernel takes them.
fn to_fd(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// The longest readable prefix of `[addr, addr + len)`.
fn gather(addr: u64, len: u64, mem: &dyn UserMem) -> Vec<u8> {
    let mut data = Vec::new();
    while (data.len() as u64) < len {
        let left = len - data.len() as u64;
        let step = usize::try_from(left).unwrap_or(STEP).min(STEP);
        if !extend(&mut data, addr, step, mem) {
            extend_by_pages(&mut data, addr, step, mem);
            break;
        }
    }
    data
}

/// Appends the next `count` bytes of the range that starts at `addr`, or nothing if they cannot be read.
fn extend(data: &mut Vec<u8>, addr: u64, count: usize, mem: &dyn UserMem) -> bool {
    let start = data.len();
    let Some(from) = addr.checked_add(start as u64) else { return false };
    data.resize(start + count, 0);
    let read = data.get_mut(start..).is_some_and(|buf| mem.read(from, buf).is_ok());
    if !read {
        data.truncate(start);
    }
    read
}

/// Appends up to `count` bytes, page by page, as far as they can be read.
fn extend_by_pages(data: &mut Vec<u8>, addr: u64, count: usize, mem: &dyn UserMem) {
    let end = data.len() + count;
    while data.len() < end {
        let next = addr.wrapping_add(data.len() as u64);
        let to_page_end = usize::try_from(PAGE - next % PAGE).unwrap_or(count);
        if !extend(data, addr, to_page_end.min(end - data.len()), mem) {
            break;
        }
    }
}

/// What a device wrote into the memory of a call, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlatWrites {
    list: Vec<(u64, Vec<u8>)>,
}

impl FlatWrites {
    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Each write, for whoever has to change what the device says on the way: its address and its bytes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut [u8])> {
        self.list.iter_mut().map(|(addr, data)| (*addr, data.as_mut_slice()))
    }

    /// First byte of the last write, and the byte after it.
    fn last_end(&self) -> Option<(u64, u64)> {
        let (addr, data) = self.list.last()?;
        Some((*addr, addr.checked_add(data.len() as u64)?))
    }

    /// Appends to the last write.
    fn extend_last(&mut self, more: &[u8]) {
        if let Some((_, data)) = self.list.last_mut() {
            data.extend_from_slice(more);
        }
    }
}

#[cfg(test)]
mod tests;
