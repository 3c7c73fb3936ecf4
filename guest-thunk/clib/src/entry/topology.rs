//! Nodes and what belongs to them.

use protocol::hsakmt::{
    CacheProperties, ClockCounters, IoLinkProperties, MemoryProperties, NodeProperties, SystemProperties,
};

use crate::drm::{self, DeviceHandle};
use crate::ffi::{Out, Struct};
use crate::guard::entry;
use crate::library;

entry! {
    /// Takes a snapshot of the topology and tells how many nodes it has.
    fn hsaKmtAcquireSystemProperties(properties: Struct<SystemProperties>) {
        let engine = library::engine()?;
        let properties = properties.required()?;
        properties.set(&engine.acquire_system_properties()?);
        Ok(())
    }

    /// Drops the snapshot. Without one, and before the library is open, there is nothing to do.
    fn hsaKmtReleaseSystemProperties() {
        library::engine().map_or(Ok(()), hsakmt::Engine::release_system_properties)
    }

    /// Properties of a node, in the caller's layout.
    fn hsaKmtGetNodeProperties(node: u32, properties: Struct<NodeProperties>) {
        // This one is looked at before the library is asked for.
        let properties = properties.required()?;
        properties.set(&library::engine()?.node_properties(node)?);
        Ok(())
    }

    /// Memory banks of a node.
    fn hsaKmtGetNodeMemoryProperties(node: u32, banks: u32, properties: Struct<MemoryProperties>) {
        let engine = library::engine()?;
        let properties = properties.required()?;
        properties.set_all(&engine.node_memory_properties(node, banks)?);
        Ok(())
    }

    /// Caches of a node. All processors of a node are told of at once; `processor` says nothing more.
    fn hsaKmtGetNodeCacheProperties(node: u32, processor: u32, caches: u32, properties: Struct<CacheProperties>) {
        let engine = library::engine()?;
        let properties = properties.required()?;
        properties.set_all(&engine.node_cache_properties(node, processor, caches)?);
        Ok(())
    }

    /// Links of a node to others, in the caller's layout.
    fn hsaKmtGetNodeIoLinkProperties(node: u32, links: u32, properties: Struct<IoLinkProperties>) {
        let engine = library::engine()?;
        let properties = properties.required()?;
        properties.set_all(&engine.node_io_link_properties(node, links)?);
        Ok(())
    }

    /// GPU, CPU and system clocks at one moment.
    fn hsaKmtGetClockCounters(node: u32, counters: Struct<ClockCounters>) {
        let engine = library::engine()?;
        let counters = counters.required()?;
        counters.set(&engine.clock_counters(node)?);
        Ok(())
    }

    /// libdrm's handle of a GPU.
    fn hsaKmtGetAMDGPUDeviceHandle(node: u32, handle: Out<DeviceHandle>) {
        let engine = library::engine()?;
        let handle = handle.required()?;
        let minor = engine.render_minor(node)?;
        handle.set(drm::device(minor)?);
        Ok(())
    }
}
