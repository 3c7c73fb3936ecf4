//! The argument structs of the render node calls.

use crate::kfd::structs::uapi_structs;

uapi_structs! {
    /// `struct drm_version`: each string has the length of its buffer in and its own length out.
    pub struct Version: "drm_version", 64 {
        /// Major version. (out)
        pub version_major: i32,
        /// Minor version. (out)
        pub version_minor: i32,
        /// Patch level. (out)
        pub version_patchlevel: i32,
        /// Explicit padding.
        pub pad: u32,
        /// Bytes at `name`. (inout)
        pub name_len: u64,
        /// Address of a buffer for the driver's name. (in)
        pub name: u64,
        /// Bytes at `date`. (inout)
        pub date_len: u64,
        /// Address of a buffer for the date. (in)
        pub date: u64,
        /// Bytes at `desc`. (inout)
        pub desc_len: u64,
        /// Address of a buffer for the description. (in)
        pub desc: u64,
    }

    /// `struct drm_client`.
    pub struct Client: "drm_client", 40 {
        /// Which client; 0 is the caller. (in)
        pub idx: i32,
        /// Whether it is authenticated. (out)
        pub auth: i32,
        /// Its process. (out)
        pub pid: u64,
        /// Its user. (out)
        pub uid: u64,
        /// Its magic. (out)
        pub magic: u64,
        /// Calls that it made. (out)
        pub iocs: u64,
    }

    /// `struct drm_get_cap`.
    pub struct GetCap: "drm_get_cap", 16 {
        /// `DRM_CAP_*`. (in)
        pub capability: u64,
        /// Its value. (out)
        pub value: u64,
    }

    /// `struct drm_gem_close`.
    pub struct GemClose: "drm_gem_close", 8 {
        /// Buffer of this file. (in)
        pub handle: u32,
        /// Explicit padding.
        pub pad: u32,
    }

    /// `struct drm_prime_handle`.
    pub struct PrimeHandle: "drm_prime_handle", 12 {
        /// Buffer of this file. (in, out for an import)
        pub handle: u32,
        /// `DRM_CLOEXEC`, `DRM_RDWR`. (in)
        pub flags: u32,
        /// dma-buf descriptor. (out, in for an import)
        pub fd: i32,
    }

    /// `struct drm_amdgpu_info`.
    pub struct AmdgpuInfo: "drm_amdgpu_info", 32 {
        /// Address of a buffer for the answer. (in)
        pub return_pointer: u64,
        /// Bytes there; the answer is cut to it. (in)
        pub return_size: u32,
        /// `AMDGPU_INFO_*`. (in)
        pub query: u32,
        /// What the query asks about. (in)
        pub params: [u32; 4],
    }

    /// `union drm_amdgpu_gem_create`, what goes in; out comes the handle in the first word.
    pub struct AmdgpuGemCreate: "drm_amdgpu_gem_create", 32 {
        /// Bytes. (in); the handle in the lower half (out)
        pub bo_size: u64,
        /// Alignment of the memory in bytes. (in)
        pub alignment: u64,
        /// `AMDGPU_GEM_DOMAIN_*`. (in)
        pub domains: u64,
        /// `AMDGPU_GEM_CREATE_*`. (in)
        pub domain_flags: u64,
    }

    /// `union drm_amdgpu_gem_mmap`.
    pub struct AmdgpuGemMmap: "drm_amdgpu_gem_mmap", 8 {
        /// Handle in the lower half (in); offset for `mmap` (out).
        pub handle_or_offset: u64,
    }

    /// `struct drm_amdgpu_gem_va`.
    pub struct AmdgpuGemVa: "drm_amdgpu_gem_va", 40 {
        /// Buffer of this file. (in)
        pub handle: u32,
        /// Explicit padding.
        pub pad: u32,
        /// `AMDGPU_VA_OP_*`. (in)
        pub operation: u32,
        /// `AMDGPU_VM_*`. (in)
        pub flags: u32,
        /// GPU virtual address. (in)
        pub va_address: u64,
        /// First byte of the buffer. (in)
        pub offset_in_bo: u64,
        /// Bytes. (in)
        pub map_size: u64,
    }

    /// `union drm_amdgpu_gem_wait_idle`.
    pub struct AmdgpuGemWaitIdle: "drm_amdgpu_gem_wait_idle", 16 {
        /// Handle (in); 1 if the buffer is still busy (out).
        pub handle_or_status: u32,
        /// Flags (in); where the buffer is (out).
        pub flags_or_domain: u32,
        /// Absolute time in ns. (in)
        pub timeout: u64,
    }

    /// `struct drm_amdgpu_gem_op`.
    pub struct AmdgpuGemOp: "drm_amdgpu_gem_op", 16 {
        /// Buffer of this file. (in)
        pub handle: u32,
        /// `AMDGPU_GEM_OP_*`. (in)
        pub op: u32,
        /// Value, or address of a buffer for the answer. (inout)
        pub value: u64,
    }

    /// `struct drm_amdgpu_gem_metadata`.
    pub struct AmdgpuGemMetadata: "drm_amdgpu_gem_metadata", 288 {
        /// Buffer of this file. (in)
        pub handle: u32,
        /// `AMDGPU_GEM_METADATA_OP_*`. (in)
        pub op: u32,
        /// Flags of the user space driver. (inout)
        pub flags: u64,
        /// Tiling. (inout)
        pub tiling_info: u64,
        /// Bytes of `data`. (inout)
        pub data_size_bytes: u32,
        /// Metadata of the user space driver. (inout)
        pub data: [u32; 64],
        /// Explicit padding at the end.
        pub _tail: [u8; 4],
    }
}
