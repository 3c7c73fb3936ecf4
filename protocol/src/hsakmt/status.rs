//! Status codes of the thunk (`HSAKMT_STATUS`).

/// Why a call failed. Success is `Ok(())` of a `Result<(), Status>`; [`Status::to_c`] makes the C value of it.
///
/// C: `HSAKMT_STATUS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[repr(u32)]
pub enum Status {
    /// Any failure that has no status of its own.
    #[error("the operation failed")]
    Error = 1,
    /// The thunk and the kernel's driver do not fit together.
    #[error("the kernel's driver does not fit this library")]
    DriverMismatch = 2,
    /// An argument is not valid.
    #[error("an argument is not valid")]
    InvalidParameter = 3,
    /// A handle (event, queue, trace, memory) is not valid.
    #[error("a handle is not valid")]
    InvalidHandle = 4,
    /// There is no such node, or it is not of the kind that the call needs.
    #[error("the node does not exist or is of the wrong kind")]
    InvalidNodeUnit = 5,
    /// Out of memory, on the host or on the GPU.
    #[error("there is not enough memory")]
    NoMemory = 6,
    /// A buffer of the caller is too small for the result.
    #[error("the caller's buffer is too small")]
    BufferTooSmall = 7,
    /// Not implemented for these arguments.
    #[error("the function is not implemented for these arguments")]
    NotImplemented = 10,
    /// Not supported on this node, by this kernel or by this transport.
    #[error("the function is not supported here")]
    NotSupported = 11,
    /// Not possible now; perhaps later.
    #[error("the function is not available at the moment")]
    Unavailable = 12,
    /// A limit other than memory is reached.
    #[error("there are not enough resources")]
    OutOfResources = 13,
    /// hsaKmtOpenKFD has not been called, or did not succeed, in this process.
    #[error("the KFD is not open")]
    KernelIoChannelNotOpened = 20,
    /// The kernel gave an answer that makes no sense.
    #[error("the communication with the kernel failed")]
    KernelCommunicationError = 21,
    /// The KFD is open already. hsaKmtOpenKFD counts this as success.
    #[error("the KFD is open already")]
    KernelAlreadyOpened = 22,
    /// The IOMMU cannot translate addresses for the GPU.
    #[error("address translation services are not available")]
    HsammuUnavailable = 23,
    /// Waiting failed.
    #[error("the wait failed")]
    WaitFailure = 30,
    /// The time of a wait is over.
    #[error("the wait timed out")]
    WaitTimeout = 31,
    /// The memory is registered already.
    #[error("the memory is registered already")]
    MemoryAlreadyRegistered = 35,
    /// The memory is not registered.
    #[error("the memory is not registered")]
    MemoryNotRegistered = 36,
    /// An address or size is not aligned.
    #[error("an address or size is not aligned")]
    MemoryAlignment = 37,
}

impl Status {
    /// The C value of success (`HSAKMT_STATUS_SUCCESS`).
    pub const SUCCESS: u32 = 0;

    /// All statuses with their C names.
    pub const ALL: &'static [(Status, &'static str)] = &[
        (Status::Error, "HSAKMT_STATUS_ERROR"),
        (Status::DriverMismatch, "HSAKMT_STATUS_DRIVER_MISMATCH"),
        (Status::InvalidParameter, "HSAKMT_STATUS_INVALID_PARAMETER"),
        (Status::InvalidHandle, "HSAKMT_STATUS_INVALID_HANDLE"),
        (Status::InvalidNodeUnit, "HSAKMT_STATUS_INVALID_NODE_UNIT"),
        (Status::NoMemory, "HSAKMT_STATUS_NO_MEMORY"),
        (Status::BufferTooSmall, "HSAKMT_STATUS_BUFFER_TOO_SMALL"),
        (Status::NotImplemented, "HSAKMT_STATUS_NOT_IMPLEMENTED"),
        (Status::NotSupported, "HSAKMT_STATUS_NOT_SUPPORTED"),
        (Status::Unavailable, "HSAKMT_STATUS_UNAVAILABLE"),
        (Status::OutOfResources, "HSAKMT_STATUS_OUT_OF_RESOURCES"),
        (Status::KernelIoChannelNotOpened, "HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED"),
        (Status::KernelCommunicationError, "HSAKMT_STATUS_KERNEL_COMMUNICATION_ERROR"),
        (Status::KernelAlreadyOpened, "HSAKMT_STATUS_KERNEL_ALREADY_OPENED"),
        (Status::HsammuUnavailable, "HSAKMT_STATUS_HSAMMU_UNAVAILABLE"),
        (Status::WaitFailure, "HSAKMT_STATUS_WAIT_FAILURE"),
        (Status::WaitTimeout, "HSAKMT_STATUS_WAIT_TIMEOUT"),
        (Status::MemoryAlreadyRegistered, "HSAKMT_STATUS_MEMORY_ALREADY_REGISTERED"),
        (Status::MemoryNotRegistered, "HSAKMT_STATUS_MEMORY_NOT_REGISTERED"),
        (Status::MemoryAlignment, "HSAKMT_STATUS_MEMORY_ALIGNMENT"),
    ];

    /// The C value.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The C name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(status, ..)| *status == self)
            .map_or("HSAKMT_STATUS_ERROR", |(.., name)| *name)
    }

    /// The C value of a result.
    #[must_use]
    pub fn to_c(result: Result<(), Status>) -> u32 {
        result.map_or_else(Status::code, |()| Self::SUCCESS)
    }

    /// The result that a C value stands for; `None` for a number that is no status.
    #[must_use]
    pub fn from_c(code: u32) -> Option<Result<(), Status>> {
        if code == Self::SUCCESS {
            return Some(Ok(()));
        }
        Self::ALL.iter().find(|(status, _)| status.code() == code).map(|(status, _)| Err(*status))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_status_has_its_own_code_name_and_sentence() {
        let codes: BTreeSet<_> = Status::ALL.iter().map(|(status, _)| status.code()).collect();
        let names: BTreeSet<_> = Status::ALL.iter().map(|(status, _)| status.name()).collect();
        let sentences: BTreeSet<_> = Status::ALL.iter().map(|(status, _)| status.to_string()).collect();
        assert_eq!((codes.len(), names.len(), sentences.len()), (20, 20, 20));
        assert_eq!(codes.first(), Some(&1));
        assert_eq!(codes.last(), Some(&37));
    }

    #[test]
    fn results_go_to_c_and_back() {
        for code in 0..=u32::from(u8::MAX) {
            if let Some(result) = Status::from_c(code) {
                assert_eq!(Status::to_c(result), code);
            }
        }
        assert_eq!(Status::from_c(0), Some(Ok(())));
        assert_eq!(Status::from_c(8), None);
        assert_eq!(Status::to_c(Err(Status::WaitTimeout)), 31);
    }
}
