//! Each call that our libhsakmt makes to the device fails once, opens and mappings too, at each point of a C program: the
//! function that meets it says so and works when it is called again, and nothing is left (cases M25 and M28). The engine's own
//! sweep (`hsakmt`, `whole_api`) has more functions and machines; this one goes through the C library and the native transport.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use vm_tests::{Result, command, programs};

const LIMIT: Duration = Duration::from_secs(120);
/// More calls than the program makes.
const MOST: usize = 1024;

/// Calls whose failure ends the program in a library that is not ours, and where.
const OTHERS_DEFECTS: [(&str, &str); 1] = [(
    "DRM_IOCTL_VERSION",
    "libdrm 2.4.114: amdgpu_device_initialize follows the NULL that drmGetVersion gives it",
)];

/// What became of a run.
struct Outcome {
    status: ExitStatus,
    /// Output and errors.
    output: String,
    /// The call that failed, if it is one that the trace shows: opens are not among them.
    failed: Option<String>,
}

impl Outcome {
    fn line(&self, start: &str) -> &str {
        let found = self.output.lines().find_map(|line| line.strip_prefix(start));
        found.unwrap_or_else(|| panic!("no {start:?}, {}:\n{}", self.status, self.output))
    }

    /// Open descriptors at the end.
    fn held(&self) -> u32 {
        self.line("held: ").parse().expect("a number")
    }

    /// Whether the fault was met: a function said so, or the trace shows it.
    fn was_met(&self) -> bool {
        self.failed.is_some() || self.line("met: ") != "nothing"
    }
}

fn run(program: &Path, args: &[&str], fail: Option<(usize, &str)>) -> Result<Outcome> {
    let trace = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut run = Command::new(programs::softgpu()?);
    run.args(["run", "--profile", "mi210", "--trace"]).arg(trace.path());
    run.args(fail.map(|(call, errno)| format!("--fail={call}:{errno}")));
    run.arg("--").arg(program).args(args).env("LD_LIBRARY_PATH", programs::thunk_dir()?);
    let finished = command::finish(&mut run, LIMIT)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = std::fs::read_to_string(trace.path()).expect("a trace");
    let errno = fail.map(|(_, errno)| format!("\"errno\":\"{errno}\""));
    let line = errno.and_then(|errno| lines.lines().find(|line| line.contains(&errno)));
    let failed = line.map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        line["call"].as_str().expect("a name").to_owned()
    });
    let output = text(&finished.stdout) + &text(&finished.stderr);
    Ok(Outcome { status: finished.status, output, failed })
}

/// How many calls the program makes in its first round.
fn calls(program: &Path, errno: &str) -> Result<usize> {
    let (mut met, mut beyond) = (0, MOST);
    while beyond - met > 1 {
        let middle = usize::midpoint(met, beyond);
        let outcome = run(program, &["once"], Some((middle, errno)))?;
        let defect = !outcome.status.success() && outcome.failed.is_some();
        *(if defect || outcome.was_met() { &mut met } else { &mut beyond }) = middle;
    }
    Ok(met)
}

fn every_call_fails_with(errno: &str) -> Result<()> {
    let program = programs::compile_c("thunk_faults.c", &["-lhsakmt"])?;
    let clean = run(&program, &[], None)?;
    assert!(clean.status.success() && !clean.was_met(), "{}\n{}", clean.status, clean.output);
    let calls = calls(&program, errno)?;
    assert!((50..MOST - 1).contains(&calls), "{calls} calls");
    let (mut list, mut noticed) = (Vec::new(), 0);
    for call in 1..=calls {
        let outcome = run(&program, &[], Some((call, errno)))?;
        let failed = outcome.failed.as_deref().unwrap_or("open");
        if outcome.status.signal().is_some() {
            let known = OTHERS_DEFECTS.iter().any(|(name, _)| *name == failed);
            assert!(known, "call {call}, {failed}: {}\n{}", outcome.status, outcome.output);
            list.push(format!("{call}: {failed}: a defect of another library"));
            continue;
        }
        assert!(outcome.status.success(), "call {call}, {failed}: {}\n{}", outcome.status, outcome.output);
        let met = outcome.line("met: ");
        assert!(!met.ends_with("(null)"), "call {call}, {failed}: no such status: {met}");
        // Without libdrm's device there is one fewer.
        assert!(outcome.held() <= clean.held(), "call {call}, {failed}, {met}: {}", outcome.output);
        noticed += usize::from(met != "nothing");
        list.push(format!("{call}: {failed}: {met}"));
    }
    println!("{errno}: {calls} calls, {noticed} were noticed\n{}", list.join("\n"));
    assert!(noticed * 2 > calls, "most calls matter: {noticed} of {calls}");
    Ok(())
}

#[test]
fn each_call_to_the_device_fails_once_with_enomem() -> Result<()> {
    every_call_fails_with("ENOMEM")
}
