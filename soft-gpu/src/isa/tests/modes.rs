//! What the mode register says of rounding and denormals. Expected values are worked out from the IEEE standard; for halves, exact
//! results are whole numbers of 2^-48 and are rounded by the definition.

use super::exec::{Nothing, wave};
use crate::isa::decode::decode;
use crate::isa::exec::{Env, Lds, Trap, Wave, execute};

/// `FP_ROUND` of 32 bits, and of 16 and 64; the bits that keep all denormals.
const SINGLE: u32 = 0;
const OTHERS: u32 = 2;
const DENORMALS: u32 = 0xf0;
const NEAREST: u32 = 0;
const UP: u32 = 1;
const DOWN: u32 = 2;
const ZERO: u32 = 3;
const MODES: [u32; 4] = [NEAREST, UP, DOWN, ZERO];

fn try_run(wave: &mut Wave, words: &[u32]) -> Result<(), Trap> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let inst = decode(wave.arch, &bytes).expect("an instruction");
    let mut lds = Lds::new(64);
    execute(wave, &inst, &mut Env { memory: &Nothing, lds: &mut lds }).map(|_| ())
}

/// What the instruction makes of v0 to v5 in v[6:7], in a wave with this mode.
fn with_mode(mode: u32, words: &[u32], sources: [u64; 3]) -> u64 {
    let mut wave = wave();
    // s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), mode
    try_run(&mut wave, &[0xba00_3801, mode]).expect("a mode");
    for (at, source) in (0u8..).step_by(2).zip(sources) {
        wave.set_vgpr(at, 7, source as u32);
        wave.set_vgpr(at + 1, 7, (source >> 32) as u32);
    }
    try_run(&mut wave, words).unwrap_or_else(|trap| panic!("{trap}"));
    u64::from(wave.vgpr(6, 7)) | u64::from(wave.vgpr(7, 7)) << 32
}

/// The long form of an opcode with v6, v0, v2, v4.
fn long(opcode: u32) -> [u32; 2] {
    [0xd000_0000 | opcode << 16 | 6, 256 | 258 << 9 | 260 << 18]
}

const ADD_F32: u32 = 0x101;
const SUB_F32: u32 = 0x102;
const MUL_F32: u32 = 0x105;
const FMA_F32: u32 = 0x1cb;
const ADD_F64: u32 = 0x280;
const MUL_F64: u32 = 0x281;
const FMA_F64: u32 = 0x1cc;
const ADD_F16: u32 = 0x11f;
const MUL_F16: u32 = 0x122;
const FMA_F16: u32 = 0x206;

/// An opcode of two or three sources is given those that it has.
fn op(opcode: u32, sources: usize) -> [u32; 2] {
    let [first, second] = long(opcode);
    [first, if sources == 2 { second & 0x3ffff } else { second }]
}

fn single(mode: u32, opcode: u32, sources: [f32; 3]) -> u32 {
    let count = if opcode == FMA_F32 { 3 } else { 2 };
    let sources = sources.map(|source| u64::from(source.to_bits()));
    with_mode(mode << SINGLE | DENORMALS, &op(opcode, count), sources) as u32
}

