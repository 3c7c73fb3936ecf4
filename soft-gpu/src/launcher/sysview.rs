//! What a program sees of the device in `/sys`, `/dev` and `/proc`: a pure function from the topology
//! to files.
//!
//! Beside the KFD topology these are the places where ROCr, rocminfo, libdrm and the usual tools
//! look: `class/kfd`, `class/drm`, `dev/char/226:N`, the PCI device, `module/amdgpu`.

use std::collections::BTreeMap;

use protocol::kfd::topology::Tree;

/// Major number of DRM character devices (`include/drm/drm_drv.h`).
pub const DRM_MAJOR: u32 = 226;
/// Major number under which `/dev/kfd` shows itself; the kernel hands one out dynamically.
pub const KFD_MAJOR: u32 = 511;
/// Directory that comes first in `PATH` where the program finds a substitute `lsmod`.
pub const BIN_DIR: &str = "/dev/.kfdvirt";

/// One entry of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory, laid over what the machine has there.
    Dir(Dir),
    /// A regular file.
    File {
        /// Its contents.
        contents: Vec<u8>,
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link(String),
    /// A device node: the file behind it is the one that the memory of the device lies in.
    Device(DeviceNode),
}

/// A device node of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceNode {
    /// `/dev/kfd`.
    Kfd,
    /// `/dev/dri/renderD<minor>`.
    Render(u32),
}

/// A directory of the view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dir {
    /// Its entries by name.
    pub entries: BTreeMap<String, Entry>,
    /// Whether the machine's own directory of that name is replaced instead of extended.
    pub replace: bool,
    /// Names with this prefix in the machine's own directory are hidden.
    pub hide: Option<String>,
}

impl Dir {
    /// The directory at `path`, made if it is not there. `None` if a part of the path is no directory.
    fn dir(&mut self, path: &str) -> Option<&mut Dir> {
        path.split('/').filter(|part| !part.is_empty()).try_fold(self, |dir, name| {
            match dir.entries.entry(name.to_owned()).or_insert_with(|| Entry::Dir(Dir::default())) {
                Entry::Dir(child) => Some(child),
                _ => None,
            }
        })
    }

    /// Adds an entry. A path with a part that would lead elsewhere when it is written is left out.
    fn put(&mut self, path: &str, entry: Entry) {
        if path.split('/').any(|part| matches!(part, "" | "." | "..") || part.contains('\0')) {
            return;
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if let Some(dir) = self.dir(parent) {
            dir.entries.insert(name.to_owned(), entry);
        }
    }

    fn file(&mut self, path: &str, contents: impl Into<Vec<u8>>) {
        self.put(path, Entry::File { contents: contents.into(), mode: 0o444 });
    }

    fn link(&mut self, path: &str, target: impl Into<String>) {
        self.put(path, Entry::Link(target.into()));
    }

    fn replace(&mut self, path: &str) {
        if let Some(dir) = self.dir(path) {
            dir.replace = true;
        }
    }
}

/// A GPU as the topology describes it: the keys of `nodes/N/properties` that place it on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Minor number of its render node.
    pub render_minor: u32,
    domain: u32,
    location: u32,
    vendor: u32,
    device: u32,
    /// Bits 22 to 25 of `capability`.
    revision: u32,
}

impl Gpu {
    /// Bus address as the kernel prints it (`0000:43:00.0`). `location_id` carries bus, device and
    /// function in its low 16 bits, and the partition in the function bits where a device has several
    /// KFD nodes.
    fn address(&self) -> String {
        let (bus, device, function) =
            ((self.location >> 8) & 0xff, (self.location >> 3) & 0x1f, self.location & 7);
        format!("{:04x}:{bus:02x}:{device:02x}.{function}", self.domain)
    }

    fn device_dir(&self) -> String {
        format!("devices/pci{:04x}:{:02x}/{}", self.domain, (self.location >> 8) & 0xff, self.address())
    }
}

/// The GPUs of a topology, in node order. Nodes without a render node, or with one outside of
/// 128 to 255 (the range that libhsakmt accepts), have nothing to show.
#[must_use]
pub fn gpus(tree: &Tree) -> Vec<Gpu> {
    let mut nodes: Vec<(u32, Gpu)> = tree
        .files
        .iter()
        .filter_map(|(path, contents)| {
            let node = path.strip_prefix("nodes/")?.strip_suffix("/properties")?.parse().ok()?;
            let get = properties(contents);
            let render_minor = get("drm_render_minor");
            (128..=255).contains(&render_minor).then(|| {
                let gpu = Gpu {
                    render_minor,
                    domain: get("domain"),
                    location: get("location_id"),
                    vendor: get("vendor_id"),
                    device: get("device_id"),
                    revision: (get("capability") >> 22) & 0xf,
                };
                (node, gpu)
            })
        })
        .collect();
    nodes.sort_by_key(|(node, _)| *node);
    nodes.into_iter().map(|(_, gpu)| gpu).collect()
}

