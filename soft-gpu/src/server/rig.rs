//! What unit tests of the server call it with: a machine, and programs in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::Errno;
use protocol::drm::DrmIoctl;
use protocol::kfd::ioctl::Ioctl;
use protocol::kfd::structs::UapiStruct;
use protocol::kfd::{Call, Caller, FileId, Kfd, Node, Process, ProcessId};

use crate::local_mem::{LocalCall, LocalMem};
use crate::{BackingFiles, Config, Kernel, Profile, SoftGpu};

/// A machine.
pub(crate) fn machine(profile: Profile, kernel: Kernel) -> SoftGpu {
    let machine = profile.machine(kernel);
    let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memfd");
    SoftGpu::new(Config { machine, backing }).expect("a built-in profile is consistent")
}

/// A program with `/dev/kfd` open.
pub(crate) struct Program {
    pub(crate) process: Arc<dyn Process>,
    pub(crate) kfd: FileId,
}

/// Attaches a process that has opened nothing.
pub(crate) fn attach(gpu: &SoftGpu, privileged: bool) -> Arc<dyn Process> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let id = ProcessId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    let pid = 1_000_000 + u32::try_from(id.0).expect("few processes");
    gpu.attach(Caller { id, pid, privileged, mem: Some(Arc::new(LocalMem)) }).expect("attach")
}

impl Program {
    pub(crate) fn start(gpu: &SoftGpu) -> Self {
        let process = attach(gpu, false);
        let kfd = process.open(Node::Kfd).expect("open /dev/kfd");
        Self { process, kfd }
    }

    /// One ioctl on `/dev/kfd`, with the request of the uapi header.
    pub(crate) fn ioctl<A: UapiStruct>(&self, ioctl: Ioctl, args: &mut A) -> Result<i32, Errno> {
        self.ioctl_with(ioctl, args, &LocalCall::new())
    }

    pub(crate) fn ioctl_with<A: UapiStruct>(
        &self,
        ioctl: Ioctl,
        args: &mut A,
        call: &dyn Call,
    ) -> Result<i32, Errno> {
        self.process.ioctl(self.kfd, ioctl.request(), args.as_mut_bytes(), call)
    }
}

/// The request code that the uapi header has for a DRM call.
pub(crate) fn drm_request(ioctl: DrmIoctl) -> u32 {
    let decl = ioctl.decl();
    let size = u32::try_from(decl.args.size).expect("small");
    let direction = u32::from(decl.direction.copies_in()) | u32::from(decl.direction.copies_out()) << 1;
    direction << 30 | size << 16 | 0x64 << 8 | u32::from(decl.nr)
}
