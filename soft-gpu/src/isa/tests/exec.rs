//! Bodies at the edges, against results worked out by hand from the IEEE standard and AMD's manuals (the reasoning stands beside
//! them), and matrix operations against sums in the order of the definition.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::isa::decode::decode;
use crate::isa::exec::{Env, Lds, MemFault, Memory, Wave, execute, is_executed};
use crate::isa::op::{Arch, Family};
use crate::isa::table::TABLES;

/// No memory at all.
pub(super) struct Nothing;

impl Memory for Nothing {
    fn read(&self, addr: u64, _: &mut [u8]) -> Result<(), MemFault> {
        Err(MemFault { addr, write: false, not_present: true })
    }
    fn write(&self, addr: u64, _: &[u8]) -> Result<(), MemFault> {
        Err(MemFault { addr, write: true, not_present: true })
    }
    fn atomic_u32(&self, addr: u64, _: &mut dyn FnMut(u32) -> u32) -> Result<u32, MemFault> {
        Err(MemFault { addr, write: true, not_present: true })
    }
    fn atomic_u64(&self, addr: u64, _: &mut dyn FnMut(u64) -> u64) -> Result<u64, MemFault> {
        Err(MemFault { addr, write: true, not_present: true })
    }
    fn interrupt(&self, data: u32) {
        panic!("an interrupt with {data:#x}");
    }
}

fn run(wave: &mut Wave, words: &[u32]) {
    run_with(wave, words, &Nothing);
}

fn run_with(wave: &mut Wave, words: &[u32], memory: &dyn Memory) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let inst = decode(wave.arch, &bytes).expect("an instruction");
    let mut lds = Lds::new(64);
    let mut env = Env { memory, lds: &mut lds };
    execute(wave, &inst, &mut env).unwrap_or_else(|trap| panic!("{inst}: {trap}"));
}

pub(super) fn wave() -> Wave {
    let mut wave = Wave::new(Arch::Gfx90a);
    wave.set_exec(u64::MAX);
    wave
}

/// `op v2, v0, v1` of VOP2 for a pair of operands.
fn vop2(code: u32, a: u32, b: u32) -> u32 {
    let mut wave = wave();
    wave.set_vgpr(0, 5, a);
    wave.set_vgpr(1, 5, b);
    run(&mut wave, &[code << 25 | 2 << 17 | 1 << 9 | 256]);
    wave.vgpr(2, 5)
}

/// `op v2, v0` of VOP1.
fn vop1(code: u32, a: u32) -> u32 {
    let mut wave = wave();
    wave.set_vgpr(0, 63, a);
    run(&mut wave, &[0x3f << 25 | 2 << 17 | code << 9 | 256]);
    wave.vgpr(2, 63)
}

#[test]
fn minima_and_maxima_prefer_numbers_and_order_zeros() {
    const NAN: u32 = 0x7fc0_1234;
    const ONE: u32 = 0x3f80_0000;
    const TWO: u32 = 0x4000_0000;
    const PLUS_0: u32 = 0;
    const MINUS_0: u32 = 0x8000_0000;
    // v_min_f32 0x0a, v_max_f32 0x0b
    assert_eq!([vop2(0x0a, ONE, TWO), vop2(0x0b, ONE, TWO)], [ONE, TWO]);
    assert_eq!([vop2(0x0a, NAN, TWO), vop2(0x0b, ONE, NAN)], [TWO, ONE]);
    assert_eq!([vop2(0x0a, PLUS_0, MINUS_0), vop2(0x0a, MINUS_0, PLUS_0)], [MINUS_0; 2]);
    assert_eq!([vop2(0x0b, PLUS_0, MINUS_0), vop2(0x0b, MINUS_0, PLUS_0)], [PLUS_0; 2]);
    // Both NaN: the first, quiet.
    assert_eq!(vop2(0x0b, 0x7f80_0001, NAN), 0x7fc0_0001);
}

