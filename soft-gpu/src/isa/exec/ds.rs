//! DS: the local data share, and permutations of lanes.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::super::inst::{Inst, Src};
use super::flat::{collect, spread, stride};
use super::float::{max, min};
use super::memory::active;
use super::wave::{LANES, Wave};
use super::wide::widely;
use super::{Env, Flow, Line, Trap};

fn offset(i: &Inst) -> u32 {
    i.imm.cast_unsigned() & 0xffff
}

/// The two offsets of an instruction of two addresses, in bytes.
fn two_offsets(i: &Inst) -> [u32; 2] {
    let size = u32::from(i.op.name.ends_with("64")) * 4 + 4;
    let unit = if i.op.name.contains("st64") { size * 64 } else { size };
    [(offset(i) & 0xff) * unit, (offset(i) >> 8) * unit]
}

/// A lane of a data operand of `words` registers, as bytes.
fn data(w: &Wave, src: Src, words: usize, lane: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    for word in 0..words.min(4) {
        bytes[word * 4..word * 4 + 4].copy_from_slice(&w.row(src, word)[lane].to_le_bytes());
    }
    bytes
}

/// Reads `N` bytes for each lane; `f` makes the registers of them and of the old first one.
fn read<const N: usize>(
    w: &mut Wave,
    i: &Inst,
    e: &Env<'_>,
    f: impl Fn([u8; N], u32) -> [u32; 4],
) -> Result<Flow, Trap> {
    let (addresses, offset) = (*w.row(i.src[0], 0), offset(i));
    for lane in active(w.exec()) {
        let bytes = e.lds.read::<N>(addresses[lane].wrapping_add(offset));
        let words = f(bytes, w.row(i.dst, 0)[lane]);
        for (at, word) in words.into_iter().enumerate().take(usize::from(i.op.dst.dwords())) {
            w.row_mut(i.dst, at)[lane] = word;
        }
    }
    Ok(Flow::Next)
}

/// First address, and how far the lanes' addresses are apart, if all are active and that is 0 or `size`.
fn pattern(w: &Wave, i: &Inst, size: usize) -> Option<(u32, usize)> {
    if w.exec() != u64::MAX {
        return None;
    }
    let row = w.row(i.src[0], 0);
    let step = widely(
        w.wide,
        #[inline(always)]
        || stride(row, size as u32),
    )?;
    Some((row[0].checked_add(offset(i))?, step as usize))
}

fn words<const N: usize>(bytes: [u8; N], _: u32) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
    }
    words
}

fn first(word: u32) -> [u32; 4] {
    [word, 0, 0, 0]
}

/// Puts a half into a register.
pub(super) fn low(half: u16, old: u32) -> u32 {
    old & 0xffff_0000 | u32::from(half)
}

/// See [`low`].
pub(super) fn high(half: u16, old: u32) -> u32 {
    old & 0xffff | u32::from(half) << 16
}

/// A byte, extended by its sign.
pub(super) fn signed(byte: u8) -> u16 {
    i16::from(byte.cast_signed()).cast_unsigned()
}

fn write(w: &mut Wave, i: &Inst, e: &mut Env<'_>, bytes: usize, skip: usize) -> Result<Flow, Trap> {
    let (addresses, offset) = (w.row(i.src[0], 0), offset(i));
    for lane in active(w.exec()) {
        let data = data(w, i.src[1], bytes.div_ceil(4), lane);
        e.lds.write(addresses[lane].wrapping_add(offset), &data[skip..skip + bytes]);
    }
    Ok(Flow::Next)
}

/// Reads whole registers.
fn read_words<const N: usize>(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    if let Some((addr, step)) = pattern(w, i, 4 * N) {
        let len = if step == 0 { 4 * N } else { 4 * N * LANES };
        let bytes = e.lds.bytes(addr, len);
        if let Some(Ok(words)) = bytes.map(<[[U32; N]]>::ref_from_bytes) {
            match <&[[U32; N]; LANES]>::try_from(words) {
                Ok(words) => spread(w, i.dst, words),
                Err(_) => {
                    for at in 0..N {
                        *w.row_mut(i.dst, at) = [words[0][at].get(); LANES];
                    }
                }
            }
            return Ok(Flow::Next);
        }
    }
    let (addresses, offset) = (*w.row(i.src[0], 0), offset(i));
    for lane in active(w.exec()) {
        let addr = addresses[lane].wrapping_add(offset);
        let bytes = e.lds.bytes(addr, 4 * N);
        // What lies outside reads as zero.
        let words = bytes.and_then(|bytes| <[U32; N]>::ref_from_bytes(bytes).ok());
        for at in 0..N {
            w.row_mut(i.dst, at)[lane] = words.map_or(0, |words| words[at].get());
        }
    }
    Ok(Flow::Next)
}

