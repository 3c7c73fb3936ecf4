//! The VMM's messages.
//!
//! Not the handler of vhost-user-backend 0.24, whose connection ends with the first message that is refused: a guest can
//! cause one (a queue at a misaligned address), and a VMM cannot replace a backend that ended.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVirtioFeatures, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Backend, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use vm_memory::{GuestAddress, GuestAddressSpace as _, GuestMemoryMmap, GuestRegionMmap};
use zerocopy::IntoBytes as _;

use super::queues::Queues;
use super::shmem::Channel;
use crate::device::{Device, Ring};

/// Regions of memory at most, as vhost in the kernel has it.
const MEMORY_SLOTS: u64 = 509;
/// Bytes of a configuration space at most (`VHOST_USER_CONFIG_SIZE`).
const CONFIG_SPACE: usize = 0x1000;

/// One connection.
pub struct Handler {
    device: Arc<Device>,
    rings: Vec<Ring>,
    queues: Queues,
    owned: bool,
    acked: u64,
    protocol: VhostUserProtocolFeatures,
    mappings: Vec<Mapping>,
}

/// Where the VMM has a region of the guest's memory: it names rings by its own addresses.
#[derive(Clone, Copy)]
struct Mapping {
    vmm: u64,
    guest: u64,
    len: u64,
    /// It is the window, which is no memory for rings, requests and blobs of the guest.
    window: bool,
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::InvalidOperation(what))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::ReqHandlerError(io::Error::other(error))
}

impl Handler {
    /// A connection to this device, with queues of its own.
    pub fn new(device: Arc<Device>) -> io::Result<Handler> {
        let ring = || Ring::new(device.memory()).map_err(io::Error::other);
        let rings = vec![ring()?, ring()?];
        let queues = Queues::start(Arc::clone(&device), rings.clone())?;
        Ok(Handler {
            device,
            rings,
            queues,
            owned: false,
            acked: 0,
            protocol: VhostUserProtocolFeatures::empty(),
            mappings: Vec::new(),
        })
    }

    fn ring(&self, index: u32) -> Result<&Ring> {
        usize::try_from(index).ok().and_then(|index| self.rings.get(index)).ok_or(Error::InvalidParam)
    }

    /// The guest's address of a place in the VMM.
    fn guest(&self, vmm: u64) -> Result<u64> {
        let place = |mapping: &Mapping| {
            let offset = vmm.checked_sub(mapping.vmm).filter(|offset| *offset < mapping.len)?;
            let offset = Some(offset).filter(|_| !mapping.window)?;
            mapping.guest.checked_add(offset)
        };
        self.mappings.iter().find_map(place).ok_or(Error::InvalidParam)
    }

    fn negotiated_protocol_features(&self) -> bool {
        self.acked & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0
    }

    fn stop(&self, index: u16, ring: &Ring) {
        ring.stop();
        self.queues.changed();
        self.device.stop(index);
    }

    /// Whether the VMM tells of the window: what it maps there comes back as memory of the guest.
    fn is_window(&self, file: &File) -> bool {
        self.device.window().is_some_and(|window| window.is_in(file))
    }

    fn set_memory(&self, memory: GuestMemoryMmap<()>) -> Result<()> {
        self.device.set_memory(memory).map_err(failed)
    }
}

fn mapping(region: &VhostUserMemoryRegion, window: bool) -> Mapping {
    let VhostUserMemoryRegion { guest_phys_addr: guest, memory_size: len, user_addr: vmm, .. } = *region;
    Mapping { vmm, guest, len, window }
}

/// Maps a region.
fn region(region: &VhostUserMemoryRegion, file: File) -> Result<(GuestRegionMmap<()>, Mapping)> {
    let mapping = mapping(region, false);
    let mapped = GuestRegionMmap::new(region.mmap_region(file)?, GuestAddress(region.guest_phys_addr));
    Ok((mapped.ok_or(Error::InvalidParam)?, mapping))
}

