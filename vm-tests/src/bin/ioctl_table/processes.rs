//! Other processes, duplicated and closed descriptors.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use protocol::Errno;
use protocol::kfd::args::GetVersionArgs;
use protocol::kfd::ioctl::Ioctl;

use crate::calls::{Kfd, address, line, outcome, raw_ioctl};
use crate::events::{create, mmap, set, signal};

pub fn run(kfd: &Kfd) {
    descriptors(kfd);
    let id = signal(kfd, 0);
    in_a_child("inherited", || child_with_inherited(kfd, id));
    in_a_child("own", child_with_its_own);
    line("SET_EVENT after the children", set(kfd, id), "");
    reopened(kfd, id);
}

fn version(fd: i32) -> Result<i32, Errno> {
    raw_ioctl(fd, Ioctl::GetVersion.request(), address(&mut GetVersionArgs::default()))
}

fn descriptors(kfd: &Kfd) {
    // SAFETY: dup() has no memory arguments.
    let dup = outcome(libc::c_long::from(unsafe { libc::dup(kfd.0.as_raw_fd()) }));
    let Ok(number) = dup else { return line("dup", dup, "") };
    // SAFETY: dup() has just returned the descriptor, nobody else owns it.
    let dup = unsafe { OwnedFd::from_raw_fd(number) };
    line("GET_VERSION on a duplicate", version(number), "");
    drop(dup);
    line("GET_VERSION on the closed duplicate", version(number), "");
    line("GET_VERSION on the original", version(kfd.0.as_raw_fd()), "");
    line("GET_VERSION on descriptor -1", version(-1), "");
    match Kfd::open() {
        Ok(second) => {
            line("GET_VERSION on a second open file", version(second.0.as_raw_fd()), "");
            let id = signal(&second, 0);
            line("SET_EVENT of its event on the first", set(kfd, id), "");
        }
        Err(error) => println!("second open: {error}"),
    }
}

/// Runs `body` in a forked child and waits for it.
fn in_a_child(name: &str, body: impl FnOnce()) {
    std::io::stdout().flush().expect("stdout");
    // SAFETY: the program has one thread here (all others were joined), so the child may go on as usual.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => {
            body();
            std::io::stdout().flush().expect("stdout");
            // SAFETY: ends the child at once, without running the parent's exit handlers.
            unsafe { libc::_exit(0) };
        }
        pid if pid > 0 => {
            let mut status = 0;
            // SAFETY: the status is an int that lives through the call.
            let result = unsafe { libc::waitpid(pid, &raw mut status, 0) };
            line(
                &format!("child with {name} descriptor"),
                Ok(i32::from(result != pid)),
                &format!("status {status}"),
            );
        }
        _ => line("fork", Err(Errno::EAGAIN), ""),
    }
}

fn child_with_inherited(kfd: &Kfd, id: u32) {
    let fd = kfd.0.as_raw_fd();
    line("child: GET_VERSION on the parent's descriptor", version(fd), "");
    line("child: GET_VERSION at NULL on it", raw_ioctl(fd, Ioctl::GetVersion.request(), 0), "");
    line("child: number 0x7f on it", raw_ioctl(fd, 0xc008_4b7f, 0), "");
    line("child: SET_EVENT on it", set(kfd, id), "");
    line("child: CREATE_EVENT on it", create(kfd, 0, 0).0, "");
    line("child: CRIU_OP on it", raw_ioctl(fd, Ioctl::CriuOp.request(), 0), "");
    line("child: mmap of the event page on it", mmap(kfd, 2 << 62, 4096), "");
}

fn child_with_its_own() {
    match Kfd::open() {
        Ok(own) => {
            line("child: GET_VERSION on its own descriptor", version(own.0.as_raw_fd()), "");
            let (result, args) = create(&own, 0, 0);
            line("child: CREATE_EVENT on its own", result, &format!("id {}", args.event_id));
        }
        Err(error) => println!("child: open: {error}"),
    }
}

fn reopened(kfd: &Kfd, id: u32) {
    // SAFETY: close() has no memory arguments. The descriptor is not used through `kfd` afterwards except to
    // show what that gives, and the program ends without dropping it.
    let closed = outcome(libc::c_long::from(unsafe { libc::close(kfd.0.as_raw_fd()) }));
    line("close", closed, "");
    line("GET_VERSION after close", version(kfd.0.as_raw_fd()), "");
    match Kfd::open() {
        Ok(again) => line("SET_EVENT of an event from before, on a new file", set(&again, id), ""),
        Err(error) => println!("open again: {error}"),
    }
    std::io::stdout().flush().expect("stdout");
    std::process::exit(0);
}
