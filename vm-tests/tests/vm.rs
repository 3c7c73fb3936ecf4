//! Guests with Debian's stock kernel: what the harness promises, and the real KFD as a witness.
//!
//! One test function boots one guest and asks it many things: a boot takes seconds under TCG.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use vm_tests::{Config, Emulator, Error, NOBODY, Result, Run, Vm, programs, wire::End};

/// Guests run one at a time: two cores are not enough for two of them.
static ONE_GUEST: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_GUEST.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn a_stock_kernel_with_amdgpu_has_a_kfd_without_a_gpu() -> Result<()> {
    let _alone = alone();
    let version = programs::compile_c("kfd_version.c", &["-static"])?;
    let mut vm = Vm::boot(&Config::stock()?.module("amdgpu").program(&version))?;

    // rocminfo 6.1.2 asks for exactly this word before it opens /dev/kfd.
    assert_eq!(vm.get_text("/sys/module/amdgpu/initstate")?, "live");
    // KFD_IOCTL_MAJOR_VERSION and KFD_IOCTL_MINOR_VERSION in Linux 6.12's include/uapi/linux/kfd_ioctl.h.
    assert_eq!(vm.exec(["kfd_version-static"])?.success()?, "1.17\n");

    let nodes = "/sys/class/kfd/kfd/topology/nodes";
    let properties = vm.get_text(&format!("{nodes}/0/properties"))?;
    let value = |key: &str| {
        let line = properties.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {key} in {properties}")).to_owned()
    };
    assert_eq!(value("cpu_cores_count"), "2");
    assert_eq!(value("simd_count"), "0");
    assert!(vm.get(&format!("{nodes}/1/properties")).is_err(), "there is a second node");
    vm.power_off()
}

#[test]
fn programs_in_a_guest_are_run_as_asked() -> Result<()> {
    let _alone = alone();
    let config = ["/bin/sh", "/bin/cat", "/bin/sleep", "/usr/bin/id", "/usr/bin/env"]
        .iter()
        .fold(Config::stock()?, |config, program| config.program(Path::new(program)));
    let mut vm = Vm::boot(&config)?;
    let text = |vm: &mut Vm, run: Run| vm.run(&run)?.success();
    let sh = |script: &str| Run::new(["sh", "-c", script]);

    assert_eq!(text(&mut vm, Run::new(["cat"]).input("some input"))?, "some input");
    assert_eq!(text(&mut vm, sh("echo $NAME").env("NAME", "value"))?, "value\n");
    assert_eq!(text(&mut vm, Run::new(["id", "-u"]).uid(NOBODY))?, format!("{NOBODY}\n"));

    let output = vm.run(&sh("echo out; echo err >&2; exit 7"))?;
    assert_eq!(
        (output.end, output.stdout.as_str(), output.stderr.as_str()),
        (End::Status(7), "out\n", "err\n")
    );
    // 11 is SIGSEGV.
    assert_eq!(vm.run(&sh("kill -SEGV $$"))?.end, End::Signal(11));

    let start = Instant::now();
    let output = vm.run(&sh("echo before; sleep 600").timeout(Duration::from_secs(1)))?;
    assert_eq!((output.end, output.stdout.as_str()), (End::TimedOut, "before\n"));
    // A program that is left behind with our pipe in its hands does not hold the answer up.
    assert_eq!(text(&mut vm, sh("sleep 600 & echo started"))?, "started\n");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());

    let error = vm.exec(["no-such-program"]).unwrap_err();
    assert!(matches!(&error, Error::Agent(message) if message.contains("no-such-program")), "{error}");
    // After an error the guest still answers; files go both ways unchanged, whatever is in them.
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(3 << 20).collect();
    vm.put("/tmp/deep/file", 0o640, &bytes)?;
    assert!(vm.get("/tmp/deep/file")? == bytes, "3 MiB came back changed");
    vm.power_off()
}

#[test]
fn a_guest_that_does_not_come_up_fails_promptly_and_leaves_nothing() -> Result<()> {
    let _alone = alone();
    // The kernel looks for the first process under this name only, and panics without it.
    let mut config = Config::stock()?;
    config.kernel_arguments = "loglevel=4 rdinit=/no-such-init init=/no-such-init".to_owned();
    let start = Instant::now();

    let error = Vm::boot(&config).unwrap_err().to_string();

    assert!(error.contains("QEMU ended with") && error.contains("Kernel panic"), "{error}");
    assert!(start.elapsed() < config.boot_timeout / 2, "{:?}", start.elapsed());
    assert_no_child_is_left();
    Ok(())
}