#[test]
fn shifts_use_five_bits_of_the_count() {
    // v_lshrrev_b32 0x10, v_ashrrev_i32 0x11, v_lshlrev_b32 0x12: the count is the first operand.
    assert_eq!(vop2(0x10, 33, 0x8000_0000), 0x4000_0000);
    assert_eq!(vop2(0x11, 31, 0x8000_0000), 0xffff_ffff);
    assert_eq!(vop2(0x12, 0xffff_ffff, 3), 0x8000_0000);
}

#[test]
fn products_of_24_bits_ignore_the_rest() {
    // v_mul_i32_i24 0x06: 0xff800000 is -0x800000 in 24 bits, times 2; v_mul_u32_u24 0x08; their upper halves 0x07, 0x09.
    assert_eq!(vop2(0x06, 0x1280_0000, 2), 0xff00_0000);
    assert_eq!(vop2(0x07, 0x1280_0000, 2), 0xffff_ffff);
    assert_eq!(vop2(0x08, 0xffff_ffff, 0xffff_ffff), 0xfe00_0001, "(2^24 - 1)^2 = 2^48 - 2^25 + 1");
    assert_eq!(vop2(0x09, 0xffff_ffff, 0xffff_ffff), 0x0000_ffff);
}

#[test]
fn conversions_to_integers_truncate_and_saturate() {
    let float = |value: f32| value.to_bits();
    // v_cvt_u32_f32 0x07, v_cvt_i32_f32 0x08
    let cases: [(f32, u32, u32); 7] = [
        (-1.5, 0, 0xffff_ffff),
        (1.99, 1, 1),
        (4e9, 4_000_000_000, 0x7fff_ffff),
        (-4e9, 0, 0x8000_0000),
        (f32::INFINITY, u32::MAX, 0x7fff_ffff),
        (f32::NEG_INFINITY, 0, 0x8000_0000),
        (f32::NAN, 0, 0),
    ];
    for (value, unsigned, signed) in cases {
        assert_eq!([vop1(0x07, float(value)), vop1(0x08, float(value))], [unsigned, signed], "{value}");
    }
}

#[test]
fn halves_round_to_nearest_even_and_keep_denormals() {
    // v_cvt_f16_f32 0x0a. 65504 is the largest half; from 65520 on (halfway to 65536) it is infinity.
    let cases: [(f32, u32); 9] = [
        (1.0, 0x3c00),
        (65_504.0, 0x7bff),
        (65_519.996, 0x7bff),
        (65_520.0, 0x7c00),
        // 1 + 2^-11 is halfway between 1 and 1 + 2^-10: to even, which is 1; 1 + 3 * 2^-11 goes up.
        (1.000_488_3, 0x3c00),
        (1.001_464_8, 0x3c02),
        // 2^-24 is the smallest denormal; half of it goes to zero, three quarters to it.
        (5.960_464_5e-8, 1),
        (2.980_232_2e-8, 0),
        (-4.470_348_4e-8, 0x8001),
    ];
    for (value, half) in cases {
        assert_eq!(vop1(0x0a, value.to_bits()), half, "{value}");
    }
    // v_cvt_f32_f16 0x0b: every half comes back.
    for half in 0..=0xffffu32 {
        let is_nan = half & 0x7c00 == 0x7c00 && half & 0x3ff != 0;
        if !is_nan {
            assert_eq!(vop1(0x0a, vop1(0x0b, half)), half);
        }
    }
}

#[test]
fn bit_counts_and_positions() {
    // v_ffbh_u32 0x2d, v_ffbl_b32 0x2e, v_ffbh_i32 0x2f, v_bfrev_b32 0x2c: -1 where there is no such bit.
    assert_eq!([vop1(0x2d, 0), vop1(0x2d, 1), vop1(0x2d, 0x8000_0000)], [u32::MAX, 31, 0]);
    assert_eq!([vop1(0x2e, 0), vop1(0x2e, 8)], [u32::MAX, 3]);
    assert_eq!(
        [vop1(0x2f, 0), vop1(0x2f, u32::MAX), vop1(0x2f, 1), vop1(0x2f, 0x8000_0000)],
        [u32::MAX, u32::MAX, 31, 1]
    );
    assert_eq!(vop1(0x2c, 1), 0x8000_0000);
}