#[test]
fn singles_are_rounded_as_the_mode_says() {
    const EPSILON: f32 = f32::EPSILON;
    let one = 1f32.to_bits();
    let cases: [(u32, [f32; 3], [u32; 4]); 9] = [
        // 1 + 2^-24 is halfway between 1 and its successor; to even is 1.
        (ADD_F32, [1.0, EPSILON / 2.0, 0.0], [one, one + 1, one, one]),
        (ADD_F32, [-1.0, -EPSILON / 2.0, 0.0], [one, one, one + 1, one].map(|bits| bits | 1 << 31)),
        // Exact sums are the same in all modes, but for the sign of a zero.
        (ADD_F32, [1.5, 0.25, 0.0], [1.75f32.to_bits(); 4]),
        (SUB_F32, [1.0, 1.0, 0.0], [0, 0, 1 << 31, 0]),
        // Twice the largest number: infinity to the nearest and upwards, else the largest.
        (ADD_F32, [f32::MAX, f32::MAX, 0.0], [0x7f80_0000, 0x7f80_0000, 0x7f7f_ffff, 0x7f7f_ffff]),
        // (1 + 2^-23)^2 = 1 + 2^-22 + 2^-46.
        (MUL_F32, [1.0 + EPSILON, 1.0 + EPSILON, 0.0], [one + 2, one + 3, one + 2, one + 2]),
        // A quarter of the smallest denormal.
        (MUL_F32, [f32::from_bits(1), 0.25, 0.0], [0, 1, 0, 0]),
        (MUL_F32, [f32::from_bits(1), -0.25, 0.0], [0x8000_0000, 0x8000_0000, 0x8000_0001, 0x8000_0000]),
        // As the product above, less 2^-22: 1 + 2^-46, which a product that is rounded first would not be.
        (FMA_F32, [1.0 + EPSILON, 1.0 + EPSILON, -2.0 * EPSILON], [one, one + 1, one, one]),
    ];
    for (opcode, sources, want) in cases {
        assert_eq!(MODES.map(|mode| single(mode, opcode, sources)), want, "{opcode:x} {sources:?}");
        // The field for the other sizes does not matter.
        let bits = sources.map(|source| u64::from(source.to_bits()));
        let count = if opcode == FMA_F32 { 3 } else { 2 };
        let got = with_mode(UP << OTHERS | DENORMALS, &op(opcode, count), bits) as u32;
        assert_eq!(got, want[0], "{opcode:x} {sources:?}");
    }
}

#[test]
fn doubles_are_rounded_as_the_mode_says() {
    const EPSILON: f64 = f64::EPSILON;
    let one = 1f64.to_bits();
    let cases: [(u32, [f64; 3], [u64; 4]); 4] = [
        (ADD_F64, [1.0, EPSILON / 2.0, 0.0], [one, one + 1, one, one]),
        (MUL_F64, [1.0 + EPSILON, 1.0 + EPSILON, 0.0], [one + 2, one + 3, one + 2, one + 2]),
        (
            MUL_F64,
            [-1.0 - EPSILON, 1.0 + EPSILON, 0.0],
            [one + 2, one + 2, one + 3, one + 2].map(|b| b | 1 << 63),
        ),
        (FMA_F64, [1.0 + EPSILON, 1.0 + EPSILON, -2.0 * EPSILON], [one, one + 1, one, one]),
    ];
    for (opcode, sources, want) in cases {
        let count = if opcode == FMA_F64 { 3 } else { 2 };
        let got = MODES
            .map(|mode| with_mode(mode << OTHERS | DENORMALS, &op(opcode, count), sources.map(f64::to_bits)));
        assert_eq!(got, want, "{opcode:x} {sources:?}");
    }
}

#[test]
fn conversions_are_rounded_as_the_mode_says() {
    let bits = |value: f32| value.to_bits();
    // v_cvt_f32_u32 0x146, v_cvt_f32_i32 0x145: 2^24 + 1 is halfway; mode of 32 bits.
    let convert = |opcode: u32, field: u32, source: u64| {
        MODES.map(|mode| with_mode(mode << field | DENORMALS, &[long(opcode)[0], 256], [source, 0, 0]) as u32)
    };
    let (low, high) = (bits(16_777_216.0), bits(16_777_218.0));
    assert_eq!(convert(0x146, SINGLE, 0x100_0001), [low, high, low, low]);
    let negative = u64::from((-0x100_0001i32).cast_unsigned());
    assert_eq!(convert(0x145, SINGLE, negative), [low, low, high, low].map(|bits| bits | 1 << 31));
    // v_cvt_f32_f64 0x14f and v_cvt_f16_f32 0x14a: the mode of 16 and 64 bits. 1 + 2^-40; 1 + 2^-20.
    let one = bits(1.0);
    assert_eq!(convert(0x14f, OTHERS, (1.0 + 2f64.powi(-40)).to_bits()), [one, one + 1, one, one]);
    assert_eq!(
        convert(0x14a, OTHERS, u64::from(bits(1.0 + 2f32.powi(-20)))),
        [0x3c00, 0x3c01, 0x3c00, 0x3c00]
    );
    // Beyond the largest half.
    assert_eq!(convert(0x14a, OTHERS, u64::from(bits(-1e6))), [0xfc00, 0xfbff, 0xfc00, 0xfbff]);
}

