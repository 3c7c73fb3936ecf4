//! What the VMM is asked: to map the window's memory, and to take that away.

use std::fs::File;
use std::io;

use vhost::vhost_user::message::{VhostUserMMap, VhostUserMMapFlags};
use vhost::vhost_user::{Backend, VhostUserFrontendReqHandler as _};

use crate::device::Vmm;

/// Id of the region that drivers call host visible (`VIRTIO_GPU_SHM_ID_HOST_VISIBLE`).
const HOST_VISIBLE: u8 = 1;

/// The channel on which a VMM takes requests.
pub struct Channel(Backend);

impl Channel {
    /// A channel on which every request is answered.
    pub fn new(backend: Backend) -> Channel {
        backend.set_reply_ack_flag(true);
        backend.set_shmem_flag(true);
        Channel(backend)
    }
}

/// All of the window.
fn whole(len: u64) -> VhostUserMMap {
    VhostUserMMap { shmid: HOST_VISIBLE, len, ..VhostUserMMap::default() }
}

impl Vmm for Channel {
    fn map(&self, arena: &File, len: u64) -> io::Result<()> {
        let request = VhostUserMMap { flags: VhostUserMMapFlags::WRITABLE.bits(), ..whole(len) };
        self.0.shmem_map(&request, arena).map(drop)
    }

    fn unmap(&self, len: u64) -> io::Result<()> {
        self.0.shmem_unmap(&whole(len)).map(drop)
    }
}
