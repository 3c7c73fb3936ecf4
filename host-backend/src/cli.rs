//! Command line, by the conventions of vhost-user backends (QEMU, docs/interop/vhost-user.rst).

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Parser};

use crate::device::Limits;
use crate::gpu::GpuArgs;
use crate::grants::GrantArgs;
use crate::workers::Bounds;

/// What `--print-capabilities` prints: a backend for a GPU, with no options of its own.
pub const CAPABILITIES: &str = r#"{"type": "gpu", "features": []}"#;

/// A virtio-gpu device without scanouts that carries AMD's KFD interface into a VM.
///
/// Serves one VM and ends with it. Stays in the foreground.
/// Each context of the guest (a program that opened the render node) is executed by a process of its own.
#[derive(Debug, Parser)]
#[command(version, group(ArgGroup::new("socket").required(true).args(["socket_path", "fd"])))]
pub struct Cli {
    /// Socket to make and to listen on; a file of that name is replaced if it is a socket.
    #[arg(long, value_name = "PATH")]
    pub socket_path: Option<PathBuf>,

    /// Descriptor of a socket to use instead, connected to the VMM or listening.
    #[arg(long, value_name = "FD")]
    pub fd: Option<RawFd>,

    /// Which GPU the guest uses.
    #[command(flatten)]
    pub gpu: GpuArgs,

    /// What each context may have.
    #[command(flatten)]
    pub grants: GrantArgs,

    /// Part of the guest's address space through which it reaches memory of the host. Only "off": the guest gets its own
    /// memory.
    #[arg(long, value_name = "off", default_value = "off")]
    pub window: Window,

    /// Contexts at a time; each is a process.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_contexts: u16,

    /// Blobs of guest memory at a time.
    #[arg(long, value_name = "N", default_value_t = 1 << 18, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_blobs: u32,

    /// File for numbers of what happens, as JSON: rewritten every second and at the end.
    #[arg(long, value_name = "FILE")]
    pub metrics_path: Option<PathBuf>,

    /// Prints what this backend is as JSON and ends; other options are ignored.
    #[arg(long)]
    pub print_capabilities: bool,

    /// What is logged to standard error: off, error, warn, info, debug or trace. RUST_LOG says it too.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<log::LevelFilter>,
}

/// A value of `--window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// There is none: guest-memory mode.
    Off,
}

impl FromStr for Window {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Window, Self::Err> {
        match text {
            "off" => Ok(Window::Off),
            _ => Err("only off is possible: this version has no window"),
        }
    }
}

impl Cli {
    /// Limits of the device.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            contexts: usize::from(self.max_contexts),
            blobs: usize::try_from(self.max_blobs).unwrap_or(usize::MAX),
            ..Limits::default()
        }
    }

    /// Bounds of the workers.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds { processes: usize::from(self.max_contexts), ..Bounds::default() }
    }
}

/// Whether `--print-capabilities` is among the arguments, whatever else is.
pub fn asks_for_capabilities(mut args: impl Iterator<Item = std::ffi::OsString>) -> bool {
    args.any(|arg| arg == "--print-capabilities")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["x"]).is_err());
        assert!(Cli::try_parse_from(["x", "--fd=3", "--socket-path=y"]).is_err());
        let cli = Cli::try_parse_from(["x", "--fd=3", "--log-level=debug"]).expect("valid");
        assert_eq!((cli.fd, cli.log_level), (Some(3), Some(log::LevelFilter::Debug)));
        assert_eq!((cli.limits(), cli.bounds()), (Limits::default(), Bounds::default()));
        let cli = Cli::try_parse_from(["x", "--fd=3", "--max-contexts=7", "--max-blobs=9"]).expect("valid");
        assert_eq!((cli.limits().contexts, cli.bounds().processes, cli.limits().blobs), (7, 7, 9));
    }
}
