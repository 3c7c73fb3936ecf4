//! Debian roots: a directory made by `mmdebstrap`, entered with `bwrap`, or given to a guest as a disk image.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{Cache, Error, Result, apt, command};

/// Fetching and unpacking about 130 packages; a loaded machine takes several times the usual half minute.
const BUILD: Duration = Duration::from_secs(900);

/// What Debian 13's root has beside the essential packages: its ROCm, and tools that tests look with.
const TRIXIE: &[&str] = &[
    "rocminfo",
    "libhsakmt1",
    "libhsa-runtime64-1",
    "libamdhip64-5",
    "clinfo",
    "rocm-opencl-icd",
    // headers that its compiler includes
    "libclang-common-17-dev",
    "kmod",
    "mount",
    "pciutils",
    "procps",
    "strace",
];

/// The QEMU of Debian 13's backports: the one in Debian 12 and 13 has no vhost-user device with shared memory.
const QEMU: &[&str] = &["qemu-system-x86"];

/// The user id of Debian's `nobody`, for programs that must run without privileges.
pub const NOBODY: u32 = 65534;

/// A directory that holds a Debian system.
#[derive(Clone, Debug)]
pub struct Root {
    name: String,
    dir: PathBuf,
    recipe: String,
    cache: Cache,
}

impl Root {
    /// Debian 13 with its ROCm (rocminfo 6.1.2, libhsakmt1 6.2.4, HIP and OpenCL), from the cache.
    ///
    /// # Errors
    /// If it is not in the cache and cannot be made: that needs root, apt and a mirror.
    pub fn trixie() -> Result<Self> {
        Self::debian("trixie", &["trixie"], TRIXIE)
    }

    /// Debian 13 with the QEMU of its backports, from the cache; see [`crate::Emulator::newest`].
    ///
    /// # Errors
    /// As [`Root::trixie`].
    pub fn qemu() -> Result<Self> {
        Self::debian("qemu", &["trixie", "trixie-backports"], QEMU)
    }

    /// A root of any Debian release with these packages beside the essential ones, from the cache. Where several suites are
    /// named the last goes before the others.
    ///
    /// `name` tells roots apart: at most 20 letters and digits.
    ///
    /// # Errors
    /// As [`Root::trixie`].
    pub fn debian(name: &str, suites: &[&str], packages: &[&str]) -> Result<Self> {
        let cache = Cache::open()?;
        let resolved = apt::closure(&cache, suites, packages)?;
        let recipe = format!("root 2\n{}\n{}\n{resolved}\n", suites.join("+"), packages.join(" "));
        let entry =
            cache.entry(&format!("root-{name}"), &recipe, |dir| debootstrap(suites, packages, dir))?;
        Ok(Self { name: name.to_owned(), dir: entry.join("root"), recipe, cache })
    }

    /// What it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory. It is shared by all who use the cache: nobody may write to it.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// An ext4 image of it, from the cache.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn image(&self) -> Result<PathBuf> {
        let recipe = format!("image 1\n{}", self.recipe);
        let entry = self.cache.entry(&format!("image-{}", self.name), &recipe, |dir| {
            let image = dir.join("image");
            let mut make = Command::new("mke2fs");
            // Nobody writes to it, so it needs neither a journal nor inodes or blocks to spare.
            make.args([
                "-q",
                "-t",
                "ext4",
                "-O",
                "^has_journal,^resize_inode",
                "-m",
                "0",
                "-E",
                "root_owner=0:0",
                "-d",
            ]);
            make.arg(&self.dir).arg(&image).arg(format!("{}K", kilobytes(&self.dir)? * 5 / 4));
            command::succeed(&mut make, BUILD).map(drop)
        })?;
        Ok(entry.join("image"))
    }

    /// A program to run inside it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> RootCommand {
        RootCommand {
            root: self.dir.clone(),
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            binds: Vec::new(),
            environment: Vec::new(),
            uid: None,
        }
    }
}

