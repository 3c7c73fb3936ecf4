//! Operands of vector operations: sources as lanes, results into registers, masks of lanes.

use super::super::inst::{Inst, Src};
use super::f16::F16;
use super::modify::{clamp, modify_32, modify_64};
use super::value::Kind;
use super::wave::{LANES, Row, Wave, f16_constant, f64_constant};
use super::wide::widely;

/// What a result is multiplied with, by `omod`.
const OUTPUT_FACTORS: [f32; 4] = [1.0, 2.0, 4.0, 0.5];

/// Where the lanes of an operand are that is no register.
pub(super) type Buffer<T> = Option<[T; LANES]>;

/// What the registers of a type do.
pub(super) trait Registers: super::value::Bits {
    /// The lanes of an operand, of which the number of the source and where it is are given; they are in `buf` where they are no
    /// register.
    fn source<'a>(
        wave: &'a Wave,
        inst: &Inst,
        operand: (usize, Src),
        kind: Kind,
        buf: &'a mut Buffer<Self>,
    ) -> &'a [Self; LANES];
    /// The lanes of an operand that nothing changes.
    fn plain_source<'a>(
        wave: &'a Wave,
        inst: &Inst,
        src: Src,
        kind: Kind,
        buf: &'a mut Buffer<Self>,
    ) -> &'a [Self; LANES];
    /// As [`Self::write`], all of it inlined: values that no other function sees can stay in the processor's registers.
    fn write_plain(wave: &mut Wave, dst: Src, mask: u64, values: &[Self; LANES]);
    /// Writes the lanes of `mask` to the destination.
    fn write(wave: &mut Wave, dst: Src, mask: u64, values: &[Self; LANES]);
    /// A denormal becomes a zero of its sign.
    fn flush(kind: Kind, value: Self) -> Self;
    /// Clamps and scales.
    fn finish(inst: &Inst, kind: Kind, value: Self) -> Self;
}

impl Registers for u32 {
    #[inline(always)]
    fn source<'a>(
        wave: &'a Wave,
        inst: &Inst,
        (n, src): (usize, Src),
        kind: Kind,
        buf: &'a mut Buffer<u32>,
    ) -> &'a Row {
        let plain = inst.plain && !wave.flushes(kind);
        if src.is_vector() {
            if plain {
                return wave.row(src, 0);
            }
            return modify_32(wave, inst, n, kind, buf.insert(*wave.row(src, 0)));
        }
        let value = scalar_32(wave, src, inst.literal, kind);
        let buf = buf.insert([value; LANES]);
        if plain { buf } else { modify_32(wave, inst, n, kind, buf) }
    }

    #[inline(always)]
    fn plain_source<'a>(
        wave: &'a Wave,
        inst: &Inst,
        src: Src,
        kind: Kind,
        buf: &'a mut Buffer<u32>,
    ) -> &'a Row {
        if src.is_vector() { wave.row(src, 0) } else { splat_32(wave, src, inst.literal, kind, buf) }
    }

    #[inline(always)]
    fn write_plain(wave: &mut Wave, dst: Src, mask: u64, values: &Row) {
        write_row_plain(wave, dst, 0, mask, values);
    }

    #[inline(always)]
    fn write(wave: &mut Wave, dst: Src, mask: u64, values: &Row) {
        write_row(wave, dst, 0, mask, values);
    }

    fn flush(kind: Kind, bits: u32) -> u32 {
        let (exponent, sign) = if kind == Kind::F16 { (0x7c00, 0x8000) } else { (0x7f80_0000, 0x8000_0000) };
        if bits & exponent == 0 { bits & sign } else { bits }
    }

    fn finish(inst: &Inst, kind: Kind, value: u32) -> u32 {
        match kind {
            Kind::F32 => {
                let scaled = f32::from_bits(value) * OUTPUT_FACTORS[usize::from(inst.mods.omod & 3)];
                let value = if inst.mods.omod == 0 { value } else { scaled.to_bits() };
                if inst.mods.clamp { clamp(f32::from_bits(value)).to_bits() } else { value }
            }
            Kind::F16 => {
                let factor = OUTPUT_FACTORS[usize::from(inst.mods.omod & 3)];
                let scaled = F16(value as u16).to_f32() * factor;
                let result = if inst.mods.clamp { clamp(scaled) } else { scaled };
                u32::from(F16::from_f32(result).0)
            }
            _ => value,
        }
    }
}

impl Registers for u64 {
    #[inline(always)]
    fn source<'a>(
        wave: &'a Wave,
        inst: &Inst,
        (n, src): (usize, Src),
        kind: Kind,
        buf: &'a mut Buffer<u64>,
    ) -> &'a [u64; LANES] {
        let buf = buf.insert([0; LANES]);
        source_64(wave, src, inst.literal, kind, buf);
        if inst.plain && !wave.flushes(kind) { buf } else { modify_64(wave, inst, n, kind, buf) }
    }

    #[inline(always)]
    fn plain_source<'a>(
        wave: &'a Wave,
        inst: &Inst,
        src: Src,
        kind: Kind,
        buf: &'a mut Buffer<u64>,
    ) -> &'a [u64; LANES] {
        let buf = buf.insert([0; LANES]);
        source_64(wave, src, inst.literal, kind, buf);
        buf
    }

    #[inline(always)]
    fn write_plain(wave: &mut Wave, dst: Src, mask: u64, values: &[u64; LANES]) {
        let (mut low, mut high) = ([0; LANES], [0; LANES]);
        for lane in 0..LANES {
            low[lane] = values[lane] as u32;
            high[lane] = (values[lane] >> 32) as u32;
        }
        write_row_plain(wave, dst, 0, mask, &low);
        write_row_plain(wave, dst, 1, mask, &high);
    }

    #[inline(always)]
    fn write(wave: &mut Wave, dst: Src, mask: u64, values: &[u64; LANES]) {
        write_64(wave, dst, mask, values);
    }

    fn flush(_: Kind, bits: u64) -> u64 {
        if bits & 0x7ff0_0000_0000_0000 == 0 { bits & 1 << 63 } else { bits }
    }

    fn finish(inst: &Inst, kind: Kind, value: u64) -> u64 {
        if kind != Kind::F64 {
            return value;
        }
        let scaled = f64::from_bits(value) * f64::from(OUTPUT_FACTORS[usize::from(inst.mods.omod & 3)]);
        let value = if inst.mods.omod == 0 { f64::from_bits(value) } else { scaled };
        let value = match inst.mods.clamp {
            true if value > 0.0 => value.min(1.0),
            true => 0.0,
            false => value,
        };
        value.to_bits()
    }
}

