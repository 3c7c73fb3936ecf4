use std::collections::HashSet;

use super::*;
use crate::Errno;

/// `value` as the field `name` of the arguments of `ioctl`, the rest zero.
fn args_with(ioctl: Ioctl, values: &[(&str, u64)]) -> Vec<u8> {
    let decl = ioctl.decl();
    let mut bytes = vec![0; decl.args.size];
    for (name, value) in values {
        let field = decl.args.fields.iter().find(|f| f.name == *name).expect("field of the struct");
        bytes[field.offset..field.offset + field.size].copy_from_slice(&value.to_le_bytes()[..field.size]);
    }
    bytes
}

fn extents(ioctl: Ioctl, args: &[u8]) -> Vec<Result<Extent, Errno>> {
    let decl = ioctl.decl();
    decl.reaches(args).flat_map(|reach| reach.pointers.iter().map(|p| p.extent(args))).collect()
}

#[test]
fn names_and_numbers_are_unique_within_a_family() {
    for family in [Family::Mainline, Family::Rocm] {
        let of_family = Ioctl::ALL.iter().filter(|i| i.decl().kernels.includes(family));
        let mut numbers = HashSet::new();
        let mut names = HashSet::new();
        for ioctl in of_family {
            assert!(numbers.insert(ioctl.nr()), "{ioctl:?}");
            assert!(names.insert(ioctl.name()), "{ioctl:?}");
            assert_eq!(Ioctl::from_nr(ioctl.nr(), family), Some(*ioctl));
            assert_eq!(Ioctl::from_request(ioctl.request(), family), Some(*ioctl));
        }
        assert_eq!(numbers.len(), if family == Family::Mainline { 40 } else { 46 });
    }
}

#[test]
fn there_are_46_names_in_48_layouts() {
    let names: HashSet<_> = Ioctl::ALL.iter().map(|i| i.name()).collect();
    assert_eq!(names.len(), 46);
    assert_eq!(Ioctl::ALL.len(), 48);
}

#[test]
fn numbers_without_an_ioctl_select_nothing() {
    // AMDKFD_COMMAND_START is 1, AMDKFD_COMMAND_END 0x29; ROCm's second range is 0x80 to 0x87, without 0x82.
    for nr in [0, 0x29, 0x7f, 0x82, 0x88, 0xff] {
        assert_eq!(Ioctl::from_nr(nr, Family::Mainline), None, "{nr:#x}");
        assert_eq!(Ioctl::from_nr(nr, Family::Rocm), None, "{nr:#x}");
    }
    assert_eq!(Ioctl::from_nr(0x80, Family::Mainline), None);
    // Mainline's PROFILER; ROCm's has number 0x86.
    assert_eq!(Ioctl::from_nr(0x28, Family::Rocm), None);
}

#[test]
fn the_number_alone_selects() {
    // Type 'd' instead of 'K', no direction, size 3.
    let odd = (3 << 16) | (u32::from(b'd') << 8) | 0x0c;
    assert_eq!(Ioctl::from_request(odd, Family::Mainline), Some(Ioctl::WaitEvents));
}

#[test]
fn an_interface_version_has_the_ioctls_of_its_time() {
    // Linux 6.12 is KFD 1.17 and ends with DBG_TRAP; 7.3 is 1.23.
    assert!(Ioctl::DbgTrap.exists_in(Family::Mainline, 17));
    assert!(!Ioctl::CreateProcess.exists_in(Family::Mainline, 17));
    assert!(!Ioctl::Profiler.exists_in(Family::Mainline, 17));
    assert!(Ioctl::Profiler.exists_in(Family::Mainline, 23));
    assert!(!Ioctl::IpcExportHandle.exists_in(Family::Mainline, 23));
    assert!(!Ioctl::SmiEvents.exists_in(Family::Mainline, 2));
}

#[test]
fn missing_bytes_of_a_field_read_as_zero() {
    let field = FieldRef::of::<crate::kfd::args::WaitEventsArgs>("events_ptr");
    assert_eq!(field.get(&[]), 0);
    assert_eq!(field.get(&[1, 2, 3]), 0x03_02_01);
    assert_eq!(field.get(&[0xff; 64]), u64::MAX);
}

#[test]
fn a_pointer_reaches_as_far_as_its_count_says() {
    let args = args_with(Ioctl::WaitEvents, &[("events_ptr", 0x1000), ("num_events", 3)]);
    assert_eq!(extents(Ioctl::WaitEvents, &args), [Ok(Extent { addr: 0x1000, len: 3 * 48 })]);
    // 65 bits are two whole words (kfd_ioctl_set_cu_mask refuses the call itself).
    let args = args_with(Ioctl::SetCuMask, &[("cu_mask_ptr", 8), ("num_cu_mask", 65)]);
    assert_eq!(extents(Ioctl::SetCuMask, &args), [Ok(Extent { addr: 8, len: 8 })]);
}

