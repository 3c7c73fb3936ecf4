//! What the tests of this module share.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Mutex;

use protocol::Errno;
use protocol::kfd::{Call, Interrupt, PassedFd, UserMem};

use crate::native::KernelReaches;

/// Runs `body` in a forked child and gives what it said. It may allocate and make system calls, and must not
/// panic.
pub(crate) fn in_a_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `body` and ends. glibc's allocator is usable in it, and `body` takes no lock
    // that another thread of the tests could hold.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let good = body();
        // SAFETY: ends the child without running the exit handlers of the test program.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: `status` is an int that lives through the call.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// A call whose numbers name what the test says.
#[derive(Default)]
pub(crate) struct TestCall {
    pub(crate) passed: Mutex<Vec<(i32, PassedFd)>>,
    pub(crate) installed: Mutex<Vec<OwnedFd>>,
    pub(crate) refuses: bool,
    pub(crate) interrupt: Interrupt,
}

impl TestCall {
    /// The number `fd` in the arguments stands for this.
    pub(crate) fn with(self, fd: i32, passed: PassedFd) -> Self {
        self.passed.lock().unwrap().push((fd, passed));
        self
    }
}

impl Call for TestCall {
    fn mem(&self) -> &dyn UserMem {
        &KernelReaches
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        let mut passed = self.passed.lock().unwrap();
        let at = passed.iter().position(|(number, _)| *number == fd).ok_or(Errno::EBADF)?;
        Ok(passed.remove(at).1)
    }

    fn install(&self, fd: OwnedFd) -> Result<i32, Errno> {
        if self.refuses {
            return Err(Errno::EMFILE);
        }
        let mut installed = self.installed.lock().unwrap();
        installed.push(fd);
        // Some number of the caller's own.
        Ok(1000 + i32::try_from(installed.len()).unwrap())
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

/// Whether a descriptor number is open in this process.
pub(crate) fn is_open(fd: i32) -> bool {
    // SAFETY: the borrow ends with the statement; fcntl answers EBADF for a number that is not open.
    rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok()
}
