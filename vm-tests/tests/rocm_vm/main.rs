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

/// What is asked of a guest, by name.
type Step = (&'static str, fn(&mut RocmGuest) -> Result<()>);

/// The guest is fit for the next one after each of them.
const STEPS: [Step; 14] = [
    ("rocminfo as native", listings::rocminfo_prints_what_it_prints_natively),
    ("clinfo as native", listings::clinfo_prints_what_it_prints_natively),
    ("every byte of hsa_copy", work::copies_barriers_and_waits_are_right),
    ("libhsakmt as native", thunk::libhsakmt_answers_as_natively),
    ("the virtio names too", thunk::its_virtio_names_answer_the_same),
    ("200 threads on 200 signals", work::two_hundred_threads_wait_for_two_hundred_signals),
    ("8 processes of 4 threads", work::eight_processes_of_four_threads_get_what_they_wrote),
    ("a program ends in a wait", deaths::a_killed_program_leaves_nothing),
    ("a program aborts", deaths::an_aborted_program_leaves_nothing),
    ("its pages are others'", deaths::memory_of_a_killed_program_is_its_next_owners),
    ("a worker ends", deaths::a_killed_worker_is_a_lost_device),
    ("reboot at work", deaths::a_reboot_at_work_leaves_nothing),
    ("reset at work", deaths::a_hard_reset_at_work_leaves_nothing),
    ("afterwards", work::copies_barriers_and_waits_are_right),
];

/// Steps that a guest with a window does not take, and why.
const NOT_WITH_A_WINDOW: [(&str, &str); 5] = [
    ("libhsakmt as native", "guest.deviations is of guests without"),
    ("the virtio names too", "guest.deviations is of guests without"),
    ("its pages are others'", "what the GPU writes to is the guest's memory in both modes"),
    ("reboot at work", "QEMU must not be reset while a part of the window is mapped"),
    ("reset at work", "QEMU must not be reset while a part of the window is mapped"),
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
    for (name, step) in STEPS {
        let left_out = NOT_WITH_A_WINDOW.iter().find(|(left_out, _)| *left_out == name);
        if let (true, Some((_, why))) = (guest.has_window(), left_out) {
            println!("{release}: not with a window: {name}: {why}");
            continue;
        }
        let start = Instant::now();
        step(&mut guest)?;
        // Whatever it ran has ended in the guest, so its contexts end on the host.
        guest.daemon().wait_for_workers(0, GONE)?;
        say(name, start);
    }
    let start = Instant::now();
    deaths::a_guest_that_is_switched_off_at_work_ends_in_order(guest)?;
    say("power-off at work", start);
    Ok(())
}
