//! Shared virtual memory: the SVM ioctl (`kfd_svm.c`).
//!
//! A range is part of the program's address space with attributes; GPUs that may access it have it in their page
//! tables at the same address. What differs from the kernel:
//!
//! - Nobody tells us when the program unmaps memory. Ranges whose memory is gone, or is not the memory that was
//!   shared, are found and dropped when a call meets them ([`Ranges::drop_stale`]).
//! - Memory is not moved: a prefetch is remembered and changes nothing else. A software GPU reaches all of it alike.
//! - With XNACK on, ranges are mapped when they are set and not at the first fault. Memory that no call named is not
//!   mapped, so that an access faults.
//! - A range of which the program may write a part only is read-only for GPUs as a whole.
//! - Memory without any access rights counts as not mapped, and this device's own memory is refused (`EFAULT`) only
//!   when a GPU is to have access to it.

mod attrs;
mod map;
mod range;
mod set;

use protocol::Errno;
use protocol::kfd::args::SvmArgs;
use protocol::kfd::constants::SvmOp;
use protocol::kfd::types::SvmAttribute;
use protocol::kfd::{Ioctl, UserMem};
use zerocopy::{FromBytes, IntoBytes};

pub(crate) use range::Ranges;

use super::State;
use crate::mem::{MappingOwner, PAGE_SIZE};
use crate::server::dispatch::Cx;

/// `kfd_ioctl_svm_validate` and `kfd_ioctl_svm`. `args` is the struct with its attributes behind it.
///
/// # Errors
/// `EINVAL` for a request that is shorter than its attributes, for addresses that are no whole pages, and for
/// unknown attributes; `EPERM` where there is no shared virtual memory at all.
pub(crate) fn svm(cx: &Cx<'_>, args: &mut [u8]) -> Result<i32, Errno> {
    let mut header = SvmArgs::default();
    for (to, from) in header.as_mut_bytes().iter_mut().zip(args.iter()) {
        *to = *from;
    }
    if (args.len() as u64) < Ioctl::Svm.decl().required_size(header.as_bytes()) {
        return Err(Errno::EINVAL);
    }
    // The answer of a kernel without it (`CONFIG_HSA_AMD_SVM`). It takes memory that can be reached outside of a
    // call.
    if !cx.process.device.has_svm() || cx.process.caller.mem.is_none() {
        return Err(Errno::EPERM);
    }
    let SvmArgs { start_addr, size, op, nattr } = header;
    let whole = start_addr.is_multiple_of(PAGE_SIZE) && size.is_multiple_of(PAGE_SIZE);
    if !whole || start_addr == 0 || size == 0 {
        return Err(Errno::EINVAL);
    }
    let list = args.get_mut(size_of::<SvmArgs>()..).unwrap_or_default();
    let (list, _) =
        <[SvmAttribute]>::mut_from_prefix_with_elems(list, nattr as usize).or(Err(Errno::EINVAL))?;
    match SvmOp(op) {
        SvmOp::SET_ATTR => set::set(cx, start_addr, size, list),
        SvmOp::GET_ATTR => attrs::get(cx, start_addr, size, list),
        _ => Err(Errno::EINVAL),
    }?;
    Ok(0)
}

impl State {
    /// `svm_range_is_valid`: everything is mapped in the program, and no buffer has an address in it.
    fn check_range(&self, mem: &dyn UserMem, addr: u64, size: u64) -> Result<(), Errno> {
        if addr.checked_add(size).is_none() {
            return Err(Errno::EOVERFLOW);
        }
        if !mem.is_mapped(addr, size) {
            return Err(Errno::EFAULT);
        }
        let taken = self.gpus.iter().filter_map(|gpu| gpu.drm.as_ref()).any(|drm| {
            drm.vm.lookup_range(addr, size).iter().any(|mapping| mapping.owner != MappingOwner::Svm)
        });
        if taken { Err(Errno::EADDRINUSE) } else { Ok(()) }
    }
}
