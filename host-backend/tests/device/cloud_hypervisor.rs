//! What cloud-hypervisor's generic vhost-user device does (`--generic-vhost-user`, as of version 53), in its order: no SHMEM, no
//! RESET_DEVICE, inflight tracking and a channel for requests of the backend asked for, base indices read from memory.

use crate::support::contexts::Probe;
use crate::support::{
    BLOBS, EVENT_IDX, RAM, Setup, Vm, context, entry, guest_blob, memfd, region, response_id,
};
use protocol::virtio_gpu::{Command, Features, ResponseId};
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::{VhostBackend, VringConfigData};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Features of the transport that it knows: INDIRECT_DESC, EVENT_IDX, VERSION_1, IN_ORDER, ORDER_PLATFORM, NOTIFICATION_DATA,
/// LOG_ALL and PROTOCOL_FEATURES.
const TRANSPORT: u64 =
    1 << 28 | EVENT_IDX | 1 << 32 | 1 << 35 | 1 << 36 | 1 << 38 | 1 << 26 | PROTOCOL_FEATURES;
const PROTOCOL_FEATURES: u64 = 1 << 30;
/// What of a device's own features the guest has to see.
const OF_THE_DEVICE: u64 = Features::VIRGL.0 | Features::RESOURCE_BLOB.0 | Features::CONTEXT_INIT.0;

/// Where hot-plugged memory goes.
const HOT: u64 = 4 << 30;

/// When it starts, before there is a guest.
fn connect(vm: &mut Vm, known: u64) -> u64 {
    vm.frontend.set_owner().expect("SET_OWNER");
    let features = known & vm.frontend.get_features().expect("GET_FEATURES");
    assert_ne!(features & PROTOCOL_FEATURES, 0);
    let known = VhostUserProtocolFeatures::CONFIG
        | VhostUserProtocolFeatures::MQ
        | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
        | VhostUserProtocolFeatures::REPLY_ACK
        | VhostUserProtocolFeatures::INFLIGHT_SHMFD
        | VhostUserProtocolFeatures::LOG_SHMFD
        | VhostUserProtocolFeatures::DEVICE_STATE
        | VhostUserProtocolFeatures::BACKEND_REQ;
    let protocol = known & vm.frontend.get_protocol_features().expect("GET_PROTOCOL_FEATURES");
    // With either of these it would take the device for one that can be migrated.
    assert!(
        !protocol.intersects(VhostUserProtocolFeatures::LOG_SHMFD | VhostUserProtocolFeatures::DEVICE_STATE)
    );
    assert!(!protocol.contains(VhostUserProtocolFeatures::INFLIGHT_SHMFD));
    vm.frontend.set_protocol_features(protocol).expect("SET_PROTOCOL_FEATURES");
    vm.frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    assert!(vm.frontend.get_queue_num().expect("GET_QUEUE_NUM") >= 2);
    features
}

/// When the guest's driver says DRIVER_OK: all sizes first, then each queue with its call before its kick, then all enabled.
fn activate(vm: &mut Vm, features: u64) {
    vm.frontend.set_features(features).expect("SET_FEATURES");
    vm.frontend.set_mem_table(&[region(&vm.memory, 0)]).expect("SET_MEM_TABLE");
    let base = vm.memory.get_host_address(GuestAddress(0)).expect("in memory") as u64;
    let queues = [&mut vm.control, &mut vm.cursor];
    for (index, queue) in (0..).zip(&queues) {
        vm.frontend.set_vring_num(index, queue.size).expect("SET_VRING_NUM");
    }
    for (index, queue) in (0..).zip(queues) {
        queue.reset();
        let config = VringConfigData {
            queue_max_size: 1024,
            queue_size: queue.size,
            flags: 0,
            desc_table_addr: base + queue.desc,
            used_ring_addr: base + queue.used,
            avail_ring_addr: base + queue.avail,
            log_addr: None,
        };
        vm.frontend.set_vring_addr(index, &config).expect("SET_VRING_ADDR");
        vm.frontend.set_vring_base(index, 0).expect("SET_VRING_BASE");
        vm.frontend.set_vring_call(index, &queue.call).expect("SET_VRING_CALL");
        vm.frontend.set_vring_kick(index, &queue.kick).expect("SET_VRING_KICK");
    }
    for index in 0..2 {
        vm.frontend.set_vring_enable(index, true).expect("SET_VRING_ENABLE");
    }
}

