//! What a request code stands for, whichever device node it is made on.

use crate::drm::{DrmIoctl, Known};
use crate::kfd::flat::Declared;
use crate::kfd::ioctl::{Family, Ioctl, Reach, Reaches};
use crate::kfd::request_type;

/// Request type of the KFD ioctls.
const KFD_TYPE: u8 = b'K';

/// A request whose declaration is known, so that it can be carried elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declaration {
    /// A call of `/dev/kfd`.
    Kfd(Ioctl),
    /// A call of a render node.
    Drm(DrmIoctl),
    /// Touches nothing but its arguments, as far as anybody declared.
    Unknown,
}

impl Declaration {
    /// ROCm's table first: where the families differ (0x27, 0x28), neither layout has pointers.
    #[must_use]
    pub fn of(request: u32) -> Self {
        if request_type(request) == KFD_TYPE {
            let ioctl = Ioctl::from_request(request, Family::Rocm);
            return ioctl
                .or_else(|| Ioctl::from_request(request, Family::Mainline))
                .map_or(Declaration::Unknown, Declaration::Kfd);
        }
        match DrmIoctl::select(request) {
            Ok(Known::Declared(ioctl)) => Declaration::Drm(ioctl),
            Ok(Known::Other) | Err(_) => Declaration::Unknown,
        }
    }

    /// Whether a call of this kind may sleep until somebody else does something.
    #[must_use]
    pub fn may_block(self) -> bool {
        self.reaches(&[]).any(|reach| reach.blocking)
    }
}

impl Declared for Declaration {
    fn reaches(self, args: &[u8]) -> Reaches<'_> {
        match self {
            Declaration::Kfd(ioctl) => ioctl.reaches(args),
            Declaration::Drm(ioctl) => ioctl.reaches(args),
            Declaration::Unknown => Reaches::new(Reach::NONE, None, args),
        }
    }
}
