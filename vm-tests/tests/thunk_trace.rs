//! The calls that our libhsakmt makes of KFD are those of Debian's, but where a reason is written.
//!
//! Both libraries run the same program under `softgpu run --trace`. What is compared is every ioctl and mapping with what it
//! asks for: flags, sizes, attributes and the buffer that a handle stands for, not addresses. From each library's sequence the
//! calls are taken that `trace/reasons` explains; what is left must be the same, in the same order. Threads other than a
//! process's first run in no order, so theirs are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use vm_tests::{Result, command, programs};

const LIMIT: Duration = Duration::from_secs(600);

const REASONS: &str = include_str!("trace/reasons");

/// A line of the trace.
#[derive(Deserialize)]
struct Call {
    pid: u32,
    tid: u32,
    node: String,
    call: String,
    #[serde(default, rename = "in")]
    asked: Map<String, Value>,
    #[serde(default)]
    out: Map<String, Value>,
    errno: Option<String>,
}

/// A line of the file: whose calls, in which program, what they look like, and why they are there.
struct Reason {
    debian: bool,
    ours: bool,
    program: &'static str,
    call: &'static str,
}

impl Reason {
    fn explains(&self, program: &str, line: &str) -> bool {
        let mut rest = Some(line);
        let mut parts = self.call.split(" .. ");
        let start = parts.next().unwrap_or_default();
        for part in parts {
            rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
        }
        (self.program == "any" || self.program == program) && rest.is_some() && line.starts_with(start)
    }
}

fn reasons() -> Vec<Reason> {
    let lines = REASONS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let parse = |line: &'static str| {
        let &[whose, program, call, why] = &line.splitn(4, " | ").collect::<Vec<_>>()[..] else {
            return None;
        };
        let (debian, ours) = match whose {
            "debian" => (true, false),
            "ours" => (false, true),
            "both" => (true, true),
            _ => return None,
        };
        (!why.is_empty()).then_some(Reason { debian, ours, program, call })
    };
    lines
        .map(|line| parse(line).unwrap_or_else(|| panic!("not `whose | program | call | why`: {line}")))
        .collect()
}

/// What the numbers of a process stand for, in words.
#[derive(Default)]
struct Names {
    handles: BTreeMap<u64, String>,
    offsets: BTreeMap<u64, String>,
    queues: BTreeMap<u64, String>,
}

impl Names {
    /// A call in words that are the same in every run, and what it makes known for later ones.
    fn describe(&mut self, call: &Call) -> String {
        let mut words = vec![call.node.clone(), short(&call.call).to_owned()];
        words.extend(call.asked.iter().filter(|(name, _)| is_told(name)).map(|(name, value)| {
            // Bits are read more easily in the base of their names.
            let hex = value.as_u64().filter(|_| name == "flags").map(|flags| format!("{name}={flags:#x}"));
            hex.unwrap_or_else(|| format!("{name}={value}"))
        }));
        let asked = |name: &str| call.asked.get(name).and_then(Value::as_u64);
        let about = match short(&call.call) {
            "mmap" => asked("offset").and_then(|offset| self.offsets.get(&offset)),
            "ALLOC_MEMORY_OF_GPU" => None,
            "DESTROY_QUEUE" => asked("queue_id").and_then(|id| self.queues.get(&id)),
            _ => asked("handle").and_then(|handle| self.handles.get(&handle)),
        };
        let what = words.get(2..).unwrap_or_default().join(" ");
        words.extend(about.map(|what| format!("of {what}")));
        words.extend(call.errno.clone());
        if call.errno.is_none() {
            self.remember(call, what);
        }
        words.join(" ")
    }

    fn remember(&mut self, call: &Call, what: String) {
        let given = |name: &str| call.out.get(name).and_then(Value::as_u64);
        match short(&call.call) {
            "ALLOC_MEMORY_OF_GPU" => {
                self.offsets.extend(given("mmap_offset").map(|offset| (offset, what.clone())));
                self.handles.extend(given("handle").map(|handle| (handle, what)));
            }
            "CREATE_QUEUE" => self.queues.extend(given("queue_id").map(|id| (id, what))),
            _ => {}
        }
    }
}

fn short(call: &str) -> &str {
    call.strip_prefix("AMDKFD_IOC_").unwrap_or(call)
}

/// Whether an argument is the same in every run: it is no address, number of a descriptor, or what the kernel writes.
fn is_told(name: &str) -> bool {
    let varies = ["addr", "ptr", "handle", "offset", "base", "_fd", "_va", "r_debug", "bytes", ".means"];
    // The timeout of a wait that a signal interrupted is what was left of it.
    let written = ["event_id", "queue_id", "n_success", "wait_result", "_counter", "timeout"];
    !varies.iter().chain(&written).any(|part| name.contains(part))
}

/// The calls of a process's first thread in order, and of its other threads sorted, for each process in order.
type Calls = Vec<(Vec<String>, Vec<String>)>;

