//! What an operator reads when a GPU accessed memory that it must not.

use protocol::hsakmt::{
    AccessFailure, MemoryAccessFault, PointerInfo, PointerType, SvmAttrType, SvmAttribute,
};

use crate::engine::Engine;

impl Engine {
    /// Logs a memory exception, and what is known of the address.
    pub(super) fn report_memory_exception(&self, fault: &MemoryAccessFault) {
        let MemoryAccessFault { node_id, virtual_address, failure, .. } = *fault;
        let exact = if failure.imprecise() { "about " } else { "" };
        let reason = reason(failure);
        log::error!("memory exception of the GPU of node {node_id} at {exact}{virtual_address:#x}: {reason}");
        let owner = match self.pointer_info(virtual_address) {
            Ok(info) => buffer(&info),
            Err(_) => self.shared_memory(virtual_address, node_id),
        };
        log::error!("{virtual_address:#x} {owner}");
    }

    /// What is known of an address that is in no buffer.
    fn shared_memory(&self, address: u64, node: u32) -> String {
        let page = rustix::param::page_size() as u64;
        let mut access = [SvmAttribute { type_: SvmAttrType::ACCESS.0, value: node }];
        let start = address - address % page;
        match self.svm_get_attributes(start, page, &mut access).map(|()| SvmAttrType(access[0].type_)) {
            Ok(SvmAttrType::NO_ACCESS) => {
                format!("is memory of this process that the GPU of node {node} may not access")
            }
            Ok(_) => format!("is shared virtual memory that the GPU of node {node} may access"),
            Err(_) => "belongs to no known buffer".to_owned(),
        }
    }
}

fn reason(failure: AccessFailure) -> &'static str {
    if failure.not_present() {
        "no page is mapped there"
    } else if failure.read_only() {
        "a write to a page that is read-only"
    } else if failure.no_execute() {
        "execution of a page that is not executable"
    } else {
        "the memory has an error"
    }
}

fn buffer(info: &PointerInfo) -> String {
    let PointerInfo { node, gpu_address, size_in_bytes, n_mapped_nodes, .. } = *info;
    let what = match info.type_ {
        PointerType::REGISTERED_USER => "memory of this process that is registered",
        PointerType::REGISTERED_GRAPHICS => "a graphics buffer",
        PointerType::REGISTERED_SHARED => "memory of another process",
        PointerType::RESERVED_ADDR => "a reservation of addresses",
        _ => "a buffer",
    };
    format!(
        "is in {what} at {gpu_address:#x}, {size_in_bytes:#x} bytes, of node {node}, mapped to {n_mapped_nodes} nodes"
    )
}
