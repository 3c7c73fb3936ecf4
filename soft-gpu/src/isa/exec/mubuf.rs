//! MUBUF: memory through buffer descriptors, and cache control.

use std::sync::atomic::Ordering;

use super::super::inst::{Inst, Src, bit};
use super::ds::{decrement, increment};
use super::flat::{Place, add_halves, double, float, smax32, smax64, smin32, smin64};
use super::float::{max, min};
use super::memory::active;
use super::wave::{LANES, Wave};
use super::{Env, Flow, Line, Trap};

/// A buffer descriptor (the manuals' table of the buffer resource descriptor, GFX9).
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    base: u64,
    stride: u32,
    swizzle: bool,
    records: u32,
    /// Bytes of a swizzled element: 2, 4, 8 or 16.
    element: u32,
    /// Records of a swizzled block: 8, 16, 32 or 64.
    index_stride: u32,
    add_lane: bool,
}

impl Descriptor {
    fn of(w: &Wave, src: Src) -> Self {
        let word = |at: usize| w.s[(usize::from(src.0) + at) & 127];
        let third = word(3);
        Self {
            base: u64::from(word(0)) | u64::from(word(1) & 0xffff) << 32,
            stride: word(1) >> 16 & 0x3fff,
            swizzle: word(1) >> 31 != 0,
            records: word(2),
            element: 2 << (third >> 19 & 3),
            index_stride: 8 << (third >> 21 & 3),
            add_lane: third >> 23 & 1 != 0,
        }
    }

    /// Address of `offset` in record `index`; `None` outside.
    fn address(&self, index: u32, offset: u32, soffset: u32, size: u32) -> Option<u64> {
        let structured = self.stride != 0 && self.swizzle;
        let outside = if structured || self.add_lane {
            false
        } else if self.stride == 0 {
            u64::from(offset) + u64::from(size) > u64::from(self.records)
        } else {
            index >= self.records || offset >= self.stride
        };
        if outside {
            return None;
        }
        let within = if self.swizzle {
            let (block, record) = (index / self.index_stride, index % self.index_stride);
            let (element, byte) = (offset / self.element, offset % self.element);
            (u64::from(block) * u64::from(self.stride) + u64::from(element) * u64::from(self.element))
                * u64::from(self.index_stride)
                + u64::from(record) * u64::from(self.element)
                + u64::from(byte)
        } else {
            u64::from(index) * u64::from(self.stride) + u64::from(offset)
        };
        Some(self.base.wrapping_add(u64::from(soffset)).wrapping_add(within))
    }
}

/// Address of word `at` of a lane's data; words of swizzled buffers are apart.
fn address(w: &Wave, i: &Inst, d: &Descriptor, lane: usize, at: u32, size: u32) -> Option<u64> {
    let (has_index, has_offset) = (i.cache & bit::IDXEN != 0, i.cache & bit::OFFEN != 0);
    let register = |plus| if i.src[0] == Src::NONE { 0 } else { w.row(i.src[0], plus)[lane] };
    let index =
        if has_index { register(0) } else { 0 }.wrapping_add(if d.add_lane { lane as u32 } else { 0 });
    let offset = if has_offset { register(usize::from(has_index)) } else { 0 };
    let soffset = w.scalar32(i.soffset, 0);
    d.address(index, offset.wrapping_add_signed(i.imm).wrapping_add(at), soffset, size)
}

fn no_lds(i: &Inst) -> Result<(), Trap> {
    match i.cache & bit::LDS {
        0 => Ok(()),
        _ => Err(Trap::Unsupported { text: i.to_string(), why: "loads from buffers to LDS" }),
    }
}

fn load_words(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    no_lds(i)?;
    let d = Descriptor::of(w, i.src[2]);
    for lane in active(w.exec()) {
        let mut words = [0; 4];
        let count = usize::from(i.op.dst.dwords()).min(4);
        for (at, word) in words.iter_mut().enumerate().take(count) {
            if let Some(addr) = address(w, i, &d, lane, at as u32 * 4, 4) {
                let mut bytes = [0; 4];
                e.memory.read(addr, &mut bytes)?;
                *word = u32::from_le_bytes(bytes);
            }
        }
        for (at, word) in words.into_iter().enumerate().take(count) {
            w.row_mut(i.dst, at)[lane] = word;
        }
    }
    Ok(Flow::Next)
}

fn load_part<const N: usize>(
    w: &mut Wave,
    i: &Inst,
    e: &Env<'_>,
    f: impl Fn([u8; N], u32) -> u32,
) -> Result<Flow, Trap> {
    no_lds(i)?;
    let d = Descriptor::of(w, i.src[2]);
    for lane in active(w.exec()) {
        let mut bytes = [0; N];
        if let Some(addr) = address(w, i, &d, lane, 0, N as u32) {
            e.memory.read(addr, &mut bytes)?;
        }
        let row = w.row_mut(i.dst, 0);
        row[lane] = f(bytes, row[lane]);
    }
    Ok(Flow::Next)
}