/// Lookup in a `key value` file; what is missing or no 32-bit number is 0.
fn properties(contents: &[u8]) -> impl Fn(&str) -> u32 {
    let text = String::from_utf8_lossy(contents).into_owned();
    move |key| {
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(name, _)| *name == key)
            .and_then(|(_, value)| value.trim().parse().ok())
            .unwrap_or(0)
    }
}

/// Everything that is laid over the root directory. `proc_modules` is what `/proc/modules` holds, or
/// `None` where the kernel has no such file.
#[must_use]
pub fn view(tree: &Tree, proc_modules: Option<&[u8]>) -> Dir {
    let gpus = gpus(tree);
    let mut root = Dir::default();
    if let Some(sys) = root.dir("sys") {
        topology(sys, tree);
        module(sys);
        if let Some(class) = sys.dir("class/drm") {
            class.replace = true;
        }
        if let Some(char_devices) = sys.dir("dev/char") {
            char_devices.hide = Some(format!("{DRM_MAJOR}:"));
        }
        for gpu in &gpus {
            pci_device(sys, gpu);
            drm_device(sys, gpu);
        }
    }
    if let Some(dev) = root.dir("dev") {
        devices(dev, &gpus);
    }
    modules(&mut root, proc_modules);
    root
}

fn topology(sys: &mut Dir, tree: &Tree) {
    sys.replace("devices/virtual/kfd");
    for dir in tree.directories() {
        sys.put(&format!("devices/virtual/kfd/kfd/topology/{dir}"), Entry::Dir(Dir::default()));
    }
    for (path, contents) in &tree.files {
        sys.file(&format!("devices/virtual/kfd/kfd/topology/{path}"), contents.clone());
    }
    sys.file("devices/virtual/kfd/kfd/dev", format!("{KFD_MAJOR}:0\n"));
    sys.file("devices/virtual/kfd/kfd/uevent", format!("MAJOR={KFD_MAJOR}\nMINOR=0\nDEVNAME=kfd\n"));
    sys.link("devices/virtual/kfd/kfd/subsystem", "../../../../class/kfd");
    sys.replace("class/kfd");
    sys.link("class/kfd/kfd", "../../devices/virtual/kfd/kfd");
    sys.link(&format!("dev/char/{KFD_MAJOR}:0"), "../../devices/virtual/kfd/kfd");
}

fn module(sys: &mut Dir) {
    sys.replace("module/amdgpu");
    sys.file("module/amdgpu/initstate", "live\n");
    sys.file("module/amdgpu/refcnt", "0\n");
    sys.file("module/amdgpu/version", "6.12.12\n");
}

fn pci_device(sys: &mut Dir, gpu: &Gpu) {
    let dir = gpu.device_dir();
    let mut file = |name: &str, contents: String| sys.file(&format!("{dir}/{name}"), contents);
    file("vendor", format!("0x{:04x}\n", gpu.vendor));
    file("device", format!("0x{:04x}\n", gpu.device));
    file("subsystem_vendor", format!("0x{:04x}\n", gpu.vendor));
    file("subsystem_device", format!("0x{:04x}\n", gpu.device));
    file("revision", format!("0x{:02x}\n", gpu.revision));
    file("class", format!("0x{:06x}\n", PCI_CLASS_DISPLAY_OTHER));
    file("enable", "1\n".to_owned());
    file(
        "uevent",
        format!(
            "DRIVER=amdgpu\nPCI_CLASS={PCI_CLASS_DISPLAY_OTHER:X}\nPCI_ID={v:04X}:{d:04X}\n\
             PCI_SUBSYS_ID={v:04X}:{d:04X}\nPCI_SLOT_NAME={}\n",
            gpu.address(),
            v = gpu.vendor,
            d = gpu.device,
        ),
    );
    sys.file(&format!("{dir}/config"), pci_config(gpu));
    sys.link(&format!("{dir}/subsystem"), "../../../bus/pci");
    sys.link(&format!("bus/pci/devices/{}", gpu.address()), format!("../../../{dir}"));
}

/// Display controller that is no VGA adapter: the class of compute cards.
const PCI_CLASS_DISPLAY_OTHER: u32 = 0x03_80_00;

