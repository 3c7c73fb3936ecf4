//! Calls for a GPU as a whole: clocks, tiling, trap handler, memory policy.

use protocol::hsakmt::{ClockCounters, GpuTileConfig, Status};
use protocol::kfd::Ioctl;
use protocol::kfd::args::{GetClockCountersArgs, GetTileConfigArgs, SetMemoryPolicyArgs, SetTrapHandlerArgs};
use protocol::kfd::constants::CachePolicy;
use protocol::kfd::topology::GfxVersion;

use super::super::{Engine, Result};

const PAGE: u64 = 4096;
/// The one chip whose memory policy a program may set.
const KAVERI: GfxVersion = GfxVersion::new(7, 0, 0);

impl Engine {
    /// Clocks of a GPU and of the system, read together. The GPU's is 0 for a node without one.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT`; `ERROR`.
    pub fn clock_counters(&self, node: u32) -> Result<ClockCounters> {
        let mut args = GetClockCountersArgs { gpu_id: self.gpu_id(node)?, ..Default::default() };
        self.channel.ioctl(Ioctl::GetClockCounters, &mut args).map_err(|errno| {
            log::debug!("KFD tells no clocks of node {node}: {errno}");
            Status::Error
        })?;
        Ok(ClockCounters {
            gpu_clock_counter: args.gpu_clock_counter,
            cpu_clock_counter: args.cpu_clock_counter,
            system_clock_counter: args.system_clock_counter,
            system_clock_frequency_hz: args.system_clock_freq,
        })
    }

    /// How a GPU lays out tiled images. The arrays that `config` names are filled in by the kernel; the counts are
    /// room before and entries afterwards.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT`; `ERROR` for a node without GPU or arrays that cannot be written.
    pub fn tile_config(&self, node: u32, config: &mut GpuTileConfig) -> Result<()> {
        let mut args = GetTileConfigArgs {
            tile_config_ptr: config.tile_config,
            macro_tile_config_ptr: config.macro_tile_config,
            num_tile_configs: config.num_tile_configs,
            num_macro_tile_configs: config.num_macro_tile_configs,
            gpu_id: self.gpu_id(node)?,
            ..Default::default()
        };
        self.channel.ioctl(Ioctl::GetTileConfig, &mut args).map_err(|errno| {
            log::debug!("KFD tells no tile configuration of node {node}: {errno}");
            Status::Error
        })?;
        config.num_tile_configs = args.num_tile_configs;
        config.num_macro_tile_configs = args.num_macro_tile_configs;
        config.gb_addr_config = args.gb_addr_config;
        config.num_banks = args.num_banks;
        config.num_ranks = args.num_ranks;
        Ok(())
    }

    /// Sets the code that waves run at a trap, and its data. KFD wants to know neither size.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT`; `ERROR` for a node without GPU.
    pub fn set_trap_handler(
        &self,
        node: u32,
        tba: u64,
        tba_size: u64,
        tma: u64,
        tma_size: u64,
    ) -> Result<()> {
        let mut args = SetTrapHandlerArgs {
            tba_addr: tba,
            tma_addr: tma,
            gpu_id: self.gpu_id(node)?,
            ..Default::default()
        };
        self.channel.ioctl(Ioctl::SetTrapHandler, &mut args).map_err(|errno| {
            log::debug!(
                "KFD takes no trap handler on node {node} ({tba_size} bytes at {tba:#x}, data {tma_size} bytes at \
                 {tma:#x}): {errno}"
            );
            Status::Error
        })
    }

    /// Chooses how a Kaveri APU caches memory, and a range in which it does otherwise. On other GPUs this library and
    /// KFD decide.
    ///
    /// # Errors
    /// `INVALID_NODE_UNIT`; `NOT_IMPLEMENTED` for any other GPU or none; `INVALID_PARAMETER` for a policy that is
    /// none, or a range that is not in whole pages; `ERROR`.
    pub fn set_memory_policy(
        &self,
        node: u32,
        default: u32,
        alternate: u32,
        base: u64,
        size: u64,
    ) -> Result<()> {
        let snapshot = self.snapshot_with(node)?;
        let known = snapshot.node(node).ok_or(Status::InvalidNodeUnit)?;
        if known.gpu_id == 0 || known.hardware != KAVERI {
            log::debug!("the memory policy of node {node} is not the program's to choose");
            return Err(Status::NotImplemented);
        }
        let mut args = SetMemoryPolicyArgs {
            default_policy: cache_policy(default)?.0,
            alternate_policy: cache_policy(alternate)?.0,
            alternate_aperture_base: whole_pages(base)?,
            alternate_aperture_size: whole_pages(size)?,
            gpu_id: known.gpu_id,
            ..Default::default()
        };
        self.channel.ioctl(Ioctl::SetMemoryPolicy, &mut args).map_err(|errno| {
            log::debug!("KFD takes no memory policy for node {node}: {errno}, for {args:x?}");
            Status::Error
        })
    }

    /// KFD's id of a node: 0 for one without GPU.
    fn gpu_id(&self, node: u32) -> Result<u32> {
        let snapshot = self.snapshot_with(node)?;
        snapshot.node(node).map(|node| node.gpu_id).ok_or(Status::InvalidNodeUnit)
    }
}

/// KFD's word for a `HSA_CACHING_TYPE`: cached memory is coherent.
fn cache_policy(caching: u32) -> Result<CachePolicy> {
    match caching {
        0 => Ok(CachePolicy::COHERENT),
        1 => Ok(CachePolicy::NONCOHERENT),
        other => {
            log::debug!("{other} is no caching type");
            Err(Status::InvalidParameter)
        }
    }
}

fn whole_pages(value: u64) -> Result<u64> {
    if value.is_multiple_of(PAGE) {
        return Ok(value);
    }
    log::debug!("{value:#x} is not in whole pages");
    Err(Status::InvalidParameter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_memory_is_coherent_and_other_types_are_none() {
        assert_eq!(cache_policy(0), Ok(CachePolicy::COHERENT));
        assert_eq!(cache_policy(1), Ok(CachePolicy::NONCOHERENT));
        for wrong in [2, 3, u32::MAX] {
            assert_eq!(cache_policy(wrong), Err(Status::InvalidParameter), "{wrong}");
        }
        assert_eq!(whole_pages(8192), Ok(8192));
        assert_eq!(whole_pages(u64::MAX), Err(Status::InvalidParameter));
    }
}
