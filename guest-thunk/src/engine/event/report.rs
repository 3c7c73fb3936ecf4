//! What an operator reads when a GPU accessed memory that it must not.

use protocol::hsakmt::MemoryAccessFault;

use crate::engine::Engine;

impl Engine {
    /// Logs a memory exception.
    #[allow(clippy::unused_self, reason = "what is known of the address comes with the memory part")]
    pub(super) fn report_memory_exception(&self, fault: &MemoryAccessFault) {
        let MemoryAccessFault { node_id, virtual_address, failure, .. } = *fault;
        let what = if failure.not_present() {
            "no page is mapped there"
        } else if failure.read_only() {
            "a write to a page that is read-only"
        } else if failure.no_execute() {
            "execution of a page that is not executable"
        } else {
            "the memory has an error"
        };
        let exact = if failure.imprecise() { "about " } else { "" };
        log::error!("memory exception of the GPU of node {node_id} at {exact}{virtual_address:#x}: {what}");
    }
}
