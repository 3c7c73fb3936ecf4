//! Sequences of ioctls with any number, arguments and memory, on a machine with a GPU.

#![no_main]

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use libfuzzer_sys::fuzz_target;
use protocol::Errno;
use protocol::kfd::{
    Call, Caller, Fault, FileId, Interrupt, Kfd, Node, PassedFd, Process, ProcessId, Shared, UserMem,
    request_size,
};
use softgpu::{BackingFiles, Config, Kernel, Profile, SoftGpu};

static DEVICE: LazyLock<(SoftGpu, u32)> = LazyLock::new(|| {
    let machine = Profile::Mi210.machine(Kernel::Linux6_12);
    let minors = machine.render_minors();
    let backing = BackingFiles::anonymous(&minors).expect("memfd");
    let minor = minors.first().copied().expect("a GPU");
    (SoftGpu::new(Config { machine, backing }).expect("a built-in profile"), minor)
});

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Bytes of the input, taken from the front; zeros when they are used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn fill(&mut self, buf: &mut [u8]) {
        let (now, rest) = self.0.split_at(buf.len().min(self.0.len()));
        buf.fill(0);
        buf.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
        self.0 = rest;
    }

    fn u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }
}

/// A program whose memory holds what the input says, at every address below 2^47.
struct Caught<'a> {
    input: Mutex<Input<'a>>,
    render: FileId,
    interrupt: Interrupt,
}

impl UserMem for Caught<'_> {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        let len = buf.len() as u64;
        if addr.checked_add(len).is_none_or(|end| end > 1 << 47) {
            return Err(Fault { addr, len });
        }
        self.input.lock().unwrap_or_else(PoisonError::into_inner).fill(buf);
        Ok(())
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        let len = buf.len() as u64;
        let end = addr.checked_add(len).filter(|end| *end <= 1 << 47);
        end.map(|_| ()).ok_or(Fault { addr, len })
    }

    fn share(&self, _: u64, _: u64, _: bool) -> Result<Vec<Shared>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

impl Call for Caught<'_> {
    fn mem(&self) -> &dyn UserMem {
        self
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        if fd & 1 == 0 { Ok(PassedFd::File(self.render)) } else { Err(Errno::EBADF) }
    }

    fn install(&self, _: OwnedFd) -> Result<i32, Errno> {
        Ok(77)
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

/// One call: half of the requests have KFD's form with a number of its range, so that handlers are reached.
fn call(process: &dyn Process, files: [FileId; 2], input: &mut Input<'_>) {
    let shape = input.u32();
    let request = match shape & 1 {
        0 => 0xc000_4b00 | ((shape >> 8) & 0x7f) << 16 | ((shape >> 1) & 0x2f),
        _ => input.u32(),
    };
    let mut args = vec![0; request_size(request)];
    input.fill(&mut args);
    let interrupt = Interrupt::new();
    // Waits end at once.
    interrupt.fire();
    let caught = Caught { input: Mutex::new(Input(input.0)), render: files[1], interrupt };
    let file = files[usize::from(shape >> 31 == 1)];
    let _ = process.ioctl(file, request, &mut args, &caught);
}

fuzz_target!(|data: &[u8]| {
    let (device, minor) = &*DEVICE;
    let id = ProcessId(NEXT.fetch_add(1, Ordering::Relaxed));
    let caller = Caller { id, pid: 1, privileged: false, mem: None };
    let process: Arc<dyn Process> = device.attach(caller).expect("attach");
    let files = [Node::Kfd, Node::Render(*minor)].map(|node| process.open(node).expect("open"));
    let mut input = Input(data);
    while !input.0.is_empty() {
        call(process.as_ref(), files, &mut input);
    }
    files.into_iter().for_each(|file| process.close(file));
});
