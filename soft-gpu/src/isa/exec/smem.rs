//! SMEM: scalar loads and stores.

use super::super::inst::{Inst, Src};
use super::wave::Wave;
use super::{Env, Flow, Line, Trap};

/// Base, offset and scalar offset; the lowest two bits are ignored.
fn address(w: &Wave, i: &Inst) -> u64 {
    let soffset = if i.soffset == Src::NONE { 0 } else { u64::from(w.scalar32(i.soffset, 0)) };
    let base = w.s64(usize::from(i.src[0].0));
    base.wrapping_add_signed(i64::from(i.imm)).wrapping_add(soffset) & !3
}

/// Base and number of bytes of a buffer descriptor.
fn buffer(w: &Wave, i: &Inst) -> (u64, u64) {
    let at = usize::from(i.src[0].0);
    let base = w.s64(at) & 0xffff_ffff_ffff;
    let stride = u64::from(w.s[(at + 1) & 127] >> 16 & 0x3fff);
    (base, u64::from(w.s[(at + 2) & 127]) * stride.max(1))
}

fn load(w: &mut Wave, i: &Inst, e: &Env<'_>, addr: u64) -> Result<Flow, Trap> {
    let mut bytes = [0; 64];
    let len = usize::from(i.op.dst.dwords()) * 4;
    e.memory.read(addr, &mut bytes[..len])?;
    for (index, word) in bytes[..len].chunks_exact(4).enumerate() {
        w.s[(usize::from(i.dst.0) + index) & 127] = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    }
    Ok(Flow::Next)
}

fn load_from_base(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    let addr = address(w, i);
    load(w, i, e, addr)
}

/// What lies behind the end of a buffer reads as zero.
fn load_from_buffer(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    let (base, len) = buffer(w, i);
    let soffset = if i.soffset == Src::NONE { 0 } else { u64::from(w.scalar32(i.soffset, 0)) };
    let offset = (u64::from(i.imm.cast_unsigned()) + soffset) & !3;
    if offset + u64::from(i.op.dst.dwords()) * 4 <= len {
        return load(w, i, e, base.wrapping_add(offset));
    }
    for index in 0..usize::from(i.op.dst.dwords()) {
        w.s[(usize::from(i.dst.0) + index) & 127] = 0;
    }
    Ok(Flow::Next)
}

fn store(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    let addr = address(w, i);
    for index in 0..usize::from(i.op.src[1].dwords()) {
        let word = w.s[(usize::from(i.src[1].0) + index) & 127];
        e.memory.write(addr.wrapping_add(index as u64 * 4), &word.to_le_bytes())?;
    }
    Ok(Flow::Next)
}

fn clock(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    w.set_s64(usize::from(i.dst.0), w.clock);
    Ok(Flow::Next)
}

/// Caches are not imitated.
fn nothing(_: &mut Wave, _: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    Ok(Flow::Next)
}

pub(super) const SMEM: &[Line] = &[
    ("s_load_dword", load_from_base),
    ("s_load_dwordx2", load_from_base),
    ("s_load_dwordx4", load_from_base),
    ("s_load_dwordx8", load_from_base),
    ("s_load_dwordx16", load_from_base),
    ("s_buffer_load_dword", load_from_buffer),
    ("s_buffer_load_dwordx2", load_from_buffer),
    ("s_buffer_load_dwordx4", load_from_buffer),
    ("s_buffer_load_dwordx8", load_from_buffer),
    ("s_buffer_load_dwordx16", load_from_buffer),
    ("s_store_dword", store),
    ("s_store_dwordx2", store),
    ("s_store_dwordx4", store),
    ("s_dcache_inv", nothing),
    ("s_dcache_wb", nothing),
    ("s_dcache_inv_vol", nothing),
    ("s_dcache_wb_vol", nothing),
    ("s_memtime", clock),
    ("s_memrealtime", clock),
];
