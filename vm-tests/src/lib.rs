//! Boots real virtual machines and Debian roots, and runs programs in them.
//!
//! A test reads from top to bottom: boot, run, assert.
//!
//! ```no_run
//! use vm_tests::{Config, Vm};
//!
//! let mut vm = Vm::boot(&Config::stock()?.module("amdgpu"))?;
//! let files = vm.exec(["ls", "/dev/kfd"]);
//! # Ok::<(), vm_tests::Error>(())
//! ```
//!
//! - [`Vm`] is a guest with Debian's stock kernel and a small initramfs under QEMU. Its first process is our
//!   agent (`src/bin/agent`), which speaks the protocol of [`wire`] over a virtio serial port.
//! - [`Root`] is a Debian root directory, entered with `bwrap`, or given to a guest as a disk.
//! - [`RocmGuest`] is a guest with Debian 13's ROCm, our library and the GPU of a daemon on the host.
//! - [`Release`] runs Debian 12's and 13's programs under `softgpu run`.
//! - [`Cache`] keeps what is slow to make, keyed by its recipe and the versions of the packages in it.
//! - [`programs`] builds what runs inside: static Rust programs, C programs, and the libraries of a program;
//!   [`kernels`] what runs on GPUs: HIP programs and kernels in OpenCL C.
//!
//! Every wait has a deadline, and every failure of a guest carries the end of its console. A guest leaves no file
//! behind: its initramfs is a memfd and its channel a socket pair. It ends when its [`Vm`] is dropped, and also
//! when the process that booted it is killed.
//!
//! The feature `harness` (default) holds everything that runs on the host. Without it there is only [`wire`], for
//! the programs that run in a guest.

pub mod wire;

#[cfg(feature = "harness")]
mod apt;
#[cfg(feature = "harness")]
mod cache;
#[cfg(feature = "harness")]
pub mod checks;
#[cfg(feature = "harness")]
pub mod command;
#[cfg(feature = "harness")]
mod console;
#[cfg(feature = "harness")]
mod cpio;
#[cfg(feature = "harness")]
mod daemon;
#[cfg(feature = "harness")]
mod error;
#[cfg(feature = "harness")]
mod initramfs;
#[cfg(feature = "harness")]
mod kernel;
#[cfg(feature = "harness")]
pub mod kernels;
#[cfg(feature = "harness")]
pub mod programs;
#[cfg(feature = "harness")]
mod qemu;
#[cfg(feature = "harness")]
mod release;
#[cfg(feature = "harness")]
mod rocm_guest;
#[cfg(feature = "harness")]
mod root;
#[cfg(feature = "harness")]
pub mod table;
#[cfg(feature = "harness")]
mod vm;
#[cfg(feature = "harness")]
pub mod vm_bench;

#[cfg(feature = "harness")]
pub use {
    cache::Cache,
    daemon::Daemon,
    error::{Error, Result},
    kernel::Kernel,
    qemu::{Accelerator, Emulator},
    release::{Release, Shown},
    rocm_guest::{NO_WINDOW, RocmGuest},
    root::{NOBODY, Root, RootCommand},
    vm::{Config, Output, Run, Vm},
};
