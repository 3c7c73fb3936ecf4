//! A KFD that is a kernel's, for a worker: opened before the worker locks itself in, and given memory of its own to read and
//! write.
//!
//! The kernel reads and writes the memory of this process at the addresses in the arguments. Those of a guest mean nothing
//! here (outside of the context's range) or are this process's own. So each pointer in a call is replaced by that of a buffer
//! that holds what came with the call. What is neither known nor in the buffer is a null pointer, at which the kernel faults
//! as it would at the guest's.
//!
//! An [`Interrupt`](protocol::kfd::Interrupt) does not end what sleeps in the kernel. Waits for events are therefore made in
//! slices; between two of them nothing of a wait is left in the kernel.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::kfd::args::{SetXnackModeArgs, WaitEventsArgs};
use protocol::kfd::constants::WaitResult;
use protocol::kfd::flat::Declared as _;
use protocol::kfd::ioctl::{FieldRef, Flow, Length, Pointer};
use protocol::kfd::topology::{Topology, Tree};
use protocol::kfd::{Call, Caller, FileId, Ioctl, Kfd, Mapping, Node, Process, Transfer, UserMem};
use protocol::{Declaration, Errno};
use zerocopy::IntoBytes as _;

use super::policy::{put, typed};

/// The longest buffer of a call, in bytes. No call that guests have needs more.
const LONGEST: u64 = 8 << 20;

/// How long a wait stays in the kernel at a time, and so how long it may take to end one early.
const SLICE: Duration = Duration::from_millis(250);

/// `timeout` of a wait that has none.
const NO_TIMEOUT: u32 = u32::MAX;

/// A kernel's KFD with its files open. It serves this process, once.
pub(super) struct KernelKfd {
    tree: Tree,
    process: Arc<KernelProcess>,
}

impl KernelKfd {
    /// Opens `/dev/kfd` and the render node of every GPU. Afterwards nothing is opened any more.
    ///
    /// # Errors
    /// The kernel's; `EPERM` if GPUs of this process would reach all of its memory (XNACK) and that cannot be turned off.
    pub(super) fn open(kfd: &dyn Kfd, caller: Caller) -> Result<KernelKfd, Errno> {
        let tree = kfd.topology()?;
        let topology = Topology::parse(&tree).map_err(|error| {
            log::error!("the topology cannot be read: {error}");
            Errno::EIO
        })?;
        let process = kfd.attach(caller)?;
        let minors = topology.topology.gpus().map(|gpu| gpu.properties.drm_render_minor);
        let nodes = minors.map(Node::Render).chain([Node::Kfd]);
        let opened = nodes.map(|node| Ok((node, process.open(node)?)));
        let files = opened.collect::<Result<HashMap<_, _>, Errno>>()?;
        let process = KernelProcess { process, files };
        process.turn_xnack_off()?;
        Ok(KernelKfd { tree, process: Arc::new(process) })
    }
}

impl Kfd for KernelKfd {
    fn topology(&self) -> Result<Tree, Errno> {
        Ok(self.tree.clone())
    }

    fn attach(&self, _caller: Caller) -> Result<Arc<dyn Process>, Errno> {
        Ok(Arc::clone(&self.process) as Arc<dyn Process>)
    }
}

/// This process, as the kernel's KFD knows it.
struct KernelProcess {
    process: Arc<dyn Process>,
    files: HashMap<Node, FileId>,
}

impl KernelProcess {
    /// With XNACK a fault of a GPU makes it reach any page that this process has.
    fn turn_xnack_off(&self) -> Result<(), Errno> {
        let kfd = self.open(Node::Kfd)?;
        let set = |xnack_enabled: i32| {
            let mut args = SetXnackModeArgs { xnack_enabled };
            let call = NoCall(protocol::kfd::Interrupt::new());
            let result = self.process.ioctl(kfd, Ioctl::SetXnackMode.request(), args.as_mut_bytes(), &call);
            result.map(|_| args.xnack_enabled)
        };
        // A kernel without shared virtual memory has no such faults (EPERM), nor has one that knows no XNACK (ENOTTY).
        match set(0).and_then(|_| set(-1)) {
            Ok(0) | Err(Errno::EPERM | Errno::ENOTTY) => Ok(()),
            other => {
                log::error!(
                    "XNACK cannot be turned off ({other:?}); with it guests would reach this process"
                );
                Err(Errno::EPERM)
            }
        }
    }

    /// One call with buffers in place of the guest's pointers.
    fn local(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let declaration = Declaration::of(request);
        let asked = args.to_vec();
        let pointers = declaration.reaches(&asked).flat_map(|reach| reach.pointers);
        let mut buffers = pointers
            .map(|pointer| Buffer::new(pointer, &asked, call.mem()))
            .collect::<Result<Vec<_>, _>>()?;
        for buffer in &mut buffers {
            buffer.put(args);
        }
        let result = self.process.ioctl(file, request, args, call);
        for buffer in &buffers {
            set(buffer.pointer.addr, args, buffer.addr);
        }
        if result.is_ok() {
            for buffer in &buffers {
                buffer.give_back(args, call.mem())?;
            }
        }
        result
    }

