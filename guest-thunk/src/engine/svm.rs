//! Shared virtual memory: attributes of address ranges, and XNACK (`AMDKFD_IOC_SVM`, `AMDKFD_IOC_SET_XNACK_MODE`).
//!
//! Programs name nodes in attributes, KFD names GPUs by its own ids.

use protocol::Errno;
use protocol::hsakmt::{INVALID_NODE_ID, Status, SvmAttrType, SvmAttribute};
use protocol::kfd::Ioctl;
use protocol::kfd::args::{SetXnackModeArgs, SvmArgs};
use protocol::kfd::constants::{SvmLocation, SvmOp};
use zerocopy::{FromBytes, IntoBytes};

use super::topology::Snapshot;
use super::{Engine, Result, room};

/// Interface version from which there is shared virtual memory.
const SINCE: u32 = 5;

/// Most attributes of one call: the request code has 14 bits for the length of header and attributes.
const MOST_ATTRIBUTES: usize = (MAX_REQUEST - size_of::<SvmArgs>()) / size_of::<SvmAttribute>();
const MAX_REQUEST: usize = (1 << 14) - 1;

impl Engine {
    /// Sets attributes of a range (`hsaKmtSVMSetAttr`). `address` and `size` are in bytes and whole pages. Locations
    /// and accesses name nodes; `PREFERRED_LOC` of [`INVALID_NODE_ID`] takes the preference back.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` before KFD 1.5; `INVALID_PARAMETER` for a range that is empty, at 0, or no whole pages, and for
    /// more attributes than a request can carry (2044); `INVALID_NODE_UNIT` for an unknown node and for access of a
    /// node without GPU; `ERROR` if KFD refuses.
    pub fn svm_set_attributes(&self, address: u64, size: u64, attributes: &[SvmAttribute]) -> Result<()> {
        self.check_range(address, size)?;
        let mut request = Request::new(SvmOp::SET_ATTR, address, size, attributes.len())?;
        let snapshot = self.snapshot()?;
        for (to, from) in request.attributes().iter_mut().zip(attributes) {
            *to = set_form(&*snapshot, *from)?;
        }
        self.svm(&mut request)
    }

    /// Reads attributes of a range (`hsaKmtSVMGetAttr`): the values, and for an access also its type, are filled in.
    /// Nothing is written on failure.
    ///
    /// # Errors
    /// As [`Engine::svm_set_attributes`]; `INVALID_NODE_UNIT` also if KFD names a GPU that is no node of this process.
    pub fn svm_get_attributes(&self, address: u64, size: u64, attributes: &mut [SvmAttribute]) -> Result<()> {
        self.check_range(address, size)?;
        let mut request = Request::new(SvmOp::GET_ATTR, address, size, attributes.len())?;
        let snapshot = self.snapshot()?;
        for (to, from) in request.attributes().iter_mut().zip(&*attributes) {
            *to = get_form(&*snapshot, *from)?;
        }
        self.svm(&mut request)?;
        for attribute in request.attributes() {
            *attribute = program_form(&*snapshot, *attribute)?;
        }
        attributes.copy_from_slice(request.attributes());
        Ok(())
    }

    /// Whether GPUs may have page faults (XNACK) in this process (`hsaKmtGetXNACKMode`): 1 or 0.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` before KFD 1.5 and where there is no shared virtual memory; `ERROR`.
    pub fn xnack_mode(&self) -> Result<i32> {
        self.xnack(-1)
    }

    /// Switches XNACK on or off (`hsaKmtSetXNACKMode`); a negative mode changes nothing.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` before KFD 1.5 and where a GPU cannot; `ERROR` while the process has queues.
    pub fn set_xnack_mode(&self, mode: i32) -> Result<()> {
        self.xnack(mode).map(|_| ())
    }

    fn xnack(&self, mode: i32) -> Result<i32> {
        self.require_minor(SINCE)?;
        let mut args = SetXnackModeArgs { xnack_enabled: mode };
        self.channel.ioctl(Ioctl::SetXnackMode, &mut args).map_err(|errno| match errno {
            Errno::EPERM => {
                log::debug!("XNACK mode {mode} is not supported: {errno}");
                Status::NotSupported
            }
            Errno::EBUSY => {
                log::debug!("XNACK mode {mode} cannot be set while there are queues: {errno}");
                Status::Error
            }
            errno => {
                log::debug!("XNACK mode {mode} is refused: {errno}");
                Status::Error
            }
        })?;
        Ok(args.xnack_enabled)
    }

    fn check_range(&self, address: u64, size: u64) -> Result<()> {
        self.require_minor(SINCE)?;
        let page = rustix::param::page_size() as u64;
        if address == 0 || size == 0 || !address.is_multiple_of(page) || !size.is_multiple_of(page) {
            log::debug!("an SVM range has to be whole pages: {address:#x}, {size:#x} bytes");
            return Err(Status::InvalidParameter);
        }
        // KFD says EFAULT to it (case S06: not every version looked).
        if address.checked_add(size).is_none() {
            log::debug!("an SVM range ends beyond all addresses: {address:#x}, {size:#x} bytes");
            return Err(Status::Error);
        }
        Ok(())
    }

    fn svm(&self, request: &mut Request) -> Result<()> {
        let code = request.code();
        self.channel.ioctl_bytes(self.channel.kfd_file(), code, request.bytes()).map_err(|errno| {
            let SvmArgs { start_addr, size, op, nattr } = request.header;
            log::debug!(
                "SVM operation {op} with {nattr} attributes on {start_addr:#x}, {size:#x} bytes: {errno}"
            );
            Status::Error
        })
    }
}

