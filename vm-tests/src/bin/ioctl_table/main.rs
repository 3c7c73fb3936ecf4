//! A table of KFD calls, good and bad, for any `/dev/kfd` without a GPU.
//!
//! One line for each call: its name, what it returned, and what it left in its arguments. Nothing in it depends
//! on time, addresses or process ids, so the output of two KFDs that behave alike is the same. The program is
//! built static and runs as it is on the real KFD of a Linux 6.12 guest and on the software one.

mod calls;
mod dispatch;
mod events;
mod others;
mod processes;
mod waits;

use calls::Kfd;

fn main() {
    let kfd = match Kfd::open() {
        Ok(kfd) => kfd,
        Err(error) => {
            eprintln!("cannot open /dev/kfd: {error}");
            std::process::exit(1);
        }
    };
    println!("open: 0");
    dispatch::run(&kfd);
    others::run(&kfd);
    events::run(&kfd);
    waits::run(&kfd);
    processes::run(&kfd);
}
