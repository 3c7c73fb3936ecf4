//! Events: ids, limits, the event page.

use std::os::fd::AsRawFd;

use protocol::Errno;
use protocol::kfd::args::{CreateEventArgs, DestroyEventArgs, ResetEventArgs, SetEventArgs};
use protocol::kfd::constants::EventType;
use protocol::kfd::ioctl::Ioctl;

use crate::calls::{Kfd, Outcome, line, outcome};

pub fn run(kfd: &Kfd) {
    kinds(kfd);
    let page = page(kfd);
    states(kfd);
    limit(kfd, page);
}

/// CREATE_EVENT.
pub fn create(kfd: &Kfd, kind: u32, auto_reset: u32) -> (Outcome, CreateEventArgs) {
    let mut args = CreateEventArgs {
        event_type: kind,
        auto_reset,
        event_id: 77,
        event_trigger_data: 77,
        event_slot_index: 77,
        ..Default::default()
    };
    let result = kfd.call(Ioctl::CreateEvent, &mut args);
    (result, args)
}

/// A signal event that must come into being.
pub fn signal(kfd: &Kfd, auto_reset: u32) -> u32 {
    let (result, args) = create(kfd, EventType::SIGNAL.0, auto_reset);
    assert_eq!(result, Ok(0), "a signal event");
    args.event_id
}

pub fn destroy(kfd: &Kfd, event_id: u32) -> Outcome {
    kfd.call(Ioctl::DestroyEvent, &mut DestroyEventArgs { event_id, ..Default::default() })
}

pub fn set(kfd: &Kfd, event_id: u32) -> Outcome {
    kfd.call(Ioctl::SetEvent, &mut SetEventArgs { event_id, ..Default::default() })
}

pub fn reset(kfd: &Kfd, event_id: u32) -> Outcome {
    kfd.call(Ioctl::ResetEvent, &mut ResetEventArgs { event_id, ..Default::default() })
}

/// `mmap` of `/dev/kfd`; 0 if it works. The mapping is left in place.
pub fn mmap(kfd: &Kfd, offset: u64, len: usize) -> Outcome {
    mmap_at(kfd.0.as_raw_fd(), offset, len).map(|_| 0)
}

/// `mmap` of a descriptor, with the address of the mapping.
pub fn mmap_at(fd: i32, offset: u64, len: usize) -> Result<*mut u64, Errno> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice; nothing else is replaced.
    let addr = unsafe {
        libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, offset.cast_signed())
    };
    if addr == libc::MAP_FAILED { Err(outcome(-1).err().unwrap_or(Errno::EIO)) } else { Ok(addr.cast()) }
}

fn kinds(kfd: &Kfd) {
    for kind in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1000, u32::MAX] {
        let (result, args) = create(kfd, kind, 0);
        let rest = format!(
            "id {:#x} trigger {:#x} slot {} page {}",
            args.event_id,
            args.event_trigger_data,
            args.event_slot_index,
            args.event_page_offset != 0
        );
        line(&format!("CREATE_EVENT of type {kind}"), result, &rest);
        let id = args.event_id;
        line(&format!("SET_EVENT of type {kind}"), set(kfd, id), "");
        line(&format!("RESET_EVENT of type {kind}"), reset(kfd, id), "");
    }
    let mut args =
        CreateEventArgs { event_page_offset: 0x1234_0000_0001, event_id: 77, ..Default::default() };
    let result = kfd.call(Ioctl::CreateEvent, &mut args);
    line("CREATE_EVENT with the handle of a page", result, &format!("id {}", args.event_id));
    for id in [0, 3, 4095, 4096, 0x3fff_ffff, 0x4fff_ffff, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        line(&format!("SET_EVENT {id:#x}"), set(kfd, id), "");
        line(&format!("RESET_EVENT {id:#x}"), reset(kfd, id), "");
        line(&format!("DESTROY_EVENT {id:#x}"), destroy(kfd, id), "");
    }
    line("DESTROY_EVENT 1", destroy(kfd, 1), "");
    line("DESTROY_EVENT 1 again", destroy(kfd, 1), "");
    line("the lowest free id comes next", create(kfd, 0, 0).0, &format!("{}", signal(kfd, 0)));
}

/// The event page; returns its offset.
fn page(kfd: &Kfd) -> u64 {
    let (_, args) = create(kfd, 0, 0);
    let offset = args.event_page_offset;
    line("mmap of nothing", mmap(kfd, 0, 4096), "");
    line("mmap of no GPU's doorbells", mmap(kfd, 3 << 62, 8192), "");
    line("mmap of no GPU's reserved memory", mmap(kfd, 1 << 62, 8192), "");
    line("mmap of 36 KiB of the event page", mmap(kfd, offset, 9 * 4096), "");
    line("mmap of 4 KiB of the event page", mmap(kfd, offset, 4096), "");
    line("mmap of the event page", mmap(kfd, offset, 8 * 4096), "");
    if let Ok(page) = mmap_at(kfd.0.as_raw_fd(), offset, 8 * 4096) {
        let slot = page.wrapping_add(2);
        // SAFETY: slot 2 is inside of the page, which is mapped for reading until the program ends. The kernel
        // writes to it from outside of Rust, so the access is volatile.
        let slot = unsafe { slot.read_volatile() };
        line("slot 2 of the event page", Ok(0), &format!("{slot:#x}"));
    }
    offset
}

fn states(kfd: &Kfd) {
    let id = signal(kfd, 0);
    for round in 0..3 {
        line(&format!("SET_EVENT, round {round}"), set(kfd, id), "");
        line(&format!("RESET_EVENT, round {round}"), reset(kfd, id), "");
    }
    line("DESTROY_EVENT of a set event", set(kfd, id).and_then(|_| destroy(kfd, id)), "");
}

fn limit(kfd: &Kfd, page: u64) {
    for (name, len) in [("4 KiB", 4096), ("32 KiB", 8 * 4096)] {
        line(&format!("mmap of {name} of the event page before the limit"), mmap(kfd, page, len), "");
        let mut ids = Vec::new();
        let error = loop {
            let (result, args) = create(kfd, 0, 1);
            match result {
                Ok(_) => ids.push(args.event_id),
                Err(error) => break error,
            }
        };
        let highest = ids.iter().max().copied().unwrap_or(0);
        line(
            &format!("CREATE_EVENT with {name} mapped until it fails"),
            Err(error),
            &format!("highest id {highest}"),
        );
        line("CREATE_EVENT of type debug at the limit", create(kfd, EventType::DEBUG_EVENT.0, 0).0, "");
        let (result, args) = create(kfd, EventType::MEMORY.0, 0);
        line("CREATE_EVENT of type memory at the limit", result, "");
        line("DESTROY_EVENT of it", destroy(kfd, args.event_id), "");
        line("DESTROY_EVENT 17 at the limit", destroy(kfd, 17), "");
        let (result, args) = create(kfd, 0, 1);
        line("CREATE_EVENT after that", result, &format!("id {}", args.event_id));
        let destroyed = ids.iter().filter(|id| **id != 17 && destroy(kfd, **id) == Ok(0)).count();
        line(
            "DESTROY_EVENT of all of them",
            Ok(0),
            &format!("{}", destroyed == ids.iter().filter(|id| **id != 17).count()),
        );
    }
}
