//! FLAT, SCRATCH, GLOBAL: memory by address.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::super::inst::{Inst, Src};
use super::super::op::{Arch, Family};
use super::ds::{decrement, high, increment, low, signed};
use super::f16::F16;
use super::float::{max, min};
use super::memory::active;
use super::wave::{FLAT_SCRATCH, LANES, Row, Wave};
use super::wide::widely;
use super::{Env, Flow, Line, MemFault, Trap};

/// Where one lane's access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Memory.
    Global(u64),
    /// The local data share.
    Lds(u32),
    /// Private memory: byte offset within the lane's part.
    Private(u32),
}

/// Base of the wave's private memory.
pub(super) fn scratch_base(w: &Wave) -> u64 {
    match w.arch {
        Arch::Gfx90a => w.s64(FLAT_SCRATCH),
        Arch::Gfx942 => w.scratch_base,
    }
}

/// Private memory is laid out so that the same word of all lanes is contiguous.
pub(super) fn private_address(w: &Wave, offset: u32, lane: usize) -> u64 {
    let word = u64::from(offset / 4) * 256 + lane as u64 * 4;
    scratch_base(w).wrapping_add(word + u64::from(offset % 4))
}

fn place(w: &Wave, i: &Inst, lane: usize) -> Place {
    let offset = i.imm;
    let vector = |wide: bool| match i.src[0] {
        Src::NONE => 0,
        src if wide => u64::from(w.row(src, 0)[lane]) | u64::from(w.row(src, 1)[lane]) << 32,
        src => u64::from(w.row(src, 0)[lane]),
    };
    match (i.family, i.src[2]) {
        (Family::Scratch, saddr) => {
            let scalar = if saddr == Src::NONE { 0 } else { w.s[usize::from(saddr.0) & 127] };
            Place::Private((vector(false) as u32).wrapping_add(scalar).wrapping_add_signed(offset))
        }
        (Family::Global, saddr) if saddr != Src::NONE => {
            let base = w.s64(usize::from(saddr.0));
            Place::Global(base.wrapping_add(vector(false)).wrapping_add_signed(i64::from(offset)))
        }
        (family, _) => {
            let addr = vector(true).wrapping_add_signed(i64::from(offset));
            match family {
                Family::Flat if w.shared.contains(addr) => Place::Lds(addr as u32),
                Family::Flat if w.private.contains(addr) => Place::Private(addr as u32),
                _ => Place::Global(addr),
            }
        }
    }
}

impl Env<'_> {
    /// Reads a lane's bytes.
    pub(super) fn load(&self, w: &Wave, place: Place, lane: usize, buf: &mut [u8]) -> Result<(), MemFault> {
        match place {
            Place::Global(addr) => self.memory.read(addr, buf),
            Place::Lds(addr) => {
                for (at, byte) in (0..).zip(buf) {
                    [*byte] = self.lds.read(addr.wrapping_add(at));
                }
                Ok(())
            }
            Place::Private(offset) => pieces(offset, buf.len()).try_for_each(|(at, len)| {
                let addr = private_address(w, offset.wrapping_add(at as u32), lane);
                self.memory.read(addr, &mut buf[at..at + len])
            }),
        }
    }

    /// Writes a lane's bytes.
    pub(super) fn store(&mut self, w: &Wave, place: Place, lane: usize, data: &[u8]) -> Result<(), MemFault> {
        match place {
            Place::Global(addr) => self.memory.write(addr, data),
            Place::Lds(addr) => {
                self.lds.write(addr, data);
                Ok(())
            }
            Place::Private(offset) => pieces(offset, data.len()).try_for_each(|(at, len)| {
                let addr = private_address(w, offset.wrapping_add(at as u32), lane);
                self.memory.write(addr, &data[at..at + len])
            }),
        }
    }

    fn atomic32(
        &mut self,
        w: &Wave,
        place: Place,
        lane: usize,
        f: &mut dyn FnMut(u32) -> u32,
    ) -> Result<u32, MemFault> {
        match place {
            Place::Global(addr) => self.memory.atomic_u32(addr, f),
            Place::Private(offset) => self.memory.atomic_u32(private_address(w, offset, lane), f),
            Place::Lds(addr) => {
                let old = u32::from_le_bytes(self.lds.read(addr));
                self.lds.write(addr, &f(old).to_le_bytes());
                Ok(old)
            }
        }
    }

    fn atomic64(
        &mut self,
        w: &Wave,
        place: Place,
        lane: usize,
        f: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemFault> {
        if let Place::Global(addr) = place {
            return self.memory.atomic_u64(addr, f);
        }
        // Nobody else reaches a lane's private memory or, while this wave runs, its group's LDS.
        let mut bytes = [0; 8];
        self.load(w, place, lane, &mut bytes)?;
        let old = u64::from_le_bytes(bytes);
        self.store(w, place, lane, &f(old).to_le_bytes())?;
        Ok(old)
    }
}

