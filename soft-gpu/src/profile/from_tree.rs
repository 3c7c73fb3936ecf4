//! Machines from trees that the user gives: what the files do not tell is taken from the instruction
//! set, or the tree is refused by name.

use std::collections::BTreeSet;

use protocol::kfd::topology::{BadGfxVersion, GfxVersion, Node, Topology, TopologyError, Tree, Warning};

use super::caches::{DATA, INSTRUCTION};
use super::gpu::{CacheSizes, GpuSpec, Shaders, Vram, VramType};
use super::{Machine, asics};
use crate::Kernel;

/// `HSA_MEM_HEAP_TYPE_FB_PUBLIC`.
const HEAP_FB_PUBLIC: u32 = 1;
/// `HSA_MEM_HEAP_TYPE_FB_PRIVATE`.
const HEAP_FB_PRIVATE: u32 = 2;

/// What the CPU sees of a private heap: the usual BAR. The files do not tell it.
const SMALL_BAR: u64 = 256 << 20;

/// Most shader arrays of an XCC and CUs of an array that make sense: the driver keeps 4 x 4 words
/// of 32 bits (`amdgpu_cu_info`).
const MAX_ARRAYS: u32 = 16;
const MAX_CUS_PER_ARRAY: u32 = 32;

/// Most XCCs of a node.
const MAX_XCCS: u32 = 16;

/// Why a tree is no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// It is no topology.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The instruction set is not known.
    #[error(
        "node {node} has a GPU without gfx_target_version, and the PCI device {device:#06x} does not tell its instruction set"
    )]
    UnknownGpu {
        /// The node.
        node: u32,
        /// Its `device_id`.
        device: u32,
    },
    /// The instruction set cannot be.
    #[error("node {node}: {source}")]
    BadGfxVersion {
        /// The node.
        node: u32,
        /// The error.
        source: BadGfxVersion,
    },
    /// No render node, without which a GPU cannot be used.
    #[error("node {node} has a GPU, but its drm_render_minor is {minor} and not between 128 and 255")]
    RenderMinor {
        /// The node.
        node: u32,
        /// What the file says; 0 if it says nothing.
        minor: u32,
    },
    /// Two GPUs cannot be told apart.
    #[error("node {node} has the {what} of another GPU")]
    NotUnique {
        /// The second node.
        node: u32,
        /// The key.
        what: &'static str,
    },
    /// Numbers of compute units that no GPU has.
    #[error(
        "node {node} has a GPU whose simd_count, simd_per_cu, array_count and num_xcc do not describe one"
    )]
    Shape {
        /// The node.
        node: u32,
    },
    /// More SDMA engines or queues than any GPU has.
    #[error(
        "node {node} has a GPU with {engines} SDMA engines and {queues} queues on each; at most {MAX_SDMA} of each \
         are taken"
    )]
    Sdma {
        /// The node.
        node: u32,
        /// Engines of both kinds.
        engines: u64,
        /// Queues on each.
        queues: u32,
    },
    /// No memory bank tells how much local memory there is.
    #[error("node {node} has a GPU of its own, but no memory bank of heap type 1 or 2")]
    NoVram {
        /// The node.
        node: u32,
    },
}

/// SDMA engines of a GPU, and queues on an engine, at most. The largest GPU has 16 and 8; the queue manager keeps a slot
/// for each.
const MAX_SDMA: u32 = 256;

impl Machine {
    /// The machine that a tree describes. The tree is shown as it is; what it does not tell follows
    /// from the instruction set.
    ///
    /// # Errors
    /// [`MachineError`].
    pub fn from_tree(tree: Tree, kernel: Kernel) -> Result<(Self, Vec<Warning>), MachineError> {
        let parsed = Topology::parse(&tree)?;
        let gpus = parsed.topology.gpus().map(spec).collect::<Result<Vec<_>, _>>()?;
        check_unique(&gpus)?;
        let machine = Self { topology: parsed.topology, gpus, kernel, tree: Some(tree) };
        Ok((machine, parsed.warnings))
    }
}

fn check_unique(gpus: &[GpuSpec]) -> Result<(), MachineError> {
    let (mut ids, mut minors) = (BTreeSet::new(), BTreeSet::new());
    for gpu in gpus {
        if !ids.insert(gpu.gpu_id) {
            return Err(MachineError::NotUnique { node: gpu.node, what: "gpu_id" });
        }
        if !minors.insert(gpu.render_minor) {
            return Err(MachineError::NotUnique { node: gpu.node, what: "drm_render_minor" });
        }
    }
    Ok(())
}

