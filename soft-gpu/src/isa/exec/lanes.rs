//! Carries pure functions of one lane over the lanes of a wave: operands in, results out.

use super::super::inst::{Inst, Src};
use super::super::op::flag;
use super::dpp::write_mask;
use super::f16::F16;
use super::modify::{finished, modified_result_32};
use super::operands::{Buffer, Registers, gather_mask, halves, join, write_row, write_row_plain};
use super::value::Value;
use super::wave::{LANES, Row, VCC, Wave};
use super::wide::{widely, with_avx2};

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
    let mask = if inst.plain && !wave.flushes(T::KIND) {
        wave.exec()
    } else {
        finished::<T::Bits>(wave, inst, T::KIND, &mut values)
    };
    T::Bits::write(wave, inst.dst, mask, &values);
}

/// Writes a vector result of 32 bits: what SDWA, op_sel and flushing make of it.
#[inline(always)]
pub(super) fn result_32<T: Value<Bits = u32>>(wave: &mut Wave, inst: &Inst, values: Row) {
    if inst.plain && !wave.flushes(T::KIND) {
        write_row(wave, inst.dst, 0, wave.exec(), &values);
    } else {
        modified_result_32(wave, inst, T::KIND, &values);
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
            if !(inst.plain && wave.wide.is_there()) || wave.flushes_any() {
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
