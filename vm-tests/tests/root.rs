//! The Debian 13 root: what is in it, and what programs may do inside.

use std::{path::Path, time::Duration};

use vm_tests::{NOBODY, Result, Root, RootCommand, command};

const LIMIT: Duration = Duration::from_secs(60);

fn inside(root: &Root, script: &str) -> RootCommand {
    root.command("sh").args(["-euc", script])
}

#[test]
fn it_holds_debian_13_with_its_rocm() -> Result<()> {
    let root = Root::trixie()?;
    // The versions that the product is proven with (Debian 13's archive).
    let query =
        "dpkg-query --show --showformat '${Package} ${Version}\n' rocminfo libhsakmt1 libhsa-runtime64-1";

    let packages = command::succeed(&mut inside(&root, query).build(), LIMIT)?;

    let expected = [("libhsa-runtime64-1", "6.1.2"), ("libhsakmt1", "6.2.4"), ("rocminfo", "6.1.2")];
    for (package, version) in expected {
        assert!(packages.contains(&format!("{package} {version}")), "no {package} {version} in\n{packages}");
    }
    Ok(())
}

#[test]
fn namespaces_mounts_and_overlays_work_inside_with_and_without_privileges() -> Result<()> {
    let root = Root::trixie()?;
    let script = "mkdir /tmp/top; mount -t overlay o -olowerdir=/tmp/top:/sys/class /sys/class; test -e /sys/class/mem; \
                  mount --bind /dev/null /dev/zero; test -z \"$(head -c1 /dev/zero)\"; echo done by $(id -u)";
    let as_root = root.command("unshare").args(["--mount", "sh", "-euc", script]);
    let as_user =
        root.command("unshare").args(["--user", "--map-root-user", "--mount", "sh", "-euc", script]);

    assert_eq!(command::succeed(&mut as_root.build(), LIMIT)?, "done by 0\n");
    assert_eq!(command::succeed(&mut as_user.uid(NOBODY).build(), LIMIT)?, "done by 0\n");
    Ok(())
}

#[test]
fn an_unprivileged_program_has_no_capability() -> Result<()> {
    let root = Root::trixie()?;

    let status = command::succeed(
        &mut inside(&root, "id -u; grep CapEff /proc/self/status").uid(NOBODY).build(),
        LIMIT,
    )?;

    assert_eq!(status, format!("{NOBODY}\nCapEff:\t0000000000000000\n"));
    Ok(())
}

#[test]
fn a_directory_of_the_host_is_shown_read_only() -> Result<()> {
    let root = Root::trixie()?;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = RootCommand::host(&dir.join("Cargo.toml"));

    let shown = command::succeed(&mut root.command("cat").arg(&file).bind(dir).build(), LIMIT)?;
    let written = command::succeed(&mut root.command("touch").arg(&file).bind(dir).build(), LIMIT);

    assert!(shown.contains("name = \"vm-tests\""), "{shown}");
    assert!(written.unwrap_err().to_string().contains("Read-only file system"));
    Ok(())
}

#[test]
fn what_a_program_writes_or_leaves_running_is_gone_afterwards() -> Result<()> {
    let root = Root::trixie()?;

    // The sleeping process would keep its namespaces, and so its tmpfs, if it were not killed with its init.
    let left = command::succeed(
        &mut inside(&root, "echo x >/tmp/file; echo x >/dev/shm/kfdvirt-file; sleep 61234 & echo ok").build(),
        LIMIT,
    )?;
    let seen = command::succeed(&mut inside(&root, "ls -A /tmp /dev/shm").build(), LIMIT)?;

    assert_eq!(left, "ok\n");
    assert_eq!(seen, "/dev/shm:\n\n/tmp:\n");
    assert!(!Path::new("/dev/shm/kfdvirt-file").exists());
    let sleeping = command::finish(std::process::Command::new("pgrep").args(["-f", "sleep 61234"]), LIMIT)?;
    assert_eq!(String::from_utf8_lossy(&sleeping.stdout), "", "a process is left");
    Ok(())
}
