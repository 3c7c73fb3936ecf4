//! Linux error numbers as a value (x86-64 numbering, `asm-generic/errno*.h`).

use core::fmt;

/// A Linux error number, positive as user space sees it in `errno`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno($value);)*

            /// The symbolic name (`"EINVAL"`), or `None` for a number that is not in this table.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// The error with this symbolic name, if this table has it.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Errno> {
                match name {
                    $(stringify!($name) => Some(Errno::$name),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted.";
    ENOENT = 2, "No such file or directory.";
    ESRCH = 3, "No such process.";
    EINTR = 4, "Interrupted system call.";
    EIO = 5, "Input/output error.";
    ENXIO = 6, "No such device or address.";
    E2BIG = 7, "Argument list too long.";
    EBADF = 9, "Bad file descriptor.";
    EAGAIN = 11, "Resource temporarily unavailable.";
    ENOMEM = 12, "Cannot allocate memory.";
    EACCES = 13, "Permission denied.";
    EFAULT = 14, "Bad address.";
    EBUSY = 16, "Device or resource busy.";
    EEXIST = 17, "File exists.";
    ENODEV = 19, "No such device.";
    EINVAL = 22, "Invalid argument.";
    ENFILE = 23, "Too many open files in system.";
    EMFILE = 24, "Too many open files.";
    ENOTTY = 25, "Inappropriate ioctl for device.";
    ENOSPC = 28, "No space left on device.";
    ERANGE = 34, "Result out of range.";
    ENOSYS = 38, "Function not implemented.";
    ENODATA = 61, "No data available.";
    ETIME = 62, "Timer expired.";
    EPROTO = 71, "Protocol error.";
    EOVERFLOW = 75, "Value too large for defined data type.";
    EOPNOTSUPP = 95, "Operation not supported.";
    EADDRINUSE = 98, "Address already in use.";
    ETIMEDOUT = 110, "Connection timed out.";
    EALREADY = 114, "Operation already in progress.";
    ENOTSUPP = 524, "Kernel-internal: operation is not supported. KFD lets it out for unknown queue types.";
    ERESTARTSYS = 512, "Kernel-internal: restart the call, or EINTR where the handler says so.";
}

impl Errno {
    /// From a raw error number; `None` unless it is between 1 and 4095 (the kernel's `MAX_ERRNO`).
    #[must_use]
    pub const fn from_raw(raw: i32) -> Option<Errno> {
        if raw >= 1 && raw <= 4095 { Some(Errno(raw)) } else { None }
    }

    /// The positive error number.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl core::error::Error for Errno {}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        std::io::Error::from_raw_os_error(errno.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_values_outside_the_kernels_range_are_refused() {
        assert_eq!(Errno::from_raw(0), None);
        assert_eq!(Errno::from_raw(-22), None);
        assert_eq!(Errno::from_raw(4096), None);
        assert_eq!(Errno::from_raw(22), Some(Errno::EINVAL));
    }

    #[test]
    fn display_prefers_the_name() {
        assert_eq!(Errno::EADDRINUSE.to_string(), "EADDRINUSE");
        assert_eq!(Errno::from_raw(4000).map(|e| e.to_string()).as_deref(), Some("errno 4000"));
    }
}
