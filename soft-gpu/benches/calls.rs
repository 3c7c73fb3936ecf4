//! The round trip of an ioctl: in process, over the loopback socket, and under `softgpu run` beside a native ioctl of
//! the same program.
//!
//! `cargo bench -p softgpu --bench calls`

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use protocol::kfd::args::GetVersionArgs;
use protocol::kfd::{Caller, Ioctl, Kfd, Node, ProcessId};
use softgpu::local_mem::LocalCall;
use softgpu::loopback::{self, Loopback};
use softgpu::{BackingFiles, Config, Kernel, Profile, SoftGpu};
use zerocopy::IntoBytes;

fn device() -> SoftGpu {
    let machine = Profile::Mi210.machine(Kernel::Linux6_12);
    let backing = BackingFiles::anonymous(&machine.render_minors()).expect("memfd");
    SoftGpu::new(Config { machine, backing }).expect("a built-in profile")
}

fn version(c: &mut Criterion, name: &str, kfd: &dyn Kfd) {
    let caller = Caller { id: ProcessId(1), pid: 1, privileged: false, mem: None };
    let process = kfd.attach(caller).expect("attach");
    let file = process.open(Node::Kfd).expect("kfd");
    let call = LocalCall::new();
    let mut args = GetVersionArgs::default();
    c.bench_function(name, |b| {
        b.iter(|| {
            process.ioctl(file, Ioctl::GetVersion.request(), args.as_mut_bytes(), &call).expect("answered")
        });
    });
}

fn in_process(c: &mut Criterion) {
    version(c, "GET_VERSION in process", &device());
}

fn over_a_socket(c: &mut Criterion) {
    let (client, server) = loopback::pair().expect("a socket pair");
    let serving = std::thread::spawn(move || loopback::serve(Arc::new(device()), server));
    let remote = Loopback::new(client).expect("a thread");
    version(c, "GET_VERSION over the loopback socket", &remote);
    remote.close();
    serving.join().expect("the server ends").expect("and ends well");
}

/// A program that makes the calls that it is asked for and says how many nanoseconds they took.
struct Asked {
    child: Child,
    asked: ChildStdin,
    told: BufReader<ChildStdout>,
}

impl Asked {
    fn start(program: &PathBuf) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_softgpu"));
        command.arg("run").arg("--").arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("softgpu starts");
        let asked = child.stdin.take().expect("piped");
        let told = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, asked, told }
    }

    fn time(&mut self, kind: &str, calls: u64) -> Duration {
        writeln!(self.asked, "{kind} {calls}").expect("the program listens");
        let mut line = String::new();
        self.told.read_line(&mut line).expect("the program answers");
        Duration::from_nanos(line.trim().parse().expect("nanoseconds"))
    }
}

fn under_run(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("calls");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/calls.c");
    let compiled =
        Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).status().expect("cc runs");
    assert!(compiled.success());
    let mut caller = Asked::start(&program);
    for (kind, name) in [("native", "a native ioctl"), ("kfd", "GET_VERSION under softgpu run")] {
        c.bench_function(name, |b| b.iter_custom(|calls| caller.time(kind, calls)));
    }
    let Asked { mut child, asked, .. } = caller;
    drop(asked);
    assert!(child.wait().expect("it ends").success());
}

criterion_group!(benches, in_process, over_a_socket, under_run);
criterion_main!(benches);
