//! The C library `libhsakmt`: entry points over the engine of the package `hsakmt`, and nothing else.
//!
//! `scripts/build-lib` makes `libhsakmt.so.1` and `libhsakmt.a` of it. The entry points convert, call, and convert
//! back; a panic stops at them. What C pointers can be trusted with stands in [`ffi`].
#![allow(non_snake_case, reason = "C names")]

pub mod drm;
pub mod entry;
pub mod ffi;
pub mod fork_lock;
pub mod guard;
pub mod library;
pub mod logging;
pub mod matrix;
pub mod names;
mod transport;