/// The header of the PCI configuration space, the part that an unprivileged reader gets.
fn pci_config(gpu: &Gpu) -> Vec<u8> {
    let low = |value: u32| value.to_le_bytes();
    let mut config = vec![0; 64];
    let mut put =
        |at: usize, bytes: &[u8]| config.iter_mut().skip(at).zip(bytes).for_each(|(to, b)| *to = *b);
    put(0, &low(gpu.vendor)[..2]);
    put(2, &low(gpu.device)[..2]);
    put(4, &[0x07, 0x04, 0x10, 0x00]); // memory and bus master on; capability list
    put(8, &[low(gpu.revision)[0], 0x00, 0x80, 0x03]);
    put(0x2c, &low(gpu.vendor)[..2]);
    put(0x2e, &low(gpu.device)[..2]);
    config
}

/// The DRM minors of a GPU: its render node, and the primary node, which only `/sys` shows, as in a
/// container that is given render nodes alone. libdrm takes two GPUs without primary nodes for one
/// (`fd_compare` in `amdgpu_device.c`).
fn drm_device(sys: &mut Dir, gpu: &Gpu) {
    let card = gpu.render_minor - 128;
    drm_minor(sys, gpu, &format!("renderD{}", gpu.render_minor), gpu.render_minor);
    drm_minor(sys, gpu, &format!("card{card}"), card);
}

fn drm_minor(sys: &mut Dir, gpu: &Gpu, name: &str, minor: u32) {
    let node = format!("{}/drm/{name}", gpu.device_dir());
    sys.file(&format!("{node}/dev"), format!("{DRM_MAJOR}:{minor}\n"));
    sys.file(
        &format!("{node}/uevent"),
        format!("MAJOR={DRM_MAJOR}\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor\n"),
    );
    sys.link(&format!("{node}/device"), format!("../../../{}", gpu.address()));
    sys.link(&format!("{node}/subsystem"), "../../../../../class/drm");
    sys.link(&format!("class/drm/{name}"), format!("../../{node}"));
    sys.link(&format!("dev/char/{DRM_MAJOR}:{minor}"), format!("../../{node}"));
}

fn devices(dev: &mut Dir, gpus: &[Gpu]) {
    dev.put("kfd", Entry::Device(DeviceNode::Kfd));
    dev.replace("dri");
    for gpu in gpus {
        let minor = gpu.render_minor;
        dev.put(&format!("dri/renderD{minor}"), Entry::Device(DeviceNode::Render(minor)));
        dev.link(&format!("dri/by-path/pci-{}-render", gpu.address()), format!("../renderD{minor}"));
    }
}

