//! Matrix operations: products of small matrices whose elements are spread over the lanes of a wave.
//!
//! All lanes take part, whatever EXEC says. Sums are taken in the order of `k`, fused and rounded once a step; hardware does not say
//! in which order it adds, so last bits may differ for the small types.

use super::super::inst::{Inst, Src};
use super::f16::F16;
use super::wave::{LANES, Wave};
use super::wide::widely;
use super::{Env, Flow, Line, Trap};

/// Most elements of A or B, and of C.
const MOST_INPUTS: usize = 1024;
const MOST_OUTPUTS: usize = 2048;

/// What products are added up in.
trait Sum: Copy + Default {
    /// Registers of one.
    const WORDS: usize;
    fn load(words: [u32; 2]) -> Self;
    fn words(self) -> [u32; 2];
    fn multiply_add(self, a: Self, b: Self) -> Self;
}

impl Sum for f32 {
    const WORDS: usize = 1;
    #[inline(always)]
    fn load([word, _]: [u32; 2]) -> Self {
        f32::from_bits(word)
    }
    #[inline(always)]
    fn words(self) -> [u32; 2] {
        [self.to_bits(), 0]
    }
    #[inline(always)]
    fn multiply_add(self, a: Self, b: Self) -> Self {
        a.mul_add(b, self)
    }
}

impl Sum for i32 {
    const WORDS: usize = 1;
    #[inline(always)]
    fn load([word, _]: [u32; 2]) -> Self {
        word.cast_signed()
    }
    #[inline(always)]
    fn words(self) -> [u32; 2] {
        [self.cast_unsigned(), 0]
    }
    #[inline(always)]
    fn multiply_add(self, a: Self, b: Self) -> Self {
        self.wrapping_add(a.wrapping_mul(b))
    }
}

impl Sum for f64 {
    const WORDS: usize = 2;
    #[inline(always)]
    fn load([low, high]: [u32; 2]) -> Self {
        f64::from_bits(u64::from(low) | u64::from(high) << 32)
    }
    #[inline(always)]
    fn words(self) -> [u32; 2] {
        [self.to_bits() as u32, (self.to_bits() >> 32) as u32]
    }
    #[inline(always)]
    fn multiply_add(self, a: Self, b: Self) -> Self {
        a.mul_add(b, self)
    }
}

/// A type of the elements of A and B.
trait Element {
    type Sum: Sum;
    /// Elements that a lane holds, for neighbouring `k`.
    const PER_LANE: usize;
    /// Element `at` of a lane's registers.
    fn get(w: &Wave, src: Src, lane: usize, at: usize) -> Self::Sum;
}

/// A 16-bit part of a lane.
#[inline(always)]
fn half(w: &Wave, src: Src, lane: usize, at: usize) -> u16 {
    (w.row(src, at / 2)[lane] >> (16 * (at % 2))) as u16
}

macro_rules! element {
    ($name:ident, $sum:ty, $per_lane:literal, |$w:ident, $src:ident, $lane:ident, $at:ident| $get:expr) => {
        struct $name;
        impl Element for $name {
            type Sum = $sum;
            const PER_LANE: usize = $per_lane;
            #[inline(always)]
            fn get($w: &Wave, $src: Src, $lane: usize, $at: usize) -> $sum {
                $get
            }
        }
    };
}

element!(Single, f32, 1, |w, src, lane, at| f32::from_bits(w.row(src, at)[lane]));
element!(Half, f32, 4, |w, src, lane, at| F16(half(w, src, lane, at)).to_f32());
element!(Brain2, f32, 2, |w, src, lane, at| f32::from_bits(u32::from(half(w, src, lane, at)) << 16));
element!(Brain4, f32, 4, |w, src, lane, at| f32::from_bits(u32::from(half(w, src, lane, at)) << 16));
element!(Byte4, i32, 4, |w, src, lane, at| byte(w, src, lane, at));
element!(Byte8, i32, 8, |w, src, lane, at| byte(w, src, lane, at));
element!(Double, f64, 1, |w, src, lane, at| f64::load([
    w.row(src, 2 * at)[lane],
    w.row(src, 2 * at + 1)[lane]
]));

#[inline(always)]
fn byte(w: &Wave, src: Src, lane: usize, at: usize) -> i32 {
    i32::from(((w.row(src, at / 4)[lane] >> (8 * (at % 4))) as u8).cast_signed())
}

/// The lane and place within it of element (`block`, `row`, `k`) of A; for B, `row` is its column.
#[inline(always)]
fn input_place<E: Element, const M: usize, const K: usize, const BLOCKS: usize>(
    block: usize,
    row: usize,
    k: usize,
) -> (usize, usize) {
    let (group, at) = (k / E::PER_LANE, k % E::PER_LANE);
    if BLOCKS > 1 && K > E::PER_LANE {
        // v_mfma_f64_4x4x4: blocks vary faster than k.
        return (row + M * (block + BLOCKS * group), at);
    }
    (row + M * (group + K / E::PER_LANE * block), at)
}

