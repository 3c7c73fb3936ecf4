//! What the host grants contexts, as the command line says it: each of them, and all together.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use crate::gpu::{Gpu, GpuSet, Unusable};
use crate::worker::kfd::{Config, Permissions};
use crate::workers::supply;

/// The options that say it; the daemon and its workers have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct GrantArgs {
    /// Guest memory that one context may share with GPUs at a time, in MiB. No limit but the VM's memory if it is not given.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_memory: Option<u32>,

    /// Ranges of guest memory that one context may share with GPUs at a time; each is a mapping of its worker (vm.max_map_count is a
    /// limit too).
    #[arg(long, value_name = "N", default_value_t = MAPPINGS, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_mappings: u32,

    /// Queues that one context may have at a time. No limit but the GPU's if it is not given.
    #[arg(long, value_name = "N")]
    pub max_queues: Option<u32>,

    /// GPUs that guests get, by their order in the machine, from 0, as in 0,2. All if it is not given.
    #[arg(long, value_name = "LIST")]
    pub share_gpus: Option<GpuSet>,

    /// Lets guests use the profiler of the machine's GPUs (PROFILER, PC_SAMPLE), which one process has at a time: a guest can lock all
    /// others out. Not for software GPUs, which have none.
    #[arg(long)]
    pub allow_profiling: bool,

    /// Lets guests enable what debuggers need (RUNTIME_ENABLE).
    #[arg(long)]
    pub debug: bool,

    /// UUID of the VM. Guests see ids of GPUs that are made from it, so that those of two VMs differ.
    #[arg(long, value_name = "UUID")]
    pub vm_id: Option<VmId>,
}

/// Default of `--max-mappings`.
const MAPPINGS: u32 = 1 << 17;

impl Default for GrantArgs {
    fn default() -> GrantArgs {
        GrantArgs {
            max_memory: None,
            max_mappings: MAPPINGS,
            max_queues: None,
            share_gpus: None,
            allow_profiling: false,
            debug: false,
            vm_id: None,
        }
    }
}

impl GrantArgs {
    /// What an executor may do and spend.
    #[must_use]
    pub fn config(&self) -> Config {
        let default = Config::default();
        Config {
            memory: self.max_memory.map_or(default.memory, |mebibytes| u64::from(mebibytes) << 20),
            aliases: self.max_mappings,
            queues: self.max_queues.unwrap_or(default.queues),
            permissions: Permissions { debug: self.debug, profiling: self.allow_profiling },
            gpus: self.share_gpus.unwrap_or_default(),
            identity: self.vm_id.map_or(default.identity, |id| id.0),
            ..default
        }
    }

    /// Finds out early whether workers with this GPU can grant it.
    ///
    /// # Errors
    /// [`Ungrantable`].
    pub fn check(&self, gpu: &Gpu) -> Result<(), Ungrantable> {
        if self.allow_profiling && matches!(gpu, Gpu::Soft(_)) {
            return Err(Ungrantable::Profiler);
        }
        let Some(shared) = self.share_gpus else { return Ok(()) };
        let count = gpu.count()?;
        match shared.beyond(count) {
            None => Ok(()),
            Some(number) => Err(Ungrantable::NoSuchGpu { number, count }),
        }
    }

    /// The options that say it.
    #[must_use]
    pub fn to_args(&self) -> Vec<OsString> {
        let memory = self.max_memory.map(|mebibytes| format!("--max-memory={mebibytes}"));
        let mappings = Some(format!("--max-mappings={}", self.max_mappings));
        let queues = self.max_queues.map(|queues| format!("--max-queues={queues}"));
        let gpus = self.share_gpus.map(|gpus| format!("--share-gpus={gpus}"));
        let profiling = self.allow_profiling.then(|| "--allow-profiling".to_owned());
        let debug = self.debug.then(|| "--debug".to_owned());
        let id = self.vm_id.map(|id| format!("--vm-id={id}"));
        [memory, mappings, queues, gpus, profiling, debug, id].into_iter().flatten().map(Into::into).collect()
    }
}

