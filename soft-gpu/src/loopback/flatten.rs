//! What one ioctl can reach of its caller, as data: gathered by the client, offered to the device by the
//! server, and brought back.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::kfd::flat::{ApplyError, Declared, FlatCall, FlatMem, FlatWrites};
use protocol::kfd::ioctl::FdPlace;
use protocol::kfd::{Call, Fault, FileId, Interrupt, PassedFd, Shared, SharedBacking, UserMem};
use protocol::{Declaration, Errno};

use super::message::{WireDescriptor, WirePiece, WireShared};
use crate::seqpacket::MAX_DESCRIPTORS;

/// What the client sends along with the argument struct.
pub(super) struct Flattened {
    pub memory: Vec<u8>,
    pub shared: Vec<WireShared>,
    pub descriptors: Vec<(i32, WireDescriptor)>,
    /// The descriptors that `shared` and `descriptors` number.
    pub passed: Vec<Arc<OwnedFd>>,
    /// Those of `shared`.
    pub lent: Vec<Arc<OwnedFd>>,
}

/// Whether a call of this kind may sleep until somebody else does something.
pub(super) fn may_block(request: u32) -> bool {
    Declaration::of(request).may_block()
}

/// Gathers what the declaration of the call names.
pub(super) fn collect(request: u32, args: &[u8], call: &dyn Call) -> Flattened {
    let mut passed = Vec::new();
    let declaration = Declaration::of(request);
    let flat = FlatCall::collect(declaration, args, call.mem());
    let numbers = flat.descriptors(declaration, args);
    let descriptors =
        numbers.into_iter().map(|number| (number, wire_descriptor(number, call, &mut passed))).collect();
    let mut lent = Vec::new();
    let shared = share(declaration, args, call, &mut passed, &mut lent);
    Flattened { memory: flat.encode(), shared, descriptors, passed, lent }
}

fn wire_descriptor(number: i32, call: &dyn Call, passed: &mut Vec<Arc<OwnedFd>>) -> WireDescriptor {
    match call.descriptor(number) {
        Ok(PassedFd::File(file)) => WireDescriptor::File(file.0),
        Ok(PassedFd::Foreign(fd)) => match push(Arc::new(fd), passed) {
            Ok(index) => WireDescriptor::Foreign(index),
            Err(errno) => WireDescriptor::Error(errno.raw()),
        },
        Err(errno) => WireDescriptor::Error(errno.raw()),
    }
}

fn share(
    declaration: Declaration,
    args: &[u8],
    call: &dyn Call,
    passed: &mut Vec<Arc<OwnedFd>>,
    lent: &mut Vec<Arc<OwnedFd>>,
) -> Vec<WireShared> {
    let ranges = declaration.reaches(args).flat_map(|reach| reach.shared);
    ranges
        .filter_map(|range| range.extent(args))
        .map(|extent| {
            let pieces = call.mem().share(extent.addr, extent.len, true);
            lent.extend(pieces.iter().flatten().filter_map(|piece| match &piece.backing {
                SharedBacking::Descriptor { fd, .. } => Some(Arc::clone(fd)),
                SharedBacking::Local => None,
            }));
            let pieces =
                pieces.and_then(|pieces| pieces.into_iter().map(|piece| wire_piece(piece, passed)).collect());
            WireShared {
                addr: extent.addr,
                len: extent.len,
                writable: true,
                pieces: pieces.map_err(Errno::raw),
            }
        })
        .collect()
}

fn wire_piece(piece: Shared, passed: &mut Vec<Arc<OwnedFd>>) -> Result<WirePiece, Errno> {
    match piece.backing {
        SharedBacking::Descriptor { fd, offset } => {
            let descriptor = push(fd, passed)?;
            Ok(WirePiece { addr: piece.addr, len: piece.len, descriptor, offset })
        }
        // The caller's own address space means nothing on the other side.
        SharedBacking::Local => Err(Errno::EOPNOTSUPP),
    }
}

/// Adds a descriptor to the message, or finds it there.
fn push(fd: Arc<OwnedFd>, passed: &mut Vec<Arc<OwnedFd>>) -> Result<u32, Errno> {
    let known = passed.iter().position(|other| Arc::ptr_eq(other, &fd));
    let index = match known {
        Some(index) => index,
        // One place stays free for the memfd of a long message.
        None if passed.len() + 1 >= MAX_DESCRIPTORS => return Err(Errno::E2BIG),
        None => {
            passed.push(fd);
            passed.len() - 1
        }
    };
    u32::try_from(index).map_err(|_| Errno::E2BIG)
}

/// Puts what the device wrote into the caller's memory.
pub(super) fn apply_writes(request: u32, args: &[u8], writes: &[u8], mem: &dyn UserMem) -> Result<(), Errno> {
    let writes = FlatWrites::decode(writes).map_err(|error| {
        log::error!("The loopback server sent writes that cannot be decoded: {error}.");
        Errno::EPROTO
    })?;
    let flat = FlatCall::declare(Declaration::of(request), args);
    flat.apply(&writes, mem).map_err(|error| match error {
        ApplyError::Fault(_) => Errno::EFAULT,
        ApplyError::Undeclared { .. } => {
            log::error!("The loopback server broke the declaration of request {request:#x}: {error}.");
            Errno::EPROTO
        }
    })
}

