//! The types and traits that the parts of kfdvirt meet in.
//!
//! Nothing here does I/O or makes a system call. [`kfd`] declares AMD's KFD interface (ioctls,
//! constants, topology) once, and the trait [`kfd::Kfd`] that every way to a KFD implements. [`hsakmt`]
//! declares the C types of the library above it, [`virtio_gpu`] the commands of the virtio device.

pub mod drm;
pub mod errno;
pub mod hsakmt;
pub mod kfd;
pub mod virtio_gpu;

pub use errno::Errno;
