//! Command line, by the conventions of vhost-user backends (QEMU, docs/interop/vhost-user.rst).

use std::os::fd::RawFd;
use std::path::PathBuf;

use clap::{ArgGroup, Parser};

/// What `--print-capabilities` prints: a backend for a GPU, with no options of its own.
pub const CAPABILITIES: &str = r#"{"type": "gpu", "features": []}"#;

/// A virtio-gpu device without scanouts that is to carry AMD's KFD interface into a VM.
///
/// No KFD call is executed yet: every submission is refused. Serves one VM and ends with it. Stays in the foreground.
#[derive(Debug, Parser)]
#[command(version, group(ArgGroup::new("socket").required(true).args(["socket_path", "fd"])))]
pub struct Cli {
    /// Socket to make and to listen on; a file of that name is replaced if it is a socket.
    #[arg(long, value_name = "PATH")]
    pub socket_path: Option<PathBuf>,

    /// Descriptor of a socket to use instead, connected to the VMM or listening.
    #[arg(long, value_name = "FD")]
    pub fd: Option<RawFd>,

    /// Prints what this backend is as JSON and ends; other options are ignored.
    #[arg(long)]
    pub print_capabilities: bool,

    /// What is logged to standard error: off, error, warn, info, debug or trace. RUST_LOG says it too.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<log::LevelFilter>,
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
    }
}
