//! The calls of a virtio-gpu render node (`include/uapi/drm/virtgpu_drm.h`, Linux 7.3) that carry contexts and guest blobs.

use crate::kfd::ioctl::Direction;
use crate::kfd::structs::uapi_structs;

/// What GETPARAM asks for (`VIRTGPU_PARAM_*`). Each answer is a `u32`, 0 or 1 unless said otherwise.
pub mod param {
    /// Contexts that the host executes.
    pub const FEATURES_3D: u64 = 1;
    /// Blob resources.
    pub const RESOURCE_BLOB: u64 = 3;
    /// Host memory that the guest can map.
    pub const HOST_VISIBLE: u64 = 4;
    /// Contexts with a capset and rings.
    pub const CONTEXT_INIT: u64 = 6;
    /// A mask of capset ids.
    pub const SUPPORTED_CAPSET_IDS: u64 = 7;
}

/// Parameters of a context (`VIRTGPU_CONTEXT_PARAM_*`).
pub mod context_param {
    /// The capset.
    pub const CAPSET_ID: u64 = 1;
    /// Number of rings, 64 at most.
    pub const NUM_RINGS: u64 = 2;
}

/// EXECBUFFER gives a descriptor of a fence back (`VIRTGPU_EXECBUF_FENCE_FD_OUT`).
pub const EXECBUF_FENCE_FD_OUT: u32 = 2;
/// `ring_idx` of EXECBUFFER counts (`VIRTGPU_EXECBUF_RING_IDX`).
pub const EXECBUF_RING_IDX: u32 = 4;
/// A blob of the guest's own pages (`VIRTGPU_BLOB_MEM_GUEST`).
pub const BLOB_MEM_GUEST: u32 = 1;
/// A blob of the host's memory (`VIRTGPU_BLOB_MEM_HOST3D`).
pub const BLOB_MEM_HOST3D: u32 = 2;
/// The blob can be mapped by its guest (`VIRTGPU_BLOB_FLAG_USE_MAPPABLE`).
pub const BLOB_USE_MAPPABLE: u32 = 1;

uapi_structs! {
    /// `struct drm_virtgpu_map`.
    pub struct Map: "drm_virtgpu_map", 16 {
        /// Offset for `mmap` of the node. (out)
        pub offset: u64,
        /// Buffer of this file. (in)
        pub handle: u32,
        /// Zero.
        pub pad: u32,
    }

    /// `struct drm_virtgpu_execbuffer`.
    pub struct Execbuffer: "drm_virtgpu_execbuffer", 64 {
        /// `EXECBUF_*`. (in)
        pub flags: u32,
        /// Bytes at `command`. (in)
        pub size: u32,
        /// Address of the command. (in)
        pub command: u64,
        /// Address of handles of buffers that the command uses. (in)
        pub bo_handles: u64,
        /// How many. (in)
        pub num_bo_handles: u32,
        /// Descriptor of a fence. (inout)
        pub fence_fd: i32,
        /// Ring of the context. (in)
        pub ring_idx: u32,
        /// Bytes of an entry of the arrays below. (in)
        pub syncobj_stride: u32,
        /// Entries of `in_syncobjs`. (in)
        pub num_in_syncobjs: u32,
        /// Entries of `out_syncobjs`. (in)
        pub num_out_syncobjs: u32,
        /// Address of what is waited for. (in)
        pub in_syncobjs: u64,
        /// Address of what is signalled. (in)
        pub out_syncobjs: u64,
    }

    /// `struct drm_virtgpu_getparam`.
    pub struct Getparam: "drm_virtgpu_getparam", 16 {
        /// [`param`]. (in)
        pub param: u64,
        /// Address of a `u32` for the answer. (in)
        pub value: u64,
    }

    /// `struct drm_virtgpu_get_caps`.
    pub struct GetCaps: "drm_virtgpu_get_caps", 24 {
        /// Which capset. (in)
        pub cap_set_id: u32,
        /// Its version. (in)
        pub cap_set_ver: u32,
        /// Address of a buffer. (in)
        pub addr: u64,
        /// Its bytes. (in)
        pub size: u32,
        /// Zero.
        pub pad: u32,
    }

    /// `struct drm_virtgpu_resource_create_blob`.
    pub struct ResourceCreateBlob: "drm_virtgpu_resource_create_blob", 56 {
        /// `BLOB_MEM_*`. (in)
        pub blob_mem: u32,
        /// `BLOB_USE_*`. (in)
        pub blob_flags: u32,
        /// Handle of this file. (out)
        pub bo_handle: u32,
        /// The device's id of it. (out)
        pub res_handle: u32,
        /// Bytes. (in)
        pub size: u64,
        /// Zero.
        pub pad: u32,
        /// Bytes at `cmd`. (in)
        pub cmd_size: u32,
        /// Address of a command for the context, sent first. (in)
        pub cmd: u64,
        /// Name of host memory; 0 for guest blobs. (in)
        pub blob_id: u64,
        /// Hints; 0. (in)
        pub blob_hints: u32,
        /// Zero.
        pub pad2: u32,
    }

    /// `struct drm_virtgpu_context_set_param`.
    pub struct ContextSetParam: "drm_virtgpu_context_set_param", 16 {
        /// [`context_param`]. (in)
        pub param: u64,
        /// Its value. (in)
        pub value: u64,
    }

    /// `struct drm_virtgpu_context_init`.
    pub struct ContextInit: "drm_virtgpu_context_init", 16 {
        /// Entries of `ctx_set_params`. (in)
        pub num_params: u32,
        /// Zero.
        pub pad: u32,
        /// Address of [`ContextSetParam`]s. (in)
        pub ctx_set_params: u64,
    }
}

