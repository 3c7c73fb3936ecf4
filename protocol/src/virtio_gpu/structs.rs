//! Layouts of requests, responses and the config space. Everything is little endian.
//!
//! Fields called `padding` have no meaning: zero in what we write, and not looked at in what we read, as in Linux.

use zerocopy::little_endian::{U32, U64};

use crate::kfd::structs::uapi_structs;

uapi_structs! {
    /// Head of every request and response.
    pub struct CtrlHdr: "virtio_gpu_ctrl_hdr", 24 {
        /// [`CommandId`](super::CommandId) or [`ResponseId`](super::ResponseId).
        pub type_: U32,
        /// [`HeaderFlags`](super::HeaderFlags).
        pub flags: U32,
        /// Which fence, with [`FENCE`](super::HeaderFlags::FENCE).
        pub fence_id: U64,
        /// Context that the command is for.
        pub ctx_id: U32,
        /// Ring of the context, with [`INFO_RING_IDX`](super::HeaderFlags::INFO_RING_IDX).
        pub ring_idx: u8,
        /// Padding.
        pub padding: [u8; 3],
    }

    /// RESOURCE_UNREF.
    pub struct ResourceUnref: "virtio_gpu_resource_unref", 32 {
        /// Header.
        pub hdr: CtrlHdr,
        /// Which resource.
        pub resource_id: U32,
        /// Padding.
        pub padding: U32,
    }

    /// A piece of guest memory. Follows RESOURCE_CREATE_BLOB.
    pub struct MemEntry: "virtio_gpu_mem_entry", 16 {
        /// Guest physical address.
        pub addr: U64,
        /// Bytes.
        pub length: U32,
        /// Padding.
        pub padding: U32,
    }

    /// CTX_CREATE.
    pub struct CtxCreate: "virtio_gpu_ctx_create", 96 {
        /// Header.
        pub hdr: CtrlHdr,
        /// Bytes of `debug_name` that are used.
        pub nlen: U32,
        /// Low 8 bits: the capset.
        pub context_init: U32,
        /// Who made it; Linux puts the name of the task there.
        pub debug_name: [u8; 64],
    }

    /// CTX_DESTROY.
    pub struct CtxDestroy: "virtio_gpu_ctx_destroy", 24 {
        /// Header.
        pub hdr: CtrlHdr,
    }

    /// CTX_ATTACH_RESOURCE, CTX_DETACH_RESOURCE.
    pub struct CtxResource: "virtio_gpu_ctx_resource", 32 {
        /// Header.
        pub hdr: CtrlHdr,
        /// Which resource.
        pub resource_id: U32,
        /// Padding.
        pub padding: U32,
    }

    /// SUBMIT_3D. The commands follow.
    pub struct CmdSubmit: "virtio_gpu_cmd_submit", 32 {
        /// Header.
        pub hdr: CtrlHdr,
        /// Bytes of the commands.
        pub size: U32,
        /// Padding.
        pub padding: U32,
    }

    /// GET_CAPSET_INFO.
    pub struct GetCapsetInfo: "virtio_gpu_get_capset_info", 32 {
        /// Header.
        pub hdr: CtrlHdr,
        /// Index, below `num_capsets` of [`Config`].
        pub capset_index: U32,
        /// Padding.
        pub padding: U32,
    }

    /// Response OK_CAPSET_INFO.
    pub struct RespCapsetInfo: "virtio_gpu_resp_capset_info", 40 {
        /// Header.
        pub hdr: CtrlHdr,
        /// Id of the capset.
        pub capset_id: U32,
        /// Highest version that GET_CAPSET takes.
        pub capset_max_version: U32,
        /// Bytes of its data.
        pub capset_max_size: U32,
        /// Padding.
        pub padding: U32,
    }

    /// GET_CAPSET.
    pub struct GetCapset: "virtio_gpu_get_capset", 32 {
        /// Header.
        pub hdr: CtrlHdr,
        /// Id of the capset.
        pub capset_id: U32,
        /// Version.
        pub capset_version: U32,
    }

    /// Response OK_CAPSET. The data follow.
    pub struct RespCapset: "virtio_gpu_resp_capset", 24 {
        /// Header.
        pub hdr: CtrlHdr,
    }

    /// RESOURCE_CREATE_BLOB. `nr_entries` of [`MemEntry`] follow.
    pub struct ResourceCreateBlob: "virtio_gpu_resource_create_blob", 56 {
        /// Header; the context is 0 for guest memory.
        pub hdr: CtrlHdr,
        /// Id that the guest gives it.
        pub resource_id: U32,
        /// [`BlobMem`](super::BlobMem).
        pub blob_mem: U32,
        /// [`BlobFlags`](super::BlobFlags).
        pub blob_flags: U32,
        /// Number of entries.
        pub nr_entries: U32,
        /// Memory of the context, for host memory.
        pub blob_id: U64,
        /// Bytes.
        pub size: U64,
    }

    /// RESOURCE_MAP_BLOB.
    pub struct ResourceMapBlob: "virtio_gpu_resource_map_blob", 40 {
        /// Header.
        pub hdr: CtrlHdr,
        /// Which resource.
        pub resource_id: U32,
        /// Padding.
        pub padding: U32,
        /// Where in the shared memory region.
        pub offset: U64,
    }

    /// Response OK_MAP_INFO.
    pub struct RespMapInfo: "virtio_gpu_resp_map_info", 32 {
        /// Header.
        pub hdr: CtrlHdr,
        /// [`MapCache`](super::MapCache).
        pub map_info: U32,
        /// Padding.
        pub padding: U32,
    }

    /// RESOURCE_UNMAP_BLOB.
    pub struct ResourceUnmapBlob: "virtio_gpu_resource_unmap_blob", 32 {
        /// Header.
        pub hdr: CtrlHdr,
        /// Which resource.
        pub resource_id: U32,
        /// Padding.
        pub padding: U32,
    }

    /// The config space.
    pub struct Config: "virtio_gpu_config", 20 {
        /// Bit 0: a display changed.
        pub events_read: U32,
        /// Bits that the driver clears in `events_read`.
        pub events_clear: U32,
        /// Number of scanouts.
        pub num_scanouts: U32,
        /// Number of capsets.
        pub num_capsets: U32,
        /// Bytes, with [`BLOB_ALIGNMENT`](super::Features::BLOB_ALIGNMENT).
        pub blob_alignment: U32,
    }
}
