//! Programs, workers and guests that end in the middle of their work. What they had on the host ends with them.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use vm_tests::{Error, Result, RocmGuest, Run, programs};

use crate::work::{HSA_COPY, hsa_copy, sleepers_are_woken};
use crate::{GONE, LIMIT};

/// How soon a program must learn that its device is lost (design: 1 s), as this program measures it on a busy machine.
const TOLD_MS: u64 = 5000;

/// Starts a program in the background and returns when it has printed a word: `sh -c STARTED PROGRAM WORD ARGUMENTS`.
const STARTED: &str = "program=$0; word=$1; shift; $program \"$@\" >/tmp/at-work 2>&1 & echo $! >/tmp/at-work.pid; \
                       for i in $(seq 600); do grep -q $word /tmp/at-work && exit 0; sleep 0.2; done; \
                       cat /tmp/at-work; exit 1";

/// A program that copies without end while one of its threads sleeps in a wait and its queue has work.
fn start_endless(guest: &mut RocmGuest) -> Result<()> {
    start(guest, "endless")
}

/// A program for whom the GPU writes into 256 MiB of the guest's memory without end.
fn start_writes(guest: &mut RocmGuest) -> Result<()> {
    start(guest, "writes")
}

fn start(guest: &mut RocmGuest, what: &str) -> Result<()> {
    hsa_copy(guest)?;
    guest.run(Run::new(["sh", "-c", STARTED, HSA_COPY, "running", what]).timeout(LIMIT))?.success()?;
    guest.daemon().wait_for_workers(1, GONE)
}

/// Sends it a signal.
fn send(guest: &mut RocmGuest, signal: &str) -> Result<()> {
    let script = "kill -$0 $(cat /tmp/at-work.pid)";
    guest.run(Run::new(["sh", "-c", script, signal]))?.success().map(drop)
}

/// The step after this one is a whole run of other programs on the same daemon.
pub fn a_killed_program_leaves_nothing(guest: &mut RocmGuest) -> Result<()> {
    start_endless(guest)?;
    send(guest, "KILL")?;
    guest.daemon().wait_for_workers(0, GONE)
}

pub fn an_aborted_program_leaves_nothing(guest: &mut RocmGuest) -> Result<()> {
    start_endless(guest)?;
    send(guest, "ABRT")?;
    guest.daemon().wait_for_workers(0, GONE)
}

/// MiB of the 256 that are written to, which must come to the next owner while that watches.
const TAKEN_MIB: u64 = 200;

/// The pages of a program that is killed while the GPU writes to them belong to who takes them, and nobody else writes there.
pub fn memory_of_a_killed_program_is_its_next_owners(guest: &mut RocmGuest) -> Result<()> {
    let taker = guest.program(&programs::compile_c("taken_pages.c", &[])?)?;
    start_writes(guest)?;
    let script = "exec $0 $(cat /tmp/at-work.pid)";
    let output = guest.run(Run::new(["sh", "-c", script, &taker]).timeout(LIMIT))?.success()?;
    let after = output.lines().find_map(|line| line.split_once(" MiB taken after"));
    let taken: u64 = after.and_then(|(taken, _)| taken.parse().ok()).unwrap_or_default();
    assert!(taken >= TAKEN_MIB, "{output}");
    guest.daemon().wait_for_workers(0, GONE)
}

/// The kernel shuts its devices down while the GPU writes. When the guest is up again nothing on the host is left of before.
pub fn a_reboot_at_work_leaves_nothing(guest: &mut RocmGuest) -> Result<()> {
    start_writes(guest)?;
    guest.reboot()?;
    let left = guest.daemon().workers()?;
    assert!(left.is_empty(), "{left:?} are there although the guest uses its memory again");
    sleepers_are_woken(guest)
}

/// As distributions reboot: programs are asked to end, then killed, and then the kernel shuts its devices down. QEMU survives that in
/// window mode too, because the last program's end takes the window away.
pub fn a_reboot_that_ends_programs_first_leaves_nothing(guest: &mut RocmGuest) -> Result<()> {
    start_endless(guest)?;
    guest.reboot_in_order()?;
    let left = guest.daemon().workers()?;
    assert!(left.is_empty(), "{left:?} are there although the guest uses its memory again");
    sleepers_are_woken(guest)
}

