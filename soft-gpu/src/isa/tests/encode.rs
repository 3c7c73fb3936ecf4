//! The way back, for round trips: fields that an instruction does not use are zero.

use crate::isa::inst::{Form, Inst, Src, bit};
use crate::isa::op::{Arch, Family, flag};

/// Register number of an operand within 8 bits.
fn low8(src: Src) -> u32 {
    if src == Src::NONE { 0 } else { u32::from(src.0) & 0xff }
}

/// Nine bits of a source.
fn nine(src: Src) -> u32 {
    match src {
        Src::NONE => 0,
        Src(code @ 512..) => u32::from(code - 256),
        Src(code) => u32::from(code),
    }
}

fn imm(inst: &Inst, bits: u32) -> u32 {
    inst.imm.cast_unsigned() & ((1 << bits) - 1)
}

fn cache(inst: &Inst, places: &[(u8, u32)]) -> u32 {
    places.iter().filter(|(bit, _)| inst.cache & bit != 0).fold(0, |word, (_, at)| word | 1 << at)
}

fn acc(src: Src) -> u32 {
    u32::from(src != Src::NONE && src.0 >= 512)
}

/// The instruction's bytes.
pub(super) fn encode(inst: &Inst) -> Vec<u8> {
    let mut words = words(inst);
    let literal = inst.src.contains(&Src::LITERAL) || inst.op.name == "s_setreg_imm32_b32";
    if literal {
        words.push(inst.literal);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(inst: &Inst) -> Vec<u32> {
    let code = u32::from(inst.op.code);
    let [s0, s1, s2] = inst.src;
    match inst.family {
        Family::Sop2 => vec![0b10 << 30 | code << 23 | low8(inst.dst) << 16 | low8(s1) << 8 | low8(s0)],
        Family::Sop1 => vec![0b1_0111_1101 << 23 | low8(inst.dst) << 16 | code << 8 | low8(s0)],
        Family::Sopc => {
            let second = if s1 == Src::NONE { imm(inst, 8) } else { low8(s1) };
            vec![0b1_0111_1110 << 23 | code << 16 | second << 8 | low8(s0)]
        }
        Family::Sopp => vec![0b1_0111_1111 << 23 | code << 16 | imm(inst, 16)],
        Family::Sopk => {
            let register = if s0 == Src::NONE { inst.dst } else { s0 };
            vec![0b1011 << 28 | code << 23 | low8(register) << 16 | imm(inst, 16)]
        }
        Family::Smem => smem(inst, code),
        Family::Ds => vec![
            0b11_0110 << 26
                | (acc(inst.dst) | acc(s1)) << 25
                | code << 17
                | cache(inst, &[(bit::GDS, 16)])
                | imm(inst, 16),
            low8(inst.dst) << 24 | low8(s2) << 16 | low8(s1) << 8 | low8(s0),
        ],
        Family::Flat | Family::Scratch | Family::Global => flat(inst, code),
        Family::Mubuf => mubuf(inst, code),
        Family::Vop3p => vop3p(inst, code),
        Family::Vop3 => vop3(inst, code),
        Family::Vop2 | Family::Vop1 | Family::Vopc => match inst.form {
            Form::Long => vop3(
                inst,
                code + [0x100, 0x140, 0]
                    [usize::from(inst.family == Family::Vop1) + 2 * usize::from(inst.family == Family::Vopc)],
            ),
            _ => short(inst, code),
        },
    }
}

fn smem(inst: &Inst, code: u32) -> Vec<u32> {
    let data = match () {
        () if inst.op.is(flag::STORE) => low8(inst.src[1]),
        () if inst.op.name.starts_with("s_atc_probe") => u32::from(inst.matrix[0]),
        () => low8(inst.dst),
    };
    let has_base = !inst.op.src.is_empty();
    let (soe, immediate) =
        (inst.soffset != Src::NONE, has_base && (inst.soffset == Src::NONE || inst.imm != 0));
    // A scalar offset alone stands in the offset's field.
    let (soe, offset, soffset) = match (soe, immediate) {
        (true, false) => (false, low8(inst.soffset), 0),
        (soe, _) => (soe, imm(inst, 21), low8(inst.soffset)),
    };
    vec![
        0b11_0000 << 26
            | code << 18
            | u32::from(immediate) << 17
            | cache(inst, &[(bit::GLC, 16), (bit::NV, 15)])
            | u32::from(soe) << 14
            | data << 6
            | (low8(inst.src[0]) / 2),
        soffset << 25 | offset,
    ]
}

fn flat(inst: &Inst, code: u32) -> Vec<u32> {
    let segment = match inst.family {
        Family::Flat => 0,
        Family::Scratch => 1,
        _ => 2,
    };
    let sve = inst.family == Family::Scratch && inst.arch == Arch::Gfx942 && inst.src[0] != Src::NONE;
    let saddr = match inst.src[2] {
        Src::NONE if segment == 0 => 0,
        Src::NONE => 127,
        saddr => low8(saddr),
    };
    vec![
        0b11_0111 << 26
            | cache(inst, &[(bit::SCC, 25), (bit::SLC, 17), (bit::GLC, 16)])
            | code << 18
            | segment << 14
            | u32::from(sve) << 13
            | imm(inst, if segment == 0 { 12 } else { 13 }),
        low8(inst.dst) << 24
            | (acc(inst.dst) | acc(inst.src[1])) << 23
            | saddr << 16
            | low8(inst.src[1]) << 8
            | low8(inst.src[0]),
    ]
}

fn mubuf(inst: &Inst, code: u32) -> Vec<u32> {
    let data = if inst.src[1] == Src::NONE { inst.dst } else { inst.src[1] };
    let places =
        [(bit::SLC, 17), (bit::LDS, 16), (bit::SCC, 15), (bit::GLC, 14), (bit::IDXEN, 13), (bit::OFFEN, 12)];
    vec![
        0b11_1000 << 26 | code << 18 | cache(inst, &places) | imm(inst, 12),
        low8(inst.soffset) << 24
            | acc(data) << 23
            | (low8(inst.src[2]) / 4) << 16
            | low8(data) << 8
            | low8(inst.src[0]),
    ]
}

fn sources(inst: &Inst) -> u32 {
    nine(inst.src[2]) << 18 | nine(inst.src[1]) << 9 | nine(inst.src[0])
}

fn vop3(inst: &Inst, code: u32) -> Vec<u32> {
    let m = inst.mods;
    let dst = if inst.family == Family::Vopc { low8(inst.sdst) } else { low8(inst.dst) };
    let middle = if inst.op.is(flag::CARRY_OUT) {
        low8(inst.sdst) << 8
    } else {
        u32::from(m.op_sel) << 11 | u32::from(m.abs) << 8
    };
    vec![
        0b11_0100 << 26 | code << 16 | u32::from(m.clamp) << 15 | middle | dst,
        u32::from(m.neg) << 29 | u32::from(m.omod) << 27 | sources(inst),
    ]
}

fn vop3p(inst: &Inst, code: u32) -> Vec<u32> {
    let m = inst.mods;
    let first = 0b1_1010_0111 << 23 | code << 16 | low8(inst.dst);
    if inst.is_matrix() {
        let [cbsz, abid, blgp] = inst.matrix.map(u32::from);
        // Whether A and B are accumulation registers stands apart from their numbers.
        let [a, b, c] = inst.src.map(|src| if src.is_vector() { 256 | low8(src) } else { nine(src) });
        return vec![
            first | acc(inst.dst) << 15 | abid << 11 | cbsz << 8,
            blgp << 29 | acc(inst.src[1]) << 28 | acc(inst.src[0]) << 27 | c << 18 | b << 9 | a,
        ];
    }
    // Sources that are not there select their upper half, as assemblers write it; accvgpr ones select it of two.
    let unused = if inst.op.name.starts_with("v_accvgpr") { 7 } else { !((1 << inst.op.src.len()) - 1) & 7 };
    let hi = u32::from(m.op_sel_hi) | unused;
    vec![
        first
            | u32::from(m.clamp) << 15
            | (hi >> 2 & 1) << 14
            | u32::from(m.op_sel) << 11
            | u32::from(m.abs) << 8,
        u32::from(m.neg) << 29 | (hi & 3) << 27 | sources(inst),
    ]
}

fn short(inst: &Inst, code: u32) -> Vec<u32> {
    let m = inst.mods;
    let first = match inst.form {
        Form::Sdwa(_) => 249,
        Form::Dpp(_) => 250,
        _ => nine(inst.src[0]),
    };
    // The second register of `v_madmk` is its third source.
    let second = if inst.op.is(flag::MADMK) { inst.src[2] } else { inst.src[1] };
    let word = first
        | match inst.family {
            Family::Vop2 => code << 25 | low8(inst.dst) << 17 | low8(second) << 9,
            Family::Vop1 => 0b011_1111 << 25 | low8(inst.dst) << 17 | code << 9,
            _ => 0b011_1110 << 25 | code << 17 | low8(second) << 9,
        };
    let bit = |mask: u8, at: u8| u32::from(mask >> at & 1);
    match inst.form {
        Form::Sdwa(s) => {
            let scalar = |src: Src| u32::from(src != Src::NONE && !src.is_vector());
            let dst = if inst.family == Family::Vopc {
                let vcc = inst.sdst == Src::VCC;
                if vcc { 0 } else { 1 << 15 | low8(inst.sdst) << 8 }
            } else {
                u32::from(m.omod) << 14
                    | u32::from(m.clamp) << 13
                    | u32::from(s.dst_unused) << 11
                    | u32::from(s.dst_sel) << 8
            };
            let second = if inst.op.src.len() > 1 {
                scalar(inst.src[1]) << 31
                    | bit(m.abs, 1) << 29
                    | bit(m.neg, 1) << 28
                    | bit(s.sext, 1) << 27
                    | u32::from(s.src_sel[1]) << 24
            } else {
                0
            };
            let w1 = second
                | scalar(inst.src[0]) << 23
                | bit(m.abs, 0) << 21
                | bit(m.neg, 0) << 20
                | bit(s.sext, 0) << 19
                | u32::from(s.src_sel[0]) << 16
                | dst
                | low8(inst.src[0]);
            vec![word, w1]
        }
        Form::Dpp(d) => vec![
            word,
            u32::from(d.row_mask) << 28
                | u32::from(d.bank_mask) << 24
                | bit(m.abs, 1) << 23
                | bit(m.neg, 1) << 22
                | bit(m.abs, 0) << 21
                | bit(m.neg, 0) << 20
                | u32::from(d.bound_ctrl) << 19
                | u32::from(d.ctrl) << 8
                | low8(inst.src[0]),
        ],
        _ => {
            let mut words = vec![word];
            if (inst.op.is(flag::MADMK) || inst.op.is(flag::MADAK)) && !inst.src.contains(&Src::LITERAL) {
                words.push(inst.literal);
            }
            words
        }
    }
}
