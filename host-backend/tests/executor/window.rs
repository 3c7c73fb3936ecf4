//! A guest with a window: memory of the software GPU that both see. Here the guest's own pages stand for those of the window.

use protocol::Errno;
use protocol::kfd::Ioctl;
use protocol::kfd::args::{FreeMemoryOfGpuArgs, UnmapMemoryFromGpuArgs};
use protocol::kfd::constants::AllocFlags;
use protocol::virtio_gpu::constants::WINDOW_BLOB;
use protocol::wire::{Request, feature};
use softgpu::Profile;
use vhost_device_kfd::worker::kfd::Config;

use super::guest::{Blob, Guest, PAGE, fresh_range, range};
use super::program::Program;
use super::queues::{self, Sdma};

const VISIBLE: AllocFlags =
    AllocFlags(AllocFlags::VRAM.0 | AllocFlags::PUBLIC.0 | AllocFlags::WRITABLE.0 | AllocFlags::EXECUTABLE.0);

fn config() -> Config {
    Config { window: true, ..Config::default() }
}

fn program() -> Program {
    Program::seeing(Guest::with(Profile::Mi210, config())).run()
}

/// VRAM for the CPU, in the window: its address, its handle and where `mmap` finds it.
fn visible(program: &Program, size: u64) -> (u64, u64, u64) {
    let address = program.addresses(size);
    let args = program.alloc_args(address, size, VISIBLE).expect("allocated");
    (address, args.handle, args.mmap_offset)
}

fn place(program: &Program, offset: u64, size: u64, blob: &Blob) -> Result<(), Errno> {
    let file = *program.render.get().expect("a GPU");
    program.guest.tell(&Request::Place { file, place: range(offset, size), resource: blob.id })
}

fn free(program: &Program, handle: u64) {
    let gpus = [program.gpu_id()];
    let device_ids_array_ptr = gpus.as_ptr().expose_provenance() as u64;
    let mut args = UnmapMemoryFromGpuArgs { handle, device_ids_array_ptr, n_devices: 1, n_success: 0 };
    assert_eq!(program.ioctl(Ioctl::UnmapMemoryFromGpu, &mut args), Ok(0));
    assert_eq!(program.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle }), Ok(0));
}

#[test]
fn a_window_is_used_where_both_sides_have_it() {
    for (window, features) in [(false, feature::WINDOW), (true, 0)] {
        let guest = Guest::with(Profile::Mi210, Config { window, ..Config::default() });
        let answer = guest.hello(features, &[fresh_range()]).expect("a range");
        assert_eq!((answer.features.get(), answer.window_blob.get()), (0, 0));
    }
    let guest = Guest::with(Profile::Mi210, config());
    let answer = guest.hello(u64::MAX, &[fresh_range()]).expect("a range");
    assert_eq!((answer.features.get(), answer.window_blob.get()), (feature::WINDOW, WINDOW_BLOB));
}

#[test]
fn what_the_gpu_writes_is_seen_in_the_window_and_the_other_way() {
    let program = program();
    let (address, handle, offset) = visible(&program, 4 * PAGE);
    program.map(handle).expect("mapped");
    let (from, to) = (program.buffer(PAGE), program.buffer(PAGE));
    let mut queue = Sdma::new(&program);
    // Before it is in the window.
    program.guest.store(&from.blob, 0, 0xaaaa);
    queue.copy(&program, from.address, address + 2 * PAGE, 64);
    queue.ring(&program);
    queue.wait(&program);
    let window = program.guest.attach(program.next_id(), 4 * PAGE, 1);
    place(&program, offset, 4 * PAGE, &window).expect("placed");
    assert_eq!(program.guest.load(&window, 2 * PAGE), 0xaaaa, "what was there is kept");
    program.guest.store(&from.blob, 0, 0xbbbb);
    queue.copy(&program, from.address, address + PAGE, 64);
    queue.ring(&program);
    queue.wait(&program);
    assert_eq!(program.guest.load(&window, PAGE), 0xbbbb);
    program.guest.store(&window, 3 * PAGE, 0xcccc);
    queue.copy(&program, address + 3 * PAGE, to.address, 64);
    queue.ring(&program);
    queue.wait(&program);
    assert_eq!(program.guest.load(&to.blob, 0), 0xcccc);

    // The guest gets the pages back when the buffer is gone, and not before.
    program.guest.detach(&window);
    assert!(!program.guest.is_released(&window));
    free(&program, handle);
    program.guest.wait_released(&window);
    program.guest.store(&window, PAGE, 0);
    let (again, handle, _) = visible(&program, 4 * PAGE);
    program.map(handle).expect("mapped");
    queue.copy(&program, from.address, again + PAGE, 64);
    queue.ring(&program);
    queue.wait(&program);
    assert_eq!(program.guest.load(&window, PAGE), 0, "the next buffer has pages of its own");
}

#[test]
fn doorbells_are_the_guests_to_ring() {
    let program = program();
    queues::copies(&program);
    let page = program.guest.attach(program.next_id(), 2 * PAGE, 1);
    let (file, resource) = (program.kfd, page.id);
    let relayed = Request::Doorbells { file, place: range(1 << 62, 2 * PAGE), resource };
    assert_eq!(program.guest.tell(&relayed), Err(Errno::EOPNOTSUPP));
}

#[test]
fn memory_of_kfd_is_seen_too() {
    let program = program();
    let flags = AllocFlags::GTT | AllocFlags::WRITABLE;
    let args = program.alloc_args(program.addresses(PAGE), PAGE, flags).expect("allocated");
    let window = program.guest.attach(program.next_id(), PAGE, 1);
    place(&program, args.mmap_offset, PAGE, &window).expect("placed");
}

#[test]
fn what_cannot_be_placed_is_refused() {
    let program = program();
    let (_, _, offset) = visible(&program, 2 * PAGE);
    let attach = |size, pieces| program.guest.attach(program.next_id(), size, pieces);
    let (short, long, scattered) = (attach(PAGE, 1), attach(4 * PAGE, 1), attach(2 * PAGE, 2));
    for (size, blob) in [(PAGE, &short), (2 * PAGE, &short), (4 * PAGE, &long), (2 * PAGE, &scattered)] {
        assert_eq!(place(&program, offset, size, blob), Err(Errno::EINVAL), "{size:#x} {blob:?}");
    }
    let whole = attach(2 * PAGE, 1);
    for offset in [0, offset + PAGE, offset + 1, !0xfff] {
        assert_eq!(place(&program, offset, 2 * PAGE, &whole), Err(Errno::EINVAL), "{offset:#x}");
    }
    assert_eq!(place(&program, offset, 0, &whole), Err(Errno::EINVAL));
    assert_eq!(place(&program, offset, 2 * PAGE, &whole), Ok(()));
    let second = attach(2 * PAGE, 1);
    assert_eq!(place(&program, offset, 2 * PAGE, &second), Err(Errno::EBUSY));
    // Neither registers nor events of /dev/kfd.
    for offset in [0, 1 << 63, 3 << 62] {
        let place = Request::Place { file: program.kfd, place: range(offset, PAGE), resource: short.id };
        assert!(program.guest.tell(&place).is_err(), "{offset:#x}");
    }
    let blind = Program::running(Profile::Mi210);
    let blob = blind.guest.attach(blind.next_id(), PAGE, 1);
    assert_eq!(place(&blind, 0x1000, PAGE, &blob), Err(Errno::EOPNOTSUPP));
    assert_eq!(blind.alloc(blind.addresses(PAGE), PAGE, VISIBLE), Err(Errno::EINVAL));
}
