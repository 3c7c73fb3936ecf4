//! Carries pure functions of one lane over the lanes of a wave: operands in, results out.

use std::sync::OnceLock;

use super::super::inst::{Dpp, Form, Inst, Sdwa, Src};
use super::super::op::flag;
use super::f16::F16;
use super::value::{Kind, Value};
use super::wave::{LANES, Row, VCC, Wave, Wide, f16_constant, f64_constant};

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
        let plain = inst.plain && !(kind == Kind::F32 && wave.flushes_32());
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
        if inst.plain { buf } else { modify_64(wave, inst, n, kind, buf) }
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

/// NaN becomes 0, as with DX10_CLAMP, which compilers set.
fn clamp(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
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
fn write_row_plain(wave: &mut Wave, dst: Src, plus: usize, mask: u64, values: &Row) {
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
fn gather_mask(lanes: &Row) -> u64 {
    let [mut low, mut high] = [0; 2];
    for lane in 0..LANES {
        low |= lanes[lane] & LANE_BITS[0][lane];
        high |= lanes[lane] & LANE_BITS[1][lane];
    }
    join([low, high])
}

/// Writes the lanes of `mask` to a register.
#[inline(always)]
fn write_row(wave: &mut Wave, dst: Src, plus: usize, mask: u64, values: &Row) {
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

/// Applies everything that an instruction says about source `n`.
#[cold]
fn modify_32<'a>(wave: &Wave, inst: &Inst, n: usize, kind: Kind, values: &'a mut Row) -> &'a Row {
    match inst.form {
        Form::Dpp(dpp) if n == 0 => {
            *values = moved(&dpp_lanes(wave, dpp).0, values);
        }
        Form::Sdwa(sdwa) if n < 2 => {
            let sign = sdwa.sext >> n & 1 != 0;
            for value in values.iter_mut() {
                *value = select(*value, sdwa.src_sel[n], sign);
            }
        }
        _ => {}
    }
    let upper = inst.op.is(flag::OP_SEL) && inst.mods.op_sel >> n & 1 != 0;
    if upper && matches!(kind, Kind::F16 | Kind::B16) {
        for value in values.iter_mut() {
            *value >>= 16;
        }
    }
    let (neg, abs) = (inst.mods.neg >> n & 1, inst.mods.abs >> n & 1);
    let sign = if kind == Kind::F16 { 0x8000 } else { 0x8000_0000 };
    if matches!(kind, Kind::F16 | Kind::F32) {
        for value in values.iter_mut() {
            if abs != 0 {
                *value &= !sign;
            }
            if neg != 0 {
                *value ^= sign;
            }
        }
    }
    if kind == Kind::F32 && wave.flushes_32() {
        values.iter_mut().for_each(|value| *value = flush(*value));
    }
    values
}

/// See [`modify_32`].
#[cold]
fn modify_64<'a>(
    wave: &Wave,
    inst: &Inst,
    n: usize,
    kind: Kind,
    values: &'a mut [u64; LANES],
) -> &'a [u64; LANES] {
    if let Form::Dpp(dpp) = inst.form
        && n == 0
    {
        *values = moved(&dpp_lanes(wave, dpp).0, values);
    }
    let (neg, abs) = (inst.mods.neg >> n & 1 != 0, inst.mods.abs >> n & 1 != 0);
    if kind == Kind::F64 && (neg || abs) {
        for value in values.iter_mut() {
            *value = if abs { *value & !(1 << 63) } else { *value } ^ u64::from(neg) << 63;
        }
    }
    values
}

/// A denormal becomes a zero of its sign.
fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// A part of a register: 0 to 3 a byte, 4 and 5 a word, else all.
fn select(value: u32, sel: u8, sign: bool) -> u32 {
    match sel {
        0..=3 => {
            let byte = (value >> (8 * sel)) as u8;
            if sign { i32::from(byte.cast_signed()).cast_unsigned() } else { u32::from(byte) }
        }
        4 | 5 => {
            let word = (value >> (16 * (sel - 4))) as u16;
            if sign { i32::from(word.cast_signed()).cast_unsigned() } else { u32::from(word) }
        }
        _ => value,
    }
}

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
fn moved<T: Copy + Default>(from: &[u8; LANES], old: &[T; LANES]) -> [T; LANES] {
    std::array::from_fn(|lane| old.get(usize::from(from[lane])).copied().unwrap_or_default())
}

/// Lanes that an instruction writes.
pub(super) fn write_mask(wave: &Wave, inst: &Inst) -> u64 {
    match inst.form {
        Form::Dpp(dpp) => wave.exec() & dpp_lanes(wave, dpp).1,
        _ => wave.exec(),
    }
}

/// Runs `f`, compiled for AVX2 and FMA if `wide` says that the processor has them. What is inlined into `f` is so, too.
#[inline(always)]
pub(super) fn widely<R>(wide: Wide, f: impl FnOnce() -> R) -> R {
    if wide.is_there() { with_avx2(wide, f) } else { f() }
}

