//! Builds what runs inside guests and roots.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{Error, Result, command};

/// Guests run x86-64 programs of the GNU libc, linked statically.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// A cold build of a static program on two cores takes well under a minute; a loaded machine takes longer.
const BUILD: Duration = Duration::from_secs(900);
/// For compiling one C file, or listing libraries.
const SHORT: Duration = Duration::from_secs(120);

/// The directory of this crate.
pub fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory that cargo builds into, and its neighbours that we use.
fn target_dir() -> PathBuf {
    let set = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    set.unwrap_or_else(|| crate_dir().parent().unwrap_or(crate_dir()).join("target"))
}

/// Builds a binary of this crate (`src/bin/NAME`) as a static program, without the harness, and returns its path.
///
/// It runs in a guest with no library at all, and under any root.
///
/// # Errors
/// If cargo fails; the error holds the compiler's messages.
pub fn static_bin(name: &str) -> Result<PathBuf> {
    // Beside the main build and not in it: cargo holds a lock on a target directory while it runs.
    let target_dir = target_dir().join("static");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--no-default-features", "--target", TARGET, "--bin", name]);
    cargo.arg("--manifest-path").arg(crate_dir().join("Cargo.toml")).arg("--target-dir").arg(&target_dir);
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command::succeed(&mut cargo, BUILD)?;
    Ok(target_dir.join(TARGET).join("release").join(name))
}

/// The program `softgpu`, as built in the profile of the running test.
///
/// # Errors
/// As [`built`].
pub fn softgpu() -> Result<PathBuf> {
    built("softgpu")
}

/// A program of this workspace, as built in the profile of the running test.
///
/// # Errors
/// If it has not been built: cargo builds the programs of other packages for a test of this one only when told to.
pub fn built(name: &str) -> Result<PathBuf> {
    let test = env::current_exe().map_err(Error::system("find the running program"))?;
    // A test lies in `deps` below the directory of the profile, a program in that directory.
    let built = test.ancestors().skip(1).take(2).map(|dir| dir.join(name)).find(|path| path.is_file());
    built.ok_or_else(|| {
        let missing = std::io::Error::new(
            std::io::ErrorKind::NotFound,
            format!("build {name} in the profile of the tests first: cargo build --workspace --profile ..."),
        );
        Error::file("find a program beside", &test)(missing)
    })
}

/// The directory of our `libhsakmt.so.1`, built in the profile of the running test by `scripts/build-lib`, as a user
/// builds it. A process builds it once.
///
/// # Errors
/// If the script fails; the error holds its messages.
pub fn thunk_dir() -> Result<PathBuf> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(dir) = &*built {
        return Ok(dir.clone());
    }
    let dir = target_dir().join("dist/lib");
    build_thunk(&[])?;
    Ok(built.insert(dir).clone())
}

/// The same with a static library for callers whose `HsaNodeProperties` has so many bytes, in a directory of its own.
///
/// # Errors
/// If building fails.
pub fn thunk_dir_of_layout(layout: u32) -> Result<PathBuf> {
    let dir = target_dir().join(format!("dist/layout-{layout}"));
    build_thunk(&["--layout".as_ref(), layout.to_string().as_ref(), "--into".as_ref(), dir.as_os_str()])?;
    Ok(dir)
}

fn build_thunk(options: &[&OsStr]) -> Result<()> {
    let program = env::current_exe().map_err(Error::system("find the running program"))?;
    // As above: a test lies one directory deeper.
    let names = program.ancestors().skip(1).filter_map(Path::file_name).filter_map(|name| name.to_str());
    let profile = match names.into_iter().find(|name| *name != "deps") {
        Some("debug") | None => "dev",
        // As it is shipped.
        Some("release") => "library",
        Some(profile) => profile,
    };
    let script = crate_dir().join("../scripts/build-lib");
    let mut build = Command::new(&script);
    build.args(["--profile", profile]).args(options).env_remove("CARGO_ENCODED_RUSTFLAGS");
    command::succeed(&mut build, BUILD)?;
    Ok(())
}

