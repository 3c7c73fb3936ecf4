//! A guest that breaks the rules.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{AcquireVmArgs, ExportDmabufArgs, SmiEventsArgs};
use protocol::kfd::constants::AllocFlags;
use protocol::wire::area::{AREA_BYTES, MORE_BYTES, slot, state, word};
use protocol::wire::{Command, Request, Submission};
use softgpu::Profile;
use vhost_device_kfd::worker::kfd::Config;
use zerocopy::IntoBytes;

use super::guest::{AREA, DEADLINE, Guest, PAGE, fresh_range, range};
use super::program::Program;

#[test]
fn a_call_area_is_set_up_once_and_is_as_long_as_it_is() {
    let guest = Guest::without_area(Profile::Mi210, Config::default());
    assert_eq!(guest.submit(Submission::Kick), Some(false), "there is none");
    assert_eq!(guest.submit(Submission::Wake { seen: 0 }), Some(false));
    assert_eq!(guest.submit(Submission::Setup { resource: 5 }), Some(false), "no blob");
    guest.attach(6, AREA_BYTES as u64 - PAGE, 1);
    assert_eq!(guest.submit(Submission::Setup { resource: 6 }), Some(false), "too short");
    guest.attach(AREA, AREA_BYTES as u64, 1);
    assert_eq!(guest.submit(Submission::Setup { resource: AREA }), Some(true));
    assert_eq!(guest.submit(Submission::Setup { resource: AREA }), Some(false), "there is one");
    for bytes in [&[][..], &[1], &[0; 8], &[9; 8], &[2, 0, 0, 0, 1, 0, 0, 0], &[3; 9]] {
        assert!(!guest.wait_done(guest.send_bytes(bytes)), "{bytes:?}");
    }
    assert!(guest.hello(0, &[fresh_range()]).is_ok());
}

#[test]
fn commands_that_are_none_get_an_error() {
    let program = Program::new(Profile::Mi210);
    let guest = &program.guest;
    assert_eq!(guest.call_bytes(0, &[]), Err(Errno::EOPNOTSUPP));
    assert_eq!(guest.call_bytes(999, &[0; 100]), Err(Errno::EOPNOTSUPP));
    for command in Command::ALL {
        for len in [0, 1, 7, 9, 63] {
            let answer = guest.call_bytes(command.id(), &vec![0xff; len]);
            assert_eq!(answer, Err(Errno::EPROTO), "{} of {len} bytes", command.name());
        }
    }
    assert!(program.topology().gpus().count() > 0);
}

#[test]
fn lengths_that_lie_get_an_error() {
    let program = Program::new(Profile::Mi210);
    let guest = &program.guest;
    let try_with = |field, value| {
        let number = guest.free_slot();
        guest.fill_slot(number, Command::Topology.id(), &[0; 8]);
        guest.set_header(number, field, value);
        guest.queue(number);
        guest.answer(number)
    };
    assert_eq!(try_with(slot::REQUEST_LEN, u32::MAX), Err(Errno::E2BIG));
    assert_eq!(try_with(slot::REQUEST_LEN, 4033), Err(Errno::E2BIG));
    assert_eq!(try_with(slot::REQUEST_LEN, 4032), Err(Errno::EPROTO), "read, and no TOPOLOGY");
    assert_eq!(try_with(slot::ROOM, 0), Err(Errno::E2BIG));
    let most = try_with(slot::ROOM, u32::MAX).expect("as much as the slot has");
    assert_eq!(most.len(), 4032);
    let start = Instant::now();
    assert_eq!(try_with(slot::PAYLOAD, 4711), Err(Errno::ENOENT));
    assert!(start.elapsed() > Duration::from_secs(4), "it may have been on its way");
    // A message in a blob of its own: the answer stands there too.
    let blob = guest.attach(40, 8 * PAGE, 8);
    let request = [0; 8];
    guest.write(&blob, 0, &request);
    let number = guest.free_slot();
    guest.fill_slot(number, Command::Topology.id(), &[]);
    for (field, value) in [(slot::REQUEST_LEN, 8), (slot::ROOM, u32::MAX), (slot::PAYLOAD, 40)] {
        guest.set_header(number, field, value);
    }
    guest.queue(number);
    guest.answer(number).expect("executed");
    let len = guest.header(number, slot::ANSWER_LEN);
    assert!((PAGE + 1..=8 * PAGE).contains(&u64::from(len)), "{len}");
}

