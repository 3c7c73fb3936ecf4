//! `kfdvirt doctor`: says in words what is missing so that ROCm programs find a GPU, in a virtual machine or on its host.

mod doctor;
mod host;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks after ROCm in virtual machines.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Says what is missing so that ROCm programs in this virtual machine find a GPU. Ends with 0 if they do.
    Doctor {
        /// Render node of the virtio-gpu device. [default: all in /dev/dri that may be]
        #[arg(long, value_name = "PATH", conflicts_with = "host")]
        render: Option<PathBuf>,
        /// Look at this machine as the host of virtual machines instead. Ends with 0 if they can have a GPU.
        #[arg(long)]
        host: bool,
        /// The QEMU that will run them.
        #[arg(long, value_name = "PROGRAM", default_value = "qemu-system-x86_64", requires = "host")]
        qemu: OsString,
    },
}

fn main() -> ExitCode {
    // The report has it all; who wants more sets the library's variable.
    env_logger::Builder::from_env(env_logger::Env::new().filter_or("KFDVIRT_LOG", "off")).init();
    let Command::Doctor { render, host, qemu } = Cli::parse().command;
    let report = if host {
        host::examine(&host::Places::default(), &qemu)
    } else {
        doctor::examine(&doctor::Places::default(), render)
    };
    report.lines.iter().for_each(|line| println!("{line}"));
    if report.usable { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
