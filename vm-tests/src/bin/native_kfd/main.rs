//! Native KFD on any `/dev/kfd` without a GPU: what it does, line by line.
//!
//! `native_kfd calls` is the same on the real KFD of a Linux 6.12 guest and on the software one. `native_kfd
//! errors` wants root and a real device: it takes permissions and descriptors away from itself and prints
//! what native KFD says about it.

mod calls;
mod errors;
mod program;

fn main() {
    program::print_the_log();
    match std::env::args().nth(1).as_deref() {
        Some("calls") => calls::run(),
        Some("errors") => errors::run(),
        _ => {
            eprintln!("usage: native_kfd calls|errors");
            std::process::exit(2);
        }
    }
}
