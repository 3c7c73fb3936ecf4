//! A guest: boot it, run programs in it, look at what they did.

use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    Accelerator, Error, Kernel, Result, Root,
    initramfs::{self, Contents, guest_module},
    programs,
    qemu::{Disk, Emulator, Qemu, escaped},
    wire::{self, End, Exec, Reply, Request, Source, read_frame, write_frame},
};

/// The time for what needs no computation in the guest.
const SHORT: Duration = Duration::from_secs(120);
/// The time for loading a module: amdgpu has 20 MB to be relocated, by a guest under TCG, on a host that is busy.
const LOADING: Duration = Duration::from_secs(600);
/// What the host adds to a program's own timeout: the agent kills the program first, and tells.
const GRACE: Duration = Duration::from_secs(30);
/// How long after its channel closed a QEMU may take to end by itself.
const ENDING: Duration = Duration::from_secs(5);
/// Where a root of the guest is mounted: `/roots/NAME`.
const ROOTS: &str = "/roots";

/// What a guest is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// The kernel.
    pub kernel: Kernel,
    /// What executes the guest.
    pub accelerator: Accelerator,
    /// The QEMU.
    pub qemu: Emulator,
    /// Further arguments of QEMU.
    pub qemu_arguments: Vec<String>,
    /// Further arguments of the kernel.
    pub kernel_arguments: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Virtual CPUs.
    pub cpus: u32,
    /// From the start of QEMU to the agent's first word.
    pub boot_timeout: Duration,
    pub(crate) reboots: bool,
    pub(crate) disks: Vec<Disk>,
    roots: Vec<String>,
    contents: Contents,
}

impl Config {
    /// A guest with Debian's stock kernel 6.12, 2 CPUs and 1 GiB.
    ///
    /// # Errors
    /// If the kernel or QEMU cannot be had, or the environment asks for something unknown.
    pub fn stock() -> Result<Self> {
        Ok(Self {
            kernel: Kernel::stock()?,
            accelerator: Accelerator::from_env()?,
            qemu: Emulator::from_env()?,
            qemu_arguments: Vec::new(),
            kernel_arguments: "quiet loglevel=4".to_owned(),
            memory_mib: 1024,
            cpus: 2,
            boot_timeout: Duration::from_secs(300),
            reboots: false,
            disks: Vec::new(),
            roots: Vec::new(),
            contents: Contents::default(),
        })
    }

    /// Puts a kernel module and what it needs into the guest and loads it at boot.
    pub fn module(mut self, name: &str) -> Self {
        self.contents.modules.push(name.to_owned());
        self
    }

    /// Puts a kernel module and what it needs into the guest, for [`Vm::modprobe`].
    pub fn carry_module(mut self, name: &str) -> Self {
        self.contents.carried_modules.push(name.to_owned());
        self
    }

    /// Puts a file of the host into the guest.
    pub fn file(mut self, guest: &str, host: &Path) -> Self {
        self.contents.files.push((guest.to_owned(), host.to_owned()));
        self
    }

    /// Puts a program of the host at `/bin/NAME` of the guest, with the libraries that it needs.
    pub fn program(mut self, host: &Path) -> Self {
        self.contents.programs.push(host.to_owned());
        self
    }

    /// Puts a shared library of the host into a directory of the guest, and what it needs itself at the host's paths.
    ///
    /// # Errors
    /// If `ldd` does not understand it.
    pub fn library(mut self, guest_dir: &str, host: &Path) -> Result<Self> {
        let name = host.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for needed in programs::libraries(host)? {
            self = self.file(&needed.to_string_lossy(), &needed);
        }
        Ok(self.file(&format!("{guest_dir}/{name}"), host))
    }

    /// Gives the guest a Debian root, read-only, with its own `/tmp` and `/run`; see [`Run::root`].
    ///
    /// # Errors
    /// If the image of the root cannot be made.
    pub fn root(mut self, root: &Root) -> Result<Self> {
        self.disks.push(Disk { image: root.image()?, serial: root.name().to_owned() });
        self.roots.push(root.name().to_owned());
        for module in ["virtio_blk", "ext4"] {
            self = self.module(module);
        }
        // ext4 of 6.12 asks the kernel's crypto layer for crc32c by name, so it is in no dependency list; later ones call it.
        self.contents.optional_modules.push("crc32c_generic".to_owned());
        Ok(self)
    }