/// Writes whole registers.
fn write_words<const N: usize>(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    if let Some((addr, step)) = pattern(w, i, 4 * N)
        && step != 0
        && let Some(bytes) = e.lds.bytes_mut(addr, 4 * N * LANES)
    {
        bytes.copy_from_slice(collect::<N>(w, i.src[1]).as_bytes());
        return Ok(Flow::Next);
    }
    write(w, i, e, 4 * N, 0)
}

fn read_two<const N: usize>(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    let addresses = *w.row(i.src[0], 0);
    for lane in active(w.exec()) {
        for (half, offset) in two_offsets(i).into_iter().enumerate() {
            let words = words(e.lds.read::<N>(addresses[lane].wrapping_add(offset)), 0);
            for at in 0..N / 4 {
                w.row_mut(i.dst, half * N / 4 + at)[lane] = words[at];
            }
        }
    }
    Ok(Flow::Next)
}

fn write_two(w: &mut Wave, i: &Inst, e: &mut Env<'_>, bytes: usize) -> Result<Flow, Trap> {
    for lane in active(w.exec()) {
        for (src, offset) in [i.src[1], i.src[2]].into_iter().zip(two_offsets(i)) {
            let data = data(w, src, bytes / 4, lane);
            e.lds.write(w.row(i.src[0], 0)[lane].wrapping_add(offset), &data[..bytes]);
        }
    }
    Ok(Flow::Next)
}

/// An atomic of 32 bits: `f` has the old value and the data.
fn atomic32(w: &mut Wave, i: &Inst, e: &mut Env<'_>, f: impl Fn(u32, u32, u32) -> u32) -> Result<Flow, Trap> {
    let (addresses, offset) = (*w.row(i.src[0], 0), offset(i));
    for lane in active(w.exec()) {
        let addr = addresses[lane].wrapping_add(offset);
        let old = u32::from_le_bytes(e.lds.read(addr));
        let second = if i.src[2] == Src::NONE { 0 } else { w.row(i.src[2], 0)[lane] };
        e.lds.write(addr, &f(old, w.row(i.src[1], 0)[lane], second).to_le_bytes());
        if i.dst != Src::NONE {
            w.row_mut(i.dst, 0)[lane] = old;
        }
    }
    Ok(Flow::Next)
}

/// See [`atomic32`].
fn atomic64(w: &mut Wave, i: &Inst, e: &mut Env<'_>, f: impl Fn(u64, u64, u64) -> u64) -> Result<Flow, Trap> {
    let (addresses, offset) = (*w.row(i.src[0], 0), offset(i));
    let wide = |w: &Wave, src: Src, lane: usize| match src {
        Src::NONE => 0,
        _ => u64::from(w.row(src, 0)[lane]) | u64::from(w.row(src, 1)[lane]) << 32,
    };
    for lane in active(w.exec()) {
        let addr = addresses[lane].wrapping_add(offset);
        let old = u64::from_le_bytes(e.lds.read(addr));
        let new = f(old, wide(w, i.src[1], lane), wide(w, i.src[2], lane));
        e.lds.write(addr, &new.to_le_bytes());
        if i.dst != Src::NONE {
            w.row_mut(i.dst, 0)[lane] = old as u32;
            w.row_mut(i.dst, 1)[lane] = (old >> 32) as u32;
        }
    }
    Ok(Flow::Next)
}

/// Every lane reads from the lane that its address names; inactive ones give zero.
fn bpermute(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    let (from, values, exec) = (*w.row(i.src[0], 0), *w.row(i.src[1], 0), w.exec());
    for lane in active(exec) {
        let source = (from[lane].wrapping_add(offset(i)) >> 2 & 63) as usize;
        w.row_mut(i.dst, 0)[lane] = if exec >> source & 1 != 0 { values[source] } else { 0 };
    }
    Ok(Flow::Next)
}

/// Every lane writes to the lane that its address names; the highest one wins.
fn permute(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    let (to, values, exec) = (*w.row(i.src[0], 0), *w.row(i.src[1], 0), w.exec());
    let mut out = [0; LANES];
    for lane in active(exec) {
        out[(to[lane].wrapping_add(offset(i)) >> 2 & 63) as usize] = values[lane];
    }
    for lane in active(exec) {
        w.row_mut(i.dst, 0)[lane] = out[lane];
    }
    Ok(Flow::Next)
}

/// The lane that `ds_swizzle` reads for a lane.
fn swizzled(lane: usize, pattern: u32) -> usize {
    let pattern = pattern as usize;
    if pattern & 0x8000 != 0 {
        return lane & !3 | pattern >> (2 * (lane & 3)) & 3;
    }
    let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
    lane & 32 | (lane & 31 & and | or) ^ xor
}