#[test]
fn inactive_lanes_keep_their_values() {
    let mut wave = wave();
    wave.set_exec(0xaaaa_aaaa_aaaa_aaaa);
    for lane in 0..64 {
        wave.set_vgpr(2, lane, 7);
    }
    // v_mov_b32_e32 v2, 1
    run(&mut wave, &[0x7e04_0281]);
    for lane in 0..64 {
        assert_eq!(wave.vgpr(2, lane), if lane % 2 == 1 { 1 } else { 7 });
    }
    // v_cmp_eq_u32_e32 vcc, 1, v2: lanes that are not active are 0.
    run(&mut wave, &[0x7d94_0481]);
    assert_eq!(wave.s64(106), 0xaaaa_aaaa_aaaa_aaaa);
}

#[test]
fn carries_go_through_the_mask() {
    let mut wave = wave();
    wave.set_vgpr(0, 0, u32::MAX);
    wave.set_vgpr(0, 1, 5);
    // v_add_co_u32_e32 v2, vcc, 1, v0
    run(&mut wave, &[0x3204_0081]);
    assert_eq!((wave.vgpr(2, 0), wave.vgpr(2, 1), wave.s64(106)), (0, 6, 1));
    // v_addc_co_u32_e32 v3, vcc, 0, v3, vcc
    run(&mut wave, &[0x3806_0680]);
    assert_eq!((wave.vgpr(3, 0), wave.vgpr(3, 1), wave.s64(106)), (1, 0, 0));
}

#[test]
fn scalar_conditions() {
    let mut wave = wave();
    // s_add_i32 s0, s1, s2: the condition is signed overflow; s_add_u32: the carry.
    for (a, b, sum, overflow, carry) in [
        (0x7fff_ffff, 1, 0x8000_0000, true, false),
        (u32::MAX, 1, 0, false, true),
        (0x8000_0000, 0x8000_0000, 0, true, true),
    ] {
        (wave.s[1], wave.s[2]) = (a, b);
        run(&mut wave, &[0x8100_0201]);
        assert_eq!((wave.s[0], wave.scc), (sum, overflow));
        run(&mut wave, &[0x8000_0201]);
        assert_eq!((wave.s[0], wave.scc), (sum, carry));
    }
    // s_bfe_i32 s0, s1, s2: offset 4, width 8 of 0xff0 is all ones; a width of 0 gives 0.
    (wave.s[1], wave.s[2]) = (0xff0, 8 << 16 | 4);
    run(&mut wave, &[0x9300_0201]);
    assert_eq!((wave.s[0], wave.scc), (u32::MAX, true));
    wave.s[2] = 4;
    run(&mut wave, &[0x9300_0201]);
    assert_eq!((wave.s[0], wave.scc), (0, false));
}

#[test]
fn sub_dword_and_cross_lane_operands() {
    let mut wave = wave();
    for lane in 0..64 {
        wave.set_vgpr(0, lane, 0x0102_ff04 + lane as u32);
        wave.set_vgpr(2, lane, 0xaaaa_aaaa);
    }
    // v_mov_b32_sdwa v2, sext(v0) dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_1
    run(&mut wave, &[0x7e04_02f9, 0x0009_1500]);
    assert_eq!(wave.vgpr(2, 0), 0xffff_aaaa, "byte 1 is 0xff, -1");
    // v_mov_b32_dpp v3, v0 row_shr:1 row_mask:0xf bank_mask:0xf: the first lane of a row has no source.
    wave.set_vgpr(3, 16, 99);
    run(&mut wave, &[0x7e06_02fa, 0xff01_1100]);
    assert_eq!([wave.vgpr(3, 16), wave.vgpr(3, 17), wave.vgpr(3, 31)], [99, 0x0102_ff14, 0x0102_ff22]);
    // v_mov_b32_dpp v3, v0 quad_perm:[3,2,1,0]
    run(&mut wave, &[0x7e06_02fa, 0xff00_1b00]);
    assert_eq!([wave.vgpr(3, 0), wave.vgpr(3, 1), wave.vgpr(3, 7)], [0x0102_ff07, 0x0102_ff06, 0x0102_ff08]);
}