/// Compiles a C file of `vm-tests/c`, or all C files of a directory there, and returns the program's path.
///
/// `flags` go to the compiler after the files, so libraries (`-lhsakmt`) and `-static` may stand in them.
///
/// # Errors
/// If the compiler fails; the error holds its messages. Warnings are errors.
pub fn compile_c(file: &str, flags: &[&str]) -> Result<PathBuf> {
    let sources = sources(crate_dir().join("c").join(file), "c")?;
    let mut cc = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    cc.arg("-I").arg(crate_dir().join("c/include")).args(sources).args(flags);
    compile(&mut cc, &program_name(file, flags), 0o755)
}

/// Runs a compiler with `-o` and the path of a file of its own, which then becomes `name` in the directory of what is compiled here:
/// several tests may want one program, and one may be running it.
pub(crate) fn compile(compiler: &mut Command, name: &str, mode: u32) -> Result<PathBuf> {
    let dir = compiled_dir()?;
    let unfinished =
        tempfile::Builder::new().prefix(name).tempfile_in(&dir).map_err(Error::file("write to", &dir))?;
    command::succeed(compiler.arg("-o").arg(unfinished.path()), SHORT)?;
    // A temporary file is its owner's alone, and the linker kept that; a program may be run by any user.
    fs::set_permissions(unfinished.path(), PermissionsExt::from_mode(mode))
        .map_err(Error::file("change", unfinished.path()))?;
    let path = dir.join(name);
    unfinished.persist(&path).map_err(|error| Error::file("rename", &path)(error.error))?;
    Ok(path)
}

/// Where compiled C programs and kernels lie.
pub(crate) fn compiled_dir() -> Result<PathBuf> {
    let dir = target_dir().join("c");
    fs::create_dir_all(&dir).map_err(Error::file("make the directory", &dir))?;
    Ok(dir)
}

/// A file itself, or those of a directory with an extension.
pub(crate) fn sources(source: PathBuf, extension: &str) -> Result<Vec<PathBuf>> {
    if !source.is_dir() {
        return Ok(vec![source]);
    }
    let entries = fs::read_dir(&source).map_err(Error::file("list", &source))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>();
    let mut files = paths.map_err(Error::file("list", &source))?;
    files.retain(|path| path.extension().is_some_and(|of| of == extension));
    files.sort();
    Ok(files)
}

/// One file compiled with other flags is another program.
fn program_name(file: &str, flags: &[&str]) -> String {
    let plain = |text: &str| {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect::<String>()
    };
    let stem = file.trim_end_matches(".c");
    flags.iter().fold(plain(stem), |name, flag| name + &plain(flag))
}

/// The shared libraries that a program of the host needs, the loader among them. Empty for a static program.
///
/// # Errors
/// If `ldd` does not understand the program, or a library is not found.
pub fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let finished = command::finish(Command::new("ldd").arg(program).env("LC_ALL", "C"), SHORT)?;
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let messages = String::from_utf8_lossy(&finished.stderr);
    if text.contains("statically linked") || messages.contains("not a dynamic executable") {
        return Ok(BTreeSet::new());
    }
    if !finished.status.success() || text.contains("not found") {
        let command = format!("ldd {}", program.display());
        return Err(Error::Command { command, status: finished.status, output: text + &messages });
    }
    Ok(text.lines().filter_map(library).collect())
}

/// `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`; the vDSO has no path.
fn library(line: &str) -> Option<PathBuf> {
    let (_, path) = line.split_once(" => ").unwrap_or(("", line));
    let path = path.split_whitespace().next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ldd_give_paths() {
        let path = |line| library(line).map(|path| path.to_string_lossy().into_owned());
        assert_eq!(
            path("\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)").unwrap(),
            "/lib/x86_64-linux-gnu/libc.so.6"
        );
        assert_eq!(path("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)").unwrap(), "/lib64/ld-linux-x86-64.so.2");
        assert_eq!(path("\tlinux-vdso.so.1 (0x00007ffd)"), None);
    }

    #[test]
    fn a_dynamic_program_needs_its_loader_and_libc() {
        let libraries = libraries(Path::new("/bin/sh")).unwrap();
        let named = |name: &str| libraries.iter().any(|path| path.to_string_lossy().contains(name));
        assert!(named("libc.so.6") && named("ld-linux"), "{libraries:?}");
    }

    #[test]
    fn a_c_error_is_shown_and_leaves_no_file() {
        let error = compile_c("no-such-file.c", &[]).unwrap_err();
        assert!(error.to_string().contains("no-such-file.c"), "{error}");
    }
}
