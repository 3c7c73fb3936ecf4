//! Which GPU the guest uses, as the command line says it.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hsakmt::native::{Native, Paths};
use protocol::kfd::Kfd as _;
use protocol::kfd::topology::Topology;
use rustix::fs::{Access, access};
use softgpu::Profile;
use softgpu::profile::UnknownProfile;

/// The kernel's KFD, unless another file is named.
const KFD: &str = "/dev/kfd";

/// The options that choose it; the daemon and its workers have the same.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct GpuArgs {
    /// Software GPU, if any was named.
    #[arg(long, value_name = "soft:PROFILE", conflicts_with = "kfd", help = software_gpus())]
    pub gpu: Option<SoftProfile>,

    /// Uses the machine's own GPUs, through this device file. Not tried on one yet.
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = KFD)]
    pub kfd: Option<PathBuf>,
}

/// Help that names every profile there is.
fn software_gpus() -> String {
    let names: Vec<String> = Profile::ALL.iter().map(|profile| format!("soft:{profile}")).collect();
    format!("Software GPU: {} [default: soft:{}]", names.join(", "), Profile::default())
}

/// What the guest's KFD is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// A software GPU in each worker.
    Soft(Profile),
    /// The kernel's KFD behind this device file.
    Kfd(PathBuf),
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gpu::Soft(profile) => write!(f, "software GPU {profile}"),
            Gpu::Kfd(path) => path.display().fmt(f),
        }
    }
}

impl GpuArgs {
    /// What was chosen.
    #[must_use]
    pub fn choice(&self) -> Gpu {
        match (&self.kfd, self.gpu) {
            (Some(path), _) => Gpu::Kfd(path.clone()),
            (None, gpu) => Gpu::Soft(gpu.unwrap_or_default().0),
        }
    }
}

impl Gpu {
    /// The options that choose it.
    #[must_use]
    pub fn to_args(&self) -> Vec<OsString> {
        match self {
            Gpu::Soft(profile) => vec![format!("--gpu=soft:{profile}").into()],
            Gpu::Kfd(path) => {
                let mut arg = OsString::from("--kfd=");
                arg.push(path);
                vec![arg]
            }
        }
    }

    /// Finds out early whether workers will be able to open it.
    ///
    /// # Errors
    /// When there is no such device file, or this user may not use it.
    pub fn check(&self) -> Result<(), Unusable> {
        let Gpu::Kfd(path) = self else { return Ok(()) };
        let unusable = |why: String| Unusable { path: path.clone(), why };
        let metadata = std::fs::metadata(path).map_err(|error| unusable(no_file(path, &error)))?;
        if !metadata.file_type().is_char_device() {
            return Err(unusable("it is no device file".to_owned()));
        }
        access(path, Access::READ_OK | Access::WRITE_OK)
            .map_err(|errno| unusable(format!("{errno}; is this user in the group render?")))
    }
}

fn no_file(path: &Path, error: &std::io::Error) -> String {
    if path == Path::new(KFD) && error.kind() == std::io::ErrorKind::NotFound {
        format!("{error}; is the module amdgpu loaded? --gpu soft:mi210 needs no GPU")
    } else {
        error.to_string()
    }
}

impl Gpu {
    /// How many GPUs there are.
    ///
    /// # Errors
    /// When the machine's topology cannot be read.
    pub fn count(&self) -> Result<usize, Unusable> {
        match self {
            Gpu::Soft(profile) => Ok(profile.machine(softgpu::Kernel::default()).gpus.len()),
            Gpu::Kfd(path) => {
                let native = Native::new(Paths { kfd: path.clone(), ..Paths::default() });
                let unusable = |why: &dyn fmt::Display| Unusable { path: path.clone(), why: why.to_string() };
                let tree = native.topology().map_err(|errno| unusable(&errno))?;
                let read = Topology::parse(&tree).map_err(|error| unusable(&error))?;
                Ok(read.topology.gpus().count())
            }
        }
    }
}

/// Some of the GPUs of a machine, by their order in KFD's topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuSet(u128);

impl GpuSet {
    /// All that there are.
    pub const ALL: GpuSet = GpuSet(u128::MAX);

    /// Whether it has the GPU with this number, from 0.
    #[must_use]
    pub fn contains(self, number: usize) -> bool {
        u32::try_from(number).is_ok_and(|number| self.0.checked_shr(number).is_some_and(|bits| bits & 1 != 0))
    }

    /// The first number that a machine with so many GPUs does not have.
    #[must_use]
    pub fn beyond(self, count: usize) -> Option<usize> {
        if self == GpuSet::ALL { None } else { (count..128).find(|number| self.contains(*number)) }
    }
}

