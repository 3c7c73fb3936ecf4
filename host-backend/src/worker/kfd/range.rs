//! Which addresses a context gets.

use std::sync::Arc;

use protocol::Errno;
use protocol::kfd::topology::{Apertures, GfxVersion, Topology};
use protocol::wire::structs::Range;

use super::mapping::Mappings;
use super::space::{AddressRange, Space, SpaceLimits};

/// Ranges begin above what programs without address space randomisation use, and end below stacks and libraries.
const LOWEST: u64 = 1 << 40;
const HIGHEST: u64 = 1 << 46;
/// The shortest range.
const LEAST: u64 = 64 << 30;
/// Tries of one HELLO.
const MAX_TRIES: usize = 1024;

/// First and last address that all GPUs have.
///
/// # Errors
/// `ENODEV` for a GPU whose addresses are not known.
pub(super) fn of_all_gpus(topology: &Topology) -> Result<(u64, u64), Errno> {
    let mut common = (LOWEST, HIGHEST - 1);
    for gpu in topology.gpus() {
        let gfx = GfxVersion::decode(gpu.properties.gfx_target_version.into()).ok().flatten();
        let apertures = Apertures::of(gfx.ok_or(Errno::ENODEV)?);
        common = (common.0.max(apertures.gpuvm_base), common.1.min(apertures.gpuvm_limit));
    }
    Ok(common)
}

/// Reserves the first offered range that is acceptable, or a part of it: halves, quarters and so on, if something of this
/// process is in its way.
///
/// # Errors
/// `EINVAL` if no range is acceptable; `ENOMEM` if none is free.
pub(super) fn choose(
    offered: &[Range],
    common: (u64, u64),
    limits: SpaceLimits,
    mappings: &Arc<Mappings>,
) -> Result<Space, Errno> {
    let acceptable = offered.iter().filter_map(|range| acceptable(range, common));
    let mut candidates: Vec<AddressRange> = acceptable.collect();
    if candidates.is_empty() {
        log::warn!(
            "none of the {} ranges of addresses that the guest offers has {LEAST:#x} bytes between {:#x} and {:#x}",
            offered.len(),
            common.0,
            common.1
        );
        return Err(Errno::EINVAL);
    }
    let mut tries = 0;
    while !candidates.is_empty() {
        let mut halves = Vec::new();
        for range in candidates {
            tries += 1;
            if tries > MAX_TRIES {
                break;
            }
            let limits = SpaceLimits { bytes: limits.bytes.min(range.len), ..limits };
            match Space::reserve(range, limits, Arc::clone(mappings)) {
                Ok(space) => return Ok(space),
                Err(errno) => {
                    log::debug!("{:#x} bytes at {:#x} are not free: {errno}", range.len, range.base);
                }
            }
            let half = (range.len / 2) & !(super::mapping::PAGE - 1);
            if half >= LEAST {
                halves.push(AddressRange { base: range.base, len: half });
                halves.push(AddressRange { base: range.base + half, len: range.len - half });
            }
        }
        candidates = halves;
    }
    log::warn!("none of the ranges of addresses that the guest offers is free here");
    Err(Errno::ENOMEM)
}

fn acceptable(range: &Range, (first, last): (u64, u64)) -> Option<AddressRange> {
    let range = AddressRange::new(range.base.get(), range.len.get())?;
    let fits = range.base >= first && range.end() - 1 <= last && range.len >= LEAST;
    (fits && range.is_of_pages()).then_some(range)
}

#[cfg(test)]
mod tests {
    use softgpu::{Kernel, Profile};

    use super::*;

    const LIMITS: SpaceLimits = SpaceLimits { bytes: u64::MAX, aliases: 10 };

    fn range(base: u64, len: u64) -> Range {
        Range { base: base.into(), len: len.into() }
    }

    fn common() -> (u64, u64) {
        of_all_gpus(&Profile::Mi210.machine(Kernel::default()).topology).expect("gfx9")
    }

    #[test]
    fn unsuitable_ranges_are_passed_over() {
        let common = common();
        assert_eq!(common, (LOWEST, HIGHEST - 1));
        let bad = [
            range(LOWEST - LEAST, LEAST),
            range(LOWEST + 1, LEAST),
            range(LOWEST, LEAST - 4096),
            range(HIGHEST - LEAST, LEAST + 4096),
            range(u64::MAX - 4095, LEAST),
            range(LOWEST, u64::MAX),
            range(LOWEST, 0),
        ];
        assert_eq!(choose(&bad, common, LIMITS, &Arc::default()).err(), Some(Errno::EINVAL));
    }

    #[test]
    fn what_is_in_the_way_costs_half_of_a_range() {
        let (base, mappings) = (33 << 40, Arc::default());
        let whole = [range(base, 4 * LEAST)];
        let space = choose(&whole, common(), LIMITS, &mappings).expect("free");
        assert_eq!(space.range(), AddressRange { base, len: 4 * LEAST });
        drop(space);
        let blocker = Space::reserve(AddressRange { base, len: 4096 }, LIMITS, Arc::clone(&mappings));
        let space = choose(&whole, common(), LIMITS, &mappings).expect("partly free");
        assert_eq!(space.range(), AddressRange { base: base + 2 * LEAST, len: 2 * LEAST });
        let quarter = choose(&whole, common(), LIMITS, &mappings).expect("partly free");
        assert_eq!(quarter.range(), AddressRange { base: base + LEAST, len: LEAST });
        assert_eq!(choose(&whole, common(), LIMITS, &mappings).err(), Some(Errno::ENOMEM));
        drop(blocker);
    }
}
