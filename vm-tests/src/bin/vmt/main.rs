//! `vmt`: the harness by hand.

mod measure;

use std::{path::PathBuf, process::ExitCode, time::Instant};

use clap::{Parser, Subcommand};
use vm_tests::{Config, Error, Kernel, Root, RootCommand, Run, Vm, programs, wire::End};

/// Makes and uses the virtual machines and Debian roots of the tests.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make everything that the tests keep in the cache, and print where it is and how long it took.
    Warm,
    /// Measure what TIME_BUDGET.md lists, and print its rows. Cold with an empty XDG_CACHE_HOME.
    Measure,
    /// Print the directory of a Debian root, making it if needed.
    Root {
        /// Which: `trixie` (Debian 13), or `qemu` (the QEMU of its backports).
        #[arg(value_parser = ["trixie", "qemu"])]
        name: String,
    },
    /// Run a program inside the Debian 13 root.
    Enter {
        /// Run it as this user id.
        #[arg(long)]
        uid: Option<u32>,
        /// Show this directory of the host, read-only, under /host.
        #[arg(long)]
        bind: Vec<PathBuf>,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// Boot a guest with the stock kernel, run a program of the host or of a root in it, and print its output.
    Boot {
        /// Load this kernel module.
        #[arg(long)]
        module: Vec<String>,
        /// Give the guest the Debian 13 root and run the program inside it.
        #[arg(long)]
        trixie: bool,
        /// Put this program of the host into the guest's /bin, with its libraries.
        #[arg(long)]
        program: Vec<PathBuf>,
        /// The guest's memory in MiB.
        #[arg(long, default_value_t = 2048)]
        memory: u32,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    match Cli::parse().command.run() {
        Ok(code) => code,
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

impl Verb {
    fn run(self) -> Result<ExitCode, Error> {
        match self {
            Self::Warm => warm(),
            Self::Measure => measure::measure().map(|()| ExitCode::SUCCESS),
            Self::Root { name } => {
                let root = if name == "qemu" { Root::qemu() } else { Root::trixie() };
                println!("{}", root?.dir().display());
                Ok(ExitCode::SUCCESS)
            }
            Self::Enter { uid, bind, argv } => enter(uid, &bind, &argv),
            Self::Boot { module, trixie, program, memory, argv } => {
                let mut config = Config::stock()?.memory_mib(memory);
                config = module.iter().fold(config, |config, module| config.module(module));
                config = program.iter().fold(config, |config, program| config.program(program));
                boot(config, trixie, argv)
            }
        }
    }
}

/// Makes one thing after the other, each with its time.
fn warm() -> Result<ExitCode, Error> {
    let mut start = Instant::now();
    let mut made = |what: &str, path: PathBuf| {
        println!("{:6.1} s  {what}: {}", start.elapsed().as_secs_f64(), path.display());
        start = Instant::now();
    };
    made("kernel", Kernel::stock()?.image());
    made("kernel 7.x", Kernel::newest_7()?.image());
    let root = Root::trixie()?;
    made("Debian 13 root", root.dir().to_owned());
    made("Debian 13 disk image", root.image()?);
    made("newest QEMU", Root::qemu()?.dir().to_owned());
    made("static agent", programs::static_bin("agent")?);
    Ok(ExitCode::SUCCESS)
}

fn enter(uid: Option<u32>, binds: &[PathBuf], argv: &[String]) -> Result<ExitCode, Error> {
    let Some((program, arguments)) = argv.split_first() else { return Ok(ExitCode::FAILURE) };
    let mut inside = Root::trixie()?.command(program).args(arguments);
    inside = binds.iter().fold(inside, |inside, dir| inside.bind(dir));
    inside = uid.into_iter().fold(inside, RootCommand::uid);
    let mut command = inside.build();
    let shown = program.clone();
    let status = command.status().map_err(|source| Error::Start { command: shown, source })?;
    Ok(exit_code(status.code().unwrap_or(1)))
}

fn boot(config: Config, trixie: bool, argv: Vec<String>) -> Result<ExitCode, Error> {
    let start = Instant::now();
    let mut run = Run::new(argv);
    let mut config = config;
    if trixie {
        let root = Root::trixie()?;
        config = config.root(&root)?;
        run = run.root(&root);
    }
    let mut vm = Vm::boot(&config)?;
    log::info!("booted in {:.1} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let output = vm.run(&run)?;
    log::info!("the program ended with {:?} after {:.1} s", output.end, start.elapsed().as_secs_f64());
    print!("{}", output.stdout);
    eprint!("{}", output.stderr);
    match output.end {
        End::Status(status) => Ok(exit_code(status)),
        End::Signal(signal) => Ok(exit_code(128 + signal)),
        End::TimedOut => Ok(ExitCode::FAILURE),
    }
}

/// Statuses are bytes.
fn exit_code(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status & 0xff).unwrap_or(1))
}
