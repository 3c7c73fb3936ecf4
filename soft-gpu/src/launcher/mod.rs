//! Gives any unmodified program a `/dev/kfd`.

pub mod tracee;