#[test]
fn saturation() {
    let mut wave = wave();
    wave.set_vgpr(0, 0, 0xffff_fff0);
    // v_add_u32_e64 v2, v0, 32 clamp
    run(&mut wave, &[0xd134_8002, 0x0001_4100]);
    assert_eq!(wave.vgpr(2, 0), u32::MAX);
}

#[test]
fn vector_registers_are_relative_to_m0() {
    let mut wave = wave();
    for register in 0..16 {
        wave.set_vgpr(register, 3, 100 + u32::from(register));
    }
    (wave.s[0], wave.s[1]) = (0x1205, 252);
    // s_set_gpr_idx_on s0, gpr_idx(SRC0); v_mov_b32_e32 v2, v4: only the low byte of s0 counts, so the source is v9.
    run(&mut wave, &[0xbf11_0100]);
    run(&mut wave, &[0x7e04_0304]);
    assert_eq!((wave.vgpr(2, 3), wave.s[124] & 0xf0ff), (109, 0x1005));
    // s_set_gpr_idx_mode gpr_idx(DST): the destination is v7.
    run(&mut wave, &[0xbf9d_0008]);
    run(&mut wave, &[0x7e04_0304]);
    assert_eq!((wave.vgpr(2, 3), wave.vgpr(7, 3)), (109, 104));
    // s_set_gpr_idx_idx s1: v2 + 252 is v254; s_add_u32 s2, s0, s0 is no vector operation.
    run(&mut wave, &[0xbe80_3201]);
    run(&mut wave, &[0x7e04_0304]);
    run(&mut wave, &[0x8002_0000]);
    assert_eq!((wave.vgpr(254, 3), wave.s[2]), (104, 0x240a));
    // s_set_gpr_idx_off
    run(&mut wave, &[0xbf9c_0000]);
    run(&mut wave, &[0x7e04_0304]);
    assert_eq!(wave.vgpr(2, 3), 104);
}

#[test]
fn packed_saturation() {
    // (second word of the opcode, a, b, halves of the result): u16 ends at 0 and 0xffff, i16 at -0x8000 and 0x7fff.
    let cases: [(u32, u32, u32, u32); 4] = [
        (0xd38a_c002, 0xffff_0001, 0x0001_0002, 0xffff_0003), // v_pk_add_u16 v2, v0, v1 clamp
        (0xd38b_c002, 0x0001_0005, 0x0002_0003, 0x0000_0002), // v_pk_sub_u16
        (0xd382_c002, 0x7fff_8000, 0x0001_ffff, 0x7fff_8000), // v_pk_add_i16
        (0xd383_c002, 0x8000_7fff, 0x0001_ffff, 0x8000_7fff), // v_pk_sub_i16
    ];
    for (first, a, b, want) in cases {
        let mut wave = wave();
        wave.set_vgpr(0, 9, a);
        wave.set_vgpr(1, 9, b);
        run(&mut wave, &[first, 0x1802_0300]);
        assert_eq!(wave.vgpr(2, 9), want, "{first:x}");
    }
}

