//! The memory of a flat call, as the device sees it.

use std::sync::{Mutex, PoisonError};

use super::{FlatCall, FlatWrites};
use crate::Errno;
use crate::kfd::user_mem::{Fault, Shared, UserMem};

/// A [`UserMem`] over the ranges of a [`FlatCall`]: reads come from what was gathered, writes are recorded.
///
/// Anything outside the declared ranges is a [`Fault`], and so is an access that spans two of them. What was
/// written into a range that is also read is read back as written.
#[derive(Debug)]
pub struct FlatMem {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    call: FlatCall,
    writes: FlatWrites,
}

impl FlatMem {
    /// The memory of this call, nothing written yet.
    #[must_use]
    pub fn new(call: FlatCall) -> FlatMem {
        FlatMem { state: Mutex::new(State { call, writes: FlatWrites::default() }) }
    }

    /// What the device wrote.
    #[must_use]
    pub fn into_writes(self) -> FlatWrites {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).writes
    }
}

impl State {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Option<()> {
        let len = buf.len() as u64;
        let mut found = self.call.ranges.iter().filter(|range| range.flow.reads()).filter_map(|range| {
            let start = usize::try_from(range.locate(addr, len)?).ok()?;
            range.data.get(start..start.checked_add(buf.len())?)
        });
        buf.copy_from_slice(found.next()?);
        Some(())
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Option<()> {
        let len = data.len() as u64;
        if !self.call.may_write(addr, len) {
            return None;
        }
        for range in self.call.ranges.iter_mut().filter(|range| range.flow.reads()) {
            let Some(start) = range.locate(addr, len).and_then(|start| usize::try_from(start).ok()) else {
                continue;
            };
            if let Some(target) = start.checked_add(data.len()).and_then(|end| range.data.get_mut(start..end))
            {
                target.copy_from_slice(data);
            }
        }
        // A write that goes on where the last one ended becomes part of it, but not across two ranges.
        match self.writes.last_end() {
            Some((start, end)) if end == addr && self.call.may_write(start, end - start + len) => {
                self.writes.extend_last(data);
            }
            _ => self.writes.list.push((addr, data.to_vec())),
        }
        Some(())
    }
}

impl UserMem for FlatMem {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        if buf.is_empty() {
            return Ok(());
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.read(addr, buf).ok_or(Fault { addr, len: buf.len() as u64 })
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        if buf.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(addr, buf).ok_or(Fault { addr, len: buf.len() as u64 })
    }

    /// A flat call carries copies only.
    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}