/// A finite half's number of 2^-48.
fn units(half: u16) -> i128 {
    let (exponent, mantissa) = (half >> 10 & 31, i128::from(half & 0x3ff));
    let magnitude = if exponent == 0 { mantissa << 24 } else { (mantissa + 0x400) << (23 + exponent) };
    if half & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// The half that so many 2^-48, which are not zero, are in a mode: one of the two between which they lie.
fn rounded(exact: i128, mode: u32) -> u16 {
    let (magnitude, sign) = (exact.abs(), if exact < 0 { 0x8000 } else { 0 });
    let low = (0..0x7c00u16).rev().find(|half| units(*half) <= magnitude).expect("zero is not more");
    let above = if low == 0x7bff { 1 << 64 } else { units(low + 1) };
    let (down, up) = (magnitude - units(low), above - magnitude);
    let away = match mode {
        _ if down == 0 => false,
        NEAREST => down > up || (down == up && low & 1 != 0),
        UP => sign == 0,
        DOWN => sign != 0,
        _ => false,
    };
    sign | (low + u16::from(away))
}

#[test]
fn halves_are_rounded_as_the_mode_says() {
    let edges = [0x0001, 0x03ff, 0x0400, 0x2c01, 0x3bff, 0x3c00, 0x3c01, 0x3e55, 0x5bff, 0x7bff];
    let halves: Vec<u16> = edges.iter().flat_map(|half| [*half, half | 0x8000]).collect();
    let mut tried = 0;
    for mode in MODES {
        for &a in &halves {
            for &b in &halves {
                let product = (units(a) >> 24) * (units(b) >> 24);
                let cases = [
                    (ADD_F16, 0, units(a) + units(b)),
                    (MUL_F16, 0, product),
                    (FMA_F16, 0x2c01, product + units(0x2c01)),
                ];
                for (opcode, c, exact) in cases.into_iter().filter(|(.., exact)| *exact != 0) {
                    let count = if opcode == FMA_F16 { 3 } else { 2 };
                    let sources = [a, b, c].map(u64::from);
                    let got = with_mode(mode << OTHERS | DENORMALS, &op(opcode, count), sources) as u16;
                    assert_eq!(got, rounded(exact, mode), "{opcode:x} {a:x} {b:x} {c:x} in mode {mode}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 4000, "{tried}");
}

#[test]
fn denormals_are_flushed_as_the_mode_says() {
    // Twice the smallest denormal, and half of the smallest normal number, with each of: nothing kept, sources, results, all.
    let denormal = |size: u32| -> (u64, u64, u64) {
        match size {
            16 => (1, 0x0400, 0x3800),
            32 => (1, 0x0080_0000, 0x3f00_0000),
            _ => (1, 0x0010_0000_0000_0000, 0x3fe0_0000_0000_0000),
        }
    };
    for (size, add, mul, field) in
        [(16, ADD_F16, MUL_F16, 6), (32, ADD_F32, MUL_F32, 4), (64, ADD_F64, MUL_F64, 6)]
    {
        let (tiny, normal, half) = denormal(size);
        for kept in 0..4u32 {
            let mode = DENORMALS & !(3 << field) | kept << field;
            let sum = with_mode(mode, &op(add, 2), [tiny, tiny, 0]);
            assert_eq!(sum, if kept == 3 { 2 } else { 0 }, "{size} {kept}");
            let product = with_mode(mode, &op(mul, 2), [normal, half, 0]);
            assert_eq!(product, if kept & 2 != 0 { normal / 2 } else { 0 }, "{size} {kept}");
            // The sum with a normal number is one, so that only sources matter.
            let sum = with_mode(mode, &op(add, 2), [tiny, normal, 0]);
            assert_eq!(sum, if kept & 1 != 0 { normal + 1 } else { normal }, "{size} {kept}");
        }
    }
    // v_mov_b32 (0x141) and v_and_b32 (0x113) are for bits.
    assert_eq!(with_mode(0, &[long(0x141)[0], 256], [1, 0, 0]), 1);
    assert_eq!(with_mode(0, &op(0x113, 2), [3, 1, 0]), 1);
}

#[test]
fn packed_arithmetic_in_other_modes_is_refused_by_name() {
    let mut wave = wave();
    wave.mode = DENORMALS | UP << OTHERS;
    // v_pk_add_f16 v2, v0, v1
    let trap = try_run(&mut wave, &[0xd38f_4002, 0x1802_0300]).expect_err("refused");
    assert!(trap.to_string().contains("v_pk_add_f16"), "{trap}");
}
