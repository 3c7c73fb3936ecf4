//! One ioctl of the program on a device file: arguments in, the device's answer, arguments out.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use protocol::Errno;
use protocol::kfd::args::WaitEventsArgs;
use protocol::kfd::ioctl::{Decl, Family, Ioctl};
use protocol::kfd::{Call, FileId, Interrupt, Node, PassedFd, Transfer, UserMem, request_nr};
use zerocopy::FromBytes;

use super::notify::Listener;
use super::registry::{Descriptor, Registry, Space, lock};
use super::trace::{Record, TraceFile, What};
use super::tracee::CallMem;

/// Longest argument struct in bytes.
const ARGS_MAX: usize = (1 << 14) - 1;

/// Everything about one ioctl, ready to be executed on any thread.
pub struct DeviceCall {
    /// Which call to the device it is, as [`Record::number`].
    pub number: u64,
    /// Notification that it answers.
    pub id: u64,
    /// Process that made it.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// The caller's address space.
    pub space: Arc<Space>,
    /// The device node.
    pub node: Node,
    /// The open file.
    pub file: FileId,
    /// Request code.
    pub request: u32,
    /// Address of the argument struct.
    pub addr: u64,
    /// What is copied, which way.
    pub transfer: Transfer,
    /// The argument struct as it was when the call was made.
    pub args: Vec<u8>,
    /// Whether it takes so little time that its thread waits as long as it did when it was asked about.
    pub brief: bool,
}

/// What the request can mean on the kernels of both families.
fn declarations(request: u32) -> impl Iterator<Item = &'static Decl> {
    let nr = request_nr(request);
    let mainline = Ioctl::from_nr(nr, Family::Mainline);
    let rocm = Ioctl::from_nr(nr, Family::Rocm).filter(|ioctl| Some(*ioctl) != mainline);
    mainline.into_iter().chain(rocm).map(Ioctl::decl)
}

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Microseconds.
    Short,
    /// Milliseconds: it would hold up the calls behind it.
    Slow,
    /// Until somebody else does something: signals have to reach its thread.
    Blocking,
}

impl Pace {
    /// Of a call with these arguments.
    #[must_use]
    pub fn of(node: Node, request: u32, args: &[u8]) -> Self {
        if node != Node::Kfd {
            let waits = DRM_WAITS.contains(&request_nr(request));
            return if waits { Pace::Blocking } else { Pace::Short };
        }
        let mut pace = Pace::Short;
        for decl in declarations(request) {
            let returns_at_once = decl.ioctl == Ioctl::WaitEvents
                && WaitEventsArgs::read_from_prefix(args).is_ok_and(|(args, _)| args.timeout == 0);
            for reach in decl.reaches(args) {
                if reach.blocking && !returns_at_once {
                    return Pace::Blocking;
                }
                let shares = reach.shared.iter().any(|range| range.extent(args).is_some());
                if reach.slow || shares {
                    pace = Pace::Slow;
                }
            }
        }
        pace
    }
}

/// AMDGPU_GEM_WAIT_IDLE, AMDGPU_WAIT_CS, AMDGPU_WAIT_FENCES, SYNCOBJ_WAIT, SYNCOBJ_TIMELINE_WAIT
/// (`amdgpu_drm.h`, `drm.h`).
const DRM_WAITS: [u8; 5] = [0x47, 0x49, 0x52, 0xc3, 0xca];

impl DeviceCall {
    /// Reads the argument struct, once the device has said that it takes the call.
    ///
    /// # Errors
    /// The device's, and `EFAULT` if the struct is not readable.
    pub fn read_args(&mut self) -> Result<(), Errno> {
        self.transfer = self.space.process.transfer(self.file, self.request)?;
        // `_IOC_SIZE` has 14 bits, whatever the device says.
        self.args = vec![0; self.transfer.size.min(ARGS_MAX)];
        if self.transfer.from_user {
            // Whether it was the thread's is asked before it is used.
            self.space.mem.of_waiting_call(self.tid).read(self.addr, &mut self.args)?;
        }
        Ok(())
    }

    /// Whether it lets go of memory that was converted for the device, so that it can be made private again.
    pub fn may_release(&self) -> bool {
        let frees = |decl: &Decl| decl.ioctl == Ioctl::FreeMemoryOfGpu;
        self.node == Node::Kfd && declarations(self.request).any(frees) && self.space.mem.has_converted()
    }

    /// Makes memory private again that the device does not use any more; see [`CallMem::release`].
    pub fn release(&self) {
        self.space.mem.of_call(self.tid).release();
    }

