//! What the runtime and a debugger agree on through KFD: RUNTIME_ENABLE, and whether debugging works at all.

use std::sync::atomic::{AtomicU32, Ordering};

use protocol::Errno;
use protocol::hsakmt::Status;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{DbgRegisterArgs, DbgUnregisterArgs, RuntimeEnableArgs};
use protocol::kfd::constants::RuntimeMode;

use super::{Engine, Result};

/// Interface version from which KFD has RUNTIME_ENABLE and its debugger calls.
const SINCE: u32 = 13;

/// What this part keeps.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// What KFD said at the last RUNTIME_ENABLE. An atomic: the call waits for a debugger's answer, and no lock may
    /// be held meanwhile.
    capabilities: AtomicU32,
}

impl State {
    pub(crate) fn new() -> Self {
        Self::default()
    }
}

impl Engine {
    /// Whether a debugger could work (`hsaKmtCheckRuntimeDebugSupport`): KFD 1.13, and on every GPU that is not part
    /// of an APU firmware that KFD calls good enough (bit 29 of `capability`, by versions for each instruction set).
    ///
    /// # Errors
    /// `NOT_SUPPORTED`; `ERROR` if the topology cannot be read.
    pub fn check_runtime_debug_support(&self) -> Result<()> {
        let snapshot = self.snapshot().map_err(|_| Status::Error)?;
        for (id, node) in (0_u32..).zip(&snapshot.nodes) {
            // APUs are not asked, as in AMD's library.
            if node.properties.num_cpu_cores == 0 && !node.properties.capability.debug_supported_firmware() {
                log::debug!("the firmware of node {id} does not support debugging");
                return Err(Status::NotSupported);
            }
        }
        self.require_minor(SINCE)
    }

    /// Tells KFD that a runtime is there (`hsaKmtRuntimeEnable`). `r_debug` is the address of its `struct r_debug`;
    /// with `setup_ttmp` waves get their trap temporaries. With a debugger attached the call waits for its answer.
    ///
    /// # Errors
    /// As [`Engine::check_runtime_debug_support`]; `UNAVAILABLE` if it is enabled already (`EBUSY`); `ERROR` if the
    /// process has queues (`EEXIST`), and else.
    pub fn runtime_enable(&self, r_debug: u64, setup_ttmp: bool) -> Result<()> {
        self.check_runtime_debug_support()?;
        let ttmp = if setup_ttmp { RuntimeMode::TTMP_SAVE.0 } else { 0 };
        let mut args =
            RuntimeEnableArgs { r_debug, mode_mask: RuntimeMode::ENABLE.0 | ttmp, capabilities_mask: 0 };
        self.channel.ioctl(Ioctl::RuntimeEnable, &mut args).map_err(|errno| match errno {
            Errno::EBUSY => {
                log::debug!("the runtime of this process is enabled already");
                Status::Unavailable
            }
            Errno::EEXIST => {
                log::debug!("the runtime cannot be enabled: this process has queues");
                Status::Error
            }
            errno => {
                log::debug!("the runtime cannot be enabled: {errno}");
                Status::Error
            }
        })?;
        self.debug.capabilities.store(args.capabilities_mask, Ordering::Relaxed);
        Ok(())
    }

    /// Tells KFD that the runtime ends (`hsaKmtRuntimeDisable`). With a debugger attached the call waits for its
    /// answer.
    ///
    /// # Errors
    /// As [`Engine::check_runtime_debug_support`]; `ERROR`.
    pub fn runtime_disable(&self) -> Result<()> {
        self.check_runtime_debug_support()?;
        let mut args = RuntimeEnableArgs::default();
        self.channel.ioctl(Ioctl::RuntimeEnable, &mut args).map_err(|errno| {
            log::debug!("the runtime cannot be disabled: {errno}");
            Status::Error
        })
    }

    /// What KFD said of itself at the last [`Engine::runtime_enable`] (`hsaKmtGetRuntimeCapabilities`,
    /// [`protocol::hsakmt::RuntimeCaps`]); 0 before, and on kernels that are not ROCm's.
    #[must_use]
    pub fn runtime_capabilities(&self) -> u32 {
        self.debug.capabilities.load(Ordering::Relaxed)
    }

    /// The debugger registration of old kernels (`hsaKmtDbgRegister`). Kernels that this library knows refuse it.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT` for a node that there is not; else `ERROR`, unless a kernel takes it.
    pub fn debug_register(&self, node: u32) -> Result<()> {
        let mut args = DbgRegisterArgs { gpu_id: self.debug_gpu(node)?, ..Default::default() };
        let result = self.channel.ioctl(Ioctl::DbgRegisterDeprecated, &mut args);
        result.map_err(|errno| refused(node, errno))
    }

    /// The counterpart of [`Engine::debug_register`] (`hsaKmtDbgUnregister`).
    ///
    /// # Errors
    /// As there.
    pub fn debug_unregister(&self, node: u32) -> Result<()> {
        let mut args = DbgUnregisterArgs { gpu_id: self.debug_gpu(node)?, ..Default::default() };
        let result = self.channel.ioctl(Ioctl::DbgUnregisterDeprecated, &mut args);
        result.map_err(|errno| refused(node, errno))
    }

    fn debug_gpu(&self, node: u32) -> Result<u32> {
        self.snapshot()?.node(node).map(|node| node.gpu_id).ok_or_else(|| {
            log::debug!("there is no node {node} to debug");
            Status::InvalidNodeUnit
        })
    }
}

fn refused(node: u32, errno: Errno) -> Status {
    log::debug!("KFD refuses the old debugger calls on node {node}: {errno}");
    Status::Error
}

#[cfg(test)]
mod tests;
