//! One hardware queue: its ring, its doorbell, and the packet processor behind it.

use super::context::{Cx, Exception, Step, Stop};
use super::doorbell::Doorbell;
use super::stream::Stream;
use super::{GpuFault, aql, pm4, sdma};

/// About the nanoseconds that one queue may run before the next one gets its turn.
const TURN: u32 = 100_000;

/// Which packets a queue takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    /// HSA packets of 64 bytes; pointers count packets.
    Aql,
    /// PM4 packets; the write pointer counts words, the read pointer words within the ring.
    Pm4,
    /// SDMA packets; pointers count bytes.
    Sdma,
}

/// What a queue is made from (the hardware's queue descriptor).
#[derive(Clone, Debug)]
pub(crate) struct QueueConfig {
    /// Id within the process.
    pub(crate) id: u32,
    pub(crate) kind: QueueKind,
    /// GPU virtual address of the ring, 256-byte aligned.
    pub(crate) ring: u64,
    /// Bytes of the ring, a power of two.
    pub(crate) ring_size: u64,
    /// GPU virtual address to which the position is reported.
    pub(crate) read_pointer: u64,
    /// GPU virtual address of the write pointer.
    pub(crate) write_pointer: u64,
    pub(crate) doorbell: Doorbell,
    /// `gfx_target_version` of the GPU.
    pub(crate) gfx: u32,
    /// Whether it runs (`QUEUE_IS_ACTIVE`).
    pub(crate) active: bool,
}

/// Why a queue does not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    /// It stopped with an exception, or at an address that faulted.
    Stopped,
}

/// A queue as the engine runs it.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) config: QueueConfig,
    ring: Stream,
    processor: Processor,
    reported: u64,
    life: Life,
}

#[derive(Debug)]
enum Processor {
    Aql(aql::exec::Machine),
    Pm4(pm4::exec::Machine),
    Sdma(sdma::exec::Machine),
}

/// What happened to a queue in its turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// It did something, and may have more to do.
    Busy,
    /// It has nothing to do now.
    Quiet,
    /// It stopped.
    Stopped(Stop),
}

impl Queue {
    pub(super) fn new(config: QueueConfig) -> Self {
        let processor = match config.kind {
            QueueKind::Aql => Processor::Aql(aql::exec::Machine::new(config.gfx)),
            QueueKind::Pm4 => Processor::Pm4(pm4::exec::Machine::default()),
            QueueKind::Sdma => {
                Processor::Sdma(sdma::exec::Machine::new(sdma::packet::Format::of(config.gfx)))
            }
        };
        let ring = Stream::ring(config.ring, config.ring_size / 4);
        Self { config, ring, processor, reported: 0, life: Life::Running }
    }

    /// Another ring and activity (UPDATE_QUEUE). The position is kept, as in the hardware's queue
    /// descriptor. The write pointer is looked at when the queue becomes active.
    pub(super) fn update(&mut self, ring: u64, ring_size: u64, active: bool) {
        self.config.active = active;
        if !active {
            self.pause();
        }
        self.ring.move_to(ring, ring_size / 4);
    }

    /// Lets nothing of it run until its next turn.
    pub(super) fn pause(&self) {
        if let Processor::Aql(machine) = &self.processor {
            machine.pause();
        }
    }

    /// Runs until there is nothing to do or the turn is over.
    pub(super) fn run(&mut self, cx: Cx<'_>) -> Turn {
        if !self.config.active || self.life == Life::Stopped {
            return Turn::Quiet;
        }
        match self.try_run(cx) {
            Ok(turn) => turn,
            Err(stop) => {
                self.life = Life::Stopped;
                Turn::Stopped(stop)
            }
        }
    }

    fn try_run(&mut self, cx: Cx<'_>) -> Result<Turn, Stop> {
        let mut turn = Turn::Quiet;
        let mut spent = 0u32;
        self.poll_doorbell(cx)?;
        while spent < TURN {
            let step = match &mut self.processor {
                Processor::Aql(machine) => machine.step(cx, &mut self.ring, self.config.read_pointer)?,
                Processor::Pm4(machine) => machine.step(cx, Some(&mut self.ring))?,
                Processor::Sdma(machine) => machine.step(cx, &mut self.ring)?,
            };
            self.report_position(cx)?;
            let Step::Progress { cost } = step else { break };
            spent = spent.saturating_add(cost);
            turn = Turn::Busy;
        }
        Ok(turn)
    }

    /// What the hardware does when it maps a queue: it looks at the write pointer in memory, for what
    /// was rung while nobody listened.
    pub(super) fn activate(&mut self, cx: Cx<'_>) -> Result<(), GpuFault> {
        let write = cx.vm.read_u64(self.config.write_pointer)?;
        self.extend(write);
        Ok(())
    }

    /// Moves the end of the ring if the doorbell was rung.
    ///
    /// The write pointer in memory counts as well, but only then: of several producers of an AQL queue
    /// that ring out of order a poller may see only the late store of the lower index, while hardware
    /// sees each of them.
    fn poll_doorbell(&mut self, cx: Cx<'_>) -> Result<(), GpuFault> {
        let Some(rung) = self.config.doorbell.take() else { return Ok(()) };
        let last = self.write_pointer();
        let (value, write) = (rung.value(last), cx.vm.read_u64(self.config.write_pointer)?);
        match self.config.kind {
            // An AQL doorbell holds the index of a packet, not the one behind it.
            QueueKind::Aql => self.extend(value.saturating_add(1).max(write)),
            QueueKind::Pm4 | QueueKind::Sdma => self.extend(value.max(write)),
        }
        Ok(())
    }

    /// The end of the ring in the units of the write pointer.
    fn write_pointer(&self) -> u64 {
        match self.config.kind {
            QueueKind::Aql => self.ring.end / aql::packet::WORDS as u64,
            QueueKind::Pm4 => self.ring.end,
            QueueKind::Sdma => self.ring.end.saturating_mul(4),
        }
    }

    fn extend(&mut self, write: u64) {
        match self.config.kind {
            QueueKind::Aql => self.ring.extend_to(write.saturating_mul(aql::packet::WORDS as u64)),
            QueueKind::Pm4 => self.ring.extend_within_ring(write),
            QueueKind::Sdma => self.ring.extend_within_ring(write / 4),
        }
    }

    /// Reports the position when all packets before it are done. AQL does so itself.
    fn report_position(&mut self, cx: Cx<'_>) -> Result<(), GpuFault> {
        let busy = match &self.processor {
            Processor::Aql(_) => return Ok(()),
            Processor::Pm4(machine) => machine.busy(),
            Processor::Sdma(machine) => machine.busy(),
        };
        if busy || self.ring.at == self.reported {
            return Ok(());
        }
        self.reported = self.ring.at;
        match self.config.kind {
            QueueKind::Sdma => cx.vm.write_u64(self.config.read_pointer, self.ring.at.wrapping_mul(4)),
            _ => {
                let within = self.ring.at % self.ring.words().max(1);
                cx.vm.write_u32(self.config.read_pointer, u32::try_from(within).unwrap_or(0))
            }
        }
    }

    /// Tells the runtime about an exception through the queue's own memory.
    pub(super) fn note_exception(&self, cx: Cx<'_>, exception: &Exception) -> Result<(), GpuFault> {
        match self.config.kind {
            QueueKind::Aql => {
                let value = exception.kind.inactive_signal_value();
                aql::exec::store_inactive_signal(cx, self.config.read_pointer, value)
            }
            QueueKind::Pm4 | QueueKind::Sdma => Ok(()),
        }
    }
}