/// What LLVM 19's constant folder makes of `llvm.amdgcn.trig.preop.f64`.
#[test]
fn parts_of_two_by_pi() {
    let cases: [(u64, u32, u64); 7] = [
        (0x3ff0_0000_0000_0000, 0, 0x3fe4_5f30_6dc9_c882),
        (0x3ff0_0000_0000_0000, 1, 0x3c94_a7f0_9d5f_47d4),
        (1e300f64.to_bits(), 2, 0x066e_f14a_525d_4d7f),
        (0x7fe0_0000_0000_0000, 0, 0x0b43_dd63_f5f2_f8bc),
        (0x7fe0_0000_0000_0000, 31, 0),
        (0x4360_0000_0000_0000, 5, 0x2f42_371d_2126_e970),
        (0x7b10_0000_0000_0000, 3, 0x0637_8a52_92ea_6bfb),
    ];
    for (x, segment, want) in cases {
        let mut wave = wave();
        wave.set_vgpr(0, 1, x as u32);
        wave.set_vgpr(1, 1, (x >> 32) as u32);
        wave.s[2] = segment;
        // v_trig_preop_f64 v[2:3], v[0:1], s2
        run(&mut wave, &[0xd292_0002, 0x0000_0500]);
        let got = u64::from(wave.vgpr(2, 1)) | u64::from(wave.vgpr(3, 1)) << 32;
        assert_eq!(got, want, "{x:x} {segment}");
    }
}

/// Memory of two quad words at address 0x1000.
struct Quads([AtomicU64; 2]);

impl Memory for Quads {
    fn interrupt(&self, data: u32) {
        panic!("an interrupt with {data:#x}");
    }
    fn read(&self, addr: u64, _: &mut [u8]) -> Result<(), MemFault> {
        Nothing.read(addr, &mut [])
    }
    fn write(&self, addr: u64, _: &[u8]) -> Result<(), MemFault> {
        Nothing.write(addr, &[])
    }
    fn atomic_u32(&self, addr: u64, op: &mut dyn FnMut(u32) -> u32) -> Result<u32, MemFault> {
        let word = &self.0[(addr - 0x1000) as usize / 8];
        let old = word.load(Ordering::Relaxed);
        word.store(old & !0xffff_ffff | u64::from(op(old as u32)), Ordering::Relaxed);
        Ok(old as u32)
    }
    fn atomic_u64(&self, addr: u64, op: &mut dyn FnMut(u64) -> u64) -> Result<u64, MemFault> {
        let word = &self.0[(addr - 0x1000) as usize / 8];
        let old = word.load(Ordering::Relaxed);
        word.store(op(old), Ordering::Relaxed);
        Ok(old)
    }
}

