//! The commands: one table, requests and answers.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::structs::{self, Descriptor, Range};
use super::{DecodeError, MESSAGE_MAX};
use crate::kfd::structs::UapiStruct;
use crate::kfd::{FileId, Node};

/// Ranges in a HELLO at most.
pub const MAX_RANGES: u32 = 64;
/// Descriptors in an ioctl at most.
pub const MAX_DESCRIPTORS: u32 = 1024;

/// Declares [`Command`], one line each: `Variant = number, "NAME", request struct => answer struct;`
macro_rules! ccmds {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $name:literal, $request:ty => $answer:ty;)*) => {
        /// A command. How long it may take is not told by the command: an ioctl is as slow as the
        /// [`Declaration`](crate::Declaration) of its request code says, all others are short.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Command {
            $($(#[$doc])* $variant = $id,)*
        }

        impl Command {
            /// All of them.
            pub const ALL: &'static [Command] = &[$(Command::$variant),*];

            /// The command with this number.
            #[must_use]
            pub fn from_id(id: u32) -> Option<Command> {
                match id {
                    $($id => Some(Command::$variant),)*
                    _ => None,
                }
            }

            /// Its number.
            #[must_use]
            pub fn id(self) -> u32 {
                self as u32
            }

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Command::$variant => $name,)*
                }
            }

            /// Names and sizes of the fixed parts of its request and its answer.
            #[must_use]
            pub fn structs(self) -> [(&'static str, usize); 2] {
                match self {
                    $(Command::$variant => {
                        [(<$request>::NAME, size_of::<$request>()), (<$answer>::NAME, size_of::<$answer>())]
                    })*
                }
            }
        }
    };
}

/// An answer without contents.
type Nothing = structs::Nothing;

ccmds! {
    /// The first command: versions, and the addresses of the context.
    Hello = 1, "HELLO", structs::Hello => structs::HelloAnswer;
    /// A part of the topology.
    Topology = 2, "TOPOLOGY", structs::TopologyPart => structs::TopologyAnswer;
    /// `open(2)` of a device node.
    Open = 3, "OPEN", structs::Open => structs::File;
    /// The last `close(2)` of an open file.
    Close = 4, "CLOSE", structs::File => Nothing;
    /// What an ioctl copies ([`Process::transfer`](crate::kfd::Process::transfer)).
    Transfer = 5, "TRANSFER", structs::Transfer => structs::TransferAnswer;
    /// `ioctl(2)`.
    Ioctl = 6, "IOCTL", structs::Ioctl => structs::IoctlAnswer;
    /// Part of a blob becomes memory of the context's addresses.
    Alias = 7, "ALIAS", structs::Alias => Nothing;
    /// The opposite.
    Unalias = 8, "UNALIAS", structs::Unalias => Nothing;
    /// The guest's page for doorbells.
    Doorbells = 9, "DOORBELLS", structs::Doorbells => Nothing;
    /// Ends a call that waits.
    Cancel = 10, "CANCEL", structs::Cancel => Nothing;
    /// More slots.
    AddSlots = 11, "ADD_SLOTS", structs::AddSlots => Nothing;
    /// Memory of the window becomes that of a buffer, or of doorbells.
    Place = 12, "PLACE", structs::Place => Nothing;
}

