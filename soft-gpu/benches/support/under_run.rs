//! The benchmark's own program a second time, under `softgpu run`: it makes the steps that it is asked for.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Says to the program that it is the one under `softgpu run`.
const ASKED: &str = "KFDVIRT_BENCH_ASKED";

/// A program under `softgpu run` that waits to be asked.
pub struct Asked {
    child: Child,
    asked: ChildStdin,
    told: BufReader<ChildStdout>,
}

impl Asked {
    /// Starts this program again; its `main` has to call [`answer`] first of all.
    pub fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_softgpu"));
        command.args(["run", "--profile", "mi210", "--"]).arg(std::env::current_exe().expect("a path"));
        command.env(ASKED, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("softgpu starts");
        let asked = child.stdin.take().expect("piped");
        let told = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, asked, told }
    }

    /// Has `steps` steps of a kind made and returns how long they took there.
    pub fn time(&mut self, kind: &str, steps: u64) -> Duration {
        writeln!(self.asked, "{kind} {steps}").expect("the program listens");
        let mut line = String::new();
        self.told.read_line(&mut line).expect("the program answers");
        Duration::from_nanos(line.trim().parse().expect("nanoseconds"))
    }

    /// Ends the program.
    pub fn end(self) {
        let Self { mut child, asked, .. } = self;
        drop(asked);
        assert!(child.wait().expect("it ends").success());
    }
}

/// In a program that [`Asked`] started: makes what `prepare` returns answer until there is no more to do, and
/// returns true.
pub fn answer<F: FnMut(&str, u64) -> Duration>(prepare: impl FnOnce() -> F) -> bool {
    if std::env::var_os(ASKED).is_none() {
        return false;
    }
    let mut steps = prepare();
    for line in std::io::stdin().lines() {
        let line = line.expect("text");
        let (kind, number) = line.split_once(' ').expect("two words");
        println!("{}", steps(kind, number.parse().expect("a number")).as_nanos());
    }
    true
}
