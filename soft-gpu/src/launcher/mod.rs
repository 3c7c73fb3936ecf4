//! Gives any unmodified program a `/dev/kfd`, render nodes and a topology backed by any [`Kfd`].
//!
//! The program runs in a private mount namespace in which the device nodes are files of shared memory
//! and `/sys` shows the topology, under a seccomp filter whose listener is here: the supervisor
//! executes the program's ioctls on the [`Kfd`]. The memory of the device lies in those files, so that
//! mappings are the kernel's own.
//!
//! Three processes: the supervisor (the caller), the [`reaper`] below it, the program
//! below that. None survives the supervisor.
//!
//! This is no sandbox: the program could do what it liked before, and can now. What it says (requests,
//! addresses, descriptors, names) is nevertheless not believed.
//!
//! Known differences from real device nodes: `read`, `write` and `lseek` succeed; a 32-bit program
//! learns at its first ioctl, not when it opens the node, that KFD refuses it; `stat` through a symbolic
//! link of another name shows a regular file; private file mappings are not checked; a debugger that was
//! attached before a wait without end began can only detach when the wait ends (strace and Ctrl-C; gdb
//! stops threads by signals, which end waits).

mod call;
mod channel;
mod closes;
mod faults;
pub mod filter;
mod graft;
mod nodes;
pub mod notify;
mod parked;
mod pool;
mod reaper;
mod registry;
mod server;
mod signals;
mod stage;
mod stat;
mod supervise;
pub mod sysview;
mod trace;
pub mod tracee;
mod waits;

pub use faults::{Fault, FaultError};
pub use signals::{die_of, explain_bus_errors};
pub use supervise::{LaunchError, Options, Prepared};
pub use trace::TraceFile;

#[cfg(doc)]
use protocol::kfd::Kfd;
