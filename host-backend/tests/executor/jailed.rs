//! The worker's own program, locked in: what it needs it may do.

use protocol::kfd::Ioctl;
use protocol::kfd::args::{CreateEventArgs, FreeMemoryOfGpuArgs, SetTrapHandlerArgs};
use protocol::kfd::constants::AllocFlags;
use softgpu::Profile;

use super::guest::PAGE;
use super::program::Program;
use super::{queues, waits};

#[test]
fn queues_run_calls_wait_and_the_end_is_clean() {
    for profile in [Profile::Mi210, Profile::TwoGpu] {
        let mut program = Program::of_a_process(profile).run();
        queues::copies(&program);
        waits::waits_end(&program);
        // A queue is there at the end.
        let mut queue = queues::Sdma::new(&program);
        let buffer = program.buffer(PAGE);
        queue.copy(&program, buffer.address, buffer.address, 64);
        queue.ring(&program);
        program.guest.end();
    }
}

#[test]
fn memory_of_the_host_is_made_and_goes() {
    let program = Program::of_a_process(Profile::Mi210).run();
    // The page of events, as the thunk makes it.
    let page = program.addresses(8 * PAGE);
    let flags = AllocFlags::GTT | AllocFlags::WRITABLE | AllocFlags::EXECUTABLE;
    let handle = program.alloc(page, 8 * PAGE, flags).expect("GTT");
    program.map(handle).expect("mapped");
    let mut event = CreateEventArgs { event_page_offset: handle, ..Default::default() };
    assert_eq!(program.ioctl(Ioctl::CreateEvent, &mut event), Ok(0));
    for _ in 0..50 {
        let address = program.addresses(64 * PAGE);
        let handle =
            program.alloc(address, 64 * PAGE, AllocFlags::VRAM | AllocFlags::WRITABLE).expect("VRAM");
        assert_eq!(program.ioctl(Ioctl::FreeMemoryOfGpu, &mut FreeMemoryOfGpuArgs { handle }), Ok(0));
    }
    let gpu_id = program.gpu_id();
    let mut trap = SetTrapHandlerArgs { tba_addr: page, tma_addr: page, gpu_id, pad: 0 };
    assert_eq!(program.ioctl(Ioctl::SetTrapHandler, &mut trap), Ok(0));
}
