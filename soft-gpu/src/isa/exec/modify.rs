//! What an instruction says about its sources and its result: SDWA, DPP, signs, output modifiers, denormals.

use super::super::inst::{Form, Inst, Sdwa};
use super::super::op::{Family, flag};
use super::dpp::{dpp_lanes, moved, write_mask};
use super::operands::Registers;
use super::value::Kind;
use super::wave::{LANES, Row, Wave};

/// NaN becomes 0, as with DX10_CLAMP, which compilers set.
pub(super) fn clamp(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

/// Applies everything that an instruction says about source `n`.
#[cold]
pub(super) fn modify_32<'a>(wave: &Wave, inst: &Inst, n: usize, kind: Kind, values: &'a mut Row) -> &'a Row {
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
    if wave.flushes_sources(kind) && !looks_at_denormals(inst) {
        values.iter_mut().for_each(|value| *value = u32::flush(kind, *value));
    }
    values
}

/// See [`modify_32`].
#[cold]
pub(super) fn modify_64<'a>(
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
    if wave.flushes_sources(kind) && !looks_at_denormals(inst) {
        values.iter_mut().for_each(|value| *value = u64::flush(kind, *value));
    }
    values
}

/// Classes are those of the numbers as they are.
fn looks_at_denormals(inst: &Inst) -> bool {
    inst.family == Family::Vopc && inst.op.name.contains("_class_")
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

/// Flushes, clamps and scales; returns the lanes to write.
#[cold]
pub(super) fn finished<B: Registers>(wave: &Wave, inst: &Inst, kind: Kind, values: &mut [B; LANES]) -> u64 {
    if wave.flushes_results(kind) {
        values.iter_mut().for_each(|value| *value = B::flush(kind, *value));
    }
    if inst.mods.clamp || inst.mods.omod != 0 {
        for value in values {
            *value = B::finish(inst, kind, *value);
        }
    }
    write_mask(wave, inst)
}

#[cold]
pub(super) fn modified_result_32(wave: &mut Wave, inst: &Inst, kind: Kind, values: &Row) {
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
    if wave.flushes_results(kind) {
        values.iter_mut().for_each(|value| *value = u32::flush(kind, *value));
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
