//! Opening, closing, version.

use hsakmt::engine::Opened;
use protocol::hsakmt::{Status, VersionInfo};

use crate::ffi::{Out, Struct};
use crate::guard::entry;
use crate::library;

entry! {
    /// Opens the library, or counts one more user.
    fn hsaKmtOpenKFD() {
        match library::open()? {
            Opened::First => Ok(()),
            Opened::Again => Err(Status::KernelAlreadyOpened),
        }
    }

    /// One user less.
    fn hsaKmtCloseKFD() {
        library::close()
    }

    /// Version of the kernel's interface.
    fn hsaKmtGetVersion(version: Struct<VersionInfo>) {
        let engine = library::engine()?;
        version.required()?.set(&engine.version());
        Ok(())
    }

    /// The old debugger's interface of ROCm 5.2: its version was asked with an operation that kernels no longer have.
    fn hsaKmtGetKernelDebugTrapVersionInfo(_major: Out<u32>, _minor: Out<u32>) {
        library::engine()?;
        log::debug!("hsaKmtGetKernelDebugTrapVersionInfo: no kernel since 6.5 has this debugger's interface");
        Err(Status::Error)
    }
}
