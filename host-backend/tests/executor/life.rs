//! Blobs and contexts that go.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{FreeMemoryOfGpuArgs, UnmapMemoryFromGpuArgs};
use softgpu::Profile;

use super::guest::{DEADLINE, Guest, PAGE};
use super::program::Program;
use super::queues::Sdma;

#[test]
fn a_blob_is_released_when_nothing_of_it_is_aliased_any_more() {
    let program = Program::new(Profile::Mi210);
    let guest = &program.guest;
    let unused = guest.attach(100, PAGE, 1);
    guest.detach(&unused);
    guest.wait_released(&unused);
    let (blob, first) = program.aliased(2 * PAGE, 1);
    let second = program.addresses(2 * PAGE);
    program.alias(&blob, second).expect("twice");
    guest.detach(&blob);
    assert_eq!(program.unalias(first, 2 * PAGE), Ok(()));
    assert!(!guest.is_released(&blob));
    assert_eq!(program.unalias(second, 2 * PAGE), Ok(()));
    guest.wait_released(&blob);
}

#[test]
fn memory_that_is_registered_stays_until_it_is_free() {
    let program = Program::running(Profile::Mi210);
    let buffer = program.buffer(PAGE);
    assert_eq!(program.unalias(buffer.address, PAGE), Err(Errno::EBUSY));
    program.guest.detach(&buffer.blob);
    let mut free = FreeMemoryOfGpuArgs { handle: buffer.handle };
    assert_eq!(program.ioctl(Ioctl::FreeMemoryOfGpu, &mut free), Err(Errno::EBUSY), "mapped");
    assert_eq!(program.unalias(buffer.address, PAGE), Err(Errno::EBUSY), "still");
    let gpus = [program.gpu_id()];
    let mut unmap = UnmapMemoryFromGpuArgs {
        handle: buffer.handle,
        device_ids_array_ptr: gpus.as_ptr().expose_provenance() as u64,
        n_devices: 1,
        n_success: 0,
    };
    assert_eq!(program.ioctl(Ioctl::UnmapMemoryFromGpu, &mut unmap), Ok(0));
    assert_eq!(program.ioctl(Ioctl::FreeMemoryOfGpu, &mut free), Ok(0));
    assert!(!program.guest.is_released(&buffer.blob));
    assert_eq!(program.unalias(buffer.address, PAGE), Ok(()));
    program.guest.wait_released(&buffer.blob);
}

#[test]
fn a_blob_in_use_is_released_at_the_end() {
    let mut program = Program::running(Profile::Mi210);
    let buffer = program.buffer(PAGE);
    program.guest.detach(&buffer.blob);
    program.topology();
    assert!(!program.guest.is_released(&buffer.blob));
    program.guest.end();
    assert!(program.guest.is_released(&buffer.blob));
}

/// What this process has of a context: mappings in its range and of its memory, and threads.
fn left(program_range: (u64, u64)) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let start = |line: &str| u64::from_str_radix(line.split('-').next().unwrap_or(""), 16).unwrap_or(0);
    let in_range = |line: &&str| (program_range.0..program_range.1).contains(&start(line));
    maps.lines().filter(in_range).map(str::to_owned).collect()
}

#[test]
fn the_end_leaves_nothing_of_a_context_that_was_busy() {
    let mut program = Program::running(Profile::Mi210);
    let range = (program.range.base.get(), program.range.base.get() + program.range.len.get());
    let (from, to) = (program.buffer(PAGE), program.buffer(PAGE));
    let mut queue = Sdma::new(&program);
    for _ in 0..64 {
        queue.copy(&program, from.address, to.address, PAGE as u32);
    }
    queue.ring(&program);
    let event = program.event();
    let mut events = [protocol::kfd::types::EventData { event_id: event, ..Default::default() }];
    let (_, bytes) = program.wait_request(&mut events, u32::MAX);
    let number = program.guest.free_slot();
    program.guest.fill_slot(number, protocol::wire::Command::Ioctl.id(), &bytes);
    program.guest.queue(number);
    program.guest.wait_taken();
    assert!(!left(range).is_empty());
    program.guest.end();
    assert_eq!(left(range), [] as [String; 0]);
    program.guest.answer(number).expect("the wait was ended");
}

/// In a process of its own other tests have threads and files too; so what has grown is told by name, and by repetition.
#[test]
fn contexts_that_come_and_go_leave_no_thread_and_no_file() {
    let names = || -> Vec<String> {
        let threads = std::fs::read_dir("/proc/self/task").expect("tasks").flatten();
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok()).collect()
    };
    let files = || std::fs::read_dir("/proc/self/fd").expect("files").count();
    let context = || {
        let program = Program::running(Profile::Mi210);
        let buffer = program.buffer(PAGE);
        let mut queue = Sdma::new(&program);
        queue.copy(&program, buffer.address, buffer.address, 64);
        queue.ring(&program);
        queue.wait(&program);
    };
    context();
    let (before, before_files) = (names().len(), files());
    for _ in 0..20 {
        context();
    }
    // Others' threads and files come and go, but not twenty times as many.
    let deadline = Instant::now() + DEADLINE;
    while names().len() > before + 40 || files() > before_files + 60 {
        assert!(Instant::now() < deadline, "{:?}", names().into_iter().collect::<BTreeSet<_>>());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_context_that_never_said_anything_ends() {
    let mut guest = Guest::without_area(Profile::Mi210, Default::default());
    guest.attach(3, PAGE, 1);
    guest.end();
    let mut guest = Guest::new(Profile::Mi210);
    guest.end();
}
