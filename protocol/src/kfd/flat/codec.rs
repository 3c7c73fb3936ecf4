//! Flat calls and their writes as bytes: little endian, every length checked, nothing left over.
//!
//! A call: `u32` number of ranges, then for each `u64` address, `u64` length, `u8` flow (0 in, 1 out, 2 both),
//! `u64` number of gathered bytes, the bytes. Writes: until the end, `u64` address, `u64` number of bytes (not
//! 0), the bytes.

use super::{FlatCall, FlatWrites, MAX_RANGES, Range};
use crate::kfd::ioctl::Flow;

/// Why bytes are no flat call, or no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("the message ends after {have} bytes where {need} more are needed")]
    Truncated {
        /// Bytes that are left.
        have: usize,
        /// Bytes that were to follow.
        need: u64,
    },
    /// More ranges than any call has.
    #[error("{0} memory ranges in one call, of which no call has more than {MAX_RANGES}")]
    TooManyRanges(u32),
    /// Not 0, 1 or 2.
    #[error("{0} is no direction of a memory range")]
    BadFlow(u8),
    /// More bytes than the range is long, or bytes for a range that is not read.
    #[error("{got} bytes gathered for a memory range that has room for {room}")]
    TooMuchData {
        /// Bytes gathered.
        got: u64,
        /// Bytes that the range can have.
        room: u64,
    },
    /// A write of no bytes.
    #[error("a write of no bytes")]
    EmptyWrite,
    /// Bytes after the end.
    #[error("{0} bytes after the end of the message")]
    Trailing(usize),
}

/// What is left of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: u64) -> Result<&'a [u8], DecodeError> {
        let truncated = DecodeError::Truncated { have: self.0.len(), need: count };
        let count = usize::try_from(count).map_err(|_| truncated)?;
        let (head, rest) = self.0.split_at_checked(count).ok_or(truncated)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let truncated = DecodeError::Truncated { have: self.0.len(), need: N as u64 };
        let (head, rest) = self.0.split_first_chunk().ok_or(truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    fn end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.0.len())) }
    }
}

const FLOWS: [Flow; 3] = [Flow::In, Flow::Out, Flow::InOut];

fn flow_to_byte(flow: Flow) -> u8 {
    match flow {
        Flow::In => 0,
        Flow::Out => 1,
        Flow::InOut => 2,
    }
}

impl FlatCall {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // `collect` and `decode` make at most MAX_RANGES of them.
        out.extend(u32::try_from(self.ranges.len()).unwrap_or(u32::MAX).to_le_bytes());
        for range in &self.ranges {
            out.extend(range.addr.to_le_bytes());
            out.extend(range.len.to_le_bytes());
            out.push(flow_to_byte(range.flow));
            out.extend((range.data.len() as u64).to_le_bytes());
            out.extend(&range.data);
        }
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// On anything that [`FlatCall::encode`] does not make. No allocation is larger than the input warrants.
    pub fn decode(bytes: &[u8]) -> Result<FlatCall, DecodeError> {
        let mut reader = Reader(bytes);
        let count = reader.u32()?;
        if count as usize > MAX_RANGES {
            return Err(DecodeError::TooManyRanges(count));
        }
        let ranges = (0..count).map(|_| decode_range(&mut reader)).collect::<Result<_, _>>()?;
        reader.end()?;
        Ok(FlatCall { ranges })
    }
}

fn decode_range(reader: &mut Reader<'_>) -> Result<Range, DecodeError> {
    let addr = reader.u64()?;
    let len = reader.u64()?;
    let byte = reader.u8()?;
    let flow = *FLOWS.get(usize::from(byte)).ok_or(DecodeError::BadFlow(byte))?;
    let got = reader.u64()?;
    let room = if flow.reads() { len } else { 0 };
    if got > room {
        return Err(DecodeError::TooMuchData { got, room });
    }
    Ok(Range { addr, len, flow, data: reader.bytes(got)?.to_vec() })
}

impl FlatWrites {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (addr, data) in &self.list {
            out.extend(addr.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            out.extend(data);
        }
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// On anything that [`FlatWrites::encode`] does not make. No allocation is larger than the input warrants.
    pub fn decode(bytes: &[u8]) -> Result<FlatWrites, DecodeError> {
        let mut reader = Reader(bytes);
        let mut list = Vec::new();
        while !reader.0.is_empty() {
            let addr = reader.u64()?;
            let len = reader.u64()?;
            if len == 0 {
                return Err(DecodeError::EmptyWrite);
            }
            list.push((addr, reader.bytes(len)?.to_vec()));
        }
        Ok(FlatWrites { list })
    }
}
