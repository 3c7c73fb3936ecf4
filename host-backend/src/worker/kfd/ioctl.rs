//! IOCTL: a call of the guest becomes one of this process.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::kfd::args::{
    AllocMemoryOfGpuArgs, CreateQueueArgs, DestroyQueueArgs, FreeMemoryOfGpuArgs, GetAvailableMemoryArgs,
    GetProcessAperturesArgs, GetProcessAperturesNewArgs, UpdateQueueArgs, WaitEventsArgs,
};
use protocol::kfd::constants::{AllocFlags, MmapOffset, MmapType, WaitResult};
use protocol::kfd::flat::{FlatCall, FlatMem};
use protocol::kfd::types::ProcessDeviceApertures;
use protocol::kfd::{
    Call, Fault, FileId, Interrupt, Ioctl, PassedFd, Process, Shared, SharedBacking, UserMem,
};
use protocol::wire::IoctlCall;
use protocol::wire::structs::Descriptor;
use protocol::{Declaration, Errno};
use zerocopy::{FromZeros, IntoBytes as _};

use super::grants::{Grants, buffer_bytes};
use super::mapping::PAGE;
use super::policy::{Policy, put, typed};
use super::relay::{Queue, Relay};
use super::space::{AddressRange, Pin, Space};
use crate::worker::allowance::Portion;

/// What a context is to its KFD.
pub(super) struct Client {
    // Dropped in this order: nothing rings doorbells of queues that are gone, queues stop before memory goes.
    pub(super) relay: Relay,
    pub(super) process: Arc<dyn Process>,
    buffers: Mutex<HashMap<u64, Held>>,
    queues: AtomicU32,
    policy: Policy,
    grants: Grants,
    pub(super) space: Arc<Space>,
}

/// What a buffer keeps until it is freed.
struct Held {
    /// Registered memory stays as it is.
    _pin: Option<Pin>,
    /// Memory counts.
    _portion: Option<Portion>,
}

/// What an ioctl did.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What `ioctl(2)` returns, or the negative errno.
    pub(super) result: i32,
    /// The argument struct after it.
    pub(super) args: Vec<u8>,
    /// What it wrote, encoded.
    pub(super) writes: Vec<u8>,
}

impl Client {
    pub(super) fn new(
        process: Arc<dyn Process>,
        space: Arc<Space>,
        relay: Relay,
        policy: Policy,
        grants: Grants,
    ) -> Client {
        let (buffers, queues) = (Mutex::default(), AtomicU32::new(0));
        Client { relay, process, buffers, queues, policy, grants, space }
    }

    /// Makes the call.
    ///
    /// # Errors
    /// `EPROTO` for gathered memory that cannot be decoded, `EINVAL` for an argument struct of another size than the request
    /// has: then it was not made.
    pub(super) fn ioctl(&self, ioctl: &IoctlCall<'_>, interrupt: &Interrupt) -> Result<Outcome, Errno> {
        let flat = match ioctl.memory {
            [] => FlatCall::default(),
            memory => FlatCall::decode(memory).map_err(|error| {
                log::debug!("memory of request {:#x}: {error}", ioctl.request);
                Errno::EPROTO
            })?,
        };
        let mut args = ioctl.args.to_vec();
        let mem = CallMem { flat: FlatMem::new(flat), space: &self.space };
        let call = GuestCall { mem, descriptors: ioctl.descriptors, interrupt };
        let result = self.checked(ioctl, &mut args, &call)?;
        let writes = call.mem.flat.into_writes();
        let result = result.unwrap_or_else(|errno| -errno.raw());
        Ok(Outcome { result, args, writes: writes.encode() })
    }

    /// Makes a wait for events that does not sleep; `None` if it would. What has happened already needs no thread that waits,
    /// and a wait that times out leaves nothing behind.
    ///
    /// # Errors
    /// As [`Client::ioctl`].
    pub(super) fn try_wait(&self, ioctl: &IoctlCall<'_>) -> Result<Option<Outcome>, Errno> {
        if Declaration::of(ioctl.request) != Declaration::Kfd(Ioctl::WaitEvents) {
            return Ok(None);
        }
        let asked = typed::<WaitEventsArgs>(ioctl.args);
        let mut args = ioctl.args.to_vec();
        put(&mut args, &WaitEventsArgs { timeout: 0, ..asked });
        let mut outcome = self.ioctl(&IoctlCall { args: &args, ..*ioctl }, &Interrupt::new())?;
        let after = typed::<WaitEventsArgs>(&outcome.args);
        let would_sleep = outcome.result == 0 && WaitResult(after.wait_result) == WaitResult::TIMEOUT;
        if would_sleep && asked.timeout != 0 {
            return Ok(None);
        }
        put(&mut outcome.args, &WaitEventsArgs { timeout: asked.timeout, ..after });
        Ok(Some(outcome))
    }