/// What was asked for and cannot be granted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ungrantable {
    /// There is none.
    #[error("--allow-profiling is for the machine's own GPUs (--kfd): software GPUs have no profiler")]
    Profiler,
    /// There are fewer.
    #[error("--share-gpus names GPU {number}, but there are {count}, counted from 0")]
    NoSuchGpu {
        /// Its number.
        number: usize,
        /// How many there are.
        count: usize,
    },
    /// It is not known how many there are.
    #[error(transparent)]
    Unusable(#[from] Unusable),
}

/// The options for what all contexts have together; the daemon has them alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct SupplyArgs {
    /// VRAM that all contexts together may have, on all GPUs, in MiB. No limit but the GPUs' if it is not given.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_vram: Option<u32>,

    /// VRAM that one context may have, on all GPUs, in MiB. No limit but the others if it is not given.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_context_vram: Option<u32>,

    /// System memory of the host that all contexts together may have allocated through KFD (GTT), in MiB. No limit but KFD's
    /// if it is not given.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_host_memory: Option<u32>,
}

/// What a worker keeps at most of each kind of memory that it freed.
const KEEP: u64 = 4 << 20;

impl SupplyArgs {
    /// How much memory contexts share. Each has a software GPU of its own, but together they have no more than one.
    #[must_use]
    pub fn limits(&self, gpu: &Gpu) -> supply::Limits {
        let bytes = |mebibytes: Option<u32>| mebibytes.map(|mebibytes| u64::from(mebibytes) << 20);
        let (gpus, gtt) = match gpu {
            Gpu::Soft(profile) => {
                let machine = profile.machine(softgpu::Kernel::default());
                (Some(machine.vram_for_buffers().into_iter().collect()), Some(machine.gtt_for_buffers()))
            }
            // The kernel knows what all processes have.
            Gpu::Kfd(_) => (None, None),
        };
        supply::Limits {
            gpus,
            vram: bytes(self.max_vram),
            context_vram: bytes(self.max_context_vram),
            host: bytes(self.max_host_memory).into_iter().chain(gtt).min(),
        }
    }
}

/// What workers keep of what they freed: so little that 128 of them keep no more than an eighth of what there is.
#[must_use]
pub fn kept(limits: &supply::Limits) -> u64 {
    let gpus = limits.gpus.iter().flat_map(|gpus| gpus.values().copied());
    let others = [limits.vram, limits.context_vram, limits.host].into_iter().flatten();
    let least = gpus.chain(others).min().unwrap_or(u64::MAX);
    KEEP.min(least >> 10) & !((2 << 20) - 1)
}

/// A UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmId(pub u128);

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Not a UUID.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a UUID: 32 hexadecimal digits, with or without hyphens")]
pub struct NoUuid;

impl FromStr for VmId {
    type Err = NoUuid;

