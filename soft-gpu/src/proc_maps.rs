//! `/proc/PID/maps` as data: a total parser of the text, and the question "what covers this range".
//!
//! The text comes from the kernel, but the file names in it come from the program, so nothing about it is
//! trusted: a line that does not parse is an error that names its number, never a guess.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use protocol::Errno;
use protocol::kfd::user_mem::probe;

/// Bytes of a page (x86-64).
pub const PAGE: u64 = 4096;

/// One line of `/proc/PID/maps`: a virtual memory area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// The program may read.
    pub read: bool,
    /// The program may write.
    pub write: bool,
    /// The program may execute.
    pub exec: bool,
    /// Stores reach the mapped object (`MAP_SHARED`).
    pub shared: bool,
    /// Byte offset of `start` into the mapped object.
    pub offset: u64,
    /// Major and minor number of the file system that holds the object; 0:0 for anonymous memory.
    pub dev: (u32, u32),
    /// Inode number of the object; 0 for anonymous memory.
    pub inode: u64,
    /// The last column as the kernel prints it (newlines as `\012`): a path, a name in brackets, or empty.
    pub name: Vec<u8>,
}

/// A text that is no `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the memory map has no valid {field}")]
pub struct MapsError {
    /// Line number, from 1.
    pub line: usize,
    /// The column that is wrong.
    pub field: &'static str,
}

/// Reads a whole `/proc/PID/maps`. Regions are ascending and do not overlap; a text where they do is refused.
///
/// # Errors
/// The first line that does not have the kernel's form (`show_map_vma` in `fs/proc/task_mmu.c`).
pub fn parse(text: &[u8]) -> Result<Vec<Region>, MapsError> {
    let mut regions: Vec<Region> = Vec::new();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let region = parse_line(line).map_err(|field| MapsError { line: number + 1, field })?;
        if regions.last().is_some_and(|last| last.end > region.start) {
            return Err(MapsError { line: number + 1, field: "order" });
        }
        regions.push(region);
    }
    Ok(regions)
}

/// The text of a file below `/proc`. The kernel makes it anew for each read and hands out a page at a time, so
/// it is read in large steps.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn read_text(path: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(16 << 10);
    let mut file = File::open(path)?;
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// Times that a memory map is looked at before it is believed.
const LOOKS: u32 = 16;

/// The memory map of a process, a file below `/proc`, and what it has in a range ([`cover`]).
///
/// The kernel hands the map out in pieces, between which other threads map and unmap: lines may then overlap or be
/// missing, which looks like a hole. So what is not found is looked for again.
///
/// # Errors
/// `ESRCH` if the process is gone or may not be looked at, `EIO` for a text that is no memory map, and those of
/// [`cover`].
pub fn look_up(path: &str, addr: u64, len: u64, writable: bool) -> Result<(Vec<Region>, Vec<Region>), Errno> {
    let mut last = Errno::EIO;
    for _ in 0..LOOKS {
        let text = read_text(path).map_err(|_| Errno::ESRCH)?;
        let regions = match parse(&text) {
            Ok(regions) => regions,
            Err(error) => {
                log::debug!("{path}: {error}");
                continue;
            }
        };
        match cover(&regions, addr, len, writable) {
            Err(Errno::EFAULT) => last = Errno::EFAULT,
            covered => return covered.map(|parts| (regions, parts)),
        }
    }
    Err(last)
}

fn parse_line(line: &[u8]) -> Result<Region, &'static str> {
    let (range, rest) = column(line);
    let (start, end) = split_at_byte(range, b'-').ok_or("range")?;
    let start = number(start, 16).ok_or("range")?;
    let end = number(end, 16).filter(|&end| end > start).ok_or("range")?;
    let (perms, rest) = column(rest);
    let &[r, w, x, s] = perms else { return Err("permissions") };
    let (offset, rest) = column(rest);
    let (dev, rest) = column(rest);
    let (major, minor) = split_at_byte(dev, b':').ok_or("device")?;
    let (inode, rest) = column(rest);
    Ok(Region {
        start,
        end,
        read: flag(r, b'r', b'-').ok_or("permissions")?,
        write: flag(w, b'w', b'-').ok_or("permissions")?,
        exec: flag(x, b'x', b'-').ok_or("permissions")?,
        shared: flag(s, b's', b'p').ok_or("permissions")?,
        offset: number(offset, 16).ok_or("offset")?,
        dev: (device_number(major).ok_or("device")?, device_number(minor).ok_or("device")?),
        inode: number(inode, 10).ok_or("inode")?,
        name: rest.iter().copied().skip_while(|&byte| byte == b' ').collect(),
    })
}

