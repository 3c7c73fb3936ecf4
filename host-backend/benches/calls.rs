//! What the wire costs: the same ioctl on a software GPU in this process, and through the call area of an executor that looks for
//! calls without pause ("hot"). Needs two processors that are free.
#![allow(missing_docs, reason = "criterion's macros make public items")]
#![allow(dead_code, reason = "the guest of the tests can do more")]

#[path = "../tests/executor/guest.rs"]
mod guest;
#[path = "../tests/executor/program.rs"]
mod program;

use criterion::{Criterion, criterion_group, criterion_main};
use protocol::kfd::args::GetClockCountersArgs;
use protocol::kfd::{Caller, Ioctl, Node, ProcessId};
use protocol::wire::area::{queue_place, slot, slot_place, state, word};
use protocol::wire::{Command, Submission};
use softgpu::Profile;
use softgpu::local_mem::{LocalCall, LocalMem};
use vhost_device_kfd::gpu::Gpu;
use vhost_device_kfd::worker::kfd::{Config, open};
use zerocopy::IntoBytes;

use guest::AREA;
use program::{Program, ioctl_bytes};

fn calls(criterion: &mut Criterion) {
    let request = Ioctl::GetClockCounters.request();
    let kfd = open(&Gpu::Soft(Profile::Mi210)).expect("a software GPU");
    let caller =
        Caller { id: ProcessId(1), pid: 1, privileged: false, mem: Some(std::sync::Arc::new(LocalMem)) };
    let process = kfd.attach(caller).expect("attached");
    let file = process.open(Node::Kfd).expect("opened");
    let mut args = GetClockCountersArgs::default();
    criterion.bench_function("GET_CLOCK_COUNTERS in process", |bencher| {
        bencher.iter(|| process.ioctl(file, request, args.as_mut_bytes(), &LocalCall::new()));
    });
    let config = Config { spin: std::time::Duration::from_millis(10), ..Config::default() };
    let program = Program::with(Profile::Mi210, config).run();
    let bytes = ioctl_bytes(program.kfd, request, GetClockCountersArgs::default().as_bytes(), &[]);
    criterion.bench_function("GET_CLOCK_COUNTERS over the wire, hot", |bencher| {
        let (guest, number) = (&program.guest, 255);
        guest.fill_slot(number, Command::Ioctl.id(), &bytes);
        let area = guest.blob(AREA);
        let state_at = slot_place(number).expect("a slot").1 as u64 + slot::STATE as u64;
        let mut call = guest.load(&area, word::SUBMITTED as u64);
        bencher.iter(|| {
            guest.store(&area, state_at, state::SUBMITTED);
            guest.store(&area, queue_place(call) as u64, number);
            call = call.wrapping_add(1);
            guest.store(&area, word::SUBMITTED as u64, call);
            if guest.load(&area, word::ASLEEP as u64) != 0 {
                guest.send_bytes(&Submission::Kick.encode());
            }
            while guest.load(&area, state_at) != state::DONE {
                std::hint::spin_loop();
            }
        });
    });
}

criterion_group!(benches, calls);
criterion_main!(benches);