#[test]
fn a_length_above_the_bound_is_clamped_or_refused_as_the_kernel_does() {
    let args = args_with(Ioctl::SetCuMask, &[("num_cu_mask", 0xffff_ffe0)]);
    assert_eq!(extents(Ioctl::SetCuMask, &args), [Ok(Extent { addr: 0, len: 128 })]);
    let args = args_with(Ioctl::WaitEvents, &[("num_events", 0xffff_ffff)]);
    assert_eq!(extents(Ioctl::WaitEvents, &args), [Err(Errno::ENOMEM)]);
    let args = args_with(Ioctl::MapMemoryToGpu, &[("n_devices", 0x10_0001)]);
    assert_eq!(extents(Ioctl::MapMemoryToGpu, &args), [Err(Errno::ENOMEM)]);
}

#[test]
fn the_operation_decides_what_dbg_trap_reaches() {
    // Body at 8: SUSPEND_QUEUES has the array's address at 8 + 8, the count at 8 + 16.
    let mut args = vec![0; 32];
    args[4] = 6;
    args[16..24].copy_from_slice(&0xabcd_u64.to_le_bytes());
    args[24] = 2;
    assert_eq!(extents(Ioctl::DbgTrap, &args), [Ok(Extent { addr: 0xabcd, len: 8 })]);
    args[25] = 0x10;
    assert_eq!(extents(Ioctl::DbgTrap, &args), [Err(Errno::EINVAL)]);
    args[4] = 200;
    assert_eq!(extents(Ioctl::DbgTrap, &args), []);
}

