//! `vmt demo`: a GPU in a virtual machine, shown to a person.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use vm_tests::{Config, Error, Kernel, Output, RocmGuest, Run, kernels, programs, wire::End};

/// How often a long step says that it goes on.
const TICK: Duration = Duration::from_secs(10);
/// For a program in a guest under TCG on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Boots a guest, runs rocminfo, clinfo, `c/hsa_copy` and kernels of HIP and OpenCL in it, and ends it.
pub fn demo(kernel: Kernel, gpu: &str) -> Result<(), Error> {
    let ours = Programs::compile()?;
    let config = Config::stock()?;
    println!(
        "A guest with Debian's unmodified kernel {} under QEMU {} ({:?}); its GPU is vhost-device-kfd --gpu {gpu}.",
        kernel.release(),
        config.qemu.version()?,
        config.accelerator,
    );
    let mut step = None;
    let mut guest = RocmGuest::boot(kernel, gpu, |what| {
        // The one before ends first.
        drop(step.take());
        step = Some(Step::start(what));
    })?;
    drop(step);

    rocminfo(&mut guest)?;
    clinfo(&mut guest)?;
    hsa_copy(&mut guest, &ours.copy)?;
    hip(&mut guest, &ours.hip)?;
    opencl(&mut guest, &ours.opencl)?;

    let step = Step::start("switching the guest off");
    guest.power_off()?;
    drop(step);
    println!("The guest, its QEMU and vhost-device-kfd have ended; nothing is left.");
    Ok(())
}

/// Programs of ours on Debian's runtimes.
struct Programs {
    copy: PathBuf,
    hip: PathBuf,
    opencl: PathBuf,
}

impl Programs {
    fn compile() -> Result<Self, Error> {
        let _step =
            Step::start("compiling programs of HSA, HIP (for gfx90a and gfx942) and OpenCL on the host");
        Ok(Self {
            copy: programs::compile_c("hsa_copy", &["-l:libhsa-runtime64.so.1"])?,
            hip: kernels::compile_hip("hip_kernels")?,
            opencl: programs::compile_c("opencl_kernels.c", &["-l:libOpenCL.so.1", "-lm"])?,
        })
    }
}

/// Debian's rocminfo; of its output the lines that say which agents there are.
fn rocminfo(guest: &mut RocmGuest) -> Result<(), Error> {
    const SHOWN: [&str; 5] = ["Name:", "Marketing Name:", "Device Type:", "Compute Unit:", "Wavefront Size:"];
    let step = Step::start("loading amdgpu: rocminfo alone looks whether it is there");
    guest.satisfy_rocminfo()?;
    drop(step);
    let text = run(guest, "rocminfo 6.1.2, as Debian built it", Run::new(["rocminfo"]))?.success()?;
    if !text.contains("Device Type:             GPU") {
        return Err(Error::Package(format!("rocminfo lists no GPU:\n{text}")));
    }
    // Two blanks in front: lines of the agent itself, and not of its parts.
    let of_an_agent = |line: &&str| {
        let rest = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
        line.starts_with("Agent ") || rest.is_some_and(|rest| SHOWN.iter().any(|key| rest.starts_with(key)))
    };
    show(text.lines().filter(of_an_agent));
    Ok(())
}

/// Debian's clinfo. Where the GPU executes no kernel it ends at its first one, and says so.
fn clinfo(guest: &mut RocmGuest) -> Result<(), Error> {
    const SHOWN: [&str; 6] = [
        "  Platform Name",
        "  Device Name",
        "  Device Board Name",
        "  Device Version",
        "  Max compute units",
        "  Global memory size",
    ];
    let output = run(guest, "clinfo on Debian's OpenCL (rocm-opencl-icd)", Run::new(["clinfo"]))?;
    let mut lines: Vec<&str> = Vec::new();
    for line in output.stdout.lines().filter(|line| SHOWN.iter().any(|key| line.starts_with(key))) {
        // The platform is named for each kind of device again.
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if output.end == End::Status(0) {
        show(lines);
        return Ok(());
    }
    println!(
        "    It ended with {:?}: the software GPU executes kernels of gfx90a and gfx942 alone. Its messages:",
        output.end
    );
    show(output.stderr.lines().take(6));
    Ok(())
}

/// Our program on plain HSA, whose table is the point.
fn hsa_copy(guest: &mut RocmGuest, program: &Path) -> Result<(), Error> {
    let program = guest.program(program)?;
    let title = "copies by SDMA, barrier packets and sleeping waits, every byte checked";
    let text = run(guest, title, Run::new([program]))?.success()?;
    show(text.lines());
    Ok(())
}

/// Kernels and copies of HIP. The program checks each value, and its table is the point.
fn hip(guest: &mut RocmGuest, program: &Path) -> Result<(), Error> {
    let program = guest.program(program)?;
    let title = "kernels and copies on Debian's HIP, every value checked on the CPU";
    let text = run(guest, title, Run::new([program]))?.success()?;
    show(text.lines());
    Ok(())
}

/// The same of OpenCL, which compiles its kernels in the guest.
fn opencl(guest: &mut RocmGuest, program: &Path) -> Result<(), Error> {
    let (program, source) = (guest.program(program)?, guest.program(&kernels::source("opencl.cl"))?);
    let title = "kernels on Debian's OpenCL, compiled in the guest, every value checked on the CPU";
    let text = run(guest, title, Run::new([program, source]))?.success()?;
    show(text.lines());
    Ok(())
}

fn run(guest: &mut RocmGuest, title: &str, run: Run) -> Result<Output, Error> {
    let _step = Step::start(&format!("in the guest: {title}"));
    guest.run(run.timeout(LIMIT))
}

fn show<'a>(lines: impl IntoIterator<Item = &'a str>) {
    lines.into_iter().for_each(|line| println!("    {line}"));
}

/// A step that says what it does, now and then that it still does, and in the end how long it took.
struct Step {
    start: Instant,
    end: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

impl Step {
    fn start(what: &str) -> Self {
        println!("== {what}");
        let (end, ended) = mpsc::channel::<()>();
        let start = Instant::now();
        let ticker = thread::spawn(move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                println!("   ... {} s", start.elapsed().as_secs());
                // Progress that nobody sees is no failure.
                let _ = io::stdout().flush();
            }
        });
        Self { start, end: Some(end), ticker: Some(ticker) }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(ticker) = self.ticker.take() {
            // It only prints; if it panicked the step is over all the same.
            let _ = ticker.join();
        }
        println!("   {:.1} s", self.start.elapsed().as_secs_f64());
    }
}
