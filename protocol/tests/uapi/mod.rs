//! The numbers of the KFD interface, written down independently of the declarations: from the uapi headers of
//! Linux 7.3 (interface 1.23) and of ROCm's driver (1.19), and for a few constants from `kfd_priv.h` and
//! `kfd_flat_memory.c`.

/// An ioctl a line: kernels, number, name, direction, request code, argument struct, its size.
pub const IOCTLS: &str = "
both 0x01 GET_VERSION read 0x80084b01 kfd_ioctl_get_version_args 8
both 0x02 CREATE_QUEUE read-write 0xc0604b02 kfd_ioctl_create_queue_args 96
both 0x03 DESTROY_QUEUE read-write 0xc0084b03 kfd_ioctl_destroy_queue_args 8
both 0x04 SET_MEMORY_POLICY write 0x40204b04 kfd_ioctl_set_memory_policy_args 32
both 0x05 GET_CLOCK_COUNTERS read-write 0xc0284b05 kfd_ioctl_get_clock_counters_args 40
both 0x06 GET_PROCESS_APERTURES read 0x81904b06 kfd_ioctl_get_process_apertures_args 400
both 0x07 UPDATE_QUEUE write 0x40184b07 kfd_ioctl_update_queue_args 24
both 0x08 CREATE_EVENT read-write 0xc0204b08 kfd_ioctl_create_event_args 32
both 0x09 DESTROY_EVENT write 0x40084b09 kfd_ioctl_destroy_event_args 8
both 0x0a SET_EVENT write 0x40084b0a kfd_ioctl_set_event_args 8
both 0x0b RESET_EVENT write 0x40084b0b kfd_ioctl_reset_event_args 8
both 0x0c WAIT_EVENTS read-write 0xc0184b0c kfd_ioctl_wait_events_args 24
both 0x0d DBG_REGISTER_DEPRECATED write 0x40084b0d kfd_ioctl_dbg_register_args 8
both 0x0e DBG_UNREGISTER_DEPRECATED write 0x40084b0e kfd_ioctl_dbg_unregister_args 8
both 0x0f DBG_ADDRESS_WATCH_DEPRECATED write 0x40104b0f kfd_ioctl_dbg_address_watch_args 16
both 0x10 DBG_WAVE_CONTROL_DEPRECATED write 0x40104b10 kfd_ioctl_dbg_wave_control_args 16
both 0x11 SET_SCRATCH_BACKING_VA read-write 0xc0104b11 kfd_ioctl_set_scratch_backing_va_args 16
both 0x12 GET_TILE_CONFIG read-write 0xc0284b12 kfd_ioctl_get_tile_config_args 40
both 0x13 SET_TRAP_HANDLER write 0x40184b13 kfd_ioctl_set_trap_handler_args 24
both 0x14 GET_PROCESS_APERTURES_NEW read-write 0xc0104b14 kfd_ioctl_get_process_apertures_new_args 16
both 0x15 ACQUIRE_VM write 0x40084b15 kfd_ioctl_acquire_vm_args 8
both 0x16 ALLOC_MEMORY_OF_GPU read-write 0xc0284b16 kfd_ioctl_alloc_memory_of_gpu_args 40
both 0x17 FREE_MEMORY_OF_GPU write 0x40084b17 kfd_ioctl_free_memory_of_gpu_args 8
both 0x18 MAP_MEMORY_TO_GPU read-write 0xc0184b18 kfd_ioctl_map_memory_to_gpu_args 24
both 0x19 UNMAP_MEMORY_FROM_GPU read-write 0xc0184b19 kfd_ioctl_unmap_memory_from_gpu_args 24
both 0x1a SET_CU_MASK write 0x40104b1a kfd_ioctl_set_cu_mask_args 16
both 0x1b GET_QUEUE_WAVE_STATE read-write 0xc0184b1b kfd_ioctl_get_queue_wave_state_args 24
both 0x1c GET_DMABUF_INFO read-write 0xc0204b1c kfd_ioctl_get_dmabuf_info_args 32
both 0x1d IMPORT_DMABUF read-write 0xc0184b1d kfd_ioctl_import_dmabuf_args 24
both 0x1e ALLOC_QUEUE_GWS read-write 0xc0104b1e kfd_ioctl_alloc_queue_gws_args 16
both 0x1f SMI_EVENTS read-write 0xc0084b1f kfd_ioctl_smi_events_args 8
both 0x20 SVM read-write 0xc0184b20 kfd_ioctl_svm_args 24
both 0x21 SET_XNACK_MODE read-write 0xc0044b21 kfd_ioctl_set_xnack_mode_args 4
both 0x22 CRIU_OP read-write 0xc0384b22 kfd_ioctl_criu_args 56
both 0x23 AVAILABLE_MEMORY read-write 0xc0104b23 kfd_ioctl_get_available_memory_args 16
both 0x24 EXPORT_DMABUF read-write 0xc0104b24 kfd_ioctl_export_dmabuf_args 16
both 0x25 RUNTIME_ENABLE read-write 0xc0104b25 kfd_ioctl_runtime_enable_args 16
both 0x26 DBG_TRAP read-write 0xc0204b26 kfd_ioctl_dbg_trap_args 32
mainline 0x27 CREATE_PROCESS none 0x00004b27 - 0
rocm 0x27 CREATE_PROCESS read-write 0xc0084b27 kfd_ioctl_create_process_args 8
mainline 0x28 PROFILER read-write 0xc0104b28 kfd_ioctl_profiler_args 16
rocm 0x80 IPC_IMPORT_HANDLE read-write 0xc0304b80 kfd_ioctl_ipc_import_handle_args 48
rocm 0x81 IPC_EXPORT_HANDLE read-write 0xc0204b81 kfd_ioctl_ipc_export_handle_args 32
rocm 0x83 CROSS_MEMORY_COPY read-write 0xc0304b83 kfd_ioctl_cross_memory_copy_args 48
rocm 0x84 RLC_SPM read-write 0xc0204b84 kfd_ioctl_spm_args 32
rocm 0x85 PC_SAMPLE read-write 0xc0204b85 kfd_ioctl_pc_sample_args 32
rocm 0x86 PROFILER read-write 0xc0284b86 kfd_ioctl_profiler_args 40
rocm 0x87 AIS_OP read-write 0xc0284b87 kfd_ioctl_ais_args 40
";

