//! Notices the ends that nobody tells the supervisor about: of processes, of address spaces at
//! `execve`, and of open device files.
//!
//! Processes are exact (pidfd). The close of a file is not notified by the filter, since `close` is far
//! too hot a call; inotify says that *some* description of a device file was closed, and a look at the
//! descriptors of all processes says which ones are left. A description that is only in flight in a
//! socket, or only held by a mapping, is taken for closed, and opened anew if it is used again.

use std::collections::HashSet;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::process::Pid;

use super::reaper::children_of;
use super::registry::{Descriptor, Proc, Registry, tag_of};

/// Watches for ends.
pub struct Closes {
    registry: Arc<Registry>,
    inotify: OwnedFd,
    /// Ancestor of every process of the run.
    root: Pid,
}

/// Closes come in bursts; one look serves all of a burst.
const SETTLE: Duration = Duration::from_millis(5);
/// How often ended processes and address spaces are looked for while there are candidates.
const TICK: Duration = Duration::from_millis(10);

impl Closes {
    /// Watches the files of `registry`, used by the descendants of `root`.
    ///
    /// # Errors
    /// `EMFILE` and its like.
    pub fn new(registry: Arc<Registry>, root: Pid) -> io::Result<Self> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        for node in registry.nodes.iter() {
            let path = format!("/proc/self/fd/{}", node.fd.as_raw_fd());
            inotify::add_watch(&inotify, path, inotify::WatchFlags::CLOSE)?;
        }
        Ok(Self { registry, inotify, root })
    }

    /// Watches until the process ends.
    pub fn watch(&self) -> ! {
        let mut pause = SETTLE;
        loop {
            let closed = self.wait();
            self.bury();
            if closed {
                std::thread::sleep(pause);
                self.drain();
                let start = Instant::now();
                self.look();
                // At most a tenth of one CPU, however fast the program opens and closes.
                pause = (start.elapsed() * 10).max(SETTLE);
            }
        }
    }

    /// Waits for a process to end or, which is what it returns, for a file to be closed.
    fn wait(&self) -> bool {
        let processes = self.registry.processes();
        let execs = processes.iter().any(|proc| proc.exec_pending());
        let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(&self.inotify, PollFlags::IN)];
        fds.extend(processes.iter().map(|proc| PollFd::new(&proc.pidfd, PollFlags::IN)));
        // New processes are not among the polled, so look again soon.
        let tick = if execs { TICK } else { TICK * 10 };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(tick.subsec_nanos()) };
        let _ = poll(&mut fds, Some(&timeout));
        fds.first().is_some_and(|fd| !fd.revents().is_empty())
    }

    /// Forgets what has ended.
    fn bury(&self) {
        for proc in self.registry.processes() {
            if has_ended(&proc) {
                self.registry.forget(&proc);
            } else {
                proc.drop_dead_space();
            }
        }
    }

    fn drain(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        while events.next().is_ok() {}
    }

    /// Closes the files that no process has any more.
    fn look(&self) {
        let before = self.registry.next_tag();
        let mut alive = HashSet::new();
        let Ok(descendants) = descendants(self.root) else {
            return;
        };
        for pid in descendants {
            if self.tags_of(pid, &mut alive).is_none() {
                log::debug!(
                    "the descriptors of process {} are not visible; nothing is closed",
                    pid.as_raw_pid()
                );
                return;
            }
        }
        self.registry.close_all_but(&alive, before);
    }

    /// Adds the tags of the device files that `pid` has open. `None` if they cannot be seen although the
    /// process lives.
    fn tags_of(&self, pid: Pid, alive: &mut HashSet<u64>) -> Option<()> {
        let id = pid.as_raw_pid().unsigned_abs();
        let entries = match std::fs::read_dir(format!("/proc/{id}/fd")) {
            Ok(entries) => entries,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => return Some(()),
            Err(_) => return None,
        };
        for entry in entries.flatten() {
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // Follows the link to the file itself: one call tells most descriptors apart.
            let Ok(stat) = rustix::fs::stat(entry.path()) else { continue };
            if self.registry.nodes.by_stat(&stat).is_none() {
                continue;
            }
            match self.registry.descriptor(id, number) {
                Ok(Descriptor::Device(found)) => alive.extend(tag_of(found.fd.as_fd())),
                Err(Errno::ENFILE | Errno::ENOMEM) => return None,
                Ok(Descriptor::Foreign(_)) | Err(_) => {}
            }
        }
        Some(())
    }
}

fn has_ended(proc: &Proc) -> bool {
    let mut fds = [PollFd::new(&proc.pidfd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// Every process of the run.
///
/// # Errors
/// `ENFILE` or `ENOMEM` if this process is short of what it takes to look.
fn descendants(root: Pid) -> Result<HashSet<Pid>, Errno> {
    let mut found = HashSet::new();
    let mut todo = vec![root];
    while let Some(pid) = todo.pop() {
        todo.extend(children_of(pid)?.into_iter().filter(|child| found.insert(*child)));
    }
    Ok(found)
}
