use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use protocol::kfd::args::AcquireVmArgs;
use protocol::kfd::request_size;
use softgpu::{Kernel, Profile};

use super::*;
use crate::engine::rig;
use crate::engine::testing;

const PAGE: u64 = 4096;
const SIZE: u64 = 16 * PAGE;
/// The GPU of the profile with one.
const GPU: u32 = 1;

/// Memory of this process with pages of its own.
#[repr(C, align(4096))]
struct Pages([u8; SIZE as usize]);

impl Pages {
    fn new() -> Box<Self> {
        Box::new(Self([1; SIZE as usize]))
    }

    fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}

/// An engine that has page tables of the GPU, which KFD needs for attributes.
fn engine() -> Engine {
    acquired(rig::engine(Profile::Mi210))
}

fn acquired(engine: Engine) -> Engine {
    let gpu = Profile::Mi210.machine(Kernel::Linux6_12).gpus[0].clone();
    let render = engine.channel.render_file(gpu.render_minor).expect("a render node");
    let mut args = AcquireVmArgs { drm_fd: 5, gpu_id: gpu.gpu_id };
    engine.channel.ioctl_with_file(Ioctl::AcquireVm, &mut args, 5, render).expect("page tables");
    engine
}

fn attr(kind: SvmAttrType, value: u32) -> SvmAttribute {
    SvmAttribute { type_: kind.0, value }
}

/// Reads one attribute of each kind, and tells their values; of the access its type.
fn look(engine: &Engine, pages: &Pages) -> [u32; 6] {
    let mut list = [
        attr(SvmAttrType::PREFERRED_LOC, 0),
        attr(SvmAttrType::PREFETCH_LOC, 0),
        attr(SvmAttrType::ACCESS, GPU),
        attr(SvmAttrType::SET_FLAGS, 0),
        attr(SvmAttrType::CLR_FLAGS, 0),
        attr(SvmAttrType::GRANULARITY, 0),
    ];
    engine.svm_get_attributes(pages.address(), SIZE, &mut list).expect("attributes");
    assert_eq!(list[2].value, GPU, "the node comes back");
    [list[0].value, list[1].value, list[2].type_, list[3].value, list[4].value, list[5].value]
}

#[test]
fn attributes_of_a_range_are_set_and_read() {
    let engine = engine();
    let pages = Pages::new();
    let set = |kind, value| engine.svm_set_attributes(pages.address(), SIZE, &[attr(kind, value)]);
    let none = INVALID_NODE_ID;
    assert_eq!(look(&engine, &pages), [none, none, SvmAttrType::NO_ACCESS.0, 3, !3, 9], "defaults");
    assert_eq!(set(SvmAttrType::ACCESS, GPU), Ok(()));
    assert_eq!(set(SvmAttrType::PREFERRED_LOC, 0), Ok(()));
    assert_eq!(set(SvmAttrType::GRANULARITY, 4), Ok(()));
    assert_eq!(look(&engine, &pages), [0, none, SvmAttrType::ACCESS.0, 3, !3, 4]);
    assert_eq!(set(SvmAttrType::PREFERRED_LOC, GPU), Ok(()));
    assert_eq!(set(SvmAttrType::ACCESS_IN_PLACE, GPU), Ok(()));
    assert_eq!(set(SvmAttrType::CLR_FLAGS, 2), Ok(()));
    assert_eq!(look(&engine, &pages), [GPU, none, SvmAttrType::ACCESS_IN_PLACE.0, 1, !1, 4]);
    assert_eq!(set(SvmAttrType::PREFERRED_LOC, none), Ok(()), "the preference is taken back");
    assert_eq!(set(SvmAttrType::NO_ACCESS, GPU), Ok(()));
    assert_eq!(look(&engine, &pages), [none, none, SvmAttrType::NO_ACCESS.0, 1, !1, 4]);
}

#[test]
fn refused_attributes() {
    let engine = engine();
    let pages = Pages::new();
    let set = |kind, value| engine.svm_set_attributes(pages.address(), PAGE, &[attr(kind, value)]);
    let no_node = Err(Status::InvalidNodeUnit);
    for kind in [SvmAttrType::ACCESS, SvmAttrType::ACCESS_IN_PLACE, SvmAttrType::NO_ACCESS] {
        assert_eq!(set(kind, 0), no_node, "the node of a CPU");
        assert_eq!(set(kind, 2), no_node, "no node");
        let mut one = [attr(kind, 0)];
        assert_eq!(engine.svm_get_attributes(pages.address(), PAGE, &mut one), no_node);
        assert_eq!(one, [attr(kind, 0)], "nothing is written");
    }
    assert_eq!(set(SvmAttrType::PREFERRED_LOC, 2), no_node);
    assert_eq!(set(SvmAttrType::PREFETCH_LOC, INVALID_NODE_ID), no_node);
    assert_eq!(set(SvmAttrType(99), 0), Err(Status::Error), "KFD says no");
    let mut no_access = [attr(SvmAttrType::NO_ACCESS, GPU)];
    assert_eq!(engine.svm_get_attributes(pages.address(), PAGE, &mut no_access), Err(Status::Error));
}

