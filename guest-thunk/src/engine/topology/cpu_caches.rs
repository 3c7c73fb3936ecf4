//! Caches of the processors, from this machine's sysfs: KFD's topology only has those of firmware tables.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use protocol::Errno;
use protocol::hsakmt::{CacheProperties, CacheType, Status};

use super::cpuinfo::CpuInfo;
use crate::engine::{Result, room};

/// Where the kernel shows processors and NUMA nodes.
pub(super) const ROOT: &str = "/sys/devices/system";

/// Longest file that is read: sysfs shows at most one page (bytes).
const MAX_FILE: u64 = 4096;

/// Most caches of one processor that are read. Processors have five.
const MAX_INDEX: u32 = 32;

/// Most processors of one node that are read.
const MAX_PROCESSORS: usize = 65_536;

/// The caches of the processors of NUMA node `node`, each with the first of those that share it, in the order in
/// which sysfs lists the processors. Machines without NUMA have all processors in node 0. No cache is told where
/// sysfs has none (virtual machines, some hybrid processors) or no such node.
///
/// # Errors
/// `NO_MEMORY`.
pub(super) fn read(root: &Path, node: u32, cpus: &CpuInfo) -> Result<Vec<CacheProperties>> {
    let mut caches = Vec::new();
    for (processor, dir) in processors(root, node)? {
        let cache = dir.join("cache");
        for index in 0..indices(&cache) {
            let Some(found) = cache_of(&cache.join(format!("index{index}")), processor, cpus)? else {
                continue;
            };
            room::push(&mut caches, found)?;
        }
    }
    if caches.is_empty() {
        log::debug!("no caches of processors are known for node {node}");
    }
    Ok(caches)
}

/// Numbers and directories of the processors of a node.
fn processors(root: &Path, node: u32) -> Result<Vec<(u32, PathBuf)>> {
    let numa = root.join(format!("node/node{node}"));
    let dir = if node == 0 && !numa.is_dir() { root.join("cpu") } else { numa };
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) => {
            not_for_want(&error)?;
            if error.kind() != io::ErrorKind::NotFound {
                log::warn!("{} cannot be read: no caches of node {node} are known: {error}", dir.display());
            }
            return Ok(Vec::new());
        }
    };
    let named = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        let number = name.to_str()?.strip_prefix("cpu")?.parse().ok()?;
        Some((number, dir.join(&name)))
    });
    let mut processors = Vec::new();
    for processor in named.take(MAX_PROCESSORS) {
        room::push(&mut processors, processor)?;
    }
    Ok(processors)
}

/// How many `index` directories there are.
fn indices(cache: &Path) -> u32 {
    (0..MAX_INDEX).find(|index| !cache.join(format!("index{index}")).is_dir()).unwrap_or(MAX_INDEX)
}

/// One cache, if `processor` is the first of those that share it.
fn cache_of(dir: &Path, processor: u32, cpus: &CpuInfo) -> Result<Option<CacheProperties>> {
    let Some(list) = text(dir, "shared_cpu_list")? else { return Ok(None) };
    if decimal(&list) != Some(processor) {
        return Ok(None);
    }
    let number = |name| Ok(text(dir, name)?.and_then(|text| decimal(&text)).unwrap_or(0));
    let mut cache = CacheProperties {
        processor_id_low: cpus.apic_id(processor),
        cache_level: number("level")?,
        cache_size: text(dir, "size")?.map_or(0, |text| bytes(&text)),
        cache_line_size: number("coherency_line_size")?,
        cache_associativity: number("ways_of_associativity")?,
        cache_lines_per_tag: number("physical_line_partition")?,
        cache_type: CacheType::CPU | text(dir, "type")?.map_or(CacheType(0), |text| kind(&text)),
        ..CacheProperties::default()
    };
    for sharer in text(dir, "shared_cpu_map")?.iter().flat_map(|map| set_bits(map)) {
        let place = usize::try_from(cpus.apic_id(sharer)).ok();
        // Programs see the first 256 APIC ids (`HSA_CPU_SIBLINGS`).
        if let Some(place) = place.and_then(|at| cache.sibling_map.get_mut(at)) {
            *place = 1;
        }
    }
    Ok(Some(cache))
}

/// What a file says, if it is there.
fn text(dir: &Path, name: &str) -> Result<Option<String>> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        File::open(dir.join(name))?.take(MAX_FILE).read_to_string(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) => Ok(Some(text)),
        Err(error) => not_for_want(&error).map(|()| None),
    }
}

/// Without descriptors or memory nothing is known, and a topology with less in it than there is would be a wrong one.
fn not_for_want(error: &io::Error) -> Result<()> {
    match error.raw_os_error().and_then(Errno::from_raw) {
        Some(Errno::ENOMEM) => Err(Status::NoMemory),
        Some(Errno::EMFILE | Errno::ENFILE) => {
            log::error!("the caches of processors cannot be read: {error}");
            Err(Status::Error)
        }
        _ => Ok(()),
    }
}