/// A struct a line: name, size, then `field@offset+size`. A union is its bytes, as the field `body`.
pub const STRUCTS: &str = "
kfd_ioctl_get_version_args 8 major_version@0+4 minor_version@4+4
kfd_ioctl_create_queue_args 96 ring_base_address@0+8 write_pointer_address@8+8 read_pointer_address@16+8 \
    doorbell_offset@24+8 ring_size@32+4 gpu_id@36+4 queue_type@40+4 queue_percentage@44+4 \
    queue_priority@48+4 queue_id@52+4 eop_buffer_address@56+8 eop_buffer_size@64+8 \
    ctx_save_restore_address@72+8 ctx_save_restore_size@80+4 ctl_stack_size@84+4 sdma_engine_id@88+4 \
    metadata_ring_size@92+4
kfd_ioctl_destroy_queue_args 8 queue_id@0+4 pad@4+4
kfd_ioctl_set_memory_policy_args 32 alternate_aperture_base@0+8 alternate_aperture_size@8+8 gpu_id@16+4 \
    default_policy@20+4 alternate_policy@24+4 misc_process_flag@28+4
kfd_ioctl_get_clock_counters_args 40 gpu_clock_counter@0+8 cpu_clock_counter@8+8 system_clock_counter@16+8 \
    system_clock_freq@24+8 gpu_id@32+4 pad@36+4
kfd_ioctl_get_process_apertures_args 400 process_apertures@0+392 num_of_nodes@392+4 pad@396+4
kfd_ioctl_update_queue_args 24 ring_base_address@0+8 queue_id@8+4 ring_size@12+4 queue_percentage@16+4 \
    queue_priority@20+4
kfd_ioctl_create_event_args 32 event_page_offset@0+8 event_trigger_data@8+4 event_type@12+4 auto_reset@16+4 \
    node_id@20+4 event_id@24+4 event_slot_index@28+4
