//! The kernel descriptor of code objects version 3 to 5 (`amdhsa::kernel_descriptor_t` of LLVM's AMDGPU usage guide).

/// Bytes of a descriptor.
pub(in crate::engine) const SIZE: usize = 64;

/// What the dispatcher needs of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Descriptor {
    /// Bytes of private memory of a lane that the compiler knows of.
    pub(in crate::engine) private_size: u32,
    /// From the descriptor to the first instruction.
    pub(in crate::engine) entry: i64,
    /// `compute_pgm_rsrc1`.
    rsrc1: u32,
    /// `compute_pgm_rsrc2`.
    rsrc2: u32,
    /// `compute_pgm_rsrc3`.
    rsrc3: u32,
    /// `kernel_code_properties`.
    properties: u32,
}

/// Scalar registers that the compiler asked for, in the order in which they are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum UserSgpr {
    /// Buffer descriptor of private memory.
    PrivateSegmentBuffer,
    /// Address of the packet.
    DispatchPtr,
    /// Address of `amd_queue_t`.
    QueuePtr,
    /// Address of the arguments.
    KernargSegmentPtr,
    /// Index of the packet.
    DispatchId,
    /// Base of private memory.
    FlatScratchInit,
    /// Bytes of private memory of a lane.
    PrivateSegmentSize,
}

const USER_SGPRS: [(u32, UserSgpr); 7] = [
    (0, UserSgpr::PrivateSegmentBuffer),
    (1, UserSgpr::DispatchPtr),
    (2, UserSgpr::QueuePtr),
    (3, UserSgpr::KernargSegmentPtr),
    (4, UserSgpr::DispatchId),
    (5, UserSgpr::FlatScratchInit),
    (6, UserSgpr::PrivateSegmentSize),
];

impl Descriptor {
    pub(in crate::engine) fn decode(bytes: &[u8; SIZE]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let entry = u64::from(word(16)) | u64::from(word(20)) << 32;
        Self {
            private_size: word(4),
            entry: entry.cast_signed(),
            rsrc1: word(48),
            rsrc2: word(52),
            rsrc3: word(44),
            properties: word(56) & 0xffff,
        }
    }

    /// Initial mode register: rounding and denormals, then DX10_CLAMP and IEEE.
    pub(in crate::engine) fn mode(&self) -> u32 {
        self.rsrc1 >> 12 & 0xff | (self.rsrc1 >> 21 & 1) << 8 | (self.rsrc1 >> 23 & 1) << 9
    }

    /// Vector and accumulation registers of a wave.
    pub(in crate::engine) fn registers(&self) -> (usize, usize) {
        let all = (self.rsrc1 as usize & 63) * 8 + 8;
        let vectors = (self.rsrc3 as usize & 63) * 4 + 4;
        (all.min(256), all.saturating_sub(vectors).min(256))
    }

    /// Where the scalar registers that the hardware sets begin.
    pub(in crate::engine) fn user_sgprs(&self) -> usize {
        (self.rsrc2 >> 1 & 31) as usize
    }

    /// The scalar registers asked for.
    pub(in crate::engine) fn layout(&self) -> impl Iterator<Item = UserSgpr> {
        let properties = self.properties;
        USER_SGPRS.into_iter().filter(move |(bit, _)| properties >> bit & 1 != 0).map(|(_, what)| what)
    }

    /// Whether waves have private memory.
    pub(in crate::engine) fn has_private(&self) -> bool {
        self.rsrc2 & 1 != 0
    }

    /// Whether the group's number in each dimension is in a register.
    pub(in crate::engine) fn group_ids(&self) -> [bool; 3] {
        [7, 8, 9].map(|bit| self.rsrc2 >> bit & 1 != 0)
    }

    /// Whether the group's size in waves is in a register.
    pub(in crate::engine) fn group_info(&self) -> bool {
        self.rsrc2 >> 10 & 1 != 0
    }

    /// Whether it was compiled for waves of 32 lanes, which these parts do not have.
    pub(in crate::engine) fn is_wave32(&self) -> bool {
        self.properties >> 10 & 1 != 0
    }
}
