//! Versions, number ranges, limits and fixed addresses.

super::kfd_consts! {
    /// Major version of the interface.
    MAJOR_VERSION: u32 = 1, "KFD_IOCTL_MAJOR_VERSION";
    /// Minor version in mainline's newest header (Linux 7.3).
    MINOR_VERSION: u32 = 23, "KFD_IOCTL_MINOR_VERSION";
    /// Minor version in Linux 6.12.
    MINOR_VERSION_6_12: u32 = 17, "KFD_IOCTL_MINOR_VERSION";
    /// Minor version in ROCm's header.
    MINOR_VERSION_ROCM: u32 = 19, "KFD_IOCTL_MINOR_VERSION";
    /// Lowest ioctl number.
    COMMAND_START: u8 = 0x01, "AMDKFD_COMMAND_START";
    /// One above the highest ioctl number in mainline's newest header.
    COMMAND_END: u8 = 0x29, "AMDKFD_COMMAND_END";
    /// The same in ROCm's header.
    COMMAND_END_ROCM: u8 = 0x28, "AMDKFD_COMMAND_END";
    /// Lowest number of ROCm's second range.
    COMMAND_START_2: u8 = 0x80, "AMDKFD_COMMAND_START_2";
    /// One above the highest number of ROCm's second range.
    COMMAND_END_2: u8 = 0x88, "AMDKFD_COMMAND_END_2";
    /// GPUs that fit into GET_PROCESS_APERTURES' struct.
    NUM_OF_SUPPORTED_GPUS: u32 = 7, "NUM_OF_SUPPORTED_GPUS";
    /// Deprecated debugger: watch points.
    MAX_ALLOWED_NUM_POINTS: u32 = 100, "MAX_ALLOWED_NUM_POINTS";
    /// Deprecated debugger: bytes of an address watch.
    MAX_ALLOWED_AW_BUFF_SIZE: u32 = 4096, "MAX_ALLOWED_AW_BUFF_SIZE";
    /// Deprecated debugger: bytes of a wave control.
    MAX_ALLOWED_WAC_BUFF_SIZE: u32 = 128, "MAX_ALLOWED_WAC_BUFF_SIZE";
    /// No descriptor.
    INVALID_FD: u32 = 0xffff_ffff, "KFD_INVALID_FD";
    /// No GPU (ROCm's header).
    INVALID_GPUID: u32 = 0xffff_ffff, "KFD_INVALID_GPUID";
    /// No queue (ROCm's header).
    INVALID_QUEUEID: u32 = 0xffff_ffff, "KFD_INVALID_QUEUEID";
    /// Queues of one process; also its doorbells on one GPU. From `kfd_priv.h`.
    MAX_QUEUES_PER_PROCESS: u32 = 1024, "KFD_MAX_NUM_OF_QUEUES_PER_PROCESS";
    /// Processes that use KFD at a time. From `kfd_priv.h`.
    MAX_PROCESSES: u32 = 512, "KFD_MAX_NUM_OF_PROCESSES";
    /// Bytes of the kernel's trap handler and its data: two GPU pages. From `kfd_priv.h`.
    CWSR_TBA_TMA_SIZE: u32 = 8192, "KFD_CWSR_TBA_TMA_SIZE";
    /// First address of the LDS aperture, gfx9 to gfx11 (`kfd_init_apertures_v9`); 4 GiB long.
    LDS_BASE_GFX9: u64 = 0x1_0000_0000_0000, "LDS base gfx9..11";
    /// First address of the scratch aperture, gfx9 to gfx11; 4 GiB long.
    SCRATCH_BASE_GFX9: u64 = 0x2_0000_0000_0000, "scratch base gfx9..11";
    /// First address of the LDS aperture, gfx8 (`kfd_init_apertures_vi`); 4 GiB long.
    LDS_BASE_GFX8: u64 = 0x2000_0000_0000_0000, "LDS base gfx8";
    /// First address of the scratch aperture, gfx8; 4 GiB long.
    SCRATCH_BASE_GFX8: u64 = 0x2000_0001_0000_0000, "scratch base gfx8";
}
