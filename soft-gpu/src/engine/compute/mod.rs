//! Kernel dispatches: what the dispatcher makes of an AQL packet and a kernel descriptor.
//!
//! `descriptor` decodes the descriptor, `dispatch` checks a packet, `launch` makes workgroups of it, `floor` runs them a slice at
//! a time, on the thread of the queues and, where a dispatch takes long, on those of `helpers`; `memory` gives their waves the
//! GPU's page tables, and `messages` takes what they tell the driver.

pub(super) mod descriptor;
pub(super) mod dispatch;
mod floor;
mod helpers;
mod launch;
mod memory;
mod messages;

pub(super) use dispatch::{Dispatch, Processor};
pub(super) use launch::{QueueFacts, Scratch};