#[test]
fn atomics_through_buffer_descriptors() {
    let memory = Quads([AtomicU64::new(0xffff_ffff_ffff_fffe), AtomicU64::new(7)]);
    let buffer = |words: &[u32], data: [u32; 4]| {
        let mut wave = wave();
        // Lane 0 alone. Base 0x1000, no stride, 16 bytes; v0 is the offset.
        wave.set_exec(1);
        wave.s[4..8].copy_from_slice(&[0x1000, 0, 16, 0]);
        wave.set_vgpr(0, 0, 8 * data[3]);
        (2..5).zip(data).for_each(|(register, word)| wave.set_vgpr(register, 0, word));
        wave.set_vgpr(5, 0, 0);
        run_with(&mut wave, words, &memory);
        [wave.vgpr(2, 0), wave.vgpr(3, 0)]
    };
    let now = || [0, 1].map(|at| memory.0[at].load(Ordering::Relaxed));
    // buffer_atomic_add_x2 v[2:3], v0, s[4:7], 0 offen glc: 3 more than -2, with the carry into the upper half.
    assert_eq!(buffer(&[0xe188_5000, 0x8001_0200], [3, 0, 0, 0]), [0xffff_fffe, 0xffff_ffff]);
    assert_eq!(now(), [1, 7]);
    // buffer_atomic_cmpswap v[2:3], v0, s[4:7], 0 offen glc: new 9 where it is 7; then it is 7 no more.
    assert_eq!(buffer(&[0xe104_5000, 0x8001_0200], [9, 7, 0, 1])[0], 7);
    assert_eq!(buffer(&[0xe104_5000, 0x8001_0200], [5, 7, 0, 1])[0], 9);
    assert_eq!(now(), [1, 9]);
    // buffer_atomic_cmpswap_x2 v[2:5], v0, s[4:7], 0 offen glc: new 0x2_0000_0005 where it is 1.
    assert_eq!(buffer(&[0xe184_5000, 0x8001_0200], [5, 2, 1, 0]), [1, 0]);
    assert_eq!(now(), [0x2_0000_0005, 9]);
    // buffer_atomic_smin v2, v0, s[4:7], 0 offen: -1 is less than 9.
    buffer(&[0xe110_1000, 0x8001_0200], [0xffff_ffff, 0, 0, 1]);
    assert_eq!(now()[1], 0xffff_ffff);
    // buffer_atomic_add_f32 v2, v0, s[4:7], 0 offen; beyond the 16 bytes nothing happens.
    memory.0[1].store(u64::from(1.5f32.to_bits()), Ordering::Relaxed);
    buffer(&[0xe134_1000, 0x8001_0200], [2.0f32.to_bits(), 0, 0, 1]);
    buffer(&[0xe134_1000, 0x8001_0200], [2.0f32.to_bits(), 0, 0, 2]);
    assert_eq!(now()[1], u64::from(3.5f32.to_bits()));
}

/// A matrix product whose element (i, j) is worked out from what the manual's tables say about lanes: for 32x32x2, lane `l` holds
/// A[l % 32][l / 32] and B[l / 32][l % 32], and register r of lane `l` is D[8 (r / 4) + 4 (l / 32) + r % 4][l % 32].
#[test]
fn matrix_operations() {
    let mut wave = wave();
    let a = |i: usize, k: usize| (i * 3 + k * 17) as f32 - 20.0;
    let b = |k: usize, j: usize| (j * 5 + k * 11) as f32 - 40.0;
    wave.set_exec(0);
    for lane in 0..64 {
        wave.set_vgpr(0, lane, a(lane % 32, lane / 32).to_bits());
        wave.set_vgpr(1, lane, b(lane / 32, lane % 32).to_bits());
        for r in 0..16 {
            wave.set_vgpr(16 + r, lane, 1.0f32.to_bits());
        }
    }
    // v_mfma_f32_32x32x2f32 v[16:31], v0, v1, v[16:31]
    run(&mut wave, &[0xd3c4_0010, 0x0442_0300]);
    for lane in 0..64usize {
        for r in 0..16usize {
            let (i, j) = (8 * (r / 4) + 4 * (lane / 32) + r % 4, lane % 32);
            let want = 1.0 + a(i, 0) * b(0, j) + a(i, 1) * b(1, j);
            assert_eq!(f32::from_bits(wave.vgpr(16 + r as u8, lane)), want, "{i} {j}");
        }
    }
}

/// What is not executed is known by name, so that it does not grow unseen.
#[test]
fn most_opcodes_are_executed() {
    for (family, table) in TABLES {
        let missing: Vec<_> = table.iter().filter(|op| !is_executed(op.name)).map(|op| op.name).collect();
        let most = match family {
            Family::Sop1 | Family::Sop2 | Family::Sopc | Family::Sopk | Family::Vopc => 2,
            Family::Sopp => 9,
            Family::Vop1 | Family::Vop2 => 12,
            Family::Vop3 => 25,
            Family::Vop3p => 26,
            Family::Ds => 17,
            Family::Flat | Family::Scratch | Family::Global => 6,
            // Scalar atomics, and buffers with formats: no compiler for compute makes them.
            Family::Smem => 66,
            Family::Mubuf => 18,
        };
        assert!(missing.len() <= most, "{family:?}: {} are not executed: {missing:?}", missing.len());
    }
}
