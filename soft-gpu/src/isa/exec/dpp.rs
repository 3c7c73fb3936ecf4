//! DPP: lanes that read each other's.

use std::sync::OnceLock;

use super::super::inst::{Dpp, Form, Inst};
use super::wave::{LANES, Wave};

/// Lane that each lane reads for each value of `dpp_ctrl`; 64 for none.
static DPP_LANES: [OnceLock<[u8; LANES]>; 512] = [const { OnceLock::new() }; 512];

fn dpp_source(ctrl: u16, lane: u8) -> Option<u8> {
    let (row, at) = (lane & !15, lane & 15);
    match ctrl {
        0..=0xff => Some(lane & !3 | (ctrl >> (2 * (lane & 3)) & 3) as u8),
        0x101..=0x10f => Some(at + (ctrl & 15) as u8).filter(|to| *to < 16).map(|to| row | to),
        0x111..=0x11f => at.checked_sub((ctrl & 15) as u8).map(|to| row | to),
        0x121..=0x12f => Some(row | (at.wrapping_sub((ctrl & 15) as u8) & 15)),
        0x130 => Some(lane + 1).filter(|to| *to < 64),
        0x134 => Some((lane + 1) & 63),
        0x138 => lane.checked_sub(1),
        0x13c => Some(lane.wrapping_sub(1) & 63),
        0x140 => Some(row | (15 - at)),
        0x141 => Some(lane & !7 | (7 - (lane & 7))),
        // The last lane of each row goes to all of the next one.
        0x142 => row.checked_sub(1),
        0x143 => (lane >= 32).then_some(31),
        0x150..=0x15f => Some(row | (ctrl & 15) as u8),
        _ => None,
    }
}

/// Which lane each lane reads with DPP (64: none), and which lanes are written.
///
/// A lane without a source, or whose source is not active, reads zero with `bound_ctrl` and is not written otherwise.
pub(super) fn dpp_lanes(wave: &Wave, dpp: Dpp) -> ([u8; LANES], u64) {
    let table = DPP_LANES[usize::from(dpp.ctrl & 511)]
        .get_or_init(|| std::array::from_fn(|lane| dpp_source(dpp.ctrl & 511, lane as u8).unwrap_or(64)));
    let (exec, mut from, mut there) = (wave.exec(), *table, 0u64);
    for lane in 0..LANES {
        let is_there = from[lane] < 64 && exec >> (from[lane] & 63) & 1 != 0;
        there |= u64::from(is_there) << lane;
        from[lane] = if is_there { from[lane] } else { 64 };
    }
    // A bit of the row mask for 16 lanes, a bit of the bank mask for 4 of each 16.
    let rows = (0..64).fold(0u64, |rows, lane| rows | u64::from(dpp.row_mask >> (lane / 16) & 1) << lane);
    let banks =
        (0..64).fold(0u64, |banks, lane| banks | u64::from(dpp.bank_mask >> (lane % 16 / 4) & 1) << lane);
    let written = if dpp.bound_ctrl { u64::MAX } else { there };
    (from, rows & banks & written)
}

/// What each lane reads from the lanes of `old`.
pub(super) fn moved<T: Copy + Default>(from: &[u8; LANES], old: &[T; LANES]) -> [T; LANES] {
    std::array::from_fn(|lane| old.get(usize::from(from[lane])).copied().unwrap_or_default())
}

/// Lanes that an instruction writes.
pub(super) fn write_mask(wave: &Wave, inst: &Inst) -> u64 {
    match inst.form {
        Form::Dpp(dpp) => wave.exec() & dpp_lanes(wave, dpp).1,
        _ => wave.exec(),
    }
}
