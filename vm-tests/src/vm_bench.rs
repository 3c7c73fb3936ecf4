//! `c/vm_bench` in a guest and natively, and what daemon and worker take while a program sleeps.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{Error, Result, RocmGuest, Run, command, programs};

/// For a run under TCG on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);
/// How long a program sleeps before anything is measured: the relay's sleeps have become their longest by then.
const SETTLE: Duration = Duration::from_secs(2);
/// How long the worker of an ended program may take to end.
const GONE: Duration = Duration::from_secs(20);
/// The device's render node in a guest.
const NODE: &str = "/dev/dri/renderD128";

/// Rows that both places print.
pub const ROWS: [&str; 12] = [
    "open",
    "call-hot",
    "call-cold",
    "system-2m",
    "vram-2m",
    "copy-own",
    "copy-system",
    "launch-hot",
    "launch-cold",
    "wake-by-call",
    "wake-by-call-cold",
    "wake-by-gpu",
];
/// Rows of guests: what the driver and the device take without our library.
pub const OF_GUESTS: [&str; 3] = ["fence-hot", "fence-cold", "spin-cold"];
/// A row where the CPU sees the GPU's memory.
pub const COPY_VRAM: &str = "copy-vram";

/// Starts a program in the background, and returns when it has printed `idle`.
const IN_THE_BACKGROUND: &str = "$0 idle $1 >/tmp/idle 2>&1 & echo $! >/tmp/idle.pid; \
                                 for i in $(seq 600); do grep -q idle /tmp/idle && exit 0; sleep 0.2; done; \
                                 cat /tmp/idle; exit 1";

/// Microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Of all rounds.
    pub median: f64,
    /// The shortest round.
    pub least: f64,
    /// The longest.
    pub greatest: f64,
}

/// The rows of a run, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(BTreeMap<String, Row>);

impl Rows {
    /// # Errors
    /// [`Error::Package`] for a line that is no row.
    fn parse(text: &str) -> Result<Self> {
        let row = |line: &str| {
            let (name, numbers) = line.split_once(' ')?;
            let numbers: Vec<f64> =
                numbers.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
            let [median, least, greatest] = numbers[..] else { return None };
            Some((name.to_owned(), Row { median, least, greatest }))
        };
        let row = |line: &str| {
            row(line).ok_or_else(|| Error::Package(format!("vm_bench prints {line:?}, which is no row")))
        };
        text.lines().map(row).collect::<Result<_>>().map(Self)
    }

    /// A row, if it was printed.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Row> {
        self.0.get(name).copied()
    }

    /// The ratio of two medians.
    #[must_use]
    pub fn ratio(&self, of: &str, to: &str) -> Option<f64> {
        Some(self.get(of)?.median / self.get(to)?.median)
    }
}

fn program() -> Result<PathBuf> {
    programs::compile_c("vm_bench", &["-lhsakmt"])
}

/// The rows in a guest.
///
/// # Errors
/// If the program fails.
pub fn in_guest(guest: &mut RocmGuest, rounds: u32) -> Result<Rows> {
    let name = guest.program(&program()?)?;
    let run = Run::new([&name, "rows", &rounds.to_string(), NODE]).timeout(LIMIT);
    Rows::parse(&guest.run(run)?.success()?)
}

/// The rows on the host, under `softgpu run`.
///
/// # Errors
/// If the program fails.
pub fn natively(profile: &str, rounds: u32) -> Result<Rows> {
    let mut run = Command::new(programs::softgpu()?);
    run.args(["run", "--profile", profile, "--"]).arg(program()?).args(["rows", &rounds.to_string()]);
    run.env("LD_LIBRARY_PATH", programs::thunk_dir()?);
    Rows::parse(&command::succeed(&mut run, LIMIT)?)
}

/// Parts of a processor of the host: 1 is all of one.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// By the worker's thread that looks at doorbells.
    pub relay: f64,
    /// By the daemon and the worker, the software GPU that looks at doorbells too among it.
    pub all: f64,
}

/// The relay's thread.
const RELAY: &str = "doorbells";

/// What the daemon and the worker of a program that sleeps take. `what` the program has is `none` or `queue`.
///
/// # Errors
/// If the program fails, or the host does not tell.
pub fn idle(guest: &mut RocmGuest, what: &str, time: Duration) -> Result<Taken> {
    let name = guest.program(&program()?)?;
    guest.run(Run::new(["sh", "-c", IN_THE_BACKGROUND, &name, what]).timeout(LIMIT))?.success()?;
    guest.daemon().wait_for_workers(1, GONE)?;
    let daemon = guest.daemon();
    let processes: Vec<u32> = daemon.workers()?.into_iter().chain([daemon.pid()]).collect();
    thread::sleep(SETTLE);
    let (start, before) = (Instant::now(), CpuTime::of(&processes)?);
    thread::sleep(time);
    let (elapsed, after) = (start.elapsed(), CpuTime::of(&processes)?);
    guest.run(Run::new(["sh", "-c", "kill -KILL $(cat /tmp/idle.pid)"]))?.success()?;
    guest.daemon().wait_for_workers(0, GONE)?;
    let part = |after: Duration, before| after.saturating_sub(before).as_secs_f64() / elapsed.as_secs_f64();
    Ok(Taken { relay: part(after.relay, before.relay), all: part(after.all, before.all) })
}

/// How long threads have run until now.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTime {
    relay: Duration,
    all: Duration,
}

impl CpuTime {
    /// Of all threads of these processes.
    fn of(processes: &[u32]) -> Result<Self> {
        let mut time = Self::default();
        let read = |path: PathBuf| fs::read_to_string(&path).map_err(Error::file("read", path));
        for process in processes {
            let tasks = PathBuf::from(format!("/proc/{process}/task"));
            let threads = fs::read_dir(&tasks).map_err(Error::file("list", &tasks))?;
            for thread in threads.filter_map(std::result::Result::ok).map(|thread| thread.path()) {
                let text = read(thread.join("schedstat"))?;
                // The first number: nanoseconds on a processor.
                let ran = text.split(' ').next().and_then(|first| first.parse().ok());
                let ran = ran.ok_or_else(|| Error::Package(format!("{}: {text:?}", thread.display())))?;
                time.all += Duration::from_nanos(ran);
                if read(thread.join("comm"))?.trim_end() == RELAY {
                    time.relay += Duration::from_nanos(ran);
                }
            }
        }
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_three_numbers_each() {
        let rows = Rows::parse("a 4.5 1 9\nb 1.5 1 2\n").unwrap();
        assert_eq!(rows.get("a"), Some(Row { median: 4.5, least: 1.0, greatest: 9.0 }));
        assert_eq!(rows.ratio("a", "b"), Some(3.0));
        assert_eq!(rows.ratio("a", "c"), None);
        for wrong in ["a", "a 1 2", "a 1 2 3 4", "a 1 2 x"] {
            assert!(Rows::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_time_that_a_process_runs_is_counted() {
        let us = [std::process::id()];
        let before = CpuTime::of(&us).unwrap().all;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert!(CpuTime::of(&us).unwrap().all > before);
    }
}
