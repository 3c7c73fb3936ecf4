//! Requests from the guest.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::constants::{CONTEXT_INIT_CAPSET_MASK, DEBUG_NAME_LEN, MAX_RINGS};
use super::structs::{
    CmdSubmit, CtrlHdr, CtxCreate, CtxDestroy, CtxResource, GetCapset, GetCapsetInfo, MemEntry,
    ResourceCreateBlob, ResourceMapBlob, ResourceUnmapBlob, ResourceUnref,
};
use super::{BlobFlags, BlobMem, CommandId, HeaderFlags};

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not even a header.
    #[error("{have} bytes are no header, which has {}", size_of::<CtrlHdr>())]
    NoHeader {
        /// Bytes that are there.
        have: usize,
    },
    /// Flags that no driver has.
    #[error("unknown flags {0:?} in the header")]
    HeaderFlags(HeaderFlags),
    /// A ring beyond the last.
    #[error("ring {0} of {MAX_RINGS}")]
    Ring(u8),
    /// A number that no command has.
    #[error("unknown command {0:?}")]
    Unknown(CommandId),
    /// A command for scanouts and images, of which this device has none.
    #[error("{0:?} is no command of a device without scanouts")]
    NotHere(CommandId),
    /// Less than the command's struct.
    #[error("{command:?} of {have} bytes, it has {need}")]
    Short {
        /// Which command.
        command: CommandId,
        /// Bytes of its struct.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// What follows the struct is not as long as the struct says.
    #[error("{command:?} announces {need} more bytes, {have} are there")]
    Tail {
        /// Which command.
        command: CommandId,
        /// Bytes announced.
        need: u64,
        /// Bytes that are there.
        have: usize,
    },
    /// A name longer than its field.
    #[error("a debug name of {0} bytes, at most {DEBUG_NAME_LEN} are possible")]
    NameLength(u32),
    /// Bits of `context_init` without meaning.
    #[error("unknown bits {0:#x} in context_init")]
    ContextInit(u32),
    /// No kind of memory.
    #[error("unknown kind of blob memory {0:?}")]
    BlobMem(BlobMem),
    /// Flags that no blob has.
    #[error("unknown blob flags {0:?}")]
    BlobFlags(BlobFlags),
}

/// The header of a request, without the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The fence that the response signals.
    pub fence: Option<u64>,
    /// Ring of the context that the fence belongs to; without one it belongs to the device.
    pub ring: Option<u8>,
    /// Context, or 0.
    pub ctx_id: u32,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its header.
    pub header: Header,
    /// The rest.
    pub command: Command<'a>,
}

/// What is asked, with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// RESOURCE_UNREF.
    ResourceUnref {
        /// Which resource.
        resource_id: u32,
    },
    /// GET_CAPSET_INFO.
    GetCapsetInfo {
        /// Index of the capset.
        index: u32,
    },
    /// GET_CAPSET.
    GetCapset {
        /// Id of the capset.
        id: u32,
        /// Its version.
        version: u32,
    },
    /// RESOURCE_CREATE_BLOB.
    ResourceCreateBlob(CreateBlob<'a>),
    /// CTX_CREATE.
    CtxCreate(CreateContext<'a>),
    /// CTX_DESTROY.
    CtxDestroy,
    /// CTX_ATTACH_RESOURCE.
    CtxAttachResource {
        /// Which resource.
        resource_id: u32,
    },
    /// CTX_DETACH_RESOURCE.
    CtxDetachResource {
        /// Which resource.
        resource_id: u32,
    },
    /// SUBMIT_3D.
    Submit3d {
        /// The context's commands.
        bytes: &'a [u8],
    },
    /// RESOURCE_MAP_BLOB.
    ResourceMapBlob {
        /// Which resource.
        resource_id: u32,
        /// Where in the shared memory region.
        offset: u64,
    },
    /// RESOURCE_UNMAP_BLOB.
    ResourceUnmapBlob {
        /// Which resource.
        resource_id: u32,
    },
}

/// Arguments of RESOURCE_CREATE_BLOB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateBlob<'a> {
    /// Id that the guest gives it.
    pub resource_id: u32,
    /// Where the memory is: one of the kinds that have a name.
    pub mem: BlobMem,
    /// What it may be used for: only flags that have a name.
    pub flags: BlobFlags,
    /// Memory of the context, for host memory.
    pub blob_id: u64,
    /// Bytes.
    pub size: u64,
    /// The guest's pages.
    pub entries: &'a [MemEntry],
}

