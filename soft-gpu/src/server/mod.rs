//! The KFD server: what amdkfd does with the calls of a process.
//!
//! [`process`] holds what a process has, [`files`] which descriptor is what, [`dispatch`] finds the handler of an
//! ioctl number. The handlers are in modules by subject. Each error number is the one that Linux 6.12 gives for
//! the same call, and where kernels differ [`Kernel`](crate::Kernel) decides.

pub(crate) mod debug;
pub(crate) mod dispatch;
pub(crate) mod drm;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod memory;
mod misc;
pub(crate) mod process;
pub(crate) mod queues;
#[cfg(test)]
pub(crate) mod rig;
mod sleep;
pub(crate) mod smi;
#[cfg(test)]
mod strictness;
#[cfg(test)]
mod tests;