/// Runs `f`, compiled for AVX2 and FMA, which have to be there.
#[inline(always)]
fn with_avx2<R>(wide: Wide, f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn run<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        assert!(wide.is_there(), "only called where AVX2 is");
        // SAFETY: the processor has AVX2 and FMA, which is what `Wide` stands for.
        unsafe { run(f) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    f()
}

/// The lanes of source `n`.
#[inline(always)]
pub(super) fn source<'a, T>(
    wave: &'a Wave,
    inst: &Inst,
    n: usize,
    buf: &'a mut Buffer<T::Bits>,
) -> &'a [T::Bits; LANES]
where
    T: Value,
    T::Bits: Registers,
{
    T::Bits::source(wave, inst, (n, inst.src[n]), T::KIND, buf)
}

/// Writes a vector result.
#[inline(always)]
pub(super) fn result<T>(wave: &mut Wave, inst: &Inst, mut values: [T::Bits; LANES])
where
    T: Value,
    T::Bits: Registers,
{
    let mask = if inst.plain { wave.exec() } else { finished::<T::Bits>(wave, inst, T::KIND, &mut values) };
    T::Bits::write(wave, inst.dst, mask, &values);
}

/// Clamps and scales; returns the lanes to write.
#[cold]
fn finished<B: Registers>(wave: &Wave, inst: &Inst, kind: Kind, values: &mut [B; LANES]) -> u64 {
    if inst.mods.clamp || inst.mods.omod != 0 {
        for value in values {
            *value = B::finish(inst, kind, *value);
        }
    }
    write_mask(wave, inst)
}

/// Writes a vector result of 32 bits: what SDWA, op_sel and flushing make of it.
#[inline(always)]
pub(super) fn result_32<T: Value<Bits = u32>>(wave: &mut Wave, inst: &Inst, values: Row) {
    if inst.plain && !(T::KIND == Kind::F32 && wave.flushes_32()) {
        write_row(wave, inst.dst, 0, wave.exec(), &values);
    } else {
        modified_result_32(wave, inst, T::KIND, &values);
    }
}

#[cold]
fn modified_result_32(wave: &mut Wave, inst: &Inst, kind: Kind, values: &Row) {
    let mut values = *values;
    let part = match inst.form {
        Form::Sdwa(sdwa) => Some(sdwa),
        _ if inst.op.is(flag::OP_SEL) && matches!(kind, Kind::F16 | Kind::B16) => {
            // The half that is not written is kept.
            let upper = inst.mods.op_sel >> 3 & 1;
            Some(Sdwa { dst_sel: 4 + upper, dst_unused: 2, src_sel: [6; 2], sext: 0 })
        }
        _ => None,
    };
    if kind == Kind::F32 && wave.flushes_32() {
        values.iter_mut().for_each(|value| *value = flush(*value));
    }
    if inst.mods.clamp || inst.mods.omod != 0 {
        values.iter_mut().for_each(|value| *value = u32::finish(inst, kind, *value));
    }
    if let Some(part) = part {
        let old = *wave.row(inst.dst, 0);
        for lane in 0..LANES {
            values[lane] = merge(old[lane], values[lane], part);
        }
    }
    let mask = write_mask(wave, inst);
    u32::write(wave, inst.dst, mask, &values);
}

fn merge(old: u32, value: u32, sdwa: Sdwa) -> u32 {
    let (shift, width) = match sdwa.dst_sel {
        0..=3 => (8 * u32::from(sdwa.dst_sel), 8),
        4 | 5 => (16 * u32::from(sdwa.dst_sel - 4), 16),
        _ => return value,
    };
    let mask = ((1u32 << width) - 1) << shift;
    let placed = value << shift & mask;
    match sdwa.dst_unused {
        2 => old & !mask | placed,
        1 if value >> (width - 1) & 1 != 0 => placed | !((1u64 << (shift + width)) - 1) as u32,
        _ => placed,
    }
}

/// Results by the size of their registers.
pub(super) trait Sink: Value<Bits: Registers> {
    fn store(wave: &mut Wave, inst: &Inst, values: [Self::Bits; LANES]);
}

macro_rules! sink {
    ($store:ident: $($ty:ty),*) => {
        $(impl Sink for $ty {
            #[inline(always)]
            fn store(wave: &mut Wave, inst: &Inst, values: [Self::Bits; LANES]) {
                $store::<$ty>(wave, inst, values);
            }
        })*
    };
}
sink!(result_32: u32, i32, f32, u16, i16, F16);
sink!(result: u64, i64, f64);

/// A value that a lane can have as operand.
pub(super) trait Source: Value<Bits: Registers> {}
impl<T: Value<Bits: Registers>> Source for T {}

