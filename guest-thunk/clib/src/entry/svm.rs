//! Shared virtual memory and XNACK.

use protocol::hsakmt::SvmAttribute;

use crate::ffi::{Out, Struct};
use crate::guard::entry;
use crate::library;

entry! {
    /// Sets attributes of an address range.
    fn hsaKmtSVMSetAttr(address: u64, size: u64, count: u32, attributes: Struct<SvmAttribute>) {
        let engine = library::engine()?;
        engine.svm_set_attributes(address, size, &attributes.copy(u64::from(count))?)
    }

    /// Reads attributes of an address range: the types are given, the values are filled in.
    fn hsaKmtSVMGetAttr(address: u64, size: u64, count: u32, attributes: Struct<SvmAttribute>) {
        let engine = library::engine()?;
        let mut filled = attributes.copy(u64::from(count))?;
        engine.svm_get_attributes(address, size, &mut filled)?;
        attributes.set_all(&filled);
        Ok(())
    }

    /// Whether GPU page faults are retried in this process.
    fn hsaKmtSetXNACKMode(enable: i32) {
        library::engine()?.set_xnack_mode(enable)
    }

    /// Whether GPU page faults are retried in this process.
    fn hsaKmtGetXNACKMode(enabled: Out<i32>) {
        let engine = library::engine()?;
        let enabled = enabled.required()?;
        enabled.set(engine.xnack_mode()?);
        Ok(())
    }
}