    /// Writes the line of a call that ended before it was executed.
    pub fn trace_refusal(&self, trace: Option<&TraceFile>, errno: Errno) {
        let Some(trace) = trace else { return };
        trace.write(&Record {
            number: self.number,
            pid: self.pid,
            tid: self.tid,
            node: self.node,
            what: What::Ioctl { request: self.request, before: &[], after: &[] },
            result: Some(Err(errno)),
            since: Instant::now(),
        });
    }

    /// Executes the call, and writes the line of it if there is a trace.
    pub fn execute_traced(
        &mut self,
        registry: &Registry,
        listener: &Listener,
        interrupt: &Interrupt,
        trace: Option<&TraceFile>,
    ) -> Result<i32, Errno> {
        let Some(trace) = trace else { return self.execute(registry, listener, interrupt) };
        let (since, before) = (Instant::now(), self.args.clone());
        let result = self.execute(registry, listener, interrupt);
        let what = What::Ioctl { request: self.request, before: &before, after: &self.args };
        trace.write(&Record {
            number: self.number,
            pid: self.pid,
            tid: self.tid,
            node: self.node,
            what,
            result: Some(result.map(i64::from)),
            since,
        });
        result
    }

    /// Executes the call.
    ///
    /// # Errors
    /// The device's, or `EFAULT` if the argument struct cannot be written back.
    fn execute(
        &mut self,
        registry: &Registry,
        listener: &Listener,
        interrupt: &Interrupt,
    ) -> Result<i32, Errno> {
        let mem = &self.space.mem;
        let context = Context {
            registry,
            listener,
            id: self.id,
            tid: self.tid,
            mem: if self.brief { mem.of_waiting_call(self.tid) } else { mem.of_call(self.tid) },
            interrupt,
            installed: Mutex::default(),
        };
        let result = self.space.process.ioctl(self.file, self.request, &mut self.args, &context);
        let result = match self.transfer.to_user {
            true => context.mem.write(self.addr, &self.args).map_err(Errno::from).and(result),
            false => result,
        };
        if result.is_err() {
            context.take_back_descriptors();
        }
        // Nothing but a fired interrupt makes the number meaningful to the kernel.
        match result {
            Err(Errno::ERESTARTSYS) if !interrupt.fired() => {
                log::error!("request {:#x} ended as interrupted without an interrupt", self.request);
                Err(Errno::EINTR)
            }
            other => other,
        }
    }
}

struct Context<'a> {
    registry: &'a Registry,
    listener: &'a Listener,
    id: u64,
    tid: u32,
    mem: CallMem,
    interrupt: &'a Interrupt,
    installed: Mutex<Vec<i32>>,
}

impl Context<'_> {
    /// A descriptor cannot be closed from outside; what can be done is to put a harmless one at its
    /// number, so that the object behind it does not outlive the failed call.
    fn take_back_descriptors(&self) {
        for fd in lock(&self.installed).drain(..) {
            let taken = std::fs::File::open("/dev/null")
                .map_err(|_| Errno::EMFILE)
                .and_then(|null| self.listener.add_fd(self.id, null.as_fd(), Some(fd), true));
            log::debug!("descriptor {fd} of thread {} replaced after a failed call: {taken:?}", self.tid);
        }
    }
}

impl Call for Context<'_> {
    fn mem(&self) -> &dyn UserMem {
        &self.mem
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        match self.registry.descriptor(self.tid, fd)? {
            Descriptor::Device(found) => Ok(PassedFd::File(self.registry.file(&found)?)),
            Descriptor::Foreign(fd) => Ok(PassedFd::Foreign(fd)),
        }
    }

    fn install(&self, fd: OwnedFd) -> Result<i32, Errno> {
        let number = self.listener.add_fd(self.id, fd.as_fd(), None, true)?;
        lock(&self.installed).push(number);
        Ok(number)
    }

    fn interrupt(&self) -> &Interrupt {
        self.interrupt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `AMDKFD_IOC_WAIT_EVENTS`, `AMDKFD_IOC_GET_VERSION` (`kfd_ioctl.h`).
    const WAIT_EVENTS: u32 = 0xc018_4b0c;
    const GET_VERSION: u32 = 0x8008_4b01;

    #[test]
    fn a_wait_blocks_unless_its_timeout_is_zero() {
        let mut args = [0u8; 24];
        assert_eq!(Pace::of(Node::Kfd, WAIT_EVENTS, &args), Pace::Short);
        args[16] = 1; // timeout, in ms
        assert_eq!(Pace::of(Node::Kfd, WAIT_EVENTS, &args), Pace::Blocking);
        assert_eq!(Pace::of(Node::Kfd, GET_VERSION, &[0; 8]), Pace::Short);
    }
}
