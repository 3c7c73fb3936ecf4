//! rocminfo and clinfo in a guest, compared line by line with the same programs natively under `softgpu run`.

use vm_tests::{Release, Result, RocmGuest, Run, Shown, command, programs, wire::End};

use crate::{LIMIT, as_seen_by};

/// A line that is left out of the comparison: of which section, which key, and why.
type LeftOut = (&'static str, &'static str, &'static str);

/// rocminfo's: the guest's own processors and memory, and what the host must not tell.
const ROCMINFO: [LeftOut; 11] = [
    ("", "ROCk module", "the version of the module amdgpu, which Debian's kernels do not have"),
    ("CPU", "Name", "the guest's processor"),
    ("CPU", "Marketing Name", "the guest's processor"),
    ("CPU", "Compute Unit", "as many processors as the guest has"),
    ("CPU", "Max Clock Freq. (MHz)", "the guest's processor"),
    ("CPU", "L1", "the guest's processor"),
    ("CPU", "L2", "the guest's processor"),
    ("CPU", "L3", "the guest's processor"),
    ("CPU", "Size", "the guest's memory"),
    ("GPU", "Uuid", "a keyed hash of the GPU's own: a guest is not told whose GPU it is"),
    ("GPU", "BDFID", "made up for the guest, whose PCI bus does not have the GPU"),
];

/// clinfo's.
const CLINFO: [LeftOut; 1] =
    [("", "Device Topology (AMD)", "made up for the guest, whose PCI bus does not have the GPU")];

/// The lines that are compared, without white space at their ends.
fn compared(text: &str, left_out: &[LeftOut]) -> Vec<String> {
    let mut section = "";
    let mut kept = Vec::new();
    // Which agent it is stands further down in its part: the parts are looked at one by one.
    for part in text.split("\nAgent ") {
        section = ["CPU", "GPU"].into_iter().find(|kind| is_of_kind(part, kind)).unwrap_or(section);
        let is_left_out = |line: &str| {
            left_out.iter().any(|(of, key, _)| (of.is_empty() || *of == section) && has_key(line, key))
        };
        kept.extend(part.lines().filter(|line| !is_left_out(line)).map(|line| line.trim_end().to_owned()));
    }
    kept
}

fn is_of_kind(part: &str, kind: &str) -> bool {
    part.lines().any(|line| line.trim().strip_prefix("Device Type:").is_some_and(|rest| rest.trim() == kind))
}

fn has_key(line: &str, key: &str) -> bool {
    // In front of the key there may be blanks, and the escape sequence of a colour.
    let line = line.trim_start().trim_start_matches(|c: char| c == '\x1b' || c == '[' || c.is_ascii_digit());
    let line = line.strip_prefix('m').filter(|rest| rest.starts_with(key)).unwrap_or(line);
    line.strip_prefix(key).is_some_and(|rest| rest.starts_with([':', ' ']))
}

/// The same program in both places, each with our library.
struct Both {
    native: String,
    guest: String,
    /// How they ended.
    ends: [End; 2],
    messages: String,
}

fn run(guest: &mut RocmGuest, program: &str) -> Result<Both> {
    let library = programs::thunk_dir()?;
    let shown = Shown::Profile(as_seen_by(guest));
    let native = Release::thirteen()?.run(shown, &[program], Some(&library))?;
    let output = guest.run(Run::new([program]).timeout(LIMIT))?;
    Ok(Both {
        native: String::from_utf8_lossy(&native.stdout).into_owned(),
        guest: output.stdout,
        ends: [end_of(&native), output.end],
        messages: format!("{}\n{}", String::from_utf8_lossy(&native.stderr), output.stderr),
    })
}

fn end_of(finished: &command::Finished) -> End {
    let signal = std::os::unix::process::ExitStatusExt::signal(&finished.status);
    // `softgpu run` ends with 128 and the signal's number where one ended the program.
    match (finished.status.code(), signal) {
        (Some(code @ 129..), _) => End::Signal(code - 128),
        (Some(code), _) => End::Status(code),
        (None, signal) => End::Signal(signal.unwrap_or_default()),
    }
}

impl Both {
    fn assert_same(&self, program: &str, left_out: &[LeftOut]) {
        let (native, guest) = (compared(&self.native, left_out), compared(&self.guest, left_out));
        let differences: Vec<String> = native
            .iter()
            .zip(&guest)
            .filter(|(native, guest)| native != guest)
            .map(|(native, guest)| format!(" native: {native}\n  guest: {guest}"))
            .collect();
        assert!(
            native == guest && self.ends[0] == self.ends[1],
            "{program}: {} lines natively and {} in the guest, {:?}\n{}\n{}\nthe guest's:\n{}",
            native.len(),
            guest.len(),
            self.ends,
            differences.join("\n"),
            self.messages,
            self.guest
        );
    }
}

pub fn rocminfo_prints_what_it_prints_natively(guest: &mut RocmGuest) -> Result<()> {
    guest.satisfy_rocminfo()?;
    let both = run(guest, "rocminfo")?;
    both.assert_same("rocminfo", &ROCMINFO);
    // Not equal because nothing was printed.
    for said in ["AMD Instinct MI210", "Compute Unit:            104", "*** Done ***"] {
        assert!(both.guest.contains(said), "no {said:?} in\n{}", both.guest);
    }
    Ok(())
}

pub fn clinfo_prints_what_it_prints_natively(guest: &mut RocmGuest) -> Result<()> {
    let both = run(guest, "clinfo")?;
    both.assert_same("clinfo", &CLINFO);
    let listed = both.guest.contains("AMD Accelerated Parallel Processing");
    // Where the GPU executes no kernels it ends at its first, in both places and for the same reason.
    let stopped = both.messages.matches("HSA_STATUS_ERROR_INVALID_CODE_OBJECT").count() == 2;
    assert!(listed || stopped, "{}\n{}", both.guest, both.messages);
    Ok(())
}

#[test]
fn lines_are_left_out_by_section_and_key() {
    let text = "\x1b[37mROCk module version 1 is loaded\nx: 1\nAgent 1\n  Size: 5 KB\n  Device Type: CPU\n\
                Agent 2\n  Size: 6 KB\n  Sizes: 7\n  Device Type: GPU\n  Uuid: 8";
    let expected =
        ["x: 1", "1", "  Device Type: CPU", "2", "  Size: 6 KB", "  Sizes: 7", "  Device Type: GPU"];
    assert_eq!(compared(text, &ROCMINFO), expected);
}
