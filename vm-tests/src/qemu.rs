//! One QEMU process: started with its descriptors, ended for sure.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_parent_process_death_signal},
};

use crate::{Error, Result, Root, command, console::Console, vm::Config};

/// How long a killed QEMU may take to be gone.
const BURIAL: Duration = Duration::from_secs(20);
/// For starting it on a busy machine, only to print its version.
const VERSION: Duration = Duration::from_secs(60);

/// What executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU's own translator: works everywhere.
    Tcg,
    /// The host's KVM.
    Kvm,
}

impl Accelerator {
    /// `KFDVIRT_ACCEL`, or TCG: a `/dev/kvm` that can be opened may still not run a stock kernel.
    ///
    /// # Errors
    /// [`Error::Environment`] for an unknown name.
    pub fn from_env() -> Result<Self> {
        const VARIABLE: &str = "KFDVIRT_ACCEL";
        match env::var(VARIABLE).as_deref() {
            Err(_) | Ok("" | "tcg") => Ok(Self::Tcg),
            Ok("kvm") => Ok(Self::Kvm),
            Ok(value) => Err(Error::Environment {
                variable: VARIABLE,
                value: value.to_owned(),
                expected: "it may be tcg or kvm",
            }),
        }
    }

    fn arguments(self) -> [&'static str; 4] {
        match self {
            // la57 makes every page walk of the translated guest one level longer.
            Self::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"],
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
        }
    }
}

/// Which QEMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    program: PathBuf,
    /// What comes before QEMU's own arguments.
    first: Vec<OsString>,
}

impl Emulator {
    /// The program that `KFDVIRT_QEMU` names, or [`Emulator::newest`].
    ///
    /// Not Debian 12's: the translator of its QEMU 7.2 sometimes still runs the breakpoint by which a guest's kernel changes
    /// its code after that change has ended, so a guest with two CPUs panics at `int3` (once in hundreds of boots; within
    /// seconds where tracepoints are switched on and off).
    ///
    /// # Errors
    /// If no QEMU is named and the newest cannot be had.
    pub fn from_env() -> Result<Self> {
        match env::var_os("KFDVIRT_QEMU") {
            Some(program) if !program.is_empty() => Ok(Self { program: program.into(), first: Vec::new() }),
            _ => Self::newest(),
        }
    }

    /// The QEMU of Debian 13's backports, out of a root of its own: it needs nothing of this machine's, and no privilege.
    ///
    /// # Errors
    /// If the root cannot be made.
    pub fn newest() -> Result<Self> {
        let root = Root::qemu()?;
        let inside = |path: &str| root.dir().join(path);
        // Its own loader and libraries: this machine's may be older.
        let program = inside("lib64/ld-linux-x86-64.so.2");
        let mut first: Vec<OsString> =
            vec!["--library-path".into(), inside("usr/lib/x86_64-linux-gnu").into()];
        first.push(inside("usr/bin/qemu-system-x86_64").into());
        for firmware in ["usr/share/qemu", "usr/share/seabios"] {
            first.extend(["-L".into(), inside(firmware).into()]);
        }
        Ok(Self { program, first })
    }

    /// QEMU's version, as it prints it.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn version(&self) -> Result<String> {
        let text = command::succeed(self.command().arg("--version"), VERSION)?;
        let version = text.split_whitespace().skip_while(|word| *word != "version").nth(1);
        version.map(str::to_owned).ok_or_else(|| Error::Package(format!("QEMU says {text:?}")))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.first);
        command
    }
}

/// A running QEMU.
#[derive(Debug)]
pub struct Qemu {
    pid: u32,
    pidfd: OwnedFd,
    ended: Receiver<io::Result<ExitStatus>>,
    /// What it and its guest print.
    pub console: Console,
}

