//! A host with two GPUs, one of which the guest gets.

use protocol::Errno;
use protocol::kfd::args::{
    AllocMemoryOfGpuArgs, GetClockCountersArgs, GetProcessAperturesArgs, GetProcessAperturesNewArgs,
    MapMemoryToGpuArgs,
};
use protocol::kfd::constants::AllocFlags;
use protocol::kfd::types::ProcessDeviceApertures;
use protocol::kfd::{Ioctl, Node};
use softgpu::{Kernel, Profile};
use vhost_device_kfd::worker::kfd::Config;
use zerocopy::FromZeros as _;

use super::guest::PAGE;
use super::program::{Program, open};
use super::queues;

#[test]
fn a_gpu_that_is_not_shared_is_not_there() {
    let machine = Profile::TwoGpu.machine(Kernel::default());
    let [hidden, shown] = &machine.gpus[..] else { panic!("two GPUs") };
    let gpus = "1".parse().expect("a set");
    let program = Program::with(Profile::TwoGpu, Config { gpus, ..Config::default() }).run();
    assert_eq!(program.gpu_id(), shown.gpu_id);
    assert_eq!(program.topology().nodes.len(), 2);
    assert_eq!(open(&program.guest, Node::Render(hidden.render_minor)), Err(Errno::ENOENT));
    open(&program.guest, Node::Render(shown.render_minor)).expect("its own");

    // Both ways to ask for apertures know one GPU, though the host's KFD has another before it.
    let mut list = [ProcessDeviceApertures::new_zeroed(); 3];
    let pointer = list.as_mut_ptr().expose_provenance() as u64;
    let ask = |num_of_nodes, kfd_process_device_apertures_ptr| {
        let mut args = GetProcessAperturesNewArgs { kfd_process_device_apertures_ptr, num_of_nodes, pad: 0 };
        program.ioctl(Ioctl::GetProcessAperturesNew, &mut args).map(|_| args.num_of_nodes)
    };
    assert_eq!(ask(0, 0), Ok(1));
    assert_eq!(ask(3, pointer), Err(Errno::EINVAL), "more than the guest has nodes");
    assert_eq!(ask(2, pointer), Ok(1));
    assert_eq!((list[0].gpu_id, list[1].gpu_id), (shown.gpu_id, 0));
    assert_eq!(list[0].gpuvm_base, program.range.base.get());
    let mut old = GetProcessAperturesArgs::new_zeroed();
    assert_eq!(program.ioctl(Ioctl::GetProcessApertures, &mut old), Ok(0));
    assert_eq!((old.num_of_nodes, old.process_apertures[0].gpu_id), (1, shown.gpu_id));
    assert_eq!(old.process_apertures[1].gpu_id, 0);

    // Nor can it be named.
    let mut clocks = GetClockCountersArgs { gpu_id: hidden.gpu_id, ..Default::default() };
    assert_eq!(program.ioctl(Ioctl::GetClockCounters, &mut clocks), Err(Errno::EINVAL));
    let address = program.addresses(PAGE);
    let mut alloc = AllocMemoryOfGpuArgs {
        va_addr: address,
        size: PAGE,
        gpu_id: hidden.gpu_id,
        flags: AllocFlags::VRAM.0,
        ..Default::default()
    };
    assert_eq!(program.ioctl(Ioctl::AllocMemoryOfGpu, &mut alloc), Err(Errno::EINVAL));
    let handle = program.alloc(address, PAGE, AllocFlags::VRAM).expect("on its own");
    let ids = [hidden.gpu_id];
    let mut map = MapMemoryToGpuArgs {
        handle,
        device_ids_array_ptr: ids.as_ptr().expose_provenance() as u64,
        n_devices: 1,
        n_success: 0,
    };
    assert!(program.ioctl(Ioctl::MapMemoryToGpu, &mut map).is_err());
    assert_eq!(map.n_success, 0);
    // Its own works.
    queues::copies(&program);
}
