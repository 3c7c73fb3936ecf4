use super::*;
use crate::engine::testing::faults;
use protocol::Errno;

const LIMIT_40: u64 = (1 << 40) - 1;

const WIDE: Limits = Limits { base: 0, limit: MMAP_LIMIT, align: PAGE };
const NARROW: Limits = Limits { base: 0, limit: LIMIT_40, align: PAGE };

fn wide() -> Addresses {
    Addresses::new(WIDE, &[], &Options::default()).unwrap()
}

fn narrow() -> Addresses {
    Addresses::new(NARROW, &[], &Options::default()).unwrap()
}

#[test]
fn big_buffers_are_aligned_to_huge_pages_and_small_ones_to_their_size() {
    let addresses = wide();
    for want in [Want::hidden, Want::seen] {
        let aligned = |size: u64, to: u64| addresses.take(want(size)).unwrap().start().is_multiple_of(to);
        assert!(
            aligned(HUGE_PAGE, HUGE_PAGE) && aligned(5 * HUGE_PAGE, HUGE_PAGE) && aligned(64 << 10, 64 << 10)
        );
    }
    let options = Options { max_va_align: 0, ..Options::default() };
    let small = Addresses::new(WIDE, &[], &options).unwrap();
    assert_eq!(small.alignment(Want::seen(8 * HUGE_PAGE)), PAGE);
    let wish = Want { align: 1 << 30, ..Want::seen(PAGE) };
    assert!(addresses.take(wish).unwrap().start().is_multiple_of(1 << 30));
    let wish = Want { align: 1 << 30, ..Want::hidden(PAGE) };
    assert!(addresses.take(wish).unwrap().start().is_multiple_of(1 << 30));
}

#[test]
fn hidden_buffers_do_not_touch_and_their_addresses_are_used_again() {
    let addresses = wide();
    let first = addresses.take(Want::hidden(2 * PAGE)).unwrap();
    let second = addresses.take(Want::hidden(2 * PAGE)).unwrap();
    assert!(first.start().abs_diff(second.start()) >= 3 * PAGE, "a page between them");
    let start = first.start();
    drop(first);
    assert_eq!(addresses.take(Want::hidden(2 * PAGE)).unwrap().start(), start);
}

#[test]
fn chunks_without_buffers_go_except_one() {
    let addresses = wide();
    let buffers: Vec<Va> = (0..20).map(|_| addresses.take(Want::hidden(FIRST_CHUNK / 4)).unwrap()).collect();
    assert!(lock(&addresses.hidden.0).len() > 1);
    drop(buffers);
    assert_eq!(lock(&addresses.hidden.0).len(), 1);
}

// Case L01, and GPUs of gfx8 that reach 40 bits.
#[test]
fn all_addresses_are_within_the_limits() {
    let _alone = faults::alone();
    let addresses = narrow();
    let (base, last) = addresses.all();
    assert!(last <= LIMIT_40 && base >= PAGE);
    let (alt_base, alt_size) = addresses.coherent();
    assert_eq!(alt_base, base);
    for size in [PAGE, 5 * PAGE, HUGE_PAGE, 1 << 30] {
        let coherent = addresses.take(Want { coherent: true, ..Want::seen(size) }).unwrap();
        assert!(coherent.start() >= alt_base && coherent.start() + size <= alt_base + alt_size);
        let other = addresses.take(Want::seen(size)).unwrap();
        assert!(other.start() >= alt_base + alt_size && other.start() + size - 1 <= last);
        assert!((other.start() + size).is_multiple_of(PAGE));
    }
    assert!(wide().take(Want { at: Some(1 << 48), ..Want::seen(PAGE) }).is_err());
    assert!(addresses.take(Want { at: Some(1 << 41), ..Want::seen(PAGE) }).is_err());
}

#[test]
fn a_fixed_address_is_given_once() {
    let _alone = faults::alone();
    let narrow = narrow();
    let inside = narrow.all().0 + (64 << 20);
    // Where the kernel puts no other thread's mapping meanwhile.
    for (addresses, at) in [(wide(), 3 << 43), (narrow, inside)] {
        let free = addresses.take(Want { at: Some(at), ..Want::seen(4 * PAGE) }).unwrap();
        assert!(addresses.take(Want { at: Some(at), ..Want::seen(PAGE) }).is_err(), "it is taken");
        drop(free);
        let fixed = addresses.take(Want { at: Some(at), ..Want::seen(PAGE) }).unwrap();
        assert_eq!(fixed.start(), at);
        assert!(addresses.take(Want { at: Some(at), ..Want::seen(PAGE) }).is_err());
        assert!(addresses.take(Want { at: Some(at + 1), ..Want::seen(PAGE) }).is_err());
    }
}

