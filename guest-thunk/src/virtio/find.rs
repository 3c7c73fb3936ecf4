//! Which render nodes may be of a virtio-gpu device.

use std::path::{Path, PathBuf};

/// How the names of drivers begin that sysfs may give for such a node: `virtio_gpu`, or that of the bus which the device is on
/// (`virtio-pci`, in Linux 6.12 and 7.3).
const DRIVERS: &str = "virtio";

/// Render nodes in a directory (`/dev/dri`) by number, without those of which sysfs names another driver. The driver itself is
/// asked when the node is opened ([`Node::open`](super::Node::open)); this only leaves the GPUs of others alone.
#[must_use]
pub fn render_nodes(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = dir.read_dir() else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut minors: Vec<u32> = names.filter_map(|name| name.strip_prefix("renderD")?.parse().ok()).collect();
    minors.sort_unstable();
    let ours = |minor: &u32| {
        let driver = std::fs::read_link(format!("/sys/class/drm/renderD{minor}/device/driver"));
        let name = driver.ok().and_then(|driver| driver.file_name()?.to_str().map(str::to_owned));
        name.is_none_or(|name| name.starts_with(DRIVERS))
    };
    minors.into_iter().filter(ours).map(|minor| dir.join(format!("renderD{minor}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_by_number() {
        let dir = tempfile::tempdir().unwrap();
        // Minors that no kernel gives, so that no machine's sysfs has them.
        for name in ["renderD90001", "renderD90000", "card0", "renderDx", "by-path"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let names = [90_000, 90_001].map(|minor| dir.path().join(format!("renderD{minor}")));
        assert_eq!(render_nodes(dir.path()), names);
        assert_eq!(render_nodes(Path::new("/no/such/directory")), Vec::<PathBuf>::new());
    }
}
