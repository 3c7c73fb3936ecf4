//! The way of a call to its handler, against `kfd_ioctl`, `kfd_open` and `kfd_mmap` of Linux 6.12.

use std::os::fd::OwnedFd;

use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use protocol::Errno;
use protocol::drm::DrmIoctl;
use protocol::kfd::args::{CreateEventArgs, DestroyEventArgs, GetVersionArgs};
use protocol::kfd::constants::MmapType;
use protocol::kfd::ioctl::Ioctl;
use protocol::kfd::{Call, Fault, FileId, Interrupt, Kfd, Node, PassedFd, Shared, Transfer, UserMem};

use super::rig::{Program, attach, drm_request, machine};
use crate::local_mem::LocalCall;
use crate::{Kernel, Profile};

/// A request with this number, and a size that no struct has.
fn numbered(nr: u32) -> u32 {
    0xc003_4b00 | nr
}

fn transfer(program: &Program, nr: u32) -> Result<Transfer, Errno> {
    program.process.transfer(program.kfd, numbered(nr))
}

#[test]
fn numbers_outside_the_kernels_table_are_enotty() {
    let missing = |kernel: Kernel| -> Vec<u32> {
        let profile = Profile::Mi210;
        let program = Program::start(&machine(profile, kernel));
        (0..256).filter(|&nr| transfer(&program, nr) == Err(Errno::ENOTTY)).collect()
    };
    // AMDKFD_COMMAND_START is 1; 6.12 ends with DBG_TRAP, 7.3 with PROFILER; ROCm's own table has a second
    // range with a hole at 0x82.
    let all_but = |present: &[std::ops::RangeInclusive<u32>]| -> Vec<u32> {
        (0..256).filter(|nr| !present.iter().any(|range| range.contains(nr))).collect()
    };
    assert_eq!(missing(Kernel::Linux6_12), all_but(&[0x01..=0x26]));
    assert_eq!(missing(Kernel::Linux7_3), all_but(&[0x01..=0x28]));
    assert_eq!(missing(Kernel::Rocm), all_but(&[0x01..=0x27, 0x80..=0x81, 0x83..=0x87]));
}

#[test]
fn type_letter_direction_and_size_of_a_request_do_not_matter() {
    // "Do not trust userspace, use our own definition": only _IOC_NR selects.
    let program = Program::start(&machine(Profile::CpuOnly, Kernel::Linux6_12));
    for request in [0x0000_0001, 0x4008_0001, 0x8008_5401, 0xc00c_ff01] {
        let transfer = program.process.transfer(program.kfd, request).expect("GET_VERSION");
        assert!(!transfer.from_user && transfer.to_user, "{request:#x}");
        assert_eq!(transfer.size, protocol::kfd::request_size(request), "{request:#x}");
    }
}

#[test]
fn short_request_gets_the_first_bytes_and_a_long_one_keeps_its_tail() {
    // asize is the larger of both sizes, and usize bytes are copied each way.
    let program = Program::start(&machine(Profile::CpuOnly, Kernel::Linux6_12));
    let mut short = [0xee; 4];
    let call = LocalCall::new();
    assert_eq!(program.process.ioctl(program.kfd, 0x8004_4b01, &mut short, &call), Ok(0));
    assert_eq!(short, [1, 0, 0, 0]);
    let mut long = [0xee; 12];
    assert_eq!(program.process.ioctl(program.kfd, 0x800c_4b01, &mut long, &call), Ok(0));
    assert_eq!(long, [1, 0, 0, 0, 17, 0, 0, 0, 0xee, 0xee, 0xee, 0xee]);
    let mut none = [];
    assert_eq!(program.process.ioctl(program.kfd, 0x0000_4b01, &mut none, &call), Ok(0));
}

#[test]
fn each_kernel_has_its_version() {
    for (kernel, minor) in [(Kernel::Linux6_12, 17), (Kernel::Linux7_3, 23), (Kernel::Rocm, 19)] {
        let program = Program::start(&machine(Profile::Mi210, kernel));
        let mut args = GetVersionArgs::default();
        assert_eq!(program.ioctl(Ioctl::GetVersion, &mut args), Ok(0));
        assert_eq!((args.major_version, args.minor_version), (1, minor));
    }
}