/// Replaces the numbers that stand for returned descriptors by numbers of the caller.
pub(super) fn install(
    request: u32,
    args: &mut [u8],
    returned: Vec<OwnedFd>,
    call: &dyn Call,
) -> Result<(), Errno> {
    if returned.is_empty() {
        return Ok(());
    }
    let field =
        Declaration::of(request).reaches(args).flat_map(|reach| reach.fds).find_map(|fd| match fd.place {
            FdPlace::Args(field) if fd.flow.writes() => Some((field.offset, field.size)),
            _ => None,
        });
    let (Some((offset, size)), [fd]) =
        (field, <[OwnedFd; 1]>::try_from(returned).map_err(|_| Errno::EPROTO)?)
    else {
        return Err(Errno::EPROTO);
    };
    let number = call.install(fd)?;
    let bytes = number.to_le_bytes();
    let target = args.get_mut(offset..).and_then(|rest| rest.get_mut(..size.min(bytes.len())));
    target.ok_or(Errno::EPROTO)?.copy_from_slice(&bytes);
    Ok(())
}

/// The server's [`Call`]: the caller as far as the message describes it.
pub(super) struct RemoteCall {
    mem: RemoteMem,
    descriptors: Vec<(i32, WireDescriptor)>,
    fds: Vec<Arc<OwnedFd>>,
    installed: Mutex<Vec<OwnedFd>>,
    interrupt: Arc<Interrupt>,
}

struct RemoteMem {
    flat: FlatMem,
    shared: Vec<(WireShared, Vec<Arc<OwnedFd>>)>,
}

impl RemoteCall {
    pub(super) fn new(
        memory: &[u8],
        shared: Vec<WireShared>,
        descriptors: Vec<(i32, WireDescriptor)>,
        fds: Vec<OwnedFd>,
        interrupt: Arc<Interrupt>,
    ) -> io::Result<Self> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let flat = FlatMem::new(FlatCall::decode(memory).map_err(invalid)?);
        let fds: Vec<Arc<OwnedFd>> = fds.into_iter().map(Arc::new).collect();
        let shared = shared
            .into_iter()
            .map(|range| {
                let pieces = range.pieces.as_deref().unwrap_or_default();
                let found = pieces.iter().map(|piece| fds.get(piece.descriptor as usize).cloned());
                let found: Option<Vec<_>> = found.collect();
                found.map(|found| (range, found)).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { mem: RemoteMem { flat, shared }, descriptors, fds, installed: Mutex::default(), interrupt })
    }

    /// What the call did to its caller: writes, and descriptors that it gets.
    pub(super) fn into_effects(self) -> (Vec<u8>, Vec<OwnedFd>) {
        let installed = self.installed.into_inner().unwrap_or_else(PoisonError::into_inner);
        (self.mem.flat.into_writes().encode(), installed)
    }
}

impl Call for RemoteCall {
    fn mem(&self) -> &dyn UserMem {
        &self.mem
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        let (_, found) = self.descriptors.iter().find(|(number, _)| *number == fd).ok_or(Errno::EBADF)?;
        match found {
            WireDescriptor::File(file) => Ok(PassedFd::File(FileId(*file))),
            WireDescriptor::Foreign(index) => {
                let fd = self.fds.get(*index as usize).ok_or(Errno::EBADF)?;
                let copy = fd.as_fd().try_clone_to_owned().map_err(|_| Errno::EMFILE)?;
                Ok(PassedFd::Foreign(copy))
            }
            WireDescriptor::Error(raw) => Err(Errno::from_raw(*raw).unwrap_or(Errno::EBADF)),
        }
    }

    fn install(&self, fd: OwnedFd) -> Result<i32, Errno> {
        let mut installed = self.installed.lock().unwrap_or_else(PoisonError::into_inner);
        let number = i32::try_from(installed.len()).map_err(|_| Errno::EMFILE)?;
        installed.push(fd);
        Ok(number)
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

impl UserMem for RemoteMem {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.flat.read(addr, buf)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        self.flat.write(addr, buf)
    }

    fn share(&self, addr: u64, len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        let found = self.shared.iter().find(|(range, _)| range.addr == addr && range.len == len);
        let (range, fds) = found.ok_or(Errno::EFAULT)?;
        let pieces = range.pieces.as_ref().map_err(|raw| Errno::from_raw(*raw).unwrap_or(Errno::EFAULT))?;
        let shared = pieces.iter().zip(fds).map(|(piece, fd)| Shared {
            addr: piece.addr,
            len: piece.len,
            backing: SharedBacking::Descriptor { fd: Arc::clone(fd), offset: piece.offset },
        });
        Ok(shared.collect())
    }
}
