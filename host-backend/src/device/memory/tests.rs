use vm_memory::FileOffset;
use zerocopy::little_endian::{U32, U64};

use super::*;

fn memfd(len: u64) -> File {
    let fd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd");
    let file = File::from(fd);
    file.set_len(len).expect("its length");
    file
}

fn memory(regions: &[(u64, u64, &File, u64)]) -> GuestMemoryMmap<()> {
    let regions = regions.iter().map(|(start, len, file, offset)| {
        let file = FileOffset::new(file.try_clone().expect("a descriptor"), *offset);
        (GuestAddress(*start), usize::try_from(*len).expect("64 bits"), Some(file))
    });
    GuestMemoryMmap::from_ranges_with_files(regions).expect("regions")
}

fn entries(list: &[(u64, u32)]) -> Vec<MemEntry> {
    let entry = |(addr, length): &(u64, u32)| MemEntry {
        addr: U64::new(*addr),
        length: U32::new(*length),
        padding: U32::ZERO,
    };
    list.iter().map(entry).collect()
}

/// Address, length and offset of each piece.
fn places(pieces: &[Piece]) -> Vec<(u64, u64, u64)> {
    pieces.iter().map(|piece| (piece.addr, piece.len, piece.offset)).collect()
}

/// Two regions side by side, of two files, and a third far away in the second file.
fn layout(a: &File, b: &File) -> Layout {
    let memory = memory(&[
        (0x10_0000, 0x4000, a, 0x1000),
        (0x10_4000, 0x4000, b, 0),
        (0x1_0000_0000, 0x8000, b, 0x8000),
    ]);
    Layout::of(&memory).expect("shared memory")
}

#[test]
fn entries_become_pieces_of_files() {
    let (a, b) = (memfd(0x10000), memfd(0x10000));
    let layout = layout(&a, &b);
    let list = [(0x10_1000, 0x1000), (0x10_2000, 0x1000), (0x10_3000, 0x2000), (0x1_0000_7000, 0x1000)];
    let pieces = layout.pieces(&entries(&list), 0x5000).expect("all there");
    assert_eq!(
        places(&pieces),
        [(0x10_1000, 0x3000, 0x2000), (0x10_4000, 0x1000, 0), (0x1_0000_7000, 0x1000, 0xf000)]
    );
    let shorter = layout.pieces(&entries(&list), 0x1000).expect("more than enough");
    assert_eq!(places(&shorter), [(0x10_1000, 0x1000, 0x2000)]);
}

#[test]
fn what_is_not_all_in_the_guest_is_refused() {
    let (a, b) = (memfd(0x10000), memfd(0x10000));
    let layout = layout(&a, &b);
    let refused = |list: &[(u64, u32)], size| layout.pieces(&entries(list), size).map(|_| ()).unwrap_err();
    for addr in [0, 0xf_f000, 0x10_8000, 0xffff_f000, 0x1_0000_8000, 0xffff_ffff_ffff_f000] {
        let outside = ScatterError::Outside { index: 0, addr, len: 0x1000 };
        assert_eq!(refused(&[(addr, 0x1000)], 0x1000), outside);
    }
    // It begins inside; the part beyond is not wanted, and refused all the same.
    let beyond = ScatterError::Outside { index: 0, addr: 0x10_7000, len: 0x2000 };
    assert_eq!(refused(&[(0x10_7000, 0x2000)], 0x1000), beyond);
    let wraps = ScatterError::Outside { index: 0, addr: 0xffff_ffff_ffff_f000, len: 0xffff_f000 };
    assert_eq!(refused(&[(0xffff_ffff_ffff_f000, 0xffff_f000)], 0x1000), wraps);
    assert_eq!(refused(&[], 0x1000), ScatterError::Short { have: 0, need: 0x1000 });
    assert_eq!(refused(&[(0x10_0000, 0x1000)], 1 << 63), ScatterError::Short { have: 0x1000, need: 1 << 63 });
    // qemu-project/qemu work item 4112 (case X06).
    assert_eq!(
        refused(&[(0x10_0000, 1)], 16384),
        ScatterError::Unaligned { index: 0, addr: 0x10_0000, len: 1 }
    );
    assert_eq!(refused(&[(0x10_0000, 0)], 0), ScatterError::Unaligned { index: 0, addr: 0x10_0000, len: 0 });
    assert_eq!(
        refused(&[(0x10_0800, 0x1000)], 0x1000),
        ScatterError::Unaligned { index: 0, addr: 0x10_0800, len: 0x1000 }
    );
}

#[test]
fn pieces_stay_where_the_same_memory_is_described_again() {
    let (a, b) = (memfd(0x10000), memfd(0x10000));
    let before = layout(&a, &b);
    let pieces = before.pieces(&entries(&[(0x10_2000, 0x4000)]), 0x4000).expect("all there");
    assert_eq!(pieces.len(), 2);
    // Other descriptors, and the first region in two halves.
    let again = memory(&[
        (0x10_0000, 0x3000, &a, 0x1000),
        (0x10_3000, 0x1000, &a, 0x4000),
        (0x10_4000, 0x4000, &b, 0),
    ]);
    let again = Layout::of(&again).expect("shared memory");
    assert!(pieces.iter().all(|piece| again.backs(piece)));
    for moved in [
        memory(&[(0x10_0000, 0x4000, &a, 0), (0x10_4000, 0x4000, &b, 0)]),
        memory(&[(0x10_0000, 0x3000, &a, 0x1000), (0x10_4000, 0x4000, &b, 0)]),
        memory(&[(0x10_0000, 0x4000, &b, 0x1000), (0x10_4000, 0x4000, &b, 0)]),
    ] {
        let moved = Layout::of(&moved).expect("shared memory");
        assert!(!moved.backs(&pieces[0]));
        assert!(moved.backs(&pieces[1]));
    }
}

#[test]
fn memory_that_cannot_be_shared_is_refused_by_name() {
    let anonymous = GuestMemoryMmap::from_ranges(&[(GuestAddress(0x1000), 0x1000)]).expect("a region");
    assert!(Layout::of(&anonymous).unwrap_err().to_string().contains("no file behind it"));
    assert_eq!(can_be_shared(&memfd(0x1000)), Ok(true));
    let other = File::open("/proc/self/status").expect("procfs");
    assert_eq!(can_be_shared(&other), Ok(false));
}
