use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

use protocol::kfd::args::{AcquireVmArgs, GetVersionArgs};
use protocol::kfd::{Caller, Kfd, PassedFd, ProcessId};
use zerocopy::IntoBytes;

use super::super::{Native, Paths};
use super::*;
use crate::testing::{TestCall, in_a_child, is_open};

/// Harmless files in the place of devices: they can be opened, and no ioctl works on them.
struct Rig {
    _dir: tempfile::TempDir,
    native: Native,
    process: Arc<dyn Process>,
}

fn paths(dir: &Path) -> Paths {
    Paths {
        kfd: dir.join("kfd"),
        render_nodes: dir.into(),
        topology: dir.join("topology"),
        ..Paths::default()
    }
}

fn caller() -> Caller {
    Caller { id: ProcessId(1), pid: std::process::id(), privileged: false, mem: None }
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["kfd", "renderD128", "renderD129"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let native = Native::new(paths(dir.path()));
        let process = native.attach(caller()).unwrap();
        Self { _dir: dir, native, process }
    }

    fn ioctl(&self, file: FileId, request: u32, args: &mut [u8]) -> Result<i32, Errno> {
        self.process.ioctl(file, request, args, &TestCall::default())
    }

    fn number(&self, file: FileId) -> i32 {
        self.process.mmap(file, 0, 4096).unwrap().fd.as_raw_fd()
    }
}

const VERSION: u32 = Ioctl::GetVersion.request();

#[test]
fn only_this_process_can_attach() {
    let rig = Rig::new();
    let foreign = Caller { pid: std::process::id() + 1, ..caller() };
    assert_eq!(rig.native.attach(foreign).err(), Some(Errno::EINVAL));
}

#[test]
fn files_are_opened_close_on_exec_and_closed() {
    let rig = Rig::new();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    let render = rig.process.open(Node::Render(129)).unwrap();
    assert_ne!(kfd, render);
    assert_eq!(rig.process.open(Node::Render(130)), Err(Errno::ENOENT));
    let number = rig.number(render);
    let flags = rustix::io::fcntl_getfd(&*rig.process.mmap(render, 0, 1).unwrap().fd).unwrap();
    assert_eq!(flags, rustix::io::FdFlags::CLOEXEC);
    rig.process.close(render);
    rig.process.close(render);
    assert!(!is_open(number));
    assert_eq!(rig.process.mmap(render, 0, 1).err(), Some(Errno::EBADF));
    assert_eq!(rig.ioctl(render, VERSION, &mut [0; 8]), Err(Errno::EBADF));
    assert_eq!(rig.process.transfer(render, VERSION), Err(Errno::EBADF));
    assert!(rig.process.transfer(kfd, VERSION).is_ok());
}

#[test]
fn files_of_one_attachment_are_not_the_others_and_end_with_it() {
    let rig = Rig::new();
    let second = rig.native.attach(caller()).unwrap();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    assert_eq!(second.transfer(kfd, VERSION), Err(Errno::EBADF));
    second.close(kfd);
    let number = rig.number(kfd);
    drop(second);
    assert!(is_open(number));
    let Rig { _dir, native, process } = rig;
    drop(process);
    assert!(!is_open(number));
    drop(native);
}

#[test]
fn a_thousand_opens_leave_no_descriptor() {
    let rig = Rig::new();
    let kept = rig.process.open(Node::Kfd).unwrap();
    let number = rig.number(kept);
    let mut numbers = Vec::new();
    for _ in 0..1000 {
        let file = rig.process.open(Node::Render(128)).unwrap();
        numbers.push(rig.number(file));
        rig.process.close(file);
    }
    // Other tests run beside this one, but none has hundreds of files open.
    assert!(numbers.iter().all(|number| *number < 500), "{numbers:?}");
    assert!(is_open(number));
}

#[test]
fn a_mapping_is_of_the_files_own_descriptor() {
    let rig = Rig::new();
    let file = rig.process.open(Node::Render(128)).unwrap();
    let (one, two) = (rig.process.mmap(file, 0x1000, 0x2000).unwrap(), rig.process.mmap(file, 0, 1).unwrap());
    assert!(Arc::ptr_eq(&one.fd, &two.fd), "no duplicates");
    assert_eq!((one.offset, one.len, one.writable), (0x1000, 0x2000, true));
    let number = one.fd.as_raw_fd();
    rig.process.close(file);
    assert!(is_open(number), "a mapping keeps the file");
    drop((one, two));
    assert!(!is_open(number));
}

