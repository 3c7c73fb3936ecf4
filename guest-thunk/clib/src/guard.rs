//! What every entry point has in common: a panic boundary, no cancellation, a trace line, and the status as C's number.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hsakmt::Result;
use protocol::hsakmt::Status;

/// `HSAKMT_STATUS_SUCCESS`.
pub const SUCCESS: u32 = 0;

/// `PTHREAD_CANCEL_DISABLE` of `<pthread.h>`.
const CANCEL_DISABLE: c_int = 1;
/// `PTHREAD_CANCEL_DEFERRED`.
const CANCEL_DEFERRED: c_int = 0;

unsafe extern "C" {
    /// Of the C library; the crate `libc` does not declare it for Linux.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    /// As above.
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// Keeps `pthread_cancel` away from this thread until it is dropped.
///
/// A thread is cancelled by unwinding it from an `open`, `read` or `write`, of the log too. Rust's frames cannot be unwound so:
/// the process would be aborted, or a lock stay held. The thread is cancelled after the call, at its next cancellation point: also a
/// thread that asked to be cancelled anywhere, in which hardly any function may be called (`pthread_setcanceltype(3)`).
pub struct Uncancelled(c_int);

/// Whether an entry point only looks into memory: nothing in it can be cancelled, unless it writes into the log. Programs call
/// these all the time, and two calls of the C library would double what they cost.
#[must_use]
pub const fn only_looks(name: &str) -> bool {
    matches!(name.as_bytes(), b"hsaKmtQueryPointerInfo" | b"hsaKmtSetMemoryUserData")
}

impl Uncancelled {
    /// For a call of which [`only_looks`] is known.
    #[must_use]
    pub fn for_call(only_looks: bool) -> Option<Self> {
        // What such a call has to say is of this level.
        (!only_looks || log::max_level() >= log::LevelFilter::Debug).then(Self::new)
    }

    /// From now on.
    #[must_use]
    pub fn new() -> Self {
        let mut old = 0;
        // SAFETY: the state is one of the two that there are, and `old` can be written. It does not fail.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut old) };
        Self(old)
    }
}

impl Default for Uncancelled {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut now = 0;
        // SAFETY: the type is one of the two that there are, and `now` can be written. This type cancels nothing here.
        unsafe { pthread_setcanceltype(CANCEL_DEFERRED, &raw mut now) };
        // SAFETY: the state is the one that the thread had, and `now` can be written. With the type that was just set it unwinds
        // nothing.
        unsafe { pthread_setcancelstate(self.0, &raw mut now) };
    }
}

/// Runs the body of the entry point `name`.
///
/// A panic is a defect of ours. It must not unwind into C, and the caller gets `ERROR` and a line in the log.
pub fn guard(name: &str, body: impl FnOnce() -> Result<()>) -> u32 {
    let status = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(status)) => {
            log::debug!("{name}: {status} ({})", status.code());
            status.code()
        }
        Err(_) => {
            log::error!("{name} failed on a defect of this library; the call is abandoned");
            Status::Error.code()
        }
    };
    log::trace!("{name} returns {status}");
    status
}

/// Declares entry points of `hsakmt.h`: `fn name(arguments) { body that gives Result<()> }`.
macro_rules! entry {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Pointers are what `hsakmt.h` asks for: NULL, or valid for what the other arguments say.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
            const ONLY_LOOKS: bool = $crate::guard::only_looks(stringify!($name));
            let _uncancelled = $crate::guard::Uncancelled::for_call(ONLY_LOOKS);
            log::trace!(concat!(stringify!($name), "{:?}"), ($(&$arg,)*));
            $crate::guard::guard(stringify!($name), move || -> hsakmt::Result<()> { $body })
        }
    )*
        /// The names of these entry points.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

/// Declares names that are exported and not there yet: they answer one status, and the log names them. `$first` comes
/// before that.
macro_rules! refuse {
    ($names:ident, $first:expr, $status:expr, $why:literal: $($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: ", $why, ".")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> u32 {
            let _uncancelled = $crate::guard::Uncancelled::new();
            $crate::guard::guard(stringify!($name), || {
                $first?;
                log::warn!(concat!(stringify!($name), ": ", $why));
                Err($status)
            })
        }
    )*
        /// These names, and why they are refused.
        pub(crate) const $names: (&str, &[&str]) = ($why, &[$(stringify!($name)),*]);
    };
}

pub(crate) use {entry, refuse};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_only_look_stay_as_they_are() {
        assert!(only_looks("hsaKmtQueryPointerInfo") && !only_looks("hsaKmtAllocMemory"));
        assert!(Uncancelled::for_call(false).is_some());
        // No logger is set up in this program.
        assert!(Uncancelled::for_call(true).is_none());
    }

    #[test]
    fn a_panic_is_a_status() {
        assert_eq!(guard("a panic", || panic!("on purpose")), Status::Error.code());
        assert_eq!(guard("success", || Ok(())), SUCCESS);
        assert_eq!(guard("failure", || Err(Status::NotSupported)), 11);
    }
}
