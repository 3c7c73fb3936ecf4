//! ROCm's user-space thunk as a library: what `libhsakmt.so.1` does, without its C entry points.
//!
//! [`engine`] is written once and knows no transport: it reaches the device through [`protocol::kfd::Kfd`]
//! alone. [`native`] is that trait over the kernel's `/dev/kfd`, [`virtio`] the same over a virtio-gpu device, in a virtual
//! machine.

pub mod engine;
mod fork;
mod kernel_ioctl;
pub mod native;
#[cfg(test)]
mod testing;
pub mod virtio;

pub use engine::{Connection, Engine, Library, Options, Result};

/// The same number in protocol's type.
fn errno_of(error: rustix::io::Errno) -> protocol::Errno {
    protocol::Errno::from_raw(error.raw_os_error()).unwrap_or(protocol::Errno::EIO)
}
