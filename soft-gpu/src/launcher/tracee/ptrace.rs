//! The ptrace requests that stopping and borrowing a thread takes, one function each (`ptrace(2)`).
//!
//! A thread is traced by one *thread*: everything here has to be called on the thread that called
//! [`seize`], and when that thread ends the kernel lets all its tracees go, whatever state they are in.
//! Errors are the kernel's; `ESRCH` also means "not stopped".

use std::io;
use std::ptr::without_provenance_mut;

use libc::{c_int, c_void, user_regs_struct};
use protocol::Errno;

/// Signals that a mask blocks, one bit each.
pub type SigMask = u64;

/// Why a traced thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Asked for by [`interrupt`], or the stop of the whole process by a signal.
    Event,
    /// At the entry or the exit of a system call.
    Syscall,
    /// A signal is about to be delivered.
    Signal(c_int),
}

/// Starts to trace `tid` without stopping it.
pub fn seize(tid: u32) -> Result<(), Errno> {
    request(
        libc::PTRACE_SEIZE,
        tid,
        without_provenance_mut(0),
        libc::PTRACE_O_TRACESYSGOOD.cast_unsigned().into(),
    )
}

/// Makes the thread stop before it next runs code of the program.
pub fn interrupt(tid: u32) -> Result<(), Errno> {
    request(libc::PTRACE_INTERRUPT, tid, without_provenance_mut(0), 0)
}

/// From now on the thread's process is killed if this thread ends without [`detach`].
pub fn kill_with_tracer(tid: u32) -> Result<(), Errno> {
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SETOPTIONS, tid, without_provenance_mut(0), options.cast_unsigned().into())
}

/// Lets a stopped thread run up to the next entry or exit of a system call.
pub fn run_to_syscall(tid: u32) -> Result<(), Errno> {
    request(libc::PTRACE_SYSCALL, tid, without_provenance_mut(0), 0)
}

/// Lets a stopped thread run.
pub fn run(tid: u32) -> Result<(), Errno> {
    request(libc::PTRACE_CONT, tid, without_provenance_mut(0), 0)
}

/// Lets a thread run that stopped because of a signal, and delivers the signal.
pub fn run_with_signal(tid: u32, signal: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_CONT, tid, without_provenance_mut(0), signal.cast_unsigned().into())
}

/// Lets a stopped thread go.
pub fn detach(tid: u32) -> Result<(), Errno> {
    request(libc::PTRACE_DETACH, tid, without_provenance_mut(0), 0)
}

/// Registers of a stopped thread.
pub fn registers(tid: u32) -> Result<user_regs_struct, Errno> {
    // SAFETY: all-zero bytes are a valid `user_regs_struct`, a plain struct of integers.
    let mut regs: user_regs_struct = unsafe { std::mem::zeroed() };
    let at = (&raw mut regs).expose_provenance() as u64;
    request(libc::PTRACE_GETREGS, tid, without_provenance_mut(0), at)?;
    Ok(regs)
}

/// Sets the registers of a stopped thread.
pub fn set_registers(tid: u32, regs: &user_regs_struct) -> Result<(), Errno> {
    let at = std::ptr::from_ref(regs).expose_provenance() as u64;
    request(libc::PTRACE_SETREGS, tid, without_provenance_mut(0), at)
}

/// The signals that a stopped thread blocks.
pub fn signal_mask(tid: u32) -> Result<SigMask, Errno> {
    let mut mask: SigMask = 0;
    let at = (&raw mut mask).expose_provenance() as u64;
    request(libc::PTRACE_GETSIGMASK, tid, without_provenance_mut(size_of::<SigMask>()), at)?;
    Ok(mask)
}

/// Sets the signals that a stopped thread blocks.
pub fn set_signal_mask(tid: u32, mask: SigMask) -> Result<(), Errno> {
    let at = (&raw const mask).expose_provenance() as u64;
    request(libc::PTRACE_SETSIGMASK, tid, without_provenance_mut(size_of::<SigMask>()), at)
}

/// `struct ptrace_rseq_configuration` (`linux/ptrace.h`).
#[repr(C)]
#[derive(Default)]
struct RseqConfiguration {
    rseq_abi_pointer: u64,
    rseq_abi_size: u32,
    signature: u32,
    flags: u32,
    pad: u32,
}

/// Address of the thread's `struct rseq`, 0 without one or before Linux 5.13.
pub fn rseq_area(tid: u32) -> u64 {
    const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
    let mut found = RseqConfiguration::default();
    let at = (&raw mut found).expose_provenance() as u64;
    let size = without_provenance_mut(size_of::<RseqConfiguration>());
    match request(PTRACE_GET_RSEQ_CONFIGURATION, tid, size, at) {
        Ok(()) => found.rseq_abi_pointer,
        Err(_) => 0,
    }
}

/// The stop that the thread reached and that was not reported yet; `None` while it runs.
///
/// `ESRCH` if it ended, or is not traced. Its exit status is left to its parent. The end of the first thread
/// of a process that lives on is not seen here.
pub fn poll_stop(tid: u32) -> Result<Option<Stop>, Errno> {
    let Some((code, _)) = wait(tid, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT)? else { return Ok(None) };
    if code != libc::CLD_TRAPPED && code != libc::CLD_STOPPED {
        return Err(Errno::ESRCH);
    }
    let Some((_, status)) = wait(tid, libc::WSTOPPED)? else { return Ok(None) };
    Ok(Some(match (status >> 8, status & 0xff) {
        (0, signal) if signal == libc::SIGTRAP | 0x80 => Stop::Syscall,
        (0, signal) => Stop::Signal(signal),
        _ => Stop::Event,
    }))
}

/// Code and status of a change of the thread's state (`waitid(2)`), of those in `what`.
fn wait(tid: u32, what: c_int) -> Result<Option<(c_int, c_int)>, Errno> {
    // SAFETY: all-zero bytes are a valid `siginfo_t`.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = what | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: `info` is a siginfo_t that outlives the call.
    let result = unsafe { libc::waitid(libc::P_PID, tid, &raw mut info, options) };
    if result != 0 {
        let errno = last_errno();
        return Err(if errno.raw() == libc::ECHILD { Errno::ESRCH } else { errno });
    }
    // SAFETY: waitid filled the union's child member, or left all of it zero.
    if unsafe { info.si_pid() } == 0 {
        return Ok(None);
    }
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    Ok(Some((info.si_code, status)))
}

fn request(request: libc::c_uint, tid: u32, addr: *mut c_void, data: u64) -> Result<(), Errno> {
    let tid = libc::pid_t::try_from(tid).map_err(|_| Errno::ESRCH)?;
    let data: *mut c_void =
        std::ptr::with_exposed_provenance_mut(usize::try_from(data).map_err(|_| Errno::EINVAL)?);
    // SAFETY: `data` is a number, or the address of a live object of the type that the request reads or
    // writes (the callers above); the requests concern another thread and touch no other memory of ours.
    if unsafe { libc::ptrace(request, tid, addr, data) } == -1 { Err(last_errno()) } else { Ok(()) }
}

pub(super) fn last_errno() -> Errno {
    io::Error::last_os_error().raw_os_error().and_then(Errno::from_raw).unwrap_or(Errno::EIO)
}
