//! Locks that no other thread holds during a fork: a forked child has the forking thread alone, and would find them locked
//! for ever.

use std::cell::UnsafeCell;

/// A mutex that the handlers of a fork hold from before it until after it, in the parent and in the child.
///
/// It is the C library's: the locks of Rust have no unlock without the guard, which no handler can hand to the next.
pub struct ForkLock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is for several threads; it is only used by the functions of the C library below.
unsafe impl Sync for ForkLock {}

/// Holds a lock until it is dropped, by a panic too.
#[must_use]
pub struct Held<'a>(&'a ForkLock);

impl ForkLock {
    /// One that nobody holds.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Waits for the lock. A thread that holds it must neither ask again nor fork.
    pub fn hold(&self) -> Held<'_> {
        self.lock();
        Held(self)
    }

    /// In the handler before a fork.
    pub fn lock(&self) {
        // SAFETY: an initialised mutex in a static, which never moves.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// In the handlers after a fork: the same thread has locked it, or in the child was it before the fork.
    pub fn unlock(&self) {
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

impl Default for ForkLock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}
