//! `vmt bench`: what calls, sleeps, copies and doorbells cost in a guest, as ratios measured in one run.

use std::time::Duration;

use vm_tests::vm_bench::{self, COPY_VRAM, Rows};
use vm_tests::{Config, Error, Kernel, NO_WINDOW, RocmGuest};

/// How often each thing is done.
const ROUNDS: u32 = 1000;
/// How long a program sleeps while its worker's time is taken.
const IDLE: Duration = Duration::from_secs(5);
/// The guest that has aims, and the one beside it.
const CPUS: [u32; 2] = [1, 2];

/// What the daemon does for a guest.
pub struct Choice {
    pub kernel: Kernel,
    pub profile: String,
    pub window: String,
}

/// A row of the table: the ratio of two rows of a run, and what it should be.
struct Ratio {
    what: &'static str,
    of: &'static str,
    to: &'static str,
    aim: &'static str,
}

const RATIOS: [Ratio; 5] = [
    Ratio {
        what: "back-to-back GetClockCounters / EXECBUFFER + fence + poll",
        of: "call-hot",
        to: "fence-hot",
        aim: "<= 0.05",
    },
    Ratio {
        what: "a call to a sleeping worker / EXECBUFFER + spin",
        of: "call-cold",
        to: "spin-cold",
        aim: "<= 1.2",
    },
    Ratio {
        what: "wake-up of a sleeping wait / EXECBUFFER + fence + poll",
        of: "wake-by-call",
        to: "fence-cold",
        aim: "<= 1.2",
    },
    // Of times, so that it is that of bandwidths the other way.
    Ratio {
        what: "bandwidth of a CPU copy into system memory that GPUs see / into the program's own",
        of: "copy-own",
        to: "copy-system",
        aim: ">= 0.95",
    },
    Ratio {
        what: "the same into the GPU's memory in the window",
        of: "copy-own",
        to: COPY_VRAM,
        aim: ">= 0.95",
    },
];

/// Times that are shown beside those of the native machine.
const TIMES: [(&str, &str); 12] = [
    ("open", "open and find the GPU, in a new process"),
    ("call-hot", "GetClockCounters, back to back"),
    ("call-cold", "GetClockCounters after 2 ms"),
    ("system-2m", "allocate, map, unmap, free 2 MiB of system memory"),
    ("vram-2m", "the same of the GPU's memory"),
    ("launch-hot", "doorbell to signal, back to back"),
    ("launch-cold", "doorbell to signal after 100 ms"),
    ("wake-by-call", "SetEvent to the end of another thread's sleep"),
    ("wake-by-gpu", "doorbell to the end of a thread's sleep"),
    ("fence-hot", "EXECBUFFER + fence + poll, back to back"),
    ("fence-cold", "EXECBUFFER + fence + poll after 2 ms"),
    ("spin-cold", "EXECBUFFER + spin after 2 ms"),
];

/// Of one guest.
struct Measured {
    rows: Rows,
    idle: f64,
    idle_queue: f64,
}

pub fn bench(choice: &Choice) -> Result<(), Error> {
    let config = Config::stock()?;
    let (qemu, release) = (config.qemu.version()?, choice.kernel.release());
    println!("Linux {release} under QEMU {qemu} ({:?}), --window {}", config.accelerator, choice.window);
    let [one, two] = CPUS.map(|cpus| measure(choice, cpus));
    let (one, two) = (one?, two?);
    let profile = &choice.profile;
    let native_profile =
        if choice.window == NO_WINDOW { format!("{profile}-private") } else { profile.clone() };
    log::info!("natively");
    let native = vm_bench::natively(&native_profile, ROUNDS)?;
    println!("\n| in a guest | 1 vCPU | aim | 2 vCPUs |\n|---|---|---|---|");
    for Ratio { what, of, to, aim } in RATIOS {
        if let (Some(one), Some(two)) = (one.rows.ratio(of, to), two.rows.ratio(of, to)) {
            println!("| {what} | {one:.3} | {aim} | {two:.3} |");
        }
    }
    let percent = |part: f64| format!("{:.2} %", part * 100.0);
    for (what, aim, of) in [
        ("CPU of the daemon and the worker of a sleeping program without queues", "0", idle as fn(&_) -> f64),
        ("the same with an idle queue", "<= 0.5 %", idle_queue),
    ] {
        println!("| {what} | {} | {aim} | {} |", percent(of(&one)), percent(of(&two)));
    }
    println!("\n| median, us | 1 vCPU | 2 vCPUs | natively |\n|---|---|---|---|");
    for (name, what) in TIMES {
        let shown = |rows: &Rows| rows.get(name).map_or(String::new(), |row| format!("{:.1}", row.median));
        println!("| {what} | {} | {} | {} |", shown(&one.rows), shown(&two.rows), shown(&native));
    }
    Ok(())
}

fn idle(measured: &Measured) -> f64 {
    measured.idle
}

fn idle_queue(measured: &Measured) -> f64 {
    measured.idle_queue
}

fn measure(choice: &Choice, cpus: u32) -> Result<Measured, Error> {
    let say = |what: &str| log::info!("{cpus} vCPU: {what}");
    let gpu = format!("soft:{}", choice.profile);
    let mut guest = RocmGuest::boot_on(cpus, choice.kernel.clone(), &gpu, &choice.window, say)?;
    say("rows");
    let rows = vm_bench::in_guest(&mut guest, ROUNDS)?;
    say("idle");
    let idle = vm_bench::idle(&mut guest, "none", IDLE)?;
    let idle_queue = vm_bench::idle(&mut guest, "queue", IDLE)?;
    guest.power_off()?;
    Ok(Measured { rows, idle, idle_queue })
}
