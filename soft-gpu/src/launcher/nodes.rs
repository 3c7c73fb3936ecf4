//! The device nodes: which inode stands for which, and what the program is told about them.

use std::os::fd::{AsFd, OwnedFd};

use protocol::kfd::Node;
use rustix::fs::{Stat, fstat};

use super::sysview::{DRM_MAJOR, KFD_MAJOR};
use crate::BackingFiles;

/// A device node and the file behind it.
#[derive(Debug)]
pub struct NodeFile {
    /// The node.
    pub node: Node,
    /// The file behind it.
    pub fd: OwnedFd,
    dev: u64,
    ino: u64,
}

impl NodeFile {
    /// Major and minor number that the program sees.
    #[must_use]
    pub fn device_number(&self) -> (u32, u32) {
        match self.node {
            Node::Kfd => (KFD_MAJOR, 0),
            Node::Render(minor) => (DRM_MAJOR, minor),
        }
    }
}

/// All device nodes. Programs are recognised to use one by device and inode number, whatever path or
/// descriptor led there.
#[derive(Debug)]
pub struct Nodes(Vec<NodeFile>);

impl Nodes {
    /// The nodes of `files`, with duplicates of the descriptors.
    ///
    /// # Errors
    /// `EMFILE` and its like.
    pub fn new(files: &BackingFiles) -> std::io::Result<Self> {
        let render = files.render.iter().map(|(minor, fd)| (Node::Render(*minor), fd));
        std::iter::once((Node::Kfd, &files.kfd))
            .chain(render)
            .map(|(node, fd)| {
                let stat = fstat(fd)?;
                let fd = fd.as_fd().try_clone_to_owned()?;
                Ok(NodeFile { node, fd, dev: stat.st_dev, ino: stat.st_ino })
            })
            .collect::<std::io::Result<_>>()
            .map(Self)
    }

    /// The node behind which the described file stands.
    #[must_use]
    pub fn by_stat(&self, stat: &Stat) -> Option<&NodeFile> {
        self.0.iter().find(|file| file.dev == stat.st_dev && file.ino == stat.st_ino)
    }

    /// Every node.
    pub fn iter(&self) -> impl Iterator<Item = &NodeFile> {
        self.0.iter()
    }
}
