//! Structs that the argument structs embed or point to.

use super::structs::kfd_structs;

kfd_structs! {
    /// `struct kfd_process_device_apertures`.
    pub struct ProcessDeviceApertures: "kfd_process_device_apertures", 56 {
        /// Lds base.
        pub lds_base: u64,
        /// Lds limit.
        pub lds_limit: u64,
        /// Scratch base.
        pub scratch_base: u64,
        /// Scratch limit.
        pub scratch_limit: u64,
        /// Gpuvm base.
        pub gpuvm_base: u64,
        /// Gpuvm limit.
        pub gpuvm_limit: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_memory_exception_failure`.
    pub struct MemoryExceptionFailure: "kfd_memory_exception_failure", 16 {
        /// Notpresent.
        pub not_present: u32,
        /// Readonly.
        pub read_only: u32,
        /// Noexecute.
        pub no_execute: u32,
        /// Imprecise.
        pub imprecise: u32,
    }

    /// `struct kfd_hsa_memory_exception_data`.
    pub struct HsaMemoryExceptionData: "kfd_hsa_memory_exception_data", 32 {
        /// Failure.
        pub failure: MemoryExceptionFailure,
        /// Va.
        pub va: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Errortype.
        pub error_type: u32,
    }

    /// `struct kfd_hsa_hw_exception_data`.
    pub struct HsaHwExceptionData: "kfd_hsa_hw_exception_data", 16 {
        /// Reset type.
        pub reset_type: u32,
        /// Reset cause.
        pub reset_cause: u32,
        /// Memory lost.
        pub memory_lost: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
    }

    /// `struct kfd_hsa_signal_event_data`.
    pub struct HsaSignalEventData: "kfd_hsa_signal_event_data", 8 {
        /// Last event age.
        pub last_event_age: u64,
    }

    /// `struct kfd_criu_device_bucket`.
    pub struct CriuDeviceBucket: "kfd_criu_device_bucket", 16 {
        /// User gpu id.
        pub user_gpu_id: u32,
        /// Actual gpu id.
        pub actual_gpu_id: u32,
        /// Drm fd.
        pub drm_fd: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_criu_bo_bucket`.
    pub struct CriuBoBucket: "kfd_criu_bo_bucket", 48 {
        /// Addr.
        pub addr: u64,
        /// Length in bytes.
        pub size: u64,
        /// Offset.
        pub offset: u64,
        /// Restored offset.
        pub restored_offset: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Alloc flags.
        pub alloc_flags: u32,
        /// dma-buf descriptor.
        pub dmabuf_fd: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_svm_attribute`.
    pub struct SvmAttribute: "kfd_ioctl_svm_attribute", 8 {
        /// Type.
        pub type_: u32,
        /// Value.
        pub value: u32,
    }

    /// `struct kfd_runtime_info`.
    pub struct RuntimeInfo: "kfd_runtime_info", 16 {
        /// R debug.
        pub r_debug: u64,
        /// Runtime state.
        pub runtime_state: u32,
        /// Ttmp setup.
        pub ttmp_setup: u32,
    }

    /// `struct kfd_queue_snapshot_entry`.
    pub struct QueueSnapshotEntry: "kfd_queue_snapshot_entry", 64 {
        /// Exception status.
        pub exception_status: u64,
        /// GPU virtual address of the ring.
        pub ring_base_address: u64,
        /// Write pointer address.
        pub write_pointer_address: u64,
        /// Read pointer address.
        pub read_pointer_address: u64,
        /// Ctx save restore address.
        pub ctx_save_restore_address: u64,
        /// Id of the queue within the process.
        pub queue_id: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Size of the ring in bytes.
        pub ring_size: u32,
        /// Queue type.
        pub queue_type: u32,
        /// Ctx save restore area size.
        pub ctx_save_restore_area_size: u32,
        /// Reserved.
        pub reserved: u32,
    }

    /// `struct kfd_dbg_device_info_entry`.
    pub struct DbgDeviceInfoEntry: "kfd_dbg_device_info_entry", 128 {
        /// Exception status.
        pub exception_status: u64,
        /// Lds base.
        pub lds_base: u64,
        /// Lds limit.
        pub lds_limit: u64,
        /// Scratch base.
        pub scratch_base: u64,
        /// Scratch limit.
        pub scratch_limit: u64,
        /// Gpuvm base.
        pub gpuvm_base: u64,
        /// Gpuvm limit.
        pub gpuvm_limit: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Location id.
        pub location_id: u32,
        /// Vendor id.
        pub vendor_id: u32,
        /// Device id.
        pub device_id: u32,
        /// Revision id.
        pub revision_id: u32,
        /// Subsystem vendor id.
        pub subsystem_vendor_id: u32,
        /// Subsystem device id.
        pub subsystem_device_id: u32,
        /// Fw version.
        pub fw_version: u32,
        /// Gfx target version.
        pub gfx_target_version: u32,
        /// Simd count.
        pub simd_count: u32,
        /// Max waves per simd.
        pub max_waves_per_simd: u32,
        /// Array count.
        pub array_count: u32,
        /// Simd arrays per engine.
        pub simd_arrays_per_engine: u32,
        /// Num xcc.
        pub num_xcc: u32,
        /// Capability.
        pub capability: u32,
        /// Debug prop.
        pub debug_prop: u32,
        /// Capability2.
        pub capability2: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_enable_args`.
    pub struct DbgTrapEnableArgs: "kfd_ioctl_dbg_trap_enable_args", 24 {
        /// Exception mask.
        pub exception_mask: u64,
        /// Rinfo ptr.
        pub rinfo_ptr: u64,
        /// Rinfo size.
        pub rinfo_size: u32,
        /// Dbg fd.
        pub dbg_fd: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_send_runtime_event_args`.
    pub struct DbgTrapSendRuntimeEventArgs: "kfd_ioctl_dbg_trap_send_runtime_event_args", 16 {
        /// Exception mask.
        pub exception_mask: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Id of the queue within the process.
        pub queue_id: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_set_exceptions_enabled_args`.
    pub struct DbgTrapSetExceptionsEnabledArgs: "kfd_ioctl_dbg_trap_set_exceptions_enabled_args", 8 {
        /// Exception mask.
        pub exception_mask: u64,
    }

    /// `struct kfd_ioctl_dbg_trap_set_wave_launch_override_args`.
    pub struct DbgTrapSetWaveLaunchOverrideArgs: "kfd_ioctl_dbg_trap_set_wave_launch_override_args", 16 {
        /// Override mode.
        pub override_mode: u32,
        /// Enable mask.
        pub enable_mask: u32,
        /// Support request mask.
        pub support_request_mask: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_set_wave_launch_mode_args`.
    pub struct DbgTrapSetWaveLaunchModeArgs: "kfd_ioctl_dbg_trap_set_wave_launch_mode_args", 8 {
        /// Launch mode.
        pub launch_mode: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_suspend_queues_args`.
    pub struct DbgTrapSuspendQueuesArgs: "kfd_ioctl_dbg_trap_suspend_queues_args", 24 {
        /// Exception mask.
        pub exception_mask: u64,
        /// Queue array ptr.
        pub queue_array_ptr: u64,
        /// Num queues.
        pub num_queues: u32,
        /// Grace period.
        pub grace_period: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_resume_queues_args`.
    pub struct DbgTrapResumeQueuesArgs: "kfd_ioctl_dbg_trap_resume_queues_args", 16 {
        /// Queue array ptr.
        pub queue_array_ptr: u64,
        /// Num queues.
        pub num_queues: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_set_node_address_watch_args`.
    pub struct DbgTrapSetNodeAddressWatchArgs: "kfd_ioctl_dbg_trap_set_node_address_watch_args", 24 {
        /// Address.
        pub address: u64,
        /// Mode.
        pub mode: u32,
        /// Mask.
        pub mask: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Id.
        pub id: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_clear_node_address_watch_args`.
    pub struct DbgTrapClearNodeAddressWatchArgs: "kfd_ioctl_dbg_trap_clear_node_address_watch_args", 8 {
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Id.
        pub id: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_set_flags_args`.
    pub struct DbgTrapSetFlagsArgs: "kfd_ioctl_dbg_trap_set_flags_args", 8 {
        /// Flag bits.
        pub flags: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_query_debug_event_args`.
    pub struct DbgTrapQueryDebugEventArgs: "kfd_ioctl_dbg_trap_query_debug_event_args", 16 {
        /// Exception mask.
        pub exception_mask: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Id of the queue within the process.
        pub queue_id: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_query_exception_info_args`.
    pub struct DbgTrapQueryExceptionInfoArgs: "kfd_ioctl_dbg_trap_query_exception_info_args", 24 {
        /// Info ptr.
        pub info_ptr: u64,
        /// Info size.
        pub info_size: u32,
        /// Source id.
        pub source_id: u32,
        /// Exception code.
        pub exception_code: u32,
        /// Clear exception.
        pub clear_exception: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_queue_snapshot_args`.
    pub struct DbgTrapQueueSnapshotArgs: "kfd_ioctl_dbg_trap_queue_snapshot_args", 24 {
        /// Exception mask.
        pub exception_mask: u64,
        /// Snapshot buf ptr.
        pub snapshot_buf_ptr: u64,
        /// Num queues.
        pub num_queues: u32,
        /// Entry size.
        pub entry_size: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_device_snapshot_args`.
    pub struct DbgTrapDeviceSnapshotArgs: "kfd_ioctl_dbg_trap_device_snapshot_args", 24 {
        /// Exception mask.
        pub exception_mask: u64,
        /// Snapshot buf ptr.
        pub snapshot_buf_ptr: u64,
        /// Num devices.
        pub num_devices: u32,
        /// Entry size.
        pub entry_size: u32,
    }

    /// `struct kfd_ioctl_pmc_settings`.
    pub struct PmcSettings: "kfd_ioctl_pmc_settings", 12 {
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Lock.
        pub lock: u32,
        /// Perfcount enable.
        pub perfcount_enable: u32,
    }

    /// `struct kfd_ioctl_ptl_control`.
    pub struct PtlControl: "kfd_ioctl_ptl_control", 8 {
        /// KFD id of the GPU (`nodes/N/gpu_id`).
        pub gpu_id: u32,
        /// Enable.
        pub enable: u32,
    }

    /// `struct kfd_ioctl_spm_buffer_header`.
    pub struct SpmBufferHeader: "kfd_ioctl_spm_buffer_header", 32 {
        /// Version.
        pub version: u32,
        /// Bytes copied.
        pub bytes_copied: u32,
        /// Has data loss.
        pub has_data_loss: u32,
        /// Reserved.
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
        /// Interval.
        pub interval: u64,
        /// Interval min.
        pub interval_min: u64,
        /// Interval max.
        pub interval_max: u64,
        /// Flag bits.
        pub flags: u64,
        /// Method.
        pub method: u32,
        /// Type.
        pub type_: u32,
    }

    /// `struct kfd_ais_in_args`.
    pub struct AisInArgs: "kfd_ais_in_args", 40 {
        /// Buffer handle: GPU in the upper half, index in the lower.
        pub handle: u64,
        /// Handle offset.
        pub handle_offset: u64,
        /// File offset.
        pub file_offset: i64,
        /// Length in bytes.
        pub size: u64,
        /// Operation.
        pub op: u32,
        /// Fd.
        pub fd: i32,
    }

    /// `struct kfd_ais_out_args`.
    pub struct AisOutArgs: "kfd_ais_out_args", 16 {
        /// Size copied.
        pub size_copied: u64,
        /// Status.
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
