//! Attributes as a program gives them and gets them.

use protocol::Errno;
use protocol::kfd::constants::{SvmAttr, SvmFlags, SvmLocation};
use protocol::kfd::types::SvmAttribute;

use super::super::State;
use super::range::{Attrs, Range};
use crate::mem::PAGE_SIZE;
use crate::server::dispatch::Cx;

/// Largest granularity that is kept (`svm_range_apply_attrs`).
const MAX_GRANULARITY: u32 = 0x3f;

impl State {
    /// The bit of a GPU in attributes (`kfd_process_gpuidx_from_gpuid`).
    fn gpu_bit(&self, gpu_id: u32) -> Result<u64, Errno> {
        let index = self.gpu_index(gpu_id)?;
        u32::try_from(index).ok().and_then(|index| 1u64.checked_shl(index)).ok_or(Errno::EINVAL)
    }

    /// GPUs with shared virtual memory (`bitmap_supported`).
    pub(super) fn svm_gpus(&self) -> u64 {
        let supported = self.gpus.iter().map(|gpu| u64::from(gpu.gpu.spec.features.svm));
        supported.zip(0..64).fold(0, |bits, (supported, index)| bits | (supported << index))
    }

    /// `svm_range_check_attr`: known attributes of known GPUs.
    pub(super) fn check_attrs(&self, list: &[SvmAttribute]) -> Result<(), Errno> {
        for attr in list {
            let names_gpu = match SvmAttr(attr.type_) {
                SvmAttr::PREFERRED_LOC => {
                    ![SvmLocation::SYSMEM, SvmLocation::UNDEFINED].contains(&SvmLocation(attr.value))
                }
                SvmAttr::PREFETCH_LOC => SvmLocation(attr.value) != SvmLocation::SYSMEM,
                SvmAttr::ACCESS | SvmAttr::ACCESS_IN_PLACE | SvmAttr::NO_ACCESS => true,
                SvmAttr::SET_FLAGS | SvmAttr::CLR_FLAGS | SvmAttr::GRANULARITY => false,
                _ => return Err(Errno::EINVAL),
            };
            if names_gpu && self.gpu_bit(attr.value)? & self.svm_gpus() == 0 {
                return Err(Errno::EINVAL);
            }
        }
        Ok(())
    }

    /// `svm_range_apply_attrs`: the new attributes, and whether page tables have to follow.
    pub(super) fn apply_attrs(&self, attrs: &mut Attrs, list: &[SvmAttribute], xnack: bool) -> bool {
        let mut update = false;
        for attr in list {
            let bit = self.gpu_bit(attr.value).unwrap_or(0);
            match SvmAttr(attr.type_) {
                SvmAttr::PREFERRED_LOC => attrs.preferred = SvmLocation(attr.value),
                SvmAttr::PREFETCH_LOC => attrs.prefetch = SvmLocation(attr.value),
                SvmAttr::ACCESS => {
                    (attrs.access, attrs.in_place) = (attrs.access | bit, attrs.in_place & !bit);
                }
                SvmAttr::ACCESS_IN_PLACE => {
                    (attrs.access, attrs.in_place) = (attrs.access & !bit, attrs.in_place | bit);
                }
                SvmAttr::NO_ACCESS => {
                    (attrs.access, attrs.in_place) = (attrs.access & !bit, attrs.in_place & !bit);
                }
                SvmAttr::SET_FLAGS => attrs.flags = attrs.flags | SvmFlags(attr.value),
                SvmAttr::CLR_FLAGS => attrs.flags = attrs.flags.without(SvmFlags(attr.value)),
                SvmAttr::GRANULARITY => {
                    attrs.granularity = u8::try_from(attr.value.min(MAX_GRANULARITY)).unwrap_or(u8::MAX);
                }
                _ => {}
            }
            update |= match SvmAttr(attr.type_) {
                SvmAttr::ACCESS | SvmAttr::ACCESS_IN_PLACE | SvmAttr::NO_ACCESS => !xnack,
                SvmAttr::SET_FLAGS | SvmAttr::CLR_FLAGS => true,
                _ => false,
            };
        }
        update
    }
}

