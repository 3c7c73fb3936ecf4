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

/// Writes the tree.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let machine = args.machine.profile.machine(args.machine.kernel);
    load::write_dir(&machine.tree(), &args.dir, args.force)?;
    Ok(ExitCode::SUCCESS)
}