// What follows is not inlined: hundreds of bodies use it, and each would have two copies.

/// A scalar operand of 32 bits.
#[inline(never)]
fn scalar_32(wave: &Wave, src: Src, literal: u32, kind: Kind) -> u32 {
    match (kind, src.0) {
        (Kind::F16 | Kind::B16, code @ 240..=248) => f16_constant(code),
        _ => wave.scalar32(src, literal),
    }
}

/// The same for all lanes.
#[inline(never)]
fn splat_32<'a>(wave: &Wave, src: Src, literal: u32, kind: Kind, buf: &'a mut Buffer<u32>) -> &'a Row {
    let value = scalar_32(wave, src, literal, kind);
    // (With the stores as wide as the loads that follow, which then need not wait.)
    let buf = buf.insert([0; LANES]);
    widely(
        wave.wide,
        #[inline(always)]
        || buf.fill(value),
    );
    buf
}

/// An operand of 64 bits.
#[inline(never)]
fn source_64(wave: &Wave, src: Src, literal: u32, kind: Kind, buf: &mut [u64; LANES]) {
    if src.is_vector() {
        let (low, high) = (wave.row(src, 0), wave.row(src, 1));
        widely(
            wave.wide,
            #[inline(always)]
            || {
                for lane in 0..LANES {
                    buf[lane] = u64::from(low[lane]) | u64::from(high[lane]) << 32;
                }
            },
        );
        return;
    }
    let value = match (kind, src.0) {
        (Kind::F64, code @ 240..=248) => f64_constant(code),
        // A literal is the upper half of a double.
        (Kind::F64, 255) => u64::from(literal) << 32,
        _ => wave.scalar64(src, literal),
    };
    widely(
        wave.wide,
        #[inline(always)]
        || buf.fill(value),
    );
}

/// Writes the lanes of `mask` to two registers.
#[inline(never)]
fn write_64(wave: &mut Wave, dst: Src, mask: u64, values: &[u64; LANES]) {
    for (half, shift) in [(0, 0), (1, 32)] {
        let mut words = [0; LANES];
        widely(
            wave.wide,
            #[inline(always)]
            || {
                for lane in 0..LANES {
                    words[lane] = (values[lane] >> shift) as u32;
                }
            },
        );
        write_row(wave, dst, half, mask, &words);
    }
}

/// See [`Registers::write_plain`].
#[inline(always)]
pub(super) fn write_row_plain(wave: &mut Wave, dst: Src, plus: usize, mask: u64, values: &Row) {
    let row = wave.row_mut(dst, plus);
    if mask == u64::MAX {
        *row = *values;
        return;
    }
    let chosen = spread_mask(mask);
    for lane in 0..LANES {
        row[lane] = values[lane] & chosen[lane] | row[lane] & !chosen[lane];
    }
}

/// All bits of the lanes of `mask`. (Choosing by bits is done for many lanes at once.)
#[inline(always)]
pub(super) fn spread_mask(mask: u64) -> Row {
    let mut lanes = [0; LANES];
    for (first, bits) in halves(mask) {
        for at in 0..32 {
            lanes[first + at] = 0u32.wrapping_sub(bits >> at & 1);
        }
    }
    lanes
}

/// The bit of each lane in the low and in the high word of a mask.
const LANE_BITS: [Row; 2] = {
    let mut bits = [[0; LANES]; 2];
    let mut lane = 0;
    while lane < LANES {
        bits[lane / 32][lane] = 1 << (lane % 32);
        lane += 1;
    }
    bits
};

/// The mask of the lanes that have all bits; the others have none.
#[inline(always)]
pub(super) fn gather_mask(lanes: &Row) -> u64 {
    let [mut low, mut high] = [0; 2];
    for lane in 0..LANES {
        low |= lanes[lane] & LANE_BITS[0][lane];
        high |= lanes[lane] & LANE_BITS[1][lane];
    }
    join([low, high])
}

/// Writes the lanes of `mask` to a register.
#[inline(always)]
pub(super) fn write_row(wave: &mut Wave, dst: Src, plus: usize, mask: u64, values: &Row) {
    if mask == u64::MAX {
        *wave.row_mut(dst, plus) = *values;
    } else {
        write_masked(wave, dst, plus, mask, values);
    }
}

#[inline(never)]
fn write_masked(wave: &mut Wave, dst: Src, plus: usize, mask: u64, values: &Row) {
    widely(
        wave.wide,
        #[inline(always)]
        || write_row_plain(wave, dst, plus, mask, values),
    );
}

/// Both words of a mask of lanes, with their first lane: shifts of 32 bits are what processors have for many lanes at once.
#[inline(always)]
pub(super) fn halves(mask: u64) -> [(usize, u32); 2] {
    [(0, mask as u32), (32, (mask >> 32) as u32)]
}

/// The mask of lanes of two words.
#[inline(always)]
pub(super) fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
