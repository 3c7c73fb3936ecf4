//! Flattened calls from a wire, and the description of arguments.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::kfd::describe::describe;
use protocol::kfd::flat::{FlatCall, FlatWrites};
use protocol::kfd::ioctl::{Family, Ioctl};

fuzz_target!(|data: &[u8]| {
    if let Ok(call) = FlatCall::decode(data) {
        assert_eq!(FlatCall::decode(&call.encode()).as_ref(), Ok(&call));
    }
    if let Ok(writes) = FlatWrites::decode(data) {
        assert_eq!(FlatWrites::decode(&writes.encode()).as_ref(), Ok(&writes));
    }
    let Some((nr, args)) = data.split_first() else { return };
    for family in [Family::Mainline, Family::Rocm] {
        if let Some(ioctl) = Ioctl::from_nr(*nr, family) {
            let _ = describe(ioctl, args);
            let _ = ioctl.decl().reaches(args).count();
        }
    }
});