macro_rules! map {
    ($name:ident, $modified:ident, $($T:ident $s:ident = $operand:expr),*) => {
        /// Computes the destination from the sources, lane by lane.
        #[inline(always)]
        pub(super) fn $name<D: Sink, $($T: Source),*>(wave: &mut Wave, inst: &Inst, f: impl Fn($($T),*) -> D) {
            if !(inst.plain && wave.wide.is_there()) || wave.flushes_32() {
                return $modified(wave, inst, f);
            }
            with_avx2(wave.wide, #[inline(always)] || {
                let out: [D::Bits; LANES] = {
                    $(let mut buf = None;
                    let operand: fn(&Inst) -> (usize, Src) = $operand;
                    let $s = $T::Bits::plain_source(wave, inst, operand(inst).1, $T::KIND, &mut buf);)*
                    std::array::from_fn(#[inline(always)] |lane| f($($T::from_bits($s[lane])),*).into_bits())
                };
                let mask = wave.exec();
                D::Bits::write_plain(wave, inst.dst, mask, &out);
            });
        }

        /// The same with all that an instruction can say about sources and result, and without AVX2.
        #[inline(never)]
        fn $modified<D: Sink, $($T: Source),*>(wave: &mut Wave, inst: &Inst, f: impl Fn($($T),*) -> D) {
            widely(wave.wide, #[inline(always)] || {
                let mut out = [D::Bits::default(); LANES];
                {
                    $(let mut buf = None;
                    let operand: fn(&Inst) -> (usize, Src) = $operand;
                    let $s = $T::Bits::source(wave, inst, operand(inst), $T::KIND, &mut buf);)*
                    for lane in 0..LANES {
                        out[lane] = f($($T::from_bits($s[lane])),*).into_bits();
                    }
                }
                D::store(wave, inst, out);
            });
        }
    };
}

map!(map1, modified1, A a = |i| (0, i.src[0]));
map!(map2, modified2, A a = |i| (0, i.src[0]), B b = |i| (1, i.src[1]));
map!(map3, modified3, A a = |i| (0, i.src[0]), B b = |i| (1, i.src[1]), C c = |i| (2, i.src[2]));
// With the destination's old value as third operand (`v_fmac`).
map!(accumulate, modified_accumulate, A a = |i| (0, i.src[0]), B b = |i| (1, i.src[1]), C c = |i| (2, i.dst));

/// Compares lane by lane; inactive lanes are 0.
#[inline(always)]
pub(super) fn compare<A: Source, B: Source>(wave: &mut Wave, inst: &Inst, f: impl Fn(A, B) -> bool) {
    let mask = widely(
        wave.wide,
        #[inline(always)]
        || {
            let (mut x, mut y) = (None, None);
            let (a, b) = (source::<A>(wave, inst, 0, &mut x), source::<B>(wave, inst, 1, &mut y));
            let hits: Row = std::array::from_fn(
                #[inline(always)]
                |lane| 0u32.wrapping_sub(u32::from(f(A::from_bits(a[lane]), B::from_bits(b[lane])))),
            );
            gather_mask(&hits)
        },
    ) & wave.exec();
    wave.set_s64(usize::from(inst.sdst.0), mask);
    if inst.op.is(flag::CMPX) {
        wave.set_exec(mask);
    }
}

/// The mask of lanes of two words.
#[inline(always)]
fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Adds or subtracts with carries: `f` has the lane's operands and carry, and gives result and carry.
#[inline(always)]
pub(super) fn carry(wave: &mut Wave, inst: &Inst, f: impl Fn(u32, u32, bool) -> (u32, bool)) {
    let carries = match inst.src[2] {
        Src::NONE => 0,
        src => wave.s64(usize::from(src.0)),
    };
    let active = if inst.plain { wave.exec() } else { write_mask(wave, inst) };
    let masks = widely(
        wave.wide,
        #[inline(always)]
        || {
            if inst.plain {
                let (out, masks) = carries_of(wave, inst, carries, f);
                write_row_plain(wave, inst.dst, 0, active, &out);
                masks
            } else {
                let (out, masks) = carries_of(wave, inst, carries, f);
                result_32::<u32>(wave, inst, out);
                masks
            }
        },
    );
    wave.set_s64(usize::from(inst.sdst.0), join(masks) & active);
}

/// Results and carries of all lanes.
#[inline(always)]
fn carries_of(
    wave: &Wave,
    inst: &Inst,
    carries: u64,
    f: impl Fn(u32, u32, bool) -> (u32, bool),
) -> (Row, [u32; 2]) {
    let (mut x, mut y) = (None, None);
    let (a, b) = (source::<u32>(wave, inst, 0, &mut x), source::<u32>(wave, inst, 1, &mut y));
    let (mut out, mut masks) = ([0; LANES], [0; 2]);
    for (mask, (first, carries)) in masks.iter_mut().zip(halves(carries)) {
        // (In a variable of its own, so that the compiler sees that nothing else has it.)
        let mut word = 0;
        for at in 0..32 {
            let (value, carry) = f(a[first + at], b[first + at], carries >> at & 1 != 0);
            out[first + at] = value;
            word |= u32::from(carry) << at;
        }
        *mask = word;
    }
    (out, masks)
}

/// VCC, or the mask that the instruction names as last operand.
pub(super) fn mask_operand(wave: &Wave, inst: &Inst) -> u64 {
    match inst.src[2] {
        Src::NONE => wave.s64(VCC),
        src => wave.scalar64(src, 0),
    }
}