/// What is asked, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// HELLO.
    Hello {
        /// Lowest and highest version that the guest speaks.
        versions: (u32, u32),
        /// What the guest can do.
        features: u64,
        /// Bytes of the guest's pages.
        page_size: u32,
        /// Addresses that are free in the guest, best first.
        ranges: &'a [Range],
    },
    /// TOPOLOGY.
    Topology {
        /// First byte to be sent.
        offset: u64,
    },
    /// OPEN.
    Open(Node),
    /// CLOSE.
    Close(FileId),
    /// TRANSFER.
    Transfer {
        /// Which file.
        file: FileId,
        /// Request code.
        request: u32,
    },
    /// IOCTL.
    Ioctl(IoctlCall<'a>),
    /// ALIAS.
    Alias {
        /// Which blob.
        resource: u32,
        /// First byte of it.
        offset: u64,
        /// Where.
        addresses: Range,
    },
    /// UNALIAS.
    Unalias {
        /// Where.
        addresses: Range,
    },
    /// DOORBELLS.
    Doorbells {
        /// The open `/dev/kfd`.
        file: FileId,
        /// Where the doorbells are in it.
        place: Range,
        /// The guest's blob.
        resource: u32,
    },
    /// CANCEL.
    Cancel {
        /// Slot of the call.
        slot: u32,
    },
    /// ADD_SLOTS.
    AddSlots {
        /// The blob.
        resource: u32,
    },
    /// PLACE.
    Place {
        /// The open file.
        file: FileId,
        /// Where `mmap` finds the memory in it.
        place: Range,
        /// The blob that takes its place.
        resource: u32,
    },
}

/// An ioctl with all that it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlCall<'a> {
    /// Which file.
    pub file: FileId,
    /// Request code.
    pub request: u32,
    /// The argument struct.
    pub args: &'a [u8],
    /// Gathered memory, encoded; nothing where the call has none.
    pub memory: &'a [u8],
    /// Files that the arguments name.
    pub descriptors: &'a [Descriptor],
}

/// What an ioctl did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoctlAnswer<'a> {
    /// What `ioctl(2)` returned, or the negative errno.
    pub result: i32,
    /// The argument struct after it.
    pub args: &'a [u8],
    /// What it wrote, encoded.
    pub writes: &'a [u8],
}

/// Takes a fixed part off the front.
fn head<T>(bytes: &[u8]) -> Result<(&T, &[u8]), DecodeError>
where
    T: UapiStruct + FromBytes + KnownLayout + Immutable + Unaligned,
{
    let short = || DecodeError::Short { what: T::NAME, need: size_of::<T>(), have: bytes.len() };
    T::ref_from_prefix(bytes).map_err(|_| short())
}

/// A message that is its fixed part.
fn whole<T>(bytes: &[u8]) -> Result<&T, DecodeError>
where
    T: UapiStruct + FromBytes + KnownLayout + Immutable + Unaligned,
{
    let (fixed, rest) = head::<T>(bytes)?;
    end(T::NAME, rest)?;
    Ok(fixed)
}

fn end(what: &'static str, rest: &[u8]) -> Result<(), DecodeError> {
    if rest.is_empty() { Ok(()) } else { Err(DecodeError::Tail { what, need: 0, have: rest.len() }) }
}

fn zero(what: &'static str, reserved: u64) -> Result<(), DecodeError> {
    if reserved == 0 { Ok(()) } else { Err(DecodeError::Reserved(what)) }
}

fn split<'a>(what: &'static str, rest: &'a [u8], len: u32) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
    rest.split_at_checked(len as usize).ok_or(DecodeError::Tail { what, need: len.into(), have: rest.len() })
}

/// The rest as elements, exactly so many of them.
fn elements<'a, T>(what: &'static str, rest: &'a [u8], count: u32) -> Result<&'a [T], DecodeError>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let need = u64::from(count) * size_of::<T>() as u64;
    let wrong = DecodeError::Tail { what, need, have: rest.len() };
    if need != rest.len() as u64 {
        return Err(wrong);
    }
    <[T]>::ref_from_bytes(rest).map_err(|_| wrong)
}

fn limited(what: &'static str, field: &'static str, value: u32, max: u32) -> Result<u32, DecodeError> {
    if value <= max { Ok(value) } else { Err(DecodeError::Value { what, field, value: value.into() }) }
}

