//! The host's side of kfdvirt.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use vhost_device_kfd::cli::{CAPABILITIES, Cli, asks_for_capabilities};
use vhost_device_kfd::device::Device;
use vhost_device_kfd::grants::kept;
use vhost_device_kfd::serve::{Endpoint, ServeError, bind, inherit, serve};
use vhost_device_kfd::workers::Workers;
use vhost_device_kfd::{metrics, signals, worker};

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == worker::process::SUBCOMMAND) {
        return worker::process::main(std::env::args_os().skip(1));
    }
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

fn run(cli: &Cli) -> Result<(), Box<dyn std::error::Error>> {
    let gpu = cli.gpu.choice();
    gpu.check()?;
    cli.grants.check(&gpu)?;
    let endpoint = endpoint(cli)?;
    let result = run_device(cli, &gpu, endpoint);
    if let Some(path) = cli.socket_path.as_deref() {
        remove(path);
    }
    result
}

fn endpoint(cli: &Cli) -> Result<Endpoint, ServeError> {
    match (cli.socket_path.as_deref(), cli.fd) {
        (Some(path), _) => bind(path),
        // Clap asks for one of the two.
        (None, fd) => inherit(fd.unwrap_or(-1)),
    }
}

fn run_device(
    cli: &Cli,
    gpu: &vhost_device_kfd::gpu::Gpu,
    endpoint: Endpoint,
) -> Result<(), Box<dyn std::error::Error>> {
    raise_descriptor_limit();
    let window = cli.window.window(gpu)?;
    let limits = cli.supply.limits(gpu);
    let program = worker::process::program(gpu, &cli.grants, window.is_some(), kept(&limits));
    let workers = Workers::new(program, cli.bounds())?.sharing(limits);
    let (counters, supply) = (workers.metrics(), workers.supply());
    let device = Device::new(Box::new(workers), cli.limits());
    let device = Arc::new(match window {
        Some(window) => device.with_window(window),
        None => device,
    });
    let writer = match &cli.metrics_path {
        None => None,
        Some(path) => {
            let source = metrics::Source::new(Arc::clone(&device), counters, supply);
            let writer = metrics::Writer::start(path.clone(), source);
            Some(writer.map_err(|error| format!("cannot write {}: {error}", path.display()))?)
        }
    };
    let (last, socket) = (writer.as_ref().map(metrics::Writer::last), cli.socket_path.clone());
    signals::end_after(move || {
        if let Some(write) = &last {
            write();
        }
        if let Some(path) = socket.as_deref() {
            remove(path);
        }
    })?;
    log::info!("contexts get the {gpu}");
    Ok(serve(&device, endpoint)?)
}

/// Removes the socket.
fn remove(path: &Path) {
    // It may have been removed already.
    drop(std::fs::remove_file(path));
}

/// Each context has a few descriptors, and the soft limit is low for programs that use `select`; this is none.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        log::debug!("the limit of descriptors stays: {error}");
    }
}
