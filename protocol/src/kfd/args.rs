//! The argument structs of the KFD ioctls.

use super::structs::uapi_structs;
use super::types::ProcessDeviceApertures;

uapi_structs! {
    /// No argument (`_IO`).
    pub struct NoArgs: "(none)", 0 {}

    /// `struct kfd_ioctl_get_version_args`.
    pub struct GetVersionArgs: "kfd_ioctl_get_version_args", 8 {
        /// 1. Another number would be another interface. (out)
        pub major_version: u32,
        /// Grows with every addition to the interface; mainline and ROCm count apart. (out)
        pub minor_version: u32,
    }

    /// `struct kfd_ioctl_create_queue_args`.
    pub struct CreateQueueArgs: "kfd_ioctl_create_queue_args", 96 {
        /// GPU virtual address of the ring. (in)
        pub ring_base_address: u64,
        /// GPU virtual address of the write pointer, in a buffer of one page. (in)
        pub write_pointer_address: u64,
        /// GPU virtual address of the read pointer, in a buffer of one page. (in)
        pub read_pointer_address: u64,
        /// Offset for `mmap` on `/dev/kfd`; the low bits say where in the page the doorbell is. (out)
        pub doorbell_offset: u64,
        /// Size of the ring in bytes: a power of two, or 0. (in)
        pub ring_size: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// [`QueueType`](super::constants::QueueType). (in)
        pub queue_type: u32,
        /// Bits 0 to 7: share of the queue, 0 to 100; bits 8 to 15: die for a PM4 queue. (in)
        pub queue_percentage: u32,
        /// Priority, 0 to 15. (in)
        pub queue_priority: u32,
        /// Id of the queue within the process. (out)
        pub queue_id: u32,
        /// GPU virtual address of the end-of-pipe buffer of a compute queue. (in)
        pub eop_buffer_address: u64,
        /// Size of that buffer in bytes. (in)
        pub eop_buffer_size: u64,
        /// GPU virtual address of the context save area of a compute queue. (in)
        pub ctx_save_restore_address: u64,
        /// Size of the save area of one die in bytes. (in)
        pub ctx_save_restore_size: u32,
        /// Size of the control stack in the save area in bytes. (in)
        pub ctl_stack_size: u32,
        /// Engine for `SDMA_BY_ENG_ID` (interface 1.17). (in)
        pub sdma_engine_id: u32,
        /// Size of the metadata ring behind the ring in bytes (interface 1.22, ROCm 1.19). (in)
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
        /// First address of the alternate aperture. (in)
        pub alternate_aperture_base: u64,
        /// Size of the alternate aperture in bytes. (in)
        pub alternate_aperture_size: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// [`CachePolicy`](super::constants::CachePolicy) outside the alternate aperture. (in)
        pub default_policy: u32,
        /// [`CachePolicy`](super::constants::CachePolicy) inside it. (in)
        pub alternate_policy: u32,
        /// [`ProcessFlags`](super::constants::ProcessFlags) (interface 1.18; padding before). (in)
        pub misc_process_flag: u32,
    }

    /// `struct kfd_ioctl_get_clock_counters_args`.
    pub struct GetClockCountersArgs: "kfd_ioctl_get_clock_counters_args", 40 {
        /// The GPU's counter, 0 where the id is of no GPU of the process. (out)
        pub gpu_clock_counter: u64,
        /// `CLOCK_MONOTONIC_RAW` in nanoseconds. (out)
        pub cpu_clock_counter: u64,
        /// `CLOCK_BOOTTIME` in nanoseconds. (out)
        pub system_clock_counter: u64,
        /// Frequency of the two CPU clocks in Hz: 10^9. (out)
        pub system_clock_freq: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_get_process_apertures_args`.
    pub struct GetProcessAperturesArgs: "kfd_ioctl_get_process_apertures_args", 400 {
        /// One entry per GPU of the process. (out)
        pub process_apertures: [ProcessDeviceApertures; 7],
        /// Entries that are filled in. (out)
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
        /// Size of the ring in bytes: a power of two, or 0 to stop the queue. (in)
        pub ring_size: u32,
        /// Bits 0 to 7: share of the queue, 0 to 100, 0 stops it; bits 8 to 15: die for a PM4 queue. (in)
        pub queue_percentage: u32,
        /// Priority, 0 to 15. (in)
        pub queue_priority: u32,
    }

    /// `struct kfd_ioctl_create_event_args`.
    pub struct CreateEventArgs: "kfd_ioctl_create_event_args", 32 {
        /// In: handle of the buffer for the event page, or 0. Out: offset for `mmap` of the event page, where KFD
        /// made it itself. (inout)
        pub event_page_offset: u64,
        /// What an interrupt of the GPU carries to set this event: its id. (out)
        pub event_trigger_data: u32,
        /// [`EventType`](super::constants::EventType). (in)
        pub event_type: u32,
        /// Not 0: the event is reset when it has woken a waiter. (in)
        pub auto_reset: u32,
        /// Topology node, only for some types of events. (in)
        pub node_id: u32,
        /// Id of the event. (out)
        pub event_id: u32,
        /// Slot of a signal event in the event page: 8 bytes each. (out)
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
        /// Address of an array of [`EventData`](super::types::EventData), read and written.
        pub events_ptr: u64,
        /// Elements of the array. (in)
        pub num_events: u32,
        /// Not 0: wait for all, not for any. (in)
        pub wait_for_all: u32,
        /// Time-out in milliseconds, `0xffffffff` for none; what is left of it when a signal interrupts. (inout)
        pub timeout: u32,
        /// [`WaitResult`](super::constants::WaitResult). (out)
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
        /// Address of the watch points; never read.
        pub content_ptr: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Their size in bytes.
        pub buf_size_in_bytes: u32,
    }

    /// `struct kfd_ioctl_dbg_wave_control_args`.
    pub struct DbgWaveControlArgs: "kfd_ioctl_dbg_wave_control_args", 16 {
        /// Address of the message; never read.
        pub content_ptr: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Its size in bytes.
        pub buf_size_in_bytes: u32,
    }

    /// `struct kfd_ioctl_set_scratch_backing_va_args`.
    pub struct SetScratchBackingVaArgs: "kfd_ioctl_set_scratch_backing_va_args", 16 {
        /// GPU virtual address of the scratch memory. (in)
        pub va_addr: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_get_tile_config_args`.
    pub struct GetTileConfigArgs: "kfd_ioctl_get_tile_config_args", 40 {
        /// Address of an array of `u32` that is filled in with the tile modes.
        pub tile_config_ptr: u64,
        /// Address of an array of `u32` that is filled in with the macro tile modes.
        pub macro_tile_config_ptr: u64,
        /// In: room; out: entries, 32 at most. (inout)
        pub num_tile_configs: u32,
        /// In: room; out: entries, 16 at most. (inout)
        pub num_macro_tile_configs: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Register GB_ADDR_CONFIG. (out)
        pub gb_addr_config: u32,
        /// Memory banks, coded as in the register. (out)
        pub num_banks: u32,
        /// Memory ranks, coded as in the register. (out)
        pub num_ranks: u32,
    }

    /// `struct kfd_ioctl_set_trap_handler_args`.
    pub struct SetTrapHandlerArgs: "kfd_ioctl_set_trap_handler_args", 24 {
        /// GPU virtual address of the trap handler's code. (in)
        pub tba_addr: u64,
        /// GPU virtual address of the trap handler's data. (in)
        pub tma_addr: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_get_process_apertures_new_args`.
    pub struct GetProcessAperturesNewArgs: "kfd_ioctl_get_process_apertures_new_args", 16 {
        /// Address of an array of [`ProcessDeviceApertures`] that is filled in.
        pub kfd_process_device_apertures_ptr: u64,
        /// In: room in entries, 0 to ask for the number; out: entries. (inout)
        pub num_of_nodes: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_acquire_vm_args`.
    pub struct AcquireVmArgs: "kfd_ioctl_acquire_vm_args", 8 {
        /// Descriptor of the GPU's render node. (in)
        pub drm_fd: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
    }

    /// `struct kfd_ioctl_alloc_memory_of_gpu_args`.
    pub struct AllocMemoryOfGpuArgs: "kfd_ioctl_alloc_memory_of_gpu_args", 40 {
        /// GPU virtual address that the buffer gets when it is mapped. (in)
        pub va_addr: u64,
        /// Length in bytes. (in)
        pub size: u64,
        /// Buffer handle: GPU in the upper half, index in the lower. (out)
        pub handle: u64,
        /// In, with USERPTR: address in the program. Out: offset for `mmap`, on the render node for VRAM and GTT, on
        /// `/dev/kfd` for MMIO_REMAP. (inout)
        pub mmap_offset: u64,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// [`AllocFlags`](super::constants::AllocFlags). (in)
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
        /// Bits of the mask, a multiple of 32; more than 1024 count as 1024. (in)
        pub num_cu_mask: u32,
        /// Address of the mask, in words of 32 bits. (in)
        pub cu_mask_ptr: u64,
    }

    /// `struct kfd_ioctl_get_queue_wave_state_args`.
    pub struct GetQueueWaveStateArgs: "kfd_ioctl_get_queue_wave_state_args", 24 {
        /// Address in the program of the context save area, whose control stack is filled in. (in)
        pub ctl_stack_address: u64,
        /// Bytes of control stack in use. (out)
        pub ctl_stack_used_size: u32,
        /// Bytes of saved waves. (out)
        pub save_area_used_size: u32,
        /// Id of the queue within the process. (in)
        pub queue_id: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_get_dmabuf_info_args`.
    pub struct GetDmabufInfoArgs: "kfd_ioctl_get_dmabuf_info_args", 32 {
        /// Size of the buffer in bytes. (out)
        pub size: u64,
        /// Address of room for the buffer's metadata, or 0.
        pub metadata_ptr: u64,
        /// In: room in bytes; out: size of the metadata. (inout)
        pub metadata_size: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (out)
        pub gpu_id: u32,
        /// [`AllocFlags`](super::constants::AllocFlags) that describe the buffer. (out)
        pub flags: u32,
        /// dma-buf descriptor. (in)
        pub dmabuf_fd: u32,
    }

    /// `struct kfd_ioctl_import_dmabuf_args`.
    pub struct ImportDmabufArgs: "kfd_ioctl_import_dmabuf_args", 24 {
        /// GPU virtual address that the buffer gets when it is mapped. (in)
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
        /// Entries of global wave sync; 0 gives them back. (in)
        pub num_gws: u32,
        /// First entry: always 0. (out)
        pub first_gws: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct kfd_ioctl_smi_events_args`.
    pub struct SmiEventsArgs: "kfd_ioctl_smi_events_args", 8 {
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpuid: u32,
        /// Descriptor to read messages from and to write the event mask to. (out)
        pub anon_fd: u32,
    }

    /// `struct kfd_ioctl_svm_args`.
    pub struct SvmArgs: "kfd_ioctl_svm_args", 24 {
        /// First byte of the range in the program, page-aligned. (in)
        pub start_addr: u64,
        /// Length of the range in bytes, page-aligned. (in)
        pub size: u64,
        /// [`SvmOp`](super::constants::SvmOp). (in)
        pub op: u32,
        /// Number of [`SvmAttribute`](super::types::SvmAttribute)s that follow this struct. (in)
        pub nattr: u32,
    }

    /// `struct kfd_ioctl_set_xnack_mode_args`.
    pub struct SetXnackModeArgs: "kfd_ioctl_set_xnack_mode_args", 4 {
        /// In: 1 on, 0 off, negative to ask; out: the mode that is set. (inout)
        pub xnack_enabled: i32,
    }

    /// `struct kfd_ioctl_criu_args`.
    pub struct CriuArgs: "kfd_ioctl_criu_args", 56 {
        /// Address of an array of [`CriuDeviceBucket`](super::types::CriuDeviceBucket).
        pub devices: u64,
        /// Address of an array of [`CriuBoBucket`](super::types::CriuBoBucket).
        pub bos: u64,
        /// Address of what the kernel saves for itself.
        pub priv_data: u64,
        /// Its size in bytes; PROCESS_INFO tells it.
        pub priv_data_size: u64,
        /// Elements of `devices`; PROCESS_INFO tells it.
        pub num_devices: u32,
        /// Elements of `bos`; PROCESS_INFO tells it.
        pub num_bos: u32,
        /// Queues, events and SVM ranges; PROCESS_INFO tells it.
        pub num_objects: u32,
        /// Process, in its own PID namespace: out of PROCESS_INFO, in to RESUME.
        pub pid: u32,
        /// [`CriuOp`](super::constants::CriuOp). (in)
        pub op: u32,
        /// Explicit padding at the end.
        pub _tail: [u8; 4],
    }

    /// `struct kfd_ioctl_get_available_memory_args`.
    pub struct GetAvailableMemoryArgs: "kfd_ioctl_get_available_memory_args", 16 {
        /// Bytes that can still be allocated. (out)
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
        /// `O_CLOEXEC` and the access mode of the descriptor. (in)
        pub flags: u32,
        /// dma-buf descriptor. (out)
        pub dmabuf_fd: u32,
    }

    /// `struct kfd_ioctl_runtime_enable_args`.
    pub struct RuntimeEnableArgs: "kfd_ioctl_runtime_enable_args", 16 {
        /// Address of the runtime's `struct r_debug`, for a debugger. (in)
        pub r_debug: u64,
        /// [`RuntimeMode`](super::constants::RuntimeMode). (in)
        pub mode_mask: u32,
        /// [`RuntimeCaps`](super::constants::RuntimeCaps); ROCm only, mainline leaves it alone. (out)
        pub capabilities_mask: u32,
    }

    /// `struct kfd_ioctl_create_process_args`.
    pub struct CreateProcessArgs: "kfd_ioctl_create_process_args", 8 {
        /// None is defined. (in)
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
        /// Offset for `mmap` on the render node. (out)
        pub mmap_offset: u64,
        /// Handle from IPC_EXPORT_HANDLE. (in)
        pub share_handle: [u32; 4],
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// [`AllocFlags`](super::constants::AllocFlags) of the buffer. (out)
        pub flags: u32,
    }

    /// `struct kfd_ioctl_ipc_export_handle_args`.
    pub struct IpcExportHandleArgs: "kfd_ioctl_ipc_export_handle_args", 32 {
        /// Buffer handle: GPU in the upper half, index in the lower. (in)
        pub handle: u64,
        /// Handle for the other process. (out)
        pub share_handle: [u32; 4],
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// [`AllocFlags`](super::constants::AllocFlags) for the importer. (in)
        pub flags: u32,
    }

    /// `struct kfd_ioctl_cross_memory_copy_args`.
    pub struct CrossMemoryCopyArgs: "kfd_ioctl_cross_memory_copy_args", 48 {
        /// The other process. (in)
        pub pid: u32,
        /// [`CrossMemoryFlags`](super::constants::CrossMemoryFlags). (in)
        pub flags: u32,
        /// Address of an array of [`MemoryRange`](super::types::MemoryRange) to read. (in)
        pub src_mem_range_array: u64,
        /// Its elements. (in)
        pub src_mem_array_size: u64,
        /// Address of an array of [`MemoryRange`](super::types::MemoryRange) to write. (in)
        pub dst_mem_range_array: u64,
        /// Its elements. (in)
        pub dst_mem_array_size: u64,
        /// Bytes copied. (out)
        pub bytes_copied: u64,
    }

    /// `struct kfd_ioctl_spm_args`.
    pub struct SpmArgs: "kfd_ioctl_spm_args", 32 {
        /// Address in the program of the buffer to fill next, or 0 to stop. (in)
        pub dest_buf: u64,
        /// Its size in bytes. (in)
        pub buf_size: u32,
        /// [`SpmOp`](super::constants::SpmOp). (in)
        pub op: u32,
        /// In: how long to wait for the buffer before to be filled, in milliseconds; out: what is left. (inout)
        pub timeout: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Bytes in the buffer before. (out)
        pub bytes_copied: u32,
        /// Not 0: samples were lost in it. (out)
        pub has_data_loss: u32,
    }

    /// `struct kfd_ioctl_pc_sample_args`.
    pub struct PcSampleArgs: "kfd_ioctl_pc_sample_args", 32 {
        /// Address of an array of [`PcSampleInfo`](super::types::PcSampleInfo): written by QUERY, read by CREATE.
        pub sample_info_ptr: u64,
        /// Its elements. (inout)
        pub num_sample_info: u32,
        /// [`PcSampleOp`](super::constants::PcSampleOp). (in)
        pub op: u32,
        /// KFD id of the GPU (`nodes/N/gpu_id`). (in)
        pub gpu_id: u32,
        /// Session: out of CREATE, in to the others.
        pub trace_id: u32,
        /// [`PcSampleQuery`](super::constants::PcSampleQuery). (in)
        pub flags: u32,
        /// Zero.
        pub reserved: u32,
    }

    /// `struct kfd_ioctl_dbg_trap_args`: the operation selects the struct inside `body`.
    pub struct DbgTrapArgs: "kfd_ioctl_dbg_trap_args", 32 {
        /// Process that is debugged, in the caller's PID namespace. (in)
        pub pid: u32,
        /// [`DbgTrapOp`](super::constants::DbgTrapOp). (in)
        pub op: u32,
        /// One of the `kfd_ioctl_dbg_trap_*_args` structs.
        pub body: [u8; 24],
    }

    /// `struct kfd_ioctl_profiler_args`, mainline layout (number 0x28).
    pub struct ProfilerArgs: "kfd_ioctl_profiler_args", 16 {
        /// [`ProfilerOp`](super::constants::ProfilerOp). (in)
        pub op: u32,
        /// Operation's own struct.
        pub body: [u8; 12],
    }

    /// `struct kfd_ioctl_profiler_args`, ROCm's layout (number 0x86).
    pub struct RocmProfilerArgs: "kfd_ioctl_profiler_args", 40 {
        /// [`ProfilerOp`](super::constants::ProfilerOp). (in)
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
