//! The first process of a guest: mounts what programs expect, then does what the host asks for.
//!
//! It is linked statically and is the only program that a guest must have. When it fails it says why on the
//! console and ends, which makes the kernel panic and QEMU exit: the host sees the message at once.

mod exec;
mod system;

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::system::RebootCommand;
use vm_tests::wire::{Reply, Request, VERSION, read_frame, write_frame};

fn main() -> io::Result<()> {
    let served = system::mount_basics().and_then(|()| serve());
    if let Err(error) = &served {
        println!("kfdvirt agent: {error}");
    }
    served
}

fn serve() -> io::Result<()> {
    let mut port = system::open_port()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
    write_frame(&mut port, &Reply::Hello { version: VERSION, kernel }, b"")?;
    loop {
        let (request, body) = read_frame(&mut port)?;
        let (reply, body) = answer(request, body)
            .unwrap_or_else(|error| (Reply::Failed { message: error.to_string() }, Vec::new()));
        write_frame(&mut port, &reply, &body)?;
    }
}

fn answer(request: Request, body: Vec<u8>) -> io::Result<(Reply, Vec<u8>)> {
    match request {
        Request::Exec(program) => exec::run(&program, body),
        Request::Put { path, mode } => put(&path, mode, &body).map(|()| (Reply::Done, Vec::new())),
        Request::Get { path } => named(&path, fs::read(&path)).map(|file| (Reply::Done, file)),
        Request::LoadModule { path, parameters } => {
            named(&path, system::load_module(&path, &parameters)).map(|()| (Reply::Done, Vec::new()))
        }
        Request::Mount { source, target, fstype, read_only, options } => {
            let mounted = system::mount(&source, &target, &fstype, read_only, &options);
            named(&target, mounted).map(|()| (Reply::Done, Vec::new()))
        }
        Request::EndPrograms => exec::end_all().map(|()| (Reply::Done, Vec::new())),
        Request::PowerOff => system::end(RebootCommand::PowerOff).map(|()| (Reply::Done, Vec::new())),
        Request::Reboot => system::end(RebootCommand::Restart).map(|()| (Reply::Done, Vec::new())),
    }
}

fn put(path: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
    if let Some(parent) = Path::new(path).parent() {
        named(path, fs::create_dir_all(parent))?;
    }
    let mut options = File::options();
    let mut file = named(path, options.write(true).create(true).truncate(true).mode(mode).open(path))?;
    named(path, io::Write::write_all(&mut file, contents))
}

/// Puts the name of the thing in front of an error.
fn named<T>(name: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
}
