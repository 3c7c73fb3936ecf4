//! The host's side of kfdvirt.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use vhost_device_kfd::cli::{CAPABILITIES, Cli, asks_for_capabilities};
use vhost_device_kfd::device::{Device, Limits, NoWorkers};
use vhost_device_kfd::serve::{ServeError, bind, inherit, serve};

fn main() -> ExitCode {
    if asks_for_capabilities(std::env::args_os()) {
        println!("{CAPABILITIES}");
        return ExitCode::SUCCESS;
    }
    let cli = Cli::parse();
    let mut logger = env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info"));
    if let Some(level) = cli.log_level {
        logger.filter_level(level);
    }
    logger.init();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), ServeError> {
    let socket = cli.socket_path.as_deref();
    let endpoint = match (socket, cli.fd) {
        (Some(path), _) => bind(path)?,
        // Clap asks for one of the two.
        (None, fd) => inherit(fd.unwrap_or(-1))?,
    };
    log::warn!("this build has no workers that execute KFD calls: submissions of contexts are refused");
    let device = Arc::new(Device::new(Box::new(NoWorkers), Limits::default()));
    let result = serve(&device, endpoint);
    if let Some(path) = socket {
        // It may have been removed already.
        drop(std::fs::remove_file(path));
    }
    result
}