    fn from_str(text: &str) -> Result<VmId, NoUuid> {
        let digits = text.replace('-', "");
        if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NoUuid);
        }
        u128::from_str_radix(&digits, 16).map(VmId).map_err(|_| NoUuid)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        grants: GrantArgs,
    }

    fn parse(args: &[&str]) -> Result<GrantArgs, clap::Error> {
        Line::try_parse_from([&["x"], args].concat()).map(|line| line.grants)
    }

    #[test]
    fn grants_come_back_from_their_arguments_and_reach_the_executor() {
        assert_eq!(parse(&[]).expect("valid"), GrantArgs::default());
        let id = "--vm-id=01234567-89ab-cdef-0123-456789ABCDEF";
        let limits = ["--max-memory=3", "--max-mappings=5", "--max-queues=0"];
        let others = ["--share-gpus=1,3", "--allow-profiling", "--debug", id];
        let grants = parse(&[&limits[..], &others].concat()).expect("valid");
        let config = grants.config();
        assert_eq!(config.memory, 3 << 20);
        assert_eq!(config.permissions, Permissions { debug: true, profiling: true });
        assert_eq!(config.gpus, "3,1".parse().expect("a set"));
        assert_eq!((config.aliases, config.queues), (5, 0));
        assert_eq!(config.identity, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let args: Vec<String> =
            grants.to_args().into_iter().map(|arg| arg.into_string().expect("text")).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_eq!(parse(&args).expect("valid"), grants);
        let default = Config::default();
        let config = GrantArgs::default().config();
        assert_eq!((config.memory, config.identity), (default.memory, default.identity));
        assert_eq!((config.permissions, config.gpus), (Permissions::default(), GpuSet::ALL));
        assert_eq!((config.aliases, config.queues), (default.aliases, default.queues));
    }

    #[test]
    fn wrong_grants_are_refused() {
        for args in [
            "--max-memory=0",
            "--max-mappings=0",
            "--max-queues=-1",
            "--vm-id=",
            "--vm-id=x",
            "--vm-id=+123456789abcdef0123456789abcdef",
        ] {
            assert!(parse(&[args]).is_err(), "{args}");
        }
    }

    #[test]
    fn what_a_gpu_does_not_have_is_refused_by_name() {
        let (soft, kernel) = (Gpu::Soft(softgpu::Profile::TwoGpu), Gpu::Kfd("/dev/kfd".into()));
        let check = |args: &[&str], gpu: &Gpu| {
            parse(args).expect("valid").check(gpu).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["--share-gpus=1", "--debug"], &soft), Ok(()));
        assert_eq!(
            check(&["--share-gpus=0,2"], &soft).expect_err("refused"),
            "--share-gpus names GPU 2, but there are 2, counted from 0"
        );
        let refused = check(&["--allow-profiling"], &soft).expect_err("refused");
        assert!(refused.contains("software GPUs have no profiler"), "{refused}");
        assert_eq!(check(&["--allow-profiling"], &kernel), Ok(()));
    }

    #[derive(Debug, clap::Parser)]
    struct SupplyLine {
        #[command(flatten)]
        supply: SupplyArgs,
    }

    #[test]
    fn contexts_share_what_one_gpu_has_and_no_more_than_is_said() {
        let parse =
            |args: &[&str]| SupplyLine::try_parse_from([&["x"], args].concat()).map(|line| line.supply);
        let soft = Gpu::Soft(softgpu::Profile::TwoGpu);
        let of = |args: &[&str], gpu: &Gpu| parse(args).expect("valid").limits(gpu);
        let limits = of(&[], &soft);
        // Two MI210, less what amdgpu sets aside for page tables (1/16384 of both, and no less than 8 MiB).
        let gpus: Vec<u64> = limits.gpus.clone().expect("known").into_values().collect();
        assert_eq!(gpus, [68_702_699_520 - (8 << 20); 2]);
        assert_eq!((limits.vram, limits.context_vram), (None, None));
        assert!(limits.host.is_some(), "half of the machine's memory");
        assert_eq!(kept(&limits), 4 << 20);
        let args = ["--max-vram=300", "--max-context-vram=200", "--max-host-memory=1"];
        let limits = of(&args, &soft);
        assert_eq!(
            (limits.vram, limits.context_vram, limits.host),
            (Some(300 << 20), Some(200 << 20), Some(1 << 20))
        );
        assert_eq!(kept(&limits), 0, "nothing of so little");
        let kernel = Gpu::Kfd("/dev/kfd".into());
        assert_eq!(of(&[], &kernel), supply::Limits::default());
        assert_eq!(of(&args, &kernel).vram, Some(300 << 20));
        for args in ["--max-vram=0", "--max-context-vram=0", "--max-host-memory=x"] {
            assert!(parse(&[args]).is_err(), "{args}");
        }
    }
}