fn read(trace: &Path) -> Calls {
    let text = std::fs::read_to_string(trace).expect("softgpu has written the trace");
    let mut processes: Vec<u32> = Vec::new();
    let mut calls = Calls::new();
    let mut names: Vec<Names> = Vec::new();
    for line in text.lines() {
        let call: Call = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let at = processes.iter().position(|&pid| pid == call.pid).unwrap_or_else(|| {
            processes.push(call.pid);
            calls.push(Default::default());
            names.push(Names::default());
            processes.len() - 1
        });
        // Which way leads to a GPU (a virtio-gpu device or KFD) is ours alone to find out, so opens are not compared; others
        // are made again by the kernel itself, when and as often as signals come.
        if call.call == "open" || call.errno.as_deref() == Some("ERESTARTSYS") {
            continue;
        }
        let line = names[at].describe(&call);
        let (first, others) = &mut calls[at];
        if call.pid == call.tid { first } else { others }.push(line);
    }
    calls.iter_mut().for_each(|(_, others)| others.sort_unstable());
    calls
}

fn traced(program: &Path, ours: bool) -> Result<Calls> {
    let dir = tempfile::tempdir().expect("a directory for the trace");
    let trace = dir.path().join("trace");
    let mut command = Command::new(programs::softgpu()?);
    command.args(["run", "--profile", "mi210", "--trace"]).arg(&trace).arg("--").arg(program);
    if ours {
        command.env("LD_LIBRARY_PATH", programs::thunk_dir()?);
    }
    let finished = command::finish(&mut command, LIMIT)?;
    let messages = String::from_utf8_lossy(&finished.stderr);
    assert!(finished.status.success(), "{}: {}\n{messages}", program.display(), finished.status);
    Ok(read(&trace))
}

/// The calls that none of the reasons explains; those that did are remembered in `used`, by their place.
fn unexplained(
    calls: &[String],
    reasons: &[(usize, &Reason)],
    program: &str,
    used: &mut BTreeSet<usize>,
) -> Vec<String> {
    let mut left = Vec::new();
    for line in calls {
        match reasons.iter().find(|(_, reason)| reason.explains(program, line)) {
            Some(&(place, _)) => {
                used.insert(place);
            }
            None => left.push(line.clone()),
        }
    }
    left
}

/// The first place where two sequences part, with what stands around it.
fn parting(debian: &[String], ours: &[String]) -> Option<String> {
    let same = debian.iter().zip(ours).take_while(|(debian, ours)| debian == ours).count();
    if same == debian.len() && same == ours.len() {
        return None;
    }
    let from = same.saturating_sub(3);
    let show = |lines: &[String]| lines[from..lines.len().min(same + 6)].join("\n  ");
    let (debian, ours) = (show(debian), show(ours));
    Some(format!("they part after {same} calls\n debian:\n  {debian}\n ours:\n  {ours}"))
}

fn compare(program: &Path, reasons: &[Reason], used: &mut BTreeSet<usize>) -> Result<()> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let (debian, ours) = (traced(program, false)?, traced(program, true)?);
    let processes = debian.len();
    assert_eq!(processes, ours.len(), "{name}: processes that use KFD");
    let for_debian: Vec<_> = reasons.iter().enumerate().filter(|(_, reason)| reason.debian).collect();
    let for_ours: Vec<_> = reasons.iter().enumerate().filter(|(_, reason)| reason.ours).collect();
    let mut compared = 0;
    for (at, (debian, ours)) in debian.iter().zip(&ours).enumerate() {
        for (what, debian, ours) in
            [("first thread", &debian.0, &ours.0), ("other threads", &debian.1, &ours.1)]
        {
            let debian = unexplained(debian, &for_debian, &name, used);
            let ours = unexplained(ours, &for_ours, &name, used);
            if let Some(parting) = parting(&debian, &ours) {
                panic!("{name}, process {at}, {what}: {parting}");
            }
            compared += debian.len();
        }
    }
    assert!(compared > 20, "{name}: {compared} calls in common prove nothing");
    // What is explained is no licence to ask more.
    let count = |calls: &Calls| calls.iter().map(|(first, others)| first.len() + others.len()).sum::<usize>();
    let (theirs, mine) = (count(&debian), count(&ours));
    assert!(mine <= theirs, "{name}: {mine} calls, where Debian's library makes {theirs}");
    println!("{name}: {processes} processes, {compared} calls in common");
    Ok(())
}

/// One test, because a reason must be needed by one of the programs.
#[test]
fn the_calls_are_debians_but_where_a_reason_is_written() -> Result<()> {
    let (reasons, mut used) = (reasons(), BTreeSet::new());
    compare(Path::new("/usr/bin/rocminfo"), &reasons, &mut used)?;
    compare(&programs::compile_c("thunk_checks", &["-lhsakmt"])?, &reasons, &mut used)?;
    let idle = reasons.iter().enumerate().filter(|(place, _)| !used.contains(place));
    let idle: Vec<_> = idle.map(|(_, reason)| reason.call).collect();
    assert!(idle.is_empty(), "no program needs these reasons: {idle:#?}");
    Ok(())
}
