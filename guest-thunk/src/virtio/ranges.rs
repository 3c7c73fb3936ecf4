//! Which addresses the guest offers for a context: the same ones are to be free here and on the host.

use protocol::wire::command::MAX_RANGES;
use protocol::wire::structs::Range;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// First address that is offered. Programs, their heaps and libraries lie elsewhere.
const FIRST: u64 = 1 << 40;
/// First address that is not.
const END: u64 = 1 << 46;
/// Bytes of the biggest range, unless the guest's memory asks for more.
const MOST: u64 = 1 << 40;
/// Bytes of the smallest.
pub(super) const LEAST: u64 = 64 << 30;
/// Ranges of one size that are offered.
const OF_ONE_SIZE: usize = 12;

/// Ranges that are free in this process, best first: biggest first. `memory` is the guest's, in bytes; the host knows how much
/// its GPUs have, and takes what it needs of a range.
pub(super) fn candidates(memory: u64) -> Vec<Range> {
    candidates_among(memory, is_free)
}

fn candidates_among(memory: u64, is_free: impl Fn(u64, u64) -> bool) -> Vec<Range> {
    let most = memory.saturating_mul(4).checked_next_power_of_two().unwrap_or(END).clamp(MOST, END / 4);
    let mut found = Vec::new();
    let mut len = most;
    while len >= LEAST && found.len() < MAX_RANGES as usize {
        // From the middle on: low addresses are what other reservations of this kind (sanitisers, runtimes) take first.
        let starts =
            (FIRST.next_multiple_of(len)..END - len + 1).step_by(usize::try_from(len).unwrap_or(1 << 40));
        let count = starts.clone().count();
        let from_the_middle = starts.clone().skip(count / 2).chain(starts.take(count / 2));
        let free = from_the_middle.filter(|&start| is_free(start, len)).take(OF_ONE_SIZE);
        found.extend(free.map(|start| Range { base: start.into(), len: len.into() }));
        len /= 2;
    }
    found.truncate(MAX_RANGES as usize);
    found
}

/// Whether nothing is mapped in a range. It stays free: whoever uses the context reserves it.
fn is_free(start: u64, len: u64) -> bool {
    let (Ok(at), Ok(bytes)) = (usize::try_from(start), usize::try_from(len)) else { return false };
    let at = std::ptr::with_exposed_provenance_mut(at);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: with FIXED_NOREPLACE the kernel replaces nothing (Linux 4.17 and later).
    match unsafe { mmap_anonymous(at, bytes, ProtFlags::empty(), flags) } {
        Ok(got) => {
            // SAFETY: the range was just mapped, and nobody has its address.
            let unmapped = unsafe { munmap(got, bytes) };
            debug_assert!(unmapped.is_ok(), "it was mapped");
            got == at
        }
        // The kernel looks for other mappings first, then at limits (`ulimit -v`): the addresses are free, and parts of
        // them can be had.
        Err(Errno::NOMEM | Errno::AGAIN) => true,
        Err(_) => false,
    }
}

/// Whether a range is one of those that were offered, or lies in one of them.
pub(super) fn is_offered(range: Range, offered: &[Range]) -> bool {
    let (base, len) = (range.base.get(), range.len.get());
    let Some(end) = base.checked_add(len).filter(|_| len > 0) else { return false };
    offered.iter().any(|offer| {
        let first = offer.base.get();
        base >= first && end <= first + offer.len.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_ranges_come_first_and_all_lie_between_the_ends() {
        for memory in [0, 4 << 30, 1 << 39, 1 << 42, u64::MAX] {
            let found = candidates_among(memory, |_, _| true);
            assert!(!found.is_empty() && found.len() <= MAX_RANGES as usize);
            assert!(found.is_sorted_by_key(|range| std::cmp::Reverse(range.len.get())));
            for range in &found {
                let (base, len) = (range.base.get(), range.len.get());
                assert!(base >= FIRST && base + len <= END && len >= LEAST, "{base:#x} {len:#x}");
                assert!(base.is_multiple_of(2 << 20) && is_offered(*range, &found));
            }
        }
        let of = |memory| candidates_among(memory, |_, _| true)[0].len.get();
        assert_eq!(of(16 << 30), 1 << 40);
        assert_eq!(of(1 << 40), 1 << 42, "four times the memory");
    }

    #[test]
    fn where_a_tebibyte_is_not_free_parts_are_offered() {
        let taken = |start: u64, len: u64| (start..start + len).contains(&(start.next_multiple_of(1 << 40)));
        let found = candidates_among(0, |start, len| !taken(start, len));
        assert!(!found.is_empty() && found.iter().all(|range| range.len.get() < 1 << 40));
        assert_eq!(candidates_among(0, |_, _| false), []);
    }

    #[test]
    fn what_is_mapped_is_not_free() {
        let start: u64 = 0x1234 << 32;
        assert!(is_free(start, LEAST));
        let at = std::ptr::with_exposed_provenance_mut(start as usize + (1 << 30));
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: with FIXED_NOREPLACE the kernel replaces nothing.
        let got = unsafe { mmap_anonymous(at, 4096, ProtFlags::READ, flags) }.unwrap();
        assert!(!is_free(start, LEAST));
        // SAFETY: it was just mapped.
        unsafe { munmap(got, 4096) }.unwrap();
        assert!(is_free(start, LEAST));
    }

    #[test]
    fn an_answer_must_lie_in_an_offer() {
        let range = |base: u64, len: u64| Range { base: base.into(), len: len.into() };
        let offered = [range(1 << 42, 1 << 40)];
        assert!(is_offered(range(1 << 42, 1 << 40), &offered));
        assert!(is_offered(range((1 << 42) + 4096, 1 << 36), &offered));
        for wrong in [(1 << 42, 0), (1 << 42, (1 << 40) + 1), ((1 << 42) - 1, 2), (1 << 42, u64::MAX)] {
            assert!(!is_offered(range(wrong.0, wrong.1), &offered), "{wrong:?}");
        }
    }

    /// `ulimit -v` is no matter of addresses: parts of a range can be had under it.
    #[test]
    fn a_limit_of_address_space_leaves_ranges_free() {
        let free = crate::testing::in_a_child(|| {
            let limit = libc::rlimit { rlim_cur: 8 << 30, rlim_max: 8 << 30 };
            // SAFETY: the struct lives through the call; the limit is the child's alone.
            let limited = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } == 0;
            limited && is_free(0x2100 << 32, MOST)
        });
        assert!(free);
    }
}