/// What all ranges of an area have in common.
struct Common {
    preferred: SvmLocation,
    prefetch: SvmLocation,
    granularity: u8,
    flags_and: u32,
    flags_or: u32,
    access: u64,
    in_place: u64,
}

impl Common {
    /// Of no range: the defaults.
    fn default_of(access: u64) -> Self {
        let attrs = Attrs::new(access);
        Self {
            preferred: attrs.preferred,
            prefetch: attrs.prefetch,
            granularity: attrs.granularity,
            flags_and: attrs.flags.0,
            flags_or: attrs.flags.0,
            access,
            in_place: 0,
        }
    }

    fn of<'a>(ranges: impl Iterator<Item = &'a Range> + Clone, supported: u64) -> Self {
        let all = |get: fn(&Attrs) -> SvmLocation| {
            let mut values = ranges.clone().map(|range| get(&range.attrs));
            let first = values.next().unwrap_or(SvmLocation::UNDEFINED);
            if values.all(|value| value == first) { first } else { SvmLocation::UNDEFINED }
        };
        let attrs = || ranges.clone().map(|range| range.attrs);
        Self {
            preferred: all(|attrs| attrs.preferred),
            prefetch: all(|attrs| attrs.prefetch),
            granularity: attrs().map(|attrs| attrs.granularity).min().unwrap_or(u8::MAX),
            flags_and: attrs().fold(u32::MAX, |flags, attrs| flags & attrs.flags.0),
            flags_or: attrs().fold(0, |flags, attrs| flags | attrs.flags.0),
            access: attrs().fold(supported, |bits, attrs| bits & attrs.access),
            in_place: attrs().fold(supported, |bits, attrs| bits & attrs.in_place),
        }
    }
}

/// `svm_range_get_attr`.
pub(super) fn get(cx: &Cx<'_>, addr: u64, size: u64, list: &mut [SvmAttribute]) -> Result<(), Errno> {
    let mut state = cx.process.memory.lock();
    let (first, last) = (addr / PAGE_SIZE, addr.saturating_add(size - 1) / PAGE_SIZE);
    state.drop_stale(cx.call.mem(), first, last);
    state.check_range(cx.call.mem(), addr, size)?;
    let readable = [
        SvmAttr::PREFERRED_LOC,
        SvmAttr::PREFETCH_LOC,
        SvmAttr::ACCESS,
        SvmAttr::SET_FLAGS,
        SvmAttr::CLR_FLAGS,
        SvmAttr::GRANULARITY,
    ];
    if list.iter().any(|attr| !readable.contains(&SvmAttr(attr.type_))) {
        return Err(Errno::EINVAL);
    }
    let pages = state.svm.meeting(first, last);
    let supported = state.svm_gpus();
    let common = if pages.is_empty() {
        Common::default_of(if cx.process.xnack() { supported } else { 0 })
    } else {
        Common::of(pages.iter().filter_map(|&page| state.svm.get(page)), supported)
    };
    for attr in list {
        fill(&state, &common, attr)?;
    }
    Ok(())
}

fn fill(state: &State, common: &Common, attr: &mut SvmAttribute) -> Result<(), Errno> {
    match SvmAttr(attr.type_) {
        SvmAttr::PREFERRED_LOC => attr.value = common.preferred.0,
        SvmAttr::PREFETCH_LOC => attr.value = common.prefetch.0,
        SvmAttr::ACCESS => {
            let bit = state.gpu_bit(attr.value)?;
            let answer = if common.access & bit != 0 {
                SvmAttr::ACCESS
            } else if common.in_place & bit != 0 {
                SvmAttr::ACCESS_IN_PLACE
            } else {
                SvmAttr::NO_ACCESS
            };
            attr.type_ = answer.0;
        }
        SvmAttr::SET_FLAGS => attr.value = common.flags_and,
        SvmAttr::CLR_FLAGS => attr.value = !common.flags_or,
        SvmAttr::GRANULARITY => attr.value = u32::from(common.granularity),
        _ => {}
    }
    Ok(())
}
