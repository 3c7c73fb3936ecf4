//! Debian's kernels, unpacked from their packages, and the modules of them in load order.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{Cache, Error, Result, apt, command};

const LIMIT: Duration = Duration::from_secs(120);

/// A kernel image and its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    release: String,
    image: PathBuf,
    modules: PathBuf,
}

/// Where Debian 13 gets newer kernels from.
const BACKPORTS: &str = "trixie-backports";

impl Kernel {
    /// The newest 6.12 of the machine's Debian (in Debian 12 from its backported source package), from the cache.
    ///
    /// # Errors
    /// If the package cannot be found, fetched or unpacked.
    pub fn stock() -> Result<Self> {
        Self::stock_in(&Cache::open()?)
    }

    fn stock_in(cache: &Cache) -> Result<Self> {
        let package = apt::newest(cache, r"^linux-image-6\.12\.[0-9]+[+]deb[0-9]+-amd64$")?;
        let release = package.name.trim_start_matches("linux-image-").to_owned();
        let recipe = format!("kernel 1\n{} {}\n", package.name, package.version);
        let dir = cache.entry("kernel", &recipe, |dir| {
            apt::unpack(&package, dir)?;
            // The package makes its dependency lists when it is installed.
            command::succeed(Command::new("depmod").arg("--basedir").arg(dir).arg(&release), LIMIT).map(drop)
        })?;
        let image = dir.join("boot").join(format!("vmlinuz-{release}"));
        let modules = dir.join("lib/modules").join(&release);
        Ok(Self { release, image, modules })
    }

    /// The newest 7.x that Debian 13 is offered (its backports), from the cache.
    ///
    /// # Errors
    /// If there is none, or its packages cannot be fetched or unpacked.
    pub fn newest_7() -> Result<Self> {
        let cache = Cache::open()?;
        let package = apt::newest_of(&cache, BACKPORTS, r"^linux-image-7\.[0-9.]+[+]deb[0-9]+-amd64$")?;
        let release = package.name.trim_start_matches("linux-image-").to_owned();
        // From 7.x on the package of the image has no file: these are its parts.
        let parts = ["base", "binary", "modules"];
        let parts = parts.map(|part| apt::Package {
            name: format!("linux-{part}-{release}"),
            version: package.version.clone(),
        });
        let recipe = format!("kernel of parts 1\n{} {}\n", package.name, package.version);
        let dir = cache.entry("kernel-7", &recipe, |dir| {
            apt::unpack_of(BACKPORTS, &parts, dir)?;
            let usr = dir.join("usr");
            command::succeed(Command::new("depmod").arg("--basedir").arg(usr).arg(&release), LIMIT).map(drop)
        })?;
        let modules = dir.join("usr/lib/modules").join(&release);
        Ok(Self { release, image: modules.join("vmlinuz"), modules })
    }

    /// What `uname -r` says in it.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The bootable image.
    pub fn image(&self) -> PathBuf {
        self.image.clone()
    }

    /// Whether it has this module, as a file or built in.
    ///
    /// # Errors
    /// If its lists cannot be read.
    pub(crate) fn has(&self, module: &str) -> Result<bool> {
        match self.load_order(module) {
            Err(Error::NoModule { .. }) => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// The files of a module and of all that it needs, in the order in which they must be loaded.
    ///
    /// Empty for a module that is built into the kernel.
    ///
    /// # Errors
    /// [`Error::NoModule`], or that the lists of the kernel cannot be read.
    pub(crate) fn load_order(&self, module: &str) -> Result<Vec<PathBuf>> {
        let read = |name| {
            let file = self.modules.join(name);
            fs::read_to_string(&file).map_err(Error::file("read", file))
        };
        let dependencies = read("modules.dep")?;
        let files = match Dependencies::parse(&dependencies).order(module) {
            Some(files) => files,
            None if read("modules.builtin")?.lines().any(|line| module_name(line) == canonical(module)) => {
                Vec::new()
            }
            None => return Err(Error::NoModule { release: self.release.clone(), module: module.to_owned() }),
        };
        Ok(files.iter().map(|file| self.modules.join(file)).collect())
    }
}

/// A module file's contents, decompressed.
///
/// # Errors
/// If it cannot be read, or `xz` fails.
pub(crate) fn read_module(file: &Path) -> Result<Vec<u8>> {
    if file.extension() != Some("xz".as_ref()) {
        return fs::read(file).map_err(Error::file("read", file));
    }
    let mut xz = Command::new("xz");
    xz.args(["--decompress", "--stdout"]).arg(file);
    let finished = command::finish(&mut xz, LIMIT)?;
    if !finished.status.success() {
        let output = String::from_utf8_lossy(&finished.stderr).into_owned();
        return Err(Error::Command { command: command::line(&xz), status: finished.status, output });
    }
    Ok(finished.stdout)
}

/// The name that the kernel knows a module file by: `drivers/gpu/drm/drm-x.ko.xz` is `drm_x`.
pub(crate) fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    canonical(name.split(".ko").next().unwrap_or(name))
}

/// Modules are named with `-` and `_` alike.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

/// The lists of `modules.dep`: each file with the files that it needs.
struct Dependencies<'a>(HashMap<String, (&'a str, Vec<&'a str>)>);

impl<'a> Dependencies<'a> {
    fn parse(text: &'a str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let entry = |(file, needs): (&'a str, &'a str)| {
            (module_name(file), (file, needs.split_whitespace().collect()))
        };
        Self(lines.map(entry).collect())
    }

    /// The files of a module's closure, each after all that it needs; `None` if there is no such module.
    fn order(&self, module: &str) -> Option<Vec<&'a str>> {
        let mut order = Vec::new();
        self.visit(&canonical(module), &mut HashSet::new(), &mut order)?;
        Some(order)
    }

    fn visit(&self, module: &str, seen: &mut HashSet<String>, order: &mut Vec<&'a str>) -> Option<()> {
        if !seen.insert(module.to_owned()) {
            return Some(());
        }
        let (file, needs) = self.0.get(module)?;
        for need in needs {
            self.visit(&module_name(need), seen, order)?;
        }
        order.push(file);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/a/gpu.ko.xz: kernel/b/drm-helper.ko.xz kernel/b/drm.ko.xz kernel/c/crc16.ko\n\
                       kernel/b/drm-helper.ko.xz: kernel/b/drm.ko.xz\n\
                       kernel/b/drm.ko.xz:\n\
                       kernel/c/crc16.ko:\n";

    #[test]
    fn modules_come_after_what_they_need() {
        let order = Dependencies::parse(DEP).order("gpu").unwrap();

        let expected =
            ["kernel/b/drm.ko.xz", "kernel/b/drm-helper.ko.xz", "kernel/c/crc16.ko", "kernel/a/gpu.ko.xz"];
        assert_eq!(order, expected);
    }

    #[test]
    fn a_module_is_found_by_either_spelling() {
        let dependencies = Dependencies::parse(DEP);

        assert_eq!(dependencies.order("drm-helper"), dependencies.order("drm_helper"));
        assert_eq!(dependencies.order("drm_helper").unwrap().len(), 2);
        assert_eq!(dependencies.order("nothing"), None);
    }

    #[test]
    fn a_circle_in_the_lists_ends() {
        let order = Dependencies::parse("a.ko: b.ko\nb.ko: a.ko\n").order("a").unwrap();
        assert_eq!(order, ["b.ko", "a.ko"]);
    }
}