kfd_ioctl_destroy_event_args 8 event_id@0+4 pad@4+4
kfd_ioctl_set_event_args 8 event_id@0+4 pad@4+4
kfd_ioctl_reset_event_args 8 event_id@0+4 pad@4+4
kfd_ioctl_wait_events_args 24 events_ptr@0+8 num_events@8+4 wait_for_all@12+4 timeout@16+4 wait_result@20+4
kfd_ioctl_dbg_register_args 8 gpu_id@0+4 pad@4+4
kfd_ioctl_dbg_unregister_args 8 gpu_id@0+4 pad@4+4
kfd_ioctl_dbg_address_watch_args 16 content_ptr@0+8 gpu_id@8+4 buf_size_in_bytes@12+4
kfd_ioctl_dbg_wave_control_args 16 content_ptr@0+8 gpu_id@8+4 buf_size_in_bytes@12+4
kfd_ioctl_set_scratch_backing_va_args 16 va_addr@0+8 gpu_id@8+4 pad@12+4
kfd_ioctl_get_tile_config_args 40 tile_config_ptr@0+8 macro_tile_config_ptr@8+8 num_tile_configs@16+4 \
    num_macro_tile_configs@20+4 gpu_id@24+4 gb_addr_config@28+4 num_banks@32+4 num_ranks@36+4
kfd_ioctl_set_trap_handler_args 24 tba_addr@0+8 tma_addr@8+8 gpu_id@16+4 pad@20+4
kfd_ioctl_get_process_apertures_new_args 16 kfd_process_device_apertures_ptr@0+8 num_of_nodes@8+4 pad@12+4
kfd_ioctl_acquire_vm_args 8 drm_fd@0+4 gpu_id@4+4
kfd_ioctl_alloc_memory_of_gpu_args 40 va_addr@0+8 size@8+8 handle@16+8 mmap_offset@24+8 gpu_id@32+4 \
    flags@36+4
kfd_ioctl_free_memory_of_gpu_args 8 handle@0+8
kfd_ioctl_map_memory_to_gpu_args 24 handle@0+8 device_ids_array_ptr@8+8 n_devices@16+4 n_success@20+4
kfd_ioctl_unmap_memory_from_gpu_args 24 handle@0+8 device_ids_array_ptr@8+8 n_devices@16+4 n_success@20+4
kfd_ioctl_set_cu_mask_args 16 queue_id@0+4 num_cu_mask@4+4 cu_mask_ptr@8+8
kfd_ioctl_get_queue_wave_state_args 24 ctl_stack_address@0+8 ctl_stack_used_size@8+4 \
    save_area_used_size@12+4 queue_id@16+4 pad@20+4
kfd_ioctl_get_dmabuf_info_args 32 size@0+8 metadata_ptr@8+8 metadata_size@16+4 gpu_id@20+4 flags@24+4 \
    dmabuf_fd@28+4
kfd_ioctl_import_dmabuf_args 24 va_addr@0+8 handle@8+8 gpu_id@16+4 dmabuf_fd@20+4
kfd_ioctl_alloc_queue_gws_args 16 queue_id@0+4 num_gws@4+4 first_gws@8+4 pad@12+4
kfd_ioctl_smi_events_args 8 gpuid@0+4 anon_fd@4+4
kfd_ioctl_svm_args 24 start_addr@0+8 size@8+8 op@16+4 nattr@20+4
kfd_ioctl_set_xnack_mode_args 4 xnack_enabled@0+4
kfd_ioctl_criu_args 56 devices@0+8 bos@8+8 priv_data@16+8 priv_data_size@24+8 num_devices@32+4 num_bos@36+4 \
    num_objects@40+4 pid@44+4 op@48+4
kfd_ioctl_get_available_memory_args 16 available@0+8 gpu_id@8+4 pad@12+4
kfd_ioctl_export_dmabuf_args 16 handle@0+8 flags@8+4 dmabuf_fd@12+4
kfd_ioctl_runtime_enable_args 16 r_debug@0+8 mode_mask@8+4 capabilities_mask@12+4
kfd_ioctl_dbg_trap_args 32 pid@0+4 op@4+4 body@8+24
kfd_ioctl_create_process_args 8 flags@0+4 pad@4+4
kfd_ioctl_profiler_args 16 op@0+4 body@4+12
kfd_ioctl_ipc_import_handle_args 48 handle@0+8 va_addr@8+8 mmap_offset@16+8 share_handle@24+16 gpu_id@40+4 \
    flags@44+4
