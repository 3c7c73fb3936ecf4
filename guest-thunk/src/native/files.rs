//! The open device files of this process, found without a lock.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use protocol::Errno;
use protocol::kfd::{FileId, Node};

/// The device files by id.
///
/// Every ioctl looks its file up here, in many threads at once; opens and closes are rare. So the table is a
/// list that is never changed: an open or close puts a new one in its place. Readers take no lock, which also
/// means that a forked child finds none taken by a thread that it does not have.
pub(super) struct Files {
    table: ArcSwap<Vec<Entry>>,
    next: AtomicU64,
    /// What a forked child let go of. Kept for ever.
    abandoned: OnceLock<ManuallyDrop<Arc<Vec<Entry>>>>,
}

/// One open file.
#[derive(Clone)]
pub(super) struct Entry {
    id: FileId,
    /// Whose it is: the [`Process`](protocol::kfd::Process) that opened it, by number.
    owner: u64,
    /// What it is.
    pub(super) node: Node,
    /// Its descriptor. Whoever works on the file holds the table or a reference, so that a close by another thread
    /// does not give the number to another file meanwhile.
    pub(super) fd: Arc<OwnedFd>,
}

impl Files {
    pub(super) fn new() -> Self {
        let (table, next) = (ArcSwap::from_pointee(Vec::new()), AtomicU64::new(1));
        Self { table, next, abandoned: OnceLock::new() }
    }

    /// Keeps an open file.
    pub(super) fn add(&self, owner: u64, node: Node, fd: OwnedFd) -> FileId {
        let id = FileId(self.next.fetch_add(1, Ordering::Relaxed));
        let entry = Entry { id, owner, node, fd: Arc::new(fd) };
        self.table.rcu(|table| {
            // A new list is as long as there are GPUs.
            let mut longer = Vec::with_capacity(table.len() + 1);
            longer.extend(table.iter().cloned());
            longer.push(entry.clone());
            longer
        });
        id
    }

    /// Forgets a file. It is closed once nobody works on it or keeps a mapping of it.
    pub(super) fn remove(&self, owner: u64, id: FileId) {
        self.retain(|entry| entry.id != id || entry.owner != owner);
    }

    /// Forgets all files of an owner.
    pub(super) fn remove_all_of(&self, owner: u64) {
        self.retain(|entry| entry.owner != owner);
    }

    fn retain(&self, keep: impl Fn(&Entry) -> bool) {
        self.table.rcu(|table| table.iter().filter(|entry| keep(entry)).cloned().collect::<Vec<_>>());
    }

    /// Works on the file with this id. It stays open meanwhile.
    ///
    /// # Errors
    /// `EBADF` if this owner has none; those of `work`.
    pub(super) fn with<T>(
        &self,
        owner: u64,
        id: FileId,
        work: impl FnOnce(&Entry) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let table = self.table.load();
        let entry = table.iter().find(|entry| entry.id == id && entry.owner == owner);
        entry.ok_or(Errno::EBADF).and_then(work)
    }

    /// Empties the table and gives the descriptors by number. They are this process's own to close: no value
    /// in this address space closes them any more, whoever still holds a reference.
    pub(super) fn abandon(&self) -> Vec<RawFd> {
        let table = self.table.swap(Arc::new(Vec::new()));
        let numbers = table.iter().map(|entry| entry.fd.as_raw_fd()).collect();
        // References of threads that a forked child does not have, and of mappings that it still has, must
        // not close the number later: it may be another file's by then. The list, kept for ever, keeps the
        // count above 0.
        if !table.is_empty() {
            // A process abandons what it inherited, once.
            let _ = self.abandoned.set(ManuallyDrop::new(table));
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;
    use crate::testing::is_open;

    /// A copy of an entry.
    fn get(files: &Files, owner: u64, id: FileId) -> Result<Entry, Errno> {
        files.with(owner, id, |entry| Ok(entry.clone()))
    }

    fn file() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn files_are_found_by_id_and_owner() {
        let files = Files::new();
        let kfd = files.add(1, Node::Kfd, file());
        let render = files.add(1, Node::Render(128), file());
        let other = files.add(2, Node::Kfd, file());
        assert!(kfd != render && render != other);
        assert_eq!(get(&files, 1, render).unwrap().node, Node::Render(128));
        assert_eq!(get(&files, 1, other).err(), Some(Errno::EBADF));
        assert_eq!(get(&files, 1, FileId(99)).err(), Some(Errno::EBADF));
        files.remove(2, kfd);
        assert!(get(&files, 1, kfd).is_ok(), "another owner cannot close it");
        files.remove_all_of(1);
        assert!(get(&files, 1, kfd).is_err() && get(&files, 1, render).is_err());
        assert!(get(&files, 2, other).is_ok());
    }

    #[test]
    fn a_file_is_closed_when_the_last_one_who_works_on_it_is_done() {
        let files = Files::new();
        let id = files.add(1, Node::Kfd, file());
        let number = files.with(1, id, |working| {
            let number = working.fd.as_raw_fd();
            files.remove(1, id);
            assert!(get(&files, 1, id).is_err());
            assert!(is_open(number));
            Ok(Arc::downgrade(&working.fd))
        });
        assert!(number.unwrap().upgrade().is_none(), "nobody else keeps it");
    }

    #[test]
    fn a_mapping_keeps_a_file_open() {
        let files = Files::new();
        let id = files.add(1, Node::Kfd, file());
        let mapping = get(&files, 1, id).unwrap().fd;
        files.remove(1, id);
        assert!(is_open(mapping.as_raw_fd()));
        assert_eq!(Arc::strong_count(&mapping), 1, "nobody else keeps it");
    }

    #[test]
    fn an_abandoned_table_closes_nothing_later() {
        let files = Files::new();
        let id = files.add(1, Node::Kfd, file());
        let mapping = get(&files, 1, id).unwrap().fd;
        let numbers = files.abandon();
        assert_eq!(numbers, [mapping.as_raw_fd()]);
        assert!(get(&files, 1, id).is_err());
        drop(mapping);
        drop(files);
        assert!(is_open(numbers[0]));
        // SAFETY: the table gave the number up, and nobody else closes it.
        drop(unsafe { OwnedFd::from_raw_fd(numbers[0]) });
    }

    #[test]
    fn files_come_and_go_while_others_are_used() {
        let files = Files::new();
        let kept = files.add(1, Node::Kfd, file());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let id = files.add(1, Node::Render(128), file());
                        assert!(get(&files, 1, kept).is_ok());
                        assert!(get(&files, 1, id).is_ok());
                        files.remove(1, id);
                        assert!(get(&files, 1, id).is_err());
                    }
                });
            }
        });
        assert_eq!(files.table.load().len(), 1);
    }
}
