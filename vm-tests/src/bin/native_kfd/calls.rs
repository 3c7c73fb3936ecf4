//! Calls that every KFD without a GPU answers alike.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hsakmt::native::{Native, Paths};
use protocol::Errno;
use protocol::kfd::args::{
    AcquireVmArgs, CreateEventArgs, DestroyEventArgs, ExportDmabufArgs, GetProcessAperturesNewArgs,
    GetVersionArgs, SetEventArgs, SmiEventsArgs, WaitEventsArgs,
};
use protocol::kfd::constants::EventType;
use protocol::kfd::topology::Topology;
use protocol::kfd::types::EventData;
use protocol::kfd::{Ioctl, Kfd, Node, request_size};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::program::{Outcome, Program, descriptors, in_a_child, line};

pub fn run() {
    let native = Native::default();
    topology(&native);
    let program = match Program::open(&native) {
        Ok(program) => program,
        Err(errno) => return line("open", Err(errno), ""),
    };
    line("open", Ok(0), "");
    version(&program);
    no_gpu(&program);
    unknown(&program);
    let id = events(&program);
    waits(&program, id);
    children(&native, &program, id);
    closes(&program, id);
}

fn topology(native: &Native) {
    let tree = match native.topology() {
        Ok(tree) => tree,
        Err(errno) => return line("topology", Err(errno), ""),
    };
    let root = Paths::default().topology;
    let same =
        tree.files.iter().all(|(path, text)| std::fs::read(root.join(path)).ok().as_ref() == Some(text));
    let parsed = Topology::parse(&tree);
    let shape = parsed.map(|parsed| (parsed.topology.nodes.len(), parsed.topology.gpus().count()));
    println!("topology: nodes and GPUs {shape:?}, files as they are {same}, denied {}", tree.denied.len());
}

fn version(program: &Program) {
    let mut args = GetVersionArgs::default();
    let result = program.call(Ioctl::GetVersion, &mut args);
    line("GET_VERSION", result, &format!("{}.{}", args.major_version, args.minor_version));
}

fn no_gpu(program: &Program) {
    let mut apertures = GetProcessAperturesNewArgs::default();
    let result = program.call(Ioctl::GetProcessAperturesNew, &mut apertures);
    line("GET_PROCESS_APERTURES_NEW", result, &format!("nodes {}", apertures.num_of_nodes));
    let mut acquire = AcquireVmArgs { drm_fd: 77, gpu_id: 1 };
    let result = program.call(Ioctl::AcquireVm, &mut acquire);
    line("ACQUIRE_VM", result, &format!("descriptor {}", acquire.drm_fd));
    let before = descriptors();
    line(
        "SMI_EVENTS",
        program.call(Ioctl::SmiEvents, &mut SmiEventsArgs { gpuid: 1, ..Default::default() }),
        "",
    );
    line("EXPORT_DMABUF", program.call(Ioctl::ExportDmabuf, &mut ExportDmabufArgs::default()), "");
    println!("descriptors: {} more", descriptors() - before);
    line("open renderD191", program.process.open(Node::Render(191)).map(|_| 0), "");
}

fn unknown(program: &Program) {
    for request in [0xc008_4b7f, 0xc008_4bff, 0x4b00, 0x5421, 0x8008_6601] {
        let mut args = vec![0; request_size(request)];
        let result = program.raw(request, &mut args);
        line(&format!("request {request:#x}"), result, "");
    }
    line("GET_VERSION of 4 bytes", program.raw(0x8004_4b01, &mut [0; 4]), "");
    line("GET_VERSION of 8 bytes in 4", program.raw(Ioctl::GetVersion.request(), &mut [0; 4]), "");
}

fn create(program: &Program, auto_reset: u32) -> (Outcome, CreateEventArgs) {
    let mut args = CreateEventArgs { event_type: EventType::SIGNAL.0, auto_reset, ..Default::default() };
    (program.call(Ioctl::CreateEvent, &mut args), args)
}

fn set(program: &Program, event_id: u32) -> Outcome {
    program.call(Ioctl::SetEvent, &mut SetEventArgs { event_id, ..Default::default() })
}

/// A signal event that resets itself.
fn events(program: &Program) -> u32 {
    let (result, args) = create(program, 1);
    line("CREATE_EVENT", result, &format!("id {} slot {}", args.event_id, args.event_slot_index));
    let page = program.process.mmap(program.kfd, args.event_page_offset, 0x8000);
    let mapped = page.and_then(|page| {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        unsafe { mmap(std::ptr::null_mut(), 0x8000, prot, MapFlags::SHARED, &*page.fd, page.offset) }
            .map_err(|error| Errno::from_raw(error.raw_os_error()).unwrap_or(Errno::EIO))
    });
    line("mmap of the event page", mapped.map(|_| 0), "");
    if let Ok(start) = mapped {
        // SAFETY: the mapping was just made, and no reference to it exists.
        unsafe { munmap(start, 0x8000) }.expect("munmap");
    }
    line("SET_EVENT of no event", set(program, 4000), "");
    args.event_id
}