/// When the guest's driver resets the device, and when the guest is switched off.
fn reset(vm: &mut Vm) {
    for index in 0..2 {
        vm.frontend.set_vring_enable(index, false).expect("SET_VRING_ENABLE");
        vm.frontend.get_vring_base(index).expect("GET_VRING_BASE");
    }
}

/// A read of the guest's: passed on as it is. A refusal would end the VMM.
fn config(vm: &mut Vm, offset: u32, len: usize) -> Vec<u8> {
    let asked = u32::try_from(len).expect("short");
    let read = vm.frontend.get_config(offset, asked, VhostUserConfigFlags::empty(), &vec![0; len]);
    read.expect("GET_CONFIG").1
}

#[test]
fn a_release_that_passes_device_features_on_runs_contexts() {
    let probe = Probe::default();
    let mut vm = Setup::new(probe.clone()).connect();
    let features = connect(&mut vm, TRANSPORT | OF_THE_DEVICE);
    assert_eq!(features & OF_THE_DEVICE, OF_THE_DEVICE);
    // events_read, num_scanouts, num_capsets.
    for (offset, value) in [(0, 0), (8, 0), (12, 1)] {
        assert_eq!(config(&mut vm, offset, 4), u32::to_le_bytes(value), "at {offset}");
    }
    // It takes EVENT_IDX away where its guest does not know it.
    activate(&mut vm, features & !EVENT_IDX);
    vm.assert_alive();
    vm.create_context(1);
    vm.create_blob(1, BLOBS, 0x2000);
    vm.ok(1, Command::CtxAttachResource { resource_id: 1 });

    // Memory is plugged in (`vm.resize`, virtio-mem), one region at a time.
    let file = memfd(1 << 20);
    let place = FileOffset::new(file, 0);
    let hot = GuestMemoryMmap::<()>::from_ranges_with_files([(GuestAddress(HOT), 1 << 20, Some(place))]);
    let hot = hot.expect("a mapping");
    vm.frontend.add_mem_region(&region(&hot, HOT)).expect("ADD_MEM_REG");
    vm.ok(0, guest_blob(2, 0x1000, &[entry(HOT, 0x1000)]));
    vm.ok(1, Command::CtxAttachResource { resource_id: 2 });
    assert_eq!(probe.log().uses.len(), 2);

    // A pause and what follows it.
    for enable in [false, true] {
        for index in 0..2 {
            vm.frontend.set_vring_enable(index, enable).expect("SET_VRING_ENABLE");
        }
    }
    vm.assert_alive();

    // The guest reboots: the driver starts anew on the same connection.
    reset(&mut vm);
    activate(&mut vm, features & !EVENT_IDX);
    vm.assert_alive();
    vm.create_context(1);
    reset(&mut vm);
    vm.disconnect().expect("an orderly end");
    assert!(probe.log().uses.is_empty(), "nothing of the guest is held");
}

#[test]
fn a_release_that_keeps_device_features_back_gets_errors_and_no_harm() {
    let mut vm = Setup::new(Probe::default()).connect();
    // Version 53 knows the transport's features only, so its guests take the device for one without contexts.
    let features = connect(&mut vm, TRANSPORT);
    assert_eq!(features & OF_THE_DEVICE, 0);
    activate(&mut vm, features & !EVENT_IDX);
    let info = vm.request(0, Command::GetCapsetInfo { index: 0 });
    assert_eq!(response_id(&info), ResponseId::OK_CAPSET_INFO);
    // What the guest asks for all the same: either way it is an answer.
    let response = vm.request(1, context());
    assert!(response.len() >= 24, "{response:?}");
    let response = vm.request(0, guest_blob(1, 0x1000, &[entry(RAM, 0x1000)]));
    assert_eq!(response_id(&response), ResponseId::ERR_INVALID_PARAMETER);
    reset(&mut vm);
}

#[test]
fn reads_of_the_config_space_behind_its_fields_are_zeros() {
    let mut vm = Setup::new(Probe::default()).connect();
    connect(&mut vm, TRANSPORT);
    assert_eq!(config(&mut vm, 16, 8), [0; 8]);
    assert_eq!(config(&mut vm, 20, 1), [0]);
    assert_eq!(config(&mut vm, 252, 4), [0; 4]);
    vm.frontend.set_config(4, VhostUserConfigFlags::WRITABLE, &[0xff; 4]).expect("SET_CONFIG");
}
