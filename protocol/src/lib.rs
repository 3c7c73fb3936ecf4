//! The types and traits that the parts of kfdvirt meet in.
//!
//! Nothing here does I/O or makes a system call. [`kfd`] declares AMD's KFD interface (ioctls,
//! constants, topology) once, and the trait [`kfd::Kfd`] that every way to a KFD implements. [`hsakmt`]
//! declares the C types of the library above it, [`virtio_gpu`] the commands of the virtio device, and [`wire`] what a
//! guest and the host say to each other through it.

mod declaration;
pub mod drm;
pub mod errno;
pub mod hsakmt;
pub mod kfd;
pub mod virtio_gpu;
pub mod wire;

pub use declaration::Declaration;
pub use errno::Errno;
