//! What is mapped in a range of this process, before a blob takes its place.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use protocol::Errno;
use rustix::ioctl::Updater;
use rustix::ioctl::opcode::read_write;

use super::link::PAGE;

/// `struct procmap_query` of `linux/fs.h` (Linux 6.11).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev: [u32; 2],
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// Flags of a mapping (`PROCMAP_QUERY_VMA_*`), and the ones that are looked at.
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const SHARED: u64 = 8;
const FILE_BACKED: u64 = 32;

/// A mapping: first address, address behind it, flags.
type Mapping = (u64, u64, u64);

/// Whether a range is memory of this process's own that can be read and written, so that a blob can take its place.
///
/// # Errors
/// As `UserMem::share`: `EFAULT` where nothing is mapped or it cannot be read, `EPERM` where it cannot be written, `EOPNOTSUPP` for
/// a file's memory or what is shared with other processes.
pub(super) fn check_own(start: u64, len: u64) -> Result<(), Errno> {
    let end = start.checked_add(len).ok_or(Errno::EFAULT)?;
    let maps = OwnedFd::from(File::open("/proc/self/maps").map_err(|error| {
        log::error!("/proc/self/maps cannot be opened, which is needed to share memory: {error}");
        Errno::EOPNOTSUPP
    })?);
    let mut at = start;
    while at < end {
        let found = match query(&maps, at) {
            // Before Linux 6.11.
            Err(rustix::io::Errno::NOTTY) => return check_list(start, end),
            Err(_) => return Err(Errno::EFAULT),
            Ok(found) => found,
        };
        check_one(found, at)?;
        at = found.1;
    }
    Ok(())
}

fn query(maps: &OwnedFd, at: u64) -> rustix::io::Result<Mapping> {
    const OPCODE: u32 = read_write::<ProcmapQuery>(b'f', 17);
    let mut args =
        ProcmapQuery { size: size_of::<ProcmapQuery>() as u64, query_addr: at, ..Default::default() };
    // SAFETY: this is the struct of that request, with its size in it; it names no memory to be written. The file is one of
    // procfs; other files do not know the request.
    let updater = unsafe { Updater::<OPCODE, ProcmapQuery>::new(&mut args) };
    // SAFETY: as above.
    unsafe { rustix::ioctl::ioctl(maps, updater) }?;
    Ok((args.vma_start, args.vma_end, args.vma_flags))
}

fn check_one((start, end, flags): Mapping, at: u64) -> Result<(), Errno> {
    if !(start..end).contains(&at) || flags & READABLE == 0 {
        return Err(Errno::EFAULT);
    }
    if flags & WRITABLE == 0 {
        return Err(Errno::EPERM);
    }
    if flags & (SHARED | FILE_BACKED) != 0 { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
}

/// The same by the whole list.
fn check_list(start: u64, end: u64) -> Result<(), Errno> {
    let text = std::fs::read("/proc/self/maps").map_err(|_| Errno::EOPNOTSUPP)?;
    let text = String::from_utf8_lossy(&text);
    let mut at = start;
    for found in text.lines().filter_map(parse).skip_while(|found| found.1 <= start) {
        if at >= end {
            break;
        }
        check_one(found, at)?;
        at = found.1;
    }
    if at < end { Err(Errno::EFAULT) } else { Ok(()) }
}

/// A line such as `7f00-7f01 rw-p 00000000 00:00 0  [heap]`.
fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let access = words.next()?.as_bytes();
    let inode = words.nth(2)?;
    let flag =
        |place: usize, letter: u8, flag: u64| if access.get(place) == Some(&letter) { flag } else { 0 };
    let file = if inode == "0" { 0 } else { FILE_BACKED };
    let flags = flag(0, b'r', READABLE) | flag(1, b'w', WRITABLE) | flag(3, b's', SHARED) | file;
    Some((start, end, flags))
}

