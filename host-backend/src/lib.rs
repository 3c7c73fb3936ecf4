//! `vhost-device-kfd`: a vhost-user backend that is a virtio-gpu device without scanouts (capset 8), driven by the
//! stock `virtio_gpu` kernel driver of the guest.
//!
//! Threats: user code in the guest and the guest's kernel are hostile. Every byte in guest memory may change while
//! it is read; descriptors, requests and scatter lists may say anything. Whatever they say, the process answers
//! with an error at worst and goes on: a VMM cannot replace a backend that ended. The VMM itself is trusted; it
//! has the guest's memory anyway.
//!
//! [`device`] moves descriptors, blobs and fences, and hands each context's own bytes unread to a
//! [`Context`](device::Context). [`workers`] makes contexts that are processes of their own, and [`worker`] is such a
//! process, which executes the calls of one context ([`worker::kfd`]).

pub mod cli;
pub mod device;
pub mod gpu;
pub mod grants;
pub mod link;
pub mod metrics;
pub mod serve;
pub mod session;
pub mod signals;
pub mod worker;
pub mod workers;
