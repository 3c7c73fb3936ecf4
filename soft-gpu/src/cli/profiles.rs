//! `softgpu profiles`.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::{Kernel, Machine, Profile};

/// `softgpu profiles`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints one line for each profile.
pub fn run(_: &Args) -> Result<ExitCode, Box<dyn Error>> {
    match write_table(&mut io::stdout().lock()) {
        // Somebody who reads only the first lines (`head`) is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        result => Ok(result.map(|()| ExitCode::SUCCESS)?),
    }
}

fn write_table(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<10} {:>4} {:>4}  {:<8} {:>4} {:>4} {:>10} {:>6}  DESCRIPTION",
        "NAME", "CPUS", "GPUS", "ISA", "CUS", "XCCS", "VRAM MIB", "BAR"
    )?;
    for profile in Profile::ALL {
        let machine = profile.machine(Kernel::default());
        writeln!(out, "{}  {}", row(profile, &machine), profile.summary())?;
    }
    Ok(())
}

/// The numbers of a profile. All GPUs of a built-in profile are alike.
fn row(profile: Profile, machine: &Machine) -> String {
    let cpus: u32 = machine.topology.nodes.iter().map(|node| node.properties.cpu_cores_count).sum();
    let gpus = machine.gpus.len();
    let columns = match machine.gpus.first() {
        None => format!("{:<8} {:>4} {:>4} {:>10} {:>6}", "-", "-", "-", "-", "-"),
        Some(gpu) => format!(
            "{:<8} {:>4} {:>4} {:>10} {:>6}",
            gpu.gfx.to_string(),
            gpu.shaders.cus(),
            gpu.shaders.xccs,
            gpu.vram.size >> 20,
            if gpu.vram.is_large_bar() { "large" } else { "small" },
        ),
    };
    format!("{:<10} {cpus:>4} {gpus:>4}  {columns}", profile.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_profile() {
        let mut out = Vec::new();
        write_table(&mut out).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.lines().count(), 1 + Profile::ALL.len());
        let mi300x = text.lines().find(|line| line.starts_with("mi300x ")).expect("a line");
        let words: Vec<&str> = mi300x.split_whitespace().take(8).collect();
        assert_eq!(words, ["mi300x", "32", "1", "gfx942", "304", "8", "196288", "large"]);
    }
}
