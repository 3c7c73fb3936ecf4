//! The thunk's engine: the functions of `hsakmt.h` over any [`Kfd`].
//!
//! Each part has a state of its own with its own lock, and its functions are methods of [`Engine`]:
//! [`topology`], [`fmm`] (memory), [`queue`], [`event`], [`svm`], [`debug`]. Locks are taken in that order, and
//! none is held across a blocking ioctl.
//!
//! A failure is logged where it arises, with the values that were wrong, and returned as the status that AMD's
//! library gives there.

pub(crate) mod channel;
pub mod debug;
pub mod event;
pub mod fmm;
#[cfg(not(test))]
mod gate;
mod library;
mod options;
pub mod queue;
#[cfg(test)]
pub(crate) mod rig;
pub(crate) mod room;
pub mod svm;
#[cfg(test)]
pub(crate) mod testing;
pub mod topology;
#[cfg(test)]
mod whole_api;

use std::sync::Arc;

use protocol::Errno;
use protocol::hsakmt::{Status, VersionInfo};
use protocol::kfd::args::GetVersionArgs;
use protocol::kfd::{Ioctl, Kfd, UserMem};

use channel::Channel;
pub use library::{Closed, Connection, Library, Opened};
pub use options::{GfxOverride, Options};
#[cfg(test)]
use testing::faults as gate;

/// What a function of the thunk gives, or why not.
pub type Result<T> = core::result::Result<T, Status>;

/// One process's connection to a KFD, and all that the thunk keeps for it.
///
/// It lives from the first `hsaKmtOpenKFD` until the process ends or forks, as the kernel's own state
/// (`kfd_process`) does: closing the library and opening it again goes on with the same files, event page and
/// buffers.
pub struct Engine {
    pub(crate) channel: Channel,
    pub(crate) options: Options,
    pub(crate) version: VersionInfo,
    pub(crate) topology: topology::State,
    pub(crate) memory: fmm::State,
    pub(crate) queues: queue::State,
    pub(crate) events: event::State,
    pub(crate) debug: debug::State,
}

impl Engine {
    /// Opens `/dev/kfd` of the device and reads its version (`AMDKFD_IOC_GET_VERSION`).
    ///
    /// `mem` is this process's own memory, for devices that run in it; the kernel needs no help to reach it.
    ///
    /// # Errors
    /// `KERNEL_IO_CHANNEL_NOT_OPENED` if it cannot be opened; `DRIVER_MISMATCH` if it is not version 1 of the
    /// interface; `ERROR` if it has none.
    pub fn new(device: &Arc<dyn Kfd>, mem: Arc<dyn UserMem>, options: Options) -> Result<Self> {
        let channel = Channel::open(Arc::clone(device), mem).map_err(|errno| {
            // The transport has said why, in words.
            log::debug!("/dev/kfd cannot be opened: {errno}");
            Status::KernelIoChannelNotOpened
        })?;
        let version = read_version(&channel)?;
        Ok(Self {
            channel,
            topology: topology::State::new(),
            memory: fmm::State::new(),
            queues: queue::State::new(),
            events: event::State::new(),
            debug: debug::State::new(),
            options,
            version,
        })
    }

    /// Version of the kernel's interface (`hsaKmtGetVersion`).
    #[must_use]
    pub fn version(&self) -> VersionInfo {
        self.version
    }

    /// Refuses what the kernel's interface does not have yet.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` below 1.`minor`.
    pub(crate) fn require_minor(&self, minor: u32) -> Result<()> {
        let has = self.version.kernel_interface_minor_version;
        if has >= minor {
            return Ok(());
        }
        log::debug!("this call needs KFD 1.{minor}; the kernel has 1.{has}");
        Err(Status::NotSupported)
    }

    /// Drops what the library holds for itself: doorbells that no queue uses, addresses that wait to be used again. Called at the last `hsaKmtCloseKFD`.
    ///
    /// Buffers, queues and events are the program's and stay, as in AMD's library; the event page and whether the runtime
    /// is enabled are KFD's state for the life of the process, and a snapshot stays until it is released.
    pub fn close(&self) {
        self.queues.close(self);
        self.close_memory();
    }
}