impl Qemu {
    /// Starts QEMU. The guest's agent will speak through the socket that is returned.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(config: &Config, initramfs: File) -> Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair().map_err(Error::system("make a socket pair"))?;
        let (console, output) = io::pipe().map_err(Error::system("make a pipe"))?;
        let mut command = config.qemu.command();
        arguments(&mut command, config, &initramfs, &theirs);
        command.stdin(Stdio::null());
        command.stdout(output.try_clone().map_err(Error::system("duplicate a descriptor"))?).stderr(output);
        inherit(&mut command, [initramfs.into(), theirs.into()]);
        let shown = command::line(&command);
        log::info!("starting {shown}");
        let (pid, pidfd, ended) = keep(command).map_err(|source| Error::Start { command: shown, source })?;
        Ok((Self { pid, pidfd, ended, console: Console::read(console) }, ours))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for its end, and for the end of its messages.
    ///
    /// # Errors
    /// If the time runs out.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let status = self.ended.recv_timeout(timeout).map_err(|_| Error::Guest {
            what: format!("QEMU did not end within {timeout:?}"),
            console: self.console.tail(),
        })?;
        self.console.finish();
        status.map_err(Error::system("wait for QEMU"))
    }

    /// Kills it and waits until it is gone. Harmless if it has ended.
    pub fn kill(&mut self) {
        // An error means that it has ended.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        // A second call finds the channel closed, which is as good.
        if matches!(self.ended.recv_timeout(BURIAL), Err(mpsc::RecvTimeoutError::Timeout)) {
            log::error!("QEMU (process {}) is still there {BURIAL:?} after it was killed", self.pid);
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
    }
}

fn arguments(command: &mut Command, config: &Config, initramfs: &File, agent: &UnixStream) {
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35"]);
    command.args(config.accelerator.arguments());
    command.arg("-m").arg(format!("{}M", config.memory_mib)).arg("-smp").arg(config.cpus.to_string());
    command.arg("-kernel").arg(config.kernel.image());
    // By number: a memfd has no name that QEMU could open, but its descriptor has.
    command.arg("-initrd").arg(format!("/proc/self/fd/{}", initramfs.as_raw_fd()));
    // A panic ends QEMU at once, by -no-reboot; where reboots are wanted the guest stands still.
    let panic = if config.reboots { 0 } else { -1 };
    if !config.reboots {
        command.arg("-no-reboot");
    }
    command.arg("-append").arg(format!("console=ttyS0 panic={panic} {}", config.kernel_arguments));
    command.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
    command.args(["-device", "virtio-serial-pci"]);
    command.arg("-chardev").arg(format!("socket,id=agent,fd={}", agent.as_raw_fd()));
    command.arg("-device").arg(format!("virtserialport,chardev=agent,name={}", crate::wire::PORT));
    for disk in &config.disks {
        command.arg("-drive");
        command.arg(format!(
            "if=none,id={0},format=raw,readonly=on,file={1}",
            disk.serial,
            escaped(&disk.image)
        ));
        command.arg("-device").arg(format!("virtio-blk-pci,drive={0},serial={0}", disk.serial));
    }
    command.args(&config.qemu_arguments);
}

/// QEMU's options are lists with commas; a comma in a value is written twice.
pub(crate) fn escaped(path: &std::path::Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

/// A disk of the guest.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The image file, raw.
    pub image: PathBuf,
    /// The name that the guest finds it by; at most 20 letters and digits.
    pub serial: String,
}

/// Lets the child inherit the descriptors under their numbers, and end when this process ends.
fn inherit(command: &mut Command, descriptors: [OwnedFd; 2]) {
    let in_child = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        for descriptor in &descriptors {
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run; `in_child` makes three system calls
    // and allocates nothing.
    unsafe { command.pre_exec(in_child) };
}

/// A child, and the news of its end.
type Kept = (u32, OwnedFd, Receiver<io::Result<ExitStatus>>);

/// Starts the child from a thread that stays until the child has ended.
///
/// The parent death signal comes when the *thread* that forked ends: the thread of a test that shares its guest with
/// others ends long before the process does.
fn keep(mut command: Command) -> io::Result<Kept> {
    let (started, start) = mpsc::channel();
    let (send, ended) = mpsc::channel();
    thread::Builder::new().name("qemu".into()).spawn(move || {
        let child = command.spawn().and_then(|child| Ok((open(&child)?, child)));
        // The descriptors that only QEMU should hold end with the command.
        drop(command);
        // Nobody may receive any more if the guest was given up; the child is buried all the same.
        match child {
            Ok((pidfd, mut child)) => {
                let _ = started.send(Ok((child.id(), pidfd)));
                let _ = send.send(child.wait());
            }
            Err(error) => drop(started.send(Err(error))),
        }
    })?;
    let (pid, pidfd) = start.recv().unwrap_or_else(|_| Err(io::Error::other("the starting thread ended")))?;
    Ok((pid, pidfd, ended))
}

/// A descriptor of the child, opened before anybody waits for it: so the process is still the right one.
fn open(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}
