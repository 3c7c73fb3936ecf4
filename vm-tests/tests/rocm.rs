//! Debian's own ROCm under `softgpu run`: rocminfo and clinfo, with Debian's libhsakmt, of Debian 12 and 13.
//!
//! What they print is compared with data sheets and published output of real cards, by content: an empty or cut
//! output cannot pass.

use std::{path::Path, process::Command, time::Duration};

use vm_tests::{NOBODY, Result, Root, RootCommand, command, programs};

const LIMIT: Duration = Duration::from_secs(120);

/// What rocminfo says of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Agent {
    /// `Name`: the instruction set.
    gfx: String,
    marketing_name: String,
    compute_units: u32,
    wavefront_size: u32,
    /// Sizes of the global pools in KiB, then of the group pool.
    pools_kib: Vec<u64>,
    /// The targets that code objects may be built for.
    isa: Vec<String>,
}

impl Agent {
    fn new(gfx: &str, marketing_name: &str, compute_units: u32, wavefront_size: u32) -> Self {
        let (gfx, marketing_name) = (gfx.to_owned(), marketing_name.to_owned());
        Agent { gfx, marketing_name, compute_units, wavefront_size, pools_kib: Vec::new(), isa: Vec::new() }
    }

    /// `global` pools of `vram_kib` KiB, and the 64 KiB of LDS.
    fn pools(mut self, global: usize, vram_kib: u64) -> Self {
        self.pools_kib = vec![vram_kib; global];
        self.pools_kib.push(64);
        self
    }

    fn isa(mut self, name: &str) -> Self {
        self.isa.push(name.to_owned());
        self
    }
}

/// Data sheet: 104 CUs. ROCr makes a coarse-grained pool; one more of fine grain on a GPU in a hive; and from 6.x on one
/// of extended scope (`GpuAgent::InitRegionList`). Pool size as rocminfo of real cards prints it: 64 GiB less the firmware's 16 MiB.
fn mi210(global_pools: usize) -> Agent {
    Agent::new("gfx90a", "AMD Instinct MI210", 104, 64)
        .pools(global_pools, 67_092_480)
        .isa("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-")
}

/// Data sheet: 304 CUs; pool size as published.
fn mi300x() -> Agent {
    Agent::new("gfx942", "AMD Instinct MI300X", 304, 64)
        .pools(2, 200_998_912)
        .isa("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-")
}

/// Data sheet: 96 CUs; pool size as published.
fn rx7900xtx() -> Agent {
    Agent::new("gfx1100", "AMD Radeon RX 7900 XTX", 96, 32)
        .pools(2, 25_149_440)
        .isa("amdgcn-amd-amdhsa--gfx1100")
}

/// The agents of a complete output, CPUs first: how many, and the GPUs.
fn agents(output: &str) -> (usize, Vec<Agent>) {
    assert!(output.trim_end().ends_with("*** Done ***"), "rocminfo did not come to its end:\n{output}");
    let mut cpus = 0;
    let mut gpus = Vec::new();
    // Each agent starts with a headline of its own between two lines of stars.
    for block in output.split("\nAgent ").skip(1) {
        let value = |key: &str| {
            let line = block.lines().find(|line| line.trim_start().starts_with(key));
            line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim()).to_owned()
        };
        let number = |key: &str| value(key).split('(').next().unwrap_or_default().trim().parse().unwrap_or(0);
        match value("Device Type").as_str() {
            "CPU" => cpus += 1,
            "GPU" => gpus.push(Agent {
                gfx: value("Name"),
                marketing_name: value("Marketing Name"),
                compute_units: number("Compute Unit"),
                wavefront_size: number("Wavefront Size"),
                pools_kib: pools(block),
                isa: isa(block),
            }),
            other => panic!("an agent is a {other:?}:\n{block}"),
        }
    }
    (cpus, gpus)
}

fn pools(block: &str) -> Vec<u64> {
    let sizes = block.lines().filter_map(|line| line.trim().strip_prefix("Size:"));
    sizes.filter_map(|size| size.trim().split('(').next()?.parse().ok()).collect()
}

fn isa(block: &str) -> Vec<String> {
    let names = block.lines().filter_map(|line| line.trim().strip_prefix("Name:"));
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("amdgcn")).collect()
}

