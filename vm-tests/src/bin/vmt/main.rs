//! `vmt`: the harness by hand.

mod bench;
mod demo;
mod measure;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand};
use vm_tests::{
    Config, Error, Kernel, Output, RocmGuest, Root, RootCommand, Run, Vm, kernels, programs, wire::End,
};

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
    /// Fetch the kernels, roots and QEMU that guests are made of and the library of HIP's kernels, and print where they are and how long it took.
    Fetch,
    /// Show a person a GPU in a virtual machine: rocminfo, clinfo, copies, and kernels of HIP and OpenCL, all checked.
    Demo {
        /// Which of Debian's kernels: 6.12, or the newest 7.
        #[arg(long, value_parser = ["6.12", "7"], default_value = "6.12")]
        kernel: String,
        /// What vhost-device-kfd's option --gpu says.
        #[arg(long, default_value = "soft:mi210")]
        gpu: String,
    },
    /// Measure calls, sleeps, copies and doorbells in a guest with one CPU (and in one with two), and print ratios beside their aims.
    Bench {
        /// Which of Debian's kernels: 6.12, or the newest 7.
        #[arg(long, value_parser = ["6.12", "7"], default_value = "6.12")]
        kernel: String,
        /// Profile of the software GPU.
        #[arg(long, default_value = "mi210")]
        profile: String,
        /// What vhost-device-kfd's option --window says.
        #[arg(long, default_value = "off")]
        window: String,
    },
    /// Measure what TIME_BUDGET.md lists, and print its rows. Cold with an empty XDG_CACHE_HOME.
    Measure,
    /// Compile a HIP program of the tests for gfx90a and gfx942, and print its path.
    Hip {
        /// A directory of vm-tests/hip.
        #[arg(value_parser = ["hip_kernels", "hip_faults"], default_value = "hip_kernels")]
        name: String,
    },
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
    /// Boot a guest with Debian 13's ROCm and our library on a software GPU of the host, and run a program in it.
    Gpu {
        /// Which of Debian's kernels: 6.12, or the newest 7.
        #[arg(long, value_parser = ["6.12", "7"], default_value = "6.12")]
        kernel: String,
        /// What vhost-device-kfd's option --gpu says.
        #[arg(long, default_value = "soft:mi210")]
        gpu: String,
        /// What its option --window says.
        #[arg(long, default_value = "off")]
        window: String,
        /// Its virtual CPUs.
        #[arg(long, default_value_t = 2)]
        cpus: u32,
        /// Load amdgpu, which rocminfo looks for.
        #[arg(long)]
        rocminfo: bool,
        /// Put this program of the host into the guest's PATH.
        #[arg(long)]
        program: Vec<PathBuf>,
        /// Seconds that the program may take.
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// The program of Debian 13, or one of --program, and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
    /// Boot a guest with the stock kernel, run a program of the host or of a root in it, and print its output.
    Boot {
        /// Which of Debian's kernels: 6.12, or the newest 7.
        #[arg(long, value_parser = ["6.12", "7"], default_value = "6.12")]
        kernel: String,
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
            Self::Fetch => fetch(&mut Made::now()).map(|_| ExitCode::SUCCESS),
            Self::Demo { kernel, gpu } => {
                demo::demo(kernel_named(&kernel)?, &gpu).map(|()| ExitCode::SUCCESS)
            }
            Self::Bench { kernel, profile, window } => {
                let kernel = kernel_named(&kernel)?;
                bench::bench(&bench::Choice { kernel, profile, window }).map(|()| ExitCode::SUCCESS)
            }
            Self::Measure => measure::measure().map(|()| ExitCode::SUCCESS),
            Self::Hip { name } => {
                println!("{}", kernels::compile_hip(&name)?.display());
                Ok(ExitCode::SUCCESS)
            }
            Self::Root { name } => {
                let root = if name == "qemu" { Root::qemu() } else { Root::trixie() };
                println!("{}", root?.dir().display());
                Ok(ExitCode::SUCCESS)
            }
            Self::Enter { uid, bind, argv } => enter(uid, &bind, &argv),
            Self::Gpu { kernel, gpu, window, cpus, rocminfo, program, seconds, argv } => {
                let say = |what: &str| log::info!("{what}");
                let mut guest = RocmGuest::boot_on(cpus, kernel_named(&kernel)?, &gpu, &window, say)?;
                if rocminfo {
                    guest.satisfy_rocminfo()?;
                }
                let run = Run::new(argv).timeout(Duration::from_secs(seconds));
                with_gpu(guest, &program, &run)
            }
            Self::Boot { kernel, module, trixie, program, memory, argv } => {
                let mut config = Config::stock()?.memory_mib(memory);
                config.kernel = kernel_named(&kernel)?;
                config = module.iter().fold(config, |config, module| config.module(module));
                config = program.iter().fold(config, |config, program| config.program(program));
                boot(config, trixie, argv)
            }
        }
    }
}

/// Says of one thing after the other where it is and how long it took.
struct Made(Instant);

impl Made {
    fn now() -> Self {
        Self(Instant::now())
    }

    fn say(&mut self, what: &str, path: &Path) {
        println!("{:6.1} s  {what}: {}", self.0.elapsed().as_secs_f64(), path.display());
        self.0 = Instant::now();
    }
}

/// What comes from Debian's archive.
fn fetch(made: &mut Made) -> Result<Root, Error> {
    made.say("kernel", &Kernel::stock()?.image());
    made.say("kernel 7.x", &Kernel::newest_7()?.image());
    let root = Root::trixie()?;
    made.say("Debian 13 root", root.dir());
    made.say("newest QEMU", Root::qemu()?.dir());
    made.say("library of kernels", &kernels::device_library()?);
    Ok(root)
}

/// That, and what is made of it.
fn warm() -> Result<ExitCode, Error> {
    let mut made = Made::now();
    let root = fetch(&mut made)?;
    made.say("Debian 13 disk image", &root.image()?);
    made.say("static agent", &programs::static_bin("agent")?);
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
    Ok(show(&output, start))
}

fn with_gpu(mut guest: RocmGuest, programs: &[PathBuf], run: &Run) -> Result<ExitCode, Error> {
    for program in programs {
        guest.program(program)?;
    }
    let start = Instant::now();
    let output = guest.run(run.clone())?;
    let code = show(&output, start);
    log::info!("vhost-device-kfd said:\n{}", guest.daemon().log()?);
    guest.power_off()?;
    Ok(code)
}

/// Debian's kernel of this name.
fn kernel_named(name: &str) -> Result<Kernel, Error> {
    if name == "7" { Kernel::newest_7() } else { Kernel::stock() }
}

/// Prints what the program printed, and makes its end ours.
fn show(output: &Output, start: Instant) -> ExitCode {
    log::info!("the program ended with {:?} after {:.1} s", output.end, start.elapsed().as_secs_f64());
    print!("{}", output.stdout);
    eprint!("{}", output.stderr);
    match output.end {
        End::Status(status) => exit_code(status),
        End::Signal(signal) => exit_code(128 + signal),
        End::TimedOut => ExitCode::FAILURE,
    }
}

/// Statuses are bytes.
fn exit_code(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status & 0xff).unwrap_or(1))
}
