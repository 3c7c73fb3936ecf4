//! What tests of all parts use: a device whose operations are seen, answered otherwise, or made to fail.

pub(crate) mod device;
pub(crate) mod faults;
pub(crate) mod messages;

use std::sync::{Arc, Mutex, PoisonError};

use protocol::Errno;
use protocol::kfd::Kfd;
use softgpu::{BackingFiles, Config, Kernel, Machine, Profile, SoftGpu};

use super::{Engine, Options, rig};
use device::Hooks;

/// What a test makes of an ioctl, by its number: an answer, or nothing, which lets it through. It sees the arguments
/// before the device.
struct Answering<F>(F);

impl<F: Fn(u32, &mut [u8]) -> Option<Result<i32, Errno>> + Send + Sync> Hooks for Answering<F> {
    fn ioctl(&self, nr: u32, args: &mut [u8]) -> Option<Result<i32, Errno>> {
        (self.0)(nr, args)
    }
}

/// An engine whose ioctls go through `answer`.
pub(crate) fn engine_answered(
    profile: Profile,
    kernel: Kernel,
    answer: impl FnMut(u32, &mut [u8]) -> Option<Result<i32, Errno>> + Send + 'static,
) -> Engine {
    let answer = Mutex::new(answer);
    engine_with(
        profile,
        kernel,
        Answering(move |nr, args: &mut [u8]| {
            let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
            (*answer)(nr, args)
        }),
    )
}

/// An engine that tells `before` of each ioctl, from several threads at once.
pub(crate) fn engine_watched(
    profile: Profile,
    kernel: Kernel,
    before: impl Fn(u32) + Send + Sync + 'static,
) -> Engine {
    engine_with(
        profile,
        kernel,
        Answering(move |nr, _: &mut [u8]| {
            before(nr);
            None
        }),
    )
}

/// An engine with hooks.
pub(crate) fn engine_with(profile: Profile, kernel: Kernel, hooks: impl Hooks + 'static) -> Engine {
    let (device, _) = device::over(rig::device_with_kernel(profile, kernel), hooks);
    rig::engine_on(&device, Options::default())
}

/// An engine on a machine that is no built-in profile.
pub(crate) fn engine_of_machine(machine: Machine) -> Engine {
    let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memory files");
    let device: Arc<dyn Kfd> = Arc::new(SoftGpu::new(Config { machine, backing }).expect("a machine"));
    rig::engine_on(&device, Options::default())
}

/// An engine on a kernel whose interface has this minor number.
pub(crate) fn engine_of_minor(profile: Profile, minor: u32) -> Engine {
    let mut engine = rig::engine(profile);
    engine.version.kernel_interface_minor_version = minor;
    engine
}
