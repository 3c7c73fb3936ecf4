//! The argument structs of the KFD ioctls.

use super::structs::kfd_structs;
use super::types::ProcessDeviceApertures;

kfd_structs! {
    /// No argument (`_IO`).
    pub struct NoArgs: "(none)", 0 {}

    /// `struct kfd_ioctl_get_version_args`.
    pub struct GetVersionArgs: "kfd_ioctl_get_version_args", 8 {
        /// Major version. (out)
        pub major_version: u32,
        /// Minor version. (out)
        pub minor_version: u32,
    }

    /// `struct kfd_ioctl_create_queue_args`.
    pub struct CreateQueueArgs: "kfd_ioctl_create_queue_args", 96 {
        /// GPU virtual address of the ring. (in)
        pub ring_base_address: u64,
        /// Write pointer address. (in)
        pub write_pointer_address: u64,
        /// Read pointer address. (in)
        pub read_pointer_address: u64,
        /// Doorbell offset. (out)
        pub doorbell_offset: u64,
        /// Size of the ring in bytes. (in)
        pub ring_size: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Queue type. (in)
        pub queue_type: u32,
        /// Share of the queue, 0 to 100. (in)
        pub queue_percentage: u32,
        /// Priority, 0 to 15. (in)
        pub queue_priority: u32,
        /// Id of the queue within the process. (out)
        pub queue_id: u32,
        /// Eop buffer address. (in)
        pub eop_buffer_address: u64,
        /// Eop buffer size. (in)
        pub eop_buffer_size: u64,
        /// Ctx save restore address. (in)
        pub ctx_save_restore_address: u64,
        /// Ctx save restore size. (in)
        pub ctx_save_restore_size: u32,
        /// Ctl stack size. (in)
        pub ctl_stack_size: u32,
        /// Sdma engine id. (in)
        pub sdma_engine_id: u32,
        /// Metadata ring size. (in)
        pub metadata_ring_size: u32,
    }

    /// `struct kfd_ioctl_destroy_queue_args`.
    pub struct DestroyQueueArgs: "kfd_ioctl_destroy_queue_args", 8 {
        /// Id of the queue within the process. (in)
        pub queue_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_set_memory_policy_args`.
    pub struct SetMemoryPolicyArgs: "kfd_ioctl_set_memory_policy_args", 32 {
        /// Alternate aperture base. (in)
        pub alternate_aperture_base: u64,
        /// Alternate aperture size. (in)
        pub alternate_aperture_size: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Default policy. (in)
        pub default_policy: u32,
        /// Alternate policy. (in)
        pub alternate_policy: u32,
        /// Misc process flag. (in)
        pub misc_process_flag: u32,
    }

    /// `struct kfd_ioctl_get_clock_counters_args`.
    pub struct GetClockCountersArgs: "kfd_ioctl_get_clock_counters_args", 40 {
        /// Gpu clock counter. (out)
        pub gpu_clock_counter: u64,
        /// Cpu clock counter. (out)
        pub cpu_clock_counter: u64,
        /// System clock counter. (out)
        pub system_clock_counter: u64,
        /// System clock freq. (out)
        pub system_clock_freq: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_get_process_apertures_args`.
    pub struct GetProcessAperturesArgs: "kfd_ioctl_get_process_apertures_args", 400 {
        /// Process apertures.
        pub process_apertures: [ProcessDeviceApertures; 7],
        /// Num of nodes. (out)
        pub num_of_nodes: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_update_queue_args`.
    pub struct UpdateQueueArgs: "kfd_ioctl_update_queue_args", 24 {
        /// GPU virtual address of the ring. (in)
        pub ring_base_address: u64,
        /// Id of the queue within the process. (in)
        pub queue_id: u32,
        /// Size of the ring in bytes. (in)
        pub ring_size: u32,
        /// Share of the queue, 0 to 100. (in)
        pub queue_percentage: u32,
        /// Priority, 0 to 15. (in)
        pub queue_priority: u32,
    }

    /// `struct kfd_ioctl_create_event_args`.
    pub struct CreateEventArgs: "kfd_ioctl_create_event_args", 32 {
        /// Event page offset. (out)
        pub event_page_offset: u64,
        /// Event trigger data. (out)
        pub event_trigger_data: u32,
        /// Event type. (in)
        pub event_type: u32,
        /// Auto reset. (in)
        pub auto_reset: u32,
        /// Node id. (in)
        pub node_id: u32,
        /// Id of the event. (out)
        pub event_id: u32,
        /// Event slot index. (out)
        pub event_slot_index: u32,
    }

    /// `struct kfd_ioctl_destroy_event_args`.
    pub struct DestroyEventArgs: "kfd_ioctl_destroy_event_args", 8 {
        /// Id of the event. (in)
        pub event_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_set_event_args`.
    pub struct SetEventArgs: "kfd_ioctl_set_event_args", 8 {
        /// Id of the event. (in)
        pub event_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_reset_event_args`.
    pub struct ResetEventArgs: "kfd_ioctl_reset_event_args", 8 {
        /// Id of the event. (in)
        pub event_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_wait_events_args`.
    pub struct WaitEventsArgs: "kfd_ioctl_wait_events_args", 24 {
        /// Events ptr.
        pub events_ptr: u64,
        /// Num events. (in)
        pub num_events: u32,
        /// Wait for all. (in)
        pub wait_for_all: u32,
        /// Time-out in milliseconds. (in)
        pub timeout: u32,
        /// Wait result. (out)
        pub wait_result: u32,
    }

    /// `struct kfd_ioctl_dbg_register_args`.
    pub struct DbgRegisterArgs: "kfd_ioctl_dbg_register_args", 8 {
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_unregister_args`.
    pub struct DbgUnregisterArgs: "kfd_ioctl_dbg_unregister_args", 8 {
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_address_watch_args`.
    pub struct DbgAddressWatchArgs: "kfd_ioctl_dbg_address_watch_args", 16 {
        /// Content ptr.
        pub content_ptr: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Buf size in bytes.
        pub buf_size_in_bytes: u32,
    }

    /// `struct kfd_ioctl_dbg_wave_control_args`.
    pub struct DbgWaveControlArgs: "kfd_ioctl_dbg_wave_control_args", 16 {
        /// Content ptr.
        pub content_ptr: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Buf size in bytes.
        pub buf_size_in_bytes: u32,
    }

    /// `struct kfd_ioctl_set_scratch_backing_va_args`.
    pub struct SetScratchBackingVaArgs: "kfd_ioctl_set_scratch_backing_va_args", 16 {
        /// GPU virtual address. (in)
        pub va_addr: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_get_tile_config_args`.
    pub struct GetTileConfigArgs: "kfd_ioctl_get_tile_config_args", 40 {
        /// Tile config ptr. (in)
        pub tile_config_ptr: u64,
        /// Macro tile config ptr. (in)
        pub macro_tile_config_ptr: u64,
        /// Num tile configs. (inout)
        pub num_tile_configs: u32,
        /// Num macro tile configs. (inout)
        pub num_macro_tile_configs: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Gb addr config. (out)
        pub gb_addr_config: u32,
        /// Num banks. (out)
        pub num_banks: u32,
        /// Num ranks. (out)
        pub num_ranks: u32,
    }

    /// `struct kfd_ioctl_set_trap_handler_args`.
    pub struct SetTrapHandlerArgs: "kfd_ioctl_set_trap_handler_args", 24 {
        /// Tba addr. (in)
        pub tba_addr: u64,
        /// Tma addr. (in)
        pub tma_addr: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_get_process_apertures_new_args`.
    pub struct GetProcessAperturesNewArgs: "kfd_ioctl_get_process_apertures_new_args", 16 {
        /// Kfd process device apertures ptr.
        pub kfd_process_device_apertures_ptr: u64,
        /// Num of nodes. (inout)
        pub num_of_nodes: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_acquire_vm_args`.
    pub struct AcquireVmArgs: "kfd_ioctl_acquire_vm_args", 8 {
        /// Drm fd. (in)
        pub drm_fd: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
    }

    /// `struct kfd_ioctl_alloc_memory_of_gpu_args`.
    pub struct AllocMemoryOfGpuArgs: "kfd_ioctl_alloc_memory_of_gpu_args", 40 {
        /// GPU virtual address. (in)
        pub va_addr: u64,
        /// Length in bytes. (in)
        pub size: u64,
        /// Buffer handle: GPU in the upper half, index in the lower. (out)
        pub handle: u64,
        /// Offset for `mmap`; for userptr memory the CPU address (in). (inout)
        pub mmap_offset: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Flag bits. (in)
        pub flags: u32,
    }

    /// `struct kfd_ioctl_free_memory_of_gpu_args`.
    pub struct FreeMemoryOfGpuArgs: "kfd_ioctl_free_memory_of_gpu_args", 8 {
        /// Buffer handle: GPU in the upper half, index in the lower. (in)
        pub handle: u64,
    }

    /// `struct kfd_ioctl_map_memory_to_gpu_args`.
    pub struct MapMemoryToGpuArgs: "kfd_ioctl_map_memory_to_gpu_args", 24 {
        /// Buffer handle: GPU in the upper half, index in the lower. (in)
        pub handle: u64,
        /// Address of an array of `u32` GPU ids. (in)
        pub device_ids_array_ptr: u64,
        /// Number of entries in the array. (in)
        pub n_devices: u32,
        /// How many entries are done; the call goes on behind them. (inout)
        pub n_success: u32,
    }

    /// `struct kfd_ioctl_unmap_memory_from_gpu_args`.
    pub struct UnmapMemoryFromGpuArgs: "kfd_ioctl_unmap_memory_from_gpu_args", 24 {
        /// Buffer handle: GPU in the upper half, index in the lower. (in)
        pub handle: u64,
        /// Address of an array of `u32` GPU ids. (in)
        pub device_ids_array_ptr: u64,
        /// Number of entries in the array. (in)
        pub n_devices: u32,
        /// How many entries are done; the call goes on behind them. (inout)
        pub n_success: u32,
    }

    /// `struct kfd_ioctl_set_cu_mask_args`.
    pub struct SetCuMaskArgs: "kfd_ioctl_set_cu_mask_args", 16 {
        /// Id of the queue within the process. (in)
        pub queue_id: u32,
        /// Num cu mask. (in)
        pub num_cu_mask: u32,
        /// Cu mask ptr. (in)
        pub cu_mask_ptr: u64,
    }

    /// `struct kfd_ioctl_get_queue_wave_state_args`.
    pub struct GetQueueWaveStateArgs: "kfd_ioctl_get_queue_wave_state_args", 24 {
        /// Ctl stack address. (in)
        pub ctl_stack_address: u64,
        /// Ctl stack used size. (out)
        pub ctl_stack_used_size: u32,
        /// Save area used size. (out)
        pub save_area_used_size: u32,
        /// Id of the queue within the process. (in)
        pub queue_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_get_dmabuf_info_args`.
    pub struct GetDmabufInfoArgs: "kfd_ioctl_get_dmabuf_info_args", 32 {
        /// Length in bytes. (out)
        pub size: u64,
        /// Metadata ptr. (in)
        pub metadata_ptr: u64,
        /// Metadata size. (in)
        pub metadata_size: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (out)
        pub gpu_id: u32,
        /// Flag bits. (out)
        pub flags: u32,
        /// dma-buf descriptor. (in)
        pub dmabuf_fd: u32,
    }

    /// `struct kfd_ioctl_import_dmabuf_args`.
    pub struct ImportDmabufArgs: "kfd_ioctl_import_dmabuf_args", 24 {
        /// GPU virtual address. (in)
        pub va_addr: u64,
        /// Buffer handle: GPU in the upper half, index in the lower. (out)
        pub handle: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// dma-buf descriptor. (in)
        pub dmabuf_fd: u32,
    }

    /// `struct kfd_ioctl_alloc_queue_gws_args`.
    pub struct AllocQueueGwsArgs: "kfd_ioctl_alloc_queue_gws_args", 16 {
        /// Id of the queue within the process. (in)
        pub queue_id: u32,
        /// Num gws. (in)
        pub num_gws: u32,
        /// First gws. (out)
        pub first_gws: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_smi_events_args`.
    pub struct SmiEventsArgs: "kfd_ioctl_smi_events_args", 8 {
        /// Gpuid. (in)
        pub gpuid: u32,
        /// Anon fd. (out)
        pub anon_fd: u32,
    }

    /// `struct kfd_ioctl_svm_args`.
    pub struct SvmArgs: "kfd_ioctl_svm_args", 24 {
        /// Start addr. (in)
        pub start_addr: u64,
        /// Length in bytes. (in)
        pub size: u64,
        /// Operation. (in)
        pub op: u32,
        /// Nattr. (in)
        pub nattr: u32,
    }

    /// `struct kfd_ioctl_set_xnack_mode_args`.
    pub struct SetXnackModeArgs: "kfd_ioctl_set_xnack_mode_args", 4 {
        /// Xnack enabled. (inout)
        pub xnack_enabled: i32,
    }

    /// `struct kfd_ioctl_criu_args`.
    pub struct CriuArgs: "kfd_ioctl_criu_args", 56 {
        /// Devices.
        pub devices: u64,
        /// Bos.
        pub bos: u64,
        /// Priv data.
        pub priv_data: u64,
        /// Priv data size.
        pub priv_data_size: u64,
        /// Num devices.
        pub num_devices: u32,
        /// Num bos.
        pub num_bos: u32,
        /// Num objects.
        pub num_objects: u32,
        /// Pid.
        pub pid: u32,
        /// Operation.
        pub op: u32,
        /// Explicit padding at the end.
        pub _tail: [u8; 4],
    }

    /// `struct kfd_ioctl_get_available_memory_args`.
    pub struct GetAvailableMemoryArgs: "kfd_ioctl_get_available_memory_args", 16 {
        /// Available. (out)
        pub available: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_export_dmabuf_args`.
    pub struct ExportDmabufArgs: "kfd_ioctl_export_dmabuf_args", 16 {
        /// Buffer handle: GPU in the upper half, index in the lower. (in)
        pub handle: u64,
        /// Flag bits. (in)
        pub flags: u32,
        /// dma-buf descriptor. (out)
        pub dmabuf_fd: u32,
    }

    /// `struct kfd_ioctl_runtime_enable_args`.
    pub struct RuntimeEnableArgs: "kfd_ioctl_runtime_enable_args", 16 {
        /// R debug. (in)
        pub r_debug: u64,
        /// Mode mask. (in)
        pub mode_mask: u32,
        /// Capabilities mask. (out)
        pub capabilities_mask: u32,
    }

    /// `struct kfd_ioctl_create_process_args`.
    pub struct CreateProcessArgs: "kfd_ioctl_create_process_args", 8 {
        /// Flag bits.
        pub flags: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_ipc_import_handle_args`.
    pub struct IpcImportHandleArgs: "kfd_ioctl_ipc_import_handle_args", 48 {
        /// Buffer handle: GPU in the upper half, index in the lower. (out)
        pub handle: u64,
        /// GPU virtual address. (in)
        pub va_addr: u64,
        /// Offset for `mmap`; for userptr memory the CPU address (in). (out)
        pub mmap_offset: u64,
        /// Share handle. (in)
        pub share_handle: [u32; 4],
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Flag bits. (out)
        pub flags: u32,
    }

    /// `struct kfd_ioctl_ipc_export_handle_args`.
    pub struct IpcExportHandleArgs: "kfd_ioctl_ipc_export_handle_args", 32 {
        /// Buffer handle: GPU in the upper half, index in the lower. (in)
        pub handle: u64,
        /// Share handle. (out)
        pub share_handle: [u32; 4],
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Flag bits. (in)
        pub flags: u32,
    }

    /// `struct kfd_ioctl_cross_memory_copy_args`.
    pub struct CrossMemoryCopyArgs: "kfd_ioctl_cross_memory_copy_args", 48 {
        /// Pid. (in)
        pub pid: u32,
        /// Flag bits. (in)
        pub flags: u32,
        /// Src mem range array. (in)
        pub src_mem_range_array: u64,
        /// Src mem array size. (in)
        pub src_mem_array_size: u64,
        /// Dst mem range array. (in)
        pub dst_mem_range_array: u64,
        /// Dst mem array size. (in)
        pub dst_mem_array_size: u64,
        /// Bytes copied. (out)
        pub bytes_copied: u64,
    }

    /// `struct kfd_ioctl_spm_args`.
    pub struct SpmArgs: "kfd_ioctl_spm_args", 32 {
        /// Dest buf. (in)
        pub dest_buf: u64,
        /// Buf size. (in)
        pub buf_size: u32,
        /// Operation. (in)
        pub op: u32,
        /// Time-out in milliseconds. (inout)
        pub timeout: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Bytes copied. (out)
        pub bytes_copied: u32,
        /// Has data loss. (out)
        pub has_data_loss: u32,
    }

    /// `struct kfd_ioctl_pc_sample_args`.
    pub struct PcSampleArgs: "kfd_ioctl_pc_sample_args", 32 {
        /// Sample info ptr.
        pub sample_info_ptr: u64,
        /// Num sample info. (inout)
        pub num_sample_info: u32,
        /// Operation. (in)
        pub op: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Trace id.
        pub trace_id: u32,
        /// Flag bits. (in)
        pub flags: u32,
        /// Reserved.
        pub reserved: u32,
    }


    /// `struct kfd_ioctl_dbg_trap_args`: the operation selects the struct inside `body`.
    pub struct DbgTrapArgs: "kfd_ioctl_dbg_trap_args", 32 {
        /// Process that is debugged, in the caller's PID namespace. (in)
        pub pid: u32,
        /// `enum kfd_dbg_trap_operations`. (in)
        pub op: u32,
        /// One of the `kfd_ioctl_dbg_trap_*_args` structs.
        pub body: [u8; 24],
    }

    /// `struct kfd_ioctl_profiler_args`, mainline layout (number 0x28).
    pub struct ProfilerArgs: "kfd_ioctl_profiler_args", 16 {
        /// `enum kfd_profiler_ops`. (in)
        pub op: u32,
        /// Operation's own struct.
        pub body: [u8; 12],
    }

    /// `struct kfd_ioctl_profiler_args`, ROCm's layout (number 0x86).
    pub struct RocmProfilerArgs: "kfd_ioctl_profiler_args", 40 {
        /// `enum kfd_profiler_ops`. (in)
        pub op: u32,
        /// Explicit padding.
        pub _hole4: [u8; 4],
        /// Operation's own struct.
        pub body: [u8; 32],
    }

    /// `struct kfd_ioctl_ais_args`: [`AisInArgs`](super::types::AisInArgs) on the way in,
    /// [`AisOutArgs`](super::types::AisOutArgs) on the way out.
    pub struct AisArgs: "kfd_ioctl_ais_args", 40 {
        /// The union's bytes.
        pub body: [u8; 40],
    }
}
