//! One process's files on the host's devices.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use protocol::kfd::args::{AcquireVmArgs, AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs};
use protocol::kfd::constants::{AllocFlags, MmapOffset, MmapType};
use protocol::kfd::flat::{ApplyError, Declared, FlatCall, FlatWrites};
use protocol::kfd::ioctl::Extent;
use protocol::kfd::{Call, FileId, Ioctl, Mapping, Node, PassedFd, Process, Transfer, UserMem, request_size};
use protocol::wire::area::INLINE;
use protocol::wire::structs::{Descriptor, IoctlAnswer as AnswerHead, Range};
use protocol::wire::{Answer, IoctlAnswer, IoctlCall, MESSAGE_MAX, Request};
use protocol::{Declaration, Errno};
use zerocopy::FromBytes;

use super::calls::{Encoded, Wait};
use super::device::GuestBlob;
use super::link::{Link, PAGE};
use super::sharing::{Reached, Sharing};
use super::view::View;
use super::window::{Shown, Window};

/// Bytes of an answer beside what a call writes: its pieces have heads of their own.
const ANSWER_MORE: usize = 4096;

/// How long a call that may wait is kept back if the host has as many that wait as it takes.
const WAIT_FOR_ROOM: Duration = Duration::from_millis(1);

/// This process, as the host's worker knows it.
pub(super) struct VirtioProcess {
    link: Arc<Link>,
    files: RwLock<BTreeMap<FileId, Node>>,
    sharing: Sharing,
    doorbells: Mutex<Vec<Doorbells>>,
    window: Window,
    /// Whether it was told that memory outside of the addresses cannot be shared.
    told: AtomicBool,
}

/// A page for doorbells, kept as long as the process: GPUs' queues come and go.
struct Doorbells {
    file: FileId,
    offset: u64,
    mapping: Mapping,
    _kept: Kept,
}

/// What a page for doorbells is.
enum Kept {
    /// Guest memory, which the host looks at.
    Relayed { _blob: Box<dyn GuestBlob> },
    /// The doorbells themselves.
    Direct { _shown: Shown },
}

impl VirtioProcess {
    pub(super) fn new(link: Arc<Link>) -> Self {
        let (files, sharing, doorbells) = (RwLock::default(), Sharing::default(), Mutex::default());
        Self { link, files, sharing, doorbells, window: Window::default(), told: AtomicBool::new(false) }
    }

    /// ALLOC_MEMORY_OF_GPU of memory of this process.
    fn alloc_shared(
        &self,
        ioctl: &Asked,
        extent: Extent,
        args: &mut [u8],
        call: &dyn Call,
    ) -> Result<i32, Errno> {
        let aql = AllocMemoryOfGpuArgs::read_from_prefix(args)
            .is_ok_and(|(args, _)| AllocFlags(args.flags).contains(AllocFlags::AQL_QUEUE_MEM));
        // A ring for AQL queues is mapped twice for the GPU, and is half as long as its addresses.
        let len = if aql { extent.len / 2 } else { extent.len };
        let pages = len.checked_next_multiple_of(PAGE).filter(|&len| len > 0);
        let Some(len) = pages.filter(|_| extent.addr != 0 && extent.addr.is_multiple_of(PAGE)) else {
            // Nothing that could be shared: the device says what is wrong.
            return self.execute(ioctl, args, call);
        };
        if !self.link.addresses.hold(extent.addr, len) {
            self.tell_not_shared(extent);
            return Err(Errno::EOPNOTSUPP);
        }
        let mut sharing = self.sharing.lock(&self.link.calls);
        let start = sharing.share(extent.addr, len)?;
        let result = self.execute(ioctl, args, call);
        match AllocMemoryOfGpuArgs::read_from_prefix(args) {
            Ok((args, _)) if result.is_ok() => sharing.name(start, args.handle),
            _ => sharing.undo(start),
        }
        result
    }