// Cases S01 and S06.
#[test]
fn s06_ranges_that_are_none_are_refused() {
    let engine = engine();
    let pages = Pages::new();
    let at = pages.address();
    let set = |address, size| engine.svm_set_attributes(address, size, &[attr(SvmAttrType::GRANULARITY, 4)]);
    let get =
        |address, size| engine.svm_get_attributes(address, size, &mut [attr(SvmAttrType::GRANULARITY, 0)]);
    for (address, size) in [(0, PAGE), (at, 0), (at + 1, PAGE), (at, PAGE + 1), (1, 4097)] {
        assert_eq!(set(address, size), Err(Status::InvalidParameter), "{address:#x}, {size}");
        assert_eq!(get(address, size), Err(Status::InvalidParameter), "{address:#x}, {size}");
    }
    for (address, size) in [(0xffff_ffff_ffff_0000, 0x8000_0000), (at, !0xfff), (0xffff_8000_0000_0000, PAGE)]
    {
        assert_eq!(set(address, size), Err(Status::Error), "{address:#x}, {size:#x}");
    }
    assert_eq!(set(0x10000, PAGE), Err(Status::Error), "nothing is mapped there");
}

// Case S01: the length in the request code is that of header and attributes.
#[test]
fn s01_as_many_attributes_as_a_request_can_carry() {
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lengths);
    let engine = testing::engine_answered(Profile::Mi210, Kernel::Linux6_12, move |nr, bytes| {
        if nr != u32::from(Ioctl::Svm.nr()) {
            return None;
        }
        seen.lock().expect("no panic").push(bytes.len());
        None
    });
    let engine = acquired(engine);
    let pages = Pages::new();
    let with = |count| {
        let list = vec![attr(SvmAttrType::GRANULARITY, 4); count];
        engine.svm_set_attributes(pages.address(), SIZE, &list)
    };
    assert_eq!((with(1), with(2044)), (Ok(()), Ok(())));
    for count in [2045, 0x1_0000, 0x20_0000] {
        assert_eq!(with(count), Err(Status::InvalidParameter), "{count} attributes");
    }
    assert_eq!(*lengths.lock().unwrap(), [32, 24 + 2044 * 8]);
    assert_eq!(request_size(Request::new(SvmOp::SET_ATTR, PAGE, PAGE, 2044).unwrap().code()), 24 + 2044 * 8);
}

#[test]
fn no_attributes_are_kfds_business() {
    let engine = engine();
    let pages = Pages::new();
    // svm_range_set_attr and svm_range_get_attr have nothing to do.
    assert_eq!(engine.svm_set_attributes(pages.address(), SIZE, &[]), Ok(()));
    assert_eq!(engine.svm_get_attributes(pages.address(), SIZE, &mut []), Ok(()));
}

#[test]
fn kernels_before_1_5_have_no_shared_virtual_memory() {
    let engine = testing::engine_of_minor(Profile::Mi210, 4);
    let pages = Pages::new();
    let refused = Err(Status::NotSupported);
    assert_eq!(engine.svm_set_attributes(pages.address(), SIZE, &[]), refused);
    assert_eq!(engine.svm_get_attributes(pages.address(), SIZE, &mut []), refused);
    assert_eq!(engine.set_xnack_mode(1), refused);
    assert_eq!(engine.xnack_mode(), Err(Status::NotSupported));
}

#[test]
fn xnack_is_switched_on_and_off() {
    let engine = engine();
    assert_eq!(engine.xnack_mode(), Ok(0));
    assert_eq!(engine.set_xnack_mode(1), Ok(()));
    assert_eq!(engine.xnack_mode(), Ok(1));
    let pages = Pages::new();
    assert_eq!(look(&engine, &pages)[2], SvmAttrType::ACCESS.0, "GPUs may access all memory");
    assert_eq!(engine.set_xnack_mode(0), Ok(()));
    assert_eq!(engine.set_xnack_mode(-1), Ok(()), "changes nothing");
    assert_eq!(engine.xnack_mode(), Ok(0));
}