fn read_version(channel: &Channel) -> Result<VersionInfo> {
    let mut args = GetVersionArgs::default();
    channel.ioctl(Ioctl::GetVersion, &mut args).map_err(|errno| {
        log::error!("KFD does not tell its version: {errno}");
        Status::Error
    })?;
    if args.major_version != 1 {
        let (major, minor) = (args.major_version, args.minor_version);
        log::error!("KFD speaks version {major}.{minor} of its interface; this library speaks 1.x");
        return Err(Status::DriverMismatch);
    }
    Ok(VersionInfo {
        kernel_interface_major_version: args.major_version,
        kernel_interface_minor_version: args.minor_version,
    })
}

/// The status that AMD's library gives for an error of most calls.
pub(crate) fn status_of(errno: Errno) -> Status {
    match errno {
        Errno::EBADF => Status::KernelIoChannelNotOpened,
        Errno::ENOMEM => Status::NoMemory,
        _ => Status::Error,
    }
}

#[cfg(test)]
mod tests {
    use protocol::kfd::Call;
    use softgpu::Profile;
    use softgpu::local_mem::LocalMem;

    use super::*;
    use crate::engine::testing::device::{self, Hooks};

    /// A kernel that says it speaks another version, or refuses one call.
    #[derive(Clone, Copy)]
    struct Kernel {
        version: Option<(u32, u32)>,
        refuses: Option<(Ioctl, Errno)>,
    }

    impl Hooks for Kernel {
        fn ioctl(&self, nr: u32, _args: &mut [u8]) -> Option<std::result::Result<i32, Errno>> {
            self.refuses.filter(|(ioctl, _)| u32::from(ioctl.nr()) == nr).map(|(_, errno)| Err(errno))
        }

        fn done(&self, nr: u32, args: &mut [u8], _call: &dyn Call) -> std::result::Result<(), Errno> {
            if let Some((major, minor)) = self.version
                && nr == u32::from(Ioctl::GetVersion.nr())
            {
                args[..4].copy_from_slice(&major.to_le_bytes());
                args[4..8].copy_from_slice(&minor.to_le_bytes());
            }
            Ok(())
        }
    }

    fn on(kernel: Kernel) -> Result<Engine> {
        let (device, _) = device::over(rig::device(Profile::Mi210), kernel);
        Engine::new(&device, Arc::new(LocalMem), Options::default())
    }

    #[test]
    fn e04_the_version_is_read_first_and_another_major_one_is_a_mismatch() {
        for minor in [0, 1, 10, 13, 17, 23] {
            let engine =
                on(Kernel { version: Some((1, minor)), refuses: None }).expect("a version that is spoken");
            assert_eq!({ engine.version().kernel_interface_minor_version }, minor);
            assert_eq!(engine.require_minor(13).is_ok(), minor >= 13);
        }
        for version in [(2, 0), (0, 9)] {
            let opened = on(Kernel { version: Some(version), refuses: None });
            assert_eq!(opened.map(drop), Err(Status::DriverMismatch), "{version:?}");
        }
    }

    #[test]
    fn e04_calls_that_a_kernel_may_not_have_switch_what_needs_them_off() {
        for errno in [Errno::ENOTTY, Errno::EINVAL] {
            for ioctl in [Ioctl::RuntimeEnable, Ioctl::Svm, Ioctl::SetXnackMode, Ioctl::AvailableMemory] {
                let engine = on(Kernel { version: None, refuses: Some((ioctl, errno)) }).expect("opens");
                engine.acquire_system_properties().expect("the topology");
                let flags = protocol::hsakmt::MemFlags::HOST_ACCESS;
                let at = engine.alloc_memory(0, 4096, 0, flags).expect("memory");
                engine.map_memory(at, 4096).unwrap_or_else(|status| panic!("{ioctl:?} {errno}: {status}"));
                engine.unmap_memory(at).expect("unmapped");
                engine.free_memory(at, 4096).expect("free");
            }
        }
    }

    #[test]
    fn version_is_the_kernels() {
        let engine = rig::engine(Profile::Mi210);
        assert_eq!(engine.version().kernel_interface_major_version, 1);
        assert_eq!(engine.require_minor(0), Ok(()));
        assert_eq!(engine.require_minor(10_000), Err(Status::NotSupported));
    }
}