    /// FREE_MEMORY_OF_GPU.
    fn free(&self, ioctl: &Asked, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let Ok((FreeMemoryOfGpuArgs { handle }, _)) = FreeMemoryOfGpuArgs::read_from_prefix(args) else {
            return self.execute(ioctl, args, call);
        };
        // Before: another thread's buffer may have the handle before this thread hears that it is free.
        let start = self.sharing.lock(&self.link.calls).unname(handle);
        let seen = self.window.take(handle);
        let result = self.execute(ioctl, args, call);
        if let Some(start) = start {
            let mut sharing = self.sharing.lock(&self.link.calls);
            match result {
                Ok(_) => sharing.freed(start),
                Err(_) => sharing.name(start, handle),
            }
        }
        if let (Err(_), Some(buffer)) = (result, seen) {
            self.window.put_back(handle, buffer);
        }
        result
    }

    /// ALLOC_MEMORY_OF_GPU of memory of the host's.
    fn alloc(&self, ioctl: &Asked, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let value = self.execute(ioctl, args, call)?;
        if self.link.window.is_some()
            && let Ok((args, _)) = AllocMemoryOfGpuArgs::read_from_prefix(args)
        {
            self.window.allocated(&args);
        }
        Ok(value)
    }

    /// ACQUIRE_VM.
    fn acquire_vm(&self, ioctl: &Asked, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let value = self.execute(ioctl, args, call)?;
        if let Ok((args, _)) = AcquireVmArgs::read_from_prefix(args)
            && let Ok(number) = i32::try_from(args.drm_fd)
            && let Ok(PassedFd::File(file)) = call.descriptor(number)
        {
            self.window.acquired(file, &args);
        }
        Ok(value)
    }

    /// Once aloud: programs that register memory do it all the time.
    fn tell_not_shared(&self, extent: Extent) {
        let Extent { addr, len } = extent;
        let again = self.told.swap(true, Ordering::Relaxed);
        let level = if again { log::Level::Debug } else { log::Level::Warn };
        log::log!(
            level,
            "{len} bytes at {addr:#x} are the program's own memory, which a virtual machine cannot share with the GPUs: \
             registering and locking memory fails, copies go through memory that was allocated for GPUs"
        );
    }

    /// Has the host make the call.
    fn execute(&self, asked: &Asked, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let Asked { file, request, declaration } = *asked;
        let manner = Manner::of(declaration, args);
        if manner.makes_descriptor {
            log::warn!(
                "request {request:#x} makes a descriptor, which cannot come out of a virtual machine's host"
            );
            return Err(Errno::EOPNOTSUPP);
        }
        // Not for ALLOC_MEMORY_OF_GPU, during which the table is locked: it names no memory.
        let mem = Reached { own: call.mem(), sharing: &self.sharing };
        let flat = FlatCall::collect(declaration, args, &mem);
        let descriptors = descriptors(flat.descriptors(declaration, args), call)?;
        let memory = if flat.is_empty() { Vec::new() } else { flat.encode() };
        let room = size_of::<AnswerHead>() + args.len() + written(&flat);
        let wait = match manner {
            Manner { blocks: true, .. } => Wait::Blocking(call.interrupt()),
            Manner { slow: true, .. } => Wait::Long,
            _ => Wait::Short,
        };
        let message = IoctlCall { file, request, args, memory: &memory, descriptors: &descriptors };
        let message = Encoded::new(&Request::Ioctl(message));
        let result = self.link.calls.send(message, room, wait, |answer| match answer {
            Answer::Ioctl(IoctlAnswer { result, args: after, writes }) if after.len() == args.len() => {
                args.copy_from_slice(after);
                apply(&flat, writes, &mem)?;
                value(result)
            }
            _ => Err(Errno::EPROTO),
        });
        if manner.blocks && result == Err(Errno::EAGAIN) {
            // The host has as many calls that wait as it takes. Those who make calls again at once wait a little.
            thread::sleep(WAIT_FOR_ROOM);
        }
        result
    }