    /// The inner result is the ioctl's.
    fn checked(
        &self,
        ioctl: &IoctlCall<'_>,
        args: &mut [u8],
        call: &GuestCall<'_>,
    ) -> Result<Result<i32, Errno>, Errno> {
        // The device's errors come first, as in the kernel: ENOTTY for what it does not have.
        let transfer = match self.process.transfer(ioctl.file, ioctl.request) {
            Ok(transfer) => transfer,
            Err(errno) => return Ok(Err(errno)),
        };
        if transfer.size != args.len() {
            log::debug!("{} bytes of arguments for request {:#x}", args.len(), ioctl.request);
            return Err(Errno::EINVAL);
        }
        if !transfer.from_user {
            args.fill(0);
        }
        let declaration = Declaration::of(ioctl.request);
        if let Err(errno) = self.policy.check(declaration, args) {
            return Ok(Err(errno));
        }
        let make = |args: &mut [u8]| self.process.ioctl(ioctl.file, ioctl.request, args, call);
        Ok(match declaration {
            Declaration::Kfd(Ioctl::AllocMemoryOfGpu) => self.alloc(args, make),
            Declaration::Kfd(Ioctl::FreeMemoryOfGpu) => self.free(args, make),
            Declaration::Kfd(Ioctl::AvailableMemory) => self.available(args, make),
            Declaration::Kfd(Ioctl::CreateQueue) => self.create_queue(args, make),
            Declaration::Kfd(Ioctl::UpdateQueue) => self.update_queue(args, make),
            Declaration::Kfd(Ioctl::DestroyQueue) => self.destroy_queue(args, make),
            Declaration::Kfd(Ioctl::GetProcessApertures) => self.apertures(args, make),
            Declaration::Kfd(Ioctl::GetProcessAperturesNew) => self.apertures_new(ioctl, args, call),
            _ => make(args),
        })
    }

    /// Memory that is registered stays aliased until it is freed, and memory that contexts share is counted until then.
    fn alloc(&self, args: &mut [u8], make: impl Fn(&mut [u8]) -> Result<i32, Errno>) -> Result<i32, Errno> {
        let asked = typed::<AllocMemoryOfGpuArgs>(args);
        let registers = AllocFlags(asked.flags).contains(AllocFlags::USERPTR);
        let pin =
            if registers { Some(self.space.pin(registered(&asked).ok_or(Errno::EINVAL)?)?) } else { None };
        if !self.policy.shows(asked.gpu_id) {
            // As KFD says of one that it does not have.
            return Err(Errno::EINVAL);
        }
        let portion = self.grants.buffer(&asked)?;
        let value = make(args)?;
        if pin.is_some() || portion.is_some() {
            let handle = typed::<AllocMemoryOfGpuArgs>(args).handle;
            let before = self.buffers().insert(handle, Held { _pin: pin, _portion: portion });
            if before.is_some() {
                log::error!("a bug: buffer {handle:#x} is given out twice");
            }
        }
        Ok(value)
    }

    fn free(&self, args: &mut [u8], make: impl Fn(&mut [u8]) -> Result<i32, Errno>) -> Result<i32, Errno> {
        let handle = typed::<FreeMemoryOfGpuArgs>(args).handle;
        // Taken out before: another thread may get the same handle as soon as it is free.
        let held = self.buffers().remove(&handle);
        let result = make(args);
        if let (Err(_), Some(held)) = (result, held) {
            self.buffers().insert(handle, held);
        }
        result
    }

    fn buffers(&self) -> MutexGuard<'_, HashMap<u64, Held>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// KFD's answer knows of this context alone where each has a software GPU of its own.
    fn available(
        &self,
        args: &mut [u8],
        make: impl Fn(&mut [u8]) -> Result<i32, Errno>,
    ) -> Result<i32, Errno> {
        let value = make(args)?;
        let mut answer = typed::<GetAvailableMemoryArgs>(args);
        answer.available = self.grants.available(answer.gpu_id, answer.available);
        put(args, &answer);
        Ok(value)
    }

    fn create_queue(
        &self,
        args: &mut [u8],
        make: impl Fn(&mut [u8]) -> Result<i32, Errno>,
    ) -> Result<i32, Errno> {
        self.grants.queue(&self.queues)?;
        let value = make(args).inspect_err(|_| {
            self.queues.fetch_sub(1, Ordering::Relaxed);
        })?;
        let mut made = typed::<CreateQueueArgs>(args);
        made.doorbell_offset = kernels_offset(&made);
        put(args, &made);
        if self.policy.window() {
            // The guest rings itself.
            return Ok(value);
        }
        // A pointer in memory of the host is not the guest's to write, so there is nothing to look at.
        let pin = |address| self.space.pin(AddressRange::new(address, 8)?).ok();
        let (write, read) = (pin(made.write_pointer_address), pin(made.read_pointer_address));
        self.relay.add(made.queue_id, Queue::new(&made, write, read));
        Ok(value)
    }

