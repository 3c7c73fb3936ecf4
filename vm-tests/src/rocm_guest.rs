//! A guest as a user of the project has it: stock kernel and driver, Debian 13's ROCm, and our library.

use std::{fs, path::Path};

use crate::{Config, Daemon, Error, Kernel, Output, Result, Root, Run, Vm, programs};

/// The guest's memory in MiB: eight processes with buffers of some MiB each, and save areas of 61 MiB.
const MEMORY_MIB: u32 = 3072;
/// Its virtual CPUs.
const CPUS: u32 = 2;
/// Where our library lies in the guest's root; nothing of Debian's is replaced.
const LIBRARY: &str = "/run/kfdvirt";
/// Where our programs lie there.
const PROGRAMS: &str = "/run/kfdvirt/bin";
const PATH: &str = "/run/kfdvirt/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// rocminfo opens /dev/kfd, though it asks it for nothing. From 7.2 on the kernel's KFD cannot be opened without a GPU of its
/// own: then the render node stands in for it.
const FOR_ROCMINFO: &str =
    "if ! (: <>/dev/kfd) 2>/dev/null; then mount --bind /dev/dri/renderD128 /dev/kfd; fi";

/// What the daemon's option `--window` says.
pub const NO_WINDOW: &str = "off";

/// A guest with Debian 13's ROCm, our `libhsakmt.so.1`, and the GPU that a `vhost-device-kfd` shows it.
#[derive(Debug)]
pub struct RocmGuest {
    vm: Vm,
    daemon: Daemon,
    root: Root,
    window: bool,
}

impl RocmGuest {
    /// Boots it in guest-memory mode. `gpu` is the daemon's option `--gpu`, and `progress` is told what is being done.
    ///
    /// # Errors
    /// If something that it is made of cannot be had, or it does not come up.
    pub fn boot(kernel: Kernel, gpu: &str, progress: impl FnMut(&str)) -> Result<Self> {
        Self::boot_with(kernel, gpu, NO_WINDOW, progress)
    }

    /// The same with a value of the daemon's option `--window`.
    ///
    /// # Errors
    /// As [`RocmGuest::boot`].
    pub fn boot_with(kernel: Kernel, gpu: &str, window: &str, progress: impl FnMut(&str)) -> Result<Self> {
        Self::boot_on(CPUS, kernel, gpu, window, progress)
    }

    /// The same with so many virtual CPUs.
    ///
    /// # Errors
    /// As [`RocmGuest::boot`].
    pub fn boot_on(
        cpus: u32,
        kernel: Kernel,
        gpu: &str,
        window: &str,
        mut progress: impl FnMut(&str),
    ) -> Result<Self> {
        progress("starting vhost-device-kfd");
        let daemon = Daemon::start(&["--gpu", gpu, "--window", window, "--log-level", "info"])?;
        let root = Root::trixie()?;
        let mut config = Config::stock()?.cpus(cpus).memory_mib(MEMORY_MIB).vhost_user_gpu(&daemon.socket());
        config.kernel = kernel;
        let config = config.root(&root)?.carry_module("amdgpu").reboots();
        programs::thunk_dir()?;
        progress("booting the guest");
        let vm = Vm::boot(&config)?;
        let mut guest = Self { vm, daemon, root, window: window != NO_WINDOW };
        progress("copying our library into the guest");
        guest.put_library()?;
        Ok(guest)
    }

    /// See [`Vm::reboot`].
    ///
    /// # Errors
    /// As that.
    pub fn reboot(&mut self) -> Result<()> {
        self.vm.reboot()?;
        self.put_library()
    }

    /// The same after all programs were ended, as a distribution's init does it.
    ///
    /// # Errors
    /// As [`Vm::end_programs`] and [`Vm::reboot`].
    pub fn reboot_in_order(&mut self) -> Result<()> {
        self.vm.end_programs()?;
        self.reboot()
    }

    /// See [`Vm::reset`].
    ///
    /// # Errors
    /// As that.
    pub fn reset(&mut self) -> Result<()> {
        self.vm.reset()?;
        self.put_library()
    }

    fn put_library(&mut self) -> Result<()> {
        let library = programs::thunk_dir()?.join("libhsakmt.so.1");
        self.put(&library, &format!("{LIBRARY}/libhsakmt.so.1"))
    }

    /// Gives rocminfo what it looks for, and no other program: the module amdgpu, whose loading takes most of a minute
    /// under TCG, and a `/dev/kfd` that can be opened.
    ///
    /// # Errors
    /// If the guest's kernel refuses it.
    pub fn satisfy_rocminfo(&mut self) -> Result<()> {
        self.vm.modprobe("amdgpu")?;
        self.run(Run::new(["sh", "-ec", FOR_ROCMINFO]))?.success().map(drop)
    }

    /// Puts a program of the host, or a file that one reads, into the guest and returns its name there. A program's libraries must be
    /// Debian 13's.
    ///
    /// # Errors
    /// If it cannot be read, or the guest has no room.
    pub fn program(&mut self, host: &Path) -> Result<String> {
        let name = host.file_name().unwrap_or_default().to_string_lossy();
        let inside = format!("{PROGRAMS}/{name}");
        self.put(host, &inside)?;
        Ok(inside)
    }

    /// Runs a program of Debian 13 or of [`RocmGuest::program`] on our library.
    ///
    /// # Errors
    /// As [`Vm::run`].
    pub fn run(&mut self, run: Run) -> Result<Output> {
        let run = run.root(&self.root).env("LD_LIBRARY_PATH", LIBRARY).env("PATH", PATH);
        self.vm.run(&run)
    }

    /// Reads a text file inside the root.
    ///
    /// # Errors
    /// As [`Vm::get`].
    pub fn text(&mut self, path: &str) -> Result<String> {
        self.vm.get_text(&Vm::inside(&self.root, path))
    }

    /// Whether it is in window mode.
    pub fn has_window(&self) -> bool {
        self.window
    }

    /// The daemon on the host.
    pub fn daemon(&mut self) -> &mut Daemon {
        &mut self.daemon
    }

    /// The machine itself.
    pub fn vm(&mut self) -> &mut Vm {
        &mut self.vm
    }

    /// Switches it off and waits for the end of its daemon, which must be in order.
    ///
    /// # Errors
    /// If one of the two does not end well.
    pub fn power_off(self) -> Result<()> {
        let Self { vm, daemon, .. } = self;
        vm.power_off()?;
        ends_in_order(daemon)
    }

    /// Waits for the end of the daemon of a guest whose QEMU has ended, which must be in order.
    ///
    /// # Errors
    /// If it does not end well.
    pub fn end_without_qemu(self) -> Result<()> {
        let Self { vm, daemon, .. } = self;
        drop(vm);
        ends_in_order(daemon)
    }

    fn put(&mut self, host: &Path, inside: &str) -> Result<()> {
        let contents = fs::read(host).map_err(Error::file("read", host))?;
        self.vm.put(&Vm::inside(&self.root, inside), 0o755, &contents)
    }
}

fn ends_in_order(mut daemon: Daemon) -> Result<()> {
    let status = daemon.wait()?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command { command: "vhost-device-kfd".to_owned(), status, output: daemon.log()? })
}