#[test]
fn memory_in_the_arena_is_gone_when_its_addresses_come_back() {
    let _alone = faults::alone();
    let addresses = narrow();
    let va = addresses.take(Want::seen(2 * PAGE)).unwrap();
    let start = va.start();
    va.map_memory(2 * PAGE, Access::ReadWrite).unwrap();
    assert!(super::super::vm::is_readable(start, 2 * PAGE));
    assert!(va.map_memory(3 * PAGE, Access::ReadWrite).is_err());
    drop(va);
    assert!(!super::super::vm::is_readable(start, 1));
    assert_eq!(addresses.take(Want::seen(2 * PAGE)).unwrap().start(), start);
}

#[test]
fn numbers_are_outside_of_all_apertures() {
    let lds = (1 << 48, (1 << 48) + u64::from(u32::MAX));
    let low = (1 << 47, (1 << 47) + 5);
    let addresses = Addresses::new(WIDE, &[lds, low], &Options::default()).unwrap();
    let first = addresses.take_number(PAGE).unwrap();
    assert_eq!(first.start(), 3 << 47);
    assert!(first.map_memory(PAGE, Access::ReadWrite).is_err());
    assert_ne!(addresses.take_number(1 << 40).unwrap().start(), first.start());
    assert!(addresses.take_number(1 << 50).is_err());
}

// Case M01.
#[test]
fn sizes_that_cannot_be_are_no_memory() {
    let _alone = faults::alone();
    for addresses in [wide(), narrow()] {
        for size in [0, 0x7fff_ffff_f000, 0xffff_ffff_ffff_f000] {
            assert_eq!(addresses.take(Want::seen(size)).err(), Some(Status::NoMemory));
            assert_eq!(addresses.take(Want::hidden(size)).err(), Some(Status::NoMemory));
        }
        let huge = Want { align: 1 << 63, ..Want::seen(PAGE) };
        assert_eq!(addresses.take(huge).err(), Some(Status::NoMemory));
    }
}

// Case M28: what fails is made smaller, or is an error; nothing is unmapped that is somebody else's.
#[test]
fn a_reservation_that_fails_is_tried_smaller() {
    let _alone = faults::alone();
    let addresses = wide();
    for times in 0..3 {
        faults::fail_at(0, Errno::ENOMEM);
        let taken = addresses.take(if times == 0 { Want::seen(PAGE) } else { Want::hidden(PAGE) });
        assert!(faults::stop().is_some() || times == 2, "the second hidden one needs no system call");
        assert!(taken.is_ok());
    }
    faults::fail_at(0, Errno::ENOMEM);
    let narrow = Addresses::new(NARROW, &[], &Options::default());
    assert!(faults::stop().is_some());
    assert!(narrow.is_ok());
}

/// Pages that must survive, next to ranges that somebody tries to have.
struct Sentinels(Vec<Region>);

impl Sentinels {
    const WORD: u64 = 0x5e47_14e1;

    fn next_to(ranges: &[(u64, u64)]) -> Self {
        let pages = ranges.iter().flat_map(|&(start, len)| [start - PAGE, start + len]);
        // What is taken holds another sentinel, or a mapping of the test program.
        let all: Vec<Region> = pages.filter_map(|page| Region::reserve_at(page, PAGE).ok()).collect();
        for page in &all {
            page.map_memory(page.start(), PAGE, Access::ReadWrite).unwrap();
            // SAFETY: the page was mapped writable just now, and no reference leads there.
            unsafe { Self::word(page).write(Self::WORD ^ page.start()) };
        }
        faults::tried();
        Self(all)
    }

    fn word(page: &Region) -> *mut u64 {
        std::ptr::with_exposed_provenance_mut(usize::try_from(page.start()).unwrap())
    }

    fn are_untouched(&self) -> bool {
        self.0.iter().all(|page| {
            // A page that is gone would end the program here.
            super::super::vm::is_readable(page.start(), PAGE)
                // SAFETY: it is readable, and only this test knows it.
                && unsafe { Self::word(page).read() } == Self::WORD ^ page.start()
        })
    }

    fn are_outside(&self, (base, last): (u64, u64)) -> bool {
        self.0.iter().all(|page| page.start() > last || page.end() <= base)
    }
}