    fn update_queue(
        &self,
        args: &mut [u8],
        make: impl Fn(&mut [u8]) -> Result<i32, Errno>,
    ) -> Result<i32, Errno> {
        let value = make(args)?;
        let update = typed::<UpdateQueueArgs>(args);
        self.relay.update(update.queue_id, update.ring_size);
        Ok(value)
    }

    fn destroy_queue(
        &self,
        args: &mut [u8],
        make: impl Fn(&mut [u8]) -> Result<i32, Errno>,
    ) -> Result<i32, Errno> {
        let id = typed::<DestroyQueueArgs>(args).queue_id;
        // Before: its doorbell may be another queue's as soon as it is gone.
        let queue = self.relay.remove(id);
        let result = make(args);
        if result.is_ok() {
            self.queues.fetch_sub(1, Ordering::Relaxed);
        } else if let Some(queue) = queue {
            self.relay.put_back(id, queue);
        }
        result
    }

    fn apertures(
        &self,
        args: &mut [u8],
        make: impl Fn(&mut [u8]) -> Result<i32, Errno>,
    ) -> Result<i32, Errno> {
        let value = make(args)?;
        let mut answer = typed::<GetProcessAperturesArgs>(args);
        let count = usize::try_from(answer.num_of_nodes).unwrap_or(usize::MAX);
        let shown = self.shown(answer.process_apertures.iter().take(count));
        answer.num_of_nodes = u32::try_from(shown.len()).unwrap_or(0);
        answer.process_apertures = FromZeros::new_zeroed();
        for (to, from) in answer.process_apertures.iter_mut().zip(shown) {
            *to = from;
        }
        put(args, &answer);
        Ok(value)
    }

    /// KFD writes those of all its GPUs, of which the guest sees some.
    fn apertures_new(
        &self,
        ioctl: &IoctlCall<'_>,
        args: &mut [u8],
        call: &GuestCall<'_>,
    ) -> Result<i32, Errno> {
        const SIZE: usize = size_of::<ProcessDeviceApertures>();
        let mut asked = typed::<GetProcessAperturesNewArgs>(args);
        let room = usize::try_from(asked.num_of_nodes).unwrap_or(usize::MAX);
        // Compared with all nodes, those of processors too: the guest has one of them (`kfd_topology_get_num_devices`).
        if room > self.policy.gpus() + 1 {
            return Err(Errno::EINVAL);
        }
        let mut own = GetProcessAperturesNewArgs { num_of_nodes: 0, ..asked };
        let make = |own: &mut GetProcessAperturesNewArgs, mem: &Scratch| {
            let call = OwnCall { mem, call };
            self.process.ioctl(ioctl.file, ioctl.request, own.as_mut_bytes(), &call)
        };
        let mut value = make(&mut own, &Scratch::default())?;
        let mut shown = Vec::new();
        if own.num_of_nodes != 0 {
            let mem = Scratch::new(SIZE.saturating_mul(usize::try_from(own.num_of_nodes).unwrap_or(0)));
            own.kfd_process_device_apertures_ptr = Scratch::ADDRESS;
            value = make(&mut own, &mem)?;
            let bytes = mem.into_bytes();
            let list: Vec<_> = bytes.chunks_exact(SIZE).map(typed::<ProcessDeviceApertures>).collect();
            shown = self.shown(list.iter().take(usize::try_from(own.num_of_nodes).unwrap_or(0)));
        }
        if room != 0 {
            shown.truncate(room);
            for (address, apertures) in (asked.kfd_process_device_apertures_ptr..).step_by(SIZE).zip(&shown) {
                call.mem.write(address, apertures.as_bytes())?;
            }
        }
        asked.num_of_nodes = u32::try_from(shown.len()).unwrap_or(0);
        put(args, &asked);
        Ok(value)
    }