/// The decimal number that a text starts with: `3` of `3-5,9`.
fn decimal(text: &str) -> Option<u32> {
    let text = text.trim_start();
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// `type` as what the cache is for.
fn kind(text: &str) -> CacheType {
    match text.trim() {
        "Data" => CacheType::DATA,
        "Instruction" => CacheType::INSTRUCTION,
        "Unified" => CacheType::DATA | CacheType::INSTRUCTION,
        _ => CacheType(0),
    }
}

/// `size`: `32K` as 32768. AMD's thunk gives processors' caches in bytes, GPUs' in KiB, and programs print them so.
fn bytes(text: &str) -> u32 {
    let unit = match text.trim_end().chars().last() {
        Some('K') => 1 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        _ => 1,
    };
    decimal(text).unwrap_or(0).saturating_mul(unit)
}

/// Numbers of the bits that are set in a map like `00000001,80000003`, where the last word has bits 0 to 31.
fn set_bits(map: &str) -> Vec<u32> {
    let words = map.trim().rsplit(',').map(|word| u32::from_str_radix(word, 16).unwrap_or(0));
    let numbered = (0_u32..).step_by(32).zip(words);
    numbered
        .flat_map(|(first, word)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CPU: CacheType = CacheType::CPU;
    const DATA: CacheType = CacheType::DATA;
    const INSTRUCTION: CacheType = CacheType::INSTRUCTION;

    /// A processor's directory with an L1 data, an L1 instruction and an L3 cache.
    fn put_processor(dir: &Path, number: u32, list: &str, map: &str) {
        let own = format!("{:x}", 1_u32 << number);
        for (index, level, kind, size, (list, map)) in [
            (0, 1, "Data", "32K", (number.to_string().as_str(), own.as_str())),
            (1, 1, "Instruction", "32K", (number.to_string().as_str(), own.as_str())),
            (2, 3, "Unified", "32M", (list, map)),
        ] {
            let cache = dir.join(format!("cpu{number}/cache/index{index}"));
            fs::create_dir_all(&cache).expect("made");
            for (name, text) in [
                ("level", level.to_string()),
                ("type", kind.to_owned()),
                ("size", size.to_owned()),
                ("coherency_line_size", "64".to_owned()),
                ("ways_of_associativity", "8".to_owned()),
                ("physical_line_partition", "1".to_owned()),
                ("shared_cpu_list", list.to_owned()),
                ("shared_cpu_map", map.to_owned()),
            ] {
                fs::write(cache.join(name), text + "\n").expect("written");
            }
        }
    }

    fn cpus() -> CpuInfo {
        CpuInfo::parse(b"processor: 0\napicid: 0\nprocessor: 1\napicid: 2\nprocessor: 2\napicid: 300\n")
    }

    #[test]
    fn a_shared_cache_is_told_once_with_all_sharers() {
        let root = tempfile::tempdir().expect("a directory");
        let node = root.path().join("node/node0");
        put_processor(&node, 0, "0-2", "00000000,00000007");
        put_processor(&node, 1, "0-2", "00000000,00000007");
        fs::write(node.join("cpulist"), "0-2\n").expect("written");
        let mut caches = read(root.path(), 0, &cpus()).expect("read");
        caches.sort_by_key(|cache| (cache.cache_level, cache.cache_type, cache.processor_id_low));
        let told: Vec<_> =
            caches.iter().map(|c| (c.cache_level, c.cache_type, c.cache_size, c.processor_id_low)).collect();
        let (l1d, l1i, l3) = (CPU | DATA, CPU | INSTRUCTION, CPU | DATA | INSTRUCTION);
        assert_eq!(
            told,
            [
                (1, l1d, 32 << 10, 0),
                (1, l1d, 32 << 10, 2),
                (1, l1i, 32 << 10, 0),
                (1, l1i, 32 << 10, 2),
                (3, l3, 32 << 20, 0)
            ]
        );
        let sharers: Vec<_> = (0..256).filter(|&at| caches[4].sibling_map[at] == 1).collect();
        assert_eq!(sharers, [0, 2], "APIC id 300 has no place");
        let l3 = &caches[4];
        assert_eq!((l3.cache_line_size, l3.cache_associativity, l3.cache_lines_per_tag), (64, 8, 1));
    }

    #[test]
    fn t02_without_numa_node_0_has_all_processors_and_other_nodes_have_none() {
        let root = tempfile::tempdir().expect("a directory");
        assert_eq!(read(root.path(), 0, &cpus()), Ok(Vec::new()), "no sysfs at all");
        put_processor(&root.path().join("cpu"), 1, "1", "2");
        assert_eq!(read(root.path(), 0, &cpus()).map(|caches| caches.len()), Ok(3));
        assert_eq!(read(root.path(), 1, &cpus()), Ok(Vec::new()));
        fs::create_dir_all(root.path().join("node/node0")).expect("made");
        assert_eq!(read(root.path(), 0, &cpus()), Ok(Vec::new()), "a node without processors");
    }

    #[test]
    fn odd_files_cost_a_value_and_nothing_else() {
        let root = tempfile::tempdir().expect("a directory");
        put_processor(&root.path().join("node/node0"), 1, "1", "zz,,2");
        let index = root.path().join("node/node0/cpu1/cache/index2");
        fs::write(index.join("size"), "99999999999K").expect("written");
        fs::write(index.join("level"), [0xff, 0xfe]).expect("written");
        fs::remove_file(index.join("type")).expect("removed");
        let caches = read(root.path(), 0, &cpus()).expect("read");
        let odd = caches.last().expect("three caches");
        assert_eq!((odd.cache_size, odd.cache_level, odd.cache_type), (0, 0, CPU));
        assert_eq!(odd.sibling_map[2], 1);
        fs::remove_file(index.join("shared_cpu_list")).expect("removed");
        assert_eq!(read(root.path(), 0, &cpus()).map(|caches| caches.len()), Ok(2));
    }

    #[test]
    fn sizes_have_units() {
        let sizes = ["32K", "1M\n", "1G", "77", "4G", "", "K"].map(bytes);
        assert_eq!(sizes, [32 << 10, 1 << 20, 1 << 30, 77, u32::MAX, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_map_is_read(map in "[0-9a-fA-F,x \n]{0,200}") {
            let bits = set_bits(&map);
            prop_assert!(bits.is_sorted() && bits.len() <= 32 * 201);
        }

        #[test]
        fn any_number_is_read(text in "\\PC{0,20}") {
            let _ = (decimal(&text), bytes(&text), kind(&text));
        }
    }
}