impl Default for GpuSet {
    fn default() -> GpuSet {
        GpuSet::ALL
    }
}

impl fmt::Display for GpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = (0..128).filter(|number| self.contains(*number)).map(|number| number.to_string());
        f.write_str(&numbers.collect::<Vec<_>>().join(","))
    }
}

/// Not a set of GPUs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected numbers of GPUs, from 0 to 127, with commas between them")]
pub struct NoGpuSet;

impl FromStr for GpuSet {
    type Err = NoGpuSet;

    fn from_str(text: &str) -> Result<GpuSet, NoGpuSet> {
        text.split(',').try_fold(GpuSet(0), |set, number| {
            let plain = number.bytes().all(|byte| byte.is_ascii_digit());
            let number: u32 = number.parse().ok().filter(|_| plain).ok_or(NoGpuSet)?;
            1_u128.checked_shl(number).map(|bit| GpuSet(set.0 | bit)).ok_or(NoGpuSet)
        })
    }
}

/// Why the machine's GPUs cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use {}: {why}", path.display())]
pub struct Unusable {
    path: PathBuf,
    why: String,
}

/// A value of `--gpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftProfile(pub Profile);

/// Not a value of `--gpu`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// It does not begin as it should.
    #[error("expected soft:PROFILE, for example soft:mi210; for a GPU of this machine there is --kfd")]
    Kind,
    /// There is no such profile.
    #[error(transparent)]
    Profile(#[from] UnknownProfile),
}

impl FromStr for SoftProfile {
    type Err = GpuError;

    fn from_str(text: &str) -> Result<SoftProfile, GpuError> {
        Ok(SoftProfile(text.strip_prefix("soft:").ok_or(GpuError::Kind)?.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        gpu: GpuArgs,
    }

    fn parse(args: &[&str]) -> Result<Gpu, String> {
        let line = Line::try_parse_from([&["x"], args].concat());
        line.map(|line| line.gpu.choice()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_choice_comes_back_from_its_arguments() {
        assert_eq!(parse(&[]), Ok(Gpu::Soft(Profile::Mi210)));
        assert_eq!(parse(&["--kfd"]), Ok(Gpu::Kfd("/dev/kfd".into())));
        let soft = Profile::ALL.map(Gpu::Soft);
        for gpu in soft.into_iter().chain([Gpu::Kfd("/a b".into())]) {
            let args: Vec<String> =
                gpu.to_args().into_iter().map(|arg| arg.into_string().expect("text")).collect();
            assert_eq!(parse(&args.iter().map(String::as_str).collect::<Vec<_>>()), Ok(gpu));
        }
    }

    #[test]
    fn wrong_choices_are_named() {
        for (args, why) in [
            (&["--gpu=mi210"][..], "expected soft:PROFILE"),
            (&["--gpu=soft:mi999"], "unknown profile \"mi999\""),
            (&["--gpu=soft:mi210", "--gpu=soft:mi210"], "cannot be used multiple times"),
            (&["--gpu=soft:mi210", "--kfd"], "cannot be used with"),
        ] {
            let error = parse(args).expect_err("refused");
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_opened_is_said_early() {
        let why = |path: &str| Gpu::Kfd(path.into()).check().expect_err("refused").to_string();
        assert!(why("/nonexistent").starts_with("cannot use /nonexistent: No such file"));
        assert_eq!(why("/etc/passwd"), "cannot use /etc/passwd: it is no device file");
        assert_eq!(Gpu::Kfd("/dev/null".into()).check(), Ok(()));
        assert_eq!(Gpu::Soft(Profile::Mi300x).check(), Ok(()));
    }

    #[test]
    fn sets_of_gpus_come_back_from_their_text() {
        for (text, has, beyond) in
            [("0", &[0][..], None), ("1", &[1], None), ("3,0", &[0, 3], Some(3)), ("127", &[127], Some(127))]
        {
            let set: GpuSet = text.parse().expect("a set");
            assert_eq!((0..200).filter(|number| set.contains(*number)).collect::<Vec<_>>(), has);
            assert_eq!(set.to_string().parse(), Ok(set));
            assert_eq!(set.beyond(2), beyond, "{text}");
        }
        assert!(GpuSet::ALL.contains(0) && GpuSet::ALL.contains(127) && GpuSet::ALL.beyond(1).is_none());
        for text in ["", ",", "0,", "x", "-1", "+1", "128", "0 1", "4294967296"] {
            assert_eq!(text.parse::<GpuSet>(), Err(NoGpuSet), "{text}");
        }
        assert_eq!(Gpu::Soft(Profile::TwoGpu).count(), Ok(2));
        assert_eq!(Gpu::Soft(Profile::CpuOnly).count(), Ok(0));
    }
}
