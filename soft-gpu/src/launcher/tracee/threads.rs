//! Which threads run in the memory of a process, from `/proc`.
//!
//! Usually these are the threads of the process. A child of `vfork`, or of `clone` with `CLONE_VM` but
//! without `CLONE_THREAD`, is a process of its own in the same memory: its threads count as well, and so
//! do the parent's when the process is such a child itself. A child whose parent ended, or that
//! `CLONE_PARENT` gave to its grandparent, is not found; nor is any where the kernel has no `kcmp(2)`.

use std::collections::BTreeSet;
use std::fs;

/// More relatives than this are not followed: a chain of processes in one memory is one or two long.
const RELATIVES_MAX: usize = 64;

/// Ids of the threads of process `pid`.
pub fn of_process(pid: u32) -> BTreeSet<u32> {
    threads(pid).into_iter().collect()
}

/// Ids of all threads that use the memory of process `pid`, ascending.
pub fn in_memory_of(pid: u32) -> BTreeSet<u32> {
    let mut processes = vec![pid];
    if let Some(parent) = stat(pid).map(|stat| stat.parent).filter(|&parent| same_memory(pid, parent)) {
        processes.push(parent);
    }
    let mut found = BTreeSet::new();
    let mut next = 0;
    while let Some(&process) = processes.get(next) {
        next += 1;
        for tid in threads(process) {
            found.insert(tid);
            for child in children(process, tid) {
                let new = !processes.contains(&child) && processes.len() < RELATIVES_MAX;
                if new && same_memory(pid, child) {
                    processes.push(child);
                }
            }
        }
    }
    found
}

fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn children(pid: u32, tid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn same_memory(a: u32, b: u32) -> bool {
    const KCMP_VM: i32 = 1;
    // SAFETY: the call takes numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_VM, 0, 0) == 0 }
}

/// Some of `/proc/TID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// `R`, `S`, `D`, `T`, `t`, `Z`, `X`.
    pub state: char,
    /// The process that started it.
    pub parent: u32,
    /// `PF_*` flags (`linux/sched.h`).
    pub flags: u32,
}

/// The state of a thread; `None` if there is no such thread.
pub fn stat(tid: u32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{tid}/stat")).ok()?;
    parse_stat(&text)
}

/// The name of the program may hold any byte, so the fields count from the last parenthesis.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
    let mut fields = std::str::from_utf8(text.get(after_name..)?).ok()?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let flags = fields.nth(4)?.parse().ok()?;
    Some(Stat { state, parent, flags })
}

impl Stat {
    /// Whether it ended, or is ending: it is back in the kernel for good, has let its memory go, and cannot be
    /// traced any more (`EPERM`).
    pub fn is_dead(self) -> bool {
        const PF_EXITING: u32 = 0x4;
        matches!(self.state, 'Z' | 'X') || self.flags & PF_EXITING != 0
    }

    /// Whether the kernel runs it on behalf of the program (io_uring, vhost): it cannot be traced.
    pub fn is_kernel_worker(self) -> bool {
        const PF_IO_WORKER: u32 = 0x10;
        const PF_USER_WORKER: u32 = 0x4000;
        const PF_KTHREAD: u32 = 0x20_0000;
        self.flags & (PF_IO_WORKER | PF_USER_WORKER | PF_KTHREAD) != 0
    }
}

/// Whether the thread waits inside `vfork` or its like for a child that runs in the same memory. It
/// touches no memory before it returns to the program.
pub fn waits_for_vfork(tid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{tid}/syscall")).unwrap_or_default();
    let number = text.split_whitespace().next().and_then(|number| number.parse::<i64>().ok());
    let clones = [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];
    let in_clone = number.is_some_and(|number| clones.contains(&number));
    in_clone && stat(tid).is_some_and(|stat| stat.state == 'D') && has_child_in_memory(tid)
}

fn has_child_in_memory(tid: u32) -> bool {
    children(tid, tid).into_iter().any(|child| same_memory(tid, child))
}

/// The process that traces `tid`, 0 if none.
pub fn tracer_of(tid: u32) -> u32 {
    status_number(tid, "TracerPid:").unwrap_or(0)
}

/// The process that `tid` is a thread of.
pub fn thread_group(tid: u32) -> Option<u32> {
    status_number(tid, "Tgid:")
}

fn status_number(tid: u32, key: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_does_not_shift_the_fields() {
        let text = b"17 (a) R 1 (b) S 5 17 17 0 -1 4194560 100 0\n";
        assert_eq!(parse_stat(text), Some(Stat { state: 'S', parent: 5, flags: 4_194_560 }));
        assert_eq!(parse_stat(b"17 (a"), None);
        assert_eq!(parse_stat(b"17 (a) S x"), None);
    }

    #[test]
    fn the_own_threads_are_found_and_nobody_elses() {
        let found = in_memory_of(std::process::id());
        assert!(found.contains(&std::process::id()));
        let parent = stat(std::process::id()).unwrap().parent;
        assert!(!found.contains(&parent));
        assert_eq!(tracer_of(std::process::id()), 0);
    }
}
