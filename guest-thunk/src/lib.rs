//! ROCm's user-space thunk as a library: what `libhsakmt.so.1` does, without its C entry points.
//!
//! [`engine`] is written once and knows no transport: it reaches the device through [`protocol::kfd::Kfd`]
//! alone. [`native`] is that trait over the kernel's `/dev/kfd`.

#[allow(dead_code, reason = "parts of the engine are not in yet")]
pub mod engine;
pub mod native;

pub use engine::{Connection, Engine, Library, Options, Result};