/// The pages of a range that are not fresh: somebody wrote to them, or read them. Where the kernel does not tell, all.
pub(super) fn used_pages(start: u64, len: u64) -> Vec<u64> {
    /// Bits of an entry of `/proc/PID/pagemap`: in memory, swapped out.
    const USED: u64 = 3 << 62;
    /// Entries that are read at a time.
    const BATCH: u64 = 4096;
    let all = || (start..start + len).step_by(PAGE as usize).collect();
    let Ok(pagemap) = File::open("/proc/self/pagemap") else { return all() };
    let mut used = Vec::new();
    let (first, count) = (start / PAGE, len / PAGE);
    for batch in (0..count).step_by(BATCH as usize) {
        let entries = BATCH.min(count - batch);
        let mut bytes = vec![0; entries as usize * 8];
        if let Err(error) = pagemap.read_exact_at(&mut bytes, (first + batch) * 8) {
            log::debug!("/proc/self/pagemap cannot be read: {error}");
            return all();
        }
        let (words, _) = bytes.as_chunks::<8>();
        let is_used = |(_, word): &(u64, &[u8; 8])| u64::from_le_bytes(**word) & USED != 0;
        used.extend((batch..).zip(words).filter(is_used).map(|(page, _)| start + page * PAGE));
    }
    used
}

#[cfg(test)]
mod tests {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use super::*;

    fn map(pages: u64) -> u64 {
        let len = (pages * PAGE) as usize;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, MapFlags::PRIVATE) }.unwrap();
        at.expose_provenance() as u64
    }

    fn unmap(start: u64, pages: u64) {
        let at = std::ptr::with_exposed_provenance_mut(start as usize);
        // SAFETY: the range was mapped by the test, and nothing refers to it.
        unsafe { munmap(at, (pages * PAGE) as usize) }.unwrap();
    }

    fn protect(start: u64, prot: ProtFlags) {
        let at = std::ptr::with_exposed_provenance_mut(start as usize);
        let prot = rustix::mm::MprotectFlags::from_bits_retain(prot.bits());
        // SAFETY: a page that was mapped by the test, and nothing refers to it.
        unsafe { mprotect(at, PAGE as usize, prot) }.unwrap();
    }

    #[test]
    fn only_own_memory_can_be_replaced() {
        let start = map(4);
        for check in [check_own, |start, len| check_list(start, start + len)] {
            assert_eq!(check(start, 4 * PAGE), Ok(()));
            protect(start + PAGE, ProtFlags::READ);
            assert_eq!(check(start, 4 * PAGE), Err(Errno::EPERM));
            assert_eq!(check(start, PAGE), Ok(()));
            protect(start + PAGE, ProtFlags::empty());
            assert_eq!(check(start, 4 * PAGE), Err(Errno::EFAULT));
            protect(start + PAGE, ProtFlags::READ | ProtFlags::WRITE);
        }
        unmap(start + 2 * PAGE, 1);
        assert_eq!(check_own(start, 4 * PAGE), Err(Errno::EFAULT));
        assert_eq!(check_list(start, start + 4 * PAGE), Err(Errno::EFAULT));
        unmap(start, 4);
        assert_eq!(check_own(u64::MAX - PAGE, 2 * PAGE), Err(Errno::EFAULT));
    }

    #[test]
    fn files_and_shared_memory_cannot() {
        let file = "7f0000000000-7f0000001000 rw-p 00000000 08:01 1234 /lib/libc.so";
        let shared = "7f0000000000-7f0000001000 rw-s 00000000 00:01 0 /dev/zero (deleted)";
        let own = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 [heap]";
        for (line, expected) in
            [(file, Err(Errno::EOPNOTSUPP)), (shared, Err(Errno::EOPNOTSUPP)), (own, Ok(()))]
        {
            assert_eq!(check_one(parse(line).unwrap(), 0x7f00_0000_0000), expected, "{line}");
        }
        for wrong in ["", "7f", "7f-80", "7f-80 rw-p", "x-y rw-p 0 0 0"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pages_that_were_written_are_not_fresh() {
        let start = map(8);
        assert!(used_pages(start, 8 * PAGE).is_empty());
        super::super::mem::OwnMemory.write(start + 3 * PAGE + 7, b"x").unwrap();
        assert_eq!(used_pages(start, 8 * PAGE), [start + 3 * PAGE]);
        unmap(start, 8);
    }

    use protocol::kfd::UserMem;
}
