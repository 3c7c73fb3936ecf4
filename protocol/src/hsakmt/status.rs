//! `HSAKMT_STATUS`: why a call failed.

/// An error code of the thunk (`HSAKMT_STATUS_*`). Success is `Ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u32)]
pub enum Status {
    /// `HSAKMT_STATUS_ERROR`.
    #[error("the call failed")]
    Error = 1,
    /// `HSAKMT_STATUS_DRIVER_MISMATCH`.
    #[error("the kernel driver's version does not fit")]
    DriverMismatch = 2,
    /// `HSAKMT_STATUS_INVALID_PARAMETER`.
    #[error("a parameter is invalid")]
    InvalidParameter = 3,
    /// `HSAKMT_STATUS_INVALID_HANDLE`.
    #[error("a handle is invalid")]
    InvalidHandle = 4,
    /// `HSAKMT_STATUS_INVALID_NODE_UNIT`.
    #[error("there is no such node, or it cannot do this")]
    InvalidNodeUnit = 5,
    /// `HSAKMT_STATUS_NO_MEMORY`.
    #[error("memory ran out")]
    NoMemory = 6,
    /// `HSAKMT_STATUS_BUFFER_TOO_SMALL`.
    #[error("a buffer is too small")]
    BufferTooSmall = 7,
    /// `HSAKMT_STATUS_NOT_IMPLEMENTED`.
    #[error("this call is not implemented")]
    NotImplemented = 10,
    /// `HSAKMT_STATUS_NOT_SUPPORTED`.
    #[error("this is not supported here")]
    NotSupported = 11,
    /// `HSAKMT_STATUS_UNAVAILABLE`.
    #[error("a resource is taken")]
    Unavailable = 12,
    /// `HSAKMT_STATUS_OUT_OF_RESOURCES`.
    #[error("a resource other than memory ran out")]
    OutOfResources = 13,
    /// `HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED`.
    #[error("the connection to the kernel driver is not open")]
    KernelIoChannelNotOpened = 20,
    /// `HSAKMT_STATUS_KERNEL_COMMUNICATION_ERROR`.
    #[error("the kernel driver could not be talked to")]
    KernelCommunicationError = 21,
    /// `HSAKMT_STATUS_KERNEL_ALREADY_OPENED`. The open was counted: it is a success with a name.
    #[error("the connection to the kernel driver was open already")]
    KernelAlreadyOpened = 22,
    /// `HSAKMT_STATUS_HSAMMU_UNAVAILABLE`.
    #[error("there is no IOMMU for this")]
    HsammuUnavailable = 23,
    /// `HSAKMT_STATUS_WAIT_FAILURE`.
    #[error("the wait failed")]
    WaitFailure = 30,
    /// `HSAKMT_STATUS_WAIT_TIMEOUT`.
    #[error("the wait timed out")]
    WaitTimeout = 31,
    /// `HSAKMT_STATUS_MEMORY_ALREADY_REGISTERED`.
    #[error("the memory is registered already")]
    MemoryAlreadyRegistered = 35,
    /// `HSAKMT_STATUS_MEMORY_NOT_REGISTERED`.
    #[error("the memory is not registered")]
    MemoryNotRegistered = 36,
    /// `HSAKMT_STATUS_MEMORY_ALIGNMENT`.
    #[error("the memory is not aligned")]
    MemoryAlignment = 37,
}

impl Status {
    /// The number that C callers see.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn codes_are_those_of_the_header() {
        assert_eq!(Status::Error.code(), 1);
        assert_eq!(Status::OutOfResources.code(), 13);
        assert_eq!(Status::KernelAlreadyOpened.code(), 22);
        assert_eq!(Status::MemoryAlignment.code(), 37);
    }
}
