//! What the tables say about an opcode.

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// MI200.
    Gfx90a,
    /// MI300.
    Gfx942,
}

impl Arch {
    /// LLVM's name of the processor.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Gfx90a => "gfx90a",
            Arch::Gfx942 => "gfx942",
        }
    }

    /// The architecture of a processor by LLVM's name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Arch::Gfx90a, Arch::Gfx942].into_iter().find(|arch| arch.name() == name)
    }
}

/// Which architectures have an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Both.
    Both,
    /// gfx90a only.
    A,
    /// gfx942 only.
    B,
}

impl On {
    /// Whether `arch` has it.
    #[must_use]
    pub const fn has(self, arch: Arch) -> bool {
        matches!((self, arch), (On::Both, _) | (On::A, Arch::Gfx90a) | (On::B, Arch::Gfx942))
    }
}

/// Encoding families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Scalar, two sources.
    Sop2,
    /// Scalar with a 16-bit constant.
    Sopk,
    /// Scalar, one source.
    Sop1,
    /// Scalar comparisons.
    Sopc,
    /// Program control.
    Sopp,
    /// Scalar memory.
    Smem,
    /// Vector, two sources.
    Vop2,
    /// Vector, one source.
    Vop1,
    /// Vector comparisons.
    Vopc,
    /// Vector, up to three sources.
    Vop3,
    /// Packed vector and matrix operations.
    Vop3p,
    /// Local data share.
    Ds,
    /// Memory through the address space's apertures.
    Flat,
    /// Private memory.
    Scratch,
    /// Global memory.
    Global,
    /// Memory through buffer descriptors.
    Mubuf,
}

/// Type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// No such operand.
    None,
    /// An integer or bits; the number of 32-bit registers.
    B(u8),
    /// A 16-bit integer in the low half of a register.
    B16,
    /// IEEE binary16 in the low half of a register.
    F16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// Two 16-bit integers.
    PkB16,
    /// Two IEEE binary16.
    PkF16,
    /// Two IEEE binary32 in two registers.
    PkF32,
    /// A mask of lanes in two scalar registers.
    Mask,
    /// A scalar register (destination of readlane, lane number).
    S,
}

impl Ty {
    /// How many 32-bit registers it takes.
    #[must_use]
    pub const fn dwords(self) -> u8 {
        match self {
            Ty::None => 0,
            Ty::B(n) => n,
            Ty::B16 | Ty::F16 | Ty::F32 | Ty::PkB16 | Ty::PkF16 | Ty::S => 1,
            Ty::F64 | Ty::PkF32 | Ty::Mask => 2,
        }
    }

    /// Whether negation and absolute value make sense.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F32 | Ty::F64)
    }
}

/// Properties of an opcode, as bits of [`Op::flags`].
pub mod flag {
    /// VOP3: the clamp bit is allowed although nothing is a float.
    pub const CLAMP: u32 = 1;
    /// VOP3: halves of registers are selected by op_sel.
    pub const OP_SEL: u32 = 1 << 1;
    /// VOP2, VOP1: there is no VOP3 form, and the name has no `_e32`.
    pub const NO_E64: u32 = 1 << 2;
    /// VOP2, VOP1: there is no SDWA form.
    pub const NO_SDWA: u32 = 1 << 3;
    /// VOP2, VOP1: there is no DPP form.
    pub const NO_DPP: u32 = 1 << 4;
    /// VOP2: the destination is also a source that the text does not name.
    pub const ACC: u32 = 1 << 5;
    /// VOP2, VOP3: writes a carry mask.
    pub const CARRY_OUT: u32 = 1 << 6;
    /// VOP2, VOP3: the last source is a mask of lanes (VCC in the short form).
    pub const MASK_IN: u32 = 1 << 7;
    /// VOP2: a literal follows that is the middle factor.
    pub const MADMK: u32 = 1 << 8;
    /// VOP2: a literal follows that is the addend.
    pub const MADAK: u32 = 1 << 9;
    /// VOPC: writes EXEC as well.
    pub const CMPX: u32 = 1 << 10;
    /// Memory: stores (the data register is a source).
    pub const STORE: u32 = 1 << 11;
    /// Memory: an atomic, which returns the old value if the instruction's bit for that is set.
    pub const ATOMIC: u32 = 1 << 12;
    /// DS: two addresses, so two short offsets.
    pub const TWO: u32 = 1 << 13;
    /// DS: takes no address.
    pub const NO_ADDR: u32 = 1 << 14;
    /// Memory to LDS.
    pub const LDS: u32 = 1 << 15;
    /// No clamp, although something is a float.
    pub const NO_CLAMP: u32 = 1 << 16;
    /// No output multiplier, although the destination is a float.
    pub const NO_OMOD: u32 = 1 << 17;
    /// VOP3P: a matrix operation.
    pub const MFMA: u32 = 1 << 18;
    /// VOP3P: a sparse matrix operation.
    pub const SMFMAC: u32 = 1 << 19;
    /// The result is an approximation on hardware too, or a sum whose order is not known: last bits may differ.
    pub const APPROX: u32 = 1 << 20;
    /// VOP3P: mixed precision, where op_sel_hi selects the type of a source.
    pub const MIX: u32 = 1 << 21;
}

/// One opcode.
#[derive(Debug)]
pub struct Op {
    /// Number within its family.
    pub code: u16,
    /// LLVM's name, without the suffix of an encoding.
    pub name: &'static str,
    /// Which architectures have it.
    pub on: On,
    /// Type of the destination.
    pub dst: Ty,
    /// Types of the sources.
    pub src: &'static [Ty],
    /// Bits of [`flag`].
    pub flags: u32,
}

impl Op {
    /// Whether all bits of `flags` are set.
    #[must_use]
    pub const fn is(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// SOPP: whether the 16-bit constant means something.
    #[must_use]
    pub fn has_constant(&self) -> bool {
        !matches!(
            self.name,
            "s_barrier"
                | "s_icache_inv"
                | "s_endpgm_saved"
                | "s_wakeup"
                | "s_set_gpr_idx_off"
                | "s_ttracedata"
        )
    }

    /// Whether the result is exact; otherwise hardware computes an approximation too.
    #[must_use]
    pub const fn exact(&self) -> bool {
        !self.is(flag::APPROX)
    }
}
