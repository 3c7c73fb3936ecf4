//! The program of a worker, from its command line to its end.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use rustix::process::Pid;

use super::allowance::Allowance;
use super::jail::{self, Policy};
use super::kfd::{self, Config, KfdExecutor};
use super::{Executor, end_with, run, start};
use crate::gpu::{Gpu, GpuArgs};
use crate::grants::GrantArgs;
use crate::link::FromWorker;
use crate::workers::Program;

/// First argument of a worker's command line.
pub const SUBCOMMAND: &str = "worker";

/// A worker's command line. The daemon writes it; it is not for people.
#[derive(Debug, Parser)]
#[command(name = "vhost-device-kfd worker")]
struct Args {
    /// Process of the daemon.
    #[arg(long)]
    daemon: i32,

    #[command(flatten)]
    gpu: GpuArgs,

    #[command(flatten)]
    grants: GrantArgs,

    /// The device has a window.
    #[arg(long)]
    window: bool,

    /// The device process is asked for memory that contexts share; so many bytes of each kind are kept when they are freed.
    #[arg(long)]
    allowance: Option<u64>,

    #[arg(long, default_value = "info")]
    log_level: log::LevelFilter,
}

/// What starts workers of this process, with this GPU and these grants, of a device with or without a window. Of memory that they
/// were granted they keep so many bytes of each kind.
#[must_use]
pub fn program(gpu: &Gpu, grants: &GrantArgs, window: bool, keep: u64) -> Program {
    let mut args = vec![
        SUBCOMMAND.into(),
        format!("--daemon={}", std::process::id()).into(),
        format!("--log-level={}", log::max_level()).into(),
        format!("--allowance={keep}").into(),
    ];
    args.extend(gpu.to_args());
    args.extend(grants.to_args());
    args.extend(window.then(|| "--window".into()));
    Program::own(args)
}

/// Is a worker, until its context ends. Nothing else may have happened in the process.
pub fn main(args: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let args = Args::parse_from(args);
    // The daemon adds the time and the context, and takes the level from the line.
    env_logger::Builder::new()
        .filter_level(args.log_level)
        .parse_default_env()
        .format(|out, record| {
            use std::io::Write as _;
            writeln!(out, "{} {}", record.level(), record.args())
        })
        .init();
    match execute(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn execute(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let daemon = Pid::from_raw(args.daemon).ok_or("--daemon is no process")?;
    // SAFETY: this is the first thing that the process does; it has opened nothing.
    let socket = Arc::new(unsafe { start(daemon) }?);
    let config = Config { window: args.window, ..args.grants.config() };
    let allowance = match args.allowance {
        None => Allowance::unlimited(),
        Some(keep) => Allowance::of(Arc::clone(&socket), keep),
    };
    let executor = prepare(daemon, &args.gpu.choice(), config, allowance).inspect_err(|error| {
        // If the daemon does not hear it, it sees the end.
        drop(FromWorker::failed(error).send(&socket));
    })?;
    Ok(run(socket, executor)?)
}

/// Opens the GPU, and locks the process in.
fn prepare(
    daemon: Pid,
    gpu: &Gpu,
    config: Config,
    allowance: Allowance,
) -> Result<Arc<dyn Executor>, Box<dyn std::error::Error>> {
    jail::leave()?;
    end_with(daemon)?;
    let permissions = config.permissions;
    let executor = Arc::new(KfdExecutor::new(kfd::open(gpu)?, config).with_allowance(allowance));
    jail::lock(&Policy::of(gpu, permissions))?;
    Ok(executor)
}
