//! Memory of the program that GPUs reach (userptr): a guest blob takes its place, which the host maps at the same address.
//!
//! A stock guest kernel shares no memory that it did not allocate for a blob, so the pages change: contents are kept, and
//! the library's own allocations, which nobody has used yet, have none. What a program stores into the range from another thread
//! while it is being shared may be lost; a program that does that has no right to expect anything natively either, as long as
//! the call has not returned.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Errno;
use protocol::kfd::{Fault, Mapping, Shared, UserMem};
use protocol::wire::Request;
use protocol::wire::structs::Range;
use rustix::mm::{
    Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous, mremap_fixed, munmap,
};

use super::calls::Calls;
use super::device::GuestBlob;
use super::link::PAGE;
use super::mem::OwnMemory;
use super::view::View;
use super::vma;
use crate::errno_of;

/// What is shared.
#[derive(Default)]
pub(super) struct Sharing(Mutex<Table>);

/// What is shared, while nobody else changes it.
pub(super) struct Locked<'a> {
    calls: &'a Arc<Calls>,
    table: MutexGuard<'a, Table>,
}

#[derive(Default)]
struct Table {
    /// By first address; they do not overlap.
    ranges: BTreeMap<u64, Alias>,
    /// First address of the range behind KFD's handle of a buffer.
    handles: HashMap<u64, u64>,
}

/// A blob that is the program's memory, and the host's, at one address.
struct Alias {
    len: u64,
    blob: Box<dyn GuestBlob>,
    /// Buffers of KFD that use it.
    users: usize,
}

impl Sharing {
    /// Takes the table.
    pub(super) fn lock<'a>(&'a self, calls: &'a Arc<Calls>) -> Locked<'a> {
        Locked { calls, table: self.0.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// The program's memory as a call reaches it: the kernel copies nothing from or to a driver's mapping, so what has become a blob is
/// reached through that.
pub(super) struct Reached<'a> {
    /// How the rest is reached.
    pub(super) own: &'a dyn UserMem,
    pub(super) sharing: &'a Sharing,
}

impl Reached<'_> {
    /// A blob that has all of a range, and where the range begins in it.
    fn blob(&self, addr: u64, len: usize) -> Option<(View, usize)> {
        let table = self.sharing.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, alias) = table.ranges.range(..=addr).next_back()?;
        let (offset, len) = (addr - start, u64::try_from(len).ok()?);
        let inside = offset.checked_add(len).is_some_and(|end| end <= alias.len);
        let mapping = inside.then(|| alias.blob.mapping())?.ok()?;
        Some((View::new(&mapping).ok()?, usize::try_from(offset).ok()?))
    }
}

impl UserMem for Reached<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.own.read(addr, buf).or_else(|fault| {
            let read = self.blob(addr, buf.len()).is_some_and(|(view, offset)| view.read(offset, buf));
            if read { Ok(()) } else { Err(fault) }
        })
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        self.own.write(addr, buf).or_else(|fault| {
            let written = self.blob(addr, buf.len()).is_some_and(|(view, offset)| view.write(offset, buf));
            if written { Ok(()) } else { Err(fault) }
        })
    }

    fn share(&self, addr: u64, len: u64, writable: bool) -> Result<Vec<Shared>, Errno> {
        self.own.share(addr, len, writable)
    }
}

impl Locked<'_> {
    /// Makes a range of whole pages memory that the host reaches, or finds it in what is. Gives the first address of that, for
    /// [`Locked::name`] or [`Locked::undo`].
    ///
    /// # Errors
    /// `EFAULT`, `EPERM` and `EOPNOTSUPP` for memory that cannot be ([`vma::check_own`]); `EINVAL` for a range that overlaps
    /// one; `ENOMEM`; those of the call.
    pub(super) fn share(&mut self, start: u64, len: u64) -> Result<u64, Errno> {
        let end = start.checked_add(len).ok_or(Errno::EFAULT)?;
        let before = self.table.ranges.range_mut(..end).next_back();
        if let Some((&first, alias)) = before
            && first + alias.len > start
        {
            if first <= start && end <= first + alias.len {
                alias.users += 1;
                return Ok(first);
            }
            log::warn!("{len} bytes at {start:#x} are shared with the GPUs in part already");
            return Err(Errno::EINVAL);
        }
        let blob = self.make(start, len)?;
        self.table.ranges.insert(start, Alias { len, blob, users: 1 });
        Ok(start)
    }

    /// The call failed: the range is as it was.
    pub(super) fn undo(&mut self, start: u64) {
        self.leave(start, |calls, start, alias| {
            unalias(calls, start, alias.len);
            restore(start, alias.len, &*alias.blob);
        });
    }

    /// The call succeeded: KFD knows the buffer by this handle.
    pub(super) fn name(&mut self, start: u64, handle: u64) {
        if let Some(old) = self.table.handles.insert(handle, start) {
            // The host is broken or hostile; the buffer of the old one is what stays.
            log::error!("the host gives the handle {handle:#x} twice");
            self.leave(old, |_, _, _| {});
        }
    }

    /// KFD is asked to free a buffer, and gives its handle to another one as soon as it has: from now on the handle is nobody's. Gives
    /// the first address, if it was such memory, for [`Locked::freed`], or for [`Locked::name`] if KFD refuses.
    pub(super) fn unname(&mut self, handle: u64) -> Option<u64> {
        self.table.handles.remove(&handle)
    }

    /// KFD has freed a buffer: the host lets go of its memory. What is mapped in the program stays until it unmaps it.
    pub(super) fn freed(&mut self, start: u64) {
        self.leave(start, |calls, start, alias| unalias(calls, start, alias.len));
    }

    /// One user less of a range; `end` is for the last.
    fn leave(&mut self, start: u64, end: impl FnOnce(&Arc<Calls>, u64, &Alias)) {
        let Some(alias) = self.table.ranges.get_mut(&start) else { return };
        alias.users -= 1;
        if alias.users == 0
            && let Some(alias) = self.table.ranges.remove(&start)
        {
            end(self.calls, start, &alias);
        }
    }

    /// Puts a blob in the place of memory, here and on the host.
    fn make(&self, start: u64, len: u64) -> Result<Box<dyn GuestBlob>, Errno> {
        vma::check_own(start, len)?;
        let blob = self.calls.device().create_blob(len)?;
        let mapping = blob.mapping()?;
        if mapping.len < len {
            return Err(Errno::EIO);
        }
        let used = vma::used_pages(start, len);
        if !used.is_empty() {
            keep(&used, start, &View::new(&mapping)?)?;
        }
        replace(start, len, &mapping)?;
        let addresses = Range { base: start.into(), len: len.into() };
        let alias = Request::Alias { resource: blob.resource(), offset: 0, addresses };
        if let Err(errno) = self.calls.tell(&alias) {
            log::warn!("the host cannot share {len} bytes at {start:#x}: {errno}");
            restore(start, len, &*blob);
            return Err(errno);
        }
        Ok(blob)
    }
}