/// Case E04: user library and kernel speak different revisions of the interface. The server's part: the version is
/// the kernel's own, calls of later kernels are `ENOTTY`, and requests whose struct is an older or a newer one than the
/// kernel's are taken as `kfd_ioctl` takes them: what is missing reads as zero, what is more is left alone.
#[test]
fn e04_other_revisions_of_the_interface_are_met_as_the_kernel_meets_them() {
    for (kernel, version, later) in [
        (Kernel::Linux6_12, (1, 17), [0x27, 0x28, 0x80]),
        (Kernel::Linux7_3, (1, 23), [0x29, 0x2a, 0x80]),
        (Kernel::Rocm, (1, 19), [0x28, 0x82, 0x88]),
    ] {
        let program = Program::start(&machine(Profile::Mi210, kernel));
        let mut args = GetVersionArgs::default();
        assert_eq!(program.ioctl(Ioctl::GetVersion, &mut args), Ok(0));
        assert_eq!((args.major_version, args.minor_version), version);
        for nr in later {
            let mut args = [0; 64];
            let request = 0xc040_4b00 | nr;
            let answer = program.process.ioctl(program.kfd, request, &mut args, &LocalCall::new());
            assert_eq!(answer, Err(Errno::ENOTTY), "{nr:#x} on {kernel}");
        }
    }
}

/// Case E04: the same call with structs of other sizes.
#[test]
fn e04_a_struct_of_another_size_is_extended_with_zeros_or_cut() {
    let gpu = machine(Profile::Mi210, Kernel::Linux6_12);
    let program = Program::start(&gpu);
    let call = LocalCall::new();
    let sized = |ioctl: Ioctl, bytes: &mut [u8]| {
        let size = u32::try_from(bytes.len()).expect("small");
        let request = ioctl.request() & !(0x3fff << 16) | size << 16;
        program.process.ioctl(program.kfd, request, bytes, &call)
    };
    // CREATE_EVENT, 32 bytes in both directions: event_type is at 12, event_id at 24.
    let mut newer = [0xee; 40];
    newer[..32].fill(0);
    newer[12] = 3; // KFD_IOC_EVENT_HW_EXCEPTION: has no page.
    assert_eq!(sized(Ioctl::CreateEvent, &mut newer), Ok(0));
    assert_eq!(&newer[32..], [0xee; 8], "what the kernel does not know comes back as it was");
    // DESTROY_EVENT with an empty struct: id 0, which no event has.
    assert_eq!(sized(Ioctl::DestroyEvent, &mut []), Err(Errno::EINVAL));
    // With the id only, as before the struct had padding.
    let mut id = [newer[24], newer[25], newer[26], newer[27]];
    assert_ne!(id, [0; 4]);
    assert_eq!(sized(Ioctl::DestroyEvent, &mut id), Ok(0));
    assert_eq!(sized(Ioctl::DestroyEvent, &mut id), Err(Errno::EINVAL), "it was that event");
    // SET_MEMORY_POLICY cut before its GPU: GPU 0, which is none.
    assert_eq!(sized(Ioctl::SetMemoryPolicy, &mut [0; 8]), Err(Errno::EINVAL));
}

/// Case E10, the server's part: CREATE_PROCESS (secondary contexts) fails by name on every kernel, and no descriptor
/// stays.
#[test]
fn e10_a_secondary_context_is_refused_and_leaves_no_file() {
    for (kernel, ioctl, errno) in [
        (Kernel::Linux6_12, Ioctl::CreateProcess, Errno::ENOTTY),
        (Kernel::Linux7_3, Ioctl::CreateProcess, Errno::EINVAL),
        (Kernel::Rocm, Ioctl::RocmCreateProcess, Errno::EINVAL),
    ] {
        let gpu = machine(Profile::Mi210, kernel);
        let program = Program::start(&gpu);
        let mut args = [0; 64];
        let args = &mut args[..ioctl.decl().args.size];
        let answer = program.process.ioctl(program.kfd, ioctl.request(), args, &LocalCall::new());
        assert_eq!(answer, Err(errno), "{kernel}");
        assert_eq!((gpu.device().files.len(), gpu.processes().len()), (1, 1));
    }
}