kfd_ioctl_ipc_export_handle_args 32 handle@0+8 share_handle@8+16 gpu_id@24+4 flags@28+4
kfd_ioctl_cross_memory_copy_args 48 pid@0+4 flags@4+4 src_mem_range_array@8+8 src_mem_array_size@16+8 \
    dst_mem_range_array@24+8 dst_mem_array_size@32+8 bytes_copied@40+8
kfd_ioctl_spm_args 32 dest_buf@0+8 buf_size@8+4 op@12+4 timeout@16+4 gpu_id@20+4 bytes_copied@24+4 \
    has_data_loss@28+4
kfd_ioctl_pc_sample_args 32 sample_info_ptr@0+8 num_sample_info@8+4 op@12+4 gpu_id@16+4 trace_id@20+4 \
    flags@24+4 reserved@28+4
kfd_ioctl_profiler_args 40 op@0+4 body@8+32
kfd_ioctl_ais_args 40 body@0+40
kfd_dbg_device_info_entry 128 exception_status@0+8 lds_base@8+8 lds_limit@16+8 scratch_base@24+8 \
    scratch_limit@32+8 gpuvm_base@40+8 gpuvm_limit@48+8 gpu_id@56+4 location_id@60+4 vendor_id@64+4 \
    device_id@68+4 revision_id@72+4 subsystem_vendor_id@76+4 subsystem_device_id@80+4 fw_version@84+4 \
    gfx_target_version@88+4 simd_count@92+4 max_waves_per_simd@96+4 array_count@100+4 \
    simd_arrays_per_engine@104+4 num_xcc@108+4 capability@112+4 debug_prop@116+4 capability2@120+4 pad@124+4
kfd_process_device_apertures 56 lds_base@0+8 lds_limit@8+8 scratch_base@16+8 scratch_limit@24+8 \
    gpuvm_base@32+8 gpuvm_limit@40+8 gpu_id@48+4 pad@52+4
kfd_memory_exception_failure 16 NotPresent@0+4 ReadOnly@4+4 NoExecute@8+4 imprecise@12+4
kfd_hsa_memory_exception_data 32 failure@0+16 va@16+8 gpu_id@24+4 ErrorType@28+4
kfd_hsa_hw_exception_data 16 reset_type@0+4 reset_cause@4+4 memory_lost@8+4 gpu_id@12+4
kfd_hsa_signal_event_data 8 last_event_age@0+8
kfd_event_data 48 body@0+32 kfd_event_data_ext@32+8 event_id@40+4 pad@44+4
kfd_criu_device_bucket 16 user_gpu_id@0+4 actual_gpu_id@4+4 drm_fd@8+4 pad@12+4
kfd_criu_bo_bucket 48 addr@0+8 size@8+8 offset@16+8 restored_offset@24+8 gpu_id@32+4 alloc_flags@36+4 \
    dmabuf_fd@40+4 pad@44+4
kfd_ioctl_svm_attribute 8 type@0+4 value@4+4
kfd_runtime_info 16 r_debug@0+8 runtime_state@8+4 ttmp_setup@12+4
kfd_queue_snapshot_entry 64 exception_status@0+8 ring_base_address@8+8 write_pointer_address@16+8 \
    read_pointer_address@24+8 ctx_save_restore_address@32+8 queue_id@40+4 gpu_id@44+4 ring_size@48+4 \
    queue_type@52+4 ctx_save_restore_area_size@56+4 reserved@60+4
kfd_context_save_area_header 40 control_stack_offset@0+4 control_stack_size@4+4 wave_state_offset@8+4 \
    wave_state_size@12+4 debug_offset@16+4 debug_size@20+4 err_payload_addr@24+8 err_event_id@32+4 \
    reserved1@36+4
kfd_ioctl_dbg_trap_enable_args 24 exception_mask@0+8 rinfo_ptr@8+8 rinfo_size@16+4 dbg_fd@20+4
kfd_ioctl_dbg_trap_send_runtime_event_args 16 exception_mask@0+8 gpu_id@8+4 queue_id@12+4
kfd_ioctl_dbg_trap_set_exceptions_enabled_args 8 exception_mask@0+8
kfd_ioctl_dbg_trap_set_wave_launch_override_args 16 override_mode@0+4 enable_mask@4+4 \
    support_request_mask@8+4 pad@12+4
kfd_ioctl_dbg_trap_set_wave_launch_mode_args 8 launch_mode@0+4 pad@4+4
kfd_ioctl_dbg_trap_suspend_queues_args 24 exception_mask@0+8 queue_array_ptr@8+8 num_queues@16+4 \
    grace_period@20+4
