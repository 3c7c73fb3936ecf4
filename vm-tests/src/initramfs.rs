//! The first file system of a guest: the agent as `/init`, kernel modules, and what a test wants in it.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufWriter, Seek},
    path::{Path, PathBuf},
};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::{
    Error, Kernel, Result,
    cpio::Archive,
    kernel::{module_name, read_module},
    programs,
};

/// Where module files stand in the guest.
const MODULES: &str = "/lib/modules";

/// What goes into an initramfs besides the agent.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Modules that the guest can load, with what they need.
    pub modules: Vec<String>,
    /// The same, where the kernel has them.
    pub optional_modules: Vec<String>,
    /// Modules that are there, and loaded only when asked for.
    pub carried_modules: Vec<String>,
    /// Files: (path in the guest, file of the host). The permission bits are kept.
    pub files: Vec<(String, PathBuf)>,
    /// Programs of the host, put at `/bin/NAME`, with the libraries that they need at the host's paths.
    pub programs: Vec<PathBuf>,
}

impl Contents {
    /// The modules that are loaded at boot, in order.
    ///
    /// # Errors
    /// If the lists of the kernel cannot be read.
    pub fn modules_of(&self, kernel: &Kernel) -> Result<Vec<&str>> {
        let mut names: Vec<&str> = self.modules.iter().map(String::as_str).collect();
        for name in &self.optional_modules {
            if kernel.has(name)? {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// The initramfs as a memfd: it ends with its last descriptor.
///
/// # Errors
/// If one of the files cannot be read, or there is no memory.
pub fn build(kernel: &Kernel, contents: &Contents) -> Result<File> {
    let failed = || Error::system("write the initramfs");
    let memfd = memfd_create("initramfs", MemfdFlags::CLOEXEC).map_err(Error::system("make a memfd"))?;
    let mut archive = Archive::new(BufWriter::new(File::from(memfd)));
    for directory in ["dev", "proc", "sys", "tmp", "run", "roots", "bin"] {
        archive.directory(directory).map_err(failed())?;
    }
    // The kernel opens it for the first process, before anything can be mounted.
    archive.character_device("dev/console", 0o600, (5, 1)).map_err(failed())?;
    add(&mut archive, "/init", &programs::static_bin("agent")?)?;
    let carried = contents.carried_modules.iter().map(String::as_str);
    let names = contents.modules_of(kernel)?.into_iter().chain(carried);
    for file in modules(kernel, names)? {
        archive.file(&guest_module(&file), 0o644, &read_module(&file)?).map_err(failed())?;
    }
    for (path, file) in files(contents)? {
        add(&mut archive, &path, &file)?;
    }
    let writer = archive.finish().map_err(failed())?;
    let mut memfd =
        writer.into_inner().map_err(|error| Error::system("write the initramfs")(error.into_error()))?;
    memfd.rewind().map_err(failed())?;
    Ok(memfd)
}

/// Where a module file of the kernel package stands in the guest.
pub fn guest_module(file: &Path) -> String {
    format!("{MODULES}/{}.ko", module_name(&file.to_string_lossy()))
}

fn modules<'a>(kernel: &Kernel, names: impl Iterator<Item = &'a str>) -> Result<BTreeSet<PathBuf>> {
    let orders = names.map(|name| kernel.load_order(name)).collect::<Result<Vec<_>>>()?;
    Ok(orders.into_iter().flatten().collect())
}

/// All files with the libraries of the programs, each path once.
fn files(contents: &Contents) -> Result<BTreeSet<(String, PathBuf)>> {
    let mut files: BTreeSet<_> = contents.files.iter().cloned().collect();
    for program in &contents.programs {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        files.insert((format!("/bin/{name}"), program.clone()));
        for library in programs::libraries(program)? {
            files.insert((library.to_string_lossy().into_owned(), library));
        }
    }
    Ok(files)
}

fn add(archive: &mut Archive<BufWriter<File>>, path: &str, file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = fs::metadata(file).map_err(Error::file("read", file))?.permissions().mode() & 0o777;
    let contents = fs::read(file).map_err(Error::file("read", file))?;
    archive.file(path, permissions, &contents).map_err(Error::system("write the initramfs"))
}
