//! `vmt measure`: the time budget, measured. It prints the rows of `TIME_BUDGET.md`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use vm_tests::{Config, Error, Kernel, Root, RootCommand, Run, Vm, command, programs};

/// No single step may take longer.
const LIMIT: Duration = Duration::from_secs(1200);

/// Makes everything and runs the three programs in a guest and in the root. Cold with an empty `XDG_CACHE_HOME`.
pub fn measure() -> Result<(), Error> {
    let kernel = timed("kernel package: fetch, unpack, depmod", Kernel::stock)?;
    let root = timed("Debian 13 root: versions, fetch, unpack, configure", Root::trixie)?;
    timed("Debian 13 disk image", || root.image())?;
    timed("static agent: cargo build, in its own target directory", || programs::static_bin("agent"))?;
    let hip = programs::compile_c("hip_count.c", &[])?;
    log::info!("guests run {} under {:?}", kernel.release(), Config::stock()?.accelerator);

    let config = Config::stock()?.memory_mib(3072);
    let vm = timed("guest without modules: initramfs, boot, agent answers", || Vm::boot(&config))?;
    timed("guest: power off", || vm.power_off())?;
    let config = config.root(&root)?;
    let mut vm = timed("guest with the Debian 13 disk mounted", || Vm::boot(&config.module("amdgpu")))?;
    vm.put("/roots/trixie/tmp/hip_count", 0o755, &std::fs::read(&hip).map_err(file(&hip))?)?;
    for again in ["first", "second"] {
        for (name, argv) in clients() {
            let run = Run::new(argv).root(&root).timeout(LIMIT);
            timed(&format!("{name} in the guest, {again} time"), || vm.run(&run))
                .map(|output| show(name, &output.stdout))?;
        }
    }
    drop(vm);
    for (name, argv) in clients().into_iter().filter(|(name, _)| *name != "HIP hipGetDeviceCount") {
        let [program] = argv;
        let mut command = root.command(program).build();
        timed(&format!("{name} in the root on the host"), || command::finish(&mut command, LIMIT))?;
    }
    let mut command = root.command(RootCommand::host(&hip)).bind(&hip).build();
    timed("HIP hipGetDeviceCount in the root on the host", || command::finish(&mut command, LIMIT)).map(drop)
}

fn clients() -> [(&'static str, [&'static str; 1]); 3] {
    [
        ("rocminfo 6.1.2", ["rocminfo"]),
        ("clinfo with rocm-opencl-icd 5.7.1", ["clinfo"]),
        ("HIP hipGetDeviceCount", ["/tmp/hip_count"]),
    ]
}

/// A short answer is a sign of life; without it a program that fails at once would look fast.
fn show(name: &str, stdout: &str) {
    log::info!("{name} printed {} lines, the last: {:?}", stdout.lines().count(), stdout.lines().last());
}

fn timed<T>(what: &str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let start = Instant::now();
    let result = work()?;
    println!("| {what} | {:.1} s |", start.elapsed().as_secs_f64());
    Ok(result)
}

fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
    let path: PathBuf = path.to_owned();
    move |source| Error::File { what: "read", path, source }
}
