//! What this virtual machine has: processors and memory.

use std::io::Read;

/// The guest's processors and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guest {
    /// Processors that are online.
    pub(super) processors: u32,
    /// Bytes of memory that the kernel has.
    pub(super) memory: u64,
}

impl Guest {
    /// As the kernel tells it. One processor, and no memory, where it does not.
    pub(super) fn look() -> Self {
        let processors = read("/sys/devices/system/cpu/online").and_then(|text| count(&text)).unwrap_or(1);
        let memory = read("/proc/meminfo").and_then(|text| total(&text)).unwrap_or(0);
        Self { processors, memory }
    }
}

/// A short file of the kernel's.
fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(1 << 16).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Members of a list such as `0-3,8`.
fn count(list: &str) -> Option<u32> {
    let mut count = 0_u32;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    (count > 0).then_some(count)
}

/// Bytes, of the line `MemTotal: 123 kB`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(count("0\n"), Some(1));
        assert_eq!(count("0-3,8,10-11\n"), Some(7));
        for wrong in ["", "3-1", "a", "0-4294967295", "1,"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn memory_is_that_of_the_kernel() {
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert_eq!(total("MemTotal: 1 MB\n"), None);
        let guest = Guest::look();
        assert!(guest.processors > 0 && guest.memory > 1 << 20, "{guest:?}");
    }
}