impl<'a> Request<'a> {
    /// From a command's number and the bytes of its request.
    ///
    /// # Errors
    /// On anything that [`Request::encode`] does not make. Nothing is copied or allocated.
    pub fn decode(id: u32, bytes: &'a [u8]) -> Result<Request<'a>, DecodeError> {
        let command = Command::from_id(id).ok_or(DecodeError::Unknown(id))?;
        match command {
            Command::Hello => hello(bytes),
            Command::Topology => {
                let offset = whole::<structs::TopologyPart>(bytes)?.offset.get();
                Ok(Request::Topology { offset })
            }
            Command::Open => open(whole(bytes)?),
            Command::Close => Ok(Request::Close(FileId(whole::<structs::File>(bytes)?.file.get()))),
            Command::Transfer => {
                let transfer = whole::<structs::Transfer>(bytes)?;
                zero("TRANSFER", transfer.reserved.get().into())?;
                let (file, request) = (FileId(transfer.file.get()), transfer.request.get());
                Ok(Request::Transfer { file, request })
            }
            Command::Ioctl => ioctl(bytes).map(Request::Ioctl),
            Command::Alias => {
                let alias = whole::<structs::Alias>(bytes)?;
                zero("ALIAS", alias.reserved.get().into())?;
                let (resource, offset) = (alias.resource.get(), alias.offset.get());
                Ok(Request::Alias { resource, offset, addresses: alias.addresses })
            }
            Command::Unalias => {
                Ok(Request::Unalias { addresses: whole::<structs::Unalias>(bytes)?.addresses })
            }
            Command::Doorbells => {
                let doorbells = whole::<structs::Doorbells>(bytes)?;
                zero("DOORBELLS", doorbells.reserved.get().into())?;
                let (file, place) = (FileId(doorbells.file.get()), doorbells.place);
                Ok(Request::Doorbells { file, place, resource: doorbells.resource.get() })
            }
            Command::Cancel => {
                let cancel = whole::<structs::Cancel>(bytes)?;
                zero("CANCEL", cancel.reserved.get().into())?;
                Ok(Request::Cancel { slot: cancel.slot.get() })
            }
            Command::AddSlots => {
                let add = whole::<structs::AddSlots>(bytes)?;
                zero("ADD_SLOTS", add.reserved.get().into())?;
                Ok(Request::AddSlots { resource: add.resource.get() })
            }
            Command::Place => {
                let place = whole::<structs::Place>(bytes)?;
                zero("PLACE", place.reserved.get().into())?;
                let (file, resource) = (FileId(place.file.get()), place.resource.get());
                Ok(Request::Place { file, place: place.place, resource })
            }
        }
    }

    /// Which command it is.
    #[must_use]
    pub fn command(&self) -> Command {
        match self {
            Request::Hello { .. } => Command::Hello,
            Request::Topology { .. } => Command::Topology,
            Request::Open(_) => Command::Open,
            Request::Close(_) => Command::Close,
            Request::Transfer { .. } => Command::Transfer,
            Request::Ioctl(_) => Command::Ioctl,
            Request::Alias { .. } => Command::Alias,
            Request::Unalias { .. } => Command::Unalias,
            Request::Doorbells { .. } => Command::Doorbells,
            Request::Cancel { .. } => Command::Cancel,
            Request::AddSlots { .. } => Command::AddSlots,
            Request::Place { .. } => Command::Place,
        }
    }

    /// Appends the bytes.
    ///
    /// Lengths beyond [`MESSAGE_MAX`] make a message that nobody takes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Request::Hello { versions, features, page_size, ranges } => {
                let fixed = structs::Hello {
                    version_min: versions.0.into(),
                    version_max: versions.1.into(),
                    features: features.into(),
                    page_size: page_size.into(),
                    ranges: count(ranges.len()).into(),
                    ..Default::default()
                };
                out.extend(fixed.as_bytes());
                out.extend(ranges.as_bytes());
            }
            Request::Topology { offset } => {
                out.extend(structs::TopologyPart { offset: offset.into() }.as_bytes());
            }
            Request::Open(node) => {
                let (node, minor) = match node {
                    Node::Kfd => (0, 0),
                    Node::Render(minor) => (1, minor),
                };
                out.extend(structs::Open { node: node.into(), minor: minor.into() }.as_bytes());
            }
            Request::Close(file) => out.extend(structs::File { file: file.0.into() }.as_bytes()),
            Request::Transfer { file, request } => {
                let (file, request) = (file.0.into(), request.into());
                out.extend(structs::Transfer { file, request, ..Default::default() }.as_bytes());
            }
            Request::Ioctl(call) => {
                let fixed = structs::Ioctl {
                    file: call.file.0.into(),
                    request: call.request.into(),
                    args: count(call.args.len()).into(),
                    memory: count(call.memory.len()).into(),
                    descriptors: count(call.descriptors.len()).into(),
                };
                out.extend(fixed.as_bytes());
                out.extend(call.args);
                out.extend(call.memory);
                out.extend(call.descriptors.as_bytes());
            }
            Request::Alias { resource, offset, addresses } => {
                let (resource, offset) = (resource.into(), offset.into());
                out.extend(structs::Alias { resource, offset, addresses, ..Default::default() }.as_bytes());
            }
            Request::Unalias { addresses } => out.extend(structs::Unalias { addresses }.as_bytes()),
            Request::Doorbells { file, place, resource } => {
                let (file, resource) = (file.0.into(), resource.into());
                out.extend(structs::Doorbells { file, place, resource, ..Default::default() }.as_bytes());
            }
            Request::Cancel { slot } => {
                out.extend(structs::Cancel { slot: slot.into(), ..Default::default() }.as_bytes());
            }
            Request::AddSlots { resource } => {
                out.extend(structs::AddSlots { resource: resource.into(), ..Default::default() }.as_bytes());
            }
            Request::Place { file, place, resource } => {
                let (file, resource) = (file.0.into(), resource.into());
                out.extend(structs::Place { file, place, resource, ..Default::default() }.as_bytes());
            }
        }
    }
}

