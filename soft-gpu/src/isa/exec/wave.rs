//! The state of a wave.

use super::super::inst::Src;
use super::super::op::Arch;
use super::value::Kind;

/// Lanes of a wave.
pub const LANES: usize = 64;
/// Vector registers: 256 VGPRs, then 256 accumulation VGPRs.
const VECTORS: usize = 512;

/// Scalar registers by their number in operands.
pub(super) const VCC: usize = 106;
pub(super) const M0: usize = 124;
pub(super) const EXEC: usize = 126;
pub(super) const FLAT_SCRATCH: usize = 102;

/// One vector register.
pub(super) type Row = [u32; LANES];

/// A part of the address space that is not memory by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aperture {
    /// The upper 32 bits of its addresses (`SH_MEM_BASES`).
    pub high: u32,
}

impl Aperture {
    /// Its first address.
    #[must_use]
    pub const fn base(self) -> u64 {
        (self.high as u64) << 32
    }

    /// Whether an address lies in it.
    #[must_use]
    pub const fn contains(self, addr: u64) -> bool {
        addr >> 32 == self.high as u64
    }
}

/// Local data share of a workgroup.
#[derive(Debug, Default)]
pub struct Lds {
    bytes: Vec<u8>,
}

impl Lds {
    /// `len` bytes, zero.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { bytes: vec![0; len] }
    }

    /// Reads `N` bytes; what lies outside reads as zero, as on hardware.
    pub(super) fn read<const N: usize>(&self, addr: u32) -> [u8; N] {
        let mut out = [0; N];
        let at = addr as usize;
        if let Some(bytes) = self.bytes.get(at..at.saturating_add(N)) {
            out.copy_from_slice(bytes);
        }
        out
    }

    /// The bytes from `addr` on, if so many are there.
    pub(super) fn bytes(&self, addr: u32, len: usize) -> Option<&[u8]> {
        let at = addr as usize;
        self.bytes.get(at..at.saturating_add(len))
    }

    /// See [`Self::bytes`].
    pub(super) fn bytes_mut(&mut self, addr: u32, len: usize) -> Option<&mut [u8]> {
        let at = addr as usize;
        self.bytes.get_mut(at..at.saturating_add(len))
    }

    /// Writes bytes; nothing is written outside.
    pub(super) fn write(&mut self, addr: u32, data: &[u8]) {
        let at = addr as usize;
        if let Some(bytes) = self.bytes.get_mut(at..at.saturating_add(data.len())) {
            bytes.copy_from_slice(data);
        }
    }
}

/// The vector registers of a wave. New ones are zero.
pub struct Registers(Box<[Row; VECTORS]>);

impl Default for Registers {
    fn default() -> Self {
        // (Not an array first: that would be built on the stack.)
        let rows: Box<[Row]> = vec![[0; LANES]; VECTORS].into_boxed_slice();
        Self(rows.try_into().unwrap_or_else(|_| Box::new([[0; LANES]; VECTORS])))
    }
}

impl std::fmt::Debug for Registers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registers").finish_non_exhaustive()
    }
}

/// A wave of 64 lanes.
pub struct Wave {
    /// The architecture.
    pub arch: Arch,
    /// Scalar registers by operand number: 0 to 101, then VCC and the like.
    pub s: [u32; 128],
    /// Vector registers, then accumulation registers.
    pub(super) v: Box<[Row; VECTORS]>,
    /// The scalar condition.
    pub scc: bool,
    /// Address of the next instruction.
    pub pc: u64,
    /// The mode register.
    pub mode: u32,
    /// Base of this wave's private memory, where it is no register (gfx942).
    pub scratch_base: u64,
    /// LDS through flat addresses.
    pub shared: Aperture,
    /// Private memory through flat addresses.
    pub private: Aperture,
    /// Which wave of its group it is.
    pub id: u32,
    /// Whether AVX2 and FMA are there.
    pub(super) wide: Wide,
    /// Value of the hardware's counters (`s_memtime`).
    pub clock: u64,
}

/// Bit of the mode register for relative vector registers (`s_set_gpr_idx_on`).
pub(super) const MODE_GPR_INDEX: u32 = 1 << 27;
/// Bits of the mode register that say how numbers are rounded, and which denormals are kept.
pub(super) const MODE_ROUND: u32 = 0xf;
pub(super) const MODE_DENORM_32: u32 = 0x30;
pub(super) const MODE_DENORM_64_16: u32 = 0xc0;
/// Bits in which the mode differs from [`MODE_DENORM_64_16`] where instructions need more than their usual bodies.
pub(super) const MODE_UNUSUAL: u32 = MODE_GPR_INDEX | MODE_ROUND | MODE_DENORM_64_16;