#[test]
fn ranges_that_no_file_has_are_einval() {
    let rig = Rig::new();
    let file = rig.process.open(Node::Kfd).unwrap();
    // The kinds of memory of KFD are in the upper bits of an offset.
    assert!(rig.process.mmap(file, 0x8000_0000_0000_0000, 0x8000).is_ok());
    assert!(rig.process.mmap(file, u64::MAX - 4095, 4096).is_ok());
    for (offset, len) in [(0, 0), (u64::MAX, 2), (4096, u64::MAX)] {
        assert_eq!(rig.process.mmap(file, offset, len).err(), Some(Errno::EINVAL), "{offset:#x} {len:#x}");
    }
}

#[test]
fn arguments_of_another_size_than_the_request_never_reach_the_kernel() {
    let rig = Rig::new();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    for size in [0, 7, 9, 4096] {
        assert_eq!(rig.ioctl(kfd, VERSION, &mut vec![0; size]), Err(Errno::EINVAL), "{size}");
    }
    assert_eq!(rig.ioctl(kfd, VERSION, &mut [0; 8]), Err(Errno::ENOTTY), "the plain file's own answer");
}

// FIONBIO, FIONREAD, FS_IOC_GETFLAGS and FIGETBSZ read and write memory that the size of the request does not
// tell.
#[test]
fn calls_of_the_file_system_layer_are_enotty() {
    let rig = Rig::new();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    let render = rig.process.open(Node::Render(128)).unwrap();
    for request in [0x5421, 0x541b, 0x8008_6601, 0x2, 0x5451, VERSION ^ 0x100] {
        let mut args = vec![0; request_size(request)];
        for file in [kfd, render] {
            assert_eq!(rig.ioctl(file, request, &mut args), Err(Errno::ENOTTY), "{request:#x}");
            assert_eq!(rig.process.transfer(file, request), Err(Errno::ENOTTY), "{request:#x}");
        }
    }
    assert_eq!(rig.ioctl(render, VERSION, &mut [0; 8]), Err(Errno::ENOTTY), "KFD's letter on a render node");
}

#[test]
fn transfer_is_by_the_declarations() {
    let rig = Rig::new();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    let render = rig.process.open(Node::Render(128)).unwrap();
    let transfer = |size, from_user, to_user| Ok(Transfer { size, from_user, to_user });
    assert_eq!(rig.process.transfer(kfd, VERSION), transfer(8, false, true));
    assert_eq!(rig.process.transfer(kfd, Ioctl::AcquireVm.request()), transfer(8, true, false));
    // Mainline's CREATE_PROCESS has no argument, ROCm's has one.
    assert_eq!(rig.process.transfer(kfd, Ioctl::CreateProcess.request()), transfer(0, false, false));
    let rocm = Ioctl::RocmCreateProcess;
    let size = rocm.decl().args.size;
    assert_eq!(rig.process.transfer(kfd, rocm.request()), transfer(size, true, true));
    assert_eq!(rig.process.transfer(kfd, 0xc008_4b7f), Err(Errno::ENOTTY));
    let get_client = 0xc028_6405;
    assert_eq!(rig.process.transfer(render, get_client), transfer(40, true, true));
    assert_eq!(rig.process.transfer(render, get_client & !(1 << 30)), transfer(40, false, true));
    let submit = 0xc018_6444;
    assert_eq!(rig.process.transfer(render, submit), transfer(24, true, true));
}

#[test]
fn a_call_that_fails_leaves_the_callers_numbers() {
    let rig = Rig::new();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    let render = rig.process.open(Node::Render(128)).unwrap();
    let mut args = AcquireVmArgs { drm_fd: 5, gpu_id: 1 };
    let call = TestCall::default().with(5, PassedFd::File(render));
    let result = rig.process.ioctl(kfd, Ioctl::AcquireVm.request(), args.as_mut_bytes(), &call);
    assert_eq!((result, args.drm_fd), (Err(Errno::ENOTTY), 5));
    let call = TestCall::default().with(5, PassedFd::File(FileId(999)));
    let result = rig.process.ioctl(kfd, Ioctl::AcquireVm.request(), args.as_mut_bytes(), &call);
    assert_eq!((result, args.drm_fd), (Err(Errno::EBADF), 5));
}

