//! Makes memory private again that was shared for the device.
//!
//! Beside the shared memory the program's own thread makes anonymous memory of the same length, which is filled here and
//! then moved over the range. So a failure on the way loses nothing: the memory stays shared, which is not wrong.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use protocol::Errno;
use rustix::fs::SeekFrom;

use super::convert::{BUFFER, CHUNK, protection};
use super::error::ConvertError;
use super::files::errno;
use super::inject::Borrowed;
use crate::proc_maps::Region;
use crate::vm_copy;

const READ_WRITE: u64 = 3; // PROT_READ | PROT_WRITE

/// Replaces all `pieces`, each a mapping of its file.
///
/// # Errors
/// Memory or mappings ran out, or the program forbids itself these calls.
pub fn release(thread: &mut Borrowed, pieces: &[(Region, Arc<OwnedFd>)]) -> Result<(), ConvertError> {
    for (region, file) in pieces {
        let mut start = region.start;
        while start < region.end {
            let len = CHUNK.min(region.end - start);
            replace(thread, region, file, start, len)?;
            start += len;
        }
    }
    Ok(())
}

fn replace(
    thread: &mut Borrowed,
    region: &Region,
    file: &OwnedFd,
    start: u64,
    len: u64,
) -> Result<(), ConvertError> {
    let flags = u64::from((libc::MAP_PRIVATE | libc::MAP_ANONYMOUS).cast_unsigned());
    let fresh = thread.call("mmap", libc::SYS_mmap, [0, len, READ_WRITE, flags, u64::MAX, 0])?;
    let moved = copy(thread.tid(), file, region.offset + (start - region.start), fresh, len).and_then(|()| {
        let protection = protection(region);
        if protection != READ_WRITE {
            thread.call("mprotect", libc::SYS_mprotect, [fresh, len, protection, 0, 0, 0])?;
        }
        let flags = u64::from((libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED).cast_unsigned());
        thread.call("mremap", libc::SYS_mremap, [fresh, len, len, flags, start, 0]).map(drop)
    });
    if moved.is_err() {
        let _ = thread.call("munmap", libc::SYS_munmap, [fresh, len, 0, 0, 0, 0]);
    }
    moved
}

/// Copies `[offset, offset + len)` of the file to the zeros at `to`, without the pages that it does not have.
fn copy(tid: u32, file: &OwnedFd, offset: u64, to: u64, len: u64) -> Result<(), ConvertError> {
    let failed =
        |error: io::Error| ConvertError::Own { what: "reading converted memory", errno: errno(&error) };
    let file = File::from(file.try_clone().map_err(failed)?);
    let end = offset + len;
    let mut buffer = vec![0; usize::try_from(len.min(BUFFER)).unwrap_or(0)];
    let mut at = offset;
    while let Some(data) = next_data(&file, at, end).map_err(failed)? {
        at = data.0;
        while at < data.1 {
            let size = usize::try_from((data.1 - at).min(BUFFER)).unwrap_or(0);
            let part = buffer.get_mut(..size).unwrap_or_default();
            file.read_exact_at(part, at).map_err(failed)?;
            let target = to + (at - offset);
            vm_copy::write(tid, target, part)
                .map_err(|_| ConvertError::Range { addr: target, errno: Errno::EFAULT })?;
            at += size as u64;
        }
    }
    Ok(())
}

/// The next range below `end` that has contents. The file's own position is nobody's else: what the program maps is not
/// read through it.
fn next_data(file: &File, at: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= end {
        return Ok(None);
    }
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) if data < end => {
            let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?;
            Ok(Some((data, hole.min(end))))
        }
        Ok(_) | Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn only_what_a_file_has_is_copied() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 16 << 20).unwrap();
        let file = File::from(file);
        file.write_all_at(&[7; 4096], 8192).unwrap();
        file.write_all_at(&[9; 4096], 1 << 20).unwrap();
        assert_eq!(next_data(&file, 0, 1 << 20).unwrap(), Some((8192, 12288)));
        assert_eq!(next_data(&file, 12288, 1 << 20).unwrap(), None, "beyond the end that was asked for");
        let mut target = vec![0_u8; 12288];
        let to = target.as_mut_ptr().expose_provenance() as u64;
        copy(std::process::id(), &file.into(), 4096, to, 12288).unwrap();
        assert_eq!((target[4095], target[4096], target[8191], target[8192]), (0, 7, 7, 0));
    }
}