    /// Gives the guest the virtio-gpu device of a vhost-user backend that listens on a socket, and loads the guest's stock
    /// driver for it.
    ///
    /// The guest's memory, which must have its size by now, becomes a memfd that the backend shares.
    pub fn vhost_user_gpu(mut self, socket: &Path) -> Self {
        let memory = format!("memory-backend-memfd,id=shared,size={}M,share=on", self.memory_mib);
        let chardev = format!("socket,id=kfd,path={}", escaped(socket));
        // Not QEMU's own vhost-user-gpu-pci, which hides blobs and contexts from the guest.
        let device =
            "vhost-user-test-device-pci,chardev=kfd,virtio-id=16,num_vqs=2,vq_size=1024,config_size=20";
        let more = [
            ["-object", &memory],
            ["-machine", "memory-backend=shared"],
            ["-chardev", &chardev],
            ["-device", device],
        ];
        self.qemu_arguments.extend(more.into_iter().flatten().map(str::to_owned));
        self.module("virtio_gpu")
    }

    /// Lets the guest reboot ([`Vm::reboot`], [`Vm::reset`]), which ends others.
    pub fn reboots(mut self) -> Self {
        self.reboots = true;
        self
    }

    /// Sets the number of virtual CPUs.
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// Sets the memory, in MiB.
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }
}

/// A program to run in a guest.
#[derive(Clone, Debug)]
pub struct Run {
    exec: Exec,
    input: Vec<u8>,
    timeout: Duration,
}

impl Run {
    /// A program, looked up in `PATH` when it has no slash, with its arguments. It may run for two minutes.
    pub fn new<A: Into<String>>(argv: impl IntoIterator<Item = A>) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        Self { exec: Exec { argv, ..Exec::default() }, input: Vec::new(), timeout: Duration::from_secs(120) }
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.exec.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs it inside a root that [`Config::root`] gave to the guest.
    pub fn root(mut self, root: &Root) -> Self {
        self.exec.root = Some(format!("{ROOTS}/{}", root.name()));
        self
    }

    /// Runs it as another user and group.
    pub fn uid(mut self, uid: u32) -> Self {
        self.exec.uid = Some(uid);
        self
    }

    /// Gives it a standard input.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// The time after which it is killed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// How a program in a guest ended, and what it printed.
#[derive(Clone, Debug)]
pub struct Output {
    command: String,
    /// Its end.
    pub end: End,
    /// Its standard output, as text.
    pub stdout: String,
    /// Its standard error, as text.
    pub stderr: String,
}

impl Output {
    /// The standard output of a program that must have exited with 0.
    ///
    /// # Errors
    /// [`Error::Program`] if it ended otherwise.
    pub fn success(self) -> Result<String> {
        match self.end {
            End::Status(0) => Ok(self.stdout),
            end => Err(Error::Program { command: self.command, end, output: self.stdout + &self.stderr }),
        }
    }
}

/// A running guest. Dropping it kills it.
#[derive(Debug)]
pub struct Vm {
    channel: UnixStream,
    qemu: Qemu,
    config: Config,
}

impl Vm {
    /// Starts a guest and waits until its agent answers and its modules are loaded.
    ///
    /// # Errors
    /// If something that the guest is made of cannot be had, or the guest does not come up: then the error carries
    /// the end of its console.
    pub fn boot(config: &Config) -> Result<Self> {
        let initramfs = initramfs::build(&config.kernel, &config.contents)?;
        let (qemu, channel) = Qemu::start(config, initramfs)?;
        let mut vm = Self { channel, qemu, config: config.clone() };
        vm.come_up()?;
        Ok(vm)
    }