impl Wave {
    /// A wave with all registers zero and no lane active.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        Self::with(arch, Registers::default())
    }

    /// A wave with no lane active, whose vector registers are those of another one.
    #[must_use]
    pub fn with(arch: Arch, Registers(v): Registers) -> Self {
        Self {
            arch,
            s: [0; 128],
            v,
            scc: false,
            pc: 0,
            mode: MODE_DENORM_32 | MODE_DENORM_64_16,
            scratch_base: 0,
            shared: Aperture { high: 0x1_0000 },
            private: Aperture { high: 0x2_0000 },
            id: 0,
            wide: Wide::detect(),
            clock: 0,
        }
    }

    /// Its vector registers.
    #[must_use]
    pub fn into_registers(self) -> Registers {
        Registers(self.v)
    }

    /// Sets the first VGPRs and the first accumulation VGPRs to zero.
    pub fn clear(&mut self, vectors: usize, accumulators: usize) {
        self.v[..vectors.min(256)].fill([0; LANES]);
        self.v[256..256 + accumulators.min(256)].fill([0; LANES]);
    }

    /// Active lanes.
    #[must_use]
    pub const fn exec(&self) -> u64 {
        self.s64(EXEC)
    }

    /// Sets the active lanes.
    pub const fn set_exec(&mut self, mask: u64) {
        self.set_s64(EXEC, mask);
    }

    /// Two scalar registers.
    #[must_use]
    pub const fn s64(&self, at: usize) -> u64 {
        self.s[at & 127] as u64 | (self.s[(at + 1) & 127] as u64) << 32
    }

    /// Sets two scalar registers.
    pub const fn set_s64(&mut self, at: usize, value: u64) {
        self.s[at & 127] = value as u32;
        self.s[(at + 1) & 127] = (value >> 32) as u32;
    }

    /// A lane of a VGPR.
    pub fn set_vgpr(&mut self, register: u8, lane: usize, value: u32) {
        self.v[usize::from(register)][lane & 63] = value;
    }

    /// A lane of a VGPR.
    #[must_use]
    pub fn vgpr(&self, register: u8, lane: usize) -> u32 {
        self.v[usize::from(register)][lane & 63]
    }

    /// The two bits of the mode for denormals of a type: bit 0 keeps those of sources, bit 1 those of results.
    const fn keeps(&self, kind: Kind) -> u32 {
        match kind {
            Kind::F32 => self.mode >> 4 & 3,
            Kind::F16 | Kind::F64 => self.mode >> 6 & 3,
            Kind::B16 | Kind::B32 | Kind::B64 => 3,
        }
    }

    /// Whether denormals of a type are zero, as sources or as results.
    #[inline(always)]
    pub(super) const fn flushes(&self, kind: Kind) -> bool {
        self.keeps(kind) != 3
    }

    /// Whether denormals of any type are.
    #[inline(always)]
    pub(super) const fn flushes_any(&self) -> bool {
        self.mode & (MODE_DENORM_32 | MODE_DENORM_64_16) != MODE_DENORM_32 | MODE_DENORM_64_16
    }

    /// Whether denormals of a type are zero as sources.
    pub(super) const fn flushes_sources(&self, kind: Kind) -> bool {
        self.keeps(kind) & 1 == 0
    }

    /// Whether denormals of a type are zero as results.
    pub(super) const fn flushes_results(&self, kind: Kind) -> bool {
        self.keeps(kind) & 2 == 0
    }

    /// The row of a vector operand, `plus` registers further.
    #[inline(always)]
    pub(super) fn row(&self, src: Src, plus: usize) -> &Row {
        &self.v[(usize::from(src.0).wrapping_sub(256) + plus) % VECTORS]
    }

    /// See [`Self::row`].
    #[inline(always)]
    pub(super) fn row_mut(&mut self, src: Src, plus: usize) -> &mut Row {
        &mut self.v[(usize::from(src.0).wrapping_sub(256) + plus) % VECTORS]
    }

    /// A scalar operand of 32 bits.
    #[inline]
    pub(super) fn scalar32(&self, src: Src, literal: u32) -> u32 {
        match src.0 {
            code @ 0..=127 => self.s[usize::from(code)],
            code @ 240..=248 => FLOATS[usize::from(code - 240)],
            _ => self.special(src, literal) as u32,
        }
    }

    /// A scalar operand of 64 bits that is an integer or bits.
    pub(super) fn scalar64(&self, src: Src, literal: u32) -> u64 {
        match src.0 {
            code @ 0..=127 => self.s64(usize::from(code)),
            code @ 240..=248 => f64_constant(code),
            _ => self.special(src, literal),
        }
    }

    /// Constants and special values that are no floats.
    fn special(&self, src: Src, literal: u32) -> u64 {
        match src.0 {
            code @ 128..=192 => u64::from(code - 128),
            code @ 193..=208 => 0u64.wrapping_sub(u64::from(code - 192)),
            235 => self.shared.base(),
            236 => self.shared.base() | 0xffff_ffff,
            237 => self.private.base(),
            238 => self.private.base() | 0xffff_ffff,
            251 => u64::from(self.s64(VCC) == 0),
            252 => u64::from(self.exec() == 0),
            253 => u64::from(self.scc),
            255 => u64::from(literal),
            _ => 0,
        }
    }
}

/// Whether the processor has AVX2 and FMA. Only [`Wide::detect`] makes one that says so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide(bool);

impl Wide {
    /// Asks the processor.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self(
            std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma"),
        );
        #[cfg(not(target_arch = "x86_64"))]
        Self(false)
    }

    /// Whether they are there.
    #[inline(always)]
    pub(super) const fn is_there(self) -> bool {
        self.0
    }
}

/// 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1/(2 pi) as floats of 32 bits.
const FLOATS: [u32; 9] = [
    0x3f00_0000,
    0xbf00_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x4000_0000,
    0xc000_0000,
    0x4080_0000,
    0xc080_0000,
    0x3e22_f983,
];

/// The same of 16 bits.
const HALVES: [u32; 9] = [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118];

/// Constant 240 to 248 as a float of 64 bits.
pub(super) fn f64_constant(code: u16) -> u64 {
    match code {
        248 => 0x3fc4_5f30_6dc9_c882,
        _ => f64::from(f32::from_bits(FLOATS[usize::from(code - 240) % 9])).to_bits(),
    }
}

/// Constant 240 to 248 as a float of 16 bits.
pub(super) fn f16_constant(code: u16) -> u32 {
    HALVES[usize::from(code - 240) % 9]
}