fn store_words(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    let d = Descriptor::of(w, i.src[2]);
    for lane in active(w.exec()) {
        for at in 0..usize::from(i.op.src[0].dwords()) {
            if let Some(addr) = address(w, i, &d, lane, at as u32 * 4, 4) {
                e.memory.write(addr, &w.row(i.src[1], at)[lane].to_le_bytes())?;
            }
        }
    }
    Ok(Flow::Next)
}

fn store_part(w: &mut Wave, i: &Inst, e: &mut Env<'_>, len: usize, skip: usize) -> Result<Flow, Trap> {
    let d = Descriptor::of(w, i.src[2]);
    for lane in active(w.exec()) {
        if let Some(addr) = address(w, i, &d, lane, 0, len as u32) {
            e.memory.write(addr, &w.row(i.src[1], 0)[lane].to_le_bytes()[skip..skip + len])?;
        }
    }
    Ok(Flow::Next)
}

/// An atomic of 32 bits; `f` has the old value, the data and the second data register.
fn atomic32(w: &mut Wave, i: &Inst, e: &mut Env<'_>, f: impl Fn(u32, u32, u32) -> u32) -> Result<Flow, Trap> {
    let d = Descriptor::of(w, i.src[2]);
    let places: [Option<Place>; LANES] =
        std::array::from_fn(|lane| address(w, i, &d, lane, 0, 4).map(Place::Global));
    for lane in active(w.exec()) {
        let Some(Place::Global(addr)) = places[lane] else { continue };
        let (data, second) = (w.row(i.src[1], 0)[lane], w.row(i.src[1], 1)[lane]);
        let old = e.memory.atomic_u32(addr, &mut |old| f(old, data, second))?;
        if i.dst != Src::NONE {
            w.row_mut(i.dst, 0)[lane] = old;
        }
    }
    Ok(Flow::Next)
}

/// See [`atomic32`].
fn atomic64(w: &mut Wave, i: &Inst, e: &mut Env<'_>, f: impl Fn(u64, u64, u64) -> u64) -> Result<Flow, Trap> {
    let d = Descriptor::of(w, i.src[2]);
    let places: [Option<u64>; LANES] = std::array::from_fn(|lane| address(w, i, &d, lane, 0, 8));
    for lane in active(w.exec()) {
        let Some(addr) = places[lane] else { continue };
        let wide = |at| u64::from(w.row(i.src[1], at)[lane]) | u64::from(w.row(i.src[1], at + 1)[lane]) << 32;
        let (data, second) = (wide(0), wide(2));
        let old = e.memory.atomic_u64(addr, &mut |old| f(old, data, second))?;
        if i.dst != Src::NONE {
            w.row_mut(i.dst, 0)[lane] = old as u32;
            w.row_mut(i.dst, 1)[lane] = (old >> 32) as u32;
        }
    }
    Ok(Flow::Next)
}

/// Caches are not imitated; what was stored before is in memory before anything after is read, as others on other processors see it.
fn fence(_: &mut Wave, _: &Inst, _: &mut Env<'_>) -> Result<Flow, Trap> {
    std::sync::atomic::fence(Ordering::SeqCst);
    Ok(Flow::Next)
}