    /// Waits for the agent's first word, loads modules and mounts roots.
    fn come_up(&mut self) -> Result<()> {
        match self.receive(self.config.boot_timeout, "boot")?.0 {
            Reply::Hello { version: wire::VERSION, kernel } => log::info!("the guest runs Linux {kernel}"),
            other => return Err(self.failed(format!("The guest's agent began with {other:?}"))),
        }
        let config = self.config.clone();
        for module in config.contents.modules_of(&config.kernel)? {
            self.modprobe(module)?;
        }
        config.roots.iter().try_for_each(|root| self.mount_root(root))
    }

    /// Ends all programs of the guest, as an init does before a reboot.
    ///
    /// # Errors
    /// If one does not end.
    pub fn end_programs(&mut self) -> Result<()> {
        self.ask(&Request::EndPrograms, b"", SHORT).map(drop)
    }

    /// Reboots a guest of [`Config::reboots`] with whatever runs on it: its kernel shuts its devices down. What was put into it is
    /// gone.
    ///
    /// # Errors
    /// As [`Vm::boot`].
    pub fn reboot(&mut self) -> Result<()> {
        self.begin_again(&Request::Reboot, b"")
    }

    /// Resets the machine of a guest of [`Config::reboots`] in the middle of its work: no driver is told.
    ///
    /// # Errors
    /// As [`Vm::boot`].
    pub fn reset(&mut self) -> Result<()> {
        let path = "/proc/sysrq-trigger".to_owned();
        self.begin_again(&Request::Put { path, mode: 0o200 }, b"b")
    }

    /// A request that ends the agent, and its beginning.
    fn begin_again(&mut self, request: &Request, body: &[u8]) -> Result<()> {
        let sent = write_frame(&mut self.channel, request, body);
        sent.map_err(|error| self.failed(format!("Failed to tell the guest to begin again: {error}")))?;
        self.come_up()
    }

    /// Runs a program with default settings; see [`Run`].
    ///
    /// # Errors
    /// As [`Vm::run`].
    pub fn exec<A: Into<String>>(&mut self, argv: impl IntoIterator<Item = A>) -> Result<Output> {
        self.run(&Run::new(argv))
    }

    /// Runs a program to its end or its timeout; how it ended is in the output.
    ///
    /// # Errors
    /// If it cannot be started, or the guest does not answer.
    pub fn run(&mut self, run: &Run) -> Result<Output> {
        let timeout_ms = u64::try_from(run.timeout.as_millis()).unwrap_or(u64::MAX);
        let command = run.exec.argv.join(" ");
        let request = Request::Exec(Exec { timeout_ms, ..run.exec.clone() });
        match self.ask(&request, &run.input, run.timeout + GRACE)? {
            (Reply::Ended { end, stdout_len, truncated }, body) => {
                if truncated {
                    log::warn!("`{command}` printed more than is kept");
                }
                let (stdout, stderr) = body.split_at(stdout_len.min(body.len()));
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                Ok(Output { command, end, stdout: text(stdout), stderr: text(stderr) })
            }
            (other, _) => Err(self.failed(format!("The guest's agent answered {other:?} to a program"))),
        }
    }

    /// Loads a module that [`Config::carry_module`] put into the guest, after all that it needs.
    ///
    /// # Errors
    /// If the guest's kernel refuses it.
    pub fn modprobe(&mut self, module: &str) -> Result<()> {
        for file in self.config.kernel.load_order(module)? {
            let request = Request::LoadModule { path: guest_module(&file), parameters: String::new() };
            self.ask(&request, b"", LOADING)?;
        }
        Ok(())
    }

    /// Writes a file of the guest.
    ///
    /// # Errors
    /// If the guest's kernel refuses it, or it is longer than [`wire::MAX_BODY`].
    pub fn put(&mut self, path: &str, mode: u32, contents: &[u8]) -> Result<()> {
        self.ask(&Request::Put { path: path.to_owned(), mode }, contents, SHORT).map(drop)
    }

    /// Reads a file of the guest.
    ///
    /// # Errors
    /// If the guest's kernel refuses it, or it is longer than [`wire::MAX_BODY`].
    pub fn get(&mut self, path: &str) -> Result<Vec<u8>> {
        self.ask(&Request::Get { path: path.to_owned() }, b"", SHORT).map(|(_, file)| file)
    }