    fn node(&self, file: FileId) -> Result<Node, Errno> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&file).copied().ok_or(Errno::EBADF)
    }

    /// A page for the doorbells of a GPU: the doorbells themselves in the window, or one that the worker looks at.
    fn map_doorbells(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        let mut all = self.doorbells.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().find(|one| (one.file, one.offset, one.mapping.len) == (file, offset, len));
        if let Some(known) = known {
            return Ok(known.mapping.clone());
        }
        let (mapping, kept) = match self.link.window {
            Some(blob_id) => {
                let shown = Shown::new(&self.link.calls, blob_id, file, offset, len)?;
                (shown.mapping().clone(), Kept::Direct { _shown: shown })
            }
            None => self.relayed(file, offset, len)?,
        };
        all.push(Doorbells { file, offset, mapping: mapping.clone(), _kept: kept });
        Ok(mapping)
    }

    fn relayed(&self, file: FileId, offset: u64, len: u64) -> Result<(Mapping, Kept), Errno> {
        let blob = self.link.calls.device().create_blob(len)?;
        let mapping = blob.mapping()?;
        // No doorbell has been rung.
        View::new(&mapping)?.fill(0xff);
        let place = Range { base: offset.into(), len: len.into() };
        self.link.calls.tell(&Request::Doorbells { file, place, resource: blob.resource() })?;
        Ok((mapping, Kept::Relayed { _blob: blob }))
    }
}

impl Process for VirtioProcess {
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        self.link.own_process()?;
        let file = self.link.calls.call(&Request::Open(node), |answer| match answer {
            Answer::Open(file) => Ok(file),
            _ => Err(Errno::EPROTO),
        })?;
        self.files.write().unwrap_or_else(PoisonError::into_inner).insert(file, node);
        Ok(file)
    }

    fn close(&self, file: FileId) {
        if self.link.own_process().is_err() {
            return;
        }
        let known = self.files.write().unwrap_or_else(PoisonError::into_inner).remove(&file);
        self.window.closed(file);
        if known.is_some()
            && let Err(errno) = self.link.calls.tell(&Request::Close(file))
        {
            log::debug!("the host does not close a file: {errno}");
        }
    }

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        self.link.own_process()?;
        self.link.calls.call(&Request::Transfer { file, request }, |answer| match answer {
            Answer::Transfer(transfer) => Ok(transfer),
            _ => Err(Errno::EPROTO),
        })
    }

    /// As of the host's KFD.
    ///
    /// # Errors
    /// `EBADF` in a forked child; `EINVAL` if `args` has not the size that the request names; `ENODEV` once there is no worker;
    /// `EOPNOTSUPP` for what cannot be in a virtual machine: descriptors of other files than the device's, new descriptors, and
    /// memory that the program did not get from this library; then the host's.
    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        self.link.own_process()?;
        if args.len() != request_size(request) {
            return Err(Errno::EINVAL);
        }
        let declaration = Declaration::of(request);
        let asked = Asked { file, request, declaration };
        let shared =
            declaration.reaches(args).flat_map(|reach| reach.shared).find_map(|range| range.extent(args));
        match (declaration, shared) {
            (Declaration::Kfd(Ioctl::AllocMemoryOfGpu), Some(extent)) => {
                self.alloc_shared(&asked, extent, args, call)
            }
            (_, Some(extent)) => {
                self.tell_not_shared(extent);
                Err(Errno::EOPNOTSUPP)
            }
            (Declaration::Kfd(Ioctl::AllocMemoryOfGpu), None) => self.alloc(&asked, args, call),
            (Declaration::Kfd(Ioctl::FreeMemoryOfGpu), None) => self.free(&asked, args, call),
            (Declaration::Kfd(Ioctl::AcquireVm), None) => self.acquire_vm(&asked, args, call),
            (_, None) => self.execute(&asked, args, call),
        }
    }

    /// Doorbells; where the device has a window, memory of GPUs for the CPU, and system memory that the host allocates. Other
    /// memory of the host is not to be seen in the guest.
    ///
    /// # Errors
    /// `EBADF`; `EINVAL` for a range that no file has; `EOPNOTSUPP`; `ENOMEM` for a full window; those of the calls.
    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        self.link.own_process()?;
        let node = self.node(file)?;
        if len == 0 || !len.is_multiple_of(PAGE) || offset.checked_add(len - 1).is_none() {
            return Err(Errno::EINVAL);
        }
        // The worker gives doorbells the kernel's offsets, whatever its KFD calls them.
        if node == Node::Kfd && MmapOffset(offset).kind() == MmapType::DOORBELL {
            return self.map_doorbells(file, offset, len);
        }
        if let (Some(blob_id), Node::Render(_)) = (self.link.window, node) {
            return self.window.map(&self.link.calls, blob_id, file, offset, len);
        }
        log::debug!(
            "{len} bytes at {offset:#x} of {node:?} are the host's and not to be seen in this virtual machine"
        );
        Err(Errno::EOPNOTSUPP)
    }
}

