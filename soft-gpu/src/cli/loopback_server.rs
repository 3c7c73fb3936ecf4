//! `softgpu loopback-server`: the software GPU in a process of its own, for `softgpu run --loopback`.

use std::error::Error;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use super::MachineArgs;
use crate::SoftGpu;
use crate::device::Config;
use crate::loopback::{self, Loopback};
use crate::{BackingFiles, Machine};

/// `softgpu loopback-server`: standard input is the socket.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,
}

/// Serves until the launcher closes the socket.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let machine = args.machine.machine()?;
    let socket = rustix::stdio::stdin().try_clone_to_owned()?;
    let backing = loopback::receive_backing(socket.as_fd())?;
    let gpu = SoftGpu::new(Config { machine, backing })?;
    loopback::serve(Arc::new(gpu), socket)?;
    Ok(ExitCode::SUCCESS)
}

/// A device in another process, and that process.
///
/// # Errors
/// When the process cannot be started, or ends before it has the backing files.
pub fn start(
    args: &MachineArgs,
    machine: &Machine,
    backing: &BackingFiles,
) -> Result<(Loopback, Child), Box<dyn Error>> {
    let (client, server) = loopback::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("loopback-server").arg("--kernel").arg(machine.kernel.name());
    match &args.topology {
        Some(dir) => command.arg("--topology").arg(dir),
        None => command.arg("--profile").arg(args.profile.to_string()),
    };
    let child = command.stdin(server).stdout(Stdio::null()).spawn()?;
    loopback::send_backing(client.as_fd(), backing)?;
    Ok((Loopback::new(client)?, child))
}