    /// Reads a file of the guest as text, without white space at its end.
    ///
    /// # Errors
    /// As [`Vm::get`].
    pub fn get_text(&mut self, path: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.get(path)?).trim_end().to_owned())
    }

    /// Switches the guest off and waits for QEMU's end. A dropped guest is killed instead, which is faster.
    ///
    /// # Errors
    /// If it does not end in time, or QEMU's exit status is not 0.
    pub fn power_off(mut self) -> Result<()> {
        let sent = write_frame(&mut self.channel, &Request::PowerOff, b"");
        sent.map_err(|error| self.failed(format!("Failed to tell the guest to switch off: {error}")))?;
        let status = self.qemu.wait(SHORT)?;
        if status.success() { Ok(()) } else { Err(self.failed(format!("QEMU ended with {status}"))) }
    }

    /// The name for [`Vm::put`] and [`Vm::get`] of a file inside a root that [`Config::root`] gave to the guest.
    #[must_use]
    pub fn inside(root: &Root, path: &str) -> String {
        format!("{ROOTS}/{}/{}", root.name(), path.trim_start_matches('/'))
    }

    /// The process id of its QEMU.
    pub fn qemu_pid(&self) -> u32 {
        self.qemu.pid()
    }

    /// The last lines of its console.
    pub fn console_tail(&self) -> String {
        self.qemu.console.tail()
    }

    fn mount_root(&mut self, root: &str) -> Result<()> {
        let base = format!("{ROOTS}/{root}");
        let disk = Source::Disk(root.to_owned());
        let mounts = [
            (disk, "", "ext4", true, ""),
            (Source::Name("proc".into()), "/proc", "proc", false, ""),
            (Source::Name("sysfs".into()), "/sys", "sysfs", false, ""),
            (Source::Name("devtmpfs".into()), "/dev", "devtmpfs", false, ""),
            (Source::Name("tmpfs".into()), "/dev/shm", "tmpfs", false, "mode=1777"),
            (Source::Name("tmpfs".into()), "/tmp", "tmpfs", false, "mode=1777"),
            (Source::Name("tmpfs".into()), "/run", "tmpfs", false, "mode=0755"),
        ];
        for (source, target, fstype, read_only, options) in mounts {
            let target = format!("{base}{target}");
            let (fstype, options) = (fstype.to_owned(), options.to_owned());
            self.ask(&Request::Mount { source, target, fstype, read_only, options }, b"", SHORT)?;
        }
        Ok(())
    }

    /// One request and its reply. A reply that says that it failed is an error.
    fn ask(&mut self, request: &Request, body: &[u8], timeout: Duration) -> Result<(Reply, Vec<u8>)> {
        let set = self.channel.set_write_timeout(Some(timeout));
        let sent = set.and_then(|()| write_frame(&mut self.channel, request, body));
        sent.map_err(|error| self.failed(format!("Failed to send a request to the guest: {error}")))?;
        match self.receive(timeout, "answer")? {
            (Reply::Failed { message }, _) => Err(Error::Agent(message)),
            reply => Ok(reply),
        }
    }

    /// The next frame of the agent. After a failure the guest is of no use any more and is killed.
    fn receive(&mut self, timeout: Duration, doing: &str) -> Result<(Reply, Vec<u8>)> {
        let mut reader = Timed { stream: &self.channel, deadline: Instant::now() + timeout };
        let error = match read_frame(&mut reader) {
            Ok(frame) => return Ok(frame),
            Err(error) => error,
        };
        let what = match error.kind() {
            io::ErrorKind::TimedOut => format!("The guest did not {doing} within {timeout:?}"),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => match self.qemu.wait(ENDING) {
                Ok(status) => format!("QEMU ended with {status} when the guest should {doing}"),
                Err(_) => format!("The guest closed its channel when it should {doing}"),
            },
            _ => format!("The guest did not {doing}: {error}"),
        };
        Err(self.failed(what))
    }

    /// Ends the guest and says why, with its console.
    fn failed(&mut self, what: String) -> Error {
        self.qemu.kill();
        self.qemu.console.finish();
        Error::Guest { what, console: self.qemu.console.tail() }
    }
}

/// Reads a socket until a point in time, not for a time since the last byte.
struct Timed<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}