fn spec(node: &Node) -> Result<GpuSpec, MachineError> {
    let p = &node.properties;
    let gfx = gfx(node)?;
    if !(128..=255).contains(&p.drm_render_minor) {
        return Err(MachineError::RenderMinor { node: node.id, minor: p.drm_render_minor });
    }
    let mut spec = asics::by_gfx(gfx);
    spec.node = node.id;
    spec.gpu_id = node.gpu_id;
    spec.render_minor = p.drm_render_minor;
    spec.asic_name.clone_from(&node.name);
    spec.unique_id = p.unique_id;
    spec.hive_id = p.hive_id;
    spec.pci.domain = p.domain;
    spec.pci.location = p.location_id & 0xffff;
    spec.pci.vendor = low(p.vendor_id);
    spec.pci.device = low(p.device_id);
    spec.vram = vram(node, spec.vram.kind)?;
    spec.shaders = shaders(node).ok_or(MachineError::Shape { node: node.id })?;
    spec.caches = caches(node, spec.caches);
    let engines = u64::from(p.num_sdma_engines) + u64::from(p.num_sdma_xgmi_engines);
    if engines > u64::from(MAX_SDMA) || p.num_sdma_queues_per_engine > MAX_SDMA {
        let queues = p.num_sdma_queues_per_engine;
        return Err(MachineError::Sdma { node: node.id, engines, queues });
    }
    spec.sdma.engines = p.num_sdma_engines;
    spec.sdma.xgmi_engines = p.num_sdma_xgmi_engines;
    spec.sdma.queues_per_engine = p.num_sdma_queues_per_engine;
    spec.firmware.mec = p.fw_version;
    spec.firmware.sdma = p.sdma_fw_version;
    spec.clocks.engine_max = p.max_engine_clk_fcompute;
    spec.clocks.memory_max = node.mem_banks.first().map_or(0, |bank| bank.mem_clk_max);
    spec.drm.chip_rev = p.capability >> 22 & 0xf;
    spec.drm.ids_flags = u64::from(node.is_cpu());
    spec.features.svm = p.capability >> 27 & 1 == 1;
    spec.features.ras = p.capability >> 21 & 1 == 1;
    spec.features.gws = p.num_gws;
    spec.features.cp_queues = if p.num_cp_queues == 0 { spec.features.cp_queues } else { p.num_cp_queues };
    spec.queue_sizes = super::node::queue_sizes(gfx, p);
    Ok(spec)
}

/// The instruction set: as the files say, or, for kernels before that key, by the PCI device.
fn gfx(node: &Node) -> Result<GfxVersion, MachineError> {
    let p = &node.properties;
    let decoded = GfxVersion::decode(p.gfx_target_version.into())
        .map_err(|source| MachineError::BadGfxVersion { node: node.id, source })?;
    decoded
        .or_else(|| gfx_of_device(p.device_id))
        .ok_or(MachineError::UnknownGpu { node: node.id, device: p.device_id })
}

/// GPUs that were there before `gfx_target_version` (`pciidlist` of the driver).
fn gfx_of_device(device: u32) -> Option<GfxVersion> {
    let (major, minor, stepping) = match device {
        0x9870..=0x9877 => (8, 0, 1),
        0x7300..=0x730f | 0x67c0..=0x67df | 0x67e0..=0x67ff | 0x6980..=0x699f => (8, 0, 3),
        0x6860..=0x687f => (9, 0, 0),
        0x15d8 | 0x15dd => (9, 0, 2),
        0x69a0..=0x69af => (9, 0, 4),
        0x66a0..=0x66af => (9, 0, 6),
        _ => return None,
    };
    Some(GfxVersion::new(major, minor, stepping))
}

fn vram(node: &Node, kind: VramType) -> Result<Vram, MachineError> {
    let sum = |heap| {
        let banks = node.mem_banks.iter().filter(|bank| bank.heap_type == heap);
        banks.fold(0u64, |sum, bank| sum.saturating_add(bank.size_in_bytes))
    };
    let (public, private) = (sum(HEAP_FB_PUBLIC), sum(HEAP_FB_PRIVATE));
    if public == 0 && private == 0 && !node.is_cpu() {
        return Err(MachineError::NoVram { node: node.id });
    }
    let size = public.saturating_add(private);
    let visible = if private == 0 { size } else { public.max(SMALL_BAR.min(size)) };
    let bus_width = node.mem_banks.first().map_or(0, |bank| bank.width);
    Ok(Vram { size, visible, kind, bus_width })
}

