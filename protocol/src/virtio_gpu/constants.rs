//! Numbers of the device: identity, queues, features, commands, responses, flags.

use crate::kfd::constants::{Names, kfd_consts, kfd_flags, kfd_values};

/// Virtio device id of a GPU.
pub const DEVICE_ID: u32 = 16;

/// The control queue: every command that is answered.
pub const CONTROL_QUEUE: u16 = 0;

/// The cursor queue. Drivers ask for it on every device.
pub const CURSOR_QUEUE: u16 = 1;

/// Rings that a context has at most; `ring_idx` is below.
pub const MAX_RINGS: u8 = 64;

/// Bytes of a context's debug name.
pub const DEBUG_NAME_LEN: usize = 64;

/// Capset of AMD's KFD interface. Registered by virglrenderer (`VIRGL_RENDERER_CAPSET_HSAKMT`), not in Linux.
pub const CAPSET_HSAKMT: u32 = 8;

/// `blob_id` of a context's memory in the window ([`HelloAnswer::window_blob`](crate::wire::structs::HelloAnswer)).
pub const WINDOW_BLOB: u64 = 1;

kfd_consts! {
    /// Bits of `context_init` that name the capset.
    CONTEXT_INIT_CAPSET_MASK: u32 = 0xff, "VIRTIO_GPU_CONTEXT_INIT_CAPSET_ID_MASK";
    /// Shared memory region for blobs that the guest maps.
    SHM_ID_HOST_VISIBLE: u8 = 1, "VIRTIO_GPU_SHM_ID_HOST_VISIBLE";
}

/// Every number of this module that has a name in `linux/virtio_gpu.h`, by group. Features are bits there:
/// [`FEATURE_BITS`] has those.
pub static ALL: &[Names] = &[
    NAMES,
    CommandId::NAMES,
    ResponseId::NAMES,
    HeaderFlags::NAMES,
    BlobMem::NAMES,
    BlobFlags::NAMES,
    MapCache::NAMES,
];

kfd_flags! {
    /// Device features, without those of virtio itself.
    pub struct Features: u64 {
        /// Contexts and their commands.
        VIRGL = 1 << 0, "VIRTIO_GPU_F_VIRGL";
        /// Monitor data.
        EDID = 1 << 1, "VIRTIO_GPU_F_EDID";
        /// Resources that other devices can name.
        RESOURCE_UUID = 1 << 2, "VIRTIO_GPU_F_RESOURCE_UUID";
        /// Blobs.
        RESOURCE_BLOB = 1 << 3, "VIRTIO_GPU_F_RESOURCE_BLOB";
        /// Contexts name their capset, and fences their ring.
        CONTEXT_INIT = 1 << 4, "VIRTIO_GPU_F_CONTEXT_INIT";
        /// Sizes of blobs are multiples of `blob_alignment`.
        BLOB_ALIGNMENT = 1 << 5, "VIRTIO_GPU_F_BLOB_ALIGNMENT";
    }

    /// Flags of the header.
    pub struct HeaderFlags: u32 {
        /// Answered when the work is finished, with this flag and the request's `fence_id`.
        FENCE = 1 << 0, "VIRTIO_GPU_FLAG_FENCE";
        /// `ring_idx` is valid.
        INFO_RING_IDX = 1 << 1, "VIRTIO_GPU_FLAG_INFO_RING_IDX";
    }

    /// What a blob may be used for.
    pub struct BlobFlags: u32 {
        /// The guest may map it.
        MAPPABLE = 1 << 0, "VIRTIO_GPU_BLOB_FLAG_USE_MAPPABLE";
        /// Other processes of the guest may get it.
        SHAREABLE = 1 << 1, "VIRTIO_GPU_BLOB_FLAG_USE_SHAREABLE";
        /// Other devices may get it.
        CROSS_DEVICE = 1 << 2, "VIRTIO_GPU_BLOB_FLAG_USE_CROSS_DEVICE";
    }
}