/// Arguments of CTX_CREATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateContext<'a> {
    /// Its capset, 0 if it names none.
    pub capset_id: u32,
    /// Who made it. Any bytes.
    pub debug_name: &'a [u8],
}

impl Header {
    /// Reads a header.
    pub fn decode(raw: &CtrlHdr) -> Result<Header, DecodeError> {
        let flags = HeaderFlags(raw.flags.get());
        if flags.unknown() != HeaderFlags(0) {
            return Err(DecodeError::HeaderFlags(flags.unknown()));
        }
        let ring = flags.contains(HeaderFlags::INFO_RING_IDX).then_some(raw.ring_idx);
        if let Some(ring) = ring.filter(|ring| *ring >= MAX_RINGS) {
            return Err(DecodeError::Ring(ring));
        }
        Ok(Header {
            fence: flags.contains(HeaderFlags::FENCE).then_some(raw.fence_id.get()),
            ring,
            ctx_id: raw.ctx_id.get(),
        })
    }

    /// The header of this command as it travels.
    #[must_use]
    pub fn raw(&self, command: CommandId) -> CtrlHdr {
        let mut flags = HeaderFlags(0);
        if self.fence.is_some() {
            flags = flags | HeaderFlags::FENCE;
        }
        if self.ring.is_some() {
            flags = flags | HeaderFlags::INFO_RING_IDX;
        }
        CtrlHdr {
            type_: U32::new(command.0),
            flags: U32::new(flags.0),
            fence_id: U64::new(self.fence.unwrap_or(0)),
            ctx_id: U32::new(self.ctx_id),
            ring_idx: self.ring.unwrap_or(0),
            padding: [0; 3],
        }
    }
}

impl<'a> Request<'a> {
    /// Reads a request that fills `bytes`. Nothing is allocated; the result borrows from `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Request<'a>, DecodeError> {
        let (raw, _) =
            CtrlHdr::ref_from_prefix(bytes).map_err(|_| DecodeError::NoHeader { have: bytes.len() })?;
        let header = Header::decode(raw)?;
        Ok(Request { header, command: Command::decode(CommandId(raw.type_.get()), bytes)? })
    }

    /// The bytes of the request: what a driver sends.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let hdr = self.header.raw(self.command.id());
        let id = |resource_id: u32| U32::new(resource_id);
        match self.command {
            Command::ResourceUnref { resource_id } => {
                ResourceUnref { hdr, resource_id: id(resource_id), ..Default::default() }.as_bytes().to_vec()
            }
            Command::GetCapsetInfo { index } => {
                GetCapsetInfo { hdr, capset_index: U32::new(index), ..Default::default() }.as_bytes().to_vec()
            }
            Command::GetCapset { id: capset, version } => {
                GetCapset { hdr, capset_id: U32::new(capset), capset_version: U32::new(version) }
                    .as_bytes()
                    .to_vec()
            }
            Command::ResourceCreateBlob(blob) => blob.encode(hdr),
            Command::CtxCreate(context) => context.encode(hdr),
            Command::CtxDestroy => CtxDestroy { hdr }.as_bytes().to_vec(),
            Command::CtxAttachResource { resource_id } | Command::CtxDetachResource { resource_id } => {
                CtxResource { hdr, resource_id: id(resource_id), ..Default::default() }.as_bytes().to_vec()
            }
            Command::Submit3d { bytes } => {
                let fixed = CmdSubmit { hdr, size: count(bytes.len()), ..Default::default() };
                [fixed.as_bytes(), bytes].concat()
            }
            Command::ResourceMapBlob { resource_id, offset } => {
                let offset = U64::new(offset);
                ResourceMapBlob { hdr, resource_id: id(resource_id), offset, ..Default::default() }
                    .as_bytes()
                    .to_vec()
            }
            Command::ResourceUnmapBlob { resource_id } => {
                ResourceUnmapBlob { hdr, resource_id: id(resource_id), ..Default::default() }
                    .as_bytes()
                    .to_vec()
            }
        }
    }
}