/// Parts of an access to private memory that lie within a word each.
fn pieces(offset: u32, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = (4 - (offset as usize + at) % 4).min(len - at);
        let start = at;
        at += piece;
        (piece != 0).then_some((start, piece))
    })
}

/// Where the lanes of an access go, all active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// All to the same bytes of memory.
    Uniform(u64),
    /// To one contiguous piece of memory, in order of the lanes.
    Contiguous(u64),
    /// Anything else.
    Each,
}

/// How far the offsets of all lanes are from the first one's: 0, `size` each, or anything.
#[inline(always)]
pub(super) fn stride(row: &Row, size: u32) -> Option<u32> {
    let first = row[0];
    let step = row[1].wrapping_sub(first);
    if step != 0 && step != size {
        return None;
    }
    // The last lane's bytes must not lie behind a wrap of 32 bits.
    first.checked_add(64 * size)?;
    let mut differs = 0;
    for lane in 0..LANES {
        differs |= row[lane] ^ first.wrapping_add(lane as u32 * step);
    }
    (differs == 0).then_some(step)
}

/// Recognises what most accesses of most kernels are.
fn pattern(w: &Wave, i: &Inst, size: u32) -> Pattern {
    if w.exec() != u64::MAX || i.family == Family::Scratch || i.src[0] == Src::NONE {
        return Pattern::Each;
    }
    let low = w.row(i.src[0], 0);
    let is_wide = i.family == Family::Flat || i.src[2] == Src::NONE;
    let step = widely(
        w.wide,
        #[inline(always)]
        || {
            if is_wide {
                let high = w.row(i.src[0], 1);
                let differs = high.iter().fold(0, |differs, word| differs | (word ^ high[0]));
                if differs != 0 {
                    return None;
                }
            }
            stride(low, size)
        },
    );
    let (Some(step), Place::Global(first)) = (step, place(w, i, 0)) else { return Pattern::Each };
    let last = first.wrapping_add(64 * u64::from(size));
    if i.family == Family::Flat && (w.shared.contains(last) || w.private.contains(last)) {
        return Pattern::Each;
    }
    if step == 0 { Pattern::Uniform(first) } else { Pattern::Contiguous(first) }
}

/// The addresses of all lanes, if they are all in memory.
fn addresses(w: &Wave, i: &Inst) -> Option<[u64; LANES]> {
    if i.family == Family::Scratch {
        return None;
    }
    let is_wide = i.family == Family::Flat || i.src[2] == Src::NONE;
    let base = if is_wide { 0 } else { w.s64(usize::from(i.src[2].0)) }.wrapping_add_signed(i64::from(i.imm));
    let mut out = [base; LANES];
    if i.src[0] != Src::NONE {
        widely(
            w.wide,
            #[inline(always)]
            || {
                let low = w.row(i.src[0], 0);
                for lane in 0..LANES {
                    out[lane] = out[lane].wrapping_add(u64::from(low[lane]));
                }
                if is_wide {
                    let high = w.row(i.src[0], 1);
                    for lane in 0..LANES {
                        out[lane] = out[lane].wrapping_add(u64::from(high[lane]) << 32);
                    }
                }
            },
        );
    }
    if i.family == Family::Flat
        && active(w.exec()).any(|lane| w.shared.contains(out[lane]) || w.private.contains(out[lane]))
    {
        return None;
    }
    Some(out)
}