/// Lengths are limited by [`MESSAGE_MAX`]; one beyond 2^32 stays too long.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn hello(bytes: &[u8]) -> Result<Request<'_>, DecodeError> {
    let (fixed, rest) = head::<structs::Hello>(bytes)?;
    zero("HELLO", fixed.reserved.get())?;
    let ranges = limited("HELLO", "number of ranges", fixed.ranges.get(), MAX_RANGES)?;
    Ok(Request::Hello {
        versions: (fixed.version_min.get(), fixed.version_max.get()),
        features: fixed.features.get(),
        page_size: fixed.page_size.get(),
        ranges: elements("HELLO", rest, ranges)?,
    })
}

fn open<'a>(open: &structs::Open) -> Result<Request<'a>, DecodeError> {
    match (open.node.get(), open.minor.get()) {
        (0, 0) => Ok(Request::Open(Node::Kfd)),
        (0, _) => Err(DecodeError::Reserved("OPEN")),
        (1, minor) => Ok(Request::Open(Node::Render(minor))),
        (node, _) => Err(DecodeError::Value { what: "OPEN", field: "node", value: node.into() }),
    }
}

fn ioctl(bytes: &[u8]) -> Result<IoctlCall<'_>, DecodeError> {
    const WHAT: &str = "IOCTL";
    let (fixed, rest) = head::<structs::Ioctl>(bytes)?;
    let (args, rest) = split(WHAT, rest, fixed.args.get())?;
    let (memory, rest) = split(WHAT, rest, fixed.memory.get())?;
    let descriptors = limited(WHAT, "number of descriptors", fixed.descriptors.get(), MAX_DESCRIPTORS)?;
    let descriptors: &[Descriptor] = elements(WHAT, rest, descriptors)?;
    for descriptor in descriptors {
        zero(WHAT, descriptor.reserved.get().into())?;
    }
    let file = FileId(fixed.file.get());
    Ok(IoctlCall { file, request: fixed.request.get(), args, memory, descriptors })
}