/// rocminfo 5.2.3 looks for amdgpu in lsmod's output, which is `/proc/modules` reformatted; where that
/// file does not exist nothing can be put at its place, and the program finds an `lsmod` of ours.
fn modules(root: &mut Dir, proc_modules: Option<&[u8]>) {
    match proc_modules {
        Some(own) => {
            let mut contents = b"amdgpu 13000000 0 - Live 0x0000000000000000\n".to_vec();
            contents.extend(own);
            root.file("proc/modules", contents);
        }
        None => {
            let script = b"#!/bin/sh\necho 'Module                  Size  Used by'\n\
                           echo 'amdgpu              13000000  0'\n";
            let path = format!("{BIN_DIR}/lsmod");
            root.put(path.trim_start_matches('/'), Entry::File { contents: script.to_vec(), mode: 0o555 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        let mut add = |path: &str, text: &str| tree.files.insert(path.to_owned(), text.into());
        add("generation_id", "2\n");
        add("nodes/0/properties", "cpu_cores_count 8\ndrm_render_minor 0\n");
        // MI210 at 0000:c1:00.0, then a node of domain 1, in string order before node 2.
        add(
            "nodes/10/properties",
            "vendor_id 4098\ndevice_id 29711\nlocation_id 8448\ndomain 1\ndrm_render_minor 129\n",
        );
        add(
            "nodes/2/properties",
            "vendor_id 4098\ndevice_id 29711\nlocation_id 49408\ndomain 0\ndrm_render_minor 128\n",
        );
        tree
    }

    fn lookup<'a>(root: &'a Dir, path: &str) -> Option<&'a Entry> {
        let mut parts = path.split('/');
        let first = root.entries.get(parts.next()?)?;
        parts.try_fold(first, |entry, name| match entry {
            Entry::Dir(dir) => dir.entries.get(name),
            _ => None,
        })
    }

    fn text(root: &Dir, path: &str) -> String {
        match lookup(root, path) {
            Some(Entry::File { contents, .. }) => String::from_utf8_lossy(contents).into_owned(),
            other => panic!("{path}: {other:?}"),
        }
    }

    /// Follows a relative link from its own directory, by text.
    fn resolve(root: &Dir, path: &str) -> String {
        let Some(Entry::Link(target)) = lookup(root, path) else { panic!("{path} is no link") };
        let mut parts: Vec<&str> = path.split('/').collect();
        parts.pop();
        for part in target.split('/') {
            match part {
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        parts.join("/")
    }

    #[test]
    fn gpus_come_in_node_order_and_cpu_nodes_are_none() {
        let minors: Vec<u32> = gpus(&tree()).iter().map(|gpu| gpu.render_minor).collect();
        assert_eq!(minors, [128, 129]);
    }

    #[test]
    fn topology_files_are_there_unchanged() {
        let root = view(&tree(), None);
        assert_eq!(text(&root, "sys/devices/virtual/kfd/kfd/topology/generation_id"), "2\n");
        assert_eq!(resolve(&root, "sys/class/kfd/kfd"), "sys/devices/virtual/kfd/kfd");
    }

    #[test]
    fn libdrm_finds_the_pci_device_from_the_device_number() {
        let root = view(&tree(), None);
        // libdrm's drmParsePciBusInfo and drmParseSubsystemType start at /sys/dev/char/226:N/device.
        let node = resolve(&root, "sys/dev/char/226:128");
        assert_eq!(text(&root, &format!("{node}/dev")), "226:128\n");
        let device = resolve(&root, &format!("{node}/device"));
        assert_eq!(device, "sys/devices/pci0000:c1/0000:c1:00.0");
        assert!(text(&root, &format!("{device}/uevent")).contains("PCI_SLOT_NAME=0000:c1:00.0\n"));
        assert_eq!(resolve(&root, &format!("{device}/subsystem")), "sys/bus/pci");
        assert_eq!(text(&root, &format!("{device}/vendor")), "0x1002\n");
        assert_eq!(resolve(&root, "sys/bus/pci/devices/0001:21:00.0"), "sys/devices/pci0001:21/0001:21:00.0");
        assert!(matches!(lookup(&root, &format!("{device}/drm/renderD128")), Some(Entry::Dir(_))));
    }

    #[test]
    fn each_gpu_has_a_primary_node_of_its_own() {
        let root = view(&tree(), None);
        for (minor, name, device) in [(128, "card0", "0000:c1:00.0"), (129, "card1", "0001:21:00.0")] {
            let node = resolve(&root, &format!("sys/dev/char/226:{minor}"));
            let beside = node.replace(&format!("renderD{minor}"), name);
            assert!(beside.contains(device), "{beside}");
            assert_eq!(resolve(&root, &format!("sys/class/drm/{name}")), beside);
        }
    }

    #[test]
    fn pci_config_space_starts_with_the_ids() {
        let root = view(&tree(), None);
        let Some(Entry::File { contents, .. }) = lookup(&root, "sys/devices/pci0000:c1/0000:c1:00.0/config")
        else {
            panic!("no config")
        };
        assert_eq!(contents.len(), 64);
        assert_eq!(contents[..4], [0x02, 0x10, 0x0f, 0x74]);
    }

    #[test]
    fn modules_are_shown_where_the_machine_would_show_them() {
        let with = view(&tree(), Some(b"loop 1 0 - Live 0x0\n"));
        assert!(text(&with, "proc/modules").starts_with("amdgpu "));
        assert!(text(&with, "proc/modules").ends_with("loop 1 0 - Live 0x0\n"));
        let without = view(&tree(), None);
        assert!(lookup(&without, "proc").is_none());
        assert!(text(&without, "dev/.kfdvirt/lsmod").contains("amdgpu"));
    }

    /// `kfd_build_sysfs_node_entry`: a CPU node has a directory for caches, and nothing in it.
    #[test]
    fn directories_that_the_kernel_leaves_empty_are_there() {
        let mut root = view(&tree(), None);
        let node = root.dir("sys/devices/virtual/kfd/kfd/topology/nodes/0").expect("a directory");
        assert_eq!(node.entries.get("caches"), Some(&Entry::Dir(Dir::default())));
        assert_eq!(node.entries.get("perf"), Some(&Entry::Dir(Dir::default())));
    }

    #[test]
    fn hostile_trees_make_no_entry_outside_of_the_topology() {
        let mut hostile = tree();
        hostile.files.insert(
            "nodes/7/properties".to_owned(),
            b"drm_render_minor 4294967295\nlocation_id -1\n\xff".to_vec(),
        );
        hostile.files.insert("../../escape".to_owned(), Vec::new());
        let root = view(&hostile, None);
        assert_eq!(gpus(&hostile).len(), 2);
        let mut clean = tree();
        clean.files.insert("nodes/7/properties".to_owned(), hostile.files["nodes/7/properties"].clone());
        assert_eq!(root, view(&clean, None));
    }
}