/// The bytes of the active lanes, `len` of each.
fn load_bytes(w: &Wave, i: &Inst, e: &Env<'_>, len: usize) -> Result<[[u8; 16]; LANES], MemFault> {
    let mut out = [[0; 16]; LANES];
    match addresses(w, i) {
        Some(addrs) => e.memory.gather(w.exec(), &addrs, len, &mut out)?,
        None => {
            for lane in active(w.exec()) {
                e.load(w, place(w, i, lane), lane, &mut out[lane][..len])?;
            }
        }
    }
    Ok(out)
}

/// Loads `N` bytes for each lane; `f` makes the first register of them and of its old value.
fn load<const N: usize>(
    w: &mut Wave,
    i: &Inst,
    e: &Env<'_>,
    f: impl Fn([u8; N], u32) -> u32,
) -> Result<Flow, Trap> {
    let bytes = load_bytes(w, i, e, N)?;
    let exec = w.exec();
    let row = w.row_mut(i.dst, 0);
    for lane in active(exec) {
        let mut part = [0; N];
        part.copy_from_slice(&bytes[lane][..N]);
        row[lane] = f(part, row[lane]);
    }
    Ok(Flow::Next)
}

/// Word `at` of a lane's bytes.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    let at = at * 4;
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Loads whole registers.
fn load_words<const N: usize>(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    match pattern(w, i, 4 * N as u32) {
        Pattern::Contiguous(addr) => {
            if N == 1 && cfg!(target_endian = "little") {
                e.memory.read(addr, w.row_mut(i.dst, 0).as_mut_bytes())?;
                return Ok(Flow::Next);
            }
            let mut words = [[U32::ZERO; N]; LANES];
            e.memory.read(addr, words.as_mut_bytes())?;
            spread(w, i.dst, &words);
        }
        Pattern::Uniform(addr) => {
            let mut words = [U32::ZERO; N];
            e.memory.read(addr, words.as_mut_bytes())?;
            for at in 0..N {
                *w.row_mut(i.dst, at) = [words[at].get(); LANES];
            }
        }
        Pattern::Each => {
            let bytes = load_bytes(w, i, e, 4 * N)?;
            let exec = w.exec();
            for at in 0..N {
                let row = w.row_mut(i.dst, at);
                for lane in active(exec) {
                    row[lane] = word(&bytes[lane], at);
                }
            }
        }
    }
    Ok(Flow::Next)
}

/// Stores `len` bytes of each lane, from byte `skip` of its registers on.
fn store(w: &mut Wave, i: &Inst, e: &mut Env<'_>, len: usize, skip: usize) -> Result<Flow, Trap> {
    let words = (skip + len).div_ceil(4);
    let mut data = [[0; 16]; LANES];
    for at in 0..words {
        let row = w.row(i.src[1], at);
        for lane in 0..LANES {
            data[lane][at * 4..at * 4 + 4].copy_from_slice(&row[lane].to_le_bytes());
        }
    }
    match addresses(w, i) {
        Some(addrs) => e.memory.scatter(w.exec(), &addrs, skip..skip + len, &data)?,
        None => {
            for lane in active(w.exec()) {
                e.store(w, place(w, i, lane), lane, &data[lane][skip..skip + len])?;
            }
        }
    }
    Ok(Flow::Next)
}

