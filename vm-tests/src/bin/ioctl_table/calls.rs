//! Raw system calls on `/dev/kfd`, and memory with edges.

use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use protocol::Errno;
use protocol::kfd::ioctl::Ioctl;
use zerocopy::{FromBytes, IntoBytes};

/// An open `/dev/kfd`.
pub struct Kfd(pub OwnedFd);

/// What a call returned: its value, or the error.
pub type Outcome = Result<i32, Errno>;

impl Kfd {
    /// Opens `/dev/kfd`.
    pub fn open() -> Result<Self, Error> {
        // SAFETY: the path is a C string, and open() keeps no pointer to it.
        let fd = unsafe { libc::open(c"/dev/kfd".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: open() has just returned the descriptor, nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// `ioctl` with the request of the uapi header on a struct.
    pub fn call<A: IntoBytes + FromBytes>(&self, ioctl: Ioctl, args: &mut A) -> Outcome {
        raw_ioctl(self.0.as_raw_fd(), ioctl.request(), address(args))
    }

    /// `ioctl` with any request on any address.
    pub fn raw(&self, request: u32, addr: u64) -> Outcome {
        raw_ioctl(self.0.as_raw_fd(), request, addr)
    }
}

/// `ioctl(2)` without any help.
pub fn raw_ioctl(fd: RawFd, request: u32, addr: u64) -> Outcome {
    // SAFETY: the kernel checks the address. The callers pass addresses of live values of the size that the
    // request names, or addresses of mappings that no Rust value lives in.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, fd, u64::from(request), addr) };
    outcome(result)
}

/// A system call's result as [`Outcome`].
pub fn outcome(result: libc::c_long) -> Outcome {
    match i32::try_from(result) {
        Ok(value) if value >= 0 => Ok(value),
        _ => {
            let raw = Error::last_os_error().raw_os_error().unwrap_or(0);
            Err(Errno::from_raw(raw).unwrap_or(Errno::EIO))
        }
    }
}

/// Address of a value.
pub fn address<T>(value: &mut T) -> u64 {
    std::ptr::from_mut(value).expose_provenance() as u64
}

/// One line of the table.
pub fn line(name: &str, outcome: Outcome, rest: &str) {
    let outcome = match outcome {
        Ok(value) => value.to_string(),
        Err(errno) => format!("-1 {errno}"),
    };
    let space = if rest.is_empty() { "" } else { " " };
    println!("{name}: {outcome}{space}{rest}");
}

/// Four pages: two that can be written, one that can be read only, one that cannot be touched.
pub struct Edges {
    start: u64,
}

const PAGE: u64 = 4096;

impl Edges {
    /// Maps them, for the life of the program.
    pub fn map() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 4 * PAGE as usize, rw, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "mmap");
        let edges = Self { start: start.expose_provenance() as u64 };
        edges.protect(edges.read_only(), libc::PROT_READ);
        edges.protect(edges.nowhere(), libc::PROT_NONE);
        edges
    }

    fn protect(&self, addr: u64, protection: libc::c_int) {
        // SAFETY: the page is part of the mapping made above, in which no Rust value lives.
        let result = unsafe {
            libc::mprotect(std::ptr::with_exposed_provenance_mut(addr as usize), PAGE as usize, protection)
        };
        assert_eq!(result, 0, "mprotect");
    }

    /// Start of memory that can be written.
    pub fn writable(&self) -> u64 {
        self.start
    }

    /// Start of the page that can be read only. The bytes before it can be written.
    pub fn read_only(&self) -> u64 {
        self.start + 2 * PAGE
    }

    /// Start of the page that cannot be touched. The bytes before it can be read.
    pub fn nowhere(&self) -> u64 {
        self.start + 3 * PAGE
    }

    /// Stores bytes where they can be stored.
    pub fn store(&self, addr: u64, bytes: &[u8]) {
        assert!(addr >= self.start && addr + bytes.len() as u64 <= self.read_only(), "outside");
        // SAFETY: the range was just checked to lie in the two writable pages, which overlap no Rust value.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                std::ptr::with_exposed_provenance_mut(addr as usize),
                bytes.len(),
            );
        }
    }
}
