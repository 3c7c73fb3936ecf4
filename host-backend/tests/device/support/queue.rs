//! The driver's side of a split virtqueue.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::DEADLINE;

/// Flags of descriptors.
pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// Room for the request and for the response of each head.
const REQUESTS: u64 = 0x10_0000;
const SLOT: u64 = 0x1000;
const RESPONSE: u64 = 0x800;

pub struct Queue {
    pub size: u16,
    pub desc: u64,
    pub avail: u64,
    pub used: u64,
    pub kick: EventFd,
    pub call: EventFd,
    memory: GuestMemoryMmap<()>,
    /// Chains made available since the queue was set up.
    pub made: u16,
    seen: u16,
    free: Vec<u16>,
    /// Bytes written for heads that came back and were not asked for yet.
    back: HashMap<u16, u32>,
    /// Heads in the order in which they came back.
    pub order: Vec<u16>,
}

impl Queue {
    /// The rings of a queue in 128 KiB from `at` on.
    pub fn new(memory: &GuestMemoryMmap<()>, at: u64, size: u16) -> Queue {
        let event = || EventFd::new(EFD_NONBLOCK).expect("an event descriptor");
        Queue {
            size,
            desc: at,
            avail: at + 0x1_0000,
            used: at + 0x1_8000,
            kick: event(),
            call: event(),
            memory: memory.clone(),
            made: 0,
            seen: 0,
            free: Vec::new(),
            back: HashMap::new(),
            order: Vec::new(),
        }
    }

    /// Empty rings.
    pub fn reset(&mut self) {
        for at in [self.avail, self.used] {
            self.memory.write_slice(&[0; 0x4000], GuestAddress(at)).expect("in memory");
        }
        (self.made, self.seen) = (0, 0);
        self.free = (0..self.size / 2).rev().map(|index| index * 2).collect();
        self.back.clear();
        self.order.clear();
    }

    /// Writes a descriptor.
    pub fn describe(&self, index: u16, addr: u64, len: u32, flags: u16, next: u16) {
        self.describe_at(self.desc, index, addr, len, flags, next);
    }

    /// Writes a descriptor of an indirect table.
    pub fn describe_at(&self, table: u64, index: u16, addr: u64, len: u32, flags: u16, next: u16) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&addr.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.to_le_bytes());
        let at = table + u64::from(index) * 16;
        self.memory.write_slice(&bytes, GuestAddress(at)).expect("in memory");
    }

    /// A head that is free, with the descriptor after it.
    pub fn head(&mut self) -> u16 {
        self.free.pop().expect("a free head")
    }

    /// Where the request and the response of a head are.
    pub fn buffers(&self, head: u16) -> (u64, u64) {
        let at = REQUESTS + u64::from(head) * SLOT;
        (at, at + RESPONSE)
    }

    /// Sends a request with room for a response.
    pub fn send(&mut self, bytes: &[u8], room: u32) -> u16 {
        let head = self.head();
        let (request, response) = self.buffers(head);
        assert!(bytes.len() <= 0x800 && room <= 0x800, "too long for a slot");
        self.memory.write_slice(bytes, GuestAddress(request)).expect("in memory");
        self.memory.write_slice(&[0xee; 0x800], GuestAddress(response)).expect("in memory");
        self.describe(head, request, u32::try_from(bytes.len()).expect("short"), NEXT, head + 1);
        self.describe(head + 1, response, room, WRITE, 0);
        self.offer(head);
        head
    }

    /// Makes a chain available, and tells the device.
    pub fn offer(&mut self, head: u16) {
        let slot = self.avail + 4 + u64::from(self.made % self.size) * 2;
        self.memory.write_obj(head.to_le(), GuestAddress(slot)).expect("in memory");
        self.made = self.made.wrapping_add(1);
        self.publish(self.made);
    }

    /// Sets the available index, and tells the device.
    pub fn publish(&self, index: u16) {
        self.memory.store(index.to_le(), GuestAddress(self.avail + 2), Ordering::Release).expect("in memory");
        self.kick.write(1).expect("a kick");
    }

    /// Takes what came back.
    pub fn poll(&mut self) {
        let index: u16 = self.memory.load(GuestAddress(self.used + 2), Ordering::Acquire).expect("in memory");
        while self.seen != u16::from_le(index) {
            let at = self.used + 4 + u64::from(self.seen % self.size) * 8;
            let head: u32 = self.memory.read_obj(GuestAddress(at)).expect("in memory");
            let len: u32 = self.memory.read_obj(GuestAddress(at + 4)).expect("in memory");
            let head = u16::try_from(u32::from_le(head)).expect("a head");
            self.seen = self.seen.wrapping_add(1);
            self.order.push(head);
            self.back.insert(head, u32::from_le(len));
        }
    }

    /// Whether a head came back.
    pub fn is_back(&mut self, head: u16) -> bool {
        self.poll();
        self.back.contains_key(&head)
    }

    /// Waits until a head comes back, and returns the response that was written.
    pub fn wait(&mut self, head: u16) -> Vec<u8> {
        let start = Instant::now();
        while !self.is_back(head) {
            assert!(start.elapsed() < DEADLINE, "no answer to head {head}; {} came back", self.order.len());
            std::thread::yield_now();
        }
        let len = self.back.remove(&head).expect("it came back");
        self.free.push(head);
        let mut response = vec![0; usize::try_from(len).expect("short").min(0x800)];
        let (_, at) = self.buffers(head);
        self.memory.read_slice(&mut response, GuestAddress(at)).expect("in memory");
        response
    }

    /// Whether the device notified the driver since the last call.
    pub fn notified(&self) -> bool {
        self.call.read().is_ok()
    }
}