/// Block, row and column of output register `r` (counted in elements) of a lane.
#[inline(always)]
fn output_place<S: Sum, const M: usize>(r: usize, lane: usize) -> (usize, usize, usize) {
    let double = S::WORDS == 2;
    match M {
        32 => (r / 16, 8 * (r % 16 / 4) + 4 * (lane / 32) + r % 4, lane % 32),
        16 if double => (0, 4 * r + lane / 16, lane % 16),
        16 => (r / 4, 4 * (lane / 16) + r % 4, lane % 16),
        _ if double => (lane / 4 % 4, lane / 16, lane % 4),
        _ => (lane / 4, r, lane % 4),
    }
}

fn multiply<E: Element, const M: usize, const K: usize, const BLOCKS: usize>(
    w: &mut Wave,
    i: &Inst,
    _: &mut Env<'_>,
) -> Result<Flow, Trap> {
    let [cbsz, abid, blgp] = i.matrix.map(usize::from);
    if blgp != 0 {
        return Err(Trap::Unsupported {
            text: i.to_string(),
            why: "permutations or negations of a matrix (blgp)",
        });
    }
    widely(
        w.wide,
        #[inline(always)]
        || {
            let mut a = [E::Sum::default(); MOST_INPUTS];
            let mut b = [E::Sum::default(); MOST_INPUTS];
            for block in 0..BLOCKS {
                // With `cbsz`, 2^cbsz blocks take A from the one of them that `abid` names.
                let from = if cbsz == 0 { block } else { ((block >> cbsz << cbsz) + abid) % BLOCKS };
                for k in 0..K {
                    for row in 0..M {
                        let index = (block * K + k) * M + row;
                        let (lane, at) = input_place::<E, M, K, BLOCKS>(from, row, k);
                        a[index] = E::get(w, i.src[0], lane % LANES, at);
                        let (lane, at) = input_place::<E, M, K, BLOCKS>(block, row, k);
                        b[index] = E::get(w, i.src[1], lane % LANES, at);
                    }
                }
            }
            let mut c = [E::Sum::default(); MOST_OUTPUTS];
            // Columns are neighbouring lanes.
            for r in 0..M * M * BLOCKS / LANES {
                for first in (0..LANES).step_by(M) {
                    let (block, row, _) = output_place::<E::Sum, M>(r, first);
                    initial::<E::Sum>(w, i, r, first, &mut c[(block * M + row) * M..][..M]);
                }
            }
            for block in 0..BLOCKS {
                for k in 0..K {
                    let (a, b) = (&a[(block * K + k) * M..][..M], &b[(block * K + k) * M..][..M]);
                    for row in 0..M {
                        let c = &mut c[(block * M + row) * M..][..M];
                        for column in 0..M {
                            c[column] = c[column].multiply_add(a[row], b[column]);
                        }
                    }
                }
            }
            for r in 0..M * M * BLOCKS / LANES {
                for first in (0..LANES).step_by(M) {
                    let (block, row, _) = output_place::<E::Sum, M>(r, first);
                    let c = &c[(block * M + row) * M..][..M];
                    for at in 0..E::Sum::WORDS {
                        let out = &mut w.row_mut(i.dst, r * E::Sum::WORDS + at)[first..][..M];
                        for column in 0..M {
                            out[column] = c[column].words()[at];
                        }
                    }
                }
            }
        },
    );
    Ok(Flow::Next)
}

/// The lanes of C from `first` on. C may be a constant.
#[inline(always)]
fn initial<S: Sum>(w: &Wave, i: &Inst, r: usize, first: usize, out: &mut [S]) {
    let src = i.src[2];
    if src.is_vector() {
        let low = &w.row(src, r * S::WORDS)[first..][..out.len()];
        let high = &w.row(src, (r + 1) * S::WORDS - 1)[first..][..out.len()];
        for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
            *out = S::load([*low, *high]);
        }
        return;
    }
    out.fill(match (S::WORDS, src.0) {
        (2, code @ 240..=248) => S::load(split(super::wave::f64_constant(code))),
        (2, _) => S::load(split(w.scalar64(src, 0))),
        _ => S::load([w.scalar32(src, 0), 0]),
    });
}

fn split(wide: u64) -> [u32; 2] {
    [wide as u32, (wide >> 32) as u32]
}

