//! The entry points of `hsakmt.h`, by area. Each converts its arguments, calls the engine, and converts the result back.

mod debug;
mod event;
mod lifetime;
mod memory;
mod queue;
mod refused;
mod svm;
mod topology;
mod virtio;

pub(crate) use refused::REFUSED;

/// The entry points that do what `hsakmt.h` says, by area.
pub(crate) const AREAS: [(&str, &[&str]); 10] = [
    ("open and close", lifetime::NAMES),
    ("topology", topology::NAMES),
    ("memory", memory::NAMES),
    ("queues", queue::NAMES),
    ("events", event::NAMES),
    ("shared virtual memory", svm::NAMES),
    ("debugging", debug::NAMES),
    ("open over virtio", virtio::NAMES),
    ("the same over virtio", virtio::OTHERS),
    ("libdrm's over virtio", virtio::DRM),
];
