//! Which system calls a worker may make, and why.
//!
//! Everything else kills the worker. A call is here because something that a worker does after it locked itself in needs
//! it; the test `tests/jail` takes one rule away after the other and shows which.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::gpu::Gpu;
use crate::worker::kfd::{Permissions, kernel_calls};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is made.
    Allow,
    /// It is made if this argument, of which only the bits of the mask are looked at, has this value; else it kills.
    AllowIf {
        /// Which argument, from 0.
        argument: u8,
        /// Bits that matter.
        mask: u64,
        /// Their value.
        value: u64,
    },
    /// It fails with this error.
    Fail(c_int),
}

/// A rule of the policy.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Name of the call.
    pub name: &'static str,
    /// Its number.
    pub number: c_long,
    /// What happens to it.
    pub verdict: Verdict,
    /// Why it is needed.
    pub why: &'static str,
}

macro_rules! rules {
    ($($call:ident: $verdict:expr, $why:literal;)*) => {
        &[$(Rule { name: stringify!($call), number: libc::$call, verdict: $verdict, why: $why },)*]
    };
}

const NO_CODE: u64 = libc::PROT_EXEC.unsigned_abs() as u64;
const THREAD: u64 = libc::CLONE_THREAD.unsigned_abs() as u64;

/// What every worker needs.
const COMMON: &[Rule] = rules! {
    SYS_recvmsg: Verdict::Allow, "messages of the device process";
    SYS_sendto: Verdict::Allow, "messages to the device process";
    SYS_fstat: Verdict::Allow, "length of a message in a memfd";
    SYS_pread64: Verdict::Allow, "content of a message in a memfd";
    SYS_close: Verdict::Allow, "files with guest memory, when no blob lies in them";
    SYS_write: Verdict::Allow, "the log (standard error), and wake-ups of threads";
    SYS_mmap: Verdict::AllowIf { argument: 2, mask: NO_CODE, value: 0 }, "aliases of blobs, the heap; never code";
    SYS_munmap: Verdict::Allow, "aliases of blobs, the heap";
    SYS_mprotect: Verdict::AllowIf { argument: 2, mask: NO_CODE, value: 0 }, "stacks and the heap; never code";
    SYS_madvise: Verdict::Allow, "memory of threads that end";
    SYS_mremap: Verdict::Allow, "long lists grow in place";
    SYS_brk: Verdict::Allow, "the heap";
    SYS_getrandom: Verdict::Allow, "keys of hash tables";
    SYS_futex: Verdict::Allow, "locks, condition variables, the end of threads";
    SYS_clone: Verdict::AllowIf { argument: 0, mask: THREAD, value: THREAD }, "threads; never processes";
    SYS_clone3: Verdict::Fail(libc::ENOSYS), "its flags cannot be looked at; the C library then takes clone";
    SYS_set_robust_list: Verdict::Allow, "start of a thread";
    SYS_gettid: Verdict::Allow, "start of a thread";
    SYS_rseq: Verdict::Allow, "start of a thread";
    SYS_prctl: Verdict::AllowIf { argument: 0, mask: u64::MAX, value: libc::PR_SET_NAME.unsigned_abs() as u64 },
        "names of threads";
    SYS_sigaltstack: Verdict::Allow, "start and end of a thread: the stack on which an overflow is reported";
    SYS_rt_sigaction: Verdict::Allow, "the first thread: the C library handles a signal of its own";
    SYS_rt_sigprocmask: Verdict::Allow, "start and end of a thread";
    SYS_sched_getaffinity: Verdict::Allow, "how many processors there are";
    SYS_sched_yield: Verdict::Allow, "a short wait for another thread";
    SYS_clock_nanosleep: Verdict::Allow, "pauses of threads that poll";
    SYS_restart_syscall: Verdict::Allow, "a pause goes on after the worker was stopped";
    SYS_openat: Verdict::Fail(libc::EACCES), "nothing is opened; what asks (how many processors, a panic's backtrace) goes on";
    SYS_exit: Verdict::Allow, "end of a thread";
    SYS_exit_group: Verdict::Allow, "end of the worker";
};

const HOLE: u64 =
    libc::FALLOC_FL_PUNCH_HOLE.unsigned_abs() as u64 | libc::FALLOC_FL_KEEP_SIZE.unsigned_abs() as u64;

/// What the software GPU needs.
const SOFT: &[Rule] = rules! {
    SYS_fallocate: Verdict::AllowIf { argument: 1, mask: u64::MAX, value: HOLE }, "pages of buffers that are freed";
    SYS_lseek: Verdict::Allow, "what is written of a buffer that moves into the window";
};

