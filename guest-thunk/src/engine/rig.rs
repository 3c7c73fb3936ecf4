//! An engine over a software GPU in this very process, for tests.

use std::sync::Arc;

use protocol::kfd::Kfd;
use softgpu::local_mem::LocalMem;
use softgpu::{BackingFiles, Config, Kernel, Profile, SoftGpu};

use super::{Engine, Options};

/// The software GPUs of a profile, with the kernel behaviour of Linux 6.12.
pub(crate) fn device(profile: Profile) -> Arc<dyn Kfd> {
    device_with_kernel(profile, Kernel::Linux6_12)
}

/// The software GPUs of a profile.
pub(crate) fn device_with_kernel(profile: Profile, kernel: Kernel) -> Arc<dyn Kfd> {
    let machine = profile.machine(kernel);
    let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memory files");
    Arc::new(SoftGpu::new(Config { machine, backing }).expect("a built-in profile"))
}

/// An opened engine; nothing of its topology has been asked for yet.
pub(crate) fn engine(profile: Profile) -> Engine {
    engine_on(&device(profile), Options::default())
}

/// An opened engine on this device.
pub(crate) fn engine_on(device: &Arc<dyn Kfd>, options: Options) -> Engine {
    Engine::new(device, Arc::new(LocalMem), options).expect("the software GPU opens")
}
