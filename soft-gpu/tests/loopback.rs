//! The `Kfd` trait over a socket: what a transport needs must fit the trait.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use protocol::Errno;
use protocol::kfd::args::{CreateEventArgs, GetVersionArgs, SetEventArgs, WaitEventsArgs};
use protocol::kfd::ioctl::Ioctl;
use protocol::kfd::types::EventData;
use protocol::kfd::{Call, Caller, FileId, Kfd, Node, Process, ProcessId};
use softgpu::local_mem::LocalCall;
use softgpu::loopback::{self, Loopback};
use softgpu::{BackingFiles, Config, Kernel, Profile, SoftGpu};
use zerocopy::IntoBytes;

const WAITERS: usize = 200;

/// A software GPU on the other side of a socket pair, and one process on it.
struct Remote {
    kfd: Option<Loopback>,
    process: Option<Arc<dyn Process>>,
    server: Option<thread::JoinHandle<std::io::Result<()>>>,
    file: FileId,
}

impl Remote {
    fn new() -> Self {
        let machine = Profile::CpuOnly.machine(Kernel::Linux6_12);
        let backing = BackingFiles::anonymous(&machine.render_minors()).unwrap();
        let gpu = SoftGpu::new(Config { machine, backing }).unwrap();
        let (client, server) = loopback::pair().unwrap();
        let server = thread::spawn(move || loopback::serve(Arc::new(gpu), server));
        let kfd = Loopback::new(client).unwrap();
        let caller = Caller { id: ProcessId(1), pid: std::process::id(), privileged: false, mem: None };
        let process = kfd.attach(caller).unwrap();
        let file = process.open(Node::Kfd).unwrap();
        Remote { kfd: Some(kfd), process: Some(process), server: Some(server), file }
    }

    fn process(&self) -> &dyn Process {
        self.process.as_deref().unwrap()
    }

    fn call<T: IntoBytes + zerocopy::FromBytes>(
        &self,
        ioctl: Ioctl,
        args: &mut T,
        call: &dyn Call,
    ) -> Result<i32, Errno> {
        self.process().ioctl(self.file, ioctl.request(), args.as_mut_bytes(), call)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.process = None;
        self.kfd = None;
        if let Some(server) = self.server.take() {
            server.join().unwrap().unwrap();
        }
    }
}

#[test]
fn a_call_and_the_topology_come_back_as_from_the_device_itself() {
    let remote = Remote::new();
    let mut version = GetVersionArgs::default();
    remote.call(Ioctl::GetVersion, &mut version, &LocalCall::new()).unwrap();
    // KFD_IOCTL_MAJOR_VERSION and KFD_IOCTL_MINOR_VERSION of Linux 6.12.
    assert_eq!((version.major_version, version.minor_version), (1, 17));
    let tree = remote.kfd.as_ref().unwrap().topology().unwrap();
    assert!(tree.files.contains_key("nodes/0/properties"), "{:?}", tree.files.keys());
}

#[test]
fn an_unknown_number_is_enotty_before_anything_is_carried() {
    let remote = Remote::new();
    let error = remote.process().transfer(remote.file, 0xc008_4b7f).unwrap_err();
    assert_eq!(error, Errno::ENOTTY);
}

#[test]
fn two_hundred_threads_wait_at_once_and_each_is_woken_by_its_own_event() {
    let remote = Arc::new(Remote::new());
    let events: Vec<u32> = (0..WAITERS)
        .map(|_| {
            let mut create = CreateEventArgs { auto_reset: 1, ..CreateEventArgs::default() };
            remote.call(Ioctl::CreateEvent, &mut create, &LocalCall::new()).unwrap();
            create.event_id
        })
        .collect();
    let ready = Arc::new(Barrier::new(WAITERS + 1));
    let waiters: Vec<_> = events
        .iter()
        .map(|&event| {
            let (remote, ready) = (Arc::clone(&remote), Arc::clone(&ready));
            thread::spawn(move || {
                let data = EventData { event_id: event, ..EventData::default() };
                let mut wait = WaitEventsArgs {
                    events_ptr: std::ptr::from_ref(&data) as u64,
                    num_events: 1,
                    timeout: 30_000,
                    ..WaitEventsArgs::default()
                };
                ready.wait();
                remote.call(Ioctl::WaitEvents, &mut wait, &LocalCall::new()).map(|_| wait.wait_result)
            })
        })
        .collect();
    ready.wait();
    // Other calls go on while all of them wait: nothing that waits may hold what others need.
    let start = Instant::now();
    for _ in 0..100 {
        remote.call(Ioctl::GetVersion, &mut GetVersionArgs::default(), &LocalCall::new()).unwrap();
    }
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "100 calls beside the waits took {:?}",
        start.elapsed()
    );
    for event in events.iter().rev() {
        let mut set = SetEventArgs { event_id: *event, pad: 0 };
        remote.call(Ioctl::SetEvent, &mut set, &LocalCall::new()).unwrap();
    }
    for waiter in waiters {
        // KFD_IOC_WAIT_RESULT_COMPLETE
        assert_eq!(waiter.join().unwrap(), Ok(0));
    }
}

#[test]
fn an_interrupted_wait_comes_back_for_a_restart() {
    let remote = Remote::new();
    let mut create = CreateEventArgs::default();
    remote.call(Ioctl::CreateEvent, &mut create, &LocalCall::new()).unwrap();
    let data = EventData { event_id: create.event_id, ..EventData::default() };
    let mut wait = WaitEventsArgs {
        events_ptr: std::ptr::from_ref(&data) as u64,
        num_events: 1,
        timeout: 30_000,
        ..WaitEventsArgs::default()
    };
    let call = LocalCall::new();
    let result = thread::scope(|scope| {
        let waiting = scope.spawn(|| remote.call(Ioctl::WaitEvents, &mut wait, &call));
        thread::sleep(Duration::from_millis(50));
        call.interrupt().fire();
        waiting.join().unwrap()
    });
    assert_eq!(result, Err(Errno::ERESTARTSYS));
}

#[test]
fn a_server_that_is_gone_is_a_lost_device_and_no_hang() {
    let (client, server) = loopback::pair().unwrap();
    let kfd = Loopback::new(client).unwrap();
    drop(server);
    assert_eq!(kfd.topology().unwrap_err(), Errno::ENODEV);
}
