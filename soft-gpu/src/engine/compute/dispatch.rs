//! A kernel dispatch under way.

use super::descriptor::{self, Descriptor, UserSgpr};
use super::memory::Tables;
use crate::engine::GpuFault;
use crate::engine::aql::packet::KernelDispatch;
use crate::engine::context::{Cx, Exception, ExceptionKind, Step, Stop};
use crate::isa::Arch;
use crate::isa::exec::{CodeCache, Group, GroupConfig, MemFault, Progress, Trap, TrapAt, Wave, check_mode};

/// Lanes of a wave.
const LANES: u32 = 64;
/// Most lanes of a workgroup.
const MOST_LANES: u32 = 1024;
/// Bytes of LDS of a compute unit.
const LDS_SIZE: u32 = 64 << 10;
/// Instructions of one step, and about the nanoseconds of each.
const SLICE: u32 = 2000;
const NANOSECONDS: u32 = 50;

/// Decoded code of a queue's GPU; `None` for GPUs whose instructions are not executed.
pub(in crate::engine) struct Processor {
    arch: Arch,
    code: CodeCache,
}

impl std::fmt::Debug for Processor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processor").field("arch", &self.arch).finish_non_exhaustive()
    }
}

impl Processor {
    /// For a GPU by its `gfx_target_version`.
    pub(in crate::engine) fn of(gfx: u32) -> Option<Self> {
        let arch = match gfx {
            90_010 => Arch::Gfx90a,
            90_402 => Arch::Gfx942,
            _ => return None,
        };
        Some(Self { arch, code: CodeCache::new(arch) })
    }
}

/// Private memory that the runtime gave a queue (fields of `amd_queue_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::engine) struct Scratch {
    /// The buffer descriptor for it.
    pub(in crate::engine) descriptor: [u32; 4],
    /// Bytes of one lane.
    pub(in crate::engine) lane_size: u32,
    /// Bytes of all.
    pub(in crate::engine) size: u64,
}

impl Scratch {
    /// Its address.
    fn base(&self) -> u64 {
        u64::from(self.descriptor[0]) | u64::from(self.descriptor[1] & 0xffff) << 32
    }
}

/// What a queue knows when it starts a dispatch.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct QueueFacts {
    /// Address of the packet.
    pub(in crate::engine) packet: u64,
    /// Index of the packet.
    pub(in crate::engine) index: u64,
    /// Address of `amd_queue_t`, or 0.
    pub(in crate::engine) queue: u64,
    pub(in crate::engine) scratch: Scratch,
}

/// A dispatch under way: its groups run one after the other.
pub(in crate::engine) struct Dispatch {
    arch: Arch,
    packet: KernelDispatch,
    descriptor: Descriptor,
    facts: QueueFacts,
    /// Number of the next group, and how many there are, in each dimension.
    next: Option<[u32; 3]>,
    groups: [u32; 3],
    group: Option<Group>,
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatch")
            .field("packet", &self.packet)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

fn refuse(kind: ExceptionKind, message: String) -> Stop {
    Exception { kind, message }.into()
}

impl Dispatch {
    /// Checks the packet and the kernel.
    pub(in crate::engine) fn new(
        cx: Cx<'_>,
        processor: &mut Processor,
        packet: KernelDispatch,
        facts: QueueFacts,
    ) -> Result<Self, Stop> {
        let lanes: u32 = packet.group.iter().product();
        if packet.group.contains(&0) || packet.grid.contains(&0) {
            return Err(refuse(
                ExceptionKind::DispatchDim,
                format!("a dispatch without work-items: {packet:?}"),
            ));
        }
        if lanes > MOST_LANES {
            return Err(refuse(
                ExceptionKind::GroupSize,
                format!("a workgroup of {lanes} work-items: {packet:?}"),
            ));
        }
        if packet.lds > LDS_SIZE {
            return Err(refuse(
                ExceptionKind::GroupSegment,
                format!("{} bytes of LDS: {packet:?}", packet.lds),
            ));
        }
        let descriptor = read_descriptor(cx, packet.kernel_object)?;
        processor.code.begin();
        let groups = [0, 1, 2].map(|at| packet.grid[at].div_ceil(packet.group[at]));
        Ok(Self { arch: processor.arch, packet, descriptor, facts, next: Some([0; 3]), groups, group: None })
    }

    /// Bytes of private memory that a lane needs.
    pub(in crate::engine) fn private_size(&self) -> u32 {
        if self.descriptor.has_private() {
            self.packet.private_size.max(self.descriptor.private_size)
        } else {
            0
        }
    }

    /// The runtime gave the queue other private memory before the first group was started.
    pub(in crate::engine) fn set_scratch(&mut self, scratch: Scratch) {
        self.facts.scratch = scratch;
    }

    /// Whether the queue's private memory is enough for a group.
    pub(in crate::engine) fn has_scratch(&self) -> bool {
        let (need, have) = (self.private_size(), self.facts.scratch);
        let waves: u64 = self.packet.group.iter().product::<u32>().div_ceil(LANES).into();
        need == 0
            || (need <= have.lane_size && waves * u64::from(have.lane_size) * u64::from(LANES) <= have.size)
    }

    /// Runs a slice.
    pub(in crate::engine) fn step(&mut self, cx: Cx<'_>, processor: &mut Processor) -> Result<Step, Stop> {
        let group = match &mut self.group {
            Some(group) => group,
            None => match self.next {
                None => return Ok(Step::Idle),
                Some(number) => {
                    self.next = self.after(number);
                    let group = self.start_group(cx, number);
                    self.group.insert(group)
                }
            },
        };
        let memory = Tables(cx.vm.access());
        let (progress, done) = group.run(&mut processor.code, &memory, SLICE).map_err(|trap| stop(&trap))?;
        if progress == Progress::Ended {
            self.group = None;
        }
        Ok(Step::Progress { cost: 100 + done * NANOSECONDS })
    }

