//! `c/thunk_checks` in the guest: the values of libhsakmt, less a table of what a guest cannot have.

use std::path::PathBuf;

use vm_tests::checks::{deviating, deviations, differences, expected, file};
use vm_tests::{Result, RocmGuest, Run, programs};

use crate::LIMIT;

pub fn libhsakmt_answers_as_natively(guest: &mut RocmGuest) -> Result<()> {
    answers_as_natively(guest, programs::compile_c("thunk_checks", &["-lhsakmt"])?, false)
}

/// The program built on the names that AMD's library has for its virtio transport.
pub fn its_virtio_names_answer_the_same(guest: &mut RocmGuest) -> Result<()> {
    // Debian's library does not have them.
    let library = format!("-L{}", programs::thunk_dir()?.display());
    let flags = ["-include", "virtio_names.h", &library, "-l:libhsakmt.so.1"];
    answers_as_natively(guest, programs::compile_c("thunk_checks", &flags)?, true)
}

fn answers_as_natively(guest: &mut RocmGuest, program: PathBuf, virtio_names: bool) -> Result<()> {
    let (lines, ours, in_a_guest) =
        (file("thunk_checks.expected"), file("deviations"), file("guest.deviations"));
    let (ours, in_a_guest) = (deviations(&ours), deviations(&in_a_guest));
    // As our library answers on the kernel's KFD or the software one, and then what differs in a guest.
    let lines = deviating(&expected(&lines), &ours, |deviation| deviation.when != "no-svm");
    let window = guest.has_window();
    let lines = deviating(&lines, &in_a_guest, |deviation| match deviation.when {
        "guest" => true,
        "private" | "no-window" => !window,
        "window" => window,
        "names" => virtio_names,
        _ => panic!("no word of guest.deviations: {deviation:?}"),
    });
    let program = guest.program(&program)?;

    let output = guest.run(Run::new([program]).timeout(LIMIT))?;

    let differences = differences(&lines, &output.stdout);
    assert!(
        differences.is_empty(),
        "{} differences, {:?}:\n{}\n{}",
        differences.len(),
        output.end,
        differences.join("\n"),
        output.stderr
    );
    output.success().map(drop)
}