/// What comes back, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Of commands that tell nothing.
    Nothing,
    /// To HELLO.
    Hello(structs::HelloAnswer),
    /// To TOPOLOGY.
    Topology {
        /// Bytes of the whole tree.
        total: u64,
        /// Those from the offset on, as many as there was room for.
        part: &'a [u8],
    },
    /// To OPEN.
    Open(FileId),
    /// To TRANSFER.
    Transfer(crate::kfd::Transfer),
    /// To IOCTL.
    Ioctl(IoctlAnswer<'a>),
}

impl<'a> Answer<'a> {
    /// From the bytes that answer a command.
    ///
    /// # Errors
    /// On anything that [`Answer::encode`] does not make for this command.
    pub fn decode(command: Command, bytes: &'a [u8]) -> Result<Answer<'a>, DecodeError> {
        match command {
            Command::Hello => {
                let answer = whole::<structs::HelloAnswer>(bytes)?;
                zero("HELLO's answer", answer.reserved.get().into())?;
                Ok(Answer::Hello(*answer))
            }
            Command::Topology => {
                let (fixed, part) = head::<structs::TopologyAnswer>(bytes)?;
                Ok(Answer::Topology { total: fixed.total.get(), part })
            }
            Command::Open => Ok(Answer::Open(FileId(whole::<structs::File>(bytes)?.file.get()))),
            Command::Transfer => {
                let answer = whole::<structs::TransferAnswer>(bytes)?;
                let directions = limited("TRANSFER's answer", "directions", answer.directions.get(), 3)?;
                Ok(Answer::Transfer(crate::kfd::Transfer {
                    size: answer.size.get() as usize,
                    from_user: directions & 1 != 0,
                    to_user: directions & 2 != 0,
                }))
            }
            Command::Ioctl => {
                const WHAT: &str = "IOCTL's answer";
                let (fixed, rest) = head::<structs::IoctlAnswer>(bytes)?;
                zero(WHAT, fixed.reserved.get().into())?;
                let (args, rest) = split(WHAT, rest, fixed.args.get())?;
                let (writes, rest) = split(WHAT, rest, fixed.writes.get())?;
                end(WHAT, rest)?;
                Ok(Answer::Ioctl(IoctlAnswer { result: fixed.result.get(), args, writes }))
            }
            Command::Close
            | Command::Alias
            | Command::Unalias
            | Command::Doorbells
            | Command::Cancel
            | Command::AddSlots
            | Command::Place => end(command.name(), bytes).map(|()| Answer::Nothing),
        }
    }

    /// Appends the bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Answer::Nothing => {}
            Answer::Hello(answer) => out.extend(answer.as_bytes()),
            Answer::Topology { total, part } => {
                out.extend(structs::TopologyAnswer { total: total.into() }.as_bytes());
                out.extend(part);
            }
            Answer::Open(file) => out.extend(structs::File { file: file.0.into() }.as_bytes()),
            Answer::Transfer(transfer) => {
                let directions = u32::from(transfer.from_user) | u32::from(transfer.to_user) << 1;
                let size = count(transfer.size).into();
                out.extend(structs::TransferAnswer { size, directions: directions.into() }.as_bytes());
            }
            Answer::Ioctl(answer) => {
                let fixed = structs::IoctlAnswer {
                    result: answer.result.into(),
                    args: count(answer.args.len()).into(),
                    writes: count(answer.writes.len()).into(),
                    ..Default::default()
                };
                out.extend(fixed.as_bytes());
                out.extend(answer.args);
                out.extend(answer.writes);
            }
        }
    }
}

const _: () = assert!(MAX_DESCRIPTORS as usize * size_of::<Descriptor>() < MESSAGE_MAX);