fn wait(program: &Program, event_id: u32, timeout: u32) -> (Outcome, u32) {
    let mut event = EventData { event_id, ..Default::default() };
    let events_ptr = std::ptr::from_mut(&mut event).expose_provenance() as u64;
    let mut args =
        WaitEventsArgs { events_ptr, num_events: 1, timeout, wait_result: 77, ..Default::default() };
    (program.call(Ioctl::WaitEvents, &mut args), args.wait_result)
}

fn print_wait(name: &str, (result, wait_result): (Outcome, u32)) {
    line(name, result, &format!("result {wait_result}"));
}

fn waits(program: &Program, id: u32) {
    print_wait("WAIT_EVENTS, nothing set", wait(program, id, 50));
    line("SET_EVENT", set(program, id), "");
    print_wait("WAIT_EVENTS, set", wait(program, id, 60_000));
    print_wait("WAIT_EVENTS, reset by the wait", wait(program, id, 0));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(program, id, 60_000));
        std::thread::sleep(Duration::from_millis(300));
        line("SET_EVENT while another thread waits", set(program, id), "");
        print_wait("its WAIT_EVENTS", waiter.join().expect("the thread"));
    });
    let (_, manual) = create(program, 0);
    let mut destroy = DestroyEventArgs { event_id: manual.event_id, ..Default::default() };
    line("DESTROY_EVENT", program.call(Ioctl::DestroyEvent, &mut destroy), "");
    line("DESTROY_EVENT again", program.call(Ioctl::DestroyEvent, &mut destroy), "");
    signal_ends_a_wait(program, id);
}

/// A handler without `SA_RESTART`: the call ends, and is not made again by native KFD.
fn signal_ends_a_wait(program: &Program, id: u32) {
    static HANDLED: AtomicU32 = AtomicU32::new(0);
    extern "C" fn handler(_signal: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: all-zero bits are a valid `sigaction` (no flags, empty mask).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let entry: extern "C" fn(libc::c_int) = handler;
    action.sa_sigaction = entry as usize;
    // SAFETY: the action lives through the call, and its handler does nothing but an atomic addition.
    let result = unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0, "sigaction");
    // SAFETY: no memory is involved.
    unsafe { libc::alarm(1) };
    let (result, _) = wait(program, id, 60_000);
    line("WAIT_EVENTS with a signal", result, &format!("handled {}", HANDLED.load(Ordering::SeqCst)));
}

/// Cases F01 and F02.
fn children(native: &Native, program: &Program, id: u32) {
    in_a_child("child", || {
        line("child: GET_VERSION on the parent's file", version_of(program), "");
        line("child: SET_EVENT on the parent's file", set(program, id), "");
        let before = descriptors();
        native.abandon_in_child();
        println!("child: descriptors closed {}", before - descriptors());
        match Program::open(&Native::default()) {
            Ok(own) => {
                line("child: GET_VERSION on its own", version_of(&own), "");
                line("child: SET_EVENT of the parent's event", set(&own, id), "");
                let (result, args) = create(&own, 1);
                line("child: CREATE_EVENT", result, &format!("id {}", args.event_id));
            }
            Err(errno) => line("child: open", Err(errno), ""),
        }
        line("child: GET_VERSION on the parent's file again", version_of(program), "");
    });
    line("GET_VERSION after the child", version_of(program), "");
    line("SET_EVENT after the child", set(program, id), "");
}

fn version_of(program: &Program) -> Outcome {
    program.call(Ioctl::GetVersion, &mut GetVersionArgs::default())
}

/// The kernel's process outlives its files.
fn closes(program: &Program, id: u32) {
    program.process.close(program.kfd);
    line("GET_VERSION on the closed file", version_of(program), "");
    let before = descriptors();
    for _ in 0..1000 {
        match program.process.open(Node::Kfd) {
            Ok(file) => program.process.close(file),
            Err(errno) => return line("open again", Err(errno), ""),
        }
    }
    println!("descriptors after 1000 opens and closes: {} more", descriptors() - before);
    let again = program.process.open(Node::Kfd).map(|kfd| Program { process: program.process.clone(), kfd });
    match again {
        Ok(again) => line("SET_EVENT of the old event on a new file", set(&again, id), ""),
        Err(errno) => line("open again", Err(errno), ""),
    }
}
