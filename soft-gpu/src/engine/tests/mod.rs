//! Whole queues in process: a ring, a doorbell, and the worker thread.

mod aql;
mod kernels;
mod packets;
mod pm4;
mod rig;
mod sdma;
mod total;
mod worker;
