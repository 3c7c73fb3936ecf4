//! ROCm in virtual machines: Debian's programs and ours, on our library, in a guest whose GPU is a `vhost-device-kfd` on the host.
//!
//! Linux 6.12 in window mode and Linux 7 in guest-memory mode are asked everything, in a boot each (it takes half a minute under TCG),
//! the harmless things first.

mod deaths;
mod listings;
mod thunk;
mod work;

use std::thread;
use std::time::{Duration, Instant};

use vm_tests::{Kernel, NO_WINDOW, Result, RocmGuest};

/// For a program in a guest under TCG on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);
/// How long the host may take to end what a guest's program left.
const GONE: Duration = Duration::from_secs(20);

/// The GPU of the guests.
const GPU: &str = "soft:mi210";
/// The window of guests that have one.
const WINDOW: &str = "4G";

/// What a guest has of the GPU: the native machine that it is compared with.
fn as_seen_by(guest: &RocmGuest) -> &'static str {
    if guest.has_window() { "mi210" } else { "mi210-private" }
}

#[test]
fn rocm_works_in_a_guest_with_linux_6_12_and_a_window() -> Result<()> {
    everything(Kernel::stock()?, WINDOW)
}

#[test]
fn rocm_works_in_a_guest_with_linux_7() -> Result<()> {
    everything(Kernel::newest_7()?, NO_WINDOW)
}

/// The other two pairs of kernel and mode get the beginning of it.
#[test]
fn rocm_starts_in_guests_of_the_other_pairs() -> Result<()> {
    for (kernel, window) in [(Kernel::stock()?, NO_WINDOW), (Kernel::newest_7()?, WINDOW)] {
        say_of(kernel.release(), window);
        let mut guest = RocmGuest::boot_with(kernel, GPU, window, |_| ())?;
        listings::rocminfo_prints_what_it_prints_natively(&mut guest)?;
        work::copies_barriers_and_waits_are_right(&mut guest)?;
        guest.daemon().wait_for_workers(0, GONE)?;
        guest.power_off()?;
    }
    Ok(())
}

#[test]
#[ignore = "the long form, scripts/test --full"]
fn rocm_works_in_a_guest_with_linux_6_12() -> Result<()> {
    everything(Kernel::stock()?, NO_WINDOW)
}

/// Not the last step of the guest above: that one is switched off at work.
#[test]
fn a_hard_reset_with_a_window_is_qemus_end_alone() -> Result<()> {
    let guest = RocmGuest::boot_with(Kernel::stock()?, GPU, WINDOW, |_| ())?;
    deaths::a_hard_reset_with_a_window_hurts_qemu_alone(guest)
}

/// Two guests and two daemons, each with its own kernel: they share nothing but the host's processors. One is reset at work, of which
/// the other sees nothing.
#[test]
#[ignore = "the long form, scripts/test --full"]
fn two_guests_work_at_once() -> Result<()> {
    let guests = [Kernel::stock()?, Kernel::newest_7()?].map(|kernel| RocmGuest::boot(kernel, GPU, |_| ()));
    thread::scope(|scope| {
        let working = guests.into_iter().enumerate().map(|(number, guest)| {
            scope.spawn(move || {
                let mut guest = guest?;
                work::four_threads_get_what_they_wrote(&mut guest)?;
                if number == 0 {
                    deaths::a_hard_reset_at_work_leaves_nothing(&mut guest)?;
                }
                work::four_threads_get_what_they_wrote(&mut guest)?;
                guest.power_off()
            })
        });
        // All are started before the first is waited for.
        let working: Vec<_> = working.collect();
        working.into_iter().try_for_each(|guest| guest.join().expect("no panic"))
    })
}

/// What is asked of a guest.
struct Step {
    name: &'static str,
    /// Why a guest in this mode does not take it.
    not: Option<(Mode, &'static str)>,
    run: fn(&mut RocmGuest) -> Result<()>,
}

/// How a guest sees memory of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Window,
    GuestMemory,
}

impl Mode {
    fn of(guest: &RocmGuest) -> Mode {
        if guest.has_window() { Mode::Window } else { Mode::GuestMemory }
    }
}

/// A step of both modes.
const fn both(name: &'static str, run: fn(&mut RocmGuest) -> Result<()>) -> Step {
    Step { name, not: None, run }
}

/// A step that one of the modes does not have, and why.
const fn not_in(
    mode: Mode,
    why: &'static str,
    name: &'static str,
    run: fn(&mut RocmGuest) -> Result<()>,
) -> Step {
    Step { name, not: Some((mode, why)), run }
}

/// Why the GPU's work is ended before a guest with a window begins again.
const QEMU_ENDS: &str =
    "QEMU ends when it is reset while a part of the window is mapped: programs end first there";

/// The guest is fit for the next one after each of them.
const STEPS: [Step; 16] = [
    both("rocminfo as native", listings::rocminfo_prints_what_it_prints_natively),
    both("clinfo as native", listings::clinfo_prints_what_it_prints_natively),
    both("every byte of hsa_copy", work::copies_barriers_and_waits_are_right),
    both("libhsakmt as native", thunk::libhsakmt_answers_as_natively),
    both("the virtio names too", thunk::its_virtio_names_answer_the_same),
    both("200 threads on 200 signals", work::two_hundred_threads_wait_for_two_hundred_signals),
    both("8 processes of 4 threads", work::eight_processes_of_four_threads_get_what_they_wrote),
    both("a look at the benchmark", work::the_benchmark_measures_all_of_its_rows),
    both("a program ends in a wait", deaths::a_killed_program_leaves_nothing),
    both("a program aborts", deaths::an_aborted_program_leaves_nothing),
    both("its pages are others'", deaths::memory_of_a_killed_program_is_its_next_owners),
    both("a worker ends", deaths::a_killed_worker_is_a_lost_device),
    both("reboot at work, in order", deaths::a_reboot_that_ends_programs_first_leaves_nothing),
    not_in(Mode::Window, QEMU_ENDS, "reboot at work", deaths::a_reboot_at_work_leaves_nothing),
    not_in(Mode::Window, QEMU_ENDS, "reset at work", deaths::a_hard_reset_at_work_leaves_nothing),
    both("afterwards", work::copies_barriers_and_waits_are_right),
];

fn say_of(release: &str, window: &str) {
    println!("Linux {release}, window {window}");
}

fn everything(kernel: Kernel, window: &str) -> Result<()> {
    say_of(kernel.release(), window);
    let release = kernel.release().to_owned();
    let start = Instant::now();
    let say = |what: &str, start: Instant| {
        println!("{release}: {:6.1} s  {what}", start.elapsed().as_secs_f64());
    };
    let mut guest = RocmGuest::boot_with(kernel, GPU, window, |_| ())?;
    say("boot", start);
    for Step { name, not, run } in STEPS {
        if let Some((mode, why)) = not
            && mode == Mode::of(&guest)
        {
            println!("{release}: not in mode {mode:?}: {name}: {why}");
            continue;
        }
        let start = Instant::now();
        run(&mut guest)?;
        // Whatever it ran has ended in the guest, so its contexts end on the host.
        guest.daemon().wait_for_workers(0, GONE)?;
        say(name, start);
    }
    let start = Instant::now();
    deaths::a_guest_that_is_switched_off_at_work_ends_in_order(guest)?;
    say("power-off at work", start);
    Ok(())
}
