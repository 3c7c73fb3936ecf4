//! The caches of a GPU node, in the kernel's order (`kfd_fill_cache_non_crat_info`).

use protocol::kfd::topology::{Cache, CacheProperties};

use super::gpu::{CacheSizes, Shaders};

/// `HSA_CACHE_TYPE_DATA`.
pub const DATA: u32 = 1;
/// `HSA_CACHE_TYPE_INSTRUCTION`.
pub const INSTRUCTION: u32 = 2;
/// `HSA_CACHE_TYPE_HSACU`: of a GPU.
const GPU: u32 = 8;

/// Entries of a sibling map that one array takes: the kernel keeps 32 bits of each.
const ARRAY_BITS: u32 = 32;

struct Kind {
    level: u32,
    size: u32,
    line: u32,
    flags: u32,
    /// CUs that share one such cache.
    cus: u32,
}

/// Every cache of the node; CUs are numbered from `first_cu`.
pub fn caches(shaders: &Shaders, sizes: &CacheSizes, first_cu: u32) -> Vec<Cache> {
    let mut all = Vec::new();
    for kind in kinds(shaders, sizes) {
        if kind.level == 1 {
            first_level(&mut all, &kind, shaders, first_cu);
        } else {
            all.extend(higher_level(&kind, shaders, first_cu));
        }
    }
    all
}

fn kinds(shaders: &Shaders, sizes: &CacheSizes) -> impl Iterator<Item = Kind> {
    let kind = |level, size, line, flags, cus| Kind { level, size, line, flags: flags | GPU, cus };
    let array = shaders.cus_per_array;
    [
        kind(1, sizes.l1, sizes.l1_line, DATA, 1),
        kind(1, sizes.instruction, sizes.instruction_line, INSTRUCTION, 2),
        kind(1, sizes.scalar, sizes.scalar_line, DATA, 2),
        kind(1, sizes.gl1, sizes.gl1_line, DATA, array),
        kind(2, sizes.l2, sizes.l2_line, DATA, array),
        kind(3, sizes.l3, sizes.l3_line, DATA, array),
    ]
    .into_iter()
    .filter(|kind| kind.size > 0)
}

/// One cache for each group of CUs with an enabled one.
fn first_level(all: &mut Vec<Cache>, kind: &Kind, shaders: &Shaders, first_cu: u32) {
    let mut cu = first_cu;
    for _ in 0..shaders.xccs {
        for &mask in &shaders.cu_masks {
            let mut k = 0;
            while k < shaders.cus_per_array {
                let group = mask.checked_shr(k).unwrap_or(0) & low_bits(kind.cus);
                if group != 0 {
                    all.push(cache(kind, cu, group.trailing_zeros(), &[group >> group.trailing_zeros()]));
                }
                cu += kind.cus.min(shaders.cus_per_array - k);
                k += kind.cus;
            }
        }
    }
}

/// One cache for the whole node. Its sibling map has a word for each array; as in the kernel
/// (`fill_in_l2_l3_pcache`) the word of an array stands one place late, after the first one's.
fn higher_level(kind: &Kind, shaders: &Shaders, first_cu: u32) -> Option<Cache> {
    let first = *shaders.cu_masks.iter().find(|&&mask| mask != 0)? & low_bits(kind.cus);
    let skipped = first.trailing_zeros().min(ARRAY_BITS - 1);
    let words = (0..shaders.xccs).flat_map(|_| &shaders.cu_masks).map(|mask| mask & low_bits(kind.cus));
    let mut map = vec![first >> skipped];
    map.extend(words);
    map.pop();
    Some(cache(kind, first_cu, skipped, &map))
}

fn cache(kind: &Kind, cu: u32, skipped: u32, map: &[u32]) -> Cache {
    Cache {
        properties: CacheProperties {
            processor_id_low: cu + skipped,
            level: kind.level,
            size: kind.size,
            cache_line_size: kind.line,
            kind: kind.flags,
            ..CacheProperties::default()
        },
        sibling_map: map.iter().flat_map(|word| (0..ARRAY_BITS).map(move |i| word >> i & 1 == 1)).collect(),
    }
}

/// A mask of `n` bits.
fn low_bits(n: u32) -> u32 {
    1u32.checked_shl(n).map_or(u32::MAX, |bit| bit - 1)
}