    fn after(&self, [x, y, z]: [u32; 3]) -> Option<[u32; 3]> {
        let [groups_x, groups_y, groups_z] = self.groups;
        match () {
            () if x + 1 < groups_x => Some([x + 1, y, z]),
            () if y + 1 < groups_y => Some([0, y + 1, z]),
            () if z + 1 < groups_z => Some([0, 0, z + 1]),
            () => None,
        }
    }

    fn start_group(&self, cx: Cx<'_>, number: [u32; 3]) -> Group {
        // The last group in a dimension has what is left of the grid.
        let size = [0, 1, 2].map(|at| {
            let first = u64::from(number[at]) * u64::from(self.packet.group[at]);
            let left = u64::from(self.packet.grid[at]).saturating_sub(first);
            u32::try_from(left).unwrap_or(u32::MAX).min(self.packet.group[at])
        });
        let lanes: u32 = size.iter().product();
        let waves =
            (0..lanes.div_ceil(LANES)).map(|wave| self.start_wave(cx, number, size, lanes, wave)).collect();
        Group::new(GroupConfig { arch: self.arch, lds: self.packet.lds as usize }, waves)
    }

    fn start_wave(&self, cx: Cx<'_>, number: [u32; 3], size: [u32; 3], lanes: u32, index: u32) -> Wave {
        let mut wave = Wave::new(self.arch);
        wave.pc = self.packet.kernel_object.wrapping_add_signed(self.descriptor.entry);
        wave.mode = self.descriptor.mode();
        wave.id = index;
        wave.clock = cx.clock.now();
        let first = index * LANES;
        let active = (lanes - first).min(LANES);
        wave.set_exec(if active == LANES { u64::MAX } else { (1 << active) - 1 });
        for lane in 0..active {
            let item = first + lane;
            let (x, y, z) = (item % size[0], item / size[0] % size[1], item / size[0] / size[1]);
            wave.set_vgpr(0, lane as usize, x | y << 10 | z << 20);
        }
        self.set_sgprs(&mut wave, number, lanes, index);
        wave
    }

    /// The initial state that the usage guide of LLVM's AMDGPU target describes.
    fn set_sgprs(&self, wave: &mut Wave, number: [u32; 3], lanes: u32, index: u32) {
        let scratch = &self.facts.scratch;
        let offset = index * scratch.lane_size * LANES;
        wave.scratch_base = scratch.base().wrapping_add(u64::from(offset));
        let mut at = 0;
        let mut pair = |wave: &mut Wave, value: u64| {
            wave.set_s64(at, value);
            at += 2;
        };
        for register in self.descriptor.layout() {
            match register {
                UserSgpr::PrivateSegmentBuffer => {
                    let [a, b, c, d] = scratch.descriptor.map(u64::from);
                    pair(wave, a | b << 32);
                    pair(wave, c | d << 32);
                }
                UserSgpr::DispatchPtr => pair(wave, self.facts.packet),
                UserSgpr::QueuePtr => pair(wave, self.facts.queue),
                UserSgpr::KernargSegmentPtr => pair(wave, self.packet.kernarg),
                UserSgpr::DispatchId => pair(wave, self.facts.index),
                UserSgpr::FlatScratchInit => pair(wave, scratch.base()),
                // The last one, so nothing lies behind its second half.
                UserSgpr::PrivateSegmentSize => pair(wave, u64::from(self.private_size())),
            }
        }
        let mut at = self.descriptor.user_sgprs();
        let mut push = |wave: &mut Wave, value: u32| {
            wave.s[at & 127] = value;
            at += 1;
        };
        for (id, _) in number.into_iter().zip(self.descriptor.group_ids()).filter(|(_, enabled)| *enabled) {
            push(wave, id);
        }
        if self.descriptor.group_info() {
            push(wave, lanes.div_ceil(LANES) & 0x3f);
        }
        // gfx942 sets the base of private memory itself.
        if self.descriptor.has_private() && self.arch == Arch::Gfx90a {
            push(wave, offset);
        }
    }
}

fn read_descriptor(cx: Cx<'_>, address: u64) -> Result<Descriptor, Stop> {
    let invalid =
        |why: String| refuse(ExceptionKind::DispatchCode, format!("kernel object {address:#x}: {why}"));
    let mut bytes = [0; descriptor::SIZE];
    if address == 0 || !address.is_multiple_of(64) {
        return Err(invalid("no kernel descriptor can be there".into()));
    }
    cx.vm.read(address, &mut bytes).map_err(|fault| invalid(fault.to_string()))?;
    let descriptor = Descriptor::decode(&bytes);
    if descriptor.is_wave32() {
        return Err(invalid("waves of 32 lanes do not exist on this GPU".into()));
    }
    check_mode(descriptor.mode()).map_err(|why| invalid(format!("{why} is not imitated")))?;
    Ok(descriptor)
}

/// What a queue tells when a wave stopped.
fn stop(at: &TrapAt) -> Stop {
    let kind = match &at.trap {
        Trap::Fault(MemFault { addr, write, not_present }) => {
            log::error!("a wave {at}");
            return Stop::Fault(GpuFault { va: *addr, write: *write, not_present: *not_present });
        }
        Trap::Illegal(_) | Trap::Unsupported { .. } => ExceptionKind::IllegalInstruction,
        Trap::Trap(_) => ExceptionKind::Trap,
    };
    refuse(kind, format!("a wave {at}"))
}
