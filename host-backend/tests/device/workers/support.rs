//! A VM whose contexts are worker processes.

use std::sync::Arc;
use std::time::Duration;

use protocol::virtio_gpu::{Command, ResponseId};
use vhost_device_kfd::workers::supply::{Limits, Supply};
use vhost_device_kfd::workers::{Bounds, Metrics, Program, Workers};
use vm_memory::{Bytes as _, GuestAddress};

use super::process;
use crate::support::{BLOBS, Setup, Vm, response_id, wait_for};

/// How the workers of a VM behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They do what they are told.
    #[default]
    Obeys,
    HangsAtTheEnd,
    Prints,
    NeverReady,
    SaysFailed,
    ExitsAtOnce,
    SendsGarbage,
    SendsTooMuch,
    SendsNothing,
    ReadyForEver,
    AnswersWhatIsNotAsked,
    ReleasesWhatItHas,
    TakesNothing,
    AsksForEver,
    GivesBackWhatItHasNot,
}

impl Mode {
    pub const ALL: [Mode; 15] = [
        Mode::Obeys,
        Mode::HangsAtTheEnd,
        Mode::Prints,
        Mode::NeverReady,
        Mode::SaysFailed,
        Mode::ExitsAtOnce,
        Mode::SendsGarbage,
        Mode::SendsTooMuch,
        Mode::SendsNothing,
        Mode::ReadyForEver,
        Mode::AnswersWhatIsNotAsked,
        Mode::ReleasesWhatItHas,
        Mode::TakesNothing,
        Mode::AsksForEver,
        Mode::GivesBackWhatItHasNot,
    ];
}

/// The blob that workers write their ids into.
const NOTES: u32 = 0xffff;

/// Where it is.
const NOTES_AT: u64 = BLOBS - 0x1000;

pub struct Rig {
    pub vm: Vm,
    pub metrics: Arc<Metrics>,
    pub supply: Arc<Supply>,
    fence: u64,
}

impl Rig {
    pub fn start(mode: Mode) -> Rig {
        Rig::with(mode, Bounds { end: Duration::from_millis(500), ..Bounds::default() })
    }

    pub fn with(mode: Mode, bounds: Bounds) -> Rig {
        Rig::of(process::program(mode), bounds)
    }

    pub fn of(program: Program, bounds: Bounds) -> Rig {
        Rig::sharing(program, bounds, Limits::default())
    }

    /// One whose contexts share no more memory than this.
    pub fn sharing(program: Program, bounds: Bounds, limits: Limits) -> Rig {
        let workers = Workers::new(program, bounds).expect("a thread").sharing(limits);
        let (metrics, supply) = (workers.metrics(), workers.supply());
        let mut vm = Setup::new(workers).start();
        vm.create_blob(NOTES, NOTES_AT, 0x1000);
        Rig { vm, metrics, supply, fence: 0 }
    }

    /// Submits with a fence and waits for it.
    pub fn submit(&mut self, context: u32, bytes: &[u8]) -> ResponseId {
        self.fence += 1;
        let head = self.vm.submit(context, 0, self.fence, bytes);
        response_id(&self.vm.control.wait(head))
    }

    pub fn submit_ok(&mut self, context: u32, bytes: &[u8]) {
        assert_eq!(self.submit(context, bytes), ResponseId::OK_NODATA, "{}", bytes.escape_ascii());
    }

    pub fn submit_fails(&mut self, context: u32, bytes: &[u8]) {
        assert_eq!(self.submit(context, bytes), ResponseId::ERR_UNSPEC, "{}", bytes.escape_ascii());
    }

    /// Makes a blob and attaches it.
    pub fn attach(&mut self, context: u32, resource_id: u32, addr: u64, size: u32) {
        self.vm.create_blob(resource_id, addr, size);
        self.vm.ok(context, Command::CtxAttachResource { resource_id });
    }

    pub fn destroy(&mut self, context: u32) {
        self.vm.ok(context, Command::CtxDestroy);
    }

    /// The process of a context's worker.
    pub fn pid(&mut self, context: u32) -> u32 {
        self.vm.ok(context, Command::CtxAttachResource { resource_id: NOTES });
        self.submit_ok(context, format!("pid {NOTES} 8").as_bytes());
        self.vm.ok(context, Command::CtxDetachResource { resource_id: NOTES });
        self.vm.memory.read_obj(GuestAddress(NOTES_AT + 8)).expect("in memory")
    }

    pub fn u64_at(&self, addr: u64) -> u64 {
        self.vm.memory.read_obj(GuestAddress(addr)).expect("in memory")
    }

    /// Nothing is left but the blob of the test.
    pub fn assert_clean(&mut self) {
        assert_eq!(self.metrics.processes(), 0);
        self.vm.assert_alive();
        self.vm.ok(0, Command::ResourceUnref { resource_id: NOTES });
        assert_eq!(self.vm.device.ledger().in_use(), (0, 0));
        assert_eq!(self.vm.device.open_requests(), 0);
        assert_eq!(self.metrics.pieces.load(std::sync::atomic::Ordering::Relaxed), 0);
        assert_eq!(self.supply.granted(), (0, 0));
    }
}

/// What starts the daemon's own workers.
pub fn daemons_own() -> Program {
    let daemon = format!("--daemon={}", std::process::id());
    Program::at(env!("CARGO_BIN_EXE_vhost-device-kfd"), ["worker", &daemon])
}

/// Whether there is such a process, and it has not ended.
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with(['Z', 'X'])))
}

/// Waits until it has ended.
pub fn wait_until_gone(pid: u32) {
    wait_for("a process to end", || !is_running(pid));
}

/// Children of this process whose first argument is this.
pub fn children_with(argument: &str) -> Vec<u32> {
    let own = format!("PPid:\t{}\n", std::process::id());
    let processes = std::fs::read_dir("/proc").expect("a directory").filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        (status.contains(&own) && line.split('\0').nth(1) == Some(argument)).then_some(pid)
    });
    processes.collect()
}