#[rustfmt::skip]
pub(super) const MFMA: &[Line] = &[
    ("v_mfma_f32_32x32x1f32", multiply::<Single, 32, 1, 2>),
    ("v_mfma_f32_32x32x1_2b_f32", multiply::<Single, 32, 1, 2>),
    ("v_mfma_f32_16x16x1f32", multiply::<Single, 16, 1, 4>),
    ("v_mfma_f32_16x16x1_4b_f32", multiply::<Single, 16, 1, 4>),
    ("v_mfma_f32_4x4x1f32", multiply::<Single, 4, 1, 16>),
    ("v_mfma_f32_4x4x1_16b_f32", multiply::<Single, 4, 1, 16>),
    ("v_mfma_f32_32x32x2f32", multiply::<Single, 32, 2, 1>),
    ("v_mfma_f32_32x32x2_f32", multiply::<Single, 32, 2, 1>),
    ("v_mfma_f32_16x16x4f32", multiply::<Single, 16, 4, 1>),
    ("v_mfma_f32_16x16x4_f32", multiply::<Single, 16, 4, 1>),
    ("v_mfma_f32_32x32x4f16", multiply::<Half, 32, 4, 2>),
    ("v_mfma_f32_32x32x4_2b_f16", multiply::<Half, 32, 4, 2>),
    ("v_mfma_f32_16x16x4f16", multiply::<Half, 16, 4, 4>),
    ("v_mfma_f32_16x16x4_4b_f16", multiply::<Half, 16, 4, 4>),
    ("v_mfma_f32_4x4x4f16", multiply::<Half, 4, 4, 16>),
    ("v_mfma_f32_4x4x4_16b_f16", multiply::<Half, 4, 4, 16>),
    ("v_mfma_f32_32x32x8f16", multiply::<Half, 32, 8, 1>),
    ("v_mfma_f32_32x32x8_f16", multiply::<Half, 32, 8, 1>),
    ("v_mfma_f32_16x16x16f16", multiply::<Half, 16, 16, 1>),
    ("v_mfma_f32_16x16x16_f16", multiply::<Half, 16, 16, 1>),
    ("v_mfma_i32_32x32x4i8", multiply::<Byte4, 32, 4, 2>),
    ("v_mfma_i32_32x32x4_2b_i8", multiply::<Byte4, 32, 4, 2>),
    ("v_mfma_i32_16x16x4i8", multiply::<Byte4, 16, 4, 4>),
    ("v_mfma_i32_16x16x4_4b_i8", multiply::<Byte4, 16, 4, 4>),
    ("v_mfma_i32_4x4x4i8", multiply::<Byte4, 4, 4, 16>),
    ("v_mfma_i32_4x4x4_16b_i8", multiply::<Byte4, 4, 4, 16>),
    ("v_mfma_i32_32x32x8i8", multiply::<Byte4, 32, 8, 1>),
    ("v_mfma_i32_16x16x16i8", multiply::<Byte4, 16, 16, 1>),
    ("v_mfma_i32_32x32x16_i8", multiply::<Byte8, 32, 16, 1>),
    ("v_mfma_i32_16x16x32_i8", multiply::<Byte8, 16, 32, 1>),
    ("v_mfma_f32_32x32x2bf16", multiply::<Brain2, 32, 2, 2>),
    ("v_mfma_f32_16x16x2bf16", multiply::<Brain2, 16, 2, 4>),
    ("v_mfma_f32_4x4x2bf16", multiply::<Brain2, 4, 2, 16>),
    ("v_mfma_f32_32x32x4bf16", multiply::<Brain2, 32, 4, 1>),
    ("v_mfma_f32_16x16x8bf16", multiply::<Brain2, 16, 8, 1>),
    ("v_mfma_f32_32x32x4bf16_1k", multiply::<Brain4, 32, 4, 2>),
    ("v_mfma_f32_32x32x4_2b_bf16", multiply::<Brain4, 32, 4, 2>),
    ("v_mfma_f32_16x16x4bf16_1k", multiply::<Brain4, 16, 4, 4>),
    ("v_mfma_f32_16x16x4_4b_bf16", multiply::<Brain4, 16, 4, 4>),
    ("v_mfma_f32_4x4x4bf16_1k", multiply::<Brain4, 4, 4, 16>),
    ("v_mfma_f32_4x4x4_16b_bf16", multiply::<Brain4, 4, 4, 16>),
    ("v_mfma_f32_32x32x8bf16_1k", multiply::<Brain4, 32, 8, 1>),
    ("v_mfma_f32_32x32x8_bf16", multiply::<Brain4, 32, 8, 1>),
    ("v_mfma_f32_16x16x16bf16_1k", multiply::<Brain4, 16, 16, 1>),
    ("v_mfma_f32_16x16x16_bf16", multiply::<Brain4, 16, 16, 1>),
    ("v_mfma_f64_16x16x4f64", multiply::<Double, 16, 4, 1>),
    ("v_mfma_f64_16x16x4_f64", multiply::<Double, 16, 4, 1>),
    ("v_mfma_f64_4x4x4f64", multiply::<Double, 4, 4, 4>),
    ("v_mfma_f64_4x4x4_4b_f64", multiply::<Double, 4, 4, 4>),
];
