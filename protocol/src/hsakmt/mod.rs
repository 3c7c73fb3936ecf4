//! The public C types of the thunk (`hsakmt.h`, `hsakmttypes.h`).

mod status;

pub use status::Status;

/// `HsaVersionInfo`: version of the kernel's interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VersionInfo {
    /// Major number; 1.
    pub kernel_interface_major_version: u32,
    /// Minor number, raised with each addition.
    pub kernel_interface_minor_version: u32,
}