#[test]
fn a_guest_that_hangs_is_given_up_at_the_deadline() -> Result<()> {
    let _alone = alone();
    let mut config = Config::stock()?;
    // -S: the virtual CPUs never start.
    config.qemu_arguments.push("-S".to_owned());
    config.boot_timeout = Duration::from_secs(2);

    let error = Vm::boot(&config).unwrap_err().to_string();

    assert!(error.contains("did not boot within 2s"), "{error}");
    assert_no_child_is_left();
    Ok(())
}

#[test]
fn what_qemu_complains_about_is_in_the_error() -> Result<()> {
    let _alone = alone();
    let mut config = Config::stock()?;
    config.qemu_arguments.extend(["-device".to_owned(), "no-such-device".to_owned()]);

    let error = Vm::boot(&config).unwrap_err().to_string();

    assert!(error.contains("exit status: 1") && error.contains("no-such-device"), "{error}");
    Ok(())
}

#[test]
fn a_guest_ends_with_the_process_that_booted_it() -> Result<()> {
    const ROLE: &str = "KFDVIRT_TEST_BOOTS_AND_DIES";
    let mut config = Config::stock()?;
    config.qemu_arguments.push("-S".to_owned());
    if std::env::var_os(ROLE).is_some() {
        // This is the process below: it is killed while it waits for a guest that never starts.
        config.boot_timeout = Duration::from_secs(100);
        return Vm::boot(&config).map(drop);
    }
    let _alone = alone();
    let system = |what| move |source| Error::System { what, source };
    let this = std::env::current_exe().map_err(system("find this program"))?;
    let mut again = Command::new(this);
    again.args(["--exact", "a_guest_ends_with_the_process_that_booted_it"]).env(ROLE, "1");
    again.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let before = stopped_qemus();
    let mut child = again.spawn().map_err(system("start this program again"))?;

    let started = within(Duration::from_secs(240), || stopped_qemus() != before);
    // SIGKILL: no destructor runs.
    child.kill().map_err(system("kill the child"))?;
    child.wait().map_err(system("wait for the child"))?;

    assert!(started, "the child started no QEMU");
    let ended = within(Duration::from_secs(20), || stopped_qemus() == before);
    assert!(ended, "QEMU outlives its parent: {:?}, before {before:?}", stopped_qemus());
    Ok(())
}

/// Whether something becomes true in time.
fn within(time: Duration, is_true: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        if is_true() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// The QEMUs of this machine that never start their guests (-S), so that other users' guests do not count.
fn stopped_qemus() -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let stopped = processes.filter(|process| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        // The program is not the first word where a loader of its own starts it.
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word.ends_with(b"qemu-system-x86_64")) && words.any(|word| word == b"-S")
    });
    let mut pids: Vec<_> = stopped.map(|process| process.display().to_string()).collect();
    pids.sort();
    pids
}

fn assert_no_child_is_left() {
    let tasks =
        fs::read_dir("/proc/self/task").unwrap().filter_map(|task| Some(task.ok()?.path().join("children")));
    let children: Vec<_> =
        tasks.filter_map(|file| fs::read_to_string(file).ok()).filter(|text| !text.is_empty()).collect();
    assert!(children.is_empty(), "children are left: {children:?}");
}

/// The device that the daemon is to stand behind came with QEMU 11.1.
#[test]
fn the_newest_qemu_runs_from_a_root_of_its_own() -> Result<()> {
    let _alone = alone();
    let qemu = Emulator::newest()?;
    let version = qemu.version()?;
    let numbers: Vec<u32> = version.split('.').map_while(|number| number.parse().ok()).collect();
    assert!(numbers >= vec![11, 1], "{version}");
    let mut config = Config::stock()?;
    config.qemu = qemu;
    let mut vm = Vm::boot(&config)?;
    assert!(vm.get_text("/proc/version")?.starts_with("Linux version 6.12."));
    vm.power_off()
}
