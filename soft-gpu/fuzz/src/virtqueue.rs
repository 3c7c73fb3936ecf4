//! A guest's control queue, as the device process finds it in the guest's memory.
//!
//! The first byte says how the rest becomes memory: as it is (descriptors, then whatever they point to), or as a list
//! of requests in chains that are in order.

#![no_main]

use std::fs::File;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vhost_device_kfd::device::{Device, Limits, NoWorkers, Ring};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

const RAM: usize = 1 << 20;
const SLOTS: u16 = 16;
const DESCRIPTORS: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const REQUESTS: u64 = 0x4000;
const RESPONSES: u64 = 0x8000;

static MEMORY: LazyLock<GuestMemoryMmap<()>> = LazyLock::new(|| {
    let fd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd");
    let file = File::from(fd);
    file.set_len(RAM as u64).expect("its length");
    let region = (GuestAddress(0), RAM, Some(FileOffset::new(file, 0)));
    GuestMemoryMmap::from_ranges_with_files([region]).expect("a mapping")
});

fuzz_target!(|data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    let memory = &*MEMORY;
    memory.write_slice(&[0; 0x8000], GuestAddress(0x1000)).expect("in memory");
    let chains = if mode % 2 == 0 { raw(memory, data) } else { requests(memory, data) };
    for slot in 0..chains {
        let head = if mode % 2 == 0 { slot } else { slot * 2 };
        memory.write_obj(head, GuestAddress(AVAILABLE + 4 + u64::from(slot) * 2)).expect("in memory");
    }
    memory.write_obj(chains, GuestAddress(AVAILABLE + 2)).expect("in memory");

    let device = Device::new(Box::new(NoWorkers), Limits::default());
    device.set_memory(memory.clone()).expect("shared memory");
    let ring = Ring::new(device.memory()).expect("a queue");
    ring.set_size(SLOTS).expect("a power of two");
    ring.place(DESCRIPTORS, AVAILABLE, USED).expect("aligned");
    ring.set_enabled(true);
    ring.start(Some(File::open("/dev/null").expect("a file")));
    device.serve(0, &ring);
    // Contexts of this build answer at once.
    assert_eq!(device.open_requests(), 0);
    device.stop(0);
    assert_eq!(device.ledger().in_use(), (0, 0));
});

/// Descriptors and whatever they point to are the input.
fn raw(memory: &GuestMemoryMmap<()>, data: &[u8]) -> u16 {
    let (descriptors, rest) = data.split_at(data.len().min(usize::from(SLOTS) * 16));
    memory.write_slice(descriptors, GuestAddress(DESCRIPTORS)).expect("in memory");
    let rest = &rest[..rest.len().min(0x4000)];
    memory.write_slice(rest, GuestAddress(REQUESTS)).expect("in memory");
    SLOTS
}

/// Requests, each after its length; a pair of descriptors each.
fn requests(memory: &GuestMemoryMmap<()>, mut data: &[u8]) -> u16 {
    let mut count = 0;
    while let Some((len, rest)) = data.split_first()
        && count < SLOTS / 2
    {
        let (request, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        let (from, to) = (REQUESTS + u64::from(count) * 0x100, RESPONSES + u64::from(count) * 0x100);
        memory.write_slice(request, GuestAddress(from)).expect("in memory");
        describe(memory, count * 2, from, request.len() as u32, 1, count * 2 + 1);
        describe(memory, count * 2 + 1, to, 0x100, 2, 0);
        data = rest;
        count += 1;
    }
    count
}

fn describe(memory: &GuestMemoryMmap<()>, index: u16, addr: u64, len: u32, flags: u16, next: u16) {
    let at = DESCRIPTORS + u64::from(index) * 16;
    let fields = [addr, u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48];
    memory.write_obj(fields[0], GuestAddress(at)).expect("in memory");
    memory.write_obj(fields[1], GuestAddress(at + 8)).expect("in memory");
}
