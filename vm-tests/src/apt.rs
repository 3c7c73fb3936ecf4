//! Debian's archive, by the machine's own apt configuration: which mirror, which versions, and downloads.

use std::{fs, path::Path, process::Command, time::Duration};

use crate::{Cache, Error, Result, cache::digest, command};

/// For what only reads local lists: seconds of computing, and more on a loaded machine.
const LOCAL: Duration = Duration::from_secs(300);
/// For what uses the network.
const NETWORK: Duration = Duration::from_secs(600);
/// How long an answer about versions counts as fresh.
const ANSWER_AGE: Duration = Duration::from_secs(24 * 3600);
/// Where Debian keeps the keys of its archive, old and new releases alike.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A package of the machine's own release: its name and the version that apt would install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Package {
    /// `NAME VERSION`.
    fn parse(line: &str) -> Self {
        let (name, version) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        Self { name: name.to_owned(), version: version.to_owned() }
    }
}

/// The mirror that the machine's apt uses for Debian itself.
///
/// # Errors
/// If apt has no list of Debian's archive (`apt-get update` was never run, or this is not Debian).
pub fn mirror() -> Result<String> {
    let targets = command::succeed(
        Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(ORIGIN)|$(LABEL)|$(REPO_URI)",
            "Created-By: Packages",
        ]),
        LOCAL,
    )?;
    let mirror = targets.lines().find_map(|line| line.strip_prefix("Debian|Debian|"));
    let missing = "apt knows no mirror of Debian's archive; run `apt-get update` on a Debian system";
    mirror.map(|uri| uri.trim_end_matches('/').to_owned()).ok_or_else(|| Error::Package(missing.to_owned()))
}

/// The newest package of the machine's release whose name matches `pattern` (a regular expression of apt's).
///
/// "Newest" is by the numbers in the name, as kernels carry their version there. The answer is kept for a day.
///
/// # Errors
/// If no package matches.
pub fn newest(cache: &Cache, pattern: &str) -> Result<Package> {
    let apt_cache = || Command::new("apt-cache");
    let answer = remembered(cache, &format!("newest {pattern}"), |_| find_newest(apt_cache, pattern))?;
    Ok(Package::parse(&answer))
}

/// The same in another release of Debian, whose package lists are kept apart from the machine's own.
///
/// # Errors
/// If the mirror has no such release, or no package matches.
pub fn newest_of(cache: &Cache, suite: &str, pattern: &str) -> Result<Package> {
    let answer = remembered(cache, &format!("newest {suite} {pattern}"), |dir| {
        with_lists(dir, &[suite], |lists| find_newest(|| apart("apt-cache", lists), pattern))
    })?;
    Ok(Package::parse(&answer))
}

/// Finds it with programs of apt's that `apt_cache` makes.
fn find_newest(apt_cache: impl Fn() -> Command, pattern: &str) -> Result<String> {
    let found = command::succeed(apt_cache().args(["--names-only", "search", pattern]), LOCAL)?;
    let names = found.lines().filter_map(|line| line.split_once(" - ")).map(|(name, _)| name);
    let none = || Error::Package(format!("No package is named like {pattern}; run `apt-get update`"));
    let name = names.max_by_key(|name| numbers(name)).ok_or_else(none)?;
    let record = command::succeed(apt_cache().args(["show", "--no-all-versions", name]), LOCAL)?;
    let version = record.lines().find_map(|line| line.strip_prefix("Version: "));
    let version = version.ok_or_else(|| Error::Package(format!("The package {name} has no version")))?;
    Ok(format!("{name} {version}"))
}

/// Downloads a package of the machine's release into a directory and unpacks it there, without installing it.
///
/// # Errors
/// If apt or dpkg fails.
pub fn unpack(package: &Package, dir: &Path) -> Result<()> {
    let mut apt_get = Command::new("apt-get");
    // Root's cache is closed to apt's own user; apt would warn and do without it all the same.
    apt_get.args(["-qq", "-o", "APT::Sandbox::User=root"]);
    download(apt_get, std::slice::from_ref(package), dir)
}

/// The same with packages of another release.
///
/// # Errors
/// If the mirror has no such release, or apt or dpkg fails.
pub fn unpack_of(suite: &str, packages: &[Package], dir: &Path) -> Result<()> {
    with_lists(dir, &[suite], |lists| {
        let mut apt_get = apart("apt-get", lists);
        apt_get.arg("-qq");
        download(apt_get, packages, dir)
    })
}

fn download(mut apt_get: Command, packages: &[Package], dir: &Path) -> Result<()> {
    let wanted = packages.iter().map(|package| format!("{}={}", package.name, package.version));
    command::succeed(apt_get.arg("download").args(wanted).current_dir(dir), NETWORK)?;
    let files = fs::read_dir(dir).map_err(Error::file("list", dir))?;
    let archives = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.extension() == Some("deb".as_ref()));
    for archive in archives.collect::<Vec<_>>() {
        command::succeed(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(dir), NETWORK)?;
        fs::remove_file(&archive).map_err(Error::file("remove", &archive))?;
    }
    Ok(())
}

