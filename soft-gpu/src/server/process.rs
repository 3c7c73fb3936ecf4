//! A process: what the kernel keeps in `struct kfd_process`, and the calls that it makes.
//!
//! # Locks
//!
//! Taken in this order, each optional: **queues, memory, runtime and debug state, events**. The file table's and
//! the process table's locks are leaves. No lock is held while a call sleeps (event waits), nor while memory of
//! *another* process is shared. Engine threads take none of these locks while they hold their own; what they
//! have to say goes through [`Interrupts`], which takes the locks of events and debug state only.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use protocol::Errno;
use protocol::kfd::constants::ExceptionCode;
use protocol::kfd::types::QueueSnapshotEntry;
use protocol::kfd::{
    Call, Caller, FileId, Ioctl, Mapping, Node, Pages, Process, Transfer, request_nr, request_size,
};

use super::debug::{self, Debug};
use super::dispatch::{self, Cx};
use super::drm::{self, DrmFile};
use super::events::{self, Events};
use super::files::OpenFile;
use super::memory::Memory;
use super::queues::{self, Queues};
use crate::device::Device;
use crate::engine::{GpuFault, Interrupts};
use crate::kernel::Kernel;

/// One address space that was attached: what [`SoftGpu::attach`](crate::SoftGpu) gives out.
pub(crate) struct Client {
    device: Arc<Device>,
    caller: Caller,
    /// Made by the first open of `/dev/kfd` and kept until the address space ends, however often the file is
    /// closed in between (`kfd_create_process`).
    kfd: OnceLock<Arc<ProcessState>>,
}

/// What KFD knows about one process (`struct kfd_process`).
pub(crate) struct ProcessState {
    pub(crate) caller: Caller,
    pub(crate) device: Arc<Device>,
    pub(crate) debug: Debug,
    pub(crate) events: Events,
    pub(crate) memory: Memory,
    pub(crate) queues: Queues,
    /// Whether faulting accesses of the GPU are retried (`xnack_enabled`).
    xnack: AtomicBool,
}

impl ProcessState {
    fn new(device: Arc<Device>, caller: Caller) -> Self {
        let memory = Memory::new(&device, caller.id);
        Self {
            debug: Debug::default(),
            events: Events::new(device.kernel),
            memory,
            queues: Queues::default(),
            xnack: AtomicBool::new(false),
            caller,
            device,
        }
    }

    /// Whether faulting accesses of the GPU are retried. Off at first, as on every GPU of the profiles
    /// (`kfd_process_xnack_mode` with `noretry` set).
    pub(crate) fn xnack(&self) -> bool {
        self.xnack.load(Ordering::Relaxed)
    }

    /// Chooses whether they are.
    pub(crate) fn set_xnack(&self, on: bool) {
        self.xnack.store(on, Ordering::Relaxed);
    }

    /// Whether the process has user mode queues.
    pub(crate) fn has_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    /// Whether it has this one.
    pub(crate) fn has_queue(&self, queue_id: u32) -> bool {
        self.queues.contains(queue_id)
    }

    /// Its queues, for a debugger.
    pub(crate) fn queue_entries(&self) -> Vec<QueueSnapshotEntry> {
        self.queues.snapshot()
    }

    /// `kfd_send_exception_to_runtime`. A queue that does not exist is no error.
    pub(crate) fn send_queue_exception(&self, queue_id: u32, exceptions: u64) {
        queues::send_exception(self, queue_id, exceptions);
    }

    /// The end of the process (`kfd_process_notifier_release`): queues stop first, because they use memory and
    /// signal events, then memory goes, then events.
    fn exit(&self) {
        self.device.remove_process(self.caller.id);
        self.queues.exit();
        debug::exit(self);
        self.memory.exit();
        self.events.exit();
        for gpu in &self.device.gpus {
            gpu.smi.prune();
        }
    }
}

impl fmt::Debug for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessState").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Interrupts for ProcessState {
    fn signal_event(&self, event_id: u32, valid_id_bits: u32) {
        self.events.interrupt(event_id, valid_id_bits);
    }

    fn memory_fault(&self, gpu_id: u32, fault: GpuFault) {
        log::warn!("process {}: {fault} on GPU {gpu_id:#x}", self.caller.pid);
        if let Some(gpu) = self.device.gpu(gpu_id) {
            gpu.smi.vm_fault(self.caller.pid);
        }
        // kfd_set_dbg_ev_from_interrupt: the runtime hears of what no debugger takes.
        let data = events::fault_data(gpu_id, &fault);
        let violation = ExceptionCode::DEVICE_MEMORY_VIOLATION.mask().unwrap_or(0);
        if !self.debug.raise_fault(violation, data) {
            self.events.memory_exception(data);
        }
    }

    fn queue_exception(&self, queue_id: u32, exceptions: u64) {
        log::warn!("process {}: queue {queue_id} raised exceptions {exceptions:#x}", self.caller.pid);
        // kfd_set_dbg_ev_from_interrupt
        let gpu_id = self.queues.gpu_of(queue_id).unwrap_or(0);
        if !self.debug.raise_queue(queue_id, gpu_id, exceptions) && self.debug.runtime_enabled() {
            queues::send_exception(self, queue_id, exceptions);
        }
    }
}