impl VhostUserBackendReqHandlerMut for Handler {
    fn set_owner(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.owned, true) {
            return unsupported("the device has an owner");
        }
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        (self.owned, self.acked) = (false, 0);
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        for (index, ring) in (0..).zip(&self.rings) {
            ring.set_enabled(false);
            self.stop(index, ring);
            ring.forget();
        }
        self.acked = 0;
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(Device::features() | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.get_features()? != 0 {
            return Err(Error::InvalidParam);
        }
        self.acked = features;
        for ring in &self.rings {
            ring.set_event_idx(features & (1 << VIRTIO_RING_F_EVENT_IDX) != 0);
            // Without the protocol features nobody says it.
            if !self.negotiated_protocol_features() {
                ring.set_enabled(true);
            }
        }
        self.queues.changed();
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        let window = VhostUserProtocolFeatures::SHMEM
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::BACKEND_SEND_FD;
        let window = self.device.window().map_or(VhostUserProtocolFeatures::empty(), |_| window);
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | window)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        // What else depends on them is in the crate.
        self.protocol = VhostUserProtocolFeatures::from_bits_truncate(features);
        Ok(())
    }

    fn set_backend_req_fd(&mut self, channel: Backend) {
        let needed = VhostUserProtocolFeatures::SHMEM | VhostUserProtocolFeatures::REPLY_ACK;
        if let Some(window) = self.device.window().filter(|_| self.protocol.contains(needed)) {
            window.set_vmm(Some(Arc::new(Channel::new(channel))));
        }
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.rings.len() as u64)
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let (windows, memory): (Vec<_>, Vec<_>) =
            regions.iter().zip(files).partition(|(_, file)| self.is_window(file));
        let mapped: Vec<_> =
            memory.into_iter().map(|(place, file)| region(place, file)).collect::<Result<_>>()?;
        let (mapped, mut mappings): (Vec<_>, Vec<_>) = mapped.into_iter().unzip();
        mappings.extend(windows.into_iter().map(|(place, _)| mapping(place, true)));
        self.set_memory(GuestMemoryMmap::from_regions(mapped).map_err(failed)?)?;
        self.mappings = mappings;
        Ok(None)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MEMORY_SLOTS)
    }

    fn add_mem_region(
        &mut self,
        added: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        if self.mappings.len() as u64 >= MEMORY_SLOTS {
            return unsupported("all memory slots are in use");
        }
        if self.is_window(&file) {
            self.mappings.push(mapping(added, true));
            return Ok(None);
        }
        let (mapped, mapping) = region(added, file)?;
        let memory = self.device.memory().memory().insert_region(Arc::new(mapped)).map_err(failed)?;
        self.set_memory(memory)?;
        self.mappings.push(mapping);
        Ok(None)
    }

    fn remove_mem_region(&mut self, removed: &VhostUserSingleMemoryRegion) -> Result<()> {
        let is_it = |mapping: &Mapping| mapping.window && mapping.guest == removed.guest_phys_addr;
        if let Some(window) = self.mappings.iter().position(is_it) {
            self.mappings.swap_remove(window);
            return Ok(());
        }
        let start = GuestAddress(removed.guest_phys_addr);
        let memory = self.device.memory().memory().remove_region(start, removed.memory_size);
        let (memory, _region) = memory.map_err(failed)?;
        self.set_memory(memory)?;
        self.mappings.retain(|mapping| mapping.guest != removed.guest_phys_addr);
        Ok(())
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        // The guest chooses it. What is too large is no size either.
        self.ring(index)?.set_size(u16::try_from(num).unwrap_or(0)).map_err(failed)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let ring = self.ring(index)?;
        ring.displace();
        let (descriptors, used, available) =
            (self.guest(descriptors)?, self.guest(used)?, self.guest(available)?);
        ring.place(descriptors, available, used).map_err(failed)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.ring(index)?.set_next_avail(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.ring(index)?;
        self.stop(u16::try_from(index).map_err(|_| Error::InvalidParam)?, ring);
        Ok(VhostUserVringState::new(index, u32::from(ring.forget())))
    }

    fn set_vring_kick(&mut self, index: u8, kick: Option<File>) -> Result<()> {
        self.ring(u32::from(index))?.start(kick);
        self.queues.changed();
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, call: Option<File>) -> Result<()> {
        self.ring(u32::from(index))?.set_call(call);
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _err: Option<File>) -> Result<()> {
        self.ring(u32::from(index)).map(drop)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        if !self.negotiated_protocol_features() {
            return Err(Error::InactiveFeature(VhostUserVirtioFeatures::PROTOCOL_FEATURES));
        }
        self.ring(index)?.set_enabled(enable);
        if !enable {
            self.device.pause(u16::try_from(index).map_err(|_| Error::InvalidParam)?);
        }
        self.queues.changed();
        Ok(())
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        // A guest may read anywhere. Behind the fields there are zeros and no error, which may end a VMM (cloud-hypervisor 53).
        let len = usize::try_from(size).ok().filter(|len| *len <= CONFIG_SPACE).ok_or(Error::InvalidParam)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let config = Device::config();
        let fields = config.as_bytes().iter().skip(start).copied();
        Ok(fields.chain(std::iter::repeat(0)).take(len).collect())
    }

    fn set_config(&mut self, _offset: u32, _bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        // The only field to be written clears events, and there are none.
        Ok(())
    }

    fn set_gpu_socket(&mut self, _socket: GpuBackend) -> Result<()> {
        unsupported("there are no scanouts to be shown")
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        unsupported("there are no objects for other devices")
    }

    fn get_inflight_fd(&mut self, _inflight: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        unsupported("requests do not outlive the backend")
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        unsupported("requests do not outlive the backend")
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        unsupported("the device cannot be migrated")
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported("the device cannot be migrated")
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        match self.device.window() {
            // Region 1 is the one that the guest's driver calls host visible.
            Some(window) => Ok(VhostUserShMemConfig::new(1, &[0, window.size()])),
            None => unsupported("there is no window"),
        }
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        unsupported("the device cannot be migrated")
    }
}
