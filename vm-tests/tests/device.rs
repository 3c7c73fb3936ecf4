//! The stock virtio-gpu driver of a guest on the device of `vhost-device-kfd`, under a stock QEMU.
//!
//! The device runs in the test, with contexts of the test: so both sides can be looked at.

use std::{
    collections::HashMap,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use protocol::virtio_gpu::Failure;
use vhost_device_kfd::{
    device::{Answer, BlobUse, Context, ContextInfo, Contexts, Device, Hold, Limits, Submission, Window},
    serve::{bind, serve},
};
use vm_tests::{Config, Error, Kernel, Result, Run, Vm, programs, wire::End};

/// What the probe prints, in a guest without a window but for two lines. AMD's library asks for version 0 of the capset: the driver gives
/// it zeros for an answer that fails, and the kind of context there, 0, is none that it takes.
const EXPECTED: &str = "\
3D_FEATURES 1
RESOURCE_BLOB 1
HOST_VISIBLE {VISIBLE}
CROSS_DEVICE 0
CONTEXT_INIT 1
SUPPORTED_CAPSET_IDs 256
capset version 1: 4b4644560100000001000000010000000000000000000000
capset version 0: 000000000000000000000000000000000000000000000000
capset version 2: Invalid argument
inverted: fence edcba987
free ring 1
held ring 0 0
release 1
held ring 1 1
refused 1
host memory: {HOST}
done
";

const NODE: &str = "/dev/dri/renderD128";

/// Takes the driver from its device, and gives it back.
const REBIND: &str = "cd /sys/bus/virtio/drivers/virtio_gpu && for device in virtio*; do
    echo $device >unbind && echo $device >bind || exit 1
done";

/// Contexts that do what the probe asks for.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    names: Vec<String>,
    held: Option<Answer>,
}

struct Asking {
    asked: Asked,
    blobs: HashMap<u32, BlobUse>,
}

impl Contexts for Asked {
    fn create(&self, info: ContextInfo) -> std::result::Result<Box<dyn Context>, Failure> {
        self.log().names.push(info.name);
        Ok(Box::new(Asking { asked: self.clone(), blobs: HashMap::new() }))
    }
}

impl Asked {
    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context for Asking {
    fn attach(&mut self, blob: BlobUse) -> std::result::Result<(), Failure> {
        self.blobs.insert(blob.blob().id(), blob);
        Ok(())
    }

    fn detach(&mut self, resource_id: u32) {
        self.blobs.remove(&resource_id);
    }

    fn submit(&mut self, submission: Submission<'_>) {
        let word = |at: usize| {
            let bytes = submission.bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let result = match (word(0), word(4)) {
            (Some(1), Some(blob)) => self.invert(blob),
            (Some(2), _) => {
                self.asked.log().held = Some(submission.answer);
                return;
            }
            (Some(3), _) => {
                let held = self.asked.log().held.take();
                held.map(|answer| answer.complete(Ok(()))).ok_or(Failure::Unspecified)
            }
            _ => Err(Failure::Unspecified),
        };
        submission.answer.complete(result);
    }

    fn destroy(self: Box<Self>, _done: Hold) {
        drop(self.asked.log().held.take());
    }
}

impl Asking {
    /// Writes the blob's first word into its last, inverted.
    fn invert(&self, blob: u32) -> std::result::Result<(), Failure> {
        let blob = self.blobs.get(&blob).ok_or(Failure::InvalidResourceId)?.blob();
        let (first, last) = blob.pieces().first().zip(blob.pieces().last()).ok_or(Failure::Unspecified)?;
        let mut word = [0; 4];
        let file = |error| {
            log::error!("a blob's file: {error}");
            Failure::Unspecified
        };
        first.backing.file().read_exact_at(&mut word, first.offset).map_err(file)?;
        let word = (!u32::from_le_bytes(word)).to_le_bytes();
        last.backing.file().write_all_at(&word, last.offset + last.len - 4).map_err(file)
    }
}

/// Bytes of the window.
const WINDOW: u64 = 1 << 30;

#[test]
fn the_stock_driver_of_linux_6_12_takes_the_device() -> Result<()> {
    try_driver(Kernel::stock()?, None)
}

#[test]
fn the_stock_driver_of_linux_7_takes_the_device() -> Result<()> {
    try_driver(Kernel::newest_7()?, None)
}

#[test]
fn the_stock_driver_of_linux_6_12_maps_memory_of_the_window() -> Result<()> {
    try_driver(Kernel::stock()?, Some(WINDOW))
}

#[test]
fn the_stock_driver_of_linux_7_maps_memory_of_the_window() -> Result<()> {
    try_driver(Kernel::newest_7()?, Some(WINDOW))
}

fn try_driver(kernel: Kernel, window: Option<u64>) -> Result<()> {
    let dir = tempfile::tempdir().map_err(|source| Error::System { what: "make a directory", source })?;
    let socket = dir.path().join("device");
    let endpoint = bind(&socket).expect("a socket");
    let asked = Asked::default();
    let device = Device::new(Box::new(asked.clone()), Limits::default());
    let device = Arc::new(match window {
        Some(bytes) => device.with_window(Window::new(bytes).expect("memory for a window")),
        None => device,
    });
    let served = Arc::clone(&device);
    let daemon = thread::spawn(move || serve(&served, endpoint));

    let probe = programs::compile_c("virtgpu_probe.c", &["-static"])?;
    let mut config = Config::stock()?.program(&probe).program(Path::new("/bin/sh"));
    config.kernel = kernel;
    let mut vm = Vm::boot(&config.vhost_user_gpu(&socket))?;

    // Twice: the second process finds nothing of the first.
    for _ in 1..=2 {
        probe_once(&mut vm, &device)?;
    }
    // A process that is killed while it waits for the device.
    let waiting = Run::new(["virtgpu_probe-static", NODE, "wait"]).timeout(Duration::from_secs(2));
    let output = vm.run(&waiting)?;
    assert_eq!((output.end, output.stdout.as_str()), (End::TimedOut, "waiting\n"));
    assert_nothing_is_left(&device);
    // The driver resets the device, and sets it up again.
    vm.exec(["sh", "-c", REBIND])?.success()?;
    probe_once(&mut vm, &device)?;
    assert!(asked.log().names.iter().all(|name| name == "virtgpu_probe-s"), "{:?}", asked.log().names);
    vm.power_off()?;
    eventually("the daemon ends with its VM", || daemon.is_finished());
    daemon.join().expect("no panic").expect("it ends in order");
    Ok(())
}

fn probe_once(vm: &mut Vm, device: &Device) -> Result<()> {
    let output = vm.exec(["virtgpu_probe-static", NODE])?;
    eprint!("{}", output.stderr);
    let (visible, host) = match device.window() {
        // Zero at first, then what the host made of the first word.
        Some(_) => ("1", "00000000 fence edcba987"),
        None => ("0", "Invalid argument"),
    };
    let expected = EXPECTED.replace("{VISIBLE}", visible).replace("{HOST}", host);
    assert_eq!(output.success()?, expected, "{}", vm.console_tail());
    assert_nothing_is_left(device);
    Ok(())
}

/// What a process of the guest had is gone with it.
fn assert_nothing_is_left(device: &Device) {
    eventually("its blobs are released", || device.ledger().in_use() == (0, 0));
    eventually("its requests are answered", || device.open_requests() == 0);
}

fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