/// Stores whole registers.
fn store_words<const N: usize>(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Result<Flow, Trap> {
    let Pattern::Contiguous(addr) = pattern(w, i, 4 * N as u32) else { return store(w, i, e, 4 * N, 0) };
    if N == 1 && cfg!(target_endian = "little") {
        e.memory.write(addr, w.row(i.src[1], 0).as_bytes())?;
    } else {
        e.memory.write(addr, collect::<N>(w, i.src[1]).as_bytes())?;
    }
    Ok(Flow::Next)
}

/// Writes the words of each lane to as many registers.
pub(super) fn spread<const N: usize>(w: &mut Wave, dst: Src, words: &[[U32; N]; LANES]) {
    let mut rows = [[0; LANES]; N];
    widely(
        w.wide,
        #[inline(always)]
        || {
            for lane in 0..LANES {
                for at in 0..N {
                    rows[at][lane] = words[lane][at].get();
                }
            }
        },
    );
    for (at, row) in rows.iter().enumerate() {
        *w.row_mut(dst, at) = *row;
    }
}

/// The words of each lane of `N` registers.
pub(super) fn collect<const N: usize>(w: &Wave, src: Src) -> [[U32; N]; LANES] {
    let rows: [&Row; N] = std::array::from_fn(|at| w.row(src, at));
    let mut words = [[U32::ZERO; N]; LANES];
    widely(
        w.wide,
        #[inline(always)]
        || {
            for lane in 0..LANES {
                for at in 0..N {
                    words[lane][at].set(rows[at][lane]);
                }
            }
        },
    );
    words
}

/// An atomic of 32 bits; `f` has the old value, the data and the second data register.
fn atomic32(w: &mut Wave, i: &Inst, e: &mut Env<'_>, f: impl Fn(u32, u32, u32) -> u32) -> Result<Flow, Trap> {
    let places: [Place; LANES] = std::array::from_fn(|lane| place(w, i, lane));
    for lane in active(w.exec()) {
        let (data, second) = (w.row(i.src[1], 0)[lane], w.row(i.src[1], 1)[lane]);
        let old = e.atomic32(w, places[lane], lane, &mut |old| f(old, data, second))?;
        if i.dst != Src::NONE {
            w.row_mut(i.dst, 0)[lane] = old;
        }
    }
    Ok(Flow::Next)
}

/// See [`atomic32`].
fn atomic64(w: &mut Wave, i: &Inst, e: &mut Env<'_>, f: impl Fn(u64, u64, u64) -> u64) -> Result<Flow, Trap> {
    let places: [Place; LANES] = std::array::from_fn(|lane| place(w, i, lane));
    for lane in active(w.exec()) {
        let wide = |at| u64::from(w.row(i.src[1], at)[lane]) | u64::from(w.row(i.src[1], at + 1)[lane]) << 32;
        let (data, second) = (wide(0), wide(2));
        let old = e.atomic64(w, places[lane], lane, &mut |old| f(old, data, second))?;
        if i.dst != Src::NONE {
            w.row_mut(i.dst, 0)[lane] = old as u32;
            w.row_mut(i.dst, 1)[lane] = (old >> 32) as u32;
        }
    }
    Ok(Flow::Next)
}

pub(super) fn float(old: u32, data: u32, f: impl Fn(f32, f32) -> f32) -> u32 {
    f(f32::from_bits(old), f32::from_bits(data)).to_bits()
}

pub(super) fn double(old: u64, data: u64, f: impl Fn(f64, f64) -> f64) -> u64 {
    f(f64::from_bits(old), f64::from_bits(data)).to_bits()
}

pub(super) fn add_halves(old: u32, data: u32) -> u32 {
    let sum = |shift: u32| {
        let half = |word: u32| F16((word >> shift) as u16).to_f32();
        u32::from(F16::from_f32(half(old) + half(data)).0) << shift
    };
    sum(0) | sum(16)
}

pub(super) fn smin32(old: u32, data: u32) -> u32 {
    old.cast_signed().min(data.cast_signed()).cast_unsigned()
}

pub(super) fn smax32(old: u32, data: u32) -> u32 {
    old.cast_signed().max(data.cast_signed()).cast_unsigned()
}

pub(super) fn smin64(old: u64, data: u64) -> u64 {
    old.cast_signed().min(data.cast_signed()).cast_unsigned()
}

pub(super) fn smax64(old: u64, data: u64) -> u64 {
    old.cast_signed().max(data.cast_signed()).cast_unsigned()
}

/// A line for each of the segments that have the opcode.
macro_rules! lines {
    ($($name:literal => $body:expr;)*) => {
        &[$((concat!("flat_", $name), $body), (concat!("global_", $name), $body), (concat!("scratch_", $name), $body)),*]
    };
}

#[rustfmt::skip]
pub(super) const FLAT: &[Line] = lines! {
    "load_ubyte" => |w, i, e| load::<1>(w, i, e, |[b], _| u32::from(b));
    "load_sbyte" => |w, i, e| load::<1>(w, i, e, |[b], _| i32::from(b.cast_signed()).cast_unsigned());
    "load_ushort" => |w, i, e| load::<2>(w, i, e, |b, _| u32::from(u16::from_le_bytes(b)));
    "load_sshort" => |w, i, e| load::<2>(w, i, e, |b, _| i32::from(i16::from_le_bytes(b)).cast_unsigned());
    "load_ubyte_d16" => |w, i, e| load::<1>(w, i, e, |[b], old| low(u16::from(b), old));
    "load_ubyte_d16_hi" => |w, i, e| load::<1>(w, i, e, |[b], old| high(u16::from(b), old));
    "load_sbyte_d16" => |w, i, e| load::<1>(w, i, e, |[b], old| low(signed(b), old));
    "load_sbyte_d16_hi" => |w, i, e| load::<1>(w, i, e, |[b], old| high(signed(b), old));
    "load_short_d16" => |w, i, e| load::<2>(w, i, e, |b, old| low(u16::from_le_bytes(b), old));
    "load_short_d16_hi" => |w, i, e| load::<2>(w, i, e, |b, old| high(u16::from_le_bytes(b), old));
    "load_dword" => load_words::<1>;
    "load_dwordx2" => load_words::<2>;
    "load_dwordx3" => load_words::<3>;
    "load_dwordx4" => load_words::<4>;
    "store_byte" => |w, i, e| store(w, i, e, 1, 0);
    "store_byte_d16_hi" => |w, i, e| store(w, i, e, 1, 2);
    "store_short" => |w, i, e| store(w, i, e, 2, 0);
    "store_short_d16_hi" => |w, i, e| store(w, i, e, 2, 2);
    "store_dword" => store_words::<1>;
    "store_dwordx2" => store_words::<2>;
    "store_dwordx3" => store_words::<3>;
    "store_dwordx4" => store_words::<4>;
    "atomic_swap" => |w, i, e| atomic32(w, i, e, |_, data, _| data);
    "atomic_cmpswap" => |w, i, e| atomic32(w, i, e, |old, new, compare| if old == compare { new } else { old });
    "atomic_add" => |w, i, e| atomic32(w, i, e, |old, data, _| old.wrapping_add(data));
    "atomic_sub" => |w, i, e| atomic32(w, i, e, |old, data, _| old.wrapping_sub(data));
    "atomic_smin" => |w, i, e| atomic32(w, i, e, |old, data, _| smin32(old, data));
    "atomic_umin" => |w, i, e| atomic32(w, i, e, |old, data, _| old.min(data));
    "atomic_smax" => |w, i, e| atomic32(w, i, e, |old, data, _| smax32(old, data));
    "atomic_umax" => |w, i, e| atomic32(w, i, e, |old, data, _| old.max(data));
    "atomic_and" => |w, i, e| atomic32(w, i, e, |old, data, _| old & data);
    "atomic_or" => |w, i, e| atomic32(w, i, e, |old, data, _| old | data);
    "atomic_xor" => |w, i, e| atomic32(w, i, e, |old, data, _| old ^ data);
    "atomic_inc" => |w, i, e| atomic32(w, i, e, |old, data, _| increment(old, data));
    "atomic_dec" => |w, i, e| atomic32(w, i, e, |old, data, _| decrement(old, data));
    "atomic_add_f32" => |w, i, e| atomic32(w, i, e, |old, data, _| float(old, data, |a, b| a + b));
    "atomic_pk_add_f16" => |w, i, e| atomic32(w, i, e, |old, data, _| add_halves(old, data));
    "atomic_swap_x2" => |w, i, e| atomic64(w, i, e, |_, data, _| data);
    "atomic_cmpswap_x2" => |w, i, e| atomic64(w, i, e, |old, new, compare| if old == compare { new } else { old });
    "atomic_add_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| old.wrapping_add(data));
    "atomic_sub_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| old.wrapping_sub(data));
    "atomic_smin_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| smin64(old, data));
    "atomic_umin_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| old.min(data));
    "atomic_smax_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| smax64(old, data));
    "atomic_umax_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| old.max(data));
    "atomic_and_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| old & data);
    "atomic_or_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| old | data);
    "atomic_xor_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| old ^ data);
    "atomic_inc_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| increment(old, data));
    "atomic_dec_x2" => |w, i, e| atomic64(w, i, e, |old, data, _| decrement(old, data));
    "atomic_add_f64" => |w, i, e| atomic64(w, i, e, |old, data, _| double(old, data, |a, b| a + b));
    "atomic_min_f64" => |w, i, e| atomic64(w, i, e, |old, data, _| double(old, data, min));
    "atomic_max_f64" => |w, i, e| atomic64(w, i, e, |old, data, _| double(old, data, max));
};