    /// Those of the GPUs that the guest sees, as it sees them.
    fn shown<'a>(
        &self,
        all: impl Iterator<Item = &'a ProcessDeviceApertures>,
    ) -> Vec<ProcessDeviceApertures> {
        let shown = all.filter(|apertures| self.policy.shows(apertures.gpu_id)).copied();
        let mut shown: Vec<ProcessDeviceApertures> = shown.collect();
        shown.iter_mut().for_each(|apertures| self.cut(apertures));
        shown
    }

    /// The guest picks addresses from GPUVM, which is its range here. LDS and scratch lie outside and stay.
    fn cut(&self, apertures: &mut ProcessDeviceApertures) {
        if apertures.gpuvm_limit == 0 {
            return;
        }
        let range = self.space.range();
        apertures.gpuvm_base = apertures.gpuvm_base.max(range.base);
        apertures.gpuvm_limit = apertures.gpuvm_limit.min(range.end() - 1);
    }
}

/// Bytes of a process's doorbells on a GPU (gfx9 and later).
const DOORBELLS: u64 = 8192;

/// Where a queue's doorbell is, as the kernel says it: kind and GPU, and the byte in the pages. The software GPU says its place
/// in the file behind `/dev/kfd`, which means nothing to a guest.
fn kernels_offset(made: &CreateQueueArgs) -> u64 {
    if MmapOffset(made.doorbell_offset).kind() == MmapType::DOORBELL {
        return made.doorbell_offset;
    }
    MmapOffset::new(MmapType::DOORBELL, made.gpu_id).0 | (made.doorbell_offset & (DOORBELLS - 1))
}

/// The pages that become the GPU's (`init_user_pages`).
fn registered(args: &AllocMemoryOfGpuArgs) -> Option<AddressRange> {
    AddressRange::new(args.mmap_offset & !(PAGE - 1), buffer_bytes(args)?)
}

/// One call, as far as the guest describes it.
struct GuestCall<'a> {
    mem: CallMem<'a>,
    descriptors: &'a [Descriptor],
    interrupt: &'a Interrupt,
}

impl Call for GuestCall<'_> {
    fn mem(&self) -> &dyn UserMem {
        &self.mem
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        let found = self.descriptors.iter().find(|descriptor| descriptor.number.get() == fd);
        found.map(|found| PassedFd::File(FileId(found.file.get()))).ok_or(Errno::EBADF)
    }

    /// A guest has no descriptors of the host.
    fn install(&self, _fd: OwnedFd) -> Result<i32, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    fn interrupt(&self) -> &Interrupt {
        self.interrupt
    }
}

/// A call of the guest with memory of this process in place of the guest's.
struct OwnCall<'a> {
    mem: &'a Scratch,
    call: &'a GuestCall<'a>,
}

impl Call for OwnCall<'_> {
    fn mem(&self) -> &dyn UserMem {
        self.mem
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        self.call.descriptor(fd)
    }

    fn install(&self, fd: OwnedFd) -> Result<i32, Errno> {
        self.call.install(fd)
    }

    fn interrupt(&self) -> &Interrupt {
        self.call.interrupt()
    }
}

/// Memory for what a call writes.
#[derive(Default)]
struct Scratch(Mutex<Vec<u8>>);

impl Scratch {
    /// Where it says that it is.
    const ADDRESS: u64 = PAGE;

    fn new(len: usize) -> Scratch {
        Scratch(Mutex::new(vec![0; len]))
    }

    fn into_bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, addr: u64, len: usize, copy: impl FnOnce(&mut [u8])) -> Result<(), Fault> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = addr.checked_sub(Scratch::ADDRESS).and_then(|start| usize::try_from(start).ok());
        let part = start.and_then(|start| bytes.get_mut(start..start.checked_add(len)?));
        part.map(copy).ok_or(Fault { addr, len: len as u64 })
    }
}

impl UserMem for Scratch {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.with(addr, buf.len(), |bytes| buf.copy_from_slice(bytes))
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        self.with(addr, buf.len(), |bytes| bytes.copy_from_slice(buf))
    }

    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    fn is_mapped(&self, addr: u64, len: u64) -> bool {
        usize::try_from(len).is_ok_and(|len| self.with(addr, len, |_| ()).is_ok())
    }
}

/// The memory of a call: what came with it, and what is aliased.
struct CallMem<'a> {
    flat: FlatMem,
    space: &'a Space,
}

impl UserMem for CallMem<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.flat.read(addr, buf)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        self.flat.write(addr, buf)
    }

    /// The addresses mean the same here. They stay as they are: the call has pinned what it registers.
    fn share(&self, addr: u64, len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        let at = AddressRange::new(addr, len).filter(|at| at.is_of_pages()).ok_or(Errno::EINVAL)?;
        if !self.space.covers(at) {
            return Err(Errno::EFAULT);
        }
        Ok(vec![Shared { addr, len, backing: SharedBacking::Local }])
    }

    fn is_mapped(&self, addr: u64, len: u64) -> bool {
        AddressRange::new(addr, len).is_some_and(|at| self.space.covers(at))
    }
}