fn swizzle(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    let (values, exec) = (*w.row(i.src[0], 0), w.exec());
    for lane in active(exec) {
        let source = swizzled(lane, offset(i));
        w.row_mut(i.dst, 0)[lane] = if exec >> source & 1 != 0 { values[source] } else { 0 };
    }
    Ok(Flow::Next)
}

/// `inc`: wraps to 0 above the operand.
pub(super) fn increment<T: PartialOrd + From<u8> + std::ops::Add<Output = T>>(old: T, limit: T) -> T {
    if old >= limit { T::from(0) } else { old + T::from(1) }
}

/// `dec`: wraps to the operand below 0 or above it.
pub(super) fn decrement<T: PartialOrd + Copy + From<u8> + std::ops::Sub<Output = T>>(old: T, limit: T) -> T {
    if old == T::from(0) || old > limit { limit } else { old - T::from(1) }
}

/// A line for the form that returns nothing, and one for that which returns the old value.
macro_rules! atomics {
    ($with:ident, $(($plain:literal, $returning:literal, $f:expr)),* $(,)?) => {
        &[$(($plain, |w, i, e| $with(w, i, e, $f)), ($returning, |w, i, e| $with(w, i, e, $f))),*]
    };
}

fn float(old: u32, data: u32, f: impl Fn(f32, f32) -> f32) -> u32 {
    f(f32::from_bits(old), f32::from_bits(data)).to_bits()
}

fn double(old: u64, data: u64, f: impl Fn(f64, f64) -> f64) -> u64 {
    f(f64::from_bits(old), f64::from_bits(data)).to_bits()
}

#[rustfmt::skip]
pub(super) const ATOMICS_32: &[Line] = atomics!(atomic32,
    ("ds_add_u32", "ds_add_rtn_u32", |old, data, _| old.wrapping_add(data)),
    ("ds_sub_u32", "ds_sub_rtn_u32", |old, data, _| old.wrapping_sub(data)),
    ("ds_rsub_u32", "ds_rsub_rtn_u32", |old, data, _| data.wrapping_sub(old)),
    ("ds_inc_u32", "ds_inc_rtn_u32", |old, data, _| increment(old, data)),
    ("ds_dec_u32", "ds_dec_rtn_u32", |old, data, _| decrement(old, data)),
    ("ds_min_i32", "ds_min_rtn_i32", |old, data, _| old.cast_signed().min(data.cast_signed()).cast_unsigned()),
    ("ds_max_i32", "ds_max_rtn_i32", |old, data, _| old.cast_signed().max(data.cast_signed()).cast_unsigned()),
    ("ds_min_u32", "ds_min_rtn_u32", |old, data, _| old.min(data)),
    ("ds_max_u32", "ds_max_rtn_u32", |old, data, _| old.max(data)),
    ("ds_and_b32", "ds_and_rtn_b32", |old, data, _| old & data),
    ("ds_or_b32", "ds_or_rtn_b32", |old, data, _| old | data),
    ("ds_xor_b32", "ds_xor_rtn_b32", |old, data, _| old ^ data),
    ("ds_mskor_b32", "ds_mskor_rtn_b32", |old, data, second| old & !data | second),
    ("ds_cmpst_b32", "ds_cmpst_rtn_b32", |old, data, second| if old == data { second } else { old }),
    ("ds_cmpst_f32", "ds_cmpst_rtn_f32", |old, data, second| if f32::from_bits(old) == f32::from_bits(data) { second } else { old }),
    ("ds_min_f32", "ds_min_rtn_f32", |old, data, _| float(old, data, min)),
    ("ds_max_f32", "ds_max_rtn_f32", |old, data, _| float(old, data, max)),
    ("ds_add_f32", "ds_add_rtn_f32", |old, data, _| float(old, data, |a, b| a + b)),
);

