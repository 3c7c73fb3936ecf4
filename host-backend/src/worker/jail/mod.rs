//! How a worker locks itself in, before it looks at the first byte of a guest.
//!
//! Twice: [`leave`] takes away what needs no file, before the GPU is opened, and [`lock`] the rest. Both want the process to
//! have one thread, because some of it holds for the calling thread and its children only.

mod policy;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetError, RulesetStatus, Scope,
};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, set_no_new_privs, unshare_unsafe,
};

pub use policy::{Policy, Rule, Verdict};

/// Descriptors that a worker may have open.
const DESCRIPTORS: u64 = 4096;

/// Why a worker cannot be locked in.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// A system call that must not fail.
    #[error("cannot {0}: {1}")]
    Call(&'static str, Errno),
    /// Threads that would stay outside.
    #[error("a bug: the worker has {0} threads before it is locked in")]
    Threads(usize),
    /// The system does not say how many threads there are.
    #[error("cannot count the threads of the worker: {0}")]
    Unknown(std::io::Error),
    /// Landlock refuses the rules.
    #[error("cannot deny access to files: {0}")]
    Landlock(#[from] RulesetError),
    /// The filter of system calls cannot be made.
    #[error("cannot make the filter of system calls: {0}")]
    Filter(#[from] seccompiler::BackendError),
    /// The filter of system calls cannot be applied.
    #[error("cannot filter system calls: {0}")]
    Apply(#[from] seccompiler::Error),
}

fn call(what: &'static str) -> impl FnOnce(Errno) -> JailError {
    move |errno| JailError::Call(what, errno)
}

/// Leaves the namespaces and gives up the privileges of the daemon, as far as the system lets it: what it does not is
/// logged. Files that this user may open can still be opened.
///
/// # Errors
/// When what every system lets a process do fails.
pub fn leave() -> Result<(), JailError> {
    alone()?;
    set_no_new_privs(true).map_err(call("give up new privileges"))?;
    let own = UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if unshare(UnshareFlags::NEWUSER | own).is_ok() {
        keep_ids(user.as_raw(), group.as_raw());
    } else if let Err(errno) = unshare(own) {
        log::warn!(
            "this worker shares the namespaces of the daemon: the system lets it have none of its own ({errno})"
        );
    } else {
        log::warn!(
            "this worker shares the user namespace of the daemon: the system lets it have none of its own"
        );
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, none).map_err(call("give up capabilities"))
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the table of descriptors is not among the flags.
    unsafe { unshare_unsafe(flags) }
}

/// The user and the group keep their numbers in the new namespace, for logs; nothing depends on it.
fn keep_ids(user: u32, group: u32) {
    for (file, content) in [
        ("uid_map", format!("{user} {user} 1")),
        ("setgroups", "deny".to_owned()),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        if let Err(error) = std::fs::write(format!("/proc/self/{file}"), content) {
            log::debug!("the user namespace of this worker is empty: {file}: {error}");
            return;
        }
    }
}

/// Locks the worker in: no more files, and only the system calls of the policy.
///
/// # Errors
/// When it cannot be locked in as far as every supported kernel can.
pub fn lock(policy: &Policy) -> Result<(), JailError> {
    alone()?;
    // Its memory is the guest's, and other workers of the same user are not to look into it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(call("forbid dumps of the memory"))?;
    limit(Resource::Core, 0).map_err(call("forbid dumps of the memory"))?;
    limit(Resource::Nofile, DESCRIPTORS).map_err(call("limit the descriptors"))?;
    deny_files()?;
    for filter in policy.compile()? {
        seccompiler::apply_filter(&filter)?;
    }
    Ok(())
}

fn limit(resource: Resource, most: u64) -> Result<(), Errno> {
    let hard = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let most = Some(most.min(hard));
    setrlimit(resource, Rlimit { current: most, maximum: most })
}

/// No path, no port, no socket outside can be used from now on, as far as this kernel knows how to forbid it.
fn deny_files() -> Result<(), JailError> {
    let abi = ABI::V6;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .restrict_self()?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => {}
        RulesetStatus::PartiallyEnforced => {
            log::info!(
                "this kernel's landlock is old: only the filter of system calls keeps this worker from some accesses"
            );
        }
        RulesetStatus::NotEnforced => {
            log::warn!(
                "this kernel has no landlock: only the filter of system calls keeps this worker from files"
            );
        }
    }
    Ok(())
}

/// What is done here holds for this thread and what it starts.
fn alone() -> Result<(), JailError> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(JailError::Unknown)?.count();
    if threads == 1 { Ok(()) } else { Err(JailError::Threads(threads)) }
}
