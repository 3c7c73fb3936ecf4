//! The command line of `softgpu`.

mod disasm;
mod loopback_server;
mod profiles;
mod run;
mod topology;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::profile::load;
use crate::{Kernel, Machine, Profile};

/// A software AMD GPU: KFD, render nodes and queues without hardware.
#[derive(Debug, Parser)]
#[command(name = "softgpu", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Disassemble the kernels of a code object
    Disasm(disasm::Args),
    /// Serve the device on a socket (standard input), for `run --loopback`
    #[command(hide = true)]
    LoopbackServer(loopback_server::Args),
    /// List the built-in machines
    Profiles(profiles::Args),
    /// Run a program that sees the device
    Run(run::Args),
    /// Write the topology tree of a machine into a directory
    Topology(topology::Args),
}

/// Which machine, and whose KFD.
#[derive(Debug, clap::Args)]
pub struct MachineArgs {
    /// Built-in machine: mi210, mi300x, rx7900xtx, two-gpu, small-bar, mi210-private or cpu-only
    #[arg(long, value_name = "NAME", default_value_t)]
    pub profile: Profile,
    /// Topology tree to take the machine from instead (as in /sys/devices/virtual/kfd/kfd/topology)
    #[arg(long, value_name = "DIR", conflicts_with = "profile")]
    pub topology: Option<PathBuf>,
    /// Kernel to behave like: 6.12, 7.3 or rocm
    #[arg(long, value_name = "KERNEL", default_value_t)]
    pub kernel: Kernel,
}

impl MachineArgs {
    /// The machine. What was odd in a tree is logged as warnings.
    ///
    /// # Errors
    /// A tree that cannot be read or is no machine, with the directory's name.
    pub fn machine(&self) -> Result<Machine, Box<dyn Error>> {
        let Some(dir) = &self.topology else { return Ok(self.profile.machine(self.kernel)) };
        let (machine, warnings) = Machine::from_tree(load::read_dir(dir)?, self.kernel)
            .map_err(|error| format!("{}: {error}", dir.display()))?;
        for warning in warnings {
            log::warn!("{}: {warning}", dir.display());
        }
        Ok(machine)
    }
}

/// Runs the command and says how the process ends. Errors are printed.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Disasm(args) => disasm::run(&args),
        Command::LoopbackServer(args) => loopback_server::run(&args),
        Command::Profiles(args) => profiles::run(&args),
        Command::Run(args) => run::run(args),
        Command::Topology(args) => topology::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            complain(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

/// Says what went wrong, if anybody can read it: a full or closed standard error must not change how the process
/// ends, which `eprintln` would (a panic).
fn complain(error: &dyn Error) {
    let _ = writeln!(io::stderr(), "softgpu: {error}");
}
