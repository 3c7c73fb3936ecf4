//! The machines that the software GPU can be: built-in profiles and trees given by the user.

mod asics;
mod build;
mod caches;
mod from_tree;
pub mod gpu;
pub mod load;
mod node;

use std::fmt;
use std::str::FromStr;

use protocol::Errno;
use protocol::kfd::topology::{Layout, Topology, Tree};

use crate::Kernel;
pub use build::{Builder, Host};
pub use from_tree::MachineError;
pub use gpu::GpuSpec;

/// Everything that the software KFD is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// All nodes.
    pub topology: Topology,
    /// What the topology does not tell, one entry for each node with a GPU, in order.
    pub gpus: Vec<GpuSpec>,
    /// Which kernel's KFD it is.
    pub kernel: Kernel,
    /// The files as they were given, if the machine was read from some.
    tree: Option<Tree>,
}

impl Machine {
    /// The files of the topology directory. A machine that was read from files shows these very
    /// bytes, with everything odd in them.
    #[must_use]
    pub fn tree(&self) -> Tree {
        self.tree.clone().unwrap_or_else(|| self.topology.tree(self.kernel.into()))
    }

    /// The GPU with this KFD id.
    #[must_use]
    pub fn gpu(&self, gpu_id: u32) -> Option<&GpuSpec> {
        self.gpus.iter().find(|gpu| gpu.gpu_id == gpu_id)
    }

    /// The GPU with this render node.
    #[must_use]
    pub fn gpu_with_render_minor(&self, minor: u32) -> Option<&GpuSpec> {
        self.gpus.iter().find(|gpu| gpu.render_minor == minor)
    }

    /// The render minors, in the order of the GPUs.
    #[must_use]
    pub fn render_minors(&self) -> Vec<u32> {
        self.gpus.iter().map(|gpu| gpu.render_minor).collect()
    }

    /// What the open of `/dev/kfd` answers every process, where its kernel takes none: Linux 7.2 and later do so
    /// where there is no GPU (`kfd_create_process`).
    #[must_use]
    pub fn refuses_processes(&self) -> Option<Errno> {
        (self.gpus.is_empty() && self.kernel == Kernel::Linux7_3).then_some(Errno::EINVAL)
    }

    /// Bytes of memory of the nodes with CPU cores.
    #[must_use]
    pub fn system_memory(&self) -> u64 {
        let cpus = self.topology.nodes.iter().filter(|node| node.is_cpu() && !node.is_gpu());
        cpus.fold(0, |sum, node| sum.saturating_add(node.memory_size()))
    }
}

impl From<Kernel> for Layout {
    fn from(kernel: Kernel) -> Self {
        match kernel {
            Kernel::Linux6_12 => Layout::Linux6_12,
            Kernel::Linux7_3 => Layout::Linux7_3,
            Kernel::Rocm => Layout::Rocm,
        }
    }
}

/// A built-in machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// One Instinct MI210.
    #[default]
    Mi210,
    /// One Instinct MI300X in SPX mode, in a host with two sockets.
    Mi300x,
    /// One Radeon RX 7900 XTX.
    Rx7900xtx,
    /// Two MI210 in one XGMI hive.
    TwoGpu,
    /// One MI210 of whose memory the CPU sees 256 MiB.
    SmallBar,
    /// One MI210 of whose memory the CPU sees nothing, as a guest in guest-memory mode has it.
    Mi210Private,
    /// No GPU.
    CpuOnly,
}

impl Profile {
    /// Every profile, in the order of the command line's help.
    pub const ALL: [Profile; 7] = [
        Profile::Mi210,
        Profile::Mi300x,
        Profile::Rx7900xtx,
        Profile::TwoGpu,
        Profile::SmallBar,
        Profile::Mi210Private,
        Profile::CpuOnly,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Mi210 => "mi210",
            Profile::Mi300x => "mi300x",
            Profile::Rx7900xtx => "rx7900xtx",
            Profile::TwoGpu => "two-gpu",
            Profile::SmallBar => "small-bar",
            Profile::Mi210Private => "mi210-private",
            Profile::CpuOnly => "cpu-only",
        }
    }

    /// One line for people.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Profile::Mi210 => "one Instinct MI210",
            Profile::Mi300x => "one Instinct MI300X in SPX mode, two CPU sockets",
            Profile::Rx7900xtx => "one Radeon RX 7900 XTX, queues scheduled by MES",
            Profile::TwoGpu => "two Instinct MI210 with an XGMI link",
            Profile::SmallBar => "one Instinct MI210 without large BAR: its memory is private",
            Profile::Mi210Private => "one Instinct MI210 whose memory no CPU sees, as in a VM without window",
            Profile::CpuOnly => "no GPU",
        }
    }

    /// The machine, as the KFD of `kernel` shows it.
    #[must_use]
    pub fn machine(self, kernel: Kernel) -> Machine {
        let one_socket = host(1, 2450);
        match self {
            Profile::Mi210 => {
                Builder::new(one_socket, kernel).gpu(serial(asics::mi210(), 0), 0, 0x6300).build()
            }
            Profile::Mi300x => {
                Builder::new(host(2, 2750), kernel).gpu(serial(asics::mi300x(), 0), 0, 0x0500).build()
            }
            Profile::Rx7900xtx => {
                Builder::new(host(1, 5083), kernel).gpu(serial(asics::rx7900xtx(), 0), 0, 0x0300).build()
            }
            Profile::TwoGpu => {
                let gpu = |n| GpuSpec { hive_id: 0x4bfd_a7a1_c0de_0001, ..serial(asics::mi210(), n) };
                Builder::new(one_socket, kernel).gpu(gpu(0), 0, 0x6300).gpu(gpu(1), 0, 0x4300).build()
            }
            Profile::SmallBar => {
                Builder::new(one_socket, kernel).gpu(mi210_that_shows(256 << 20), 0, 0x6300).build()
            }
            Profile::Mi210Private => {
                Builder::new(one_socket, kernel).gpu(mi210_that_shows(0), 0, 0x6300).build()
            }
            Profile::CpuOnly => Builder::new(one_socket, kernel).build(),
        }
    }
}

/// A host with sockets of 16 processors and 64 GiB each.
fn host(nodes: u32, mhz: u32) -> Host {
    Host { nodes, cores: 16, memory: 64 << 30, mhz, memory_mhz: 3200 }
}

/// An MI210 of whose memory the CPU sees so many bytes.
fn mi210_that_shows(visible: u64) -> GpuSpec {
    let mut gpu = serial(asics::mi210(), 0);
    gpu.vram.visible = visible;
    gpu
}

/// A made-up serial number that says so ("SOFT"), different for each GPU of a machine.
fn serial(spec: GpuSpec, n: u64) -> GpuSpec {
    GpuSpec { unique_id: 0x534f_4654_0000_0001 + n, ..spec }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A profile name that is not one of [`Profile::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown profile {0:?}: expected one of mi210, mi300x, rx7900xtx, two-gpu, small-bar, mi210-private, cpu-only"
)]
pub struct UnknownProfile(String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
            .ok_or_else(|| UnknownProfile(name.to_owned()))
    }
}

#[cfg(test)]
mod tests;