/// A call's argument struct, which belongs to one number.
pub trait Args: crate::kfd::structs::UapiStruct {
    /// Request code: number, direction (read and write), size of the struct.
    const REQUEST: u32;
}

macro_rules! requests {
    ($($args:ty: $nr:literal;)*) => {$(
        impl Args for $args {
            const REQUEST: u32 =
                Direction::ReadWrite.request_code(super::TYPE, super::FIRST_DRIVER_NR + $nr, size_of::<$args>());
        }
    )*};
}

requests! {
    Map: 1;
    Execbuffer: 2;
    Getparam: 3;
    GetCaps: 9;
    ResourceCreateBlob: 10;
    ContextInit: 11;
}

#[cfg(test)]
mod tests {
    use super::*;

    // As a C compiler computes them from the header of Linux 7.3 on x86-64.
    #[test]
    fn requests_are_those_of_the_uapi_header() {
        assert_eq!(Map::REQUEST, 0xc010_6441);
        assert_eq!(Execbuffer::REQUEST, 0xc040_6442);
        assert_eq!(Getparam::REQUEST, 0xc010_6443);
        assert_eq!(GetCaps::REQUEST, 0xc018_6449);
        assert_eq!(ResourceCreateBlob::REQUEST, 0xc038_644a);
        assert_eq!(ContextInit::REQUEST, 0xc010_644b);
    }

    #[test]
    fn fields_are_where_the_uapi_header_has_them() {
        use core::mem::offset_of;
        assert_eq!((offset_of!(Map, offset), offset_of!(Map, handle)), (0, 8));
        let exec = (offset_of!(Execbuffer, command), offset_of!(Execbuffer, fence_fd));
        assert_eq!((exec, offset_of!(Execbuffer, ring_idx)), ((8, 28), 32));
        assert_eq!((offset_of!(Execbuffer, in_syncobjs), offset_of!(Execbuffer, out_syncobjs)), (48, 56));
        assert_eq!((offset_of!(GetCaps, addr), offset_of!(GetCaps, size)), (8, 16));
        let blob = (offset_of!(ResourceCreateBlob, bo_handle), offset_of!(ResourceCreateBlob, res_handle));
        assert_eq!(blob, (8, 12));
        let size = (offset_of!(ResourceCreateBlob, size), offset_of!(ResourceCreateBlob, cmd_size));
        assert_eq!((size, offset_of!(ResourceCreateBlob, blob_id)), ((16, 28), 40));
        assert_eq!(offset_of!(ContextInit, ctx_set_params), 8);
    }
}
