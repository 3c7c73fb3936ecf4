//! The context save area of a compute queue: where waves are saved when they are taken off the GPU, and the headers
//! through which KFD and debuggers find what lies in it.

use protocol::hsakmt::{ContextSaveAreaHeader, SvmAttrType, SvmAttribute, SvmFlags};
use zerocopy::IntoBytes;

use super::super::topology::Node;
use super::super::{Engine, Result};
use super::parts::{Buffer, Place};
use super::range::Range;
use super::sizes::SaveSizes;

/// Granularity: the whole range moves at a time.
const WHOLE: u32 = 0xff;

/// A context save area.
#[derive(Debug)]
pub(super) struct SaveArea {
    pub(super) address: u64,
    pub(super) sizes: SaveSizes,
    memory: Memory,
}

/// What the area lies in.
#[derive(Debug)]
enum Memory {
    /// Shared virtual memory, which the driver may keep in VRAM.
    Shared(Range),
    Buffer(Buffer),
}

/// Where KFD reports what went wrong with the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Address of a word that reasons are written to, or 0.
    pub(super) reason: u64,
    /// Event that is set then, or 0.
    pub(super) event_id: u32,
}

impl SaveArea {
    /// An area with its headers written: of shared virtual memory where every GPU has it, else of system memory.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(super) fn new(place: Place<'_>, sizes: SaveSizes, report: Report) -> Result<Self> {
        if has_shared_memory(place)
            && let Some(range) = shared(place, &sizes, report)
        {
            return Ok(Self { address: range.address, sizes, memory: Memory::Shared(range) });
        }
        let buffer = Buffer::system(place, sizes.total)?;
        write_headers(buffer.address, &sizes, report);
        Ok(Self { address: buffer.address, sizes, memory: Memory::Buffer(buffer) })
    }

    pub(super) fn free(&self, engine: &Engine) {
        match &self.memory {
            Memory::Shared(range) => range.free(),
            Memory::Buffer(buffer) => buffer.free(engine),
        }
    }

    /// Address of the control stack's end, where the waves of the first XCC begin.
    pub(super) fn wave_state(&self) -> u64 {
        self.address + u64::from(self.sizes.ctl_stack)
    }
}

fn has_shared_memory(place: Place<'_>) -> bool {
    let supported = |node: &Node| { node.properties.capability }.svm_api_supported();
    place.engine.options.svm && place.snapshot.gpus().all(|(_, node)| supported(node))
}

/// An area that KFD keeps mapped to the GPU, and moves to it at once. `None` where it refuses.
fn shared(place: Place<'_>, sizes: &SaveSizes, report: Report) -> Option<Range> {
    let range = match Range::new(sizes.total) {
        Ok(range) => range,
        Err(errno) => {
            log::debug!("no {} bytes for a context save area: {errno}", sizes.total);
            return None;
        }
    };
    // Before it moves: it would come back for the store.
    write_headers(range.address, sizes, report);
    if let Err(status) = share(place, &range) {
        log::debug!("a context save area cannot be shared virtual memory: {status}; it is a buffer");
        range.free();
        return None;
    }
    Some(range)
}

fn share(place: Place<'_>, range: &Range) -> Result<()> {
    // Always mapped: waves are saved when the GPU cannot wait for a page.
    place.engine.require_minor(11)?;
    let flags = SvmFlags::HOST_ACCESS | SvmFlags::GPU_EXEC | SvmFlags::GPU_ALWAYS_MAPPED;
    let home = place.snapshot.nearest_cpu(place.node_id).unwrap_or(0);
    let attributes = [
        (SvmAttrType::PREFETCH_LOC, place.node_id),
        (SvmAttrType::PREFERRED_LOC, home),
        (SvmAttrType::CLR_FLAGS, !flags.0),
        (SvmAttrType::SET_FLAGS, flags.0),
        (SvmAttrType::ACCESS, place.node_id),
        (SvmAttrType::GRANULARITY, WHOLE),
    ];
    let attributes = attributes.map(|(kind, value)| SvmAttribute { type_: kind.0, value });
    place.engine.svm_set_attributes(range.address, range.size, &attributes)
}

fn write_headers(address: u64, sizes: &SaveSizes, report: Report) {
    for xcc in 0..sizes.xccs {
        let header = header(sizes, xcc, report);
        let bytes = header.as_bytes();
        let at = address + u64::from(xcc) * u64::from(sizes.area);
        let to = core::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(at).unwrap_or(0));
        // SAFETY: `address` is a writable mapping of `sizes.total` bytes of this library, which nobody knows yet; each
        // XCC's part is longer than a header, because it begins with a control stack of whole pages.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

/// The header of one XCC. Offsets to the debugger's memory, which lies behind all areas, count from the header.
fn header(sizes: &SaveSizes, xcc: u32, report: Report) -> ContextSaveAreaHeader {
    ContextSaveAreaHeader {
        debug_offset: (sizes.xccs - xcc).saturating_mul(sizes.area),
        debug_size: sizes.debug.saturating_mul(sizes.xccs),
        error_reason: report.reason,
        error_event_id: report.event_id,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_leads_to_the_same_memory_of_the_debugger() {
        let sizes = SaveSizes { ctl_stack: 0x1000, area: 0x3000, debug: 0x400, xccs: 3, total: 0xa000 };
        let report = Report { reason: 0x7000_1000, event_id: 9 };
        for xcc in 0..3 {
            let header = header(&sizes, xcc, report);
            assert_eq!(xcc * sizes.area + header.debug_offset, 3 * 0x3000);
            assert_eq!(header.debug_size, 3 * 0x400);
            assert_eq!((header.error_reason, header.error_event_id), (0x7000_1000, 9));
            assert_eq!((header.control_stack_size, header.wave_state_size), (0, 0));
        }
    }
}