impl Client {
    pub(crate) fn new(device: Arc<Device>, caller: Caller) -> Self {
        Self { device, caller, kfd: OnceLock::new() }
    }

    /// `kfd_open`.
    fn open_kfd(&self) -> Result<OpenFile, Errno> {
        if let Some(errno) = self.device.machine.refuses_processes() {
            return Err(errno);
        }
        self.kfd.get_or_init(|| {
            let process = Arc::new(ProcessState::new(Arc::clone(&self.device), self.caller.clone()));
            self.device.add_process(&process);
            process
        });
        Ok(OpenFile::Kfd { opener: self.caller.id })
    }

    fn open_render(&self, minor: u32) -> Result<OpenFile, Errno> {
        let gpu = self.device.gpu_of_minor(minor).ok_or(Errno::ENOENT)?;
        Ok(OpenFile::Render(Arc::new(DrmFile::new(Arc::clone(gpu), self.caller.id))))
    }

    fn file(&self, file: FileId) -> Result<OpenFile, Errno> {
        self.device.files.get(file).ok_or(Errno::EBADF)
    }

    /// The KFD process of this address space, if `opener` is it: a descriptor that another process opened is of
    /// no use here (`kfd_ioctl`: "Using KFD FD in wrong process").
    fn own_process(&self, opener: protocol::kfd::ProcessId) -> Result<&Arc<ProcessState>, Errno> {
        let process = self.kfd.get().ok_or(Errno::EBADF)?;
        if opener == self.caller.id { Ok(process) } else { Err(Errno::EBADF) }
    }
}

impl Process for Client {
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        let file = match node {
            Node::Kfd => self.open_kfd()?,
            Node::Render(minor) => self.open_render(minor)?,
        };
        Ok(self.device.files.add(file))
    }

    fn close(&self, file: FileId) {
        self.device.files.remove(file);
    }

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        match self.file(file)? {
            OpenFile::Kfd { opener } => {
                // kfd_ioctl looks at the number first, then at the process, then at privileges.
                let ioctl = dispatch::select(&self.device, request_nr(request))?;
                self.own_process(opener)?;
                dispatch::permitted(&self.caller, ioctl)?;
                let direction = ioctl.decl().direction;
                Ok(Transfer {
                    size: request_size(request),
                    from_user: direction.copies_in(),
                    to_user: direction.copies_out(),
                })
            }
            OpenFile::Render(_) => drm::transfer(request),
        }
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        self.transfer(file, request)?;
        match self.file(file)? {
            OpenFile::Kfd { opener } => {
                let process = self.own_process(opener)?;
                let ioctl = dispatch::select(&self.device, request_nr(request))?;
                if ioctl == Ioctl::WaitEvents {
                    process.queues.look();
                } else {
                    process.queues.wake();
                }
                dispatch::run(&Cx { process, call }, ioctl, args)
            }
            OpenFile::Render(file) => drm::ioctl(&self.device, &file, request, args, call),
        }
    }

    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        match self.file(file)? {
            OpenFile::Kfd { opener } => {
                let process = match self.device.kernel {
                    // kfd_mmap of 6.12 maps what belongs to the process that calls, whoever opened the file.
                    Kernel::Linux6_12 => self.kfd.get().ok_or(Errno::EINVAL)?,
                    Kernel::Linux7_3 | Kernel::Rocm => self.own_process(opener)?,
                };
                dispatch::kfd_mmap(process, offset, len)
            }
            OpenFile::Render(file) => file.mmap(offset, len),
        }
    }

    fn place(&self, file: FileId, offset: u64, len: u64, pages: Pages<'_>) -> Result<(), Errno> {
        match self.file(file)? {
            OpenFile::Kfd { opener } => queues::place(self.own_process(opener)?, offset, len, pages),
            OpenFile::Render(file) => file.place(offset, len, pages),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.device.files.remove_kfd_files_of(self.caller.id);
        if let Some(process) = self.kfd.get() {
            process.exit();
        }
    }
}
