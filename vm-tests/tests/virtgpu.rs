//! `vhost-device-kfd` behind a stock QEMU, as the stock driver of stock guest kernels sees it.

use std::time::Duration;

use vm_tests::{Config, Daemon, Kernel, Result, Run, Vm, programs};

/// A guest under TCG on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// What the probe prints. The capset is of this version and says that there are no context commands yet; the driver refuses
/// a second context and a ring beyond the last (`virtio_gpu_context_init_ioctl`, `virtio_gpu_execbuffer_ioctl`), and DRM a
/// buffer of no bytes (it has no room in the offsets for `mmap`). Fences are signalled by the device's answer, though that is a refusal: no worker executes anything.
const PROBE: &str = "\
capset version 1 wire 1 to 1
window false
context Ok(())
second context Err(EEXIST)
one page Ok(true)
save area Ok(true)
no bytes Err(ENOSPC)
fence of ring 0 signalled true
fence of ring 1 signalled true
fence of ring 63 signalled true
ring 64 Err(EINVAL)
blobs 10000 different 10000
";

fn probe(kernel: Kernel) -> Result<()> {
    let program = programs::static_bin("virtgpu_probe")?;
    let mut daemon = Daemon::start(&["--log-level", "info"])?;
    let mut config = Config::stock()?;
    config.kernel = kernel;
    let release = config.kernel.release().to_owned();
    let mut vm = Vm::boot(&config.vhost_user_gpu(&daemon.socket()).program(&program))?;

    let output = vm.run(&Run::new(["virtgpu_probe", "10000"]).timeout(LIMIT))?;

    println!("{release}: {}", output.stderr.trim());
    assert_eq!(
        output.success()?,
        PROBE,
        "{release}: left the probe's, right what it should be\n{}",
        daemon.log()?
    );
    vm.power_off()?;
    let status = daemon.wait()?;
    assert!(status.success(), "the daemon ended with {status}\n{}", daemon.log()?);
    Ok(())
}

#[test]
fn a_stock_guest_of_6_12_drives_the_device() -> Result<()> {
    probe(Kernel::stock()?)
}

#[test]
fn a_stock_guest_of_7_drives_the_device() -> Result<()> {
    probe(Kernel::newest_7()?)
}
