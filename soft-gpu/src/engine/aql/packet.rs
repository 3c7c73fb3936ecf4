//! Decoding of AQL packets: the HSA System Architecture specification 1.2, section 2.9, and AMD's
//! vendor-specific packets (`hsa_ext_amd.h`, and the PM4 packet of ROCr's `AqlQueue::ExecutePM4`).

use crate::engine::bits::{bits, pair, word};
use crate::engine::pm4::packet as pm4;

/// Bytes of every AQL packet.
pub(in crate::engine) const SIZE: u64 = 64;
/// Words of every AQL packet.
pub(in crate::engine) const WORDS: usize = 16;
/// The header that the packet processor leaves behind: type INVALID.
pub(in crate::engine) const INVALID_HEADER: u16 = 1;

/// What a packet asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Packet {
    /// Not written yet: the processor waits.
    Invalid,
    BarrierAnd {
        signals: [u64; 5],
    },
    BarrierOr {
        signals: [u64; 5],
    },
    /// Waits until `(signal & mask) condition value`.
    BarrierValue {
        signal: u64,
        value: i64,
        mask: i64,
        condition: Condition,
    },
    /// Runs PM4 packets from memory.
    IndirectBuffer {
        base: u64,
        words: u32,
    },
    KernelDispatch(KernelDispatch),
}

/// `hsa_kernel_dispatch_packet_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct KernelDispatch {
    /// Work-items of a group in each dimension; dimensions that are not used count as 1.
    pub(in crate::engine) group: [u32; 3],
    /// Work-items of the grid in each dimension.
    pub(in crate::engine) grid: [u32; 3],
    /// Bytes of private memory of a work-item.
    pub(in crate::engine) private_size: u32,
    /// Bytes of LDS of a group.
    pub(in crate::engine) lds: u32,
    /// Address of the kernel descriptor.
    pub(in crate::engine) kernel_object: u64,
    /// Address of the arguments.
    pub(in crate::engine) kernarg: u64,
}

/// A number of dimensions other than 1 to 3 leaves nothing to do.
fn kernel_dispatch(words: &[u32; WORDS]) -> KernelDispatch {
    let dimensions = bits(word(words, 0), 16, 2);
    let used = |at: u32, size: u32| match dimensions {
        0 => 0,
        count if at < count => size,
        _ => 1,
    };
    let [w1, w2] = [word(words, 1), word(words, 2)];
    KernelDispatch {
        group: [used(0, w1 & 0xffff), used(1, w1 >> 16), used(2, w2 & 0xffff)],
        grid: [used(0, word(words, 3)), used(1, word(words, 4)), used(2, word(words, 5))],
        private_size: word(words, 6),
        lds: word(words, 7),
        kernel_object: pair(words, 8),
        kernarg: pair(words, 10),
    }
}

/// `hsa_signal_condition32_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Condition {
    Equal,
    NotEqual,
    Less,
    GreaterOrEqual,
}

impl Condition {
    /// Whether it holds for the masked value.
    pub(in crate::engine) const fn holds(self, value: i64, reference: i64) -> bool {
        match self {
            Condition::Equal => value == reference,
            Condition::NotEqual => value != reference,
            Condition::Less => value < reference,
            Condition::GreaterOrEqual => value >= reference,
        }
    }
}

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::engine) enum DecodeError {
    #[error("AQL packet type {0} is unknown")]
    Type(u8),
    #[error("AQL agent dispatch packets are not processed by GPUs")]
    AgentDispatch,
    #[error("AQL vendor-specific packet format {0} is unknown")]
    VendorFormat(u8),
    #[error("AQL barrier-value packet: condition {0} is unknown")]
    Condition(u32),
    #[error("AQL PM4 packet: {0}")]
    Pm4(#[from] pm4::DecodeError),
    #[error("AQL PM4 packet: it holds no INDIRECT_BUFFER")]
    NoIndirectBuffer,
}

const VENDOR_SPECIFIC: u8 = 0;
const INVALID: u8 = 1;
const KERNEL_DISPATCH: u8 = 2;
const BARRIER_AND: u8 = 3;
const AGENT_DISPATCH: u8 = 4;
const BARRIER_OR: u8 = 5;

/// `AMD_AQL_FORMAT_PM4_IB`.
const FORMAT_PM4_IB: u8 = 1;
/// `HSA_AMD_PACKET_TYPE_BARRIER_VALUE`.
const FORMAT_BARRIER_VALUE: u8 = 2;

/// Whether the packet behind this first word has been written.
pub(in crate::engine) fn is_invalid(first: u32) -> bool {
    packet_type(first) == INVALID
}

fn packet_type(first: u32) -> u8 {
    let [kind, ..] = first.to_le_bytes();
    kind
}

/// The signal of any packet (0 for none).
pub(in crate::engine) fn completion_signal(words: &[u32; WORDS]) -> u64 {
    pair(words, 14)
}

/// Decodes a packet.
pub(in crate::engine) fn decode(words: &[u32; WORDS]) -> Result<Packet, DecodeError> {
    match packet_type(words[0]) {
        INVALID => Ok(Packet::Invalid),
        KERNEL_DISPATCH => Ok(Packet::KernelDispatch(kernel_dispatch(words))),
        BARRIER_AND => Ok(Packet::BarrierAnd { signals: dependencies(words) }),
        BARRIER_OR => Ok(Packet::BarrierOr { signals: dependencies(words) }),
        AGENT_DISPATCH => Err(DecodeError::AgentDispatch),
        VENDOR_SPECIFIC => vendor_specific(words),
        other => Err(DecodeError::Type(other)),
    }
}

fn dependencies(words: &[u32; WORDS]) -> [u64; 5] {
    [2, 4, 6, 8, 10].map(|index| pair(words, index))
}

fn vendor_specific(words: &[u32; WORDS]) -> Result<Packet, DecodeError> {
    let [_, _, format, _] = words[0].to_le_bytes();
    match format {
        FORMAT_PM4_IB => indirect_buffer(words),
        FORMAT_BARRIER_VALUE => barrier_value(words),
        other => Err(DecodeError::VendorFormat(other)),
    }
}

fn barrier_value(words: &[u32; WORDS]) -> Result<Packet, DecodeError> {
    let condition = match word(words, 8) {
        0 => Condition::Equal,
        1 => Condition::NotEqual,
        2 => Condition::Less,
        3 => Condition::GreaterOrEqual,
        other => return Err(DecodeError::Condition(other)),
    };
    Ok(Packet::BarrierValue {
        signal: pair(words, 2),
        value: pair(words, 4).cast_signed(),
        mask: pair(words, 6).cast_signed(),
        condition,
    })
}

fn indirect_buffer(words: &[u32; WORDS]) -> Result<Packet, DecodeError> {
    // Word 1 is the header of an INDIRECT_BUFFER packet of four words.
    let header = word(words, 1);
    if bits(header, 16, 14) != 2 {
        return Err(DecodeError::NoIndirectBuffer);
    }
    let body = [word(words, 2), word(words, 3), word(words, 4)];
    match pm4::decode(header, &body)? {
        pm4::Packet::IndirectBuffer { base, words, .. } => Ok(Packet::IndirectBuffer { base, words }),
        _ => Err(DecodeError::NoIndirectBuffer),
    }
}
