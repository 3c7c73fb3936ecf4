//! What runtimes and debuggers ask for.

use crate::ffi::Out;
use crate::guard::entry;
use crate::library;

entry! {
    /// Tells the kernel that a runtime is there, for debuggers.
    fn hsaKmtRuntimeEnable(r_debug: u64, setup_ttmp: bool) {
        library::engine()?.runtime_enable(r_debug, setup_ttmp)
    }

    /// Takes that back.
    fn hsaKmtRuntimeDisable() {
        library::engine()?.runtime_disable()
    }

    /// Whether this machine can debug GPU code.
    fn hsaKmtCheckRuntimeDebugSupport() {
        library::engine()?.check_runtime_debug_support()
    }

    /// What the kernel said when the runtime was enabled.
    fn hsaKmtGetRuntimeCapabilities(capabilities: Out<u32>) {
        let engine = library::engine()?;
        let capabilities = capabilities.required()?;
        capabilities.set(engine.runtime_capabilities());
        Ok(())
    }

    /// The debugger's old interface, which kernels refuse.
    fn hsaKmtDbgRegister(node: u32) {
        library::engine()?.debug_register(node)
    }

    /// The debugger's old interface, which kernels refuse.
    fn hsaKmtDbgUnregister(node: u32) {
        library::engine()?.debug_unregister(node)
    }
}
