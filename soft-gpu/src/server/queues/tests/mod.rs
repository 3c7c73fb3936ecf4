//! Queues of a program in the same process, made and used through the calls. Every expected error is the one of the
//! kernel function that the comment names (Linux 6.12, `drivers/gpu/drm/amd/amdkfd`).

mod control;
mod create;
mod errors;
mod limits;
mod run;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{CreateQueueArgs, DestroyQueueArgs, UpdateQueueArgs};
use protocol::kfd::constants::{AllocFlags, QueueType};

use crate::engine::doorbell::NOT_RUNG;
use crate::mem::HostMem;
use crate::profile::Profile;
use crate::server::memory::tests::{Machine, Pages, Program};

/// GTT memory, or userptr's access.
const RW: AllocFlags = AllocFlags::WRITABLE;

const DEADLINE: Duration = Duration::from_secs(20);

/// A program with page tables on every GPU, and room for buffers.
struct Rig {
    machine: Machine,
    program: Program,
    next_va: AtomicU64,
}

/// A buffer that CPU and GPU see.
#[derive(Clone)]
struct Buffer {
    va: u64,
    handle: u64,
    mem: HostMem,
}

impl Buffer {
    fn u64(&self, offset: usize) -> &AtomicU64 {
        self.mem.atomic_u64(offset).expect("aligned and inside")
    }

    fn words(&self, offset: usize, words: &[u32]) {
        for (at, word) in (offset..).step_by(4).zip(words) {
            self.mem.write(at, &word.to_le_bytes()).expect("inside");
        }
    }
}

/// The buffers of a compute queue, and arguments that name them.
struct Compute {
    args: CreateQueueArgs,
    ring: Buffer,
    pointers: Buffer,
    save_area: Buffer,
}

impl Rig {
    fn new(profile: Profile) -> Self {
        Self::on(Machine::new(profile))
    }

    fn on(machine: Machine) -> Self {
        let program = machine.running(1);
        Self { machine, program, next_va: AtomicU64::new(0x20_0000_0000) }
    }

    fn spec(&self) -> crate::GpuSpec {
        self.machine.device().gpus[0].spec.clone()
    }

    /// A fresh address with an unmapped page behind the buffer.
    fn fresh_va(&self, size: u64) -> u64 {
        self.next_va.fetch_add(size.next_multiple_of(4096) + 4096, Ordering::Relaxed)
    }

    /// GTT memory, mapped to the first GPU.
    fn gtt(&self, size: u64) -> Buffer {
        self.buffer(0, size, AllocFlags::GTT | RW)
    }

    fn buffer(&self, gpu: usize, size: u64, flags: AllocFlags) -> Buffer {
        let va = self.fresh_va(size);
        let args = self.program.alloc_on(gpu, va, size, 0, flags).expect("alloc");
        self.program.map(args.handle, &[self.program.gpu()]).expect("map");
        let mapping = self.program.process.mmap(self.program.drm[gpu], args.mmap_offset, size).expect("mmap");
        let mem = HostMem::map_descriptor(&mapping.fd, mapping.offset, size).expect("map");
        Buffer { va, handle: args.handle, mem }
    }

    /// Memory of this program, registered at its own address.
    fn userptr(&self, pages: &Pages, size: u64) -> u64 {
        let addr = pages.addr();
        let args = self.program.alloc_userptr(addr, size, addr).expect("alloc");
        self.program.map(args.handle, &[self.program.gpu()]).expect("map");
        addr
    }

    fn compute(&self, kind: QueueType, ring_size: u32) -> Compute {
        let (spec, gpu_id) = (self.spec(), self.program.gpu());
        let sizes = spec.queue_sizes;
        let save_area = u64::from(sizes.cwsr + sizes.debug_memory) * u64::from(spec.shaders.xccs);
        let (ring, pointers) = (self.gtt(u64::from(ring_size).next_multiple_of(4096)), self.gtt(4096));
        let (eop, save_area) = (self.gtt(4096), self.gtt(save_area.next_multiple_of(4096)));
        if kind == QueueType::COMPUTE_AQL {
            for slot in (0..ring_size as usize).step_by(64) {
                ring.words(slot, &[1]);
            }
        }
        let args = CreateQueueArgs {
            ring_base_address: ring.va,
            ring_size,
            write_pointer_address: pointers.va + 56,
            read_pointer_address: pointers.va + 128,
            gpu_id,
            queue_type: kind.0,
            queue_percentage: 100,
            queue_priority: 7,
            eop_buffer_address: eop.va,
            eop_buffer_size: 4096,
            ctx_save_restore_address: save_area.va,
            ctx_save_restore_size: sizes.cwsr,
            ctl_stack_size: sizes.ctl_stack,
            ..Default::default()
        };
        Compute { args, ring, pointers, save_area }
    }

    /// Arguments of an SDMA queue, with its ring and pointers.
    fn sdma(&self, kind: QueueType) -> Compute {
        let (ring, pointers) = (self.gtt(4096), self.gtt(4096));
        let args = CreateQueueArgs {
            ring_base_address: ring.va,
            ring_size: 4096,
            write_pointer_address: pointers.va + 56,
            read_pointer_address: pointers.va + 128,
            gpu_id: self.program.gpu(),
            queue_type: kind.0,
            queue_percentage: 100,
            ..Default::default()
        };
        Compute { args, ring, save_area: pointers.clone(), pointers }
    }

    fn create(&self, args: &CreateQueueArgs) -> Result<CreateQueueArgs, Errno> {
        let mut args = *args;
        self.program.ioctl(Ioctl::CreateQueue, &mut args).map(|()| args)
    }

    fn destroy(&self, queue_id: u32) -> Result<(), Errno> {
        self.program.ioctl(Ioctl::DestroyQueue, &mut DestroyQueueArgs { queue_id, pad: 0 })
    }

    fn update(&self, mut args: UpdateQueueArgs) -> Result<(), Errno> {
        self.program.ioctl(Ioctl::UpdateQueue, &mut args)
    }

    /// The doorbell pages, mapped as the thunk maps them: the offset without its 13 lowest bits, on `/dev/kfd`.
    fn doorbells(&self, created: &CreateQueueArgs) -> HostMem {
        let base = created.doorbell_offset & !0x1fff;
        let mapping = self.program.process.mmap(self.program.kfd, base, 8192).expect("doorbells");
        HostMem::map_descriptor(&mapping.fd, mapping.offset, mapping.len).expect("map")
    }

    fn ring(&self, created: &CreateQueueArgs, value: u64) {
        let offset = usize::try_from(created.doorbell_offset & 0x1fff).expect("small");
        let pages = self.doorbells(created);
        let slot = pages.atomic_u64(offset).expect("aligned");
        assert_eq!(slot.load(Ordering::Relaxed), NOT_RUNG, "an idle doorbell");
        slot.store(value, Ordering::Release);
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < DEADLINE, "{what} did not happen in {DEADLINE:?}");
        std::thread::yield_now();
    }
}

/// An AQL barrier-AND packet without dependencies.
fn barrier(completion: u64) -> [u32; 16] {
    let mut words = [0; 16];
    words[0] = 3;
    [words[14], words[15]] = halves(completion);
    words
}

fn halves(value: u64) -> [u32; 2] {
    let [low, high] = [value & 0xffff_ffff, value >> 32].map(|half| u32::try_from(half).expect("32 bits"));
    [low, high]
}

/// An SDMA fence.
fn fence(addr: u64, value: u32) -> [u32; 4] {
    let [low, high] = halves(addr);
    [5, low, high, value]
}