#[test]
fn the_callers_stride_counts_in_a_snapshot() {
    let mut args = vec![0; 32];
    args[4] = 13;
    args[24..28].copy_from_slice(&5_u32.to_le_bytes());
    args[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(extents(Ioctl::DbgTrap, &args), [Ok(Extent { addr: 0, len: 5 * u64::from(u32::MAX) })]);
}

#[test]
fn rocms_profiler_contains_pc_sampling() {
    let mut args = vec![0; 40];
    args[0] = 1;
    args[8..16].copy_from_slice(&0x5000_u64.to_le_bytes());
    args[16] = 2;
    assert_eq!(extents(Ioctl::RocmProfiler, &args), [Ok(Extent { addr: 0x5000, len: 80 })]);
    args[20] = 1;
    assert_eq!(extents(Ioctl::RocmProfiler, &args), [Ok(Extent { addr: 0x5000, len: 40 })]);
}

#[test]
fn user_memory_is_shared_by_userptr_and_svm_only() {
    let shared = |ioctl: Ioctl, args: &[u8]| -> Vec<Extent> {
        let reaches = ioctl.decl().reaches(args);
        reaches.flat_map(|r| r.shared.iter().filter_map(|s| s.extent(args))).collect()
    };
    let values = [("mmap_offset", 0x7000), ("size", 0x2000), ("flags", 0x8000_0004)];
    let args = args_with(Ioctl::AllocMemoryOfGpu, &values);
    assert_eq!(shared(Ioctl::AllocMemoryOfGpu, &args), [Extent { addr: 0x7000, len: 0x2000 }]);
    let args = args_with(Ioctl::AllocMemoryOfGpu, &[("mmap_offset", 0x7000), ("size", 0x2000), ("flags", 1)]);
    assert_eq!(shared(Ioctl::AllocMemoryOfGpu, &args), []);
    let args = args_with(Ioctl::Svm, &[("start_addr", 0x9000), ("size", 0x1000), ("op", 0)]);
    assert_eq!(shared(Ioctl::Svm, &args), [Extent { addr: 0x9000, len: 0x1000 }]);
    let args = args_with(Ioctl::Svm, &[("start_addr", 0x9000), ("size", 0x1000), ("op", 1)]);
    assert_eq!(shared(Ioctl::Svm, &args), []);
}

/// S01: the number of attributes is compared with the size of the request, without overflow.
#[test]
fn s01_svm_needs_a_request_that_holds_all_its_attributes() {
    let required = |nattr: u64| Ioctl::Svm.decl().required_size(&args_with(Ioctl::Svm, &[("nattr", nattr)]));
    let one_attribute = 24 + 8;
    assert_eq!(required(0), 24);
    assert_eq!(required(1), one_attribute);
    for nattr in [2, 0x1_0000, 0x2000_0000, 0xffff_ffff] {
        assert!(required(nattr) > one_attribute, "{nattr:#x}");
        assert_eq!(required(nattr), 24 + 8 * nattr);
    }
    // A request without even the header: nattr reads as zero, and the header is still required.
    assert_eq!(Ioctl::Svm.decl().required_size(&[]), 24);
    assert_eq!(Ioctl::WaitEvents.decl().required_size(&[]), 0);
}

#[test]
fn every_request_fits_its_size_field() {
    for ioctl in Ioctl::ALL {
        assert!(ioctl.decl().args.size < 1 << 14, "{ioctl:?}");
    }
}

#[test]
fn element_descriptors_name_a_pointer_of_the_same_reach() {
    fn check(reach: &Reach) {
        for fd in reach.fds {
            if let FdPlace::Element { pointer, field } = fd.place {
                let Length::Array { stride: Stride::Bytes(stride), .. } = reach.pointers[pointer].length
                else {
                    panic!("descriptors stand in arrays of a fixed struct");
                };
                assert!(field.offset + field.size <= usize::try_from(stride).unwrap());
            }
        }
    }
    for ioctl in Ioctl::ALL {
        check(&ioctl.decl().reach);
        for op in ioctl.decl().ops.map(|ops| ops.list).unwrap_or_default() {
            check(&op.reach);
        }
    }
}

#[test]
fn operations_have_the_uapis_names_and_values() {
    use crate::kfd::constants::{CriuOp, DbgTrapOp, PcSampleOp, ProfilerOp, SpmOp, SvmOp};

    let groups = [
        (Ioctl::DbgTrap, DbgTrapOp::NAMES, 15),
        (Ioctl::CriuOp, CriuOp::NAMES, 5),
        (Ioctl::Svm, SvmOp::NAMES, 2),
        (Ioctl::RlcSpm, SpmOp::NAMES, 3),
        (Ioctl::PcSample, PcSampleOp::NAMES, 5),
        (Ioctl::Profiler, ProfilerOp::NAMES, 3),
        (Ioctl::RocmProfiler, ProfilerOp::NAMES, 3),
    ];
    for (ioctl, names, count) in groups {
        let ops = ioctl.decl().ops.expect("has operations").list;
        assert_eq!(ops.len(), count, "{ioctl:?}");
        for op in ops {
            assert!(names.contains(&(op.name, u64::from(op.value))), "{ioctl:?}: {}", op.name);
        }
    }
}

#[test]
fn the_manner_of_a_call_is_known_by_its_request() {
    for ioctl in Ioctl::ALL {
        let decl = ioctl.decl();
        let manner = Ioctl::manner_of(ioctl.request());
        let may_name = decl.ops.is_some() || !decl.reach.fds.is_empty();
        assert!(!may_name || manner == Manner::Special, "{}", decl.name);
        assert!(!decl.reach.blocking || manner != Manner::Plain, "{}", decl.name);
    }
    assert_eq!(Ioctl::manner_of(Ioctl::WaitEvents.request()), Manner::Sleeps);
    for special in [Ioctl::AcquireVm, Ioctl::ExportDmabuf, Ioctl::DbgTrap] {
        assert_eq!(Ioctl::manner_of(special.request()), Manner::Special, "{special:?}");
    }
    for request in [0, u32::MAX, Ioctl::AllocMemoryOfGpu.request(), Ioctl::SetEvent.request()] {
        assert_eq!(Ioctl::manner_of(request), Manner::Plain, "{request:#x}");
    }
}

/// The uapi names such fields with `addr` or `base`, or calls them pointers; those that are not the GPU's are named here.
#[test]
fn every_address_of_the_gpu_is_declared() {
    // A pointer of the program's, what every operation of SVM names, and the value of a register in units of 64 KiB.
    let others = [
        ("AMDKFD_IOC_GET_QUEUE_WAVE_STATE", "ctl_stack_address"),
        ("AMDKFD_IOC_SVM", "start_addr"),
        ("AMDKFD_IOC_SET_SCRATCH_BACKING_VA", "va_addr"),
    ];
    for ioctl in Ioctl::ALL {
        let decl = ioctl.decl();
        let declared = |name: &str| decl.reach.addresses.iter().any(|field| field.addr.name == name);
        for field in decl.args.fields.iter().filter(|field| field.size == 8) {
            let named = field.name.contains("addr") || field.name.ends_with("_base");
            if named && !others.contains(&(decl.name, field.name)) {
                assert!(declared(field.name), "{}: {}", decl.name, field.name);
            }
        }
    }
}

#[test]
fn an_address_that_may_be_missing_is_no_range_then() {
    let field =
        Ioctl::CreateQueue.decl().reach.addresses.iter().find(|f| f.addr.name == "eop_buffer_address");
    let field = field.expect("declared");
    assert_eq!(field.extent(&[]), None);
    let args = args_with(Ioctl::CreateQueue, &[("eop_buffer_address", 0x1000)]);
    assert_eq!(field.extent(&args), Some(Extent { addr: 0x1000, len: 1 }));
    let args = args_with(Ioctl::CreateQueue, &[("eop_buffer_address", 0x1000), ("eop_buffer_size", 4096)]);
    assert_eq!(field.extent(&args), Some(Extent { addr: 0x1000, len: 4096 }));
    let va = Ioctl::AllocMemoryOfGpu.decl().reach.addresses[0];
    assert_eq!(va.extent(&[]), Some(Extent { addr: 0, len: 1 }));
}