#[rustfmt::skip]
pub(super) const ATOMICS_64: &[Line] = atomics!(atomic64,
    ("ds_add_u64", "ds_add_rtn_u64", |old, data, _| old.wrapping_add(data)),
    ("ds_sub_u64", "ds_sub_rtn_u64", |old, data, _| old.wrapping_sub(data)),
    ("ds_rsub_u64", "ds_rsub_rtn_u64", |old, data, _| data.wrapping_sub(old)),
    ("ds_inc_u64", "ds_inc_rtn_u64", |old, data, _| increment(old, data)),
    ("ds_dec_u64", "ds_dec_rtn_u64", |old, data, _| decrement(old, data)),
    ("ds_min_i64", "ds_min_rtn_i64", |old, data, _| old.cast_signed().min(data.cast_signed()).cast_unsigned()),
    ("ds_max_i64", "ds_max_rtn_i64", |old, data, _| old.cast_signed().max(data.cast_signed()).cast_unsigned()),
    ("ds_min_u64", "ds_min_rtn_u64", |old, data, _| old.min(data)),
    ("ds_max_u64", "ds_max_rtn_u64", |old, data, _| old.max(data)),
    ("ds_and_b64", "ds_and_rtn_b64", |old, data, _| old & data),
    ("ds_or_b64", "ds_or_rtn_b64", |old, data, _| old | data),
    ("ds_xor_b64", "ds_xor_rtn_b64", |old, data, _| old ^ data),
    ("ds_mskor_b64", "ds_mskor_rtn_b64", |old, data, second| old & !data | second),
    ("ds_cmpst_b64", "ds_cmpst_rtn_b64", |old, data, second| if old == data { second } else { old }),
    ("ds_cmpst_f64", "ds_cmpst_rtn_f64", |old, data, second| if f64::from_bits(old) == f64::from_bits(data) { second } else { old }),
    ("ds_min_f64", "ds_min_rtn_f64", |old, data, _| double(old, data, min)),
    ("ds_max_f64", "ds_max_rtn_f64", |old, data, _| double(old, data, max)),
    ("ds_add_f64", "ds_add_rtn_f64", |old, data, _| double(old, data, |a, b| a + b)),
);

#[rustfmt::skip]
pub(super) const DS: &[Line] = &[
    ("ds_nop", |_, _, _| Ok(Flow::Next)),
    ("ds_wrxchg_rtn_b32", |w, i, e| atomic32(w, i, e, |_, data, _| data)),
    ("ds_wrxchg_rtn_b64", |w, i, e| atomic64(w, i, e, |_, data, _| data)),
    ("ds_write_b8", |w, i, e| write(w, i, e, 1, 0)),
    ("ds_write_b16", |w, i, e| write(w, i, e, 2, 0)),
    ("ds_write_b8_d16_hi", |w, i, e| write(w, i, e, 1, 2)),
    ("ds_write_b16_d16_hi", |w, i, e| write(w, i, e, 2, 2)),
    ("ds_write_b32", write_words::<1>),
    ("ds_write_b64", write_words::<2>),
    ("ds_write_b96", write_words::<3>),
    ("ds_write_b128", write_words::<4>),
    ("ds_write2_b32", |w, i, e| write_two(w, i, e, 4)),
    ("ds_write2st64_b32", |w, i, e| write_two(w, i, e, 4)),
    ("ds_write2_b64", |w, i, e| write_two(w, i, e, 8)),
    ("ds_write2st64_b64", |w, i, e| write_two(w, i, e, 8)),
    ("ds_read2_b32", read_two::<4>),
    ("ds_read2st64_b32", read_two::<4>),
    ("ds_read2_b64", read_two::<8>),
    ("ds_read2st64_b64", read_two::<8>),
    ("ds_read_b32", read_words::<1>),
    ("ds_read_b64", read_words::<2>),
    ("ds_read_b96", read_words::<3>),
    ("ds_read_b128", read_words::<4>),
    ("ds_read_u8", |w, i, e| read::<1>(w, i, e, |[b], _| first(u32::from(b)))),
    ("ds_read_i8", |w, i, e| read::<1>(w, i, e, |[b], _| first(i32::from(b.cast_signed()).cast_unsigned()))),
    ("ds_read_u16", |w, i, e| read::<2>(w, i, e, |b, _| first(u32::from(u16::from_le_bytes(b))))),
    ("ds_read_i16", |w, i, e| read::<2>(w, i, e, |b, _| first(i32::from(i16::from_le_bytes(b)).cast_unsigned()))),
    ("ds_read_u8_d16", |w, i, e| read::<1>(w, i, e, |[b], old| first(low(u16::from(b), old)))),
    ("ds_read_u8_d16_hi", |w, i, e| read::<1>(w, i, e, |[b], old| first(high(u16::from(b), old)))),
    ("ds_read_u16_d16", |w, i, e| read::<2>(w, i, e, |b, old| first(low(u16::from_le_bytes(b), old)))),
    ("ds_read_u16_d16_hi", |w, i, e| read::<2>(w, i, e, |b, old| first(high(u16::from_le_bytes(b), old)))),
    ("ds_swizzle_b32", swizzle),
    ("ds_read_i8_d16", |w, i, e| read::<1>(w, i, e, |[b], old| first(low(signed(b), old)))),
    ("ds_read_i8_d16_hi", |w, i, e| read::<1>(w, i, e, |[b], old| first(high(signed(b), old)))),
    ("ds_permute_b32", permute),
    ("ds_bpermute_b32", bpermute),
];