/// A program of Debian 12, on the host.
fn debian_12(profile: &str, program: &str, uid: u32) -> Result<String> {
    let path = Path::new("/usr/bin").join(program);
    assert!(path.exists(), "{} is missing: scripts/setup installs it", path.display());
    let (uid, softgpu) = (uid.to_string(), Reachable::copy(&programs::softgpu()?)?);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--"]);
    command.arg(softgpu.path()).args(["run", "--profile", profile, "--"]).arg(path);
    command::succeed(&mut command, LIMIT)
}

/// A copy of a program in a directory that everybody may enter, which a checkout need not be. It is removed with
/// the value.
struct Reachable {
    dir: tempfile::TempDir,
}

impl Reachable {
    fn copy(program: &Path) -> Result<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("a directory of ours can be opened");
        std::fs::copy(program, dir.path().join("softgpu")).expect("the program can be copied");
        Ok(Self { dir })
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("softgpu")
    }
}

/// A program of Debian 13, in its root.
fn debian_13(profile: &str, program: &str, uid: u32) -> Result<command::Finished> {
    let root = Root::trixie()?;
    let softgpu = Reachable::copy(&programs::softgpu()?)?;
    let inside = RootCommand::host(&softgpu.path());
    let command = root.command(inside).args(["run", "--profile", profile, "--", program]);
    command::finish(&mut command.bind(softgpu.dir.path()).uid(uid).build(), LIMIT)
}

fn output(finished: &command::Finished) -> String {
    let all = [&finished.stdout[..], &finished.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn rocminfo_of_debian_12_shows_each_machine_to_root_and_to_nobody() -> Result<()> {
    let machines = [
        ("mi210", 1, vec![mi210(1)]),
        ("two-gpu", 1, vec![mi210(2), mi210(2)]),
        ("small-bar", 1, vec![mi210(1)]),
        ("mi210-private", 1, vec![mi210(1)]),
        ("cpu-only", 1, vec![]),
    ];
    for (profile, cpus, gpus) in machines {
        for uid in [0, NOBODY] {
            let output = debian_12(profile, "rocminfo", uid)?;
            assert_eq!(agents(&output), (cpus, gpus.clone()), "{profile} as {uid}:\n{output}");
        }
    }
    Ok(())
}

#[test]
fn rocminfo_of_debian_13_shows_each_machine_to_root_and_to_nobody() -> Result<()> {
    let machines = [
        ("mi210", 1, vec![mi210(2)]),
        ("mi300x", 2, vec![mi300x()]),
        ("rx7900xtx", 1, vec![rx7900xtx()]),
        ("two-gpu", 1, vec![mi210(3), mi210(3)]),
        ("small-bar", 1, vec![mi210(2)]),
        ("mi210-private", 1, vec![mi210(2)]),
        ("cpu-only", 1, vec![]),
    ];
    for (profile, cpus, gpus) in machines {
        for uid in [0, NOBODY] {
            let finished = debian_13(profile, "rocminfo", uid)?;
            let output = output(&finished);
            assert!(finished.status.success(), "{profile} as {uid}: {}\n{output}", finished.status);
            assert_eq!(agents(&output), (cpus, gpus.clone()), "{profile} as {uid}:\n{output}");
        }
    }
    Ok(())
}

/// ROCr clears memory with a kernel. Where the GPU's instructions are not executed clinfo ends there, and says so
/// through ROCr's own queue error callback. Nothing completes silently.
#[test]
fn clinfo_ends_at_its_first_kernel_with_rocrs_own_message() -> Result<()> {
    for uid in [0, NOBODY] {
        let finished = debian_13("rx7900xtx", "clinfo", uid)?;
        let output = output(&finished);
        assert!(output.contains("stops: kernel dispatch"), "{output}");
        assert!(output.contains("inactivated due to async error"), "{output}");
        assert!(output.contains("HSA_STATUS_ERROR_INVALID_CODE_OBJECT"), "{output}");
        assert!(!finished.status.success(), "clinfo ended well, without a kernel:\n{output}");
    }
    Ok(())
}

#[test]
fn clinfo_shows_gpus_whose_kernels_run() -> Result<()> {
    for (profile, name) in [("mi210", "gfx90a"), ("mi300x", "gfx942")] {
        for uid in [0, NOBODY] {
            let finished = debian_13(profile, "clinfo", uid)?;
            let output = output(&finished);
            assert!(finished.status.success(), "{profile}: {}\n{output}", finished.status);
            assert!(output.contains("AMD Accelerated Parallel Processing"), "{profile}:\n{output}");
            assert!(output.contains(name), "{profile}:\n{output}");
        }
    }
    Ok(())
}
