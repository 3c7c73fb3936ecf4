//! AMD's KFD interface (`/dev/kfd`, `include/uapi/linux/kfd_ioctl.h`), declared once.

pub mod args;
pub mod constants;
pub mod describe;
pub mod device;
pub mod flat;
pub mod ioctl;
pub mod request;
pub mod structs;
pub mod topology;
pub mod types;
pub mod user_mem;

pub use device::{
    Call, Caller, FileId, Interrupt, Kfd, Mapping, Node, Pages, PassedFd, Process, ProcessId, Transfer,
};
pub use ioctl::{Family, Ioctl};
pub use request::{request_nr, request_reads, request_size, request_type, request_writes};
pub use user_mem::{Fault, Shared, SharedBacking, UserMem};
