//! Which DRM calls exist on amdgpu's render nodes, and which of them are declared here.

use super::TYPE;
use super::args::{
    AmdgpuGemCreate, AmdgpuGemMetadata, AmdgpuGemMmap, AmdgpuGemOp, AmdgpuGemVa, AmdgpuGemWaitIdle,
    AmdgpuInfo, Client, GemClose, GetCap, PrimeHandle, Version,
};
use crate::Errno;
use crate::kfd::flat::Declared;
use crate::kfd::ioctl::{
    Beyond, Bound, Direction, FdField, FdPlace, FieldRef, Flow, Length, Op, Ops, Pointer, Reach, Reaches,
    Stride, Struct,
};
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
    /// What every call touches.
    pub reach: Reach,
    /// Operations, where an argument selects one that touches more.
    pub ops: Option<&'static Ops>,
}

/// The most that one answer of the driver is long, in bytes: far above every answer that is declared.
const LONGEST_ANSWER: u64 = 4096;

/// A buffer for an answer that is cut to its length.
const fn answer(addr: FieldRef, len: FieldRef) -> Pointer {
    Pointer {
        addr,
        length: Length::Array { count: len, per: 1, stride: Stride::Bytes(1) },
        flow: Flow::Out,
        bound: Bound { max: LONGEST_ANSWER, beyond: Beyond::Clamped },
    }
}

/// `drm_version`: three strings, each cut to the caller's buffer (`drm_copy_field`).
const VERSION: Reach = Reach {
    pointers: &[
        answer(FieldRef::of::<Version>("name"), FieldRef::of::<Version>("name_len")),
        answer(FieldRef::of::<Version>("date"), FieldRef::of::<Version>("date_len")),
        answer(FieldRef::of::<Version>("desc"), FieldRef::of::<Version>("desc_len")),
    ],
    ..Reach::NONE
};

/// `amdgpu_info_ioctl`.
const INFO: Reach = Reach {
    pointers: &[answer(
        FieldRef::of::<AmdgpuInfo>("return_pointer"),
        FieldRef::of::<AmdgpuInfo>("return_size"),
    )],
    ..Reach::NONE
};

const EXPORT: Reach = Reach { fds: &[prime_fd(Flow::Out)], ..Reach::NONE };

const IMPORT: Reach = Reach { fds: &[prime_fd(Flow::In)], ..Reach::NONE };

const fn prime_fd(flow: Flow) -> FdField {
    FdField { place: FdPlace::Args(FieldRef::of::<PrimeHandle>("fd")), flow }
}

/// `amdgpu_gem_op_ioctl`: AMDGPU_GEM_OP_GET_GEM_CREATE_INFO writes a `struct drm_amdgpu_gem_create_in`.
const GEM_OP: Ops = Ops {
    selector: FieldRef::of::<AmdgpuGemOp>("op"),
    list: &[Op {
        value: 0,
        name: "AMDGPU_GEM_OP_GET_GEM_CREATE_INFO",
        body: None,
        reach: Reach {
            pointers: &[Pointer {
                addr: FieldRef::of::<AmdgpuGemOp>("value"),
                length: Length::Fixed(32),
                flow: Flow::Out,
                bound: Bound { max: 32, beyond: Beyond::Clamped },
            }],
            ..Reach::NONE
        },
        ops: None,
    }],
};

macro_rules! drm_ioctls {
    ($($(#[$doc:meta])* $variant:ident: $name:literal, $nr:expr, $direction:ident, $args:ty
        $(, reach $reach:expr)? $(, ops $ops:expr)?;)*) => {
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
                            reach: reach!($($reach)?),
                            ops: ops!($($ops)?),
                        };
                        &DECL
                    })*
                }
            }
        }
    };
}

macro_rules! reach {
    () => {
        Reach::NONE
    };
    ($reach:expr) => {
        $reach
    };
}

macro_rules! ops {
    () => {
        None
    };
    ($ops:expr) => {
        Some(&$ops)
    };
}

drm_ioctls! {
    /// Name and version of the driver.
    Version: "DRM_IOCTL_VERSION", 0x00, ReadWrite, Version, reach VERSION;
    /// Who the caller is.
    GetClient: "DRM_IOCTL_GET_CLIENT", 0x05, ReadWrite, Client;
    /// Drops a handle.
    GemClose: "DRM_IOCTL_GEM_CLOSE", 0x09, Write, GemClose;
    /// What the driver can do.
    GetCap: "DRM_IOCTL_GET_CAP", 0x0c, ReadWrite, GetCap;
    /// Exports a buffer as dma-buf.
    PrimeHandleToFd: "DRM_IOCTL_PRIME_HANDLE_TO_FD", 0x2d, ReadWrite, PrimeHandle, reach EXPORT;
    /// Imports a dma-buf.
    PrimeFdToHandle: "DRM_IOCTL_PRIME_FD_TO_HANDLE", 0x2e, ReadWrite, PrimeHandle, reach IMPORT;
    /// Creates a buffer.
    AmdgpuGemCreate: "DRM_IOCTL_AMDGPU_GEM_CREATE", FIRST_DRIVER_NR, ReadWrite, AmdgpuGemCreate;
    /// Where to map a buffer.
    AmdgpuGemMmap: "DRM_IOCTL_AMDGPU_GEM_MMAP", FIRST_DRIVER_NR + 0x01, ReadWrite, AmdgpuGemMmap;
    /// Information about the device.
    AmdgpuInfo: "DRM_IOCTL_AMDGPU_INFO", FIRST_DRIVER_NR + 0x05, Write, AmdgpuInfo, reach INFO;
    /// Metadata of a buffer.
    AmdgpuGemMetadata: "DRM_IOCTL_AMDGPU_GEM_METADATA", FIRST_DRIVER_NR + 0x06, ReadWrite, AmdgpuGemMetadata;
    /// Waits until nobody uses a buffer.
    AmdgpuGemWaitIdle: "DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE", FIRST_DRIVER_NR + 0x07, ReadWrite, AmdgpuGemWaitIdle;
    /// Maps a buffer to the GPU.
    AmdgpuGemVa: "DRM_IOCTL_AMDGPU_GEM_VA", FIRST_DRIVER_NR + 0x08, Write, AmdgpuGemVa;
    /// Properties of a buffer.
    AmdgpuGemOp: "DRM_IOCTL_AMDGPU_GEM_OP", FIRST_DRIVER_NR + 0x10, ReadWrite, AmdgpuGemOp, ops GEM_OP;
}

impl DrmIoctl {
    /// Request code of the uapi header.
    #[must_use]
    pub const fn request(self) -> u32 {
        let decl = self.decl();
        decl.direction.request_code(TYPE, decl.nr, decl.args.size)
    }
}

impl Declared for DrmIoctl {
    fn reaches(self, args: &[u8]) -> Reaches<'_> {
        let decl = self.decl();
        Reaches::new(decl.reach, decl.ops, args)
    }
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
