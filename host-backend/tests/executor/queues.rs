//! Queues: what the guest stores in its doorbell page reaches the GPU.

use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{CreateQueueArgs, DestroyQueueArgs};
use protocol::kfd::constants::{MmapOffset, MmapType, QueueType};
use protocol::wire::Request;
use softgpu::Profile;

use super::guest::{Blob, DEADLINE, PAGE, range};
use super::program::{Buffer, Program};

/// Bytes of a process's doorbells on a GPU.
const DOORBELLS: u64 = 8192;

pub struct Sdma {
    ring: Buffer,
    pointers: Buffer,
    doorbells: Blob,
    args: CreateQueueArgs,
    written: u64,
}

impl Sdma {
    pub fn new(program: &Program) -> Sdma {
        let (ring, pointers) = (program.buffer(PAGE), program.buffer(PAGE));
        let mut args = CreateQueueArgs {
            ring_base_address: ring.address,
            ring_size: PAGE as u32,
            write_pointer_address: pointers.address,
            read_pointer_address: pointers.address + 8,
            gpu_id: program.gpu_id(),
            queue_type: QueueType::SDMA.0,
            queue_percentage: 100,
            queue_priority: 7,
            ..Default::default()
        };
        assert_eq!(program.ioctl(Ioctl::CreateQueue, &mut args), Ok(0));
        let offset = MmapOffset(args.doorbell_offset);
        assert_eq!((offset.kind(), offset.gpu_id()), (MmapType::DOORBELL, args.gpu_id));
        let doorbells = program.guest.attach(program.next_id(), DOORBELLS, 1);
        let (file, resource) = (program.kfd, doorbells.id);
        let place = range(args.doorbell_offset & !(DOORBELLS - 1), DOORBELLS);
        let request = if program.window {
            Request::Place { file, place, resource }
        } else {
            program.guest.fill(&doorbells, 0xff);
            Request::Doorbells { file, place, resource }
        };
        assert_eq!(program.guest.tell(&request), Ok(()));
        Sdma { ring, pointers, doorbells, args, written: 0 }
    }

    /// A linear copy of so many bytes.
    pub fn copy(&mut self, program: &Program, from: u64, to: u64, bytes: u32) {
        let words = [1, bytes - 1, 0, from as u32, (from >> 32) as u32, to as u32, (to >> 32) as u32, 0];
        let packet: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        program.guest.write(&self.ring.blob, self.written % PAGE, &packet);
        self.written += 32;
    }

    /// Tells the GPU.
    pub fn ring(&self, program: &Program) {
        program.guest.store64(&self.pointers.blob, 0, self.written);
        program.guest.store64(&self.doorbells, self.args.doorbell_offset & (DOORBELLS - 1), self.written);
    }

    pub fn wait(&self, program: &Program) {
        let deadline = Instant::now() + DEADLINE;
        while program.guest.load64(&self.pointers.blob, 8) != self.written {
            assert!(
                Instant::now() < deadline,
                "the queue stands at {} of {}",
                self.read(program),
                self.written
            );
            program.guest.assert_going_on();
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn read(&self, program: &Program) -> u64 {
        program.guest.load64(&self.pointers.blob, 8)
    }

    pub fn destroy(&self, program: &Program) -> Result<i32, Errno> {
        let mut args = DestroyQueueArgs { queue_id: self.args.queue_id, pad: 0 };
        program.ioctl(Ioctl::DestroyQueue, &mut args)
    }
}

#[test]
fn an_sdma_queue_copies_what_the_guest_has() {
    copies(&Program::running(Profile::Mi210));
}

pub fn copies(program: &Program) {
    let (from, to) = (program.buffer(PAGE), program.buffer(PAGE));
    let mut queue = Sdma::new(program);
    for round in 0..300_u32 {
        program.guest.write(&from.blob, 0, &round.to_le_bytes());
        program.guest.write(&from.blob, 4092, &(!round).to_le_bytes());
        queue.copy(program, from.address, to.address, PAGE as u32);
        queue.ring(program);
        queue.wait(program);
        assert_eq!(program.guest.load(&to.blob, 0), round);
        assert_eq!(program.guest.load(&to.blob, 4092), !round);
    }
    assert_eq!(queue.destroy(program), Ok(0));
    assert_eq!(queue.destroy(program), Err(Errno::EINVAL), "gone");
}

#[test]
fn a_write_pointer_is_enough_and_a_doorbell_is_used_again() {
    let program = Program::running(Profile::Mi210);
    let (from, to) = (program.buffer(PAGE), program.buffer(PAGE));
    for round in 1..20_u32 {
        let mut queue = Sdma::new(&program);
        program.guest.store(&from.blob, 0, round);
        queue.copy(&program, from.address, to.address, 64);
        program.guest.store64(&queue.pointers.blob, 0, queue.written);
        queue.wait(&program);
        assert_eq!(program.guest.load(&to.blob, 0), round);
        // Never seen by anybody: the next queue must not see it either.
        assert_eq!(queue.destroy(&program), Ok(0));
        program.guest.store64(&queue.doorbells, queue.args.doorbell_offset & (DOORBELLS - 1), 1 << 20);
    }
}

#[test]
fn buffers_in_many_pieces_are_one_for_the_gpu() {
    let program = Program::running(Profile::Mi210);
    let (blob, address) = program.aliased(64 * PAGE, 64);
    let flags = protocol::kfd::constants::AllocFlags::USERPTR;
    let handle = program.alloc(address, 64 * PAGE, flags).expect("registered");
    program.map(handle).expect("mapped");
    let to = program.buffer(64 * PAGE);
    for page in 0..64 {
        program.guest.store(&blob, page * PAGE + 8, page as u32 + 1);
    }
    let mut queue = Sdma::new(&program);
    queue.copy(&program, address, to.address, 64 * PAGE as u32);
    queue.ring(&program);
    queue.wait(&program);
    for page in 0..64 {
        assert_eq!(program.guest.load(&to.blob, page * PAGE + 8), page as u32 + 1);
    }
}
