//! What a virtual machine has of the way to its host's GPUs, from the device to the topology: the first thing that is missing is
//! the one to be told.

use std::path::{Path, PathBuf};

use hsakmt::native::{Paths, explain};
use hsakmt::virtio::{Node, NodeError, SPIN, Virtio, render_nodes};
use protocol::kfd::topology::Topology;
use protocol::kfd::{Kfd as _, Node as DeviceNode};

use crate::report::Report;

/// Virtio's id of a GPU, as sysfs writes it.
const VIRTIO_GPU: &str = "0x0010";

/// Where the doctor looks.
#[derive(Clone, Debug)]
pub struct Places {
    /// Render nodes.
    pub dri: PathBuf,
    /// Modules of the kernel, loaded or built in.
    pub modules: PathBuf,
    /// Devices on the virtio bus.
    pub virtio: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            dri: "/dev/dri".into(),
            modules: "/sys/module".into(),
            virtio: "/sys/bus/virtio/devices".into(),
        }
    }
}

/// Looks at everything, or at one render node.
pub fn examine(places: &Places, render: Option<PathBuf>) -> Report {
    let mut report = Report::default();
    let nodes = render.map_or_else(|| render_nodes(&places.dri), |node| vec![node]);
    if nodes.is_empty() {
        report.bad(without_node(places));
        return report;
    }
    for node in nodes {
        match Node::open(&node) {
            Ok(_) => {
                report.good(format!("{} is a virtio-gpu device that offers GPUs", node.display()));
                connect(&mut report, &node);
                return report;
            }
            Err(error) => report.bad(why_not(&node, &error)),
        }
    }
    report
}

/// Why there is no render node at all.
fn without_node(places: &Places) -> &'static str {
    let devices = places.virtio.read_dir().into_iter().flatten().flatten();
    let is_gpu =
        |path: PathBuf| std::fs::read_to_string(path.join("device")).is_ok_and(|id| id.trim() == VIRTIO_GPU);
    let device = devices.map(|entry| entry.path()).any(is_gpu);
    let driver = places.modules.join("virtio_gpu").exists();
    match (device, driver) {
        (false, _) => {
            "this machine has no virtio-gpu device: start the virtual machine with that of vhost-device-kfd"
        }
        (true, false) => {
            "the virtual machine has a virtio-gpu device, and the kernel no driver for it: load it \
             (modprobe virtio_gpu); kernels for clouds often come without it"
        }
        (true, true) => {
            "the driver virtio_gpu shows no render node for the device: see the kernel log; in a container, pass the \
             device in (--device /dev/dri)"
        }
    }
}

/// Why a render node is none of ours, and what to do.
fn why_not(node: &Path, error: &NodeError) -> String {
    match (error, minor(node)) {
        (NodeError::Open(_, errno), Some(minor)) => {
            explain(*errno, DeviceNode::Render(minor), &Paths::default()).to_string()
        }
        _ => error.to_string(),
    }
}

fn minor(node: &Path) -> Option<u32> {
    node.file_name()?.to_str()?.strip_prefix("renderD")?.parse().ok()
}

/// The host behind a node.
fn connect(report: &mut Report, node: &Path) {
    let virtio = match Virtio::connect(node, SPIN) {
        Ok(virtio) => virtio,
        Err(error) => return report.bad(error.to_string()),
    };
    report.good("the host's worker process answers");
    match virtio.topology().map(|tree| Topology::parse(&tree)) {
        Ok(Ok(parsed)) => gpus(report, &parsed.topology),
        Ok(Err(error)) => report.bad(format!("the host's topology cannot be read: {error}")),
        Err(errno) => report.bad(format!("the host sends no topology: {errno}")),
    }
}

fn gpus(report: &mut Report, topology: &Topology) {
    for gpu in topology.gpus() {
        let (name, mib) = (&gpu.name, gpu.memory_size() >> 20);
        report.good(format!("node {} is the GPU {name} with {mib} MiB of memory", gpu.id));
        report.usable = true;
    }
    if !report.usable {
        report.bad("the host shows no GPU to this virtual machine: see --gpu of vhost-device-kfd");
    }
}

#[cfg(test)]
mod tests {
    use protocol::kfd::topology::Node as TopologyNode;

    use super::*;
    use crate::report::Line;

    /// A machine of files.
    fn machine() -> (tempfile::TempDir, Places) {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let places = Places { dri: at("dri"), modules: at("module"), virtio: at("virtio") };
        (dir, places)
    }

    fn only_line(places: &Places) -> String {
        let report = examine(places, None);
        assert!(!report.usable);
        let [Line::Bad(text)] = &report.lines[..] else { panic!("{:?}", report.lines) };
        text.clone()
    }

    #[test]
    fn what_is_missing_first_is_named() {
        let (_dir, places) = machine();
        // A network card is no GPU.
        for (device, id) in [("virtio0", "0x0001"), ("virtio1", VIRTIO_GPU)] {
            assert!(only_line(&places).contains("has no virtio-gpu device"));
            std::fs::create_dir(places.virtio.join(device)).unwrap();
            std::fs::write(places.virtio.join(device).join("device"), format!("{id}\n")).unwrap();
        }
        assert!(only_line(&places).contains("modprobe virtio_gpu"));
        std::fs::create_dir(places.modules.join("virtio_gpu")).unwrap();
        assert!(only_line(&places).contains("no render node"));
        std::fs::write(places.dri.join("renderD90000"), "").unwrap();
        assert!(only_line(&places).contains("renderD90000"));
    }

    #[test]
    fn a_node_that_is_named_is_looked_at_alone() {
        let (_dir, places) = machine();
        let report = examine(&places, Some("/dev/null".into()));
        assert_eq!((report.usable, report.lines.len()), (false, 1));
        assert!(report.lines[0].to_string().starts_with("missing  /dev/null"), "{:?}", report.lines);
        let report = examine(&places, Some("/dev/dri/renderD90000".into()));
        assert!(report.lines[0].to_string().contains("does not exist"), "{:?}", report.lines);
    }

    #[test]
    fn a_host_without_gpu_is_not_usable() {
        let mut report = Report::default();
        gpus(&mut report, &Topology::default());
        assert!(!report.usable);
        let gpu = TopologyNode { id: 1, gpu_id: 7, name: "aldebaran".into(), ..TopologyNode::default() };
        gpus(&mut report, &Topology { nodes: vec![gpu], ..Topology::default() });
        assert!(report.usable && report.lines[1].to_string().contains("aldebaran"));
    }
}