kfd_ioctl_dbg_trap_resume_queues_args 16 queue_array_ptr@0+8 num_queues@8+4 pad@12+4
kfd_ioctl_dbg_trap_set_node_address_watch_args 24 address@0+8 mode@8+4 mask@12+4 gpu_id@16+4 id@20+4
kfd_ioctl_dbg_trap_clear_node_address_watch_args 8 gpu_id@0+4 id@4+4
kfd_ioctl_dbg_trap_set_flags_args 8 flags@0+4 pad@4+4
kfd_ioctl_dbg_trap_query_debug_event_args 16 exception_mask@0+8 gpu_id@8+4 queue_id@12+4
kfd_ioctl_dbg_trap_query_exception_info_args 24 info_ptr@0+8 info_size@8+4 source_id@12+4 \
    exception_code@16+4 clear_exception@20+4
kfd_ioctl_dbg_trap_queue_snapshot_args 24 exception_mask@0+8 snapshot_buf_ptr@8+8 num_queues@16+4 \
    entry_size@20+4
kfd_ioctl_dbg_trap_device_snapshot_args 24 exception_mask@0+8 snapshot_buf_ptr@8+8 num_devices@16+4 \
    entry_size@20+4
kfd_ioctl_pmc_settings 12 gpu_id@0+4 lock@4+4 perfcount_enable@8+4
kfd_ioctl_ptl_control 8 gpu_id@0+4 enable@4+4
kfd_ioctl_spm_buffer_header 32 version@0+4 bytes_copied@4+4 has_data_loss@8+4 reserved@12+20
kfd_memory_range 16 va_addr@0+8 size@8+8
kfd_pc_sample_info 40 interval@0+8 interval_min@8+8 interval_max@16+8 flags@24+8 method@32+4 type@36+4
kfd_ais_in_args 40 handle@0+8 handle_offset@8+8 file_offset@16+8 size@24+8 op@32+4 fd@36+4
kfd_ais_out_args 16 size_copied@0+8 status@8+4 pad@12+4
";

