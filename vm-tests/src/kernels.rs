//! Compiles what runs on GPUs, with Debian's clang on the host: HIP programs, and kernels in OpenCL C.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{Cache, Error, Result, apt, cache::digest, command, programs};

const CLANG: &str = "clang-19";
/// The processors that HIP programs are compiled for.
const PROCESSORS: [&str; 2] = ["gfx90a", "gfx942"];
/// The last version of code objects that ROCr 5.2.3 loads.
const CODE_OBJECT: &str = "-mcode-object-version=4";

/// The compiler's library for kernels: Debian 12's own does not know gfx942.
const DEVICE_LIBRARY: &str = "rocm-device-libs-17";
const DEVICE_LIBRARY_SUITE: &str = "trixie";
const DEVICE_LIBRARY_DIR: &str = "usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode";

/// For a compiler's answer to a question.
const SHORT: Duration = Duration::from_secs(60);

/// Compiles kernels in OpenCL C (a file of `kernels/`) for a GPU (LLVM's name of its processor) into a code object that ROCr 5.2.3
/// and later load.
///
/// # Errors
/// If the compiler fails; the error holds its messages.
pub fn compile_kernels(file: &str, processor: &str) -> Result<PathBuf> {
    let mut clang = Command::new(CLANG);
    clang.args(["-target", "amdgcn-amd-amdhsa", CODE_OBJECT, "-O2", "-nogpulib", "-xcl", "-cl-std=CL2.0"]);
    clang.arg(format!("-mcpu={processor}")).arg(source(file));
    programs::compile(&mut clang, &format!("{file}-{processor}.o"), 0o644)
}

/// A file of `kernels/`.
#[must_use]
pub fn source(file: &str) -> PathBuf {
    programs::crate_dir().join("kernels").join(file)
}

/// Compiles the HIP program in a directory of `hip/` for gfx90a and gfx942. It runs on the HIP of Debian 12 and of Debian 13: their
/// libraries have one name, and what it uses of them one layout.
///
/// It is compiled once for each contents of its sources, since that takes a quarter of a minute.
///
/// # Errors
/// If the compiler's library cannot be fetched or the compiler fails.
pub fn compile_hip(name: &str) -> Result<PathBuf> {
    let dir = programs::crate_dir().join("hip").join(name);
    let library = device_library()?;
    let mut clang = Command::new(CLANG);
    clang.args(PROCESSORS.map(|processor| format!("--offload-arch={processor}")));
    clang.arg("--rocm-path=/usr").arg(format!("--rocm-device-lib-path={}", library.display()));
    clang.args([CODE_OBJECT, "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-D__HIP_PLATFORM_AMD__"]);
    // HIP's headers name the compiler's own by their directory.
    clang.arg("-isystem").arg(resource_dir()?);
    clang.args(["-x", "hip"]).args(programs::sources(dir.clone(), "hip")?);
    clang.args(["-lstdc++", "-lm", "-l:libamdhip64.so.5"]);

    let program = format!("{name}-{}", digest(&recipe(&clang, &dir)?));
    let path = programs::compiled_dir()?.join(&program);
    if path.exists() {
        return Ok(path);
    }
    programs::compile(&mut clang, &program, 0o755)
}

/// What a program of HIP is made of: the compiler, how it is called, and all files.
fn recipe(clang: &Command, dir: &Path) -> Result<String> {
    let mut recipe = command::succeed(Command::new(CLANG).arg("--version"), SHORT)? + &command::line(clang);
    for extension in ["h", "hip"] {
        for file in programs::sources(dir.to_owned(), extension)? {
            let text = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
            // Writing to a string does not fail.
            let _ = write!(recipe, "\n{}\n{text}", file.display());
        }
    }
    Ok(recipe)
}

/// Where the compiler's own headers and libraries lie.
fn resource_dir() -> Result<String> {
    let dir = command::succeed(Command::new(CLANG).arg("-print-resource-dir"), SHORT)?;
    Ok(dir.trim().to_owned())
}

/// The directory of the compiler's library for kernels, from the cache.
///
/// # Errors
/// If it is not in the cache and cannot be fetched.
pub fn device_library() -> Result<PathBuf> {
    let cache = Cache::open()?;
    let package = apt::newest_of(&cache, DEVICE_LIBRARY_SUITE, &format!("^{DEVICE_LIBRARY}$"))?;
    let recipe = format!("device library 1\n{} {}\n", package.name, package.version);
    let dir = cache.entry("device-library", &recipe, |dir| {
        apt::unpack_of(DEVICE_LIBRARY_SUITE, std::slice::from_ref(&package), dir)
    })?;
    Ok(dir.join(DEVICE_LIBRARY_DIR))
}
