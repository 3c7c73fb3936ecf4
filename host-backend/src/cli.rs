//! Command line, by the conventions of vhost-user backends (QEMU, docs/interop/vhost-user.rst).

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Parser};

use crate::device::{Limits, WINDOW_SIZES, Window};
use crate::gpu::{Gpu, GpuArgs};
use crate::grants::{GrantArgs, SupplyArgs};
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

    /// What all contexts have together.
    #[command(flatten)]
    pub supply: SupplyArgs,

    /// Part of the guest's address space in which it sees memory of the software GPU: 256M, 512M and so on to 256G, as much
    /// as the guest can make the host keep. "off": the guest sees its own memory only.
    #[arg(long, value_name = "SIZE", default_value = "off")]
    pub window: WindowSize,

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
pub enum WindowSize {
    /// There is none: guest-memory mode.
    Off,
    /// Window mode, with so many bytes.
    Bytes(u64),
}

/// Not a value of `--window`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected off, or a power of two from 256M to 256G")]
pub struct NoWindowSize;

impl FromStr for WindowSize {
    type Err = NoWindowSize;

    fn from_str(text: &str) -> Result<WindowSize, NoWindowSize> {
        if text == "off" {
            return Ok(WindowSize::Off);
        }
        let (digits, shift) = match (text.strip_suffix('M'), text.strip_suffix('G')) {
            (Some(digits), _) => (digits, 20),
            (_, Some(digits)) => (digits, 30),
            _ => return Err(NoWindowSize),
        };
        let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
        let number = digits.parse::<u32>().ok().filter(|_| plain).ok_or(NoWindowSize)?;
        let bytes = u64::from(number) << shift;
        let possible = bytes.is_power_of_two() && WINDOW_SIZES.contains(&bytes);
        if possible { Ok(WindowSize::Bytes(bytes)) } else { Err(NoWindowSize) }
    }
}

/// A window that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// Memory of real GPUs is not shown yet.
    #[error("--window is for the software GPU: memory of real GPUs is not shown to guests yet")]
    RealGpu,
    /// The system refuses.
    #[error("no memory for a window: {0}")]
    Memory(#[from] std::io::Error),
}

impl WindowSize {
    /// Makes the window for a guest with this GPU.
    ///
    /// # Errors
    /// [`WindowError`].
    pub fn window(self, gpu: &Gpu) -> Result<Option<Window>, WindowError> {
        match (self, gpu) {
            (WindowSize::Off, _) => Ok(None),
            (WindowSize::Bytes(_), Gpu::Kfd(_)) => Err(WindowError::RealGpu),
            (WindowSize::Bytes(bytes), Gpu::Soft(_)) => Ok(Some(Window::new(bytes)?)),
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
        assert_eq!(cli.window, WindowSize::Off);
        assert_eq!((cli.limits().contexts, cli.bounds().processes, cli.limits().blobs), (7, 7, 9));
    }

    #[test]
    fn windows_have_sizes_that_vmms_and_drivers_take() {
        let bytes = |text: &str| match text.parse() {
            Ok(WindowSize::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        for (text, size) in [("256M", 256 << 20), ("1024M", 1 << 30), ("1G", 1 << 30), ("256G", 256 << 30)] {
            assert_eq!(bytes(text), Some(size), "{text}");
        }
        for text in ["", "G", "on", "1", "+1G", "128M", "3G", "512G", "4294967296G", "1g", "1 G", "-1G"] {
            assert_eq!(text.parse::<WindowSize>(), Err(NoWindowSize), "{text}");
        }
        let gpu = Gpu::Kfd("/dev/kfd".into());
        assert!(matches!(WindowSize::Bytes(1 << 30).window(&gpu), Err(WindowError::RealGpu)));
        assert!(WindowSize::Off.window(&gpu).expect("none").is_none());
        let soft = Gpu::Soft(softgpu::Profile::Mi210);
        let window = WindowSize::Bytes(1 << 30).window(&soft).expect("memory").expect("a window");
        assert_eq!(window.size(), 1 << 30);
    }
}
