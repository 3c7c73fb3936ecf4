//! The device as a VMM and a guest see it. No VM is needed: a frontend in the test plays both.

mod cloud_hypervisor;
mod fences;
mod guest;
mod hostile;
mod memory;
mod support;
mod window;
mod window_any;
mod workers;
