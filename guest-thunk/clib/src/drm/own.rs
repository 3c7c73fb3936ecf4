//! Handles of GPUs of which libdrm knows nothing: those of a virtual machine's host.
//!
//! ROCr makes no agent of a GPU without a handle, and asks `amdgpu_query_gpu_info` for the rate of its clock. That is answered
//! here, by the host's driver. Buffers it has no way to: ROCr wants those for memory that it imports from dma-bufs, which a
//! guest does not have.

use std::sync::{Mutex, PoisonError};

use protocol::Errno;
use protocol::drm::info::InfoDevice;
use protocol::drm::query;
use zerocopy::IntoBytes;

use super::DeviceHandle;
use crate::library;

/// Bytes behind a handle. A library that takes it for its own finds no descriptor (-1) and no address there.
const BYTES: usize = 4096;

/// The handles made so far, by minor of the render node. They are never given back, as the GPUs.
static HANDLES: Mutex<Vec<(u32, DeviceHandle)>> = Mutex::new(Vec::new());

/// The handle of the GPU with the render node of this minor.
pub fn handle(minor: u32) -> DeviceHandle {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, handle)) = handles.iter().find(|(other, _)| *other == minor) {
        return *handle;
    }
    let block: &'static [u64; BYTES / 8] = Box::leak(Box::new([u64::MAX; BYTES / 8]));
    let handle = block.as_ptr().expose_provenance();
    handles.push((minor, handle));
    handle
}

/// The render node's minor, if a handle is one of these.
pub fn minor_of(handle: DeviceHandle) -> Option<u32> {
    let handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    handles.iter().find(|(_, other)| *other == handle).map(|(minor, _)| *minor)
}

/// `struct amdgpu_gpu_info` of `<amdgpu.h>`.
#[repr(C)]
#[derive(Clone, Copy, Default, IntoBytes, zerocopy::Immutable)]
pub struct GpuInfo {
    asic_id: u32,
    chip_rev: u32,
    chip_external_rev: u32,
    family_id: u32,
    ids_flags: u64,
    max_engine_clk: u64,
    max_memory_clk: u64,
    num_shader_engines: u32,
    num_shader_arrays_per_engine: u32,
    avail_quad_shader_pipes: u32,
    max_quad_shader_pipes: u32,
    cache_entries_per_quad_pipe: u32,
    num_hw_gfx_contexts: u32,
    rb_pipes: u32,
    enabled_rb_pipes_mask: u32,
    gpu_counter_freq: u32,
    backend_disable: [u32; 4],
    mc_arb_ramcfg: u32,
    gb_addr_cfg: u32,
    gb_tile_mode: [u32; 32],
    gb_macro_tile_mode: [u32; 16],
    pa_sc_raster_cfg: [u32; 4],
    pa_sc_raster_cfg1: [u32; 4],
    cu_active_number: u32,
    cu_ao_mask: u32,
    cu_bitmap: [[u32; 4]; 4],
    vram_type: u32,
    vram_bit_width: u32,
    ce_ram_size: u32,
    vce_harvest_config: u32,
    pci_rev_id: u32,
}

const _: () = assert!(size_of::<GpuInfo>() == 416);

/// `amdgpu_query_gpu_info`. What only graphics drivers of GPUs before gfx9 look at stays 0.
///
/// # Errors
/// Those of the host's driver; `ENODEV` where the library is not open.
pub fn query_gpu_info(minor: u32) -> Result<GpuInfo, Errno> {
    let engine = library::engine().map_err(|_| Errno::ENODEV)?;
    let mut device = InfoDevice::default();
    engine.drm_info(minor, query::DEV_INFO, [0; 4], device.as_mut_bytes())?;
    let mut config = 0_u32;
    let asked = engine.drm_info(minor, query::READ_MMR_REG, GB_ADDR_CONFIG, config.as_mut_bytes());
    if let Err(errno) = asked {
        log::debug!("the driver does not tell GB_ADDR_CONFIG: {errno}");
    }
    Ok(info(&device, config))
}

/// Register, how many, all shader engines, flags.
const GB_ADDR_CONFIG: [u32; 4] = [0x263e, 1, u32::MAX, 0];

fn info(device: &InfoDevice, gb_addr_cfg: u32) -> GpuInfo {
    GpuInfo {
        asic_id: device.device_id,
        chip_rev: device.chip_rev,
        chip_external_rev: device.external_rev,
        family_id: device.family,
        ids_flags: device.ids_flags,
        max_engine_clk: device.max_engine_clock,
        max_memory_clk: device.max_memory_clock,
        num_shader_engines: device.num_shader_engines,
        num_shader_arrays_per_engine: device.num_shader_arrays_per_engine,
        num_hw_gfx_contexts: device.num_hw_gfx_contexts,
        rb_pipes: device.num_rb_pipes,
        enabled_rb_pipes_mask: device.enabled_rb_pipes_mask,
        gpu_counter_freq: device.gpu_counter_freq,
        gb_addr_cfg,
        cu_active_number: device.cu_active_number,
        cu_ao_mask: device.cu_ao_mask,
        cu_bitmap: device.cu_bitmap,
        vram_type: device.vram_type,
        vram_bit_width: device.vram_bit_width,
        ce_ram_size: device.ce_ram_size,
        vce_harvest_config: device.vce_harvest_config,
        pci_rev_id: device.pci_rev,
        ..GpuInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_told_from_others() {
        let (one, other) = (handle(1128), handle(1129));
        assert_eq!((handle(1128), minor_of(one), minor_of(other)), (one, Some(1128), Some(1129)));
        assert_ne!(one, other);
        assert_eq!((minor_of(0), minor_of(one + 8)), (None, None));
    }

    // Offsets of the fields of `struct amdgpu_gpu_info` (<amdgpu.h> of libdrm 2.4.134, by the C compiler).
    #[test]
    fn fields_are_where_the_header_has_them() {
        let device = InfoDevice {
            device_id: 1,
            family: 2,
            ids_flags: 3,
            gpu_counter_freq: 4,
            cu_active_number: 5,
            pci_rev: 6,
            ..InfoDevice::default()
        };
        let info = info(&device, 7);
        let bytes = info.as_bytes();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        for (at, value) in [(0, 1), (12, 2), (16, 3), (72, 4), (96, 7), (324, 5), (412, 6)] {
            assert_eq!(word(at), value, "{at}");
        }
        assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 7);
    }
}
