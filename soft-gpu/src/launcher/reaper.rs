//! The process between the supervisor and the program: parent and reaper of everything that the
//! program starts.
//!
//! It is what makes the launcher leave nothing behind. When the supervisor ends, killed or not, the
//! connection breaks and the reaper kills every descendant, double-forked ones included, because as a
//! subreaper it becomes their parent. When the reaper is killed, the program dies with it and the rest
//! falls to the supervisor, which does the same.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use protocol::Errno;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, set_child_subreaper};

use super::channel::{Channel, Kind};
use super::registry::unless_short;
use super::signals;
use super::stage::{self, Spec};

/// Runs in the forked child of the supervisor and never returns.
///
/// `supervisor` is the reaper's own connection, `program` the one that the program-to-be gets.
pub fn run(spec: &Spec, supervisor: &Channel, program: Channel) -> ! {
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
    let Ok(children) = signals::block_all_and_watch_children() else { exit(1) };
    // SAFETY: this process has one thread, so the child may do whatever the parent could.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let error = stage::become_program(spec, &program);
        if !error.is_empty() {
            let _ = program.send(Kind::Failed, &error, &[]);
        }
        exit(127);
    }
    drop(program);
    // `from_raw` takes no negative number.
    let Some(main) = (pid > 0).then(|| Pid::from_raw(pid)).flatten() else {
        let _ = supervisor.send(Kind::Failed, "cannot fork the program's process", &[]);
        exit(1)
    };
    if let Ok(pidfd) = pidfd_open(main, PidfdFlags::empty()) {
        let _ = supervisor.send(Kind::Started, &pid.to_string(), &[pidfd.as_fd()]);
    }
    release_descriptors([supervisor.as_fd(), children.as_fd()]);
    watch(supervisor, children.as_fd(), main);
    kill_descendants();
    exit(0)
}

fn exit(code: i32) -> ! {
    // SAFETY: ends the process without running what the supervisor registered with atexit.
    unsafe { libc::_exit(code) }
}

/// The program's pipes, files and terminal must not stay open because of this process.
fn release_descriptors(keep: [BorrowedFd<'_>; 2]) {
    let mut keep = keep.map(|fd| fd.as_raw_fd().unsigned_abs());
    keep.sort_unstable();
    let mut first = 0;
    for fd in keep {
        if fd > first {
            close_range(first, fd - 1);
        }
        first = fd.saturating_add(1);
    }
    close_range(first, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: this process has one thread and uses none of these descriptors again.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Reaps until no child is left or the supervisor is gone.
fn watch(supervisor: &Channel, children: BorrowedFd<'_>, main: Pid) {
    loop {
        let mut fds =
            [PollFd::new(supervisor, PollFlags::IN), PollFd::from_borrowed_fd(children, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        // The supervisor sends nothing on this connection: whatever happens on it is its end.
        if !fds[0].revents().is_empty() {
            return;
        }
        signals::drain(children);
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == main {
                        let _ = supervisor.send(Kind::Ended, &status.as_raw().to_string(), &[]);
                    }
                }
                Ok(None) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// Kills the calling process's children, and theirs as they become its own, until none is left. A
/// process that forks faster than it is killed loses in the end: each round leaves it no parent.
pub fn kill_descendants() {
    loop {
        for child in children_of(rustix::process::getpid()).unwrap_or_default() {
            let _ = kill_process(child, Signal::KILL);
        }
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    }
}

/// The children of a process, of all its threads.
///
/// # Errors
/// `ENFILE` or `ENOMEM` if this process is short of what it takes to look.
pub fn children_of(parent: Pid) -> Result<HashSet<Pid>, Errno> {
    let tasks = unless_short(fs::read_dir(format!("/proc/{}/task", parent.as_raw_pid())))?;
    let mut found = HashSet::new();
    for task in tasks.into_iter().flatten().flatten() {
        // The file is missing in kernels without CONFIG_PROC_CHILDREN.
        let list = unless_short(fs::read_to_string(task.path().join("children")))?;
        let Some(list) = list else { return Ok(children_by_stat(parent)) };
        found.extend(list.split_whitespace().filter_map(parse_pid));
    }
    Ok(found)
}

fn children_by_stat(parent: Pid) -> HashSet<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let pid = parse_pid(entry.file_name().to_str()?)?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            (parent_in_stat(&stat)? == parent).then_some(pid)
        })
        .collect()
}

/// The parent's id: the second field behind the name, which stands in parentheses and may hold any.
pub fn parent_in_stat(stat: &str) -> Option<Pid> {
    let (_, fields) = stat.rsplit_once(')')?;
    parse_pid(fields.split_whitespace().nth(1)?)
}

fn parse_pid(text: &str) -> Option<Pid> {
    let number = text.parse().ok().filter(|number: &i32| *number > 0)?;
    Pid::from_raw(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_is_found_behind_a_hostile_name() {
        assert_eq!(parent_in_stat("12 (a) R 7 b) S 34 12 1").map(Pid::as_raw_pid), Some(34));
        assert_eq!(parent_in_stat("12 no name"), None);
        assert_eq!(parent_in_stat("12 (x) S 0 1"), None);
    }

    #[test]
    fn both_ways_find_the_same_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let me = rustix::process::getpid();
        let pid = Pid::from_child(&child);
        let (listed, scanned) = (children_of(me).unwrap(), children_by_stat(me));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(listed.contains(&pid), "{listed:?}");
        assert!(scanned.contains(&pid), "{scanned:?}");
    }
}
