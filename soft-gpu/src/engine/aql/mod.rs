//! AQL: the packets of HSA queues (`packet`), signals, and what the packet processor does (`exec`).

pub(super) mod exec;
pub(super) mod packet;
pub(super) mod signal;
