//! Which DRM calls exist on amdgpu's render nodes, and which of them are declared here.

use super::TYPE;
use super::args::{
    AmdgpuGemCreate, AmdgpuGemMetadata, AmdgpuGemMmap, AmdgpuGemOp, AmdgpuGemVa, AmdgpuGemWaitIdle,
    AmdgpuInfo, Client, GemClose, GetCap, PrimeHandle, Version,
};
use crate::Errno;
use crate::kfd::ioctl::{Direction, Struct};
use crate::kfd::{request_nr, request_type};

/// Number of the driver's first call (`DRM_COMMAND_BASE`).
pub const FIRST_DRIVER_NR: u8 = 0x40;

/// A declared call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decl {
    /// The uapi's name.
    pub name: &'static str,
    /// Command number.
    pub nr: u8,
    /// Direction in the driver's table. A direction is only used if the request has it too (`drm_ioctl`).
    pub direction: Direction,
    /// The argument struct.
    pub args: Struct,
}

macro_rules! drm_ioctls {
    ($($(#[$doc:meta])* $variant:ident: $name:literal, $nr:expr, $direction:ident, $args:ty;)*) => {
        /// A call that is declared.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DrmIoctl {
            $($(#[$doc])* $variant,)*
        }

        impl DrmIoctl {
            /// Every declared call.
            pub const ALL: &'static [DrmIoctl] = &[$(DrmIoctl::$variant),*];

            /// Its declaration.
            #[must_use]
            pub const fn decl(self) -> &'static Decl {
                match self {
                    $(DrmIoctl::$variant => {
                        const DECL: Decl = Decl {
                            name: $name,
                            nr: $nr,
                            direction: Direction::$direction,
                            args: Struct::of::<$args>(),
                        };
                        &DECL
                    })*
                }
            }
        }
    };
}

drm_ioctls! {
    /// Name and version of the driver.
    Version: "DRM_IOCTL_VERSION", 0x00, ReadWrite, Version;
    /// Who the caller is.
    GetClient: "DRM_IOCTL_GET_CLIENT", 0x05, ReadWrite, Client;
    /// Drops a handle.
    GemClose: "DRM_IOCTL_GEM_CLOSE", 0x09, Write, GemClose;
    /// What the driver can do.
    GetCap: "DRM_IOCTL_GET_CAP", 0x0c, ReadWrite, GetCap;
    /// Exports a buffer as dma-buf.
    PrimeHandleToFd: "DRM_IOCTL_PRIME_HANDLE_TO_FD", 0x2d, ReadWrite, PrimeHandle;
    /// Imports a dma-buf.
    PrimeFdToHandle: "DRM_IOCTL_PRIME_FD_TO_HANDLE", 0x2e, ReadWrite, PrimeHandle;
    /// Creates a buffer.
    AmdgpuGemCreate: "DRM_IOCTL_AMDGPU_GEM_CREATE", FIRST_DRIVER_NR, ReadWrite, AmdgpuGemCreate;
    /// Where to map a buffer.
    AmdgpuGemMmap: "DRM_IOCTL_AMDGPU_GEM_MMAP", FIRST_DRIVER_NR + 0x01, ReadWrite, AmdgpuGemMmap;
    /// Information about the device.
    AmdgpuInfo: "DRM_IOCTL_AMDGPU_INFO", FIRST_DRIVER_NR + 0x05, Write, AmdgpuInfo;
    /// Metadata of a buffer.
    AmdgpuGemMetadata: "DRM_IOCTL_AMDGPU_GEM_METADATA", FIRST_DRIVER_NR + 0x06, ReadWrite, AmdgpuGemMetadata;
    /// Waits until nobody uses a buffer.
    AmdgpuGemWaitIdle: "DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE", FIRST_DRIVER_NR + 0x07, ReadWrite, AmdgpuGemWaitIdle;
    /// Maps a buffer to the GPU.
    AmdgpuGemVa: "DRM_IOCTL_AMDGPU_GEM_VA", FIRST_DRIVER_NR + 0x08, Write, AmdgpuGemVa;
    /// Properties of a buffer.
    AmdgpuGemOp: "DRM_IOCTL_AMDGPU_GEM_OP", FIRST_DRIVER_NR + 0x10, ReadWrite, AmdgpuGemOp;
}

/// What amdgpu has at a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// A declared call.
    Declared(DrmIoctl),
    /// A call of the kernel that is not declared here: its user space is a graphics driver.
    Other,
}

/// Core calls for display or for authenticated and privileged clients, not open to render nodes (`drm_ioctls`
/// without `DRM_RENDER_ALLOW`). GET_CLIENT is one, but see [`DrmIoctl::select`].
const NOT_FOR_RENDER_NODES: [u8; 23] = [
    0x01, 0x02, 0x06, 0x07, 0x0a, 0x0b, 0x0d, 0x10, 0x11, 0x12, 0x13, 0x1e, 0x1f, 0x27, 0x28, 0x2c, 0x3a,
    0x3b, 0x3c, 0x3f, 0xce, 0xd0, 0xc6,
];

/// Core calls on synchronisation objects.
const SYNCOBJ: [u8; 12] = [0xbf, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xca, 0xcb, 0xcc, 0xcd, 0xcf];

/// Calls of amdgpu that are not declared: CTX, BO_LIST, CS, WAIT_CS, USERPTR, WAIT_FENCES, VM,
/// FENCE_TO_HANDLE.
const AMDGPU_OTHERS: [u8; 8] = [0x42, 0x43, 0x44, 0x49, 0x51, 0x52, 0x53, 0x54];

/// SCHED, for the display master.
const AMDGPU_SCHED: u8 = 0x55;

impl DrmIoctl {
    /// The call with this request's number, as `drm_ioctl` of Linux 6.12 finds it on a render node.
    ///
    /// GET_CLIENT is answered although the kernel refuses it on render nodes: libdrm asks it where it does not
    /// recognise the node as a render node, and gives up if that fails.
    ///
    /// # Errors
    /// `ENOTTY` for another type letter, `EINVAL` for a number that does not exist, `EACCES` for one that is
    /// not for render nodes.
    pub fn select(request: u32) -> Result<Known, Errno> {
        if request_type(request) != TYPE {
            return Err(Errno::ENOTTY);
        }
        let nr = request_nr(request);
        if let Some(&ioctl) = Self::ALL.iter().find(|ioctl| ioctl.decl().nr == nr) {
            return Ok(Known::Declared(ioctl));
        }
        match nr {
            nr if SYNCOBJ.contains(&nr) || AMDGPU_OTHERS.contains(&nr) => Ok(Known::Other),
            0xa0..=0xbe | 0xc7..=0xc9 | AMDGPU_SCHED => Err(Errno::EACCES),
            nr if NOT_FOR_RENDER_NODES.contains(&nr) => Err(Errno::EACCES),
            _ => Err(Errno::EINVAL),
        }
    }
}
