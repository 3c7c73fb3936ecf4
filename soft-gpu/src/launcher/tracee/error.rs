//! Why memory of a program could not be shared.

use protocol::Errno;

/// A conversion that did not take place. The program goes on as if nothing had happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// Only one process can trace another.
    #[error(
        "thread {tid} is traced by process {tracer} (a debugger), so its memory cannot be shared with the GPU; \
         attach it later, or set HSA_USERPTR_FOR_PAGED_MEM=0"
    )]
    Traced {
        /// The thread.
        tid: u32,
        /// Who traces it.
        tracer: u32,
    },
    /// The kernel does not let us trace it.
    #[error("thread {tid} cannot be traced: {errno}")]
    Refused {
        /// The thread.
        tid: u32,
        /// What `PTRACE_SEIZE` said.
        errno: Errno,
    },
    /// A thread did not stop in time.
    #[error("thread {tid} did not stop within {millis} ms (state {state})")]
    NotStopped {
        /// The thread.
        tid: u32,
        /// How long was waited.
        millis: u128,
        /// Its state in `/proc/TID/stat`.
        state: char,
    },
    /// No stopped thread can make a system call for us.
    #[error("no thread of process {pid} is in a state to be borrowed")]
    NoThread {
        /// The process.
        pid: u32,
    },
    /// A system call that we made with a thread of the program failed.
    #[error("the program's {name} failed: {errno}")]
    Call {
        /// Name of the call.
        name: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// The range cannot be shared with a device.
    #[error("range {addr:#x} of the program cannot be shared: {errno}")]
    Range {
        /// Where it begins.
        addr: u64,
        /// What the program gets to see.
        errno: Errno,
    },
    /// One of our own system calls failed.
    #[error("{what}: {errno}")]
    Own {
        /// What was attempted.
        what: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// The process ended, or executed another program.
    #[error("process {pid} has ended")]
    Gone {
        /// The process.
        pid: u32,
    },
}

impl ConvertError {
    /// What the program's ioctl fails with.
    ///
    /// `EBUSY` where the same call may succeed later, `ENOMEM` where memory, descriptors or mappings ran
    /// out, `EOPNOTSUPP` where the program is not one that we can help.
    #[must_use]
    pub fn errno(&self) -> Errno {
        const SCARCE: [Errno; 5] =
            [Errno::ENOMEM, Errno::EMFILE, Errno::ENFILE, Errno::EAGAIN, Errno::ENOSPC];
        match self {
            Self::Traced { .. } | Self::NotStopped { .. } | Self::NoThread { .. } => Errno::EBUSY,
            Self::Refused { .. } => Errno::EOPNOTSUPP,
            Self::Call { errno, .. } | Self::Own { errno, .. } if SCARCE.contains(errno) => Errno::ENOMEM,
            Self::Call { .. } | Self::Own { .. } => Errno::EOPNOTSUPP,
            Self::Range { errno, .. } => *errno,
            Self::Gone { .. } => Errno::ESRCH,
        }
    }
}