#[test]
fn a_blob_can_come_after_the_call_that_names_it() {
    let program = Program::new(Profile::Mi210);
    let address = program.addresses(PAGE);
    std::thread::scope(|scope| {
        let alias = scope.spawn(|| {
            let addresses = range(address, PAGE);
            program.guest.tell(&Request::Alias { resource: 50, offset: 0, addresses })
        });
        std::thread::sleep(Duration::from_millis(50));
        program.guest.attach(50, PAGE, 1);
        assert_eq!(alias.join().expect("no panic"), Ok(()));
    });
}

#[test]
fn slots_that_are_no_calls_are_passed_over() {
    let program = Program::new(Profile::Mi210);
    let guest = &program.guest;
    for number in [256, 16_383, 16_384, u32::MAX] {
        guest.queue(number);
    }
    let free = guest.free_slot();
    guest.set_header(free, slot::STATE, state::FREE);
    guest.queue(free);
    let done = guest.free_slot();
    guest.fill_slot(done, Command::Topology.id(), &[0; 8]);
    guest.queue(done);
    guest.queue(done);
    guest.answer(done).expect("once");
    assert!(program.topology().gpus().count() > 0);
    assert_eq!(guest.header(free, slot::STATE), state::FREE);
}

#[test]
fn more_slots_come_in_blobs_of_their_size() {
    let program = Program::new(Profile::Mi210);
    let guest = &program.guest;
    guest.attach(60, MORE_BYTES as u64, 4);
    guest.attach(61, PAGE, 1);
    assert_eq!(guest.tell(&Request::AddSlots { resource: 61 }), Err(Errno::EINVAL));
    for _ in 1..64 {
        assert_eq!(guest.tell(&Request::AddSlots { resource: 60 }), Ok(()));
    }
    assert_eq!(guest.tell(&Request::AddSlots { resource: 60 }), Err(Errno::ENOMEM));
}

#[test]
fn a_jump_of_the_index_ends_the_context_and_nothing_else() {
    let mut program = Program::new(Profile::Mi210);
    let guest = &program.guest;
    let area = guest.blob(AREA);
    let before = guest.load(&area, word::SUBMITTED as u64);
    guest.store(&area, word::SUBMITTED as u64, before.wrapping_sub(1));
    guest.submit(Submission::Kick);
    // It has no worker any more: fences come at once.
    let deadline = Instant::now() + DEADLINE;
    let wakes = guest.load(&area, word::WAKES as u64);
    while guest.submit(Submission::Wake { seen: wakes }) != Some(true) {
        assert!(Instant::now() < deadline);
    }
    program.guest.end();
}

#[test]
fn a_slot_that_changes_while_it_is_read_is_one_call_or_an_error() {
    let program = Program::new(Profile::Mi210);
    let guest = &program.guest;
    let stop = AtomicBool::new(false);
    let number = guest.free_slot();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = 1_u32;
            while !stop.load(Ordering::Relaxed) {
                value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                guest.set_header(number, slot::REQUEST_LEN, value >> 19);
                guest.set_header(number, slot::ROOM, value);
                guest.set_header(number, slot::COMMAND, value >> 28);
            }
        });
        for _ in 0..2000 {
            guest.fill_slot(number, Command::Topology.id(), &[0; 8]);
            guest.queue(number);
            drop(guest.answer(number));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(program.topology().gpus().count() > 0);
}