/// A constant a line. A name that the two headers give different values is there twice.
pub const CONSTANTS: &str = "
KFD_IOCTL_MAJOR_VERSION 0x1
KFD_IOCTL_MINOR_VERSION 0x17
KFD_IOCTL_MINOR_VERSION 0x13
KFD_IOC_QUEUE_TYPE_COMPUTE 0x0
KFD_IOC_QUEUE_TYPE_SDMA 0x1
KFD_IOC_QUEUE_TYPE_COMPUTE_AQL 0x2
KFD_IOC_QUEUE_TYPE_SDMA_XGMI 0x3
KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID 0x4
KFD_MAX_QUEUE_PERCENTAGE 0x64
KFD_MAX_QUEUE_PRIORITY 0xf
KFD_MIN_QUEUE_RING_SIZE 0x400
KFD_IOC_CACHE_POLICY_COHERENT 0x0
KFD_IOC_CACHE_POLICY_NONCOHERENT 0x1
KFD_PROC_FLAG_MFMA_HIGH_PRECISION 0x1
NUM_OF_SUPPORTED_GPUS 0x7
MAX_ALLOWED_NUM_POINTS 0x64
MAX_ALLOWED_AW_BUFF_SIZE 0x1000
MAX_ALLOWED_WAC_BUFF_SIZE 0x80
KFD_INVALID_FD 0xffffffff
KFD_IOC_EVENT_SIGNAL 0x0
KFD_IOC_EVENT_NODECHANGE 0x1
KFD_IOC_EVENT_DEVICESTATECHANGE 0x2
KFD_IOC_EVENT_HW_EXCEPTION 0x3
KFD_IOC_EVENT_SYSTEM_EVENT 0x4
KFD_IOC_EVENT_DEBUG_EVENT 0x5
KFD_IOC_EVENT_PROFILE_EVENT 0x6
KFD_IOC_EVENT_QUEUE_EVENT 0x7
KFD_IOC_EVENT_MEMORY 0x8
KFD_IOC_WAIT_RESULT_COMPLETE 0x0
KFD_IOC_WAIT_RESULT_TIMEOUT 0x1
KFD_IOC_WAIT_RESULT_FAIL 0x2
KFD_SIGNAL_EVENT_LIMIT 0x1000
KFD_HW_EXCEPTION_WHOLE_GPU_RESET 0x0
KFD_HW_EXCEPTION_PER_ENGINE_RESET 0x1
KFD_HW_EXCEPTION_GPU_HANG 0x0
KFD_HW_EXCEPTION_ECC 0x1
KFD_MEM_ERR_NO_RAS 0x0
KFD_MEM_ERR_SRAM_ECC 0x1
KFD_MEM_ERR_POISON_CONSUMED 0x2
KFD_MEM_ERR_GPU_HANG 0x3
KFD_IOC_ALLOC_MEM_FLAGS_VRAM 0x1
KFD_IOC_ALLOC_MEM_FLAGS_GTT 0x2
KFD_IOC_ALLOC_MEM_FLAGS_USERPTR 0x4
KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL 0x8
KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP 0x10
KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE 0x80000000
KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE 0x40000000
KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC 0x20000000
KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE 0x10000000
KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM 0x8000000
KFD_IOC_ALLOC_MEM_FLAGS_COHERENT 0x4000000
KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED 0x2000000
KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT 0x1000000
KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS 0x800000
KFD_SMI_EVENT_MSG_SIZE 0x60
KFD_IOCTL_SVM_FLAG_HOST_ACCESS 0x1
KFD_IOCTL_SVM_FLAG_COHERENT 0x2
KFD_IOCTL_SVM_FLAG_HIVE_LOCAL 0x4
KFD_IOCTL_SVM_FLAG_GPU_RO 0x8
KFD_IOCTL_SVM_FLAG_GPU_EXEC 0x10
KFD_IOCTL_SVM_FLAG_GPU_READ_MOSTLY 0x20
KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED 0x40
KFD_IOCTL_SVM_FLAG_EXT_COHERENT 0x80
KFD_EC_MASK_QUEUE 0x607f803f
KFD_EC_MASK_QUEUE 0x607b803f
KFD_EC_MASK_DEVICE 0xf80000000
KFD_EC_MASK_PROCESS 0x1800000000000
KFD_EC_MASK_PACKET 0x7f8000
KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK 0x1
KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK 0x2
KFD_DBG_QUEUE_ERROR_BIT 0x1e
KFD_DBG_QUEUE_INVALID_BIT 0x1f
KFD_DBG_QUEUE_ERROR_MASK 0x40000000
KFD_DBG_QUEUE_INVALID_MASK 0x80000000
KFD_IOC_PROFILER_VERSION_NUM 0x1
AMDKFD_COMMAND_START 0x1
AMDKFD_COMMAND_END 0x29
AMDKFD_COMMAND_END 0x28
KFD_DBG_EV_FLAG_CLEAR_STATUS 0x1
KFD_INVALID_GPUID 0xffffffff
KFD_INVALID_QUEUEID 0xffffffff
KFD_RUNTIME_ENABLE_CAPS_SUPPORTS_CORE_DUMP_MASK 0x80000000
KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS_BEST_EFFORT 0x800000
KFD_CROSS_MEMORY_RW_BIT 0x1
KFD_IOCTL_PCS_FLAG_POWER_OF_2 0x1
KFD_IOCTL_PCS_QUERY_TYPE_FULL 0x1
AMDKFD_COMMAND_START_2 0x80
AMDKFD_COMMAND_END_2 0x88
KFD_SMI_EVENT_NONE 0x0
KFD_SMI_EVENT_VMFAULT 0x1
KFD_SMI_EVENT_THERMAL_THROTTLE 0x2
KFD_SMI_EVENT_GPU_PRE_RESET 0x3
KFD_SMI_EVENT_GPU_POST_RESET 0x4
KFD_SMI_EVENT_MIGRATE_START 0x5
KFD_SMI_EVENT_MIGRATE_END 0x6
KFD_SMI_EVENT_PAGE_FAULT_START 0x7
KFD_SMI_EVENT_PAGE_FAULT_END 0x8
KFD_SMI_EVENT_QUEUE_EVICTION 0x9
KFD_SMI_EVENT_QUEUE_RESTORE 0xa
KFD_SMI_EVENT_UNMAP_FROM_GPU 0xb
KFD_SMI_EVENT_PROCESS_START 0xc
KFD_SMI_EVENT_PROCESS_END 0xd
KFD_SMI_EVENT_ALL_PROCESS 0x40
KFD_MIGRATE_TRIGGER_PREFETCH 0x0
KFD_MIGRATE_TRIGGER_PAGEFAULT_GPU 0x1
KFD_MIGRATE_TRIGGER_PAGEFAULT_CPU 0x2
KFD_MIGRATE_TRIGGER_TTM_EVICTION 0x3
KFD_QUEUE_EVICTION_TRIGGER_SVM 0x0
KFD_QUEUE_EVICTION_TRIGGER_USERPTR 0x1
KFD_QUEUE_EVICTION_TRIGGER_TTM 0x2
KFD_QUEUE_EVICTION_TRIGGER_SUSPEND 0x3
KFD_QUEUE_EVICTION_CRIU_CHECKPOINT 0x4
KFD_QUEUE_EVICTION_CRIU_RESTORE 0x5
KFD_SVM_UNMAP_TRIGGER_MMU_NOTIFY 0x0
KFD_SVM_UNMAP_TRIGGER_MMU_NOTIFY_MIGRATE 0x1
KFD_SVM_UNMAP_TRIGGER_UNMAP_FROM_CPU 0x2
KFD_CRIU_OP_PROCESS_INFO 0x0
KFD_CRIU_OP_CHECKPOINT 0x1
KFD_CRIU_OP_UNPAUSE 0x2
KFD_CRIU_OP_RESTORE 0x3
KFD_CRIU_OP_RESUME 0x4
KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL 0x0
KFD_MMIO_REMAP_HDP_REG_FLUSH_CNTL 0x4
KFD_IOCTL_SVM_OP_SET_ATTR 0x0
KFD_IOCTL_SVM_OP_GET_ATTR 0x1
KFD_IOCTL_SVM_LOCATION_SYSMEM 0x0
KFD_IOCTL_SVM_LOCATION_UNDEFINED 0xffffffff
KFD_IOCTL_SVM_ATTR_PREFERRED_LOC 0x0
KFD_IOCTL_SVM_ATTR_PREFETCH_LOC 0x1
KFD_IOCTL_SVM_ATTR_ACCESS 0x2
KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE 0x3
KFD_IOCTL_SVM_ATTR_NO_ACCESS 0x4
KFD_IOCTL_SVM_ATTR_SET_FLAGS 0x5
KFD_IOCTL_SVM_ATTR_CLR_FLAGS 0x6
KFD_IOCTL_SVM_ATTR_GRANULARITY 0x7
KFD_DBG_TRAP_OVERRIDE_OR 0x0
KFD_DBG_TRAP_OVERRIDE_REPLACE 0x1
KFD_DBG_TRAP_MASK_FP_INVALID 0x1
KFD_DBG_TRAP_MASK_FP_INPUT_DENORMAL 0x2
KFD_DBG_TRAP_MASK_FP_DIVIDE_BY_ZERO 0x4
KFD_DBG_TRAP_MASK_FP_OVERFLOW 0x8
KFD_DBG_TRAP_MASK_FP_UNDERFLOW 0x10
KFD_DBG_TRAP_MASK_FP_INEXACT 0x20
KFD_DBG_TRAP_MASK_INT_DIVIDE_BY_ZERO 0x40
KFD_DBG_TRAP_MASK_DBG_ADDRESS_WATCH 0x80
KFD_DBG_TRAP_MASK_DBG_MEMORY_VIOLATION 0x100
KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_START 0x40000000
KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_END 0x80000000
KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL 0x0
KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT 0x1
KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG 0x3
KFD_DBG_TRAP_ADDRESS_WATCH_MODE_READ 0x0
KFD_DBG_TRAP_ADDRESS_WATCH_MODE_NONREAD 0x1
KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ATOMIC 0x2
KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ALL 0x3
KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP 0x1
KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP 0x2
KFD_DBG_TRAP_FLAG_LDS_OUT_OF_ADDR_RANGE 0x4
EC_NONE 0x0
EC_QUEUE_WAVE_ABORT 0x1
EC_QUEUE_WAVE_TRAP 0x2
EC_QUEUE_WAVE_MATH_ERROR 0x3
EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION 0x4
EC_QUEUE_WAVE_MEMORY_VIOLATION 0x5
EC_QUEUE_WAVE_APERTURE_VIOLATION 0x6
EC_QUEUE_PACKET_DISPATCH_DIM_INVALID 0x10
EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID 0x11
EC_QUEUE_PACKET_DISPATCH_CODE_INVALID 0x12
EC_QUEUE_PACKET_RESERVED 0x13
EC_QUEUE_PACKET_UNSUPPORTED 0x14
EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID 0x15
EC_QUEUE_PACKET_DISPATCH_REGISTER_INVALID 0x16
EC_QUEUE_PACKET_VENDOR_UNSUPPORTED 0x17
EC_QUEUE_PREEMPTION_ERROR 0x1e
EC_QUEUE_NEW 0x1f
EC_DEVICE_QUEUE_DELETE 0x20
EC_DEVICE_MEMORY_VIOLATION 0x21
EC_DEVICE_RAS_ERROR 0x22
EC_DEVICE_FATAL_HALT 0x23
EC_DEVICE_NEW 0x24
EC_PROCESS_RUNTIME 0x30
EC_PROCESS_DEVICE_REMOVE 0x31
EC_MAX 0x32
DEBUG_RUNTIME_STATE_DISABLED 0x0
DEBUG_RUNTIME_STATE_ENABLED 0x1
DEBUG_RUNTIME_STATE_ENABLED_BUSY 0x2
DEBUG_RUNTIME_STATE_ENABLED_ERROR 0x3
KFD_IOC_DBG_TRAP_ENABLE 0x0
KFD_IOC_DBG_TRAP_DISABLE 0x1
KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT 0x2
KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED 0x3
KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE 0x4
KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE 0x5
KFD_IOC_DBG_TRAP_SUSPEND_QUEUES 0x6
KFD_IOC_DBG_TRAP_RESUME_QUEUES 0x7
KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH 0x8
KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH 0x9
KFD_IOC_DBG_TRAP_SET_FLAGS 0xa
KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT 0xb
KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO 0xc
KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT 0xd
KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT 0xe
KFD_IOC_PROFILER_PMC 0x0
KFD_IOC_PROFILER_VERSION 0x2
KFD_IOC_PROFILER_PTL_CONTROL 0x3
KFD_IOC_PROFILER_PC_SAMPLE 0x1
KFD_IOCTL_SPM_OP_ACQUIRE 0x0
KFD_IOCTL_SPM_OP_RELEASE 0x1
KFD_IOCTL_SPM_OP_SET_DEST_BUF 0x2
KFD_IOCTL_PCS_OP_QUERY_CAPABILITIES 0x0
KFD_IOCTL_PCS_OP_CREATE 0x1
KFD_IOCTL_PCS_OP_DESTROY 0x2
KFD_IOCTL_PCS_OP_START 0x3
KFD_IOCTL_PCS_OP_STOP 0x4
KFD_IOCTL_PCS_METHOD_HOSTTRAP 0x1
KFD_IOCTL_PCS_METHOD_STOCHASTIC 0x2
KFD_IOCTL_PCS_TYPE_TIME_US 0x0
KFD_IOCTL_PCS_TYPE_CLOCK_CYCLES 0x1
KFD_IOCTL_PCS_TYPE_INSTRUCTIONS 0x2
KFD_IOC_AIS_READ 0x1
KFD_IOC_AIS_WRITE 0x2
KFD_MMAP_TYPE_SHIFT 0x3e
KFD_MMAP_TYPE_MASK 0xc000000000000000
KFD_MMAP_TYPE_DOORBELL 0xc000000000000000
KFD_MMAP_TYPE_EVENTS 0x8000000000000000
KFD_MMAP_TYPE_RESERVED_MEM 0x4000000000000000
KFD_MMAP_TYPE_MMIO 0x0
KFD_MMAP_GPU_ID_SHIFT 0x2e
KFD_MMAP_GPU_ID_MASK 0x3fffc00000000000
KFD_MAX_NUM_OF_QUEUES_PER_PROCESS 0x400
KFD_MAX_NUM_OF_PROCESSES 0x200
KFD_CWSR_TBA_TMA_SIZE 0x2000
LDS_base_gfx9..11 0x1000000000000
scratch_base_gfx9..11 0x2000000000000
LDS_base_gfx8 0x2000000000000000
scratch_base_gfx8 0x2000000100000000
";