/// Case M25, the server's part: no call that fails keeps anything locked.
#[test]
fn m25_after_each_failed_call_the_next_one_works() {
    let (done, watched) = std::sync::mpsc::channel();
    let calls = std::thread::spawn(move || {
        let gpu = machine(Profile::Mi210, Kernel::Rocm);
        let program = Program::start(&gpu);
        let mut failed = 0;
        for nr in 0..256 {
            let call = LocalCall::new();
            call.interrupt().fire();
            let mut args = [0xff; 128];
            let request = 0xc080_4b00 | nr;
            failed += u32::from(program.process.ioctl(program.kfd, request, &mut args, &call).is_err());
            let mut event = CreateEventArgs::default();
            assert_eq!(program.ioctl(Ioctl::CreateEvent, &mut event), Ok(0), "after {nr:#x}");
            let mut event = DestroyEventArgs { event_id: event.event_id, pad: 0 };
            assert_eq!(program.ioctl(Ioctl::DestroyEvent, &mut event), Ok(0), "after {nr:#x}");
            done.send(nr).expect("somebody watches");
        }
        assert!(failed > 240, "{failed}");
    });
    for nr in 0..256 {
        let next = watched.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(next, Ok(nr), "a call hangs after {nr:#x} failed, or did not work");
    }
    calls.join().expect("every call after a failed one worked");
}

#[test]
fn descriptor_of_another_process_is_ebadf() {
    // "Using KFD FD in wrong process", but an unknown number is ENOTTY before that.
    let gpu = machine(Profile::CpuOnly, Kernel::Linux6_12);
    let opener = Program::start(&gpu);
    let child = attach(&gpu, true);
    assert_eq!(child.transfer(opener.kfd, numbered(1)), Err(Errno::EBADF));
    assert_eq!(child.transfer(opener.kfd, numbered(0x7f)), Err(Errno::ENOTTY));
    let mut args = [0; 8];
    assert_eq!(child.ioctl(opener.kfd, 0x8008_4b01, &mut args, &LocalCall::new()), Err(Errno::EBADF));
    let own = child.open(Node::Kfd).expect("a child opens its own");
    assert!(child.transfer(own, numbered(1)).is_ok());
    assert_eq!(child.transfer(opener.kfd, numbered(1)), Err(Errno::EBADF));
}

#[test]
fn closed_and_unknown_files_are_ebadf() {
    let program = Program::start(&machine(Profile::CpuOnly, Kernel::Linux6_12));
    assert_eq!(program.process.transfer(FileId(u64::MAX), numbered(1)), Err(Errno::EBADF));
    program.process.close(FileId(u64::MAX));
    program.process.close(program.kfd);
    program.process.close(program.kfd);
    assert_eq!(program.process.transfer(program.kfd, numbered(1)), Err(Errno::EBADF));
    assert_eq!(program.process.mmap(program.kfd, 0, 4096).err(), Some(Errno::EBADF));
}

#[test]
fn end_of_a_process_closes_its_kfd_files_and_leaves_render_files() {
    let gpu = machine(Profile::Mi210, Kernel::Linux6_12);
    let minor = gpu.device().machine.render_minors()[0];
    let program = Program::start(&gpu);
    let render = program.process.open(Node::Render(minor)).expect("render node");
    let other = attach(&gpu, false);
    drop(program);
    assert_eq!(gpu.device().files.len(), 1, "a render node file lives on in whoever has it");
    assert!(gpu.processes().is_empty());
    assert!(other.transfer(render, drm_request(DrmIoctl::Version)).is_ok());
    other.close(render);
    assert_eq!(gpu.device().files.len(), 0);
}

#[test]
fn without_a_gpu_linux_7_3_cannot_open_kfd() {
    // kfd_create_process of 7.2 and later; 6.12 has no such check.
    let open = |profile, kernel| attach(&machine(profile, kernel), true).open(Node::Kfd).err();
    assert_eq!(open(Profile::CpuOnly, Kernel::Linux7_3), Some(Errno::EINVAL));
    assert_eq!(open(Profile::CpuOnly, Kernel::Linux6_12), None);
    assert_eq!(open(Profile::Mi210, Kernel::Linux7_3), None);
}

#[test]
fn render_nodes_exist_for_gpus_only() {
    let process = attach(&machine(Profile::CpuOnly, Kernel::Linux6_12), true);
    assert_eq!(process.open(Node::Render(128)).err(), Some(Errno::ENOENT));
}

#[test]
fn criu_needs_privileges() {
    // KFD_IOC_FLAG_CHECKPOINT_RESTORE.
    let gpu = machine(Profile::CpuOnly, Kernel::Linux6_12);
    let may = |privileged| {
        let process = attach(&gpu, privileged);
        let kfd = process.open(Node::Kfd).expect("open");
        process.transfer(kfd, Ioctl::CriuOp.request()).map(|_| ())
    };
    assert_eq!(may(false), Err(Errno::EACCES));
    assert_eq!(may(true), Ok(()));
}

