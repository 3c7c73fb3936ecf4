//! What the `amdgpu` driver tells of a GPU and KFD does not (AMDGPU_INFO_DEV_INFO).

use protocol::Errno;
use protocol::drm::args::AmdgpuInfo;
use protocol::drm::info::InfoDevice;
use protocol::drm::{DrmIoctl, query};
use protocol::kfd::FileId;
use zerocopy::IntoBytes;

use crate::engine::Engine;
use crate::engine::channel::Channel;

/// The device behind a render node. Kernels that know less of the struct leave the rest 0.
///
/// # Errors
/// Those of the ioctl.
pub(super) fn device(channel: &Channel, render: FileId) -> Result<InfoDevice, Errno> {
    let mut device = InfoDevice::default();
    let mut args = AmdgpuInfo {
        return_pointer: device.as_mut_bytes().as_mut_ptr().expose_provenance() as u64,
        return_size: u32::try_from(size_of::<InfoDevice>()).map_err(|_| Errno::EINVAL)?,
        query: query::DEV_INFO,
        params: [0; 4],
    };
    channel.ioctl_bytes(render, DrmIoctl::AmdgpuInfo.request(), args.as_mut_bytes())?;
    Ok(device)
}

impl Engine {
    /// What the `amdgpu` driver tells of the GPU with this render node: AMDGPU_INFO, with a query of
    /// [`protocol::drm::query`]. The answer is cut or left as it was where the driver tells more or less.
    ///
    /// # Errors
    /// Those of opening the render node and of the ioctl.
    pub fn drm_info(&self, minor: u32, query: u32, params: [u32; 4], answer: &mut [u8]) -> Result<(), Errno> {
        let render = self.channel.render_file(minor)?;
        let mut args = AmdgpuInfo {
            return_pointer: answer.as_mut_ptr().expose_provenance() as u64,
            return_size: u32::try_from(answer.len()).map_err(|_| Errno::EINVAL)?,
            query,
            params,
        };
        self.channel.ioctl_bytes(render, DrmIoctl::AmdgpuInfo.request(), args.as_mut_bytes())
    }
}

#[cfg(test)]
mod tests {
    use softgpu::Profile;

    use super::*;
    use crate::engine::rig;

    #[test]
    fn request_is_the_one_of_the_kernels_header() {
        assert_eq!(DrmIoctl::AmdgpuInfo.request(), 0x4020_6445);
    }

    #[test]
    fn driver_tells_the_device() {
        let engine = rig::engine(Profile::Mi210);
        let render = engine.channel.render_file(128).expect("a render node");
        let device = device(&engine.channel, render).expect("the driver answers");
        assert_eq!((device.device_id, device.ids_flags), (0x740f, 0));
        assert!(device.gpu_counter_freq > 0);
        let mut again = InfoDevice::default();
        engine.drm_info(128, query::DEV_INFO, [0; 4], again.as_mut_bytes()).expect("the same answer");
        assert_eq!(again.as_bytes(), device.as_bytes());
        assert_eq!(engine.drm_info(129, query::DEV_INFO, [0; 4], &mut []), Err(Errno::ENOENT));
        let kfd = engine.channel.kfd_file();
        assert!(super::device(&engine.channel, kfd).is_err(), "/dev/kfd is no render node");
    }
}