/// How the CUs are grouped. The files tell how many there are, not which: they are spread evenly.
fn shaders(node: &Node) -> Option<Shaders> {
    let p = &node.properties;
    let xccs = p.num_xcc.max(1);
    let arrays = (p.array_count / xccs).max(1);
    let cus = p.simd_count.checked_div(p.simd_per_cu)? / xccs;
    let arrays_per_engine = p.simd_arrays_per_engine.clamp(1, arrays);
    if xccs > MAX_XCCS || arrays > MAX_ARRAYS || cus == 0 || cus.div_ceil(arrays) > MAX_CUS_PER_ARRAY {
        return None;
    }
    let mask = |n: u32| u32::try_from((1u64 << n) - 1).unwrap_or(u32::MAX);
    let cu_masks = (0..arrays).map(|i| mask(cus / arrays + u32::from(i < cus % arrays))).collect();
    Some(Shaders {
        xccs,
        engines: arrays / arrays_per_engine,
        arrays_per_engine,
        cus_per_array: p.cu_per_simd_array.clamp(cus.div_ceil(arrays), MAX_CUS_PER_ARRAY),
        cu_masks,
        simds_per_cu: p.simd_per_cu,
        waves_per_simd: p.max_waves_per_simd,
        wave_size: p.wave_front_size,
        scratch_slots_per_cu: p.max_slots_scratch_cu,
        lds_kib: p.lds_size_in_kb,
    })
}

/// The sizes of the caches that the files list; of the others, what the instruction set has.
fn caches(node: &Node, known: CacheSizes) -> CacheSizes {
    let find = |level, bit| {
        let mut caches = node.caches.iter().map(|cache| &cache.properties);
        caches.find(|cache| cache.level == level && cache.kind & bit != 0).map(|cache| cache.size)
    };
    CacheSizes {
        l1: find(1, DATA).unwrap_or(known.l1),
        instruction: find(1, INSTRUCTION).unwrap_or(known.instruction),
        l2: find(2, DATA).unwrap_or(known.l2),
        l3: find(3, DATA).unwrap_or(known.l3),
        ..known
    }
}

