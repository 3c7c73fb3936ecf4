//! The atomic operations of the L2 cache (`TC_OP_ATOMIC_*`), which SDMA's ATOMIC and PM4's ATOMIC_MEM name.
//!
//! Numbers are the enumeration `TC_OP` of the register headers (the same in `vega10_enum.h`,
//! `navi10_enum.h` and `soc21_enum.h`). Bit 6 says that nothing is returned, bit 5 that the operand has
//! 64 bits; the low five bits are the function.

/// What an atomic does with the value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Swap,
    CompareSwap,
    Add,
    Sub,
    SignedMin,
    UnsignedMin,
    SignedMax,
    UnsignedMax,
    And,
    Or,
    Xor,
    /// `old >= src ? 0 : old + 1`.
    Increment,
    /// `old == 0 || old > src ? src : old - 1`.
    Decrement,
}

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Atomic {
    pub(super) function: Function,
    /// 64-bit operand; else 32-bit.
    pub(super) wide: bool,
}

/// An operation number that this engine does not have (floating point, cache operations).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("atomic operation {0} is not supported")]
pub(super) struct UnknownAtomic(pub(super) u8);

impl Atomic {
    /// Decodes the 7-bit operation number.
    pub(super) const fn from_number(number: u8) -> Result<Self, UnknownAtomic> {
        let function = match number & 0x1f {
            7 => Function::Swap,
            8 => Function::CompareSwap,
            15 => Function::Add,
            16 => Function::Sub,
            17 => Function::SignedMin,
            18 => Function::UnsignedMin,
            19 => Function::SignedMax,
            20 => Function::UnsignedMax,
            21 => Function::And,
            22 => Function::Or,
            23 => Function::Xor,
            24 => Function::Increment,
            25 => Function::Decrement,
            _ => return Err(UnknownAtomic(number)),
        };
        if number >= 0x80 {
            return Err(UnknownAtomic(number));
        }
        Ok(Self { function, wide: number & 0x20 != 0 })
    }

    /// The value that replaces `old`. Operands of 32-bit atomics are the low halves.
    pub(super) fn apply(self, old: u64, src: u64, compare: u64) -> u64 {
        if self.wide {
            apply64(self.function, old, src, compare)
        } else {
            let narrow = u64::from(u32::MAX);
            let (old, src, compare) = (old & narrow, src & narrow, compare & narrow);
            match self.function {
                Function::SignedMin => old_if(signed32(old) < signed32(src), old, src),
                Function::SignedMax => old_if(signed32(old) > signed32(src), old, src),
                function => apply64(function, old, src, compare) & narrow,
            }
        }
    }
}

/// The low half as a signed number.
const fn signed32(value: u64) -> i32 {
    (value as u32).cast_signed()
}

fn old_if(condition: bool, old: u64, src: u64) -> u64 {
    if condition { old } else { src }
}

fn apply64(function: Function, old: u64, src: u64, compare: u64) -> u64 {
    match function {
        Function::Swap => src,
        Function::CompareSwap => old_if(old != compare, old, src),
        Function::Add => old.wrapping_add(src),
        Function::Sub => old.wrapping_sub(src),
        Function::SignedMin => old_if(old.cast_signed() < src.cast_signed(), old, src),
        Function::UnsignedMin => old_if(old < src, old, src),
        Function::SignedMax => old_if(old.cast_signed() > src.cast_signed(), old, src),
        Function::UnsignedMax => old_if(old > src, old, src),
        Function::And => old & src,
        Function::Or => old | src,
        Function::Xor => old ^ src,
        Function::Increment => {
            if old >= src {
                0
            } else {
                old + 1
            }
        }
        Function::Decrement => {
            if old == 0 || old > src {
                src
            } else {
                old - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_register_headers() {
        // navi10_enum.h: TC_OP_ATOMIC_ADD_RTN_64 = 0x2f (ROCr's SDMA_ATOMIC_ADD64 = 47),
        // TC_OP_ATOMIC_CMPSWAP_RTN_32 = 8, TC_OP_ATOMIC_SWAP_RTN_64 = 39, TC_OP_ATOMIC_DEC_64 = 0x79.
        assert_eq!(Atomic::from_number(47), Ok(Atomic { function: Function::Add, wide: true }));
        assert_eq!(Atomic::from_number(8), Ok(Atomic { function: Function::CompareSwap, wide: false }));
        assert_eq!(Atomic::from_number(39), Ok(Atomic { function: Function::Swap, wide: true }));
        assert_eq!(Atomic::from_number(0x79), Ok(Atomic { function: Function::Decrement, wide: true }));
        // TC_OP_READ = 0, TC_OP_ATOMIC_FMIN_RTN_32 = 2: not integer atomics.
        assert_eq!(Atomic::from_number(0), Err(UnknownAtomic(0)));
        assert_eq!(Atomic::from_number(2), Err(UnknownAtomic(2)));
    }

    #[test]
    fn narrow_atomics_keep_to_32_bits() {
        let add = Atomic { function: Function::Add, wide: false };
        assert_eq!(add.apply(0xffff_ffff, 1, 0), 0);
        let min = Atomic { function: Function::SignedMin, wide: false };
        assert_eq!(min.apply(1, 0xffff_ffff, 0), 0xffff_ffff, "-1 is less than 1");
        let umin = Atomic { function: Function::UnsignedMin, wide: false };
        assert_eq!(umin.apply(1, 0xffff_ffff, 0), 1);
    }

    #[test]
    fn increments_and_decrements_wrap_at_the_operand() {
        let inc = Atomic { function: Function::Increment, wide: true };
        assert_eq!((inc.apply(3, 5, 0), inc.apply(5, 5, 0), inc.apply(9, 5, 0)), (4, 0, 0));
        let dec = Atomic { function: Function::Decrement, wide: true };
        assert_eq!((dec.apply(3, 5, 0), dec.apply(0, 5, 0), dec.apply(9, 5, 0)), (2, 5, 5));
    }
}
