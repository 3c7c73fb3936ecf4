//! `softgpu topology DIR`.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use super::MachineArgs;
use crate::profile::load;

/// `softgpu topology DIR`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory to write to; it is made if it does not exist
    dir: PathBuf,
    #[command(flatten)]
    machine: MachineArgs,
    /// Replace a topology that is in the directory
    #[arg(long)]
    force: bool,
}

/// Writes the tree. One that was read from a directory is written as it was.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    load::write_dir(&args.machine.machine()?.tree(), &args.dir, args.force)?;
    Ok(ExitCode::SUCCESS)
}