/// A program to run inside a [`Root`], in namespaces of its own: when it ends, all that it started has ended.
///
/// The root is read-only; `/tmp`, `/run` and `/dev/shm` are empty and vanish. Devices and `/sys` are the host's. The
/// program may make user and mount namespaces and use seccomp, with and without privileges.
#[derive(Clone, Debug)]
pub struct RootCommand {
    root: PathBuf,
    program: OsString,
    arguments: Vec<OsString>,
    binds: Vec<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    uid: Option<u32>,
}

impl RootCommand {
    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the otherwise small environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Shows a file or directory of the host, read-only, at `/host` followed by its path; see [`RootCommand::host`].
    pub fn bind(mut self, host: &Path) -> Self {
        self.binds.push(host.to_owned());
        self
    }

    /// The name inside of what [`RootCommand::bind`] shows.
    pub fn host(path: &Path) -> PathBuf {
        Path::new("/host").join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Runs it as this user and group without any privilege; only root can ask for that.
    pub fn uid(mut self, uid: u32) -> Self {
        self.uid = Some(uid);
        self
    }

    /// The command for [`command::finish`] or [`command::succeed`].
    pub fn build(&self) -> Command {
        let mut bwrap = Command::new("bwrap");
        bwrap.args(["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--clearenv"]);
        if rustix::process::geteuid().is_root() {
            // bwrap drops all capabilities otherwise; `setpriv` inside needs them, and so does a root's test.
            bwrap.args(["--cap-add", "ALL"]);
        }
        bwrap.arg("--ro-bind").arg(&self.root).arg("/");
        bwrap.args(["--dev-bind", "/dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm"]);
        bwrap.args(["--proc", "/proc", "--ro-bind", "/sys", "/sys"]);
        bwrap.args([
            "--perms", "1777", "--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/host", "--chdir", "/",
        ]);
        for host in &self.binds {
            bwrap.arg("--ro-bind").arg(host).arg(Self::host(host));
        }
        for (name, value) in
            [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/tmp"), ("LC_ALL", "C.UTF-8")]
        {
            bwrap.args(["--setenv", name, value]);
        }
        for (name, value) in &self.environment {
            bwrap.arg("--setenv").arg(name).arg(value);
        }
        bwrap.arg("--");
        if let Some(uid) = self.uid {
            bwrap.arg("setpriv").arg(format!("--reuid={uid}")).arg(format!("--regid={uid}"));
            bwrap.args(["--clear-groups", "--inh-caps=-all", "--"]);
        }
        bwrap.arg(&self.program).args(&self.arguments);
        bwrap
    }
}

fn debootstrap(suites: &[&str], packages: &[&str], dir: &Path) -> Result<()> {
    let [suite, others @ ..] = suites else {
        return Err(Error::Package("No suite of Debian is named".to_owned()));
    };
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Package(format!(
            "Only root can make a Debian root ({suite}); run this once as root"
        )));
    }
    let root = dir.join("root");
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--mode=root", "--variant=essential", "--format=directory"]);
    make.arg(format!("--include={}", packages.join(",")));
    for kept_out in ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"] {
        make.arg(format!("--dpkgopt=path-exclude={kept_out}"));
    }
    // In apt's own syntax, `NAME "VALUE"`, as a line of its configuration.
    make.args(
        apt::preferred(suites).map(|option| format!("--aptopt={}", option.replacen('=', " \"", 1) + "\"")),
    );
    let mirror = apt::mirror()?;
    make.arg(suite).arg(&root).arg(&mirror);
    make.args(others.iter().map(|suite| format!("deb {mirror} {suite} main")));
    command::succeed(&mut make, BUILD)?;
    // Places for what is mounted over the read-only root.
    for place in ["host", "dev/shm"] {
        let path = root.join(place);
        fs::create_dir_all(&path).map_err(Error::file("make the directory", path))?;
    }
    Ok(())
}

/// What a directory's files take on disk.
fn kilobytes(dir: &Path) -> Result<u64> {
    let text = command::succeed(Command::new("du").args(["--summarize", "--block-size=1K"]).arg(dir), BUILD)?;
    let number = text.split_whitespace().next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| Error::Package(format!("du says {text:?}")))
}
