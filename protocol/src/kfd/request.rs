//! Request codes: `_IOC` fields of the `K` ioctls (`asm-generic/ioctl.h`).

/// `_IOC_NR`: the command number.
#[must_use]
pub const fn request_nr(request: u32) -> u8 {
    (request & 0xff) as u8
}

/// `_IOC_TYPE`: `b'K'` for KFD, `b'd'` for DRM.
#[must_use]
pub const fn request_type(request: u32) -> u8 {
    ((request >> 8) & 0xff) as u8
}

/// `_IOC_SIZE`: bytes of the argument struct, 0 to 16383.
#[must_use]
pub const fn request_size(request: u32) -> usize {
    ((request >> 16) & 0x3fff) as usize
}

/// Whether user space passes data in (`_IOC_WRITE`).
#[must_use]
pub const fn request_writes(request: u32) -> bool {
    request & (1 << 30) != 0
}

/// Whether user space gets data back (`_IOC_READ`).
#[must_use]
pub const fn request_reads(request: u32) -> bool {
    request & (1 << 31) != 0
}
