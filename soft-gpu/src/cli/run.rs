//! `softgpu run`.

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;

use protocol::kfd::Kfd;
use protocol::kfd::ioctl::Family;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{MachineArgs, complain, loopback_server};
use crate::device::Config;
use crate::isa::exec::report;
use crate::launcher::{Fault, LaunchError, Options, Prepared, TraceFile, die_of, explain_bus_errors};
use crate::{Kernel, SoftGpu};

/// `softgpu run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    /// Write every call to the device into this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// When the program has ended, write into this file how often its kernels executed each opcode, and whether its results are exact
    #[arg(long, value_name = "FILE", conflicts_with = "loopback")]
    report: Option<PathBuf>,
    /// Let one call to the device fail: the number of the call (opens, ioctls and mappings, from 1) and the error, as in 12:ENOMEM
    #[arg(long, value_name = "CALL:ERRNO")]
    fail: Option<Fault>,
    /// Keep the device in another process, behind a socket (an experiment: proves that the boundary can be serialised)
    #[arg(long, hide = true)]
    loopback: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Exit statuses of `env(1)` and `timeout(1)` where the program did not run.
const LAUNCHER_FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs the program and ends as it ended: with its exit status, or of its signal.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    match launch(args) {
        Ok(status) => Ok(end_like(status)),
        Err(error) => {
            complain(error.as_ref());
            Ok(ExitCode::from(match error.downcast_ref() {
                Some(LaunchError::Exec { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    NOT_FOUND
                }
                Some(LaunchError::Exec { .. }) => NOT_EXECUTABLE,
                _ => LAUNCHER_FAILED,
            }))
        }
    }
}

fn launch(args: Args) -> Result<ExitStatus, Box<dyn Error>> {
    let machine = args.machine.machine()?;
    let trace = args.trace.map(|path| TraceFile::create(&path, family(args.machine.kernel))).transpose()?;
    let report = args.report.map(|path| Report::create(&path)).transpose()?;
    let mut command = args.command.into_iter();
    let program = command.next().unwrap_or_default();
    let options = Options {
        program,
        args: command.collect(),
        env: Vec::new(),
        trace,
        kfd_refusal: machine.refuses_processes(),
        fault: args.fail,
    };
    let prepared = Prepared::new(&machine.tree(), options)?;
    let backing = prepared.backing_files()?;
    raise_descriptor_limit();
    if args.loopback {
        let (device, mut server) = loopback_server::start(&args.machine, &machine, &backing)?;
        release_stdio();
        let device = Arc::new(device);
        let status = prepared.run(Arc::clone(&device) as Arc<dyn Kfd>)?;
        device.close();
        let served = server.wait()?;
        return if served.success() {
            Ok(status)
        } else {
            Err(format!("the device ended with {served}").into())
        };
    }
    let gpu = SoftGpu::new(Config { machine, backing })?;
    release_stdio();
    explain_bus_errors();
    let status = prepared.run(Arc::new(gpu))?;
    if let Some(report) = report {
        report.finish()?;
    }
    Ok(status)
}

/// The file of `--report`.
struct Report {
    file: File,
    path: PathBuf,
}

impl Report {
    /// Creates the file before the program runs, and lets the instructions be counted.
    fn create(path: &Path) -> Result<Self, Box<dyn Error>> {
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        report::start();
        Ok(Self { file, path: path.to_owned() })
    }

    fn finish(self) -> Result<(), Box<dyn Error>> {
        let mut text = Vec::new();
        let written = report::write(&mut text).and_then(|()| (&self.file).write_all(&text));
        written.map_err(|error| format!("{}: {error}", self.path.display()).into())
    }
}

/// How ioctl numbers are read.
fn family(kernel: Kernel) -> Family {
    match kernel {
        Kernel::Linux6_12 | Kernel::Linux7_3 => Family::Mainline,
        Kernel::Rocm => Family::Rocm,
    }
}

/// Each process of the program takes descriptors here. The program itself was forked before this and keeps
/// the limit that it was given.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The program has its own copies: its pipes must not stay open because of this process.
fn release_stdio() {
    if let Ok(null) = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

fn end_like(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (_, Some(signal)) => die_of(signal),
        (code, None) => code.and_then(|code| u8::try_from(code).ok()).unwrap_or(LAUNCHER_FAILED).into(),
    }
}