#[rustfmt::skip]
pub(super) const MUBUF: &[Line] = &[
    ("buffer_load_ubyte", |w, i, e| load_part::<1>(w, i, e, |[b], _| u32::from(b))),
    ("buffer_load_sbyte", |w, i, e| load_part::<1>(w, i, e, |[b], _| i32::from(b.cast_signed()).cast_unsigned())),
    ("buffer_load_ushort", |w, i, e| load_part::<2>(w, i, e, |b, _| u32::from(u16::from_le_bytes(b)))),
    ("buffer_load_sshort", |w, i, e| load_part::<2>(w, i, e, |b, _| i32::from(i16::from_le_bytes(b)).cast_unsigned())),
    ("buffer_load_ubyte_d16", |w, i, e| load_part::<1>(w, i, e, |[b], old| super::ds::low(u16::from(b), old))),
    ("buffer_load_ubyte_d16_hi", |w, i, e| load_part::<1>(w, i, e, |[b], old| super::ds::high(u16::from(b), old))),
    ("buffer_load_sbyte_d16", |w, i, e| load_part::<1>(w, i, e, |[b], old| super::ds::low(super::ds::signed(b), old))),
    ("buffer_load_sbyte_d16_hi", |w, i, e| load_part::<1>(w, i, e, |[b], old| super::ds::high(super::ds::signed(b), old))),
    ("buffer_load_short_d16", |w, i, e| load_part::<2>(w, i, e, |b, old| super::ds::low(u16::from_le_bytes(b), old))),
    ("buffer_load_short_d16_hi", |w, i, e| load_part::<2>(w, i, e, |b, old| super::ds::high(u16::from_le_bytes(b), old))),
    ("buffer_load_dword", load_words),
    ("buffer_load_dwordx2", load_words),
    ("buffer_load_dwordx3", load_words),
    ("buffer_load_dwordx4", load_words),
    ("buffer_store_byte", |w, i, e| store_part(w, i, e, 1, 0)),
    ("buffer_store_byte_d16_hi", |w, i, e| store_part(w, i, e, 1, 2)),
    ("buffer_store_short", |w, i, e| store_part(w, i, e, 2, 0)),
    ("buffer_store_short_d16_hi", |w, i, e| store_part(w, i, e, 2, 2)),
    ("buffer_store_dword", store_words),
    ("buffer_store_dwordx2", store_words),
    ("buffer_store_dwordx3", store_words),
    ("buffer_store_dwordx4", store_words),
    ("buffer_atomic_swap", |w, i, e| atomic32(w, i, e, |_, b, _| b)),
    ("buffer_atomic_swap_x2", |w, i, e| atomic64(w, i, e, |_, b, _| b)),
    ("buffer_atomic_cmpswap", |w, i, e| atomic32(w, i, e, |old, new, compare| if old == compare { new } else { old })),
    ("buffer_atomic_cmpswap_x2", |w, i, e| atomic64(w, i, e, |old, new, compare| if old == compare { new } else { old })),
    ("buffer_atomic_add", |w, i, e| atomic32(w, i, e, |a, b, _| a.wrapping_add(b))),
    ("buffer_atomic_add_x2", |w, i, e| atomic64(w, i, e, |a, b, _| a.wrapping_add(b))),
    ("buffer_atomic_sub", |w, i, e| atomic32(w, i, e, |a, b, _| a.wrapping_sub(b))),
    ("buffer_atomic_sub_x2", |w, i, e| atomic64(w, i, e, |a, b, _| a.wrapping_sub(b))),
    ("buffer_atomic_smin", |w, i, e| atomic32(w, i, e, |a, b, _| smin32(a, b))),
    ("buffer_atomic_smin_x2", |w, i, e| atomic64(w, i, e, |a, b, _| smin64(a, b))),
    ("buffer_atomic_umin", |w, i, e| atomic32(w, i, e, |a, b, _| a.min(b))),
    ("buffer_atomic_umin_x2", |w, i, e| atomic64(w, i, e, |a, b, _| a.min(b))),
    ("buffer_atomic_smax", |w, i, e| atomic32(w, i, e, |a, b, _| smax32(a, b))),
    ("buffer_atomic_smax_x2", |w, i, e| atomic64(w, i, e, |a, b, _| smax64(a, b))),
    ("buffer_atomic_umax", |w, i, e| atomic32(w, i, e, |a, b, _| a.max(b))),
    ("buffer_atomic_umax_x2", |w, i, e| atomic64(w, i, e, |a, b, _| a.max(b))),
    ("buffer_atomic_and", |w, i, e| atomic32(w, i, e, |a, b, _| a & b)),
    ("buffer_atomic_and_x2", |w, i, e| atomic64(w, i, e, |a, b, _| a & b)),
    ("buffer_atomic_or", |w, i, e| atomic32(w, i, e, |a, b, _| a | b)),
    ("buffer_atomic_or_x2", |w, i, e| atomic64(w, i, e, |a, b, _| a | b)),
    ("buffer_atomic_xor", |w, i, e| atomic32(w, i, e, |a, b, _| a ^ b)),
    ("buffer_atomic_xor_x2", |w, i, e| atomic64(w, i, e, |a, b, _| a ^ b)),
    ("buffer_atomic_inc", |w, i, e| atomic32(w, i, e, |a, b, _| increment(a, b))),
    ("buffer_atomic_inc_x2", |w, i, e| atomic64(w, i, e, |a, b, _| increment(a, b))),
    ("buffer_atomic_dec", |w, i, e| atomic32(w, i, e, |a, b, _| decrement(a, b))),
    ("buffer_atomic_dec_x2", |w, i, e| atomic64(w, i, e, |a, b, _| decrement(a, b))),
    ("buffer_atomic_add_f32", |w, i, e| atomic32(w, i, e, |a, b, _| float(a, b, |a, b| a + b))),
    ("buffer_atomic_pk_add_f16", |w, i, e| atomic32(w, i, e, |a, b, _| add_halves(a, b))),
    ("buffer_atomic_add_f64", |w, i, e| atomic64(w, i, e, |a, b, _| double(a, b, |a, b| a + b))),
    ("buffer_atomic_min_f64", |w, i, e| atomic64(w, i, e, |a, b, _| double(a, b, min))),
    ("buffer_atomic_max_f64", |w, i, e| atomic64(w, i, e, |a, b, _| double(a, b, max))),
    ("buffer_wbl2", fence),
    ("buffer_invl2", fence),
    ("buffer_inv", fence),
    ("buffer_wbinvl1", fence),
    ("buffer_wbinvl1_vol", fence),
];