/// The bytes up to the next blank, and what follows that blank.
fn column(line: &[u8]) -> (&[u8], &[u8]) {
    split_at_byte(line, b' ').unwrap_or((line, &[]))
}

fn split_at_byte(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&b| b == byte)?;
    let (before, after) = text.split_at(at);
    after.split_first().map(|(_, after)| (before, after))
}

/// Digits only: `from_str_radix` alone would take a sign.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('+') {
        return None;
    }
    u64::from_str_radix(text, radix).ok()
}

fn device_number(text: &[u8]) -> Option<u32> {
    number(text, 16).and_then(|number| u32::try_from(number).ok())
}

fn flag(byte: u8, yes: u8, no: u8) -> Option<bool> {
    match byte {
        b if b == yes => Some(true),
        b if b == no => Some(false),
        _ => None,
    }
}

impl Region {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Never: a region without bytes does not parse.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// The part of the region inside `[start, end)`, its offset moved along; `None` without overlap.
    #[must_use]
    pub fn clip(&self, start: u64, end: u64) -> Option<Region> {
        let first = self.start.max(start);
        let last = self.end.min(end);
        if first >= last {
            return None;
        }
        let offset = if self.is_file() { self.offset.wrapping_add(first - self.start) } else { 0 };
        Some(Region { start: first, end: last, offset, ..self.clone() })
    }

    /// Whether an object with an inode is mapped: a file, a memfd, shared anonymous memory.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.inode != 0
    }

    /// Whether this is the main thread's stack, which grows downwards on a fault below it.
    #[must_use]
    pub fn is_stack(&self) -> bool {
        self.name == b"[stack]"
    }

    /// Whether the kernel made it for itself: vdso, vvar, vsyscall, uprobes.
    #[must_use]
    pub fn is_special(&self) -> bool {
        const KERNEL_NAMES: [&[u8]; 4] = [b"[vdso]", b"[vvar", b"[vsyscall]", b"[uprobes]"];
        KERNEL_NAMES.iter().any(|name| self.name.starts_with(name))
    }

    /// Whether the name says huge pages: the kernel's own names for anonymous and SysV huge page memory.
    #[must_use]
    pub fn is_hugetlb(&self) -> bool {
        self.name.starts_with(b"/anon_hugepage")
    }

    /// The name as a path, if it is one.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStringExt;
        let path = std::ffi::OsString::from_vec(self.name.clone());
        self.name.starts_with(b"/").then(|| PathBuf::from(path))
    }
}

/// The regions that cover `[addr, addr + len)`, clipped to it, ascending and without holes.
///
/// # Errors
/// What the kernel answers when a device faults the range in (`hmm_range_fault`): `EFAULT` for a hole, for
/// memory that may not be read, and for the kernel's own mappings; `EPERM` for memory that may not be
/// written where `writable` asks for it. `EINVAL` for a range that is empty, not page-aligned, or wraps.
pub fn cover(regions: &[Region], addr: u64, len: u64, writable: bool) -> Result<Vec<Region>, Errno> {
    let end = addr.checked_add(len).filter(|&end| end > addr).ok_or(Errno::EINVAL)?;
    if !addr.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let mut pieces = Vec::new();
    let mut next = addr;
    for region in regions.iter().filter_map(|region| region.clip(addr, end)) {
        if region.start != next || !region.read || region.is_special() {
            return Err(Errno::EFAULT);
        }
        if writable && !region.write {
            return Err(Errno::EPERM);
        }
        next = region.end;
        pieces.push(region);
    }
    if next == end { Ok(pieces) } else { Err(Errno::EFAULT) }
}