#[test]
fn mmap_of_what_is_not_there_tells_the_kind() {
    // kfd_mmap: no GPU in the offset is ENODEV, no event page EINVAL.
    let program = Program::start(&machine(Profile::CpuOnly, Kernel::Linux6_12));
    let mmap = |offset| program.process.mmap(program.kfd, offset, 4096).err();
    assert_eq!(mmap(MmapType::MMIO.0), Some(Errno::ENODEV));
    assert_eq!(mmap(MmapType::DOORBELL.0), Some(Errno::ENODEV));
    assert_eq!(mmap(MmapType::RESERVED_MEM.0), Some(Errno::ENODEV));
    assert_eq!(mmap(MmapType::EVENTS.0), Some(Errno::EINVAL));
}

#[test]
fn mmap_in_another_process_is_that_processs_own() {
    // kfd_mmap of 6.12 looks up the caller's process (kfd_get_process: EINVAL for one that never opened KFD);
    // 7.3 compares with the opener.
    for (kernel, errno) in [(Kernel::Linux6_12, Errno::EINVAL), (Kernel::Linux7_3, Errno::EBADF)] {
        let gpu = machine(Profile::Mi210, kernel);
        let opener = Program::start(&gpu);
        let child = attach(&gpu, false);
        assert_eq!(child.mmap(opener.kfd, MmapType::EVENTS.0, 4096).err(), Some(errno));
    }
}

#[test]
fn every_number_answers_without_arguments() {
    // No handler may rely on bytes that a request does not have.
    for profile in [Profile::CpuOnly, Profile::Mi210, Profile::Rx7900xtx] {
        for kernel in Kernel::ALL {
            if profile == Profile::CpuOnly && kernel == Kernel::Linux7_3 {
                continue;
            }
            let gpu = machine(profile, kernel);
            for nr in 0..256 {
                let program = Program::start(&gpu);
                let call = LocalCall::new();
                call.interrupt().fire();
                let result = program.process.ioctl(program.kfd, 0x4b00 | nr, &mut [], &call);
                assert!(result.is_ok_and(|value| value == 0) || result.is_err(), "{nr:#x}");
            }
            drop(gpu.topology());
        }
    }
}

/// A caller without memory and without descriptors, who is about to be interrupted.
struct Nobody {
    mem: Nowhere,
    interrupt: Interrupt,
}

struct Nowhere;

impl UserMem for Nowhere {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        Err(Fault { addr, len: buf.len() as u64 })
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        Err(Fault { addr, len: buf.len() as u64 })
    }

    fn share(&self, _addr: u64, _len: u64, _writable: bool) -> Result<Vec<Shared>, Errno> {
        Err(Errno::EFAULT)
    }
}

impl Call for Nobody {
    fn mem(&self) -> &dyn UserMem {
        &self.mem
    }

    fn descriptor(&self, _fd: i32) -> Result<PassedFd, Errno> {
        Err(Errno::EBADF)
    }

    fn install(&self, _fd: OwnedFd) -> Result<i32, Errno> {
        Err(Errno::EMFILE)
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Every call of a file's life with arguments of any length and contents: an answer, and no panic.
    #[test]
    fn any_bytes_are_answered(
        kernel in proptest::sample::select(Kernel::ALL.as_slice()),
        calls in proptest::collection::vec((any::<u8>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..160)), 1..60),
        known_gpu in any::<bool>(),
    ) {
        let gpu = machine(Profile::Mi210, kernel);
        let spec = gpu.device().gpus[0].spec.clone();
        let process = attach(&gpu, true);
        let kfd = process.open(Node::Kfd).expect("open");
        let render = process.open(Node::Render(spec.render_minor)).expect("open");
        let call = Nobody { mem: Nowhere, interrupt: Interrupt::new() };
        call.interrupt.fire();
        for (nr, on_kfd, mut args) in calls {
            if known_gpu {
                // Wherever a struct has its GPU id, it is a word at a multiple of four.
                for word in args.chunks_exact_mut(4).skip(usize::from(nr % 4)).step_by(4) {
                    word.copy_from_slice(&spec.gpu_id.to_le_bytes());
                }
            }
            let size = u32::try_from(args.len()).expect("short");
            let (file, letter) = if on_kfd { (kfd, 0x4b) } else { (render, 0x64) };
            let request = 0xc000_0000 | size << 16 | letter << 8 | u32::from(nr % 0xd0);
            let answer = process.ioctl(file, request, &mut args, &call);
            prop_assert!(answer.map_or(true, |value| value >= 0));
            let _ = process.mmap(file, u64::from(nr) << 56, u64::from(size));
        }
    }
}
