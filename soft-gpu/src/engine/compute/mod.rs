//! Kernel dispatches: what the dispatcher makes of an AQL packet and a kernel descriptor.
//!
//! `descriptor` decodes the descriptor, `dispatch` starts workgroups and runs them a slice at a time, `memory` gives
//! their waves the GPU's page tables.

pub(super) mod descriptor;
pub(super) mod dispatch;
mod memory;

pub(super) use dispatch::{Dispatch, Processor};
