//! Sizes that the kernel demands of a queue's buffers on a GPU.

use protocol::kfd::topology::{GfxVersion, NodeProperties, QueueSizes};

use super::create::Kind;

/// Sizes of the buffers that a queue has besides its ring, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// End-of-pipe buffer; 0: none.
    pub(super) eop: u32,
    /// Context save area; `None` where waves are not saved.
    pub(super) save: Option<SaveSizes>,
}

/// Sizes of a context save area in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SaveSizes {
    /// Control stack of one XCC.
    pub(super) ctl_stack: u32,
    /// Control stack and waves of one XCC.
    pub(super) area: u32,
    /// Memory for the debugger, of one XCC.
    pub(super) debug: u32,
    /// XCCs: there is one area for each, and then the debugger's memory of all.
    pub(super) xccs: u32,
    /// All of it in whole pages: KFD compares this with the length of the mapping.
    pub(super) total: u64,
}

impl Sizes {
    /// The sizes for a queue of this kind. What the kernel says itself (`cwsr_size` and `ctl_stack_size` of the
    /// node) goes before what is computed as it does.
    pub(super) fn of(kind: Kind, gfx: GfxVersion, properties: &NodeProperties) -> Self {
        if !kind.is_compute() {
            return Self::default();
        }
        let mut sizes = QueueSizes::of(gfx, properties);
        if properties.cwsr_size != 0 && properties.ctl_stack_size != 0 {
            sizes.cwsr = properties.cwsr_size;
            sizes.ctl_stack = properties.ctl_stack_size;
        }
        Self { eop: eop(kind, gfx, &sizes), save: save(&sizes, properties.num_xcc.max(1)) }
    }
}

/// gfx942 needs no end-of-pipe buffer for AQL queues.
fn eop(kind: Kind, gfx: GfxVersion, sizes: &QueueSizes) -> u32 {
    match kind {
        Kind::Aql if (gfx.major, gfx.minor) == (9, 4) => 0,
        // The other sizes are 0 for chips that cannot save waves, of which some have this buffer (gfx8.0.0).
        _ if gfx.major >= 8 => sizes.eop_buffer.max(0x1000),
        _ => 0,
    }
}

fn save(sizes: &QueueSizes, xccs: u32) -> Option<SaveSizes> {
    let total = sizes.save_area(sizes.cwsr, xccs)?;
    (sizes.cwsr != 0).then_some(SaveSizes {
        ctl_stack: sizes.ctl_stack,
        area: sizes.cwsr,
        debug: sizes.debug_memory,
        xccs,
        total,
    })
}

#[cfg(test)]
mod tests {
    use softgpu::{Kernel, Profile};

    use super::*;

    fn properties(profile: Profile) -> (GfxVersion, NodeProperties) {
        let machine = profile.machine(Kernel::Linux6_12);
        let node = machine.topology.nodes.iter().find(|node| node.is_gpu()).expect("a GPU");
        let gfx = GfxVersion::decode(u64::from(node.properties.gfx_target_version)).expect("valid");
        (gfx.expect("a GPU"), node.properties)
    }

    #[test]
    fn the_save_area_of_an_mi210_is_what_kfd_computes() {
        let (gfx, properties) = properties(Profile::Mi210);
        let sizes = Sizes::of(Kind::Aql, gfx, &properties);
        let save = sizes.save.expect("gfx90a saves waves");
        assert_eq!(sizes.eop, 4096);
        // 104 CUs of 0x95000 bytes; 4,096 waves of 8 and 32 bytes.
        assert_eq!((save.ctl_stack, save.area, save.debug), (36864, 63_508_480, 131_072));
        assert_eq!(save.total, 63_508_480 + 131_072);
    }

    #[test]
    fn every_xcc_has_its_part_and_aql_on_gfx942_no_eop_buffer() {
        let (gfx, properties) = properties(Profile::Mi300x);
        let aql = Sizes::of(Kind::Aql, gfx, &properties);
        let save = aql.save.expect("gfx942 saves waves");
        assert_eq!(save.xccs, 8);
        let one = u64::from(save.area) + u64::from(save.debug);
        assert_eq!(save.total, (one * 8).next_multiple_of(4096));
        assert_eq!(aql.eop, 0);
        assert_eq!(Sizes::of(Kind::Pm4, gfx, &properties).eop, 4096);
    }

    #[test]
    fn the_kernels_own_numbers_go_before_computed_ones() {
        let (gfx, mut properties) = properties(Profile::Mi210);
        properties.cwsr_size = 0x10_0000;
        properties.ctl_stack_size = 0x9000;
        let save = Sizes::of(Kind::Aql, gfx, &properties).save.expect("gfx90a saves waves");
        assert_eq!((save.area, save.ctl_stack), (0x10_0000, 0x9000));
        properties.cwsr_size = 0;
        let save = Sizes::of(Kind::Aql, gfx, &properties).save.expect("gfx90a saves waves");
        assert_eq!((save.area, save.ctl_stack), (63_508_480, 36864), "both, or computed ones");
    }

    #[test]
    fn copy_queues_and_old_chips_need_less() {
        let (gfx, properties) = properties(Profile::Mi210);
        assert_eq!(Sizes::of(Kind::Sdma, gfx, &properties), Sizes::default());
        assert_eq!(Sizes::of(Kind::SdmaEngine(1), gfx, &properties), Sizes::default());
        let old = NodeProperties { cwsr_size: 0, ctl_stack_size: 0, ..properties };
        assert_eq!(Sizes::of(Kind::Aql, GfxVersion::new(7, 0, 0), &old), Sizes::default());
        assert_eq!(Sizes::of(Kind::Aql, GfxVersion::new(8, 0, 2), &old).eop, 0x8000);
    }
}
