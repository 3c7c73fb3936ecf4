//! SMI events as a program reads them.

use std::os::fd::{BorrowedFd, OwnedFd};

use protocol::Errno;
use protocol::kfd::args::SmiEventsArgs;
use protocol::kfd::ioctl::Ioctl;

use crate::engine::{GpuFault, Interrupts};
use crate::local_mem::LocalCall;
use crate::server::rig::{Program, machine};
use crate::{Kernel, Profile, SoftGpu};

fn open(program: &Program, gpuid: u32) -> Result<OwnedFd, Errno> {
    let call = LocalCall::new();
    let mut args = SmiEventsArgs { gpuid, ..Default::default() };
    program.ioctl_with(Ioctl::SmiEvents, &mut args, &call)?;
    let number = i32::try_from(args.anon_fd).expect("a descriptor");
    // SAFETY: the call has installed the number, and keeps it open until it is dropped below.
    let theirs = unsafe { BorrowedFd::borrow_raw(number) };
    let ours = theirs.try_clone_to_owned().expect("dup");
    drop(call);
    Ok(ours)
}

fn fault(gpu: &SoftGpu, program: usize) {
    let gpu_id = gpu.device().gpus[0].spec.gpu_id;
    let fault = GpuFault { va: 0x1000, write: false, not_present: true };
    gpu.processes()[program].memory_fault(gpu_id, fault);
}

fn read(fd: &OwnedFd) -> Result<String, rustix::io::Errno> {
    let mut bytes = [0; 256];
    rustix::io::read(fd, &mut bytes).map(|len| String::from_utf8_lossy(&bytes[..len]).into_owned())
}

#[test]
fn chosen_events_of_the_own_process_are_read_and_others_not() {
    let gpu = machine(Profile::Mi210, Kernel::Linux6_12);
    let (one, _two) = (Program::start(&gpu), Program::start(&gpu));
    let pid = gpu.processes()[0].caller.pid;
    assert_eq!(open(&one, 1).err(), Some(Errno::EINVAL), "kfd_ioctl_smi_events: no such GPU");
    let events = open(&one, gpu.device().gpus[0].spec.gpu_id).expect("a descriptor");
    // kfd_smi_ev_read: EAGAIN without events, on a descriptor that nobody made non-blocking.
    assert_eq!(read(&events), Err(rustix::io::Errno::AGAIN));
    fault(&gpu, 0);
    assert_eq!(read(&events), Err(rustix::io::Errno::AGAIN), "nothing is chosen at first");
    // KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_VMFAULT).
    assert_eq!(rustix::io::write(&events, &1_u64.to_le_bytes()), Ok(8));
    fault(&gpu, 0);
    // KFD_EVENT_FMT_VMFAULT after the event's number; no process has this id, so it has no name.
    assert_eq!(read(&events), Ok(format!("1 {pid:x}:\n")));
    fault(&gpu, 1);
    assert_eq!(read(&events), Err(rustix::io::Errno::AGAIN), "kfd_smi_ev_enabled: another process");
}

#[test]
fn reader_that_is_gone_is_forgotten_and_one_that_does_not_read_loses_events() {
    let gpu = machine(Profile::Mi210, Kernel::Linux6_12);
    let program = Program::start(&gpu);
    let gpu_id = gpu.device().gpus[0].spec.gpu_id;
    for _ in 0..2000 {
        drop(open(&program, gpu_id).expect("the earlier ones are gone"));
    }
    let events = open(&program, gpu_id).expect("a descriptor");
    assert_eq!(rustix::io::write(&events, &1_u64.to_le_bytes()), Ok(8));
    for _ in 0..5000 {
        fault(&gpu, 0);
    }
    assert!(read(&events).is_ok());
}
