//! The render node: what the device offers, a context on it, and commands for the context.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::Errno;
use protocol::drm::DrmIoctl;
use protocol::drm::args::Version;
use protocol::drm::virtgpu::{
    Args, ContextInit, ContextSetParam, EXECBUF_FENCE_FD_OUT, EXECBUF_RING_IDX, Execbuffer, GetCaps,
    Getparam, context_param, param,
};
use protocol::virtio_gpu::capset::{self, Capset};
use protocol::virtio_gpu::constants::CAPSET_HSAKMT;
use rustix::fs::{Mode, OFlags};
use zerocopy::IntoBytes;

use super::blob::Blob;
use super::device::{Device, GuestBlob, Submission};
use crate::errno_of;
use crate::fork::ForkMark;
use crate::kernel_ioctl::kernel_ioctl;

/// The driver's name, as DRM_IOCTL_VERSION gives it.
const DRIVER: &[u8] = b"virtio_gpu";

/// Why a render node is not one of ours.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// It cannot be opened.
    #[error("{0} cannot be opened: {1}")]
    Open(PathBuf, Errno),
    /// Another driver's.
    #[error("{0} is not a virtio-gpu device, but of the driver {1}")]
    OtherDriver(PathBuf, String),
    /// The device or the guest's kernel lacks something.
    #[error("{0} has no {1}: the device does not offer it, or the guest's kernel is too old")]
    Lacks(PathBuf, &'static str),
    /// Capset 8 is of another kind of device, AMD's for instance.
    #[error("{0} has a capset {CAPSET_HSAKMT}, but it is not this project's")]
    Foreign(PathBuf),
    /// A call failed that must work.
    #[error("{0}: {1} fails: {2}")]
    Call(PathBuf, &'static str, Errno),
}

/// An open render node of a virtio-gpu device with our capset.
#[derive(Debug)]
pub struct Node {
    fd: Arc<OwnedFd>,
    capset: Capset,
    fork: ForkMark,
    abandoned: AtomicBool,
}

impl Node {
    /// Opens a render node and looks whether a context of ours can live there.
    ///
    /// # Errors
    /// What is missing, in words; see [`NodeError`].
    pub fn open(path: &Path) -> Result<Self, NodeError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let fd = opened.map_err(|error| NodeError::Open(path.to_owned(), errno_of(error)))?;
        let call = |name, errno| NodeError::Call(path.to_owned(), name, errno);
        let driver = driver(&fd).map_err(|errno| call("DRM_IOCTL_VERSION", errno))?;
        if driver != DRIVER {
            let driver = String::from_utf8_lossy(&driver).into_owned();
            return Err(NodeError::OtherDriver(path.to_owned(), driver));
        }
        for (what, name) in [
            (param::FEATURES_3D, "contexts (VIRGL)"),
            (param::RESOURCE_BLOB, "blobs (RESOURCE_BLOB)"),
            (param::CONTEXT_INIT, "contexts with capsets (CONTEXT_INIT)"),
        ] {
            // A kernel that does not know a parameter says EINVAL.
            if getparam(&fd, what).unwrap_or(0) == 0 {
                return Err(NodeError::Lacks(path.to_owned(), name));
            }
        }
        let capsets = getparam(&fd, param::SUPPORTED_CAPSET_IDS).unwrap_or(0);
        if capsets & 1 << CAPSET_HSAKMT == 0 {
            return Err(NodeError::Lacks(path.to_owned(), "capset 8 (HSAKMT)"));
        }
        let capset = get_capset(&fd).map_err(|errno| call("DRM_IOCTL_VIRTGPU_GET_CAPS", errno))?;
        if capset.magic.get() != capset::MAGIC {
            return Err(NodeError::Foreign(path.to_owned()));
        }
        Ok(Self { fd: Arc::new(fd), capset, fork: ForkMark::new(), abandoned: AtomicBool::new(false) })
    }

    /// What the device says of itself.
    #[must_use]
    pub fn capset(&self) -> Capset {
        self.capset
    }

    /// A blob of guest memory: `size` bytes, rounded up to pages, that the host reaches once the context has it.
    ///
    /// # Errors
    /// As [`Device::create_blob`].
    pub fn blob(&self, size: u64) -> Result<Blob, Errno> {
        Blob::new(&self.fd, size)
    }

    fn execbuffer(&self, submission: Submission<'_>, flags: u32) -> Result<i32, Errno> {
        let Submission { ring, bytes } = submission;
        let mut args = Execbuffer {
            flags: flags | if ring.is_some() { EXECBUF_RING_IDX } else { 0 },
            size: u32::try_from(bytes.len()).map_err(|_| Errno::E2BIG)?,
            command: bytes.as_ptr().expose_provenance() as u64,
            fence_fd: -1,
            ring_idx: ring.unwrap_or(0),
            ..Execbuffer::default()
        };
        ioctl(&self.fd, &mut args)?;
        Ok(args.fence_fd)
    }
}

