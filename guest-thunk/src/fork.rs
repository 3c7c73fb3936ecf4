//! Whether this is still the process that opened the device.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;

/// What stands in the page of the process that made the mark. A child finds 0.
const HERE: u32 = 1;

/// Tells the process that made it from its forked children.
///
/// Each call asks, so it must cost no system call: a page of its own is marked to be wiped in children
/// (`MADV_WIPEONFORK`, Linux 4.14), also of a bare `fork` system call that runs no handlers of the C library.
/// Where that is not to be had, the process id is compared. A child that shares the address space (`vfork`)
/// counts as the process itself, whose memory it works on.
#[derive(Debug)]
pub(crate) struct ForkMark {
    page: Option<NonNull<AtomicU32>>,
    pid: u32,
}

// SAFETY: the page holds one atomic word, is written only through it, and lives as long as the mark.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// A mark of this process.
    pub(crate) fn new() -> Self {
        let page = wiped_in_children();
        if let Some(page) = page {
            // SAFETY: the page was just mapped, is aligned and zeroed (a valid `AtomicU32`), and is not
            // unmapped before `drop`.
            unsafe { page.as_ref() }.store(HERE, Ordering::Relaxed);
        }
        Self { page, pid: std::process::id() }
    }

    /// A mark that compares process ids, as where the kernel cannot wipe pages.
    #[cfg(test)]
    fn by_pid() -> Self {
        Self { page: None, pid: std::process::id() }
    }

    /// Whether this process made the mark.
    pub(crate) fn is_here(&self) -> bool {
        match self.page {
            // SAFETY: as in `new`; in a child the page is zeroed, which is a valid value too.
            Some(page) => unsafe { page.as_ref() }.load(Ordering::Relaxed) == HERE,
            None => std::process::id() == self.pid,
        }
    }

    /// Id of the process that made the mark.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        if let Some(page) = self.page {
            // SAFETY: `wiped_in_children` mapped this one page, and nobody borrows it any more. A child has a
            // mapping of its own at the same address.
            let unmapped = unsafe { munmap(page.as_ptr().cast(), page_size()) };
            debug_assert!(unmapped.is_ok(), "the page was mapped");
        }
    }
}

/// A zeroed page that children find zeroed, or `None` if the kernel has no such thing.
fn wiped_in_children() -> Option<NonNull<AtomicU32>> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches nothing.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), page_size(), prot, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page was just mapped and nothing is in it yet.
    if unsafe { madvise(page, page_size(), Advice::LinuxWipeOnFork) }.is_ok() {
        return NonNull::new(page.cast());
    }
    // SAFETY: the page was just mapped, and nobody has its address.
    let unmapped = unsafe { munmap(page, page_size()) };
    debug_assert!(unmapped.is_ok(), "the page was mapped");
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_a_child;

    #[test]
    fn a_mark_is_here_and_not_in_a_forked_child() {
        let (wiped, by_pid) = (ForkMark::new(), ForkMark::by_pid());
        assert!(wiped.page.is_some(), "this kernel wipes pages");
        assert!(wiped.is_here() && by_pid.is_here());
        assert!(in_a_child(|| !wiped.is_here() && !by_pid.is_here()));
        assert!(wiped.is_here() && by_pid.is_here());
    }
}
