//! Programs of Debian 12 and 13, and ours on their runtimes, under `softgpu run`.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{Result, Root, RootCommand, command, programs};

/// For one run on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// What `softgpu run` shows.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// A built-in machine.
    Profile(&'a str),
    /// A built-in machine with the behaviour of a kernel (`--kernel`).
    Kernel(&'a str, &'a str),
    /// The topology tree in a directory of the host.
    Tree(&'a Path),
}

/// Which Debian's programs and libraries.
#[derive(Clone, Debug)]
pub enum Release {
    /// On the host: ROCr 5.2.3.
    Twelve,
    /// In its root: ROCr 6.1.2.
    Thirteen(Root),
}

impl Release {
    /// Debian 13, from the cache.
    ///
    /// # Errors
    /// As [`Root::trixie`].
    pub fn thirteen() -> Result<Self> {
        Ok(Self::Thirteen(Root::trixie()?))
    }

    /// Runs a program to its end, with the libhsakmt of a directory of the host, or else with Debian's.
    ///
    /// The first of `argv` is a name, looked up in `PATH`, or the absolute path of a program of the host. Other absolute
    /// paths are files of the host that it is given.
    ///
    /// # Errors
    /// If it cannot be started or does not end in two minutes.
    pub fn run<A: AsRef<OsStr>>(
        &self,
        shown: Shown<'_>,
        argv: &[A],
        library: Option<&Path>,
    ) -> Result<command::Finished> {
        let argv: Vec<&OsStr> = argv.iter().map(AsRef::as_ref).collect();
        let mut command = match self {
            Self::Twelve => on_the_host(shown, &argv, library)?,
            Self::Thirteen(root) => in_a_root(root, shown, &argv, library)?,
        };
        command::finish(&mut command, LIMIT)
    }

    /// Runs it with Debian's library and with ours.
    ///
    /// # Errors
    /// As [`Release::run`], or if our library cannot be built.
    pub fn both<A: AsRef<OsStr>>(&self, shown: Shown<'_>, argv: &[A]) -> Result<[command::Finished; 2]> {
        let dir = programs::thunk_dir()?;
        Ok([self.run(shown, argv, None)?, self.run(shown, argv, Some(&dir))?])
    }
}

fn on_the_host(shown: Shown<'_>, argv: &[&OsStr], library: Option<&Path>) -> Result<Command> {
    let mut command = Command::new(programs::softgpu()?);
    command.arg("run").args(machine(shown, Path::to_owned)).arg("--").args(argv);
    if let Some(dir) = library {
        command.env("LD_LIBRARY_PATH", dir);
    }
    Ok(command)
}

fn in_a_root(root: &Root, shown: Shown<'_>, argv: &[&OsStr], library: Option<&Path>) -> Result<Command> {
    let softgpu = programs::softgpu()?;
    let mut command = root.command(RootCommand::host(&softgpu)).arg("run");
    command = command.args(machine(shown, RootCommand::host)).arg("--").bind(parent(&softgpu));
    if let Shown::Tree(tree) = shown {
        command = command.bind(tree);
    }
    for argument in argv {
        // A program of the host, and files that it is given.
        let path = Path::new(argument);
        command = match path.is_absolute() && path.exists() {
            true => command.bind(path).arg(RootCommand::host(path)),
            false => command.arg(argument),
        };
    }
    if let Some(dir) = library {
        command = command.bind(dir).env("LD_LIBRARY_PATH", RootCommand::host(dir));
    }
    Ok(command.build())
}

/// `softgpu run`'s options for it; `inside` names a directory of the host as the program sees it.
fn machine(shown: Shown<'_>, inside: impl FnOnce(&Path) -> PathBuf) -> Vec<OsString> {
    match shown {
        Shown::Profile(name) => vec!["--profile".into(), name.into()],
        Shown::Kernel(name, kernel) => {
            vec!["--profile".into(), name.into(), "--kernel".into(), kernel.into()]
        }
        Shown::Tree(tree) => vec!["--topology".into(), inside(tree).into()],
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}
