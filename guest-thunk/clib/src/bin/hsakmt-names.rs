//! Prints what the linker needs to know of the names that the C library exports.

use std::path::Path;
use std::process::ExitCode;

use hsakmt_c::{matrix, names};

fn main() -> ExitCode {
    let asked = std::env::args().nth(1);
    match asked.as_deref() {
        Some("list") => names::exported().iter().for_each(|name| println!("{name}")),
        Some("version-script") => print!("{}", names::version_script()),
        Some("matrix") => match matrix::matrix(Path::new(".")) {
            Ok(text) => print!("{text}"),
            Err(error) => {
                eprintln!("hsakmt-names: run it at the top of the repository: {error}");
                return ExitCode::FAILURE;
            }
        },
        _ => {
            eprintln!("usage: hsakmt-names list|version-script|matrix");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
