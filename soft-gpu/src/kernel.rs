//! Which kernel's KFD the software GPU behaves like, where kernels differ.

use std::fmt;
use std::str::FromStr;

/// A kernel whose KFD is imitated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Linux 6.12, KFD 1.17: Debian 13's, and the one that is checked against the real KFD.
    #[default]
    Linux6_12,
    /// Linux 7.3, KFD 1.23.
    Linux7_3,
    /// AMD's out-of-tree driver (amdgpu-dkms), KFD 1.19 with its own ioctls.
    Rocm,
}

impl Kernel {
    /// Every kernel, in the order of the command line's help.
    pub const ALL: [Kernel; 3] = [Kernel::Linux6_12, Kernel::Linux7_3, Kernel::Rocm];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Linux6_12 => "6.12",
            Kernel::Linux7_3 => "7.3",
            Kernel::Rocm => "rocm",
        }
    }

    /// What GET_VERSION answers: (major, minor).
    #[must_use]
    pub const fn kfd_version(self) -> (u32, u32) {
        match self {
            Kernel::Linux6_12 => (1, 17),
            Kernel::Linux7_3 => (1, 23),
            Kernel::Rocm => (1, 19),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kernel name that is not one of [`Kernel::ALL`].
#[derive(Debug, thiserror::Error)]
#[error("unknown kernel {0:?}: expected 6.12, 7.3 or rocm")]
pub struct UnknownKernel(String);

impl FromStr for Kernel {
    type Err = UnknownKernel;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Kernel::ALL
            .into_iter()
            .find(|kernel| kernel.name() == name)
            .ok_or_else(|| UnknownKernel(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.name().parse::<Kernel>().ok(), Some(kernel));
        }
        assert!("6.13".parse::<Kernel>().is_err());
    }
}
