//! The round trip of an ioctl: in process, over the loopback socket, and by a program under `softgpu run`, beside an
//! ioctl of that program that the launcher has nothing to do with.
//!
//! `cargo bench -p softgpu --bench calls`. The first lines compare, with a ratio; the rest is criterion's.

mod support;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group};
use protocol::kfd::args::GetVersionArgs;
use protocol::kfd::{Caller, Ioctl, Kfd, Node, ProcessId};
use softgpu::local_mem::LocalCall;
use softgpu::loopback::{self, Loopback};
use zerocopy::IntoBytes;

use support::program::{DevFiles, Device, mi210};
use support::under_run::{self, Asked};
use support::{compare, time};

/// `TIOCGWINSZ`, which `/dev/null` refuses at once and the launcher's filter lets pass.
const NATIVE: u64 = 0x5413;

fn version(kfd: &dyn Kfd) -> impl FnMut(u64) -> Duration + use<> {
    let caller = Caller { id: ProcessId(1), pid: 1, privileged: false, mem: None };
    let process = kfd.attach(caller).expect("attach");
    let file = process.open(Node::Kfd).expect("kfd");
    let call = LocalCall::new();
    let mut args = GetVersionArgs::default();
    move |steps| {
        time(steps, || {
            process.ioctl(file, Ioctl::GetVersion.request(), args.as_mut_bytes(), &call).expect("answered");
        })
    }
}

fn calls(c: &mut Criterion) {
    let (client, server) = loopback::pair().expect("a socket pair");
    let serving = std::thread::spawn(move || loopback::serve(Arc::new(mi210().0), server));
    let remote = Loopback::new(client).expect("a thread");
    let asked = std::cell::RefCell::new(Asked::start());
    let (device, _) = mi210();

    let mut native = |steps| asked.borrow_mut().time("native", steps);
    let mut in_process = version(&device);
    let mut socket = version(&remote);
    let mut under_run = |steps| asked.borrow_mut().time("kfd", steps);
    let mut candidates: [support::Timed<'_>; 4] = [
        ("an ioctl of the kernel", &mut native),
        ("in process", &mut in_process),
        ("over the loopback socket", &mut socket),
        ("under softgpu run", &mut under_run),
    ];
    compare("GET_VERSION", 30, 5000, &mut candidates);
    let mut group = c.benchmark_group("GET_VERSION");
    for (name, timed) in &mut candidates {
        group.bench_function(*name, |b| b.iter_custom(&mut *timed));
    }
    group.finish();

    asked.into_inner().end();
    drop(socket);
    remote.close();
    serving.join().expect("the server ends").expect("and ends well");
}

/// The program under `softgpu run`.
fn asked() -> impl FnMut(&str, u64) -> Duration {
    let device = DevFiles::open(&mi210().1);
    let null = File::open("/dev/null").expect("/dev/null");
    move |kind, steps| match kind {
        "native" => time(steps, || {
            // SAFETY: the driver of this file knows no such request and looks at no argument.
            let result = unsafe { libc::ioctl(null.as_raw_fd(), NATIVE, 0) };
            assert_eq!(result, -1);
        }),
        _ => time(steps, || {
            let mut args = GetVersionArgs::default();
            device.ioctl(Ioctl::GetVersion.request(), args.as_mut_bytes()).expect("answered");
        }),
    }
}

criterion_group!(benches, calls);

fn main() {
    if !under_run::answer(asked) {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
