//! A program over native KFD, and its calls.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use hsakmt::native::{KernelReaches, Native};
use protocol::Errno;
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::{
    Call, Caller, FileId, Interrupt, Ioctl, Kfd, Node, PassedFd, Process, ProcessId, UserMem,
};

/// What a call returned: its value, or the error.
pub type Outcome = Result<i32, Errno>;

/// This process as a program that has `/dev/kfd` open.
pub struct Program {
    pub process: Arc<dyn Process>,
    pub kfd: FileId,
}

impl Program {
    /// Attaches and opens.
    pub fn open(native: &Native) -> Result<Self, Errno> {
        let caller = Caller { id: ProcessId(1), pid: std::process::id(), privileged: false, mem: None };
        let process = native.attach(caller)?;
        let kfd = process.open(Node::Kfd)?;
        Ok(Self { process, kfd })
    }

    /// An ioctl with the request of the uapi header.
    pub fn call<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) -> Outcome {
        self.raw(ioctl.request(), args.as_mut_bytes())
    }

    /// An ioctl with any request.
    pub fn raw(&self, request: u32, args: &mut [u8]) -> Outcome {
        self.process.ioctl(self.kfd, request, args, &Plain::default())
    }
}

/// A call whose descriptor numbers are this process's own.
#[derive(Default)]
struct Plain {
    interrupt: Interrupt,
}

impl Call for Plain {
    fn mem(&self) -> &dyn UserMem {
        &KernelReaches
    }

    fn descriptor(&self, _fd: i32) -> Result<PassedFd, Errno> {
        Err(Errno::EBADF)
    }

    fn install(&self, fd: OwnedFd) -> Result<i32, Errno> {
        let number = fd.as_raw_fd();
        // Left to the program, which finds it in the arguments.
        let _number = fd.into_raw_fd();
        Ok(number)
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

/// Prints errors and warnings of the library among the lines of the program.
pub fn print_the_log() {
    struct Print;

    impl log::Log for Print {
        fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
            metadata.level() <= log::Level::Warn
        }

        fn log(&self, record: &log::Record<'_>) {
            if self.enabled(record.metadata()) {
                println!("log {}: {}", record.level(), record.args());
            }
        }

        fn flush(&self) {}
    }

    if log::set_logger(&Print).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
}

/// One line.
pub fn line(name: &str, outcome: Outcome, rest: &str) {
    let outcome = match outcome {
        Ok(value) => value.to_string(),
        Err(errno) => errno.to_string(),
    };
    let space = if rest.is_empty() { "" } else { " " };
    println!("{name}: {outcome}{space}{rest}");
}

/// Runs `body` in a forked child, waits for it and prints how it ended.
pub fn in_a_child(name: &str, body: impl FnOnce()) {
    use std::io::Write;
    std::io::stdout().flush().expect("stdout");
    // SAFETY: the program has one thread here (all others were joined), so the child may go on as usual.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        body();
        std::io::stdout().flush().expect("stdout");
        // SAFETY: ends the child at once, without running the parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    assert!(pid > 0, "fork");
    let mut status = 0;
    // SAFETY: the status is an int that lives through the call.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    println!("{name}: {}", if waited == pid && status == 0 { "ended" } else { "failed" });
}

/// How many descriptors this process has open.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}
