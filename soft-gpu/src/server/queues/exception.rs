//! Exceptions of a queue that go to the runtime (`send_exception_work_handler` in `kfd_process.c`).

use protocol::kfd::types::ContextSaveAreaHeader;
use zerocopy::{FromZeros, IntoBytes};

use super::Source;
use crate::server::process::ProcessState;

/// ORs `exceptions` into the word that the header of the queue's context save area names, and sets the event that it
/// names. A queue without save area (SDMA) has nowhere to say it.
///
/// The kernel takes both addresses as the program's CPU addresses; where its memory cannot be reached outside of a
/// call, the same addresses are tried on the GPU, which in ROCm are equal.
pub(crate) fn send_exception(process: &ProcessState, queue_id: u32, exceptions: u64) {
    let source = process.queues.sources().get(&queue_id).cloned();
    let Some(source) = source.filter(|source| source.save_area != 0) else { return };
    let Some(event_id) = write_error_word(process, &source, exceptions) else {
        log::warn!("process {}: queue {queue_id}: the error word cannot be reached", process.caller.pid);
        return;
    };
    if let Err(errno) = process.events.set(event_id) {
        log::debug!("process {}: error event {event_id}: {errno}", process.caller.pid);
    }
}

/// Returns the event to set; `None` if an address cannot be reached.
fn write_error_word(process: &ProcessState, source: &Source, exceptions: u64) -> Option<u32> {
    let mut header = ContextSaveAreaHeader::new_zeroed();
    read(process, source, source.save_area, header.as_mut_bytes())?;
    let mut word = [0; 8];
    read(process, source, header.err_payload_addr, &mut word)?;
    let word = u64::from_le_bytes(word) | exceptions;
    write(process, source, header.err_payload_addr, &word.to_le_bytes())?;
    Some(header.err_event_id)
}

fn read(process: &ProcessState, source: &Source, addr: u64, buf: &mut [u8]) -> Option<()> {
    if let Some(mem) = &process.caller.mem
        && mem.read(addr, buf).is_ok()
    {
        return Some(());
    }
    source.vm.read(addr, buf).ok()
}

fn write(process: &ProcessState, source: &Source, addr: u64, buf: &[u8]) -> Option<()> {
    if let Some(mem) = &process.caller.mem
        && mem.write(addr, buf).is_ok()
    {
        return Some(());
    }
    source.vm.write(addr, buf).ok()
}