/// A call that was asked for.
struct Asked {
    file: FileId,
    request: u32,
    declaration: Declaration,
}

/// What is known of a call before it is made.
#[derive(Default)]
struct Manner {
    blocks: bool,
    slow: bool,
    makes_descriptor: bool,
}

impl Manner {
    fn of(declaration: Declaration, args: &[u8]) -> Self {
        let mut manner = Self::default();
        for reach in declaration.reaches(args) {
            manner.blocks |= reach.blocking;
            manner.slow |= reach.slow;
            manner.makes_descriptor |= reach.fds.iter().any(|fd| fd.flow.writes());
        }
        manner
    }
}

/// The files that the arguments name. One that is not open is left out, and `EBADF` if the device looks at it.
fn descriptors(numbers: Vec<i32>, call: &dyn Call) -> Result<Vec<Descriptor>, Errno> {
    let mut found = Vec::with_capacity(numbers.len());
    for number in numbers {
        match call.descriptor(number) {
            Ok(PassedFd::File(FileId(file))) => {
                let (number, file) = (number.into(), file.into());
                found.push(Descriptor { number, file, ..Descriptor::default() });
            }
            Ok(PassedFd::Foreign(_)) => {
                log::warn!(
                    "descriptor {number} is not of the GPUs: it cannot be passed out of a virtual machine"
                );
                return Err(Errno::EOPNOTSUPP);
            }
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Room for what a call writes, as much as there can be.
fn written(flat: &FlatCall) -> usize {
    let most = MESSAGE_MAX - INLINE;
    match flat.writable_len() {
        0 => 0,
        len => usize::try_from(len)
            .map_or(most, |len| len.saturating_mul(2).saturating_add(ANSWER_MORE).min(most)),
    }
}

/// Puts what the device wrote into the program's memory.
fn apply(flat: &FlatCall, writes: &[u8], mem: &dyn UserMem) -> Result<(), Errno> {
    if writes.is_empty() {
        return Ok(());
    }
    let writes = FlatWrites::decode(writes).map_err(|error| {
        log::error!("the host's worker sends writes that are none: {error}");
        Errno::EPROTO
    })?;
    flat.apply(&writes, mem).map_err(|error| match error {
        ApplyError::Fault(_) => Errno::EFAULT,
        ApplyError::Undeclared { .. } => {
            log::error!("the host's worker writes where a call has no memory: {error}");
            Errno::EPROTO
        }
    })
}

/// What `ioctl` returns.
fn value(result: i32) -> Result<i32, Errno> {
    if result >= 0 {
        return Ok(result);
    }
    Err(result.checked_neg().and_then(Errno::from_raw).unwrap_or(Errno::EPROTO))
}

#[cfg(test)]
mod tests;