// Case M28: the first k tries fail, or the k-th alone (k = 0 to 20), with a live mapping next to each range that is tried.
#[test]
fn tries_that_fail_leave_every_other_mapping_alone() {
    let _alone = faults::alone();
    let reserve = || Addresses::new(NARROW, &[], &Options::default());
    let fail = |first: bool, k| match first {
        true => faults::fail_row(faults::Operation::Map, k, Errno::ENOMEM),
        false => faults::fail_at(k, Errno::ENOMEM),
    };
    let held = faults::held();
    for (k, first) in (0..=20).flat_map(|k| [(k, true), (k, false)]) {
        faults::tried();
        fail(first, k);
        let found = reserve();
        let failed = faults::stop();
        let tried = faults::tried();
        let whole = found.as_ref().map(Addresses::all);
        assert!(whole.is_ok_and(|(base, last)| last - base >= (1 << 30) - 1), "{k}, {first}: {whole:?}");
        // All of the range can be had: two tries, of the whole and of its second part.
        assert_eq!(failed.is_some(), if first { k > 0 } else { k < 2 }, "{k}, {first}: {tried:x?}");
        drop(found);
        assert_eq!(faults::held(), held, "{k}, {first}");

        let sentinels = Sentinels::next_to(&tried);
        assert!(sentinels.0.len() >= 2, "{k}, {first}: {tried:x?}");
        fail(first, k);
        let found = reserve();
        let failed = faults::stop();
        // The same ranges first: those that failed before, and those that hold a sentinel now.
        let again = faults::tried();
        assert!(again.len() >= tried.len() && again.first() == tried.first(), "{k}, {first}: {again:x?}");
        assert!(sentinels.are_untouched(), "{k}, {first}");
        let whole = found.as_ref().map(Addresses::all);
        assert!(whole.is_ok_and(|all| sentinels.are_outside(all)), "{k}, {first}: {whole:x?}, {failed:?}");
        drop(found);
        assert!(sentinels.are_untouched(), "{k}, {first}: afterwards");
        drop(sentinels);
        assert_eq!(faults::held(), held, "{k}, {first}: afterwards");
    }
}

// Case M28: nothing can be had at all.
#[test]
fn without_any_range_there_is_an_error_and_the_next_try_works() {
    let _alone = faults::alone();
    let held = faults::held();
    faults::fail_row(faults::Operation::Map, u32::MAX, Errno::ENOMEM);
    let none = Addresses::new(NARROW, &[], &Options::default());
    assert!(faults::stop().is_some());
    assert_eq!(none.err(), Some(Status::NoMemory));
    assert!(faults::tried().iter().all(|&(_, len)| len >= 1 << 30));
    assert_eq!(faults::held(), held);
    drop(narrow());
    assert_eq!(faults::held(), held);
}

#[test]
fn what_cannot_be_unmapped_is_unmapped_before_addresses_are_taken_again() {
    let _alone = faults::alone();
    let addresses = narrow();
    let va = addresses.take(Want::seen(2 * PAGE)).unwrap();
    let start = va.start();
    va.map_memory(2 * PAGE, Access::ReadWrite).unwrap();
    faults::fail_at(0, Errno::ENOMEM);
    drop(va);
    assert!(faults::stop().is_some());
    assert!(super::super::vm::is_readable(start, 1), "it is mapped still");
    let next = addresses.take(Want::seen(2 * PAGE)).unwrap();
    assert_eq!(next.start(), start);
    assert!(!super::super::vm::is_readable(start, 1));
}

// What a virtual machine's host gives: a TiB that is free, of which `ulimit -v` leaves a part.
#[test]
fn a_limit_of_address_space_leaves_a_part_of_a_range() {
    let limits = Limits { base: 0x2200 << 32, limit: (0x2200 << 32) + (1 << 40) - 1, align: PAGE };
    let whole = Addresses::new(limits, &[], &Options::default()).unwrap();
    assert_eq!(whole.all(), (limits.base, limits.limit));
    drop(whole);
    let found = crate::testing::in_a_child(|| {
        // Beside what the other tests of this program hold, which the child has too.
        let held = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = held.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
        let most = (16 << 30) + pages.map_or(0, |pages| pages * PAGE);
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the struct lives through the call; the limit is the child's alone.
        let limited = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } == 0;
        let part = Addresses::new(limits, &[], &Options::default());
        let size = part.as_ref().map_or(0, |part| part.all().1 - part.all().0);
        limited && size >= 1 << 30 && part.is_ok_and(|part| part.take(Want::seen(PAGE)).is_ok())
    });
    assert!(found);
}
