//! What a worker that was taken over may try.

use libc::c_long;

/// A call that must be the end of the worker.
pub struct Attempt {
    pub name: &'static str,
    pub make: fn() -> c_long,
}

macro_rules! attempts {
    ($($name:literal: $call:ident($($arg:expr),*);)*) => {
        &[$(Attempt {
            name: $name,
            // SAFETY: a call that is not made: the filter ends the process. Were it made, its arguments would do no
            // harm to memory: they are numbers, or addresses that are not mapped.
            make: || unsafe { libc::syscall(libc::$call $(, c_long::from($arg))*) },
        }),*]
    };
}

const ZERO: c_long = 0;
const ONE: c_long = 1;
const PAGE: c_long = 4096;
const NO_FD: c_long = -1;

/// `_IOWR('K', 0x20, struct kfd_ioctl_svm_args)`, 24 bytes (linux/kfd_ioctl.h): memory of this process for the GPU.
const AMDKFD_IOC_SVM: c_long = 0xc018_4b20;

/// All of them. The name is what the worker is told.
pub const ATTEMPTS: &[Attempt] = attempts! {
    "fork": SYS_fork();
    "clone-a-process": SYS_clone(libc::SIGCHLD, ZERO, ZERO, ZERO, ZERO);
    "vfork": SYS_vfork();
    "exec": SYS_execve(ZERO, ZERO, ZERO);
    "exec-of-a-descriptor": SYS_execveat(NO_FD, ZERO, ZERO, ZERO, ZERO);
    "socket": SYS_socket(libc::AF_UNIX, libc::SOCK_STREAM, ZERO);
    "connect": SYS_connect(NO_FD, ZERO, ZERO);
    "kill-the-daemon": SYS_kill(libc::getppid(), ZERO);
    "signal-to-another-process": SYS_tgkill(libc::getppid(), libc::getppid(), ZERO);
    "trace": SYS_ptrace(libc::PTRACE_ATTACH, libc::getppid(), ZERO, ZERO);
    "read-another-process": SYS_process_vm_readv(libc::getppid(), ZERO, ZERO, ZERO, ZERO, ZERO);
    "write-another-process": SYS_process_vm_writev(libc::getppid(), ZERO, ZERO, ZERO, ZERO, ZERO);
    "take-a-descriptor-of-another-process": SYS_pidfd_getfd(NO_FD, ZERO, ZERO);
    "pidfd": SYS_pidfd_open(libc::getppid(), ZERO);
    "map-code": SYS_mmap(ZERO, PAGE, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, NO_FD, ZERO);
    "make-code": SYS_mprotect(ZERO, PAGE, libc::PROT_READ | libc::PROT_EXEC);
    "make-code-by-key": SYS_pkey_mprotect(ZERO, PAGE, libc::PROT_EXEC, NO_FD);
    "old-open": SYS_open(ZERO, ZERO);
    "open-by-handle": SYS_open_by_handle_at(NO_FD, ZERO, ZERO);
    "new-open": SYS_openat2(NO_FD, ZERO, ZERO, ZERO);
    "unlink": SYS_unlink(ZERO);
    "mount": SYS_mount(ZERO, ZERO, ZERO, ZERO, ZERO);
    "unshare": SYS_unshare(libc::CLONE_NEWUSER);
    "enter-a-namespace": SYS_setns(NO_FD, ZERO);
    "change-root": SYS_chroot(ZERO);
    "svm": SYS_ioctl(ZERO, AMDKFD_IOC_SVM);
    "io-uring": SYS_io_uring_setup(ONE, ZERO);
    "bpf": SYS_bpf(ZERO, ZERO, ZERO);
    "perf": SYS_perf_event_open(ZERO, ZERO, ZERO, ZERO, ZERO);
    "userfaultfd": SYS_userfaultfd(ZERO);
    "keys": SYS_add_key(ZERO, ZERO, ZERO, ZERO, ZERO);
    "module": SYS_init_module(ZERO, ZERO, ZERO);
    "become-dumpable": SYS_prctl(libc::PR_SET_DUMPABLE, ONE, ZERO, ZERO, ZERO);
    "raise-a-limit": SYS_prlimit64(ZERO, libc::RLIMIT_CORE, ZERO, ZERO);
    "change-user": SYS_setuid(ZERO);
    "shared-memory-by-key": SYS_shmget(ZERO, PAGE, ZERO);
    "reboot": SYS_reboot(ZERO, ZERO, ZERO, ZERO);
};