#[test]
fn xnack_without_gpu_is_not_supported_and_with_queues_an_error() {
    let engine = rig::engine(Profile::CpuOnly);
    assert_eq!(engine.xnack_mode(), Err(Status::NotSupported));
    assert_eq!(engine.set_xnack_mode(1), Err(Status::NotSupported));
    for (errno, status) in [(Errno::EBUSY, Status::Error), (Errno::EPERM, Status::NotSupported)] {
        let engine = testing::engine_answered(Profile::Mi210, Kernel::Linux6_12, move |nr, _| {
            (nr == u32::from(Ioctl::SetXnackMode.nr())).then_some(Err(errno))
        });
        assert_eq!(engine.set_xnack_mode(1), Err(status), "{errno}");
    }
}

/// A machine whose nodes have these GPU ids; 0 is a node without.
#[derive(Clone, Debug)]
struct Ids(Vec<u32>);

impl Nodes for Ids {
    fn gpu_id(&self, node: u32) -> Option<u32> {
        usize::try_from(node).ok().and_then(|place| self.0.get(place)).copied()
    }

    fn node_of_gpu(&self, gpu_id: u32) -> Option<u32> {
        let place = self.0.iter().position(|id| *id == gpu_id && gpu_id != 0)?;
        u32::try_from(place).ok()
    }
}

/// A CPU first, then GPUs with ids of their own and CPUs in between.
fn machines() -> impl Strategy<Value = Ids> {
    proptest::collection::vec(prop_oneof![Just(0), 1_u32..u32::MAX], 0..9).prop_map(|mut ids| {
        ids.insert(0, 0);
        let mut seen = std::collections::BTreeSet::new();
        ids.retain(|id| *id == 0 || seen.insert(*id));
        Ids(ids)
    })
}

proptest! {
    #[test]
    fn attributes_go_to_kfd_with_gpu_ids_and_come_back_with_nodes(
        nodes in machines(),
        type_ in prop_oneof![0_u32..9, any::<u32>()],
        value in prop_oneof![0_u32..12, Just(u32::MAX), any::<u32>()],
    ) {
        let attribute = SvmAttribute { type_, value };
        let id = nodes.gpu_id(value);
        let expected = match (type_, id) {
            (0, None) if value == INVALID_NODE_ID => Ok(u32::MAX),
            (0 | 1, Some(id)) => Ok(id),
            (2..=4, Some(id)) if id != 0 => Ok(id),
            (0..=4, _) => Err(Status::InvalidNodeUnit),
            _ => Ok(value),
        };
        let to_kfd = set_form(&nodes, attribute);
        prop_assert_eq!(to_kfd.map(|to_kfd| (to_kfd.type_, to_kfd.value)), expected.map(|value| (type_, value)));
        if let Ok(to_kfd) = to_kfd {
            let back = program_form(&nodes, to_kfd).map(|back| back.value);
            // All nodes without GPU are the same to KFD.
            let cpu = type_ < 2 && id == Some(0);
            prop_assert_eq!(back, Ok(if cpu { 0 } else { value }));
        }
    }

    #[test]
    fn questions_name_gpus_in_accesses_alone(
        nodes in machines(),
        type_ in 0_u32..9,
        value in prop_oneof![0_u32..12, any::<u32>()],
    ) {
        let id = nodes.gpu_id(value).filter(|id| *id != 0);
        let expected = if (2..5).contains(&type_) { id.ok_or(Status::InvalidNodeUnit) } else { Ok(value) };
        let asked = get_form(&nodes, SvmAttribute { type_, value });
        prop_assert_eq!(asked.map(|asked| asked.value), expected);
    }

    #[test]
    fn what_kfd_answers_is_a_node_or_refused(
        nodes in machines(),
        type_ in 0_u32..9,
        value in prop_oneof![Just(0), Just(u32::MAX), any::<u32>()],
    ) {
        let answer = program_form(&nodes, SvmAttribute { type_, value }).map(|answer| answer.value);
        let expected = match (type_ < 5, value) {
            (false, _) => Ok(value),
            (true, u32::MAX) => Ok(INVALID_NODE_ID),
            (true, 0) => Ok(0),
            (true, gpu_id) => nodes.node_of_gpu(gpu_id).ok_or(Status::InvalidNodeUnit),
        };
        prop_assert_eq!(answer, expected);
    }
}