fn unalias(calls: &Arc<Calls>, start: u64, len: u64) {
    let addresses = Range { base: start.into(), len: len.into() };
    if let Err(errno) = calls.tell(&Request::Unalias { addresses }) {
        // Its addresses cannot be shared again.
        log::warn!("the host does not let go of {len} bytes at {start:#x}: {errno}");
    }
}

/// Copies pages into the blob that takes their place.
fn keep(pages: &[u64], start: u64, view: &View) -> Result<(), Errno> {
    let mut bytes = [0; PAGE as usize];
    for &page in pages {
        OwnMemory.read(page, &mut bytes)?;
        let offset = usize::try_from(page - start).map_err(|_| Errno::EFAULT)?;
        if !view.write(offset, &bytes) {
            return Err(Errno::EIO);
        }
    }
    Ok(())
}

/// Maps a blob over a range of the program.
fn replace(start: u64, len: u64, mapping: &Mapping) -> Result<(), Errno> {
    let (at, bytes) = place(start, len)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: `vma::check_own` found private memory there, which the program (the library's own engine, or whoever registers
    // memory) gives away to be shared; its contents are in the blob. No Rust reference is known to lead there: the engine gives
    // the address out after this call alone.
    unsafe { mmap(at, bytes, access, flags, &mapping.fd, mapping.offset) }.map_err(errno_of)?;
    dont_fork(at, bytes);
    Ok(())
}

/// Puts memory of this process's own back in the place of a blob, with what is in that.
fn restore(start: u64, len: u64, blob: &dyn GuestBlob) {
    if let Err(errno) = try_restore(start, len, blob) {
        log::error!("{len} bytes at {start:#x} cannot be had back from the GPUs: {errno}");
    }
}

fn try_restore(start: u64, len: u64, blob: &dyn GuestBlob) -> Result<(), Errno> {
    let (at, bytes) = place(start, len)?;
    let view = View::new(&blob.mapping()?)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let fresh = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
    let fresh = fresh.map_err(errno_of)?;
    let (mut page, to) = ([0; PAGE as usize], fresh.expose_provenance() as u64);
    for offset in (0..bytes).step_by(PAGE as usize) {
        let read = view.read(offset, &mut page);
        // Fresh memory is zeroed: what is zero stays unused.
        if read && page.iter().any(|&byte| byte != 0) {
            OwnMemory.write(to + offset as u64, &page)?;
        }
    }
    // SAFETY: `fresh` was mapped above with this length and nothing refers to it; the target is the blob's mapping, which
    // `replace` made.
    let moved = unsafe { mremap_fixed(fresh, bytes, bytes, MremapFlags::MAYMOVE, at) };
    if let Err(error) = moved {
        // SAFETY: as above; it has not moved.
        let _freed = unsafe { munmap(fresh, bytes) };
        return Err(errno_of(error));
    }
    dont_fork(at, bytes);
    Ok(())
}

/// Forked children do not get it: it is no memory of theirs.
fn dont_fork(at: *mut c_void, bytes: usize) {
    // SAFETY: a range that was just mapped; the advice changes nothing in this process.
    if let Err(error) = unsafe { madvise(at, bytes, Advice::LinuxDontFork) } {
        log::debug!("{bytes} bytes of shared memory are there in forked children too: {error}");
    }
}

fn place(start: u64, len: u64) -> Result<(*mut c_void, usize), Errno> {
    let at = usize::try_from(start).map_err(|_| Errno::EFAULT)?;
    let bytes = usize::try_from(len).map_err(|_| Errno::ENOMEM)?;
    Ok((std::ptr::with_exposed_provenance_mut(at), bytes))
}

#[cfg(test)]
mod tests;
