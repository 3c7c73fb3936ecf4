//! What calls answer.

use protocol::Errno;
use protocol::drm::DrmIoctl;
use protocol::kfd::args::{
    GetClockCountersArgs, GetProcessAperturesArgs, GetProcessAperturesNewArgs, GetVersionArgs,
};
use protocol::kfd::types::ProcessDeviceApertures;
use protocol::kfd::{FileId, Ioctl, Node};
use protocol::wire::structs::Range;
use protocol::wire::{Answer, Command, Request};
use softgpu::Profile;
use vhost_device_kfd::worker::kfd::Config;
use zerocopy::FromZeros;

use super::guest::{Guest, fresh_range, range};
use super::program::{Program, open};

#[test]
fn hello_agrees_on_a_version_and_a_range() {
    let guest = Guest::with(Profile::Mi210, Config { waits: 9, aliases: 8, ..Config::default() });
    let good = fresh_range();
    let low = range(1 << 30, 64 << 30);
    let answer = guest.hello(0, &[low, good]).expect("the second");
    assert_eq!((answer.version.get(), answer.addresses, answer.features.get()), (1, good, 0));
    assert_eq!((answer.wait_limit.get(), answer.alias_limit.get()), (9, 8));
    assert_eq!(answer.memory_limit.get(), good.len.get());
    assert_eq!(guest.hello(0, &[good]).err(), Some(Errno::EPROTO), "once");
}

#[test]
fn hello_refuses_what_it_cannot_speak_and_can_be_said_again() {
    let guest = Guest::new(Profile::Mi210);
    assert_eq!(guest.tell(&Request::Topology { offset: 0 }), Err(Errno::EPROTO), "HELLO comes first");
    assert_eq!(open(&guest, Node::Kfd), Err(Errno::EPROTO));
    let ranges = [fresh_range()];
    let hello = |versions, page_size, ranges: &[Range]| {
        guest.call(&Request::Hello { versions, features: 0, page_size, ranges }).map(drop)
    };
    assert_eq!(hello((2, 9), 4096, &ranges), Err(Errno::EOPNOTSUPP));
    assert_eq!(hello((0, 0), 4096, &ranges), Err(Errno::EOPNOTSUPP));
    assert_eq!(hello((2, 1), 4096, &ranges), Err(Errno::EOPNOTSUPP));
    assert_eq!(hello((1, 1), 65536, &ranges), Err(Errno::EINVAL));
    assert_eq!(hello((1, 1), 4096, &[]), Err(Errno::EINVAL));
    assert_eq!(hello((1, 1), 4096, &[range(1 << 47, 64 << 30)]), Err(Errno::EINVAL));
    assert_eq!(hello((0, 7), 4096, &ranges), Ok(()));
}

#[test]
fn the_topology_comes_in_parts_and_is_the_guests() {
    let program = Program::new(Profile::TwoGpu);
    let topology = program.topology();
    let nodes: Vec<_> = topology.nodes.iter().map(|node| (node.id, node.is_cpu(), node.is_gpu())).collect();
    assert_eq!(nodes, [(0, true, false), (1, false, true), (2, false, true)]);
    let beyond = program.guest.call(&Request::Topology { offset: u64::MAX }).expect("an answer");
    let beyond = Answer::decode(Command::Topology, &beyond);
    assert!(matches!(beyond, Ok(Answer::Topology { total: 1.., part: [] })), "{beyond:?}");
}

#[test]
fn version_and_clocks_are_those_of_the_kfd() {
    let program = Program::running(Profile::Mi210);
    let mut version = GetVersionArgs::default();
    assert_eq!(program.ioctl(Ioctl::GetVersion, &mut version), Ok(0));
    assert_eq!(version.major_version, 1);
    let counters = || {
        let mut args = GetClockCountersArgs { gpu_id: program.gpu_id(), ..Default::default() };
        assert_eq!(program.ioctl(Ioctl::GetClockCounters, &mut args), Ok(0));
        args
    };
    let (first, second) = (counters(), counters());
    assert!(first.gpu_clock_counter > 0 && first.gpu_clock_counter < second.gpu_clock_counter);
    assert!(first.cpu_clock_counter > 0 && first.cpu_clock_counter < second.cpu_clock_counter);
}

#[test]
fn apertures_are_cut_to_the_range() {
    let program = Program::running(Profile::TwoGpu);
    let (base, last) = (program.range.base.get(), program.range.base.get() + program.range.len.get() - 1);
    let mut list = [ProcessDeviceApertures::new_zeroed(); 4];
    let mut args = GetProcessAperturesNewArgs {
        kfd_process_device_apertures_ptr: list.as_mut_ptr().expose_provenance() as u64,
        num_of_nodes: 3,
        pad: 0,
    };
    assert_eq!(program.ioctl(Ioctl::GetProcessAperturesNew, &mut args), Ok(0));
    assert_eq!(args.num_of_nodes, 2);
    let mut old = GetProcessAperturesArgs::new_zeroed();
    assert_eq!(program.ioctl(Ioctl::GetProcessApertures, &mut old), Ok(0));
    assert_eq!(old.num_of_nodes, 2);
    for apertures in list[..2].iter().chain(&old.process_apertures[..2]) {
        assert_eq!((apertures.gpuvm_base, apertures.gpuvm_limit), (base, last));
        assert_eq!((apertures.lds_base, apertures.scratch_base), (1 << 48, 2 << 48));
    }
    assert_eq!(list[2].gpuvm_limit, 0);
}

#[test]
fn files_are_opened_asked_and_closed() {
    let program = Program::new(Profile::Mi210);
    let guest = &program.guest;
    assert_eq!(open(guest, Node::Render(191)), Err(Errno::ENOENT));
    let render = open(guest, Node::Render(128)).expect("a render node");
    let transfer = |file, request| guest.call(&Request::Transfer { file, request });
    let known = transfer(program.kfd, Ioctl::GetVersion.request()).expect("known");
    let Ok(Answer::Transfer(known)) = Answer::decode(Command::Transfer, &known) else { panic!("no answer") };
    assert_eq!((known.size, known.from_user, known.to_user), (8, false, true));
    assert_eq!(transfer(program.kfd, 0xc008_4bff), Err(Errno::ENOTTY));
    assert_eq!(transfer(FileId(999), Ioctl::GetVersion.request()), Err(Errno::EBADF));
    assert!(transfer(render, DrmIoctl::AmdgpuInfo.request()).is_ok());
    assert_eq!(guest.tell(&Request::Close(render)), Ok(()));
    assert_eq!(transfer(render, DrmIoctl::AmdgpuInfo.request()), Err(Errno::EBADF));
}