impl Device for Node {
    fn init_context(&self, rings: u32) -> Result<(), Errno> {
        let of = |param, value: u32| ContextSetParam { param, value: value.into() };
        let params = [of(context_param::CAPSET_ID, CAPSET_HSAKMT), of(context_param::NUM_RINGS, rings)];
        let mut args = ContextInit {
            num_params: params.len() as u32,
            pad: 0,
            ctx_set_params: params.as_ptr().expose_provenance() as u64,
        };
        ioctl(&self.fd, &mut args)
    }

    fn create_blob(&self, size: u64) -> Result<Box<dyn GuestBlob>, Errno> {
        Ok(Box::new(self.blob(size)?))
    }

    fn has_window(&self) -> bool {
        getparam(&self.fd, param::HOST_VISIBLE).is_ok_and(|value| value != 0)
    }

    fn create_host_blob(&self, size: u64, blob_id: u64) -> Result<Box<dyn GuestBlob>, Errno> {
        Ok(Box::new(Blob::of_host(&self.fd, size, blob_id)?))
    }

    fn submit(&self, submission: Submission<'_>) -> Result<(), Errno> {
        self.execbuffer(submission, 0).map(drop)
    }

    fn submit_with_fence(&self, submission: Submission<'_>) -> Result<OwnedFd, Errno> {
        let fence = self.execbuffer(submission, EXECBUF_FENCE_FD_OUT)?;
        // SAFETY: the kernel has just made this descriptor for this call, and nobody else knows its number.
        Ok(unsafe { OwnedFd::from_raw_fd(fence) })
    }

    fn abandon(&self) {
        if self.fork.is_here() || self.abandoned.swap(true, Ordering::AcqRel) {
            return;
        }
        // Whoever still holds a reference in this child must not close the number later: it may be another file's by then.
        let _kept = ManuallyDrop::new(Arc::clone(&self.fd));
        // SAFETY: the number is a descriptor that this process inherited, and no value of this address space closes it any
        // more: one reference is never dropped.
        unsafe { rustix::io::close(self.fd.as_raw_fd()) };
    }
}

/// A call of the virtio-gpu driver, made again when a signal interrupts it: the driver has done nothing then.
pub(super) fn ioctl<A: Args>(fd: &OwnedFd, args: &mut A) -> Result<(), Errno> {
    loop {
        match kernel_ioctl(fd, A::REQUEST, args.as_mut_bytes()) {
            Err(Errno::EINTR) => {}
            result => return result.map(drop),
        }
    }
}

/// The name of the driver behind a render node.
fn driver(fd: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut name = [0_u8; 64];
    let mut args = Version {
        name_len: name.len() as u64,
        name: name.as_mut_ptr().expose_provenance() as u64,
        ..Version::default()
    };
    kernel_ioctl(fd, DrmIoctl::Version.request(), args.as_mut_bytes())?;
    let len = usize::try_from(args.name_len).unwrap_or(0);
    Ok(name.get(..len).unwrap_or(&name).to_vec())
}

fn getparam(fd: &OwnedFd, param: u64) -> Result<u32, Errno> {
    let mut value = 0_u32;
    let mut args = Getparam { param, value: (&raw mut value).expose_provenance() as u64 };
    ioctl(fd, &mut args)?;
    Ok(value)
}

fn get_capset(fd: &OwnedFd) -> Result<Capset, Errno> {
    let mut capset = Capset::default();
    let mut args = GetCaps {
        cap_set_id: CAPSET_HSAKMT,
        cap_set_ver: capset::VERSION,
        addr: capset.as_mut_bytes().as_mut_ptr().expose_provenance() as u64,
        size: size_of::<Capset>() as u32,
        pad: 0,
    };
    ioctl(fd, &mut args)?;
    Ok(capset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_virtio_gpu_is_said_in_words() {
        let error = Node::open(Path::new("/no/such/node")).unwrap_err();
        assert!(error.to_string().contains("/no/such/node"), "{error}");
        // No DRM device at all.
        let error = Node::open(Path::new("/dev/null")).unwrap_err();
        assert!(matches!(error, NodeError::Call(_, "DRM_IOCTL_VERSION", Errno::ENOTTY)), "{error}");
    }
}