/// Ranges of fewer bytes are probed: that is quicker than the memory map, which is read as a whole.
const WORTH_THE_MAP: u64 = 64 * PAGE;

/// Whether process or thread `task` may read every page of a range. What its memory map says yes to is not touched;
/// else `can_be_read` decides: while other threads map and unmap the map is not exact, and it does not tell all.
pub fn is_mapped(task: u32, addr: u64, len: u64, can_be_read: impl Fn(u64) -> bool) -> bool {
    let by_map = || {
        let text = read_text(&format!("/proc/{task}/maps")).ok()?;
        let pieces = cover(&parse(&text).ok()?, addr, len, false).ok()?;
        // A driver's mapping does not show.
        pieces.iter().all(|piece| can_be_read(piece.start)).then_some(())
    };
    (len >= WORTH_THE_MAP && by_map().is_some()) || probe(can_be_read, addr, len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Lines in the form of show_map_vma (fs/proc/task_mmu.c) as Linux 6.18 printed them.
    const TEXT: &[u8] = b"\
55e0c0a00000-55e0c0a02000 r--p 00001000 fe:00 1835                       /usr/bin/a b\\012c
55e0c0a02000-55e0c0a03000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000004000 rw-s 00002000 00:01 77                         /memfd:x (deleted)
7f0000004000-7f0000005000 r--p 00000000 00:00 0 
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn pages_of_a_big_mapping_are_not_touched_to_find_that_they_are_there() {
        let memory = vec![0u8; 1 << 20];
        let addr = (memory.as_ptr() as u64).next_multiple_of(PAGE);
        let (len, looks) = ((1 << 20) - PAGE, std::cell::Cell::new(0));
        let look = |answer: bool| {
            looks.set(looks.get() + 1);
            answer
        };
        let task = std::process::id();
        assert!(is_mapped(task, addr, len, |_| look(true)));
        assert!(looks.get() < 4, "a byte of each mapping: {}", looks.get());
        assert!(!is_mapped(task, addr, len, |_| look(false)), "a driver's mapping");
        assert!(!is_mapped(task, 1 << 46, len, |at| look(at != 1 << 46)), "nothing is there");
        looks.set(0);
        assert!(is_mapped(task, addr, 4 * PAGE, |_| look(true)));
        assert_eq!(looks.get(), 5, "the map is not read for a few pages");
    }

    #[test]
    fn lines_of_the_kernel_are_read_in_full() {
        let regions = parse(TEXT).unwrap();
        assert_eq!(regions.len(), 5);
        assert_eq!(
            regions[0],
            Region {
                start: 0x55e0_c0a0_0000,
                end: 0x55e0_c0a0_2000,
                read: true,
                write: false,
                exec: false,
                shared: false,
                offset: 0x1000,
                dev: (0xfe, 0),
                inode: 1835,
                name: b"/usr/bin/a b\\012c".to_vec(),
            }
        );
        assert!(regions[2].shared && regions[2].is_file());
        assert_eq!(regions[3].name, b"");
        assert!(regions[4].is_special());
    }

    #[test]
    fn the_own_map_is_read_and_covers_a_local_variable() {
        let regions = parse(&std::fs::read("/proc/self/maps").unwrap()).unwrap();
        let here = std::ptr::from_ref(&regions).addr() as u64 & !(PAGE - 1);
        let found = cover(&regions, here, PAGE, true).unwrap();
        assert_eq!((found[0].start, found[0].len()), (here, PAGE));
    }

    #[test]
    fn damaged_lines_are_named() {
        let cases: [(&[u8], &str); 8] = [
            (b"zz-7f00 rw-p 0 00:00 0", "range"),
            (b"7f00-7f00 rw-p 0 00:00 0", "range"),
            (b"7f00-8f00 rw-q 0 00:00 0", "permissions"),
            (b"7f00-8f00 rw 0 00:00 0", "permissions"),
            (b"7f00-8f00 rw-p +1 00:00 0", "offset"),
            (b"7f00-8f00 rw-p 0 0000 0", "device"),
            (b"7f00-8f00 rw-p 0 1ffffffff:0 0", "device"),
            (b"7f00-8f00 rw-p 0 00:00 -1", "inode"),
        ];
        for (line, field) in cases {
            assert_eq!(parse(line), Err(MapsError { line: 1, field }), "{:?}", String::from_utf8_lossy(line));
        }
        let overlap = b"1000-3000 rw-p 0 00:00 0\n2000-4000 rw-p 0 00:00 0\n";
        assert_eq!(parse(overlap), Err(MapsError { line: 2, field: "order" }));
    }

    #[test]
    fn a_range_over_several_regions_comes_clipped_with_its_offsets() {
        let regions = parse(TEXT).unwrap();
        let found = cover(&regions, 0x7f00_0000_1000, 0x4000, false).unwrap();
        let seen: Vec<_> = found.iter().map(|r| (r.start, r.len(), r.offset)).collect();
        assert_eq!(seen, [(0x7f00_0000_1000, 0x3000, 0x3000), (0x7f00_0000_4000, 0x1000, 0)]);
    }

    // mm/hmm.c: hmm_vma_walk_hole, hmm_vma_walk_test (EFAULT) and hmm_vma_fault (EPERM).
    #[test]
    fn holes_and_missing_rights_have_the_kernels_errors() {
        let regions = parse(TEXT).unwrap();
        let ask = |addr, len, writable| cover(&regions, addr, len, writable).err();
        assert_eq!(ask(0x55e0_c0a0_3000, PAGE, false), Some(Errno::EFAULT));
        assert_eq!(ask(0x55e0_c0a0_2000, 2 * PAGE, false), Some(Errno::EFAULT));
        assert_eq!(ask(0xffff_ffff_ff60_0000, PAGE, false), Some(Errno::EFAULT));
        assert_eq!(ask(0x7f00_0000_4000, PAGE, true), Some(Errno::EPERM));
        assert_eq!(ask(0x7f00_0000_4000, PAGE, false), None);
        assert_eq!(ask(0x7f00_0000_4001, PAGE, false), Some(Errno::EINVAL));
        assert_eq!(ask(0x7f00_0000_4000, 0, false), Some(Errno::EINVAL));
        assert_eq!(ask(u64::MAX - PAGE + 1, PAGE, false), Some(Errno::EINVAL));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(regions) = parse(&text) {
                prop_assert!(regions.iter().all(|r| !r.is_empty()));
            }
        }

        #[test]
        fn a_line_with_a_byte_changed_is_read_or_refused(at in 0usize..TEXT.len(), byte in any::<u8>()) {
            let mut text = TEXT.to_vec();
            text[at] = byte;
            let _ = parse(&text).map(|regions| cover(&regions, 0x7f00_0000_0000, 0x4000, true));
        }

        #[test]
        fn what_covers_a_range_has_exactly_its_bytes(
            first in 0u64..20, sizes in proptest::collection::vec((1u64..4, 0u64..2), 1..8),
            addr in 0u64..40, pages in 1u64..12,
        ) {
            let mut at = first;
            let mut regions = Vec::new();
            for (pages, gap) in sizes {
                let line = format!("{:x}-{:x} rw-p 0 00:00 0\n", at * PAGE, (at + pages) * PAGE);
                regions.extend(parse(line.as_bytes()).unwrap());
                at += pages + gap;
            }
            let mapped = |page: u64| regions.iter().any(|r| r.start <= page * PAGE && page * PAGE < r.end);
            let whole = (addr..addr + pages).all(mapped);
            match cover(&regions, addr * PAGE, pages * PAGE, true) {
                Ok(found) => {
                    prop_assert!(whole);
                    prop_assert_eq!(found.iter().map(Region::len).sum::<u64>(), pages * PAGE);
                }
                Err(errno) => prop_assert!(!whole && errno == Errno::EFAULT),
            }
        }
    }
}