/// What is needed on some machines only: here nothing may show it.
const ELSEWHERE: &[Rule] = rules! {
    SYS_clock_gettime: Verdict::Allow, "the time, on machines whose clock cannot be read without the kernel";
};

/// What builds with assertions need, which nobody ships.
const ASSERTIONS: &[Rule] = rules! {
    SYS_fcntl: Verdict::AllowIf { argument: 1, mask: u64::MAX, value: libc::F_GETFD.unsigned_abs() as u64 },
        "whether a descriptor is open that is closed";
};

/// What the kernel's KFD needs: the calls that guests can make, each by the letter and number of its request. Shared virtual
/// memory is not among them: with it a guest could have the GPU reach all memory of the worker.
fn kernel_rules(permissions: Permissions) -> impl Iterator<Item = Rule> {
    kernel_calls(permissions).map(|(why, number)| Rule {
        name: "SYS_ioctl",
        number: libc::SYS_ioctl,
        verdict: Verdict::AllowIf { argument: 1, mask: 0xffff, value: number.into() },
        why,
    })
}

/// A set of rules.
#[derive(Clone, Debug)]
pub struct Policy(Vec<Rule>);

impl Policy {
    /// These rules and no others.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Policy {
        Policy(rules)
    }

    /// The rules for a worker with this GPU, whose guest may do this.
    #[must_use]
    pub fn of(gpu: &Gpu, permissions: Permissions) -> Policy {
        let mut rules = [COMMON, ELSEWHERE].concat();
        match gpu {
            Gpu::Soft(_) => rules.extend(SOFT),
            Gpu::Kfd(_) => rules.extend(kernel_rules(permissions)),
        }
        if cfg!(debug_assertions) {
            rules.extend(ASSERTIONS);
        }
        rules.sort_by_key(|rule| rule.name);
        Policy(rules)
    }

    /// Names of calls that machines like this one may never see.
    pub fn elsewhere() -> impl Iterator<Item = &'static str> {
        ELSEWHERE.iter().map(|rule| rule.name)
    }

    /// All rules, by name.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// The same policy without the rules of this name, so that such calls kill.
    #[must_use]
    pub fn without(mut self, name: &str) -> Policy {
        self.0.retain(|rule| rule.name != name);
        self
    }

    /// The filters: a call is made if both let it.
    pub(super) fn compile(&self) -> Result<Vec<BpfProgram>, BackendError> {
        let mut known = BTreeMap::new();
        let mut failing: BTreeMap<c_int, BTreeMap<c_long, Vec<SeccompRule>>> = BTreeMap::new();
        for rule in &self.0 {
            let conditions = match rule.verdict {
                Verdict::Allow => Vec::new(),
                Verdict::AllowIf { argument, mask, value } => vec![only(argument, mask, value)?],
                Verdict::Fail(errno) => {
                    failing.entry(errno).or_default().insert(rule.number, Vec::new());
                    Vec::new()
                }
            };
            let chain: &mut Vec<SeccompRule> = known.entry(rule.number).or_default();
            chain.extend(conditions);
        }
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let mut filters = Vec::new();
        for (errno, calls) in failing {
            let errno = SeccompAction::Errno(errno.unsigned_abs());
            filters.push(SeccompFilter::new(calls, SeccompAction::Allow, errno, arch)?.try_into()?);
        }
        let kill = SeccompFilter::new(known, SeccompAction::KillProcess, SeccompAction::Allow, arch)?;
        // The last one that is applied is the one that forbids to apply more.
        filters.push(kill.try_into()?);
        Ok(filters)
    }
}

/// The rule that an argument has this value in these bits.
fn only(argument: u8, mask: u64, value: u64) -> Result<SeccompRule, BackendError> {
    let operator = SeccompCmpOp::MaskedEq(mask);
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_unconditional_rule_or_conditional_ones_and_every_rule_a_reason() {
        for gpu in [Gpu::Soft(softgpu::Profile::Mi210), Gpu::Kfd("/dev/kfd".into())] {
            let policy = Policy::of(&gpu, Permissions::default());
            for rule in policy.rules() {
                let same: Vec<_> =
                    policy.rules().iter().filter(|other| other.number == rule.number).collect();
                let conditional = same.iter().all(|rule| matches!(rule.verdict, Verdict::AllowIf { .. }));
                assert!(same.len() == 1 || conditional, "{}", rule.name);
                assert!(!rule.why.is_empty() && rule.name.starts_with("SYS_"));
            }
            // Two kinds of failures and what is allowed.
            assert_eq!(policy.compile().unwrap().len(), 3);
        }
    }
}