impl<'a> Command<'a> {
    /// The number of the command.
    #[must_use]
    pub fn id(&self) -> CommandId {
        match self {
            Command::ResourceUnref { .. } => CommandId::RESOURCE_UNREF,
            Command::GetCapsetInfo { .. } => CommandId::GET_CAPSET_INFO,
            Command::GetCapset { .. } => CommandId::GET_CAPSET,
            Command::ResourceCreateBlob(_) => CommandId::RESOURCE_CREATE_BLOB,
            Command::CtxCreate(_) => CommandId::CTX_CREATE,
            Command::CtxDestroy => CommandId::CTX_DESTROY,
            Command::CtxAttachResource { .. } => CommandId::CTX_ATTACH_RESOURCE,
            Command::CtxDetachResource { .. } => CommandId::CTX_DETACH_RESOURCE,
            Command::Submit3d { .. } => CommandId::SUBMIT_3D,
            Command::ResourceMapBlob { .. } => CommandId::RESOURCE_MAP_BLOB,
            Command::ResourceUnmapBlob { .. } => CommandId::RESOURCE_UNMAP_BLOB,
        }
    }

    /// Reads the arguments of a command. `bytes` is the whole request.
    fn decode(id: CommandId, bytes: &'a [u8]) -> Result<Command<'a>, DecodeError> {
        Ok(match id {
            CommandId::RESOURCE_UNREF => {
                let args: &ResourceUnref = whole(id, bytes)?;
                Command::ResourceUnref { resource_id: args.resource_id.get() }
            }
            CommandId::GET_CAPSET_INFO => {
                let args: &GetCapsetInfo = whole(id, bytes)?;
                Command::GetCapsetInfo { index: args.capset_index.get() }
            }
            CommandId::GET_CAPSET => {
                let args: &GetCapset = whole(id, bytes)?;
                Command::GetCapset { id: args.capset_id.get(), version: args.capset_version.get() }
            }
            CommandId::RESOURCE_CREATE_BLOB => Command::ResourceCreateBlob(CreateBlob::decode(bytes)?),
            CommandId::CTX_CREATE => Command::CtxCreate(CreateContext::decode(bytes)?),
            CommandId::CTX_DESTROY => {
                let _: &CtxDestroy = whole(id, bytes)?;
                Command::CtxDestroy
            }
            CommandId::CTX_ATTACH_RESOURCE => {
                let args: &CtxResource = whole(id, bytes)?;
                Command::CtxAttachResource { resource_id: args.resource_id.get() }
            }
            CommandId::CTX_DETACH_RESOURCE => {
                let args: &CtxResource = whole(id, bytes)?;
                Command::CtxDetachResource { resource_id: args.resource_id.get() }
            }
            CommandId::SUBMIT_3D => {
                let (args, bytes) = split::<CmdSubmit>(id, bytes)?;
                tail_is(id, u64::from(args.size.get()), bytes)?;
                Command::Submit3d { bytes }
            }
            CommandId::RESOURCE_MAP_BLOB => {
                let args: &ResourceMapBlob = whole(id, bytes)?;
                Command::ResourceMapBlob { resource_id: args.resource_id.get(), offset: args.offset.get() }
            }
            CommandId::RESOURCE_UNMAP_BLOB => {
                let args: &ResourceUnmapBlob = whole(id, bytes)?;
                Command::ResourceUnmapBlob { resource_id: args.resource_id.get() }
            }
            known if known.name().is_some() => return Err(DecodeError::NotHere(known)),
            unknown => return Err(DecodeError::Unknown(unknown)),
        })
    }
}

impl<'a> CreateBlob<'a> {
    fn decode(bytes: &'a [u8]) -> Result<CreateBlob<'a>, DecodeError> {
        let command = CommandId::RESOURCE_CREATE_BLOB;
        let (args, tail) = split::<ResourceCreateBlob>(command, bytes)?;
        let (mem, flags) = (BlobMem(args.blob_mem.get()), BlobFlags(args.blob_flags.get()));
        if mem.name().is_none() {
            return Err(DecodeError::BlobMem(mem));
        }
        if flags.unknown() != BlobFlags(0) {
            return Err(DecodeError::BlobFlags(flags.unknown()));
        }
        // 2^32 entries of 16 bytes do not overflow.
        let need = u64::from(args.nr_entries.get()) * size_of::<MemEntry>() as u64;
        tail_is(command, need, tail)?;
        let entries = <[MemEntry]>::ref_from_bytes(tail).map_err(|_| DecodeError::Tail {
            command,
            need,
            have: tail.len(),
        })?;
        Ok(CreateBlob {
            resource_id: args.resource_id.get(),
            mem,
            flags,
            blob_id: args.blob_id.get(),
            size: args.size.get(),
            entries,
        })
    }

    fn encode(&self, hdr: CtrlHdr) -> Vec<u8> {
        let fixed = ResourceCreateBlob {
            hdr,
            resource_id: U32::new(self.resource_id),
            blob_mem: U32::new(self.mem.0),
            blob_flags: U32::new(self.flags.0),
            nr_entries: count(self.entries.len()),
            blob_id: U64::new(self.blob_id),
            size: U64::new(self.size),
        };
        [fixed.as_bytes(), self.entries.as_bytes()].concat()
    }
}

impl<'a> CreateContext<'a> {
    fn decode(bytes: &'a [u8]) -> Result<CreateContext<'a>, DecodeError> {
        let args: &CtxCreate = whole(CommandId::CTX_CREATE, bytes)?;
        let (nlen, init) = (args.nlen.get(), args.context_init.get());
        let name = usize::try_from(nlen).ok().and_then(|len| args.debug_name.get(..len));
        let debug_name = name.ok_or(DecodeError::NameLength(nlen))?;
        match init & !CONTEXT_INIT_CAPSET_MASK {
            0 => Ok(CreateContext { capset_id: init, debug_name }),
            unknown => Err(DecodeError::ContextInit(unknown)),
        }
    }

    /// A name that does not fit is cut.
    fn encode(&self, hdr: CtrlHdr) -> Vec<u8> {
        let name = &self.debug_name[..self.debug_name.len().min(DEBUG_NAME_LEN)];
        let mut debug_name = [0; DEBUG_NAME_LEN];
        debug_name[..name.len()].copy_from_slice(name);
        let fixed =
            CtxCreate { hdr, nlen: count(name.len()), context_init: U32::new(self.capset_id), debug_name };
        fixed.as_bytes().to_vec()
    }
}

/// A length field. What cannot be said becomes the largest, which no receiver takes.
fn count(len: usize) -> U32 {
    U32::new(u32::try_from(len).unwrap_or(u32::MAX))
}

/// The struct at the start of a request, and what follows it.
fn split<T: FromBytes + KnownLayout + Immutable>(
    command: CommandId,
    bytes: &[u8],
) -> Result<(&T, &[u8]), DecodeError> {
    let short = DecodeError::Short { command, need: size_of::<T>(), have: bytes.len() };
    T::ref_from_prefix(bytes).map_err(|_| short)
}

/// The struct of a request that nothing follows.
fn whole<T: FromBytes + KnownLayout + Immutable>(
    command: CommandId,
    bytes: &[u8],
) -> Result<&T, DecodeError> {
    let (args, tail) = split(command, bytes)?;
    tail_is(command, 0, tail)?;
    Ok(args)
}

fn tail_is(command: CommandId, need: u64, tail: &[u8]) -> Result<(), DecodeError> {
    if tail.len() as u64 == need {
        Ok(())
    } else {
        Err(DecodeError::Tail { command, need, have: tail.len() })
    }
}
