//! Command line of the software GPU.

use std::process::ExitCode;

use clap::Parser;
use softgpu::cli::{Cli, run};

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    run(Cli::parse())
}
