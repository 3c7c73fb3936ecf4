//! `vmt bench`: what calls, sleeps, copies and doorbells cost in a guest, as ratios measured in one run.

use std::time::Duration;

use vm_tests::vm_bench::{self, COPY_VRAM, Rows, Taken};
use vm_tests::{Config, Error, Kernel, NO_WINDOW, RocmGuest};

/// How often each thing is done.
const ROUNDS: u32 = 1000;
/// How long a program sleeps while its worker's time is taken.
const IDLE: Duration = Duration::from_secs(10);
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
const TIMES: [(&str, &str); 13] = [
    ("open", "open and find the GPU, in a new process"),
    ("call-hot", "GetClockCounters, back to back"),
    ("call-cold", "GetClockCounters after 2 ms"),
    ("system-2m", "allocate, map, unmap, free 2 MiB of system memory"),
    ("vram-2m", "the same of the GPU's memory"),
    ("launch-hot", "doorbell to signal, back to back"),
    ("launch-cold", "doorbell to signal after 100 ms"),
    ("wake-by-call", "SetEvent by an active thread to the end of another one's sleep"),
    ("wake-by-call-cold", "the same after 2 ms"),
    ("wake-by-gpu", "doorbell to the end of a thread's sleep"),
    ("fence-hot", "EXECBUFFER + fence + poll, back to back"),
    ("fence-cold", "EXECBUFFER + fence + poll after 2 ms"),
    ("spin-cold", "EXECBUFFER + spin after 2 ms"),
];

/// Of one guest.
struct Measured {
    rows: Rows,
    idle: Taken,
    idle_queue: Taken,
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
    let parts = |of: fn(&Measured) -> f64| [&one, &two].map(|one| format!("{:.2} %", of(one) * 100.0));
    let shown =
        |what: &str, aim: &str, [one, two]: [String; 2]| println!("| {what} | {one} | {aim} | {two} |");
    shown(
        "CPU of the daemon and the worker of a sleeping program without queues",
        "0",
        parts(|of| of.idle.all),
    );
    shown("CPU of the relay of one with an idle queue", "<= 0.5 %", parts(|of| of.idle_queue.relay));
    let what = "the same with the rest of the worker, whose software GPU looks at doorbells too";
    shown(what, "", parts(|of| of.idle_queue.all));
    println!("\n| median, us | 1 vCPU | 2 vCPUs | natively |\n|---|---|---|---|");
    for (name, what) in TIMES {
        let shown = |rows: &Rows| rows.get(name).map_or(String::new(), |row| format!("{:.1}", row.median));
        println!("| {what} | {} | {} | {} |", shown(&one.rows), shown(&two.rows), shown(&native));
    }
    Ok(())
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
