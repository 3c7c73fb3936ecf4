//! Memory banks of a node: those of KFD's topology, and the apertures that programs are told as banks.

use protocol::hsakmt::{HeapType, MemoryProperties};
use protocol::kfd::topology::{self, GfxVersion};

use super::Node;
use crate::engine::fmm::GpuApertures as Apertures;
use crate::engine::{Result, room};

/// Banks that every GPU is said to have besides KFD's: LDS, scratch and SVM.
pub(super) const GPU_HEAPS: u32 = 3;

/// A bank as KFD tells it.
pub(super) fn of_bank(bank: &topology::MemBank) -> MemoryProperties {
    MemoryProperties {
        heap_type: bank.heap_type.into(),
        size_in_bytes: bank.size_in_bytes,
        flags: bank.flags.into(),
        width: bank.width,
        memory_clock_max: bank.mem_clk_max,
        ..MemoryProperties::default()
    }
}

/// All memory of this machine as one bank, for a topology without a single bank of a CPU (as firmware tables of
/// some APUs have it): a program needs one to allocate from.
pub(super) fn of_this_machine() -> MemoryProperties {
    let info = rustix::system::sysinfo();
    MemoryProperties {
        heap_type: HeapType::SYSTEM,
        size_in_bytes: info.totalram.saturating_mul(info.mem_unit.into()),
        ..MemoryProperties::default()
    }
}

/// The banks of a node, at most `count`. Apertures come last and in a fixed order.
///
/// # Errors
/// `NO_MEMORY`.
pub(super) fn banks(
    node: &Node,
    apertures: &Apertures,
    svm: bool,
    count: usize,
) -> Result<Vec<MemoryProperties>> {
    let own = node.memory.iter().copied();
    let most = count.min(node.memory.len() + HEAPS);
    room::collect(most, own.chain(heaps(node, apertures, svm)))
}

/// Most apertures of a node.
const HEAPS: usize = 5;

fn heaps(node: &Node, apertures: &Apertures, svm: bool) -> impl Iterator<Item = MemoryProperties> {
    /// Kaveri has local memory that KFD tells in no bank.
    const KAVERI: GfxVersion = GfxVersion::new(7, 0, 0);
    let lds = u64::from(node.properties.lds_size_in_kb) * 1024;
    let local = node.properties.local_mem_size;
    let private = apertures.gpuvm.filter(|_| node.gfx == KAVERI && local > 0);
    let whole = |heap, aperture: Option<(u64, u64)>| {
        aperture.map(|(base, limit)| of_heap(heap, base, limit.saturating_sub(base).saturating_add(1)))
    };
    let all: [_; HEAPS] = [
        apertures.lds.map(|(base, _)| of_heap(HeapType::GPU_LDS, base, lds)),
        private.map(|(base, _)| of_heap(HeapType::FRAME_BUFFER_PRIVATE, base, local)),
        whole(HeapType::GPU_SCRATCH, apertures.scratch),
        whole(HeapType::DEVICE_SVM, apertures.svm.filter(|_| svm)),
        whole(HeapType::MMIO_REMAP, apertures.mmio),
    ];
    all.into_iter().flatten().filter(|_| node.gpu_id != 0)
}

fn of_heap(heap_type: HeapType, base: u64, size: u64) -> MemoryProperties {
    MemoryProperties {
        heap_type,
        size_in_bytes: size,
        virtual_base_address: base,
        ..MemoryProperties::default()
    }
}

#[cfg(test)]
mod tests {
    use protocol::hsakmt::NodeProperties;

    use super::*;

    fn heap_types(banks: &[MemoryProperties]) -> Vec<u32> {
        banks.iter().map(|bank| bank.heap_type.0).collect()
    }

    fn gpu() -> Node {
        let gfx = GfxVersion::new(9, 0, 10);
        let vram = MemoryProperties { heap_type: HeapType::FRAME_BUFFER_PUBLIC, ..Default::default() };
        Node {
            kfd: topology::Node::default(),
            gpu_id: 1,
            gfx,
            hardware: gfx,
            properties: NodeProperties { lds_size_in_kb: 64, ..Default::default() },
            memory: vec![vram],
            caches: Vec::new(),
            links: Vec::new(),
        }
    }

    const ALL: Apertures = Apertures {
        lds: Some((1 << 48, (1 << 48) | 0xffff_ffff)),
        scratch: Some((2 << 48, (2 << 48) | 0xffff_ffff)),
        gpuvm: Some((1 << 16, (1 << 47) - 1)),
        svm: Some((0, u64::MAX)),
        mmio: Some((0x7000, 0x7fff)),
    };

    #[test]
    fn apertures_follow_the_banks_in_order_and_are_cut_to_the_count() {
        let banks = banks(&gpu(), &ALL, true, 10).unwrap();
        assert_eq!(heap_types(&banks), [1, 4, 5, 6, 7]);
        let told = |at: usize| (banks[at].virtual_base_address, banks[at].size_in_bytes);
        assert_eq!(told(1), (1 << 48, 64 << 10));
        assert_eq!(told(2), (2 << 48, 1 << 32));
        assert_eq!(told(3), (0, u64::MAX), "a size that does not fit");
        assert_eq!(told(4), (0x7000, 4096));
        assert_eq!(heap_types(&super::banks(&gpu(), &ALL, true, 2).unwrap()), [1, 4]);
        assert_eq!(super::banks(&gpu(), &ALL, true, 0), Ok(vec![]));
    }

    #[test]
    fn apertures_that_are_not_there_are_left_out() {
        let apertures = Apertures { svm: ALL.svm, lds: ALL.lds, ..Apertures::default() };
        assert_eq!(heap_types(&banks(&gpu(), &apertures, false, 10).unwrap()), [1, 4]);
        let cpu = Node { gpu_id: 0, ..gpu() };
        assert_eq!(heap_types(&banks(&cpu, &ALL, true, 10).unwrap()), [1]);
    }

    #[test]
    fn kaveri_has_private_memory() {
        let mut kaveri = gpu();
        kaveri.gfx = GfxVersion::new(7, 0, 0);
        kaveri.properties.local_mem_size = 1 << 30;
        let banks = banks(&kaveri, &ALL, false, 10).unwrap();
        assert_eq!(heap_types(&banks), [1, 4, 2, 5, 7]);
        assert_eq!({ banks[2].size_in_bytes }, 1 << 30);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!({ of_this_machine().size_in_bytes } > 16 << 20);
    }
}