/// [`Features`] by the number of their bit, which is what the header gives.
pub static FEATURE_BITS: &[(&str, u32)] = &[
    ("VIRTIO_GPU_F_VIRGL", Features::VIRGL.0.trailing_zeros()),
    ("VIRTIO_GPU_F_EDID", Features::EDID.0.trailing_zeros()),
    ("VIRTIO_GPU_F_RESOURCE_UUID", Features::RESOURCE_UUID.0.trailing_zeros()),
    ("VIRTIO_GPU_F_RESOURCE_BLOB", Features::RESOURCE_BLOB.0.trailing_zeros()),
    ("VIRTIO_GPU_F_CONTEXT_INIT", Features::CONTEXT_INIT.0.trailing_zeros()),
    ("VIRTIO_GPU_F_BLOB_ALIGNMENT", Features::BLOB_ALIGNMENT.0.trailing_zeros()),
];

kfd_values! {
    /// What a request asks for.
    pub struct CommandId: u32 {
        /// Scanouts and their modes.
        GET_DISPLAY_INFO = 0x0100, "VIRTIO_GPU_CMD_GET_DISPLAY_INFO";
        /// Makes an image on the host.
        RESOURCE_CREATE_2D = 0x0101, "VIRTIO_GPU_CMD_RESOURCE_CREATE_2D";
        /// Ends a resource.
        RESOURCE_UNREF = 0x0102, "VIRTIO_GPU_CMD_RESOURCE_UNREF";
        /// Shows an image.
        SET_SCANOUT = 0x0103, "VIRTIO_GPU_CMD_SET_SCANOUT";
        /// Shows what changed.
        RESOURCE_FLUSH = 0x0104, "VIRTIO_GPU_CMD_RESOURCE_FLUSH";
        /// Copies into an image.
        TRANSFER_TO_HOST_2D = 0x0105, "VIRTIO_GPU_CMD_TRANSFER_TO_HOST_2D";
        /// Gives an image its pages.
        RESOURCE_ATTACH_BACKING = 0x0106, "VIRTIO_GPU_CMD_RESOURCE_ATTACH_BACKING";
        /// Takes them away.
        RESOURCE_DETACH_BACKING = 0x0107, "VIRTIO_GPU_CMD_RESOURCE_DETACH_BACKING";
        /// Id, version and size of a capset, by index.
        GET_CAPSET_INFO = 0x0108, "VIRTIO_GPU_CMD_GET_CAPSET_INFO";
        /// The data of a capset.
        GET_CAPSET = 0x0109, "VIRTIO_GPU_CMD_GET_CAPSET";
        /// Monitor data.
        GET_EDID = 0x010a, "VIRTIO_GPU_CMD_GET_EDID";
        /// A name of a resource for other devices.
        RESOURCE_ASSIGN_UUID = 0x010b, "VIRTIO_GPU_CMD_RESOURCE_ASSIGN_UUID";
        /// Makes a blob.
        RESOURCE_CREATE_BLOB = 0x010c, "VIRTIO_GPU_CMD_RESOURCE_CREATE_BLOB";
        /// Shows a blob.
        SET_SCANOUT_BLOB = 0x010d, "VIRTIO_GPU_CMD_SET_SCANOUT_BLOB";
        /// Makes a context.
        CTX_CREATE = 0x0200, "VIRTIO_GPU_CMD_CTX_CREATE";
        /// Ends a context.
        CTX_DESTROY = 0x0201, "VIRTIO_GPU_CMD_CTX_DESTROY";
        /// Gives a context a resource.
        CTX_ATTACH_RESOURCE = 0x0202, "VIRTIO_GPU_CMD_CTX_ATTACH_RESOURCE";
        /// Takes it away.
        CTX_DETACH_RESOURCE = 0x0203, "VIRTIO_GPU_CMD_CTX_DETACH_RESOURCE";
        /// Makes an image of more kinds.
        RESOURCE_CREATE_3D = 0x0204, "VIRTIO_GPU_CMD_RESOURCE_CREATE_3D";
        /// Copies into such an image.
        TRANSFER_TO_HOST_3D = 0x0205, "VIRTIO_GPU_CMD_TRANSFER_TO_HOST_3D";
        /// Copies out of it.
        TRANSFER_FROM_HOST_3D = 0x0206, "VIRTIO_GPU_CMD_TRANSFER_FROM_HOST_3D";
        /// Commands of a context's own kind.
        SUBMIT_3D = 0x0207, "VIRTIO_GPU_CMD_SUBMIT_3D";
        /// Shows a blob in the shared memory region.
        RESOURCE_MAP_BLOB = 0x0208, "VIRTIO_GPU_CMD_RESOURCE_MAP_BLOB";
        /// Removes it from there.
        RESOURCE_UNMAP_BLOB = 0x0209, "VIRTIO_GPU_CMD_RESOURCE_UNMAP_BLOB";
        /// Shape of the cursor (cursor queue).
        UPDATE_CURSOR = 0x0300, "VIRTIO_GPU_CMD_UPDATE_CURSOR";
        /// Place of the cursor (cursor queue).
        MOVE_CURSOR = 0x0301, "VIRTIO_GPU_CMD_MOVE_CURSOR";
    }

    /// What a response is.
    pub struct ResponseId: u32 {
        /// Done.
        OK_NODATA = 0x1100, "VIRTIO_GPU_RESP_OK_NODATA";
        /// Scanouts.
        OK_DISPLAY_INFO = 0x1101, "VIRTIO_GPU_RESP_OK_DISPLAY_INFO";
        /// About a capset.
        OK_CAPSET_INFO = 0x1102, "VIRTIO_GPU_RESP_OK_CAPSET_INFO";
        /// A capset.
        OK_CAPSET = 0x1103, "VIRTIO_GPU_RESP_OK_CAPSET";
        /// Monitor data.
        OK_EDID = 0x1104, "VIRTIO_GPU_RESP_OK_EDID";
        /// A resource's name for other devices.
        OK_RESOURCE_UUID = 0x1105, "VIRTIO_GPU_RESP_OK_RESOURCE_UUID";
        /// How a blob is to be mapped.
        OK_MAP_INFO = 0x1106, "VIRTIO_GPU_RESP_OK_MAP_INFO";
        /// None of the other errors.
        ERR_UNSPEC = 0x1200, "VIRTIO_GPU_RESP_ERR_UNSPEC";
        /// No memory, or over a limit.
        ERR_OUT_OF_MEMORY = 0x1201, "VIRTIO_GPU_RESP_ERR_OUT_OF_MEMORY";
        /// No such scanout.
        ERR_INVALID_SCANOUT_ID = 0x1202, "VIRTIO_GPU_RESP_ERR_INVALID_SCANOUT_ID";
        /// No such resource, or it is there already.
        ERR_INVALID_RESOURCE_ID = 0x1203, "VIRTIO_GPU_RESP_ERR_INVALID_RESOURCE_ID";
        /// No such context, or it is there already.
        ERR_INVALID_CONTEXT_ID = 0x1204, "VIRTIO_GPU_RESP_ERR_INVALID_CONTEXT_ID";
        /// Another field is wrong.
        ERR_INVALID_PARAMETER = 0x1205, "VIRTIO_GPU_RESP_ERR_INVALID_PARAMETER";
    }

    /// Where a blob's memory is.
    pub struct BlobMem: u32 {
        /// Pages of the guest.
        GUEST = 1, "VIRTIO_GPU_BLOB_MEM_GUEST";
        /// Memory of the host.
        HOST3D = 2, "VIRTIO_GPU_BLOB_MEM_HOST3D";
        /// Both.
        HOST3D_GUEST = 3, "VIRTIO_GPU_BLOB_MEM_HOST3D_GUEST";
    }

    /// How the guest is to map a blob.
    pub struct MapCache: u32 {
        /// Not said.
        NONE = 0, "VIRTIO_GPU_MAP_CACHE_NONE";
        /// Cached.
        CACHED = 1, "VIRTIO_GPU_MAP_CACHE_CACHED";
        /// Uncached.
        UNCACHED = 2, "VIRTIO_GPU_MAP_CACHE_UNCACHED";
        /// Write-combined.
        WC = 3, "VIRTIO_GPU_MAP_CACHE_WC";
    }
}