/// The low half: PCI ids have 16 bits.
fn low(id: u32) -> u16 {
    let [_, _, high, low] = id.to_be_bytes();
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protocol::kfd::topology::{MemBank, NodeProperties, Record};

    use super::*;
    use crate::Profile;

    /// The tree of a built-in machine with its nodes changed.
    fn changed(profile: Profile, change: impl FnOnce(&mut [Node])) -> Result<Machine, MachineError> {
        let mut topology = profile.machine(Kernel::Linux7_3).topology;
        change(&mut topology.nodes);
        topology.nodes.iter_mut().for_each(Node::set_counts);
        let tree = topology.tree(Kernel::Linux7_3.into());
        Machine::from_tree(tree, Kernel::Linux7_3).map(|(machine, _)| machine)
    }

    #[test]
    fn a_profile_read_from_its_own_tree_is_the_same() {
        for profile in Profile::ALL {
            let machine = profile.machine(Kernel::Linux7_3);
            let read = changed(profile, |_| {}).expect("a machine");
            assert_eq!(read.topology, machine.topology, "{profile}");
            let mut gpus = machine.gpus.clone();
            // The files do not tell how much of a private heap is visible.
            gpus.iter_mut()
                .filter(|gpu| !gpu.vram.is_large_bar())
                .for_each(|gpu| gpu.vram.visible = SMALL_BAR);
            assert_eq!(read.gpus, gpus, "{profile}");
            assert_eq!(read.tree(), machine.tree(), "{profile}");
        }
    }

    #[test]
    fn the_tree_is_shown_as_it_was() {
        let mut tree = Profile::Mi210.machine(Kernel::Linux6_12).tree();
        tree.files.insert("nodes/1/odd".to_owned(), b"\xff".to_vec());
        let (machine, _) = Machine::from_tree(tree.clone(), Kernel::Linux6_12).expect("a machine");
        assert_eq!(machine.tree(), tree);
    }

    /// A Carrizo APU of an old kernel: no drm_render_minor in its properties.
    #[test]
    fn a_gpu_without_render_node_is_refused_by_name() {
        let error = changed(Profile::Mi210, |nodes| nodes[1].properties.drm_render_minor = 0);
        assert_eq!(error, Err(MachineError::RenderMinor { node: 1, minor: 0 }));
        let error = changed(Profile::Mi210, |nodes| nodes[1].properties.drm_render_minor = 256);
        assert_eq!(error, Err(MachineError::RenderMinor { node: 1, minor: 256 }));
    }

    #[test]
    fn the_instruction_set_of_old_trees_comes_from_the_device() {
        let vega10 = changed(Profile::Mi210, |nodes| {
            nodes[1].properties.gfx_target_version = 0;
            nodes[1].properties.device_id = 0x6860;
        });
        assert_eq!(vega10.map(|machine| machine.gpus[0].gfx), Ok(GfxVersion::new(9, 0, 0)));
        let unknown = changed(Profile::Mi210, |nodes| {
            nodes[1].properties.gfx_target_version = 0;
            nodes[1].properties.device_id = 0xffff_ffff;
        });
        assert_eq!(unknown, Err(MachineError::UnknownGpu { node: 1, device: 0xffff_ffff }));
        let bad = changed(Profile::Mi210, |nodes| nodes[1].properties.gfx_target_version = 110_099);
        assert_eq!(bad, Err(MachineError::BadGfxVersion { node: 1, source: BadGfxVersion(110_099) }));
    }

    #[test]
    fn gpus_that_cannot_be_told_apart_are_refused() {
        let error = changed(Profile::TwoGpu, |nodes| nodes[2].gpu_id = nodes[1].gpu_id);
        assert_eq!(error, Err(MachineError::NotUnique { node: 2, what: "gpu_id" }));
        let error = changed(Profile::TwoGpu, |nodes| nodes[2].properties.drm_render_minor = 128);
        assert_eq!(error, Err(MachineError::NotUnique { node: 2, what: "drm_render_minor" }));
    }

    #[test]
    fn a_card_without_memory_and_impossible_shapes_are_refused() {
        let error = changed(Profile::Mi210, |nodes| nodes[1].mem_banks.clear());
        assert_eq!(error, Err(MachineError::NoVram { node: 1 }));
        let shapes: [fn(&mut NodeProperties); 4] = [
            |p| p.simd_per_cu = 0,
            |p| p.simd_count = 0,
            |p| p.simd_count = u32::MAX,
            |p| p.array_count = u32::MAX,
        ];
        for change in shapes {
            let error = changed(Profile::Mi210, |nodes| change(&mut nodes[1].properties));
            assert_eq!(error, Err(MachineError::Shape { node: 1 }));
        }
    }

    #[test]
    fn t13_an_apu_has_no_memory_of_its_own() {
        let machine = changed(Profile::Mi210, |nodes| {
            nodes[1].properties.cpu_cores_count = 4;
            nodes[1].mem_banks = vec![MemBank { size_in_bytes: 1 << 30, ..MemBank::default() }];
        })
        .expect("a machine");
        assert_eq!((machine.gpus[0].vram.size, machine.gpus[0].drm.ids_flags), (0, 1));
    }

    /// 63 partitions, one minor taken by another device: minors are looked up, not counted.
    #[test]
    fn t09_partitions_are_found_by_minor_and_id() {
        let machine =
            changed(Profile::Mi210, |nodes| nodes[1].properties.drm_render_minor = 191).expect("a machine");
        assert_eq!(machine.render_minors(), [191]);
        assert!(machine.gpu_with_render_minor(128).is_none());
        assert_eq!(machine.gpu_with_render_minor(191).map(|gpu| gpu.node), Some(1));
        assert_eq!(machine.gpu(machine.gpus[0].gpu_id).map(|gpu| gpu.node), Some(1));
        assert!(machine.gpu(0).is_none());
    }

    proptest! {
        #[test]
        fn any_properties_make_a_machine_or_an_error(
            values in prop::collection::vec((0..NodeProperties::KEYS.len(), any::<u32>()), 0..12),
            heap_type in 0u32..6,
            size_in_bytes: u64,
        ) {
            let result = changed(Profile::TwoGpu, |nodes| {
                for (key, value) in values {
                    nodes[1].properties.set(NodeProperties::KEYS[key].name, value.into());
                }
                nodes[1].mem_banks = vec![MemBank { heap_type, size_in_bytes, ..MemBank::default() }; 2];
            });
            if let Ok(machine) = result {
                let gpu = &machine.gpus[0];
                prop_assert_eq!(gpu.shaders.cus() > 0, true);
                prop_assert!(gpu.vram.visible <= gpu.vram.size);
            }
        }
    }
}
