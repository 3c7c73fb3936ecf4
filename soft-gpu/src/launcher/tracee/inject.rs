//! Borrows a stopped thread of the program to make system calls in its process.
//!
//! The thread's registers are set to a `syscall` instruction of its vdso, run to the exit of the call,
//! and set back. Meanwhile it blocks all signals, so that no handler runs in between.
//!
//! The state that it is put back to has to be one from which the *kernel* continues: a thread that was
//! stopped inside a system call has to be restarted there, or see `EINTR` if a handler runs first, and
//! only the kernel knows which. It decides when the thread leaves a signal stop. So after the last
//! call the thread is stopped once more in the same way as before, and gets its registers back there,
//! those that say which call it was in included (`arch_do_signal_or_restart`).

use std::time::{Duration, Instant};

use libc::{c_int, user_regs_struct};
use protocol::Errno;

use super::error::ConvertError;
use super::ptrace::{self, SigMask, Stop};
use super::stop::Pause;
use super::threads;
use crate::vm_copy;

/// A call of the program's thread may have to free gigabytes.
const CALL_TIME: Duration = Duration::from_secs(10);
/// `USER_CS`: 64-bit code (`arch/x86/include/asm/segment.h`).
const CODE_SEGMENT_64: u64 = 0x33;
/// The `orig_rax` of a thread that is in no system call.
const NO_CALL: u64 = u64::MAX;

/// A stopped thread that makes calls for us.
///
/// It has to be given back with [`Borrowed::give_back`]. If this thread ends before that, the kernel kills
/// the program: its registers are not its own.
pub struct Borrowed {
    pid: u32,
    tid: u32,
    registers: user_regs_struct,
    mask: SigMask,
    syscall_at: u64,
    /// Signals that cannot be blocked and arrived meanwhile; sent again afterwards.
    held: Vec<c_int>,
}

/// Whether a stopped thread can be borrowed: it runs 64-bit code, and is not inside a restartable
/// sequence, which would go on afterwards although it was interrupted (`rseq(2)`).
pub fn is_suitable(tid: u32) -> bool {
    let Ok(registers) = ptrace::registers(tid) else { return false };
    registers.cs == CODE_SEGMENT_64 && (is_in_call(&registers) || !in_sequence(tid, registers.rip))
}

/// Whether a stopped thread is inside a system call.
fn is_in_call(registers: &user_regs_struct) -> bool {
    registers.orig_rax != NO_CALL
}

/// Offsets of `struct rseq` and `struct rseq_cs` (`linux/rseq.h`).
fn in_sequence(tid: u32, ip: u64) -> bool {
    let word = |addr: u64| {
        let mut bytes = [0; 8];
        vm_copy::read(tid, addr, &mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
    };
    let sequence = || {
        let descriptor = word(ptrace::rseq_area(tid).checked_add(8)?)?;
        let start = word(descriptor.checked_add(8)?)?;
        let length = word(descriptor.checked_add(16)?)?;
        Some(ip.wrapping_sub(start) < length)
    };
    sequence().unwrap_or(false)
}

impl Borrowed {
    /// Borrows `tid` of process `pid`, stopped by [`ptrace::interrupt`]. `syscall_at` is the address of a
    /// `syscall` instruction.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn new(pid: u32, tid: u32, syscall_at: u64) -> Result<Self, ConvertError> {
        let begin = || {
            let registers = ptrace::registers(tid)?;
            let mask = ptrace::signal_mask(tid)?;
            ptrace::kill_with_tracer(tid)?;
            ptrace::set_signal_mask(tid, SigMask::MAX)?;
            Ok(Self { pid, tid, registers, mask, syscall_at, held: Vec::new() })
        };
        begin().map_err(|_: Errno| ConvertError::Gone { pid })
    }

    /// The thread.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Top of the thread's stack, where its memory can be borrowed for a moment.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        self.registers.rsp
    }

    /// Makes a system call and returns its value.
    ///
    /// # Errors
    /// The call's error, with `name`, or the end of the thread.
    pub fn call(&mut self, name: &'static str, number: i64, args: [u64; 6]) -> Result<u64, ConvertError> {
        let value = self.call_raw(number, args).map_err(|errno| self.lost(name, errno))?;
        let error = i32::try_from(value.cast_signed().wrapping_neg()).ok().and_then(Errno::from_raw);
        match error {
            Some(errno) => Err(ConvertError::Call { name, errno }),
            None => Ok(value),
        }
    }

    fn call_raw(&mut self, number: i64, args: [u64; 6]) -> Result<u64, Errno> {
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let rax = number.cast_unsigned();
        let rip = self.syscall_at;
        let registers =
            user_regs_struct { rip, rax, orig_rax: NO_CALL, rdi, rsi, rdx, r10, r8, r9, ..self.registers };
        ptrace::set_registers(self.tid, &registers)?;
        for _entry_and_exit in 0..2 {
            ptrace::run_to_syscall(self.tid)?;
            self.wait_for(Stop::Syscall, ptrace::run_to_syscall)?;
        }
        Ok(ptrace::registers(self.tid)?.rax)
    }

    /// Waits for a stop of the kind `wanted`, past others.
    fn wait_for(&mut self, wanted: Stop, go_on: fn(u32) -> Result<(), Errno>) -> Result<(), Errno> {
        let mut pause = Pause::new(Instant::now(), CALL_TIME);
        loop {
            match ptrace::poll_stop(self.tid)? {
                Some(stop) if stop == wanted => return Ok(()),
                Some(Stop::Signal(signal)) => {
                    self.held.push(signal);
                    go_on(self.tid)?;
                }
                Some(_) => go_on(self.tid)?,
                None if pause.is_long() && threads::stat(self.tid).is_none_or(threads::Stat::is_dead) => {
                    return Err(Errno::ESRCH);
                }
                None => pause.next().map_err(|_| Errno::ETIMEDOUT)?,
            }
        }
    }

    fn lost(&self, name: &'static str, errno: Errno) -> ConvertError {
        if errno == Errno::ETIMEDOUT {
            log::error!("process {} does not come out of a {name} made for it, and is killed", self.pid);
        }
        ConvertError::Gone { pid: self.pid }
    }

    /// Gives the thread back: it goes on as if it had not been stopped.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn give_back(mut self) -> Result<(), ConvertError> {
        self.restore().map_err(|_| ConvertError::Gone { pid: self.pid })
    }

    fn restore(&mut self) -> Result<(), Errno> {
        ptrace::interrupt(self.tid)?;
        ptrace::run(self.tid)?;
        self.wait_for(Stop::Event, ptrace::run)?;
        ptrace::set_registers(self.tid, &self.registers)?;
        ptrace::set_signal_mask(self.tid, self.mask)?;
        for signal in self.held.drain(..) {
            // SAFETY: sending a signal touches no memory.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.tid, signal) };
        }
        ptrace::detach(self.tid)
    }
}