#[test]
fn addresses_outside_of_the_range_are_refused() {
    let program = Program::running(Profile::Mi210);
    let guest = &program.guest;
    let (base, end) = (program.range.base.get(), program.range.base.get() + program.range.len.get());
    guest.attach(70, 4 * PAGE, 2);
    let alias = |address, len, offset| {
        guest.tell(&Request::Alias { resource: 70, offset, addresses: range(address, len) })
    };
    let here = (&raw const base).addr() as u64 & !(PAGE - 1);
    for (address, len, offset) in [
        (base - PAGE, PAGE, 0),
        (base - PAGE, 2 * PAGE, 0),
        (end - PAGE, 2 * PAGE, 0),
        (end, PAGE, 0),
        (here, PAGE, 0),
        (0, PAGE, 0),
        (base + 1, PAGE, 0),
        (base, 1, 0),
        (base, 0, 0),
        (base, PAGE, 1),
        (base, PAGE, 4 * PAGE),
        (base, 2 * PAGE, 3 * PAGE),
        (base, PAGE, !(PAGE - 1)),
        (!(PAGE - 1), PAGE, 0),
        (base, !(PAGE - 1), 0),
    ] {
        assert_eq!(alias(address, len, offset), Err(Errno::EINVAL), "{address:#x} {len:#x} {offset:#x}");
    }
    assert_eq!(alias(end - PAGE, PAGE, PAGE), Ok(()));
    // Registered memory is aliased memory.
    let userptr = AllocFlags::USERPTR | AllocFlags::WRITABLE;
    assert_eq!(program.alloc(end - PAGE, PAGE, userptr).map(drop), Ok(()));
    assert_eq!(program.alloc(base, PAGE, userptr), Err(Errno::EFAULT), "not aliased");
    assert_eq!(program.alloc(here, PAGE, userptr), Err(Errno::EINVAL));
    assert_eq!(program.alloc(here, PAGE, AllocFlags::VRAM), Err(Errno::EINVAL));
    assert_eq!(program.alloc(end - PAGE, 2 * PAGE, AllocFlags::VRAM), Err(Errno::EINVAL));
}

#[test]
fn aliases_do_not_overlap_and_are_counted() {
    let config = Config { aliases: 3, memory: 8 * PAGE, ..Config::default() };
    let program = Program::with(Profile::Mi210, config);
    let guest = &program.guest;
    let base = program.range.base.get();
    guest.attach(80, 4 * PAGE, 1);
    let alias = |page: u64, pages: u64| {
        let addresses = range(base + page * PAGE, pages * PAGE);
        guest.tell(&Request::Alias { resource: 80, offset: 0, addresses })
    };
    assert_eq!(alias(4, 4), Ok(()));
    for (page, pages) in [(4, 4), (5, 1), (3, 2), (7, 2), (3, 4)] {
        assert_eq!(alias(page, pages), Err(Errno::EEXIST), "{page} {pages}");
    }
    assert_eq!(alias(8, 3), Ok(()));
    assert_eq!(alias(0, 2), Err(Errno::ENOMEM), "too many bytes");
    assert_eq!(alias(3, 1), Ok(()));
    assert_eq!(program.unalias(base + 3 * PAGE, 2 * PAGE), Err(Errno::EINVAL), "not its size");
    assert_eq!(program.unalias(base + 5 * PAGE, PAGE), Err(Errno::EINVAL), "not its beginning");
    assert_eq!(program.unalias(base + 8 * PAGE, 3 * PAGE), Ok(()));
    assert_eq!((alias(0, 1), alias(1, 1)), (Ok(()), Err(Errno::ENOMEM)), "too many");
}

#[test]
fn descriptors_of_the_host_are_not_handed_out() {
    let program = Program::running(Profile::Mi210);
    let mut smi = SmiEventsArgs { gpuid: program.gpu_id(), anon_fd: 0 };
    assert_eq!(program.ioctl(Ioctl::SmiEvents, &mut smi), Err(Errno::EOPNOTSUPP));
    let address = program.addresses(PAGE);
    let handle = program.alloc(address, PAGE, AllocFlags::VRAM).expect("VRAM");
    let mut export = ExportDmabufArgs { handle, ..Default::default() };
    assert_eq!(program.ioctl(Ioctl::ExportDmabuf, &mut export), Err(Errno::EOPNOTSUPP));
    // A number that the guest does not say anything of is none of this process (kfd_ioctl_acquire_vm: EINVAL).
    let fresh = Program::new(Profile::Mi210);
    let mut acquire = AcquireVmArgs { drm_fd: 3, gpu_id: fresh.gpu_id() };
    assert_eq!(fresh.ioctl_with(Ioctl::AcquireVm, acquire.as_mut_bytes(), &[]), Err(Errno::EINVAL));
}
