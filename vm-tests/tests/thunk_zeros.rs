//! Every function of our libhsakmt with nothing but zeros, in every state of the library: a status, never a crash.

use std::process::Command;
use std::time::Duration;

use protocol::hsakmt::Status;
use vm_tests::{Result, command, programs};

const LIMIT: Duration = Duration::from_secs(300);

/// What succeeds while the library is not open, as with AMD's: opening it, and giving back a topology that nobody has.
const NEED_NO_OPEN: [&str; 2] = ["hsaKmtOpenKFD", "hsaKmtReleaseSystemProperties"];

fn names() -> Result<Vec<String>> {
    let list = programs::softgpu()?.with_file_name("hsakmt-names");
    let list = command::succeed(Command::new(list).arg("list"), LIMIT)?;
    // The others are libdrm's, whose functions dereference what they are given.
    let ours = list.lines().filter(|name| name.starts_with("hsaKmt") || name.starts_with("vhsaKmt"));
    Ok(ours.map(str::to_owned).collect())
}

/// Case F06.
#[test]
fn f06_zeros_are_a_status_in_every_state() -> Result<()> {
    let names = names()?;
    assert!(names.len() > 200, "{} names", names.len());
    let mut run = Command::new(programs::softgpu()?);
    run.args(["run", "--profile", "mi210", "--"]).arg(programs::compile_c("every_call.c", &["-ldl"])?);
    run.args(&names).env("LD_LIBRARY_PATH", programs::thunk_dir()?).env("KFDVIRT_LOG", "off");

    let output = command::succeed(&mut run, LIMIT)?;

    let fine = |line: &&str| match line.split(' ').collect::<Vec<_>>()[..] {
        [name, state, status] => match status.parse().ok().and_then(Status::from_c) {
            Some(Ok(())) => state == "open" || NEED_NO_OPEN.contains(&name),
            Some(Err(_)) => true,
            None => false,
        },
        _ => false,
    };
    let wrong: Vec<_> = output.lines().filter(|line| !fine(line)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(output.lines().count(), names.len() * 3, "a line for each name and state");
    Ok(())
}