/// Header and attributes of one call, as KFD takes them in one piece.
struct Request {
    header: SvmArgs,
    /// The header, then the attributes. Words of 8 bytes, so that both lie aligned.
    words: Vec<u64>,
}

const HEADER_WORDS: usize = size_of::<SvmArgs>() / size_of::<u64>();
const _: () = assert!(size_of::<SvmAttribute>() == size_of::<u64>());

impl Request {
    fn new(op: SvmOp, start_addr: u64, size: u64, count: usize) -> Result<Self> {
        // Case S01: what does not fit into the request's length would change its direction and number.
        if count > MOST_ATTRIBUTES {
            log::debug!("{count} SVM attributes in one call; the most are {MOST_ATTRIBUTES}");
            return Err(Status::InvalidParameter);
        }
        let nattr = u32::try_from(count).map_err(|_| Status::InvalidParameter)?;
        let header = SvmArgs { start_addr, size, op: op.0, nattr };
        let words = room::filled(HEADER_WORDS + count, 0)?;
        let mut request = Self { header, words };
        for (to, from) in request.words.as_mut_bytes().iter_mut().zip(header.as_bytes()) {
            *to = *from;
        }
        Ok(request)
    }

    /// The uapi's request code with the length of all.
    fn code(&self) -> u32 {
        let attributes = self.header.nattr * size_of::<SvmAttribute>() as u32;
        Ioctl::Svm.request() + (attributes << 16)
    }

    fn attributes(&mut self) -> &mut [SvmAttribute] {
        let words = self.words.get_mut(HEADER_WORDS..).unwrap_or_default();
        <[SvmAttribute]>::mut_from_bytes(words.as_mut_bytes()).unwrap_or_default()
    }

    fn bytes(&mut self) -> &mut [u8] {
        self.words.as_mut_bytes()
    }
}

/// Which node is which GPU.
trait Nodes {
    /// KFD's id of a node's GPU; 0 for a node without, `None` for no node.
    fn gpu_id(&self, node: u32) -> Option<u32>;

    /// The node of a GPU.
    fn node_of_gpu(&self, gpu_id: u32) -> Option<u32>;
}

impl Nodes for Snapshot {
    fn gpu_id(&self, node: u32) -> Option<u32> {
        self.node(node).map(|node| node.gpu_id)
    }

    fn node_of_gpu(&self, gpu_id: u32) -> Option<u32> {
        Snapshot::node_of_gpu(self, gpu_id)
    }
}

/// Whether an attribute says which GPU may access a range.
fn is_access(kind: SvmAttrType) -> bool {
    matches!(kind, SvmAttrType::ACCESS | SvmAttrType::ACCESS_IN_PLACE | SvmAttrType::NO_ACCESS)
}

/// Whether an attribute says where a range is.
fn is_location(kind: SvmAttrType) -> bool {
    matches!(kind, SvmAttrType::PREFERRED_LOC | SvmAttrType::PREFETCH_LOC)
}

/// An attribute to set, as KFD takes it. Kinds that KFD does not know are its business.
fn set_form(nodes: &impl Nodes, attribute: SvmAttribute) -> Result<SvmAttribute> {
    let SvmAttribute { type_, value } = attribute;
    let kind = SvmAttrType(type_);
    if kind == SvmAttrType::PREFERRED_LOC && value == INVALID_NODE_ID {
        return Ok(SvmAttribute { type_, value: SvmLocation::UNDEFINED.0 });
    }
    if is_location(kind) {
        return Ok(SvmAttribute { type_, value: location(nodes, value)? });
    }
    get_form(nodes, attribute)
}

/// An attribute to ask for, as KFD takes it: accesses name a GPU.
fn get_form(nodes: &impl Nodes, attribute: SvmAttribute) -> Result<SvmAttribute> {
    let SvmAttribute { type_, value } = attribute;
    let kind = SvmAttrType(type_);
    if !is_access(kind) {
        return Ok(attribute);
    }
    match location(nodes, value)? {
        0 => {
            log::debug!("node {value} has no GPU whose access could be meant");
            Err(Status::InvalidNodeUnit)
        }
        gpu_id => Ok(SvmAttribute { type_, value: gpu_id }),
    }
}

/// KFD's id of a node's GPU; 0, which is system memory, for a node without.
fn location(nodes: &impl Nodes, node: u32) -> Result<u32> {
    const _: () = assert!(SvmLocation::SYSMEM.0 == 0);
    nodes.gpu_id(node).ok_or_else(|| {
        log::debug!("there is no node {node} for an SVM attribute");
        Status::InvalidNodeUnit
    })
}

/// An attribute that came from KFD, as programs read it: system memory is node 0.
fn program_form(nodes: &impl Nodes, attribute: SvmAttribute) -> Result<SvmAttribute> {
    let SvmAttribute { type_, value } = attribute;
    let kind = SvmAttrType(type_);
    if !is_location(kind) && !is_access(kind) {
        return Ok(attribute);
    }
    let value = match SvmLocation(value) {
        SvmLocation::SYSMEM => 0,
        SvmLocation::UNDEFINED => INVALID_NODE_ID,
        SvmLocation(gpu_id) => nodes.node_of_gpu(gpu_id).ok_or_else(|| {
            log::debug!("an SVM attribute names GPU {gpu_id:#x}, which is no node of this process");
            Status::InvalidNodeUnit
        })?,
    };
    Ok(SvmAttribute { type_, value })
}

#[cfg(test)]
mod tests;
