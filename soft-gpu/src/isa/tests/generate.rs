//! Instructions from random words: the opcode is chosen, everything else is chance.

use super::encode::encode;
use crate::isa::decode::decode;
use crate::isa::inst::Inst;
use crate::isa::op::{Arch, Family};
use crate::isa::table::TABLES;

/// A small generator of random numbers (xorshift64*), so that a seed says everything.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// A word with about an eighth, half or three quarters of its bits set, so that rare combinations of modifiers
    /// come too.
    fn sparse_word(&mut self) -> u32 {
        match self.next() >> 60 {
            0..4 => self.word() & self.word() & self.word(),
            4..8 => self.word() | self.word(),
            _ => self.word(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }
}

/// The bits that select an opcode of a family: (bits, mask) of the first word.
fn selector(family: Family, code: u32) -> (u32, u32) {
    match family {
        Family::Sop2 => (0b10 << 30 | code << 23, 0x1ff << 23),
        Family::Sopk => (0b1011 << 28 | code << 23, 0x1ff << 23),
        Family::Sop1 => (0b1_0111_1101 << 23 | code << 8, 0x1ff << 23 | 0xff << 8),
        Family::Sopc => (0b1_0111_1110 << 23 | code << 16, 0xffff << 16),
        Family::Sopp => (0b1_0111_1111 << 23 | code << 16, 0xffff << 16),
        Family::Smem => (0b11_0000 << 26 | code << 18, 0x3fff << 18),
        Family::Vop2 => (code << 25, 0x7f << 25),
        Family::Vop1 => (0b011_1111 << 25 | code << 9, 0x7f << 25 | 0xff << 9),
        Family::Vopc => (0b011_1110 << 25 | code << 17, 0x7fff << 17),
        Family::Vop3 => (0b11_0100 << 26 | code << 16, 0xffff << 16),
        Family::Vop3p => (0b1_1010_0111 << 23 | code << 16, 0xffff << 16),
        Family::Ds => (0b11_0110 << 26 | code << 17, 0x3f << 26 | 0xff << 17),
        Family::Flat => (0b11_0111 << 26 | code << 18, 0x3f << 26 | 0x7f << 18 | 3 << 14),
        Family::Scratch => (0b11_0111 << 26 | code << 18 | 1 << 14, 0x3f << 26 | 0x7f << 18 | 3 << 14),
        Family::Global => (0b11_0111 << 26 | code << 18 | 2 << 14, 0x3f << 26 | 0x7f << 18 | 3 << 14),
        Family::Mubuf => (0b11_1000 << 26 | code << 18, 0x3f << 26 | 0x7f << 18),
    }
}

/// The next instruction that decodes, of any family, opcode and form.
pub(super) fn instruction(random: &mut Random, arch: Arch) -> Inst {
    loop {
        let (family, table) = TABLES[random.below(TABLES.len())];
        let op = &table[random.below(table.len())];
        let code = u32::from(op.code);
        let (family, code) = match (family, random.below(3)) {
            (Family::Vop2, 0) => (Family::Vop3, code + 0x100),
            (Family::Vop1, 0) => (Family::Vop3, code + 0x140),
            (Family::Vopc, 0) => (Family::Vop3, code),
            _ => (family, code),
        };
        let (bits, mask) = selector(family, code);
        let mut first = random.sparse_word() & !mask | bits;
        if matches!(family, Family::Vop2 | Family::Vop1 | Family::Vopc) {
            match random.below(4) {
                0 => first = first & !0x1ff | 249,
                1 => first = first & !0x1ff | 250,
                _ => {}
            }
        }
        let mut second = random.sparse_word();
        // Half of the memory instructions have no scalar address.
        if matches!(family, Family::Scratch | Family::Global) && random.below(2) == 0 {
            second |= 0x7f << 16;
        }
        let words = [first, second, random.word()];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Ok(inst) = decode(arch, &bytes)
            && let Ok(again) = decode(arch, &encode(&inst))
        {
            return again;
        }
    }
}
