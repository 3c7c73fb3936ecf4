//! `c/hsa_queues`: four queues each of one process or of two, on Debian's own HSA runtimes, with Debian's libhsakmt and with ours. The
//! program checks what arrives, and that nothing is left; here it must have done all of it.

use std::path::Path;

use vm_tests::{Release, Result, Shown, kernels, programs};

/// The driver that has ROCm's own calls to share memory between processes.
const ROCM: &str = "rocm";

/// In ROCr 5.2.3 all queues of a process share one event, whose wake-up one of two sleeping threads can take from the other: the end of
/// a queue then hangs now and then, with any libhsakmt. So its threads do not sleep here. (ROCr 6 knows the age of an event.)
const WITHOUT_SLEEP: [&str; 2] = ["env", "HSA_ENABLE_INTERRUPT=0"];

/// What it printed, with each library. It has ended well.
fn printed(release: &Release, shown: Shown<'_>, processor: &str, arguments: &[&str]) -> Result<[String; 2]> {
    let program = programs::compile_c("hsa_queues", &["-l:libhsa-runtime64.so.1"])?;
    let object = kernels::compile_kernels("queues.cl", processor)?;
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let options: &[&str] = if matches!(release, Release::Twelve) { &WITHOUT_SLEEP } else { &[] };
    let mut argv: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    argv.extend([text(&program), text(&object)]);
    argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
    Ok(release.both(shown, &argv)?.map(|finished| {
        let output = String::from_utf8_lossy(&finished.stdout).into_owned();
        let messages = String::from_utf8_lossy(&finished.stderr);
        assert!(
            finished.status.success(),
            "{argv:?} on {shown:?}: {}\n{output}\n{messages}",
            finished.status
        );
        output
    }))
}

/// The lines that it prints; `together` is the one that only two processes print.
fn lines<'a>(together: Option<&'a str>, dispatches: &'a str) -> Vec<&'a str> {
    let before = ["320 turns of 4 queues"];
    let after = [
        "a chain of 64 signals",
        "100 rounds of barriers between queues",
        dispatches,
        "pinned memory with 4 queues and the CPU",
        "registered memory with 4 queues and the CPU",
        "all right",
    ];
    before.into_iter().chain(together).chain(after).collect()
}

#[test]
fn four_queues_of_one_process_wait_for_each_other_and_lose_nothing() -> Result<()> {
    let thirteen = Release::thirteen()?;
    for (profile, processor) in [("mi210", "gfx90a"), ("mi300x", "gfx942")] {
        for output in printed(&thirteen, Shown::Profile(profile), processor, &["one", "10000"])? {
            assert_eq!(output.lines().collect::<Vec<_>>(), lines(None, "10000 dispatches back to back"));
        }
    }
    Ok(())
}

#[test]
fn kernels_of_two_processes_wait_for_each_other_in_memory_that_they_share() -> Result<()> {
    let shown = Shown::Kernel("mi210", ROCM);
    for output in printed(&Release::Twelve, shown, "gfx90a", &["two", "10000"])? {
        let wanted = lines(Some("turns of two processes"), "10000 dispatches back to back");
        assert_eq!(output.lines().collect::<Vec<_>>(), wanted);
    }
    Ok(())
}

/// The kernel's own driver has no call for it.
#[test]
fn two_processes_without_shared_memory_do_not_disturb_each_other() -> Result<()> {
    for output in printed(&Release::thirteen()?, Shown::Profile("mi210"), "gfx90a", &["two", "10000"])? {
        let wanted = lines(Some("memory of two processes: refused"), "10000 dispatches back to back");
        assert_eq!(output.lines().collect::<Vec<_>>(), wanted);
    }
    Ok(())
}

#[test]
fn queues_and_processes_with_endless_kernels_end_within_a_second() -> Result<()> {
    for output in printed(&Release::thirteen()?, Shown::Profile("mi210"), "gfx90a", &["endless"])? {
        let wanted = ["a queue with an endless kernel ends", "a process with an endless kernel ends"];
        assert_eq!(output.lines().collect::<Vec<_>>(), wanted);
    }
    Ok(())
}