/// What installing `packages` of other suites of Debian would install: one `NAME VERSION` a line, sorted. Where there are
/// several suites the last goes before the others.
///
/// The release's package lists are kept apart from the machine's own. The answer is kept for a day.
///
/// # Errors
/// If the mirror has no such release, or a package does not exist in it.
pub fn closure(cache: &Cache, suites: &[&str], packages: &[&str]) -> Result<String> {
    let question = format!("closure {} {}", suites.join("+"), packages.join(" "));
    remembered(cache, &question, |dir| {
        with_lists(dir, suites, |lists| {
            let mut simulate = apart("apt-get", lists);
            simulate.args(["-qq", "--simulate", "--no-install-recommends", "install"]).args(packages);
            simulate.args(preferred(suites).map(|option| format!("-o={option}")));
            let plan = command::succeed(&mut simulate, LOCAL)?;
            let mut lines: Vec<_> = plan.lines().filter_map(planned).collect();
            lines.sort_unstable();
            if lines.is_empty() {
                return Err(Error::Package(format!(
                    "apt plans to install nothing of {packages:?} from {suites:?}"
                )));
            }
            Ok(lines.join("\n"))
        })
    })
}

/// The option by which apt prefers the last of several suites: backports are not taken otherwise.
pub(crate) fn preferred(suites: &[&str]) -> Option<String> {
    suites.last().filter(|_| suites.len() > 1).map(|suite| format!("APT::Default-Release={suite}"))
}

/// Fetches the package lists of suites into a directory below `dir` for as long as `use_them` runs: they are large, and
/// what is found in them is all that is needed.
fn with_lists<T>(dir: &Path, suites: &[&str], use_them: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let lists = dir.join("lists");
    let result = fetch_lists(&lists, suites).and_then(|()| use_them(&lists));
    fs::remove_dir_all(&lists).map_err(Error::file("remove", &lists))?;
    result
}

fn fetch_lists(dir: &Path, suites: &[&str]) -> Result<()> {
    for sub in ["state/lists/partial", "cache/archives/partial", "none"] {
        let path = dir.join(sub);
        fs::create_dir_all(&path).map_err(Error::file("make the directory", path))?;
    }
    let mirror = mirror()?;
    let source = |suite| format!("deb [signed-by={KEYRING} target=Packages] {mirror} {suite} main\n");
    let sources: String = suites.iter().map(source).collect();
    for (name, text) in [("sources.list", sources.as_str()), ("status", "")] {
        let path = dir.join(name);
        fs::write(&path, text).map_err(Error::file("write", path))?;
    }
    command::succeed(apart("apt-get", dir).args(["-qq", "update"]), NETWORK).map(drop)
}

/// apt's answer to a question about versions. Asking costs seconds of computing, so an answer is kept for a day.
fn remembered(cache: &Cache, question: &str, ask: impl FnOnce(&Path) -> Result<String>) -> Result<String> {
    let name = format!("versions-{}", digest(question));
    let dir = cache.refreshed(&name, ANSWER_AGE, |dir| {
        let file = dir.join("answer");
        fs::write(&file, ask(dir)?).map_err(Error::file("write", &file))
    })?;
    let file = dir.join("answer");
    fs::read_to_string(&file).map_err(Error::file("read", file))
}

/// A program of apt's that knows nothing of the machine's packages and sources, only of its network configuration.
fn apart(program: &str, dir: &Path) -> Command {
    let mut apt = Command::new(program);
    for (option, value) in [
        ("Dir::State", "state"),
        ("Dir::State::status", "status"),
        ("Dir::Cache", "cache"),
        ("Dir::Etc::sourcelist", "sources.list"),
        ("Dir::Etc::sourceparts", "none"),
        ("Dir::Etc::preferencesparts", "none"),
    ] {
        apt.arg("-o").arg(format!("{option}={}", dir.join(value).display()));
    }
    apt.args(["-o", "APT::Sandbox::User=root", "-o", "APT::Architecture=amd64"]);
    apt
}

/// `Inst NAME (VERSION ORIGIN [ARCH])` of apt's simulation, as `NAME VERSION`.
fn planned(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
    let (version, _) = rest.split_once(' ')?;
    Some(format!("{name} {version}"))
}

/// The numbers in a name, for comparing versions.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|character: char| !character.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_package_is_read_with_its_version() {
        let line = "Inst clinfo (3.0.23.01.25-1+b1 Debian:13.7/stable [amd64])";
        assert_eq!(planned(line).as_deref(), Some("clinfo 3.0.23.01.25-1+b1"));
        assert_eq!(planned("Conf clinfo (3.0.23.01.25-1+b1 Debian:13.7/stable [amd64])"), None);
        assert_eq!(planned("Inst clinfo"), None);
    }

    #[test]
    fn kernels_are_compared_by_number_and_not_by_letter() {
        assert!(numbers("linux-image-6.12.117+deb12-amd64") > numbers("linux-image-6.12.95+deb12-amd64"));
    }
}
