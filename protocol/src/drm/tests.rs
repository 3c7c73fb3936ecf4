//! Numbers against `include/uapi/drm/{drm,amdgpu_drm}.h` of Linux 6.12.

use core::mem::offset_of;

use super::args::AmdgpuInfo;
use super::info::{InfoDevice, MemoryInfo};
use super::{DrmIoctl, Known};
use crate::Errno;
use crate::kfd::{request_nr, request_size};

#[test]
fn calls_have_the_numbers_and_sizes_of_the_uapi_requests() {
    // The requests as a C compiler computes them from the headers.
    let requests = [
        (DrmIoctl::Version, 0xc040_6400_u32),
        (DrmIoctl::GetClient, 0xc028_6405),
        (DrmIoctl::GemClose, 0x4008_6409),
        (DrmIoctl::GetCap, 0xc010_640c),
        (DrmIoctl::PrimeHandleToFd, 0xc00c_642d),
        (DrmIoctl::PrimeFdToHandle, 0xc00c_642e),
        (DrmIoctl::AmdgpuGemCreate, 0xc020_6440),
        (DrmIoctl::AmdgpuGemMmap, 0xc008_6441),
        (DrmIoctl::AmdgpuInfo, 0x4020_6445),
        (DrmIoctl::AmdgpuGemMetadata, 0xc120_6446),
        (DrmIoctl::AmdgpuGemWaitIdle, 0xc010_6447),
        (DrmIoctl::AmdgpuGemVa, 0x4028_6448),
        (DrmIoctl::AmdgpuGemOp, 0xc010_6450),
    ];
    assert_eq!(requests.len(), DrmIoctl::ALL.len());
    for (ioctl, request) in requests {
        let decl = ioctl.decl();
        assert_eq!(DrmIoctl::select(request), Ok(Known::Declared(ioctl)), "{}", decl.name);
        assert_eq!(ioctl.request(), request, "{}", decl.name);
        assert_eq!(decl.nr, request_nr(request), "{}", decl.name);
        assert_eq!(decl.args.size, request_size(request), "{}", decl.name);
        assert_eq!(decl.direction.copies_in(), request & (1 << 30) != 0, "{}", decl.name);
        assert_eq!(decl.direction.copies_out(), request & (1 << 31) != 0, "{}", decl.name);
    }
}

#[test]
fn numbers_are_refused_as_drm_ioctl_does() {
    assert_eq!(DrmIoctl::select(0xc040_4b00), Err(Errno::ENOTTY), "type K");
    assert_eq!(DrmIoctl::select(0xc000_6403), Err(Errno::EINVAL), "a hole in drm_ioctls");
    assert_eq!(DrmIoctl::select(0xc000_6456), Err(Errno::EINVAL), "past amdgpu_ioctls_kms");
    assert_eq!(DrmIoctl::select(0xc000_64ff), Err(Errno::EINVAL), "past drm_ioctls");
    assert_eq!(DrmIoctl::select(0xc000_6402), Err(Errno::EACCES), "GET_MAGIC: not for render nodes");
    assert_eq!(DrmIoctl::select(0xc000_64a2), Err(Errno::EACCES), "MODE_SETCRTC: for the master");
    assert_eq!(DrmIoctl::select(0xc000_6444), Ok(Known::Other), "AMDGPU_CS exists");
}

#[test]
fn info_structs_have_the_layout_of_the_uapi() {
    // offsetof() of the C structs. libdrm 2.4.114 knows the first 368 bytes of the device struct.
    assert_eq!(offset_of!(AmdgpuInfo, params), 16);
    assert_eq!(offset_of!(InfoDevice, cu_bitmap), 56);
    assert_eq!(offset_of!(InfoDevice, ids_flags), 136);
    assert_eq!(offset_of!(InfoDevice, vram_type), 176);
    assert_eq!(offset_of!(InfoDevice, high_va_offset), 336);
    assert_eq!(offset_of!(InfoDevice, tcc_disabled_mask), 360);
    assert_eq!(offset_of!(InfoDevice, min_engine_clock), 368);
    assert_eq!(offset_of!(InfoDevice, mall_size), 408);
    assert_eq!(size_of::<InfoDevice>(), 440);
    assert_eq!(offset_of!(MemoryInfo, gtt), 64);
}
