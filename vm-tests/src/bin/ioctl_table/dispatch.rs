//! Numbers, sizes, and pointers to the argument struct itself.

use protocol::kfd::args::GetVersionArgs;
use protocol::kfd::constants::EventType;
use protocol::kfd::ioctl::Ioctl;

use crate::calls::{Edges, Kfd, address, line};

pub fn run(kfd: &Kfd) {
    numbers(kfd);
    sizes(kfd);
    pointers(kfd);
}

fn numbers(kfd: &Kfd) {
    for nr in [0x00, 0x27, 0x28, 0x40, 0x7f, 0x80, 0x82, 0x87, 0xff] {
        let mut bytes = [0_u64; 8];
        line(&format!("number {nr:#04x}"), kfd.raw(0xc040_4b00 | nr, address(&mut bytes)), "");
        line(&format!("number {nr:#04x} at NULL"), kfd.raw(0xc040_4b00 | nr, 0), "");
    }
    for direction in [0x0000_4b01, 0x4008_4b01, 0x8008_4b01, 0xc008_4b01] {
        let mut args = GetVersionArgs { major_version: 77, minor_version: 77 };
        let result = kfd.raw(direction, address(&mut args));
        let rest = format!("{}.{}", args.major_version, args.minor_version);
        line(&format!("GET_VERSION as {direction:#010x}"), result, &rest);
    }
}

fn sizes(kfd: &Kfd) {
    for size in [0_u32, 1, 4, 7, 8, 9, 16, 200, 0x3fff] {
        let mut bytes = vec![0xee_u8; 0x4000];
        let request = 0x8000_4b01 | size << 16;
        let result = kfd.raw(request, bytes.as_mut_ptr().expose_provenance() as u64);
        let touched = bytes.iter().rposition(|byte| *byte != 0xee).map_or(0, |last| last + 1);
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        line(
            &format!("GET_VERSION of {size} bytes"),
            result,
            &format!("wrote up to {touched}, zeros {zeros}"),
        );
    }
    // CREATE_EVENT reads and writes; a request that is too short misses fields.
    for size in [8_u32, 12, 16, 20, 31, 32, 48] {
        let mut words = [0_u32; 16];
        words[3] = EventType::MEMORY.0;
        words[12] = 0xabcd;
        let result = kfd.raw(0xc000_4b08 | size << 16, address(&mut words));
        let rest = format!("id {:#x} trigger {:#x} behind {:#x}", words[6], words[2], words[12]);
        line(&format!("CREATE_EVENT of {size} bytes"), result, &rest);
    }
}

fn pointers(kfd: &Kfd) {
    let edges = Edges::map();
    let places = [
        ("NULL", 0),
        ("1", 1),
        ("kernel", 0xffff_8000_0000_0000),
        ("top", u64::MAX),
        ("end of user space", 0x7fff_ffff_f000),
        ("read-only", edges.read_only()),
        ("half read-only", edges.read_only() - 4),
        ("untouchable", edges.nowhere()),
        ("half untouchable", edges.nowhere() - 4),
        ("writable, odd", edges.writable() + 1),
    ];
    for (name, addr) in places {
        line(&format!("GET_VERSION at {name}"), kfd.raw(Ioctl::GetVersion.request(), addr), "");
        line(&format!("SET_EVENT at {name}"), kfd.raw(Ioctl::SetEvent.request(), addr), "");
        line(&format!("GET_CLOCK_COUNTERS at {name}"), kfd.raw(Ioctl::GetClockCounters.request(), addr), "");
        line(&format!("SVM at {name}"), kfd.raw(Ioctl::Svm.request(), addr), "");
    }
}