/// The same where no driver is told, and the machine alone resets the device.
pub fn a_hard_reset_at_work_leaves_nothing(guest: &mut RocmGuest) -> Result<()> {
    start_writes(guest)?;
    guest.reset()?;
    let left = guest.daemon().workers()?;
    assert!(left.is_empty(), "{left:?} are there although the guest uses its memory again");
    sleepers_are_woken(guest)
}

/// Of two programs the one whose worker is killed has lost its device, in a call and in a wait, and the other goes on.
pub fn a_killed_worker_is_a_lost_device(guest: &mut RocmGuest) -> Result<()> {
    let program = guest.program(&programs::compile_c("lost_device.c", &["-lhsakmt"])?)?;
    start_endless(guest)?;
    let [other] = guest.daemon().workers()?[..] else { panic!("one worker") };
    // Its output goes to another file than that of the first.
    let script = "$0 >/tmp/lost 2>&1 & for i in $(seq 600); do grep -q ready /tmp/lost && exit 0; sleep 0.2; done; exit 1";
    guest.run(Run::new(["sh", "-c", script, &program]).timeout(LIMIT))?.success()?;
    guest.daemon().wait_for_workers(2, GONE)?;
    let workers = guest.daemon().workers()?;
    let victim = workers.into_iter().find(|pid| *pid != other).expect("a second worker");

    kill(victim);

    let text = wait_for_text(guest, "/tmp/lost", "end\n")?;
    assert_eq!(guest.daemon().workers()?, [other], "{text}");
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    for call in ["call", "wait", "after"] {
        let status = value(call).unwrap_or_else(|| panic!("no {call} in\n{text}"));
        assert_ne!(status, "SUCCESS", "{call}\n{text}");
    }
    for told in ["call-ms", "wait-ms"] {
        let after: u64 = value(told).and_then(|ms| ms.parse().ok()).unwrap_or(u64::MAX);
        assert!(after <= TOLD_MS, "{told}\n{text}");
    }
    send(guest, "KILL")
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    // It may have ended just now, which the caller finds out.
    let _ = kill_process(pid, Signal::KILL);
}

/// The contents of a file of the guest once they end so.
fn wait_for_text(guest: &mut RocmGuest, path: &str, end: &str) -> Result<String> {
    let start = Instant::now();
    loop {
        let text = guest.text(path)? + "\n";
        if text.ends_with(end) {
            return Ok(text);
        }
        assert!(start.elapsed() < GONE, "not within {GONE:?} at the end of {path}: {end:?}\n{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Power-off in the middle of copies: the daemon ends in order, and all of its workers with it.
pub fn a_guest_that_is_switched_off_at_work_ends_in_order(mut guest: RocmGuest) -> Result<()> {
    start_endless(&mut guest)?;
    let workers = guest.daemon().workers()?;
    assert_eq!(workers.len(), 1);
    let (qemu, daemon) = (guest.vm().qemu_pid(), guest.daemon().pid());
    guest.power_off()?;
    for pid in workers.into_iter().chain([qemu, daemon]) {
        let path = std::path::PathBuf::from(format!("/proc/{pid}"));
        assert!(!path.exists(), "process {pid} is left");
    }
    Ok(())
}

/// A reset without a word to any driver, while a part of the window is mapped: QEMU 11.1.3 is ended by its own fault when the device
/// starts again. The daemon ends in order then, as with every VMM that is gone, and all of its workers with it.
pub fn a_hard_reset_with_a_window_hurts_qemu_alone(mut guest: RocmGuest) -> Result<()> {
    start_endless(&mut guest)?;
    let workers = guest.daemon().workers()?;
    assert_eq!(workers.len(), 1);
    let daemon = guest.daemon().pid();
    let socket = guest.daemon().socket();
    match guest.reset() {
        Ok(()) => {
            println!("this QEMU survives a reset with a window in use");
            sleepers_are_woken(&mut guest)?;
            guest.power_off()?;
        }
        Err(Error::Guest { what, .. }) if what.starts_with("QEMU ended with signal: 11") => {
            println!("{what}");
            guest.end_without_qemu()?;
        }
        Err(error) => return Err(error),
    }
    assert!(!socket.exists(), "the daemon left {}", socket.display());
    for pid in workers.into_iter().chain([daemon]) {
        let path = std::path::PathBuf::from(format!("/proc/{pid}"));
        assert!(!path.exists(), "process {pid} is left");
    }
    Ok(())
}