#[test]
fn an_interrupt_that_has_fired_ends_a_blocking_call_before_it_begins() {
    let rig = Rig::new();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    let call = TestCall::default();
    call.interrupt().fire();
    let wait = Ioctl::WaitEvents;
    let mut args = vec![0; wait.decl().args.size];
    assert_eq!(rig.process.ioctl(kfd, wait.request(), &mut args, &call), Err(Errno::ERESTARTSYS));
    let mut version = GetVersionArgs::default();
    let result = rig.process.ioctl(kfd, VERSION, version.as_mut_bytes(), &call);
    assert_eq!(result, Err(Errno::ENOTTY), "others go to the kernel");
}

// Cases F01 and F02.
#[test]
fn a_forked_child_gets_ebadf_and_leaves_the_parents_files_alone() {
    let rig = Rig::new();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    let number = rig.number(kfd);
    let child = in_a_child(|| {
        rig.process.close(kfd);
        rig.process.open(Node::Kfd) == Err(Errno::EBADF)
            && rig.ioctl(kfd, VERSION, &mut [0; 8]) == Err(Errno::EBADF)
            && rig.process.transfer(kfd, VERSION) == Err(Errno::EBADF)
            && rig.process.mmap(kfd, 0, 1).err() == Some(Errno::EBADF)
            && rig.native.attach(Caller { pid: std::process::id(), ..caller() }).err() == Some(Errno::EBADF)
            && is_open(number)
    });
    assert!(child);
    assert!(is_open(number));
    assert!(rig.process.transfer(kfd, VERSION).is_ok());
}

// Cases F01 and F02.
#[test]
fn a_forked_child_lets_go_of_what_it_inherited_and_opens_its_own() {
    let rig = Rig::new();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    let render = rig.process.open(Node::Render(128)).unwrap();
    let mapping = rig.process.mmap(render, 0, 1).unwrap();
    let numbers = [rig.number(kfd), rig.number(render)];
    rig.native.abandon_in_child();
    assert!(numbers.iter().all(|number| is_open(*number)), "nothing happens in the process itself");
    let (dir, Rig { native, process, _dir }) = (paths_of(&rig), rig);
    let child = in_a_child(|| {
        native.abandon_in_child();
        let closed = numbers.iter().all(|number| !is_open(*number));
        let own = Native::new(dir);
        let own_process = own.attach(Caller { pid: std::process::id(), ..caller() }).unwrap();
        // They take the numbers that have become free, which the parent's state must not close when it goes. Lower ones
        // may be free too: other tests' descriptors that were closed by the time of the fork.
        let last = numbers.into_iter().max().unwrap_or(0);
        let open = || fs::File::open("/dev/null").ok();
        let mut lower: Vec<_> =
            std::iter::from_fn(open).take_while(|file| file.as_raw_fd() <= last).collect();
        lower.retain(|file| !numbers.contains(&file.as_raw_fd()));
        let files = [own_process.open(Node::Kfd), own_process.open(Node::Render(128))];
        native.abandon_in_child();
        drop((mapping, process, native));
        closed
            && files.into_iter().all(|file| file.is_ok_and(|file| own_process.mmap(file, 0, 1).is_ok()))
            && numbers.iter().all(|number| is_open(*number))
    });
    assert!(child);
}

fn paths_of(rig: &Rig) -> Paths {
    rig.native.device.paths.clone()
}

#[test]
fn ioctls_find_their_file_while_others_open_and_close() {
    let rig = Rig::new();
    let kfd = rig.process.open(Node::Kfd).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let render = rig.process.open(Node::Render(128)).unwrap();
                    assert_eq!(rig.ioctl(kfd, VERSION, &mut [0; 8]), Err(Errno::ENOTTY));
                    rig.process.close(render);
                    assert_eq!(rig.ioctl(render, VERSION, &mut [0; 8]), Err(Errno::EBADF));
                }
            });
        }
    });
}
