//! Structs that the argument structs embed or point to.

use super::structs::uapi_structs;

uapi_structs! {
    /// `struct kfd_process_device_apertures`.
    pub struct ProcessDeviceApertures: "kfd_process_device_apertures", 56 {
        /// First address of the LDS aperture.
        pub lds_base: u64,
        /// Last address of the LDS aperture.
        pub lds_limit: u64,
        /// First address of the scratch aperture.
        pub scratch_base: u64,
        /// Last address of the scratch aperture.
        pub scratch_limit: u64,
        /// First GPU virtual address.
        pub gpuvm_base: u64,
        /// Last GPU virtual address.
        pub gpuvm_limit: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_memory_exception_failure`.
    pub struct MemoryExceptionFailure: "kfd_memory_exception_failure", 16 {
        /// 1: no page is mapped.
        pub not_present: u32,
        /// 1: a write to a read-only page.
        pub read_only: u32,
        /// 1: execution of a page that is not executable.
        pub no_execute: u32,
        /// 1: the address is not exact.
        pub imprecise: u32,
    }

    /// `struct kfd_hsa_memory_exception_data`.
    pub struct HsaMemoryExceptionData: "kfd_hsa_memory_exception_data", 32 {
        /// What was wrong with the access.
        pub failure: MemoryExceptionFailure,
        /// GPU virtual address of the access, at page granularity.
        pub va: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// [`MemoryError`](super::constants::MemoryError).
        pub error_type: u32,
    }

    /// `struct kfd_hsa_hw_exception_data`.
    pub struct HsaHwExceptionData: "kfd_hsa_hw_exception_data", 16 {
        /// [`HwExceptionReset`](super::constants::HwExceptionReset).
        pub reset_type: u32,
        /// [`HwExceptionCause`](super::constants::HwExceptionCause).
        pub reset_cause: u32,
        /// 1: the contents of VRAM are lost.
        pub memory_lost: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
    }

    /// `struct kfd_hsa_signal_event_data`.
    pub struct HsaSignalEventData: "kfd_hsa_signal_event_data", 8 {
        /// In: age that the caller has seen, 0 for "do not compare"; out: current age. (inout, interface 1.14)
        pub last_event_age: u64,
    }

    /// `struct kfd_criu_device_bucket`.
    pub struct CriuDeviceBucket: "kfd_criu_device_bucket", 16 {
        /// Id of the GPU that the program knows.
        pub user_gpu_id: u32,
        /// Id of the GPU on this machine.
        pub actual_gpu_id: u32,
        /// Descriptor of its render node. (in, RESTORE)
        pub drm_fd: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_criu_bo_bucket`.
    pub struct CriuBoBucket: "kfd_criu_bo_bucket", 48 {
        /// GPU virtual address.
        pub addr: u64,
        /// Length in bytes.
        pub size: u64,
        /// Offset for `mmap` before.
        pub offset: u64,
        /// Offset for `mmap` now. (out, RESTORE)
        pub restored_offset: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// [`AllocFlags`](super::constants::AllocFlags).
        pub alloc_flags: u32,
        /// dma-buf descriptor, for the contents. (out)
        pub dmabuf_fd: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_svm_attribute`.
    pub struct SvmAttribute: "kfd_ioctl_svm_attribute", 8 {
        /// [`SvmAttr`](super::constants::SvmAttr).
        pub type_: u32,
        /// GPU id, location, flags or granularity, by type.
        pub value: u32,
    }

    /// `struct kfd_runtime_info`.
    pub struct RuntimeInfo: "kfd_runtime_info", 16 {
        /// Address of the runtime's `struct r_debug`.
        pub r_debug: u64,
        /// [`RuntimeState`](super::constants::RuntimeState).
        pub runtime_state: u32,
        /// 1: waves get their trap temporaries filled in.
        pub ttmp_setup: u32,
    }

    /// `struct kfd_queue_snapshot_entry`.
    pub struct QueueSnapshotEntry: "kfd_queue_snapshot_entry", 64 {
        /// Mask of the pending exceptions.
        pub exception_status: u64,
        /// GPU virtual address of the ring.
        pub ring_base_address: u64,
        /// GPU virtual address of the write pointer.
        pub write_pointer_address: u64,
        /// GPU virtual address of the read pointer.
        pub read_pointer_address: u64,
        /// GPU virtual address of the context save area.
        pub ctx_save_restore_address: u64,
        /// Id of the queue within the process.
        pub queue_id: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Size of the ring in bytes.
        pub ring_size: u32,
        /// [`QueueType`](super::constants::QueueType).
        pub queue_type: u32,
        /// Size of the save area in bytes.
        pub ctx_save_restore_area_size: u32,
        /// Zero.
        pub reserved: u32,
    }

    /// `struct kfd_dbg_device_info_entry`.
    pub struct DbgDeviceInfoEntry: "kfd_dbg_device_info_entry", 128 {
        /// Mask of the pending exceptions.
        pub exception_status: u64,
        /// First address of the LDS aperture.
        pub lds_base: u64,
        /// Last address of the LDS aperture.
        pub lds_limit: u64,
        /// First address of the scratch aperture.
        pub scratch_base: u64,
        /// Last address of the scratch aperture.
        pub scratch_limit: u64,
        /// First GPU virtual address.
        pub gpuvm_base: u64,
        /// Last GPU virtual address.
        pub gpuvm_limit: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// PCI bus, device and function.
        pub location_id: u32,
        /// PCI vendor.
        pub vendor_id: u32,
        /// PCI device.
        pub device_id: u32,
        /// PCI revision.
        pub revision_id: u32,
        /// PCI subsystem vendor.
        pub subsystem_vendor_id: u32,
        /// PCI subsystem device.
        pub subsystem_device_id: u32,
        /// Firmware version of the compute micro engine.
        pub fw_version: u32,
        /// As in the topology: major * 10000 + minor * 100 + stepping.
        pub gfx_target_version: u32,
        /// As in the topology.
        pub simd_count: u32,
        /// As in the topology.
        pub max_waves_per_simd: u32,
        /// As in the topology.
        pub array_count: u32,
        /// As in the topology.
        pub simd_arrays_per_engine: u32,
        /// Dies.
        pub num_xcc: u32,
        /// As in the topology.
        pub capability: u32,
        /// As in the topology.
        pub debug_prop: u32,
        /// As in the topology. ROCm's struct ends before it, at 120 bytes.
        pub capability2: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_enable_args`.
    pub struct DbgTrapEnableArgs: "kfd_ioctl_dbg_trap_enable_args", 24 {
        /// Exceptions to report. (in)
        pub exception_mask: u64,
        /// Address of a [`RuntimeInfo`] that is filled in.
        pub rinfo_ptr: u64,
        /// In: its size as the caller knows it; out: as the kernel does. (inout)
        pub rinfo_size: u32,
        /// Descriptor into which the kernel writes a byte when an exception is pending. (in)
        pub dbg_fd: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_send_runtime_event_args`.
    pub struct DbgTrapSendRuntimeEventArgs: "kfd_ioctl_dbg_trap_send_runtime_event_args", 16 {
        /// Exceptions to pass on. (in)
        pub exception_mask: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Id of the queue within the process.
        pub queue_id: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_set_exceptions_enabled_args`.
    pub struct DbgTrapSetExceptionsEnabledArgs: "kfd_ioctl_dbg_trap_set_exceptions_enabled_args", 8 {
        /// Exceptions to report. (in)
        pub exception_mask: u64,
    }

    /// `struct kfd_ioctl_dbg_trap_set_wave_launch_override_args`.
    pub struct DbgTrapSetWaveLaunchOverrideArgs: "kfd_ioctl_dbg_trap_set_wave_launch_override_args", 16 {
        /// [`DbgTrapOverride`](super::constants::DbgTrapOverride). (in)
        pub override_mode: u32,
        /// [`DbgTrapMask`](super::constants::DbgTrapMask) to set; out: what was set before. (inout)
        pub enable_mask: u32,
        /// [`DbgTrapMask`](super::constants::DbgTrapMask) that is meant; out: what the GPUs support. (inout)
        pub support_request_mask: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_set_wave_launch_mode_args`.
    pub struct DbgTrapSetWaveLaunchModeArgs: "kfd_ioctl_dbg_trap_set_wave_launch_mode_args", 8 {
        /// [`WaveLaunchMode`](super::constants::WaveLaunchMode). (in)
        pub launch_mode: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_suspend_queues_args`.
    pub struct DbgTrapSuspendQueuesArgs: "kfd_ioctl_dbg_trap_suspend_queues_args", 24 {
        /// Exceptions to clear on the queues. (in)
        pub exception_mask: u64,
        /// Address of an array of queue ids, which come back with error bits.
        pub queue_array_ptr: u64,
        /// Its elements, 1024 at most. (in)
        pub num_queues: u32,
        /// How long waves may go on, in units of 1000 GPU clocks. (in)
        pub grace_period: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_resume_queues_args`.
    pub struct DbgTrapResumeQueuesArgs: "kfd_ioctl_dbg_trap_resume_queues_args", 16 {
        /// Address of an array of queue ids, which come back with error bits; 0 for all queues.
        pub queue_array_ptr: u64,
        /// Its elements, 1024 at most. (in)
        pub num_queues: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_set_node_address_watch_args`.
    pub struct DbgTrapSetNodeAddressWatchArgs: "kfd_ioctl_dbg_trap_set_node_address_watch_args", 24 {
        /// GPU virtual address. (in)
        pub address: u64,
        /// [`AddressWatchMode`](super::constants::AddressWatchMode). (in)
        pub mode: u32,
        /// Address bits that count. (in)
        pub mask: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Id of the watch point. (out)
        pub id: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_clear_node_address_watch_args`.
    pub struct DbgTrapClearNodeAddressWatchArgs: "kfd_ioctl_dbg_trap_clear_node_address_watch_args", 8 {
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Id of the watch point. (in)
        pub id: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_set_flags_args`.
    pub struct DbgTrapSetFlagsArgs: "kfd_ioctl_dbg_trap_set_flags_args", 8 {
        /// [`DbgTrapFlags`](super::constants::DbgTrapFlags); out: what was set before. (inout)
        pub flags: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_query_debug_event_args`.
    pub struct DbgTrapQueryDebugEventArgs: "kfd_ioctl_dbg_trap_query_debug_event_args", 16 {
        /// In: exceptions to clear; out: what is pending. (inout)
        pub exception_mask: u64,
        /// GPU of the exception, 0 for one of the process. (out)
        pub gpu_id: u32,
        /// Queue of the exception. (out)
        pub queue_id: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_query_exception_info_args`.
    pub struct DbgTrapQueryExceptionInfoArgs: "kfd_ioctl_dbg_trap_query_exception_info_args", 24 {
        /// Address of room for what the exception left: [`HsaMemoryExceptionData`] or [`RuntimeInfo`].
        pub info_ptr: u64,
        /// In: room in bytes; out: size of what there is. (inout)
        pub info_size: u32,
        /// Queue or GPU, by the code. (in)
        pub source_id: u32,
        /// [`ExceptionCode`](super::constants::ExceptionCode). (in)
        pub exception_code: u32,
        /// Not 0: clear it. (in)
        pub clear_exception: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_queue_snapshot_args`.
    pub struct DbgTrapQueueSnapshotArgs: "kfd_ioctl_dbg_trap_queue_snapshot_args", 24 {
        /// Exceptions to clear. (in)
        pub exception_mask: u64,
        /// Address of an array of [`QueueSnapshotEntry`] that is filled in.
        pub snapshot_buf_ptr: u64,
        /// In: room in elements; out: queues that there are. (inout)
        pub num_queues: u32,
        /// In: distance of the elements in bytes; out: bytes filled in of each. (inout)
        pub entry_size: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_device_snapshot_args`.
    pub struct DbgTrapDeviceSnapshotArgs: "kfd_ioctl_dbg_trap_device_snapshot_args", 24 {
        /// Exceptions to clear. (in)
        pub exception_mask: u64,
        /// Address of an array of [`DbgDeviceInfoEntry`] that is filled in.
        pub snapshot_buf_ptr: u64,
        /// In: room in elements; out: GPUs that there are. (inout)
        pub num_devices: u32,
        /// In: distance of the elements in bytes; out: bytes filled in of each. (inout)
        pub entry_size: u32,
    }

    /// `struct kfd_ioctl_pmc_settings`.
    pub struct PmcSettings: "kfd_ioctl_pmc_settings", 12 {
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// 1: keep other processes away from the counters; 0: let them. (in)
        pub lock: u32,
        /// 1: count on all queues. (in)
        pub perfcount_enable: u32,
    }

    /// `struct kfd_ioctl_ptl_control`.
    pub struct PtlControl: "kfd_ioctl_ptl_control", 8 {
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// 1: on. (in)
        pub enable: u32,
    }

    /// `struct kfd_ioctl_spm_buffer_header`.
    pub struct SpmBufferHeader: "kfd_ioctl_spm_buffer_header", 32 {
        /// Version of this header.
        pub version: u32,
        /// Bytes of samples behind the header.
        pub bytes_copied: u32,
        /// Not 0: samples were lost.
        pub has_data_loss: u32,
        /// Zero.
        pub reserved: [u32; 5],
    }

    /// `struct kfd_memory_range`.
    pub struct MemoryRange: "kfd_memory_range", 16 {
        /// GPU virtual address.
        pub va_addr: u64,
        /// Length in bytes.
        pub size: u64,
    }

    /// `struct kfd_pc_sample_info`.
    pub struct PcSampleInfo: "kfd_pc_sample_info", 40 {
        /// Sampling interval, in units of `type_`.
        pub interval: u64,
        /// Shortest interval.
        pub interval_min: u64,
        /// Longest interval.
        pub interval_max: u64,
        /// [`PcSampleFlags`](super::constants::PcSampleFlags).
        pub flags: u64,
        /// [`PcSampleMethod`](super::constants::PcSampleMethod).
        pub method: u32,
        /// [`PcSampleType`](super::constants::PcSampleType).
        pub type_: u32,
    }

    /// `struct kfd_ais_in_args`.
    pub struct AisInArgs: "kfd_ais_in_args", 40 {
        /// Buffer handle: GPU in the upper half, index in the lower.
        pub handle: u64,
        /// First byte in the buffer.
        pub handle_offset: u64,
        /// First byte in the file.
        pub file_offset: i64,
        /// Length in bytes.
        pub size: u64,
        /// [`AisOp`](super::constants::AisOp).
        pub op: u32,
        /// Descriptor of the file.
        pub fd: i32,
    }

    /// `struct kfd_ais_out_args`.
    pub struct AisOutArgs: "kfd_ais_out_args", 16 {
        /// Bytes copied.
        pub size_copied: u64,
        /// 0 or a negative errno.
        pub status: i32,
        /// Explicit padding.
        pub pad: i32,
    }

    /// `struct kfd_event_data`: one element of the array that WAIT_EVENTS points to.
    pub struct EventData: "kfd_event_data", 48 {
        /// [`HsaMemoryExceptionData`], [`HsaHwExceptionData`] or [`HsaSignalEventData`], by event type.
        pub body: [u8; 32],
        /// Reserved for the runtime.
        pub kfd_event_data_ext: u64,
        /// Id of the event. (in)
        pub event_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_context_save_area_header`: first bytes of a queue's context save area.
    pub struct ContextSaveAreaHeader: "kfd_context_save_area_header", 40 {
        /// Offset of the control stack.
        pub control_stack_offset: u32,
        /// Bytes of control stack.
        pub control_stack_size: u32,
        /// Offset of the wave state.
        pub wave_state_offset: u32,
        /// Bytes of wave state.
        pub wave_state_size: u32,
        /// Offset of the debugger's memory.
        pub debug_offset: u32,
        /// Bytes of debugger memory.
        pub debug_size: u32,
        /// Address of a qword into which KFD ORs exception bits.
        pub err_payload_addr: u64,
        /// Event that KFD sets when it wrote `err_payload_addr`.
        pub err_event_id: u32,
        /// Reserved.
        pub reserved1: u32,
    }
}
