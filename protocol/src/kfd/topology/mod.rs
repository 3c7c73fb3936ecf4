//! The KFD topology: the files of `/sys/devices/virtual/kfd/kfd/topology` as data.

use std::collections::BTreeMap;

/// Files of the topology directory by path relative to it (`"nodes/0/properties"`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Contents of each file.
    pub files: BTreeMap<String, Vec<u8>>,
}
