//! How workgroups start: what their waves find in their registers.

use super::descriptor::{Descriptor, UserSgpr};
use crate::engine::aql::packet::KernelDispatch;
use crate::engine::clock::GpuClock;
use crate::isa::Arch;
use crate::isa::exec::{Group, GroupConfig, Registers, Wave};

/// Lanes of a wave.
pub(super) const LANES: u32 = 64;

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

/// A dispatch, as its workgroups are started from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    pub(super) arch: Arch,
    pub(super) packet: KernelDispatch,
    pub(super) descriptor: Descriptor,
    pub(super) facts: QueueFacts,
}

impl Launch {
    /// Groups in each dimension.
    pub(super) fn groups(&self) -> [u32; 3] {
        [0, 1, 2].map(|at| self.packet.grid[at].div_ceil(self.packet.group[at].max(1)))
    }

    /// Waves of a group, at most.
    pub(super) fn waves(&self) -> u32 {
        self.packet.group.iter().product::<u32>().div_ceil(LANES)
    }

    /// Bytes of private memory that a lane needs.
    pub(super) fn private_size(&self) -> u32 {
        if self.descriptor.has_private() {
            self.packet.private_size.max(self.descriptor.private_size)
        } else {
            0
        }
    }

    /// How many groups have private memory at the same time. Offsets in it are of 32 bits.
    pub(super) fn private_slots(&self) -> u32 {
        let (need, have) = (self.private_size(), self.facts.scratch);
        if need == 0 {
            return u32::MAX;
        }
        let of_group = u64::from(self.waves()) * u64::from(have.lane_size) * u64::from(LANES);
        if need > have.lane_size || of_group == 0 {
            return 0;
        }
        u32::try_from(have.size.min(u64::from(u32::MAX)) / of_group).unwrap_or(u32::MAX)
    }

    /// The group after one.
    pub(super) fn after(&self, [x, y, z]: [u32; 3]) -> Option<[u32; 3]> {
        let [groups_x, groups_y, groups_z] = self.groups();
        match () {
            () if x + 1 < groups_x => Some([x + 1, y, z]),
            () if y + 1 < groups_y => Some([0, y + 1, z]),
            () if z + 1 < groups_z => Some([0, 0, z + 1]),
            () => None,
        }
    }

    /// Starts a group. `slot` is the part of the private memory that it has; `registers` are those of waves that ended.
    pub(super) fn start_group(
        &self,
        clock: GpuClock,
        number: [u32; 3],
        slot: u32,
        mut registers: impl FnMut() -> Registers,
    ) -> Group {
        // The last group in a dimension has what is left of the grid.
        let size = [0, 1, 2].map(|at| {
            let first = u64::from(number[at]) * u64::from(self.packet.group[at]);
            let left = u64::from(self.packet.grid[at]).saturating_sub(first);
            u32::try_from(left).unwrap_or(u32::MAX).min(self.packet.group[at])
        });
        let lanes: u32 = size.iter().product();
        let waves = (0..lanes.div_ceil(LANES))
            .map(|index| {
                let mut wave = Wave::with(self.arch, registers());
                wave.clock = clock.now();
                self.start_wave(&mut wave, size, lanes, index);
                self.set_sgprs(&mut wave, number, lanes, index, slot);
                wave
            })
            .collect();
        Group::new(GroupConfig { arch: self.arch, lds: self.packet.lds as usize }, waves)
    }

    fn start_wave(&self, wave: &mut Wave, size: [u32; 3], lanes: u32, index: u32) {
        let (vectors, accumulators) = self.descriptor.registers();
        wave.clear(vectors, accumulators);
        wave.pc = self.packet.kernel_object.wrapping_add_signed(self.descriptor.entry);
        wave.mode = self.descriptor.mode();
        wave.id = index;
        let first = index * LANES;
        let active = (lanes - first).min(LANES);
        wave.set_exec(if active == LANES { u64::MAX } else { (1 << active) - 1 });
        for lane in 0..active {
            let item = first + lane;
            let (x, y, z) = (item % size[0], item / size[0] % size[1], item / size[0] / size[1]);
            wave.set_vgpr(0, lane as usize, x | y << 10 | z << 20);
        }
    }

    /// The initial state that the usage guide of LLVM's AMDGPU target describes.
    fn set_sgprs(&self, wave: &mut Wave, number: [u32; 3], lanes: u32, index: u32, slot: u32) {
        let scratch = &self.facts.scratch;
        // (Without private memory the slot means nothing.)
        let wave_of_all = slot.wrapping_mul(self.waves()).wrapping_add(index);
        let offset = wave_of_all.wrapping_mul(scratch.lane_size).wrapping_mul(LANES);
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
