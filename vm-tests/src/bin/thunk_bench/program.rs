//! The C program, run with one of the libraries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use vm_tests::{Error, command, programs};

use super::plan::{Group, Scale};

/// A process takes seconds, most of them for tens of thousands of buffers.
const LIMIT: Duration = Duration::from_secs(600);

/// Which library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    Ours,
    Debian,
}

/// Nanoseconds of a step.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// On the clock.
    pub elapsed: f64,
    /// As the calling thread ran, itself or in the kernel.
    pub cpu: f64,
}

/// By case.
pub type Times = BTreeMap<String, Time>;

/// What is built, and where it runs.
pub struct Bench {
    program: PathBuf,
    ours: PathBuf,
    /// `softgpu run --profile P --`, or nothing.
    under: Vec<String>,
}

impl Bench {
    /// Builds the program and our library. Without a profile of the software GPU it uses the machine's own KFD.
    ///
    /// # Errors
    /// If something does not compile.
    pub fn build(profile: Option<&str>) -> Result<Self, Error> {
        let under = match profile {
            None => Vec::new(),
            Some(profile) => {
                let softgpu = programs::softgpu()?.to_string_lossy().into_owned();
                [&softgpu, "run", "--profile", profile, "--"].map(str::to_owned).to_vec()
            }
        };
        let program = programs::compile_c("thunk_bench.c", &["-lhsakmt"])?;
        Ok(Self { program, ours: programs::thunk_dir()?, under })
    }

    /// Times the cases of a group in one process; of each the best round.
    ///
    /// # Errors
    /// If the program fails, or found the other library.
    pub fn time(&self, library: Library, group: &Group, scale: Scale) -> Result<Times, Error> {
        let output = self.run(library, group, &[], &group.cases, scale, scale.rounds)?;
        let mut times = Times::new();
        for line in lines(&output.stdout) {
            let time = times.entry(line.case).or_insert(line.time);
            time.elapsed = line.time.elapsed.min(time.elapsed);
            time.cpu = line.time.cpu.min(time.cpu);
        }
        match group.cases.iter().find(|case| !times.contains_key(**case)) {
            None => Ok(times),
            Some(case) => Err(Error::Package(format!("the program printed no time of {case}"))),
        }
    }

    /// Instructions of a step in user space.
    ///
    /// # Errors
    /// If the program or valgrind fails, or the program found the other library.
    pub fn count(&self, library: Library, group: &Group, case: &str, scale: Scale) -> Result<f64, Error> {
        // Nothing is counted but what `measured` of the C program does.
        let valgrind =
            ["valgrind", "--tool=callgrind", "--toggle-collect=measured", "--callgrind-out-file=/dev/null"];
        let output = self.run(library, group, &valgrind, &[case], scale, 1)?;
        let collected = output.stderr.lines().find_map(|line| line.split_once("Collected :"));
        let total = collected.and_then(|(_, number)| number.trim().parse::<f64>().ok());
        let steps = lines(&output.stdout).map(|line| line.steps).next();
        match (total, steps) {
            (Some(total), Some(steps)) if total > 0.0 => Ok(total / steps),
            _ => Err(Error::Package(format!("callgrind counted nothing:\n{}", output.stderr))),
        }
    }

    fn run(
        &self,
        library: Library,
        group: &Group,
        tool: &[&str],
        cases: &[&str],
        scale: Scale,
        rounds: u32,
    ) -> Result<Output, Error> {
        let mut words = self.under.iter().map(String::as_str).chain(tool.iter().copied());
        let mut command = match words.next() {
            None => Command::new(&self.program),
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(&self.program);
                command
            }
        };
        command.arg(group.live.kind).args([group.live.count, rounds, scale.steps].map(|n| n.to_string()));
        command.args(cases).envs(group.env.iter().copied()).env_remove("LD_LIBRARY_PATH");
        // What the loader does at a first call is not the library's.
        command.env("LD_BIND_NOW", "1");
        if library == Library::Ours {
            command.env("LD_LIBRARY_PATH", &self.ours);
        }
        let finished = command::finish(&mut command, LIMIT)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let output = Output { stdout: text(&finished.stdout), stderr: text(&finished.stderr) };
        let ours = output.stdout.lines().find_map(|line| line.strip_prefix("library "));
        let right = ours.map(|path| PathBuf::from(path).starts_with(&self.ours));
        if !finished.status.success() || right != Some(library == Library::Ours) {
            let shown = format!("{library:?}, {}\n{}{}", group.note, output.stdout, output.stderr);
            let command = format!("{command:?}");
            return Err(Error::Command { command, status: finished.status, output: shown });
        }
        Ok(output)
    }
}

struct Output {
    stdout: String,
    stderr: String,
}

/// A line `case elapsed cpu steps`.
struct Line {
    case: String,
    time: Time,
    steps: f64,
}

fn lines(output: &str) -> impl Iterator<Item = Line> {
    output.lines().filter_map(|line| {
        let (case, numbers) = line.split_once(' ')?;
        let numbers: Vec<f64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
        let &[elapsed, cpu, steps] = numbers.as_slice() else { return None };
        Some(Line { case: case.to_owned(), time: Time { elapsed, cpu }, steps })
    })
}