    /// A wait, in slices.
    fn wait(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        let asked = typed::<WaitEventsArgs>(args);
        let start = Instant::now();
        let whole = (asked.timeout != NO_TIMEOUT).then(|| Duration::from_millis(asked.timeout.into()));
        loop {
            let left = whole.map(|whole| whole.saturating_sub(start.elapsed()));
            if call.interrupt().fired() {
                let rest = left.map_or(NO_TIMEOUT, milliseconds);
                put(args, &WaitEventsArgs { timeout: rest, ..asked });
                return Err(Errno::ERESTARTSYS);
            }
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            put(args, &WaitEventsArgs { timeout: milliseconds(slice), ..asked });
            let result = self.local(file, request, args, call);
            let after = typed::<WaitEventsArgs>(args);
            let again = match result {
                Ok(_) => {
                    WaitResult(after.wait_result) == WaitResult::TIMEOUT
                        && left.is_none_or(|left| left > SLICE)
                }
                Err(Errno::EINTR) => true,
                Err(_) => false,
            };
            if !again {
                put(args, &WaitEventsArgs { timeout: asked.timeout, ..after });
                return result;
            }
        }
    }
}

/// Rounded up, so that a wait does not end early.
fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(NO_TIMEOUT - 1)
}

/// Stores a field that the arguments have.
fn set(field: FieldRef, args: &mut [u8], value: u64) {
    let bytes = args.get_mut(field.offset..).unwrap_or_default();
    for (to, from) in bytes.iter_mut().take(field.size).zip(value.to_le_bytes()) {
        *to = from;
    }
}

/// Memory for one pointer of a call.
struct Buffer {
    pointer: &'static Pointer,
    /// The guest's.
    addr: u64,
    /// `None` where the kernel is to fault, or to find no pointer.
    bytes: Option<Vec<u8>>,
}

impl Buffer {
    /// # Errors
    /// `EOPNOTSUPP` where only the device knows how much is written; `E2BIG` for more than there is.
    fn new(pointer: &'static Pointer, args: &[u8], mem: &dyn UserMem) -> Result<Buffer, Errno> {
        if pointer.length == Length::Device {
            return Err(Errno::EOPNOTSUPP);
        }
        let addr = pointer.addr.get(args);
        // A length that the kernel refuses is refused before the memory is touched.
        let len = pointer.extent(args).map_or(0, |extent| extent.len);
        if len > LONGEST {
            return Err(Errno::E2BIG);
        }
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| Errno::E2BIG)?];
        let readable = !pointer.flow.reads() || mem.read(addr, &mut bytes).is_ok();
        Ok(Buffer { pointer, addr, bytes: (addr != 0 && readable).then_some(bytes) })
    }

    /// Puts its address into the arguments.
    fn put(&mut self, args: &mut [u8]) {
        let own = self.bytes.as_mut().map_or(0, |bytes| bytes.as_mut_ptr().expose_provenance() as u64);
        set(self.pointer.addr, args, own);
    }

    /// What the kernel has written goes to the guest: as much as there was room for, and as the arguments say now.
    fn give_back(&self, args: &[u8], mem: &dyn UserMem) -> Result<(), Errno> {
        let Some(bytes) = self.bytes.as_ref().filter(|_| self.pointer.flow != Flow::In) else {
            return Ok(());
        };
        let len = self.pointer.extent(args).map_or(0, |extent| extent.len);
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len());
        Ok(mem.write(self.addr, bytes.get(..len).unwrap_or_default())?)
    }
}

impl Process for KernelProcess {
    /// # Errors
    /// `ENOENT` for a render node of no GPU.
    fn open(&self, node: Node) -> Result<FileId, Errno> {
        self.files.get(&node).copied().ok_or(Errno::ENOENT)
    }

    /// Files stay open: they cannot be opened again, and KFD's process ends with this one only.
    fn close(&self, _file: FileId) {}

    fn transfer(&self, file: FileId, request: u32) -> Result<Transfer, Errno> {
        self.process.transfer(file, request)
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8], call: &dyn Call) -> Result<i32, Errno> {
        match Declaration::of(request) {
            Declaration::Kfd(Ioctl::WaitEvents) => self.wait(file, request, args, call),
            Declaration::Unknown => Err(Errno::EOPNOTSUPP),
            _ => self.local(file, request, args, call),
        }
    }

    fn mmap(&self, file: FileId, offset: u64, len: u64) -> Result<Mapping, Errno> {
        self.process.mmap(file, offset, len)
    }
}

/// A call that names nothing of its caller.
struct NoCall(protocol::kfd::Interrupt);

impl Call for NoCall {
    fn mem(&self) -> &dyn UserMem {
        &hsakmt::native::KernelReaches
    }

    fn descriptor(&self, _fd: i32) -> Result<protocol::kfd::PassedFd, Errno> {
        Err(Errno::EBADF)
    }

    fn install(&self, _fd: std::os::fd::OwnedFd) -> Result<i32, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    fn interrupt(&self) -> &protocol::kfd::Interrupt {
        &self.0
    }
}

#[cfg(test)]
mod tests;
