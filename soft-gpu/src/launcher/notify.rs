//! The listener of a seccomp filter: receives system calls of the program and answers them
//! (`seccomp_unotify(2)`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::{seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp, seccomp_notif_sizes};
use protocol::Errno;

use super::filter::{self, Arch, Syscall};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (Linux 6.6): caller and supervisor take turns on one CPU.
const SYNC_WAKE_UP: u64 = 1;

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// Cookie that names the waiting call.
    pub id: u64,
    /// Thread that made the call, in the supervisor's pid namespace; 0 if it is not visible there.
    pub tid: u32,
    /// Which table the number was from.
    pub arch: Arch,
    /// The call.
    pub call: Syscall,
    /// Its arguments as the registers had them.
    pub args: [u64; 6],
}

/// How a waiting call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It returns this value.
    Value(i64),
    /// It fails. `ERESTARTSYS` takes the kernel's path for interrupted calls and may only be used
    /// while the thread has a signal to handle: otherwise the number would reach the program.
    Error(Errno),
    /// The kernel executes it as if there were no filter.
    Continue,
}

impl From<Result<i32, Errno>> for Answer {
    fn from(result: Result<i32, Errno>) -> Self {
        match result {
            Ok(value) => Answer::Value(i64::from(value)),
            Err(errno) => Answer::Error(errno),
        }
    }
}

/// The descriptor at which notifications arrive.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Listener {
    /// Takes over the descriptor that [`install`] returned, here or in another process.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        let listener = Self { fd };
        // Before Linux 6.6 the flag is unknown; calls are slower then and nothing else differs.
        // SAFETY: `listener.fd` is open; this request takes its argument by value.
        let result =
            unsafe { libc::ioctl(listener.raw(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as _, SYNC_WAKE_UP) };
        if result != 0 {
            log::debug!("the kernel has no synchronous wake-up for seccomp notifications");
        }
        listener
    }

    fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The next waiting call; blocks until there is one.
    ///
    /// # Errors
    /// `ENOENT` when the caller died meanwhile or nobody uses the filter any more; `EINTR`.
    pub fn receive(&self) -> io::Result<Result<Notification, u64>> {
        // SAFETY: all-zero bytes are a valid `seccomp_notif`, a plain struct of integers.
        let mut raw: seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: `raw` is a zeroed `seccomp_notif`, as the request demands, and outlives the call;
        // `install` checked that the kernel's struct is not larger.
        let result = unsafe { libc::ioctl(self.raw(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, &raw mut raw) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let decoded = Arch::from_audit(raw.data.arch).and_then(|arch| {
            let call = Syscall::from_number(arch, u32::try_from(raw.data.nr).ok()?)?;
            Some(Notification { id: raw.id, tid: raw.pid, arch, call, args: raw.data.args })
        });
        Ok(decoded.ok_or(raw.id))
    }

    /// Lets the call `id` go on.
    ///
    /// # Errors
    /// `ENOENT` if its thread was killed meanwhile.
    pub fn answer(&self, id: u64, answer: Answer) -> io::Result<()> {
        let (val, error, flags) = match answer {
            Answer::Value(val) => (val, 0, 0),
            Answer::Error(errno) => (0, -errno.raw(), 0),
            Answer::Continue => (0, 0, 1), // SECCOMP_USER_NOTIF_FLAG_CONTINUE
        };
        let mut response = seccomp_notif_resp { id, val, error, flags };
        // SAFETY: `response` is a complete `seccomp_notif_resp` that outlives the call.
        let result =
            unsafe { libc::ioctl(self.raw(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, &raw mut response) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether the call `id` still waits. Once true, data read from the thread before was its own.
    #[must_use]
    pub fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: the request reads one u64, which `id` is for the length of the call.
        unsafe { libc::ioctl(self.raw(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _, &raw const id) == 0 }
    }

    /// Gives the process whose call `id` waits a duplicate of `fd` and returns its number there; at the number `at` if
    /// that is given, replacing what was there.
    ///
    /// # Errors
    /// `EMFILE` if its table is full, `ENOENT` if it died.
    pub fn add_fd(
        &self,
        id: u64,
        fd: BorrowedFd<'_>,
        at: Option<i32>,
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        let newfd = at.and_then(|at| u32::try_from(at).ok());
        let mut request = seccomp_notif_addfd {
            id,
            flags: u32::from(newfd.is_some()), // SECCOMP_ADDFD_FLAG_SETFD
            srcfd: fd.as_raw_fd().unsigned_abs(),
            newfd: newfd.unwrap_or(0),
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
        };
        // SAFETY: `request` is a complete `seccomp_notif_addfd` that outlives the call.
        let result =
            unsafe { libc::ioctl(self.raw(), libc::SECCOMP_IOCTL_NOTIF_ADDFD as _, &raw mut request) };
        if result >= 0 { Ok(result) } else { Err(last_errno()) }
    }
}

/// `errno` as a value.
pub(super) fn last_errno() -> Errno {
    io_errno(&io::Error::last_os_error())
}

/// The error number of an I/O error; `EIO` for those that have none.
pub(super) fn io_errno(error: &io::Error) -> Errno {
    error.raw_os_error().and_then(Errno::from_raw).unwrap_or(Errno::EIO)
}

/// Puts the filter on the calling thread and everything that it starts, and returns the listener's
/// descriptor (close-on-exec). The thread needs `CAP_SYS_ADMIN` in its user namespace. With `opens`, calls that open
/// files are notified too.
///
/// # Errors
/// `EBUSY` if an outer filter has a listener already; `EINVAL` before Linux 5.0.
pub fn install(opens: bool) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;

    check_sizes()?;
    let mut program = filter::program(opens);
    let fprog = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidData)?,
        filter: program.as_mut_ptr(),
    };
    // Without WAIT_KILLABLE_RECV (Linux 5.19) a signal that arrives while the supervisor works makes
    // the kernel restart the call although it was executed.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let mut fd = set_filter(flags, &fprog);
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        fd = set_filter(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER, &fprog);
    }
    let fd = RawFd::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned `fd` and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_filter(flags: libc::c_ulong, program: &libc::sock_fprog) -> libc::c_long {
    // SAFETY: `program` points to `len` instructions that live as long as the call.
    unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::from_ref(program))
    }
}

/// Refuses a kernel whose structs are larger than ours: it would write past them.
fn check_sizes() -> io::Result<()> {
    let mut sizes = seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    // SAFETY: the operation writes one `seccomp_notif_sizes`, which `sizes` is.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let fits = usize::from(sizes.seccomp_notif) <= size_of::<seccomp_notif>()
        && usize::from(sizes.seccomp_notif_resp) <= size_of::<seccomp_notif_resp>();
    if fits {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's seccomp notifications are larger"))
    }
}
