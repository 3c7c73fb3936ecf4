//! The thunk's functions by name: what a library has to export, since when, with which C types.
//!
//! This is data: the list of exports and MATRIX.md are made of it.

mod context;
mod plain;
mod virtio;

pub use context::CONTEXT;
pub use plain::PLAIN;
pub use virtio::VIRTIO;

/// What a function is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Area {
    /// Opening and closing.
    Open,
    /// Version of the interface.
    Version,
    /// Topology.
    Topology,
    /// Clocks.
    Time,
    /// Events and SMI messages.
    Event,
    /// Queues.
    Queue,
    /// Allocating, registering and mapping memory.
    Memory,
    /// External semaphores.
    Semaphore,
    /// Buffers of other drivers (dma-buf, graphics handles).
    DmaBuf,
    /// Memory of other processes.
    Ipc,
    /// Debugging.
    Debug,
    /// Performance counters.
    Perf,
    /// Streaming performance monitors.
    Spm,
    /// Shared virtual memory.
    Svm,
    /// Memory objects and libdrm's devices.
    Handle,
    /// PC sampling.
    PcSampling,
    /// File transfers to GPU memory.
    Ais,
    /// The simulated device of `HSA_MODEL_LIB`.
    Model,
    /// libdrm's functions for the virtio device.
    Drm,
    /// Others.
    Other,
}

/// The first of the versions looked at that has a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Since {
    /// 5.2.3 (Debian 12) or before.
    V5_2_3,
    /// 6.2.4 (Debian 13).
    V6_2_4,
    /// August 2025.
    Aug2025,
    /// 2026.
    Y2026,
}

/// Where a function is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Export {
    /// In the newest version script (`HSAKMT_1`), so in a shared library.
    Versioned,
    /// In the version script of 5.2.3, not in later ones.
    Retired,
    /// Declared in `hsakmt.h` only: callers link it statically, if anything implements it.
    Header,
    /// Declared in `hsakmtctx.h`, or with a context in `hsakmt.h`; linked statically.
    Context,
    /// In the version script of the virtio library or in its header.
    Virtio,
    /// On branches or for Windows only.
    Unreleased,
}

/// A function of the thunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name in C.
    pub name: &'static str,
    /// What it is about.
    pub area: Area,
    /// The first version that has it.
    pub since: Since,
    /// Where it is to be found.
    pub export: Export,
    /// The C types of its parameters, separated by `, `, or `void`.
    pub params: &'static str,
}

impl Function {
    /// The C type of the result.
    #[must_use]
    pub fn returns(&self) -> &'static str {
        if self.area == Area::Drm { "int" } else { "HSAKMT_STATUS" }
    }

    /// The C types of the parameters.
    pub fn param_types(&self) -> impl Iterator<Item = &'static str> {
        self.params.split(", ").filter(|param| *param != "void")
    }

    /// The plain function that this one does on a context or over virtio.
    #[must_use]
    pub fn mirrors(&self) -> Option<&'static Function> {
        let name = self.name.strip_suffix("Ctx").or_else(|| self.name.strip_prefix('v'))?;
        PLAIN.iter().find(|function| function.name == name)
    }

    /// Whether a shared library with the symbols of both Debian releases and of the newest version exports it.
    #[must_use]
    pub fn is_versioned(&self) -> bool {
        matches!(self.export, Export::Versioned | Export::Retired)
    }
}

/// Every function.
pub fn all() -> impl Iterator<Item = &'static Function> {
    PLAIN.iter().chain(CONTEXT).chain(VIRTIO)
}

/// The function of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Function> {
    all().find(|function| function.name == name)
}

/// One table: `name area since export "parameter types";`.
macro_rules! functions {
    ($(#[$doc:meta])* pub static $table:ident; $($name:ident $area:ident $since:ident $export:ident $params:literal;)*) => {
        $(#[$doc])*
        pub static $table: &[Function] = &[$(Function {
            name: stringify!($name),
            area: super::Area::$area,
            since: super::Since::$since,
            export: super::Export::$export,
            params: $params,
        },)*];
    };
}

use functions;

#[cfg(test)]
mod tests;
