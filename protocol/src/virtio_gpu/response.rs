//! Responses to the guest.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::structs::{CtrlHdr, RespCapsetInfo, RespMapInfo};
use super::{HeaderFlags, MapCache, ResponseId};

/// Why a request failed, as far as the guest can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// None of the others.
    Unspecified,
    /// No memory, or over a limit.
    OutOfMemory,
    /// No such resource, or it is there already.
    InvalidResourceId,
    /// No such context, or it is there already.
    InvalidContextId,
    /// Another field is wrong.
    InvalidParameter,
}

impl Failure {
    /// Its number on the wire.
    #[must_use]
    pub fn id(self) -> ResponseId {
        match self {
            Failure::Unspecified => ResponseId::ERR_UNSPEC,
            Failure::OutOfMemory => ResponseId::ERR_OUT_OF_MEMORY,
            Failure::InvalidResourceId => ResponseId::ERR_INVALID_RESOURCE_ID,
            Failure::InvalidContextId => ResponseId::ERR_INVALID_CONTEXT_ID,
            Failure::InvalidParameter => ResponseId::ERR_INVALID_PARAMETER,
        }
    }
}

/// What the device answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Done.
    Ok,
    /// About a capset.
    CapsetInfo {
        /// Its id.
        id: u32,
        /// Highest version that GET_CAPSET takes.
        max_version: u32,
        /// Bytes of its data.
        max_size: u32,
    },
    /// The data of a capset.
    Capset(Vec<u8>),
    /// How a blob is to be mapped.
    MapInfo(MapCache),
    /// It failed.
    Failed(Failure),
}

impl Response {
    /// Its number on the wire.
    #[must_use]
    pub fn id(&self) -> ResponseId {
        match self {
            Response::Ok => ResponseId::OK_NODATA,
            Response::CapsetInfo { .. } => ResponseId::OK_CAPSET_INFO,
            Response::Capset(_) => ResponseId::OK_CAPSET,
            Response::MapInfo(_) => ResponseId::OK_MAP_INFO,
            Response::Failed(failure) => failure.id(),
        }
    }

    /// The bytes of the response. The fence of the request, with its context and ring, is repeated in it:
    /// that is what signals the fence, so it must not be encoded before the work is done.
    #[must_use]
    pub fn encode(&self, request: &CtrlHdr) -> Vec<u8> {
        let hdr = header(self.id(), request);
        match self {
            Response::Ok | Response::Failed(_) => hdr.as_bytes().to_vec(),
            Response::CapsetInfo { id, max_version, max_size } => {
                let info = RespCapsetInfo {
                    hdr,
                    capset_id: U32::new(*id),
                    capset_max_version: U32::new(*max_version),
                    capset_max_size: U32::new(*max_size),
                    padding: U32::ZERO,
                };
                info.as_bytes().to_vec()
            }
            Response::Capset(data) => [hdr.as_bytes(), data].concat(),
            Response::MapInfo(cache) => {
                RespMapInfo { hdr, map_info: U32::new(cache.0), padding: U32::ZERO }.as_bytes().to_vec()
            }
        }
    }
}

fn header(id: ResponseId, request: &CtrlHdr) -> CtrlHdr {
    let mut hdr = CtrlHdr { type_: U32::new(id.0), ..CtrlHdr::default() };
    let flags = HeaderFlags(request.flags.get());
    if flags.contains(HeaderFlags::FENCE) {
        // Bits that are not known are not repeated: the request is refused for them.
        hdr.flags = U32::new(flags.without(flags.unknown()).0);
        hdr.fence_id = request.fence_id;
        hdr.ctx_id = request.ctx_id;
        hdr.ring_idx = request.ring_idx;
    }
    hdr
}
