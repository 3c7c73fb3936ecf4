//! Open files of the device nodes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use protocol::kfd::{FileId, ProcessId};

use super::drm::DrmFile;

/// Every open file description of a device, of all processes.
///
/// A file belongs to the device and not to its opener, because it lives on in whoever inherited it or got it
/// through a socket. So a render node file stays until somebody closes it; a `/dev/kfd` file, which is of no
/// use to anybody else, ends with the process that opened it.
#[derive(Debug, Default)]
pub(crate) struct FileTable {
    last: AtomicU64,
    open: RwLock<BTreeMap<FileId, OpenFile>>,
}

/// What an open file is.
#[derive(Clone, Debug)]
pub(crate) enum OpenFile {
    /// `/dev/kfd`, good for the process that opened it only (`kfd_ioctl`: `EBADF`).
    Kfd {
        /// Who opened it.
        opener: ProcessId,
    },
    /// A render node.
    Render(Arc<DrmFile>),
}

impl FileTable {
    /// Adds a file and gives it an id that was never used before.
    pub(crate) fn add(&self, file: OpenFile) -> FileId {
        let id = FileId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(id, file);
        id
    }

    /// The open file with this id.
    pub(crate) fn get(&self, id: FileId) -> Option<OpenFile> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// The render node file with this id; `None` if it is closed or not one.
    pub(crate) fn render(&self, id: FileId) -> Option<Arc<DrmFile>> {
        match self.get(id)? {
            OpenFile::Render(file) => Some(file),
            OpenFile::Kfd { .. } => None,
        }
    }

    /// Takes a file out of the table.
    pub(crate) fn remove(&self, id: FileId) -> Option<OpenFile> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    /// Removes the `/dev/kfd` files of a process that ends.
    pub(crate) fn remove_kfd_files_of(&self, process: ProcessId) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, file| !matches!(file, OpenFile::Kfd { opener } if *opener == process));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.open.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}
