//! The SVM ioctl. Functions named are those of `kfd_svm.c` where nothing else is said.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use protocol::kfd::args::SvmArgs;
use protocol::kfd::constants::{SvmAttr, SvmFlags, SvmLocation, SvmOp};
use protocol::kfd::types::SvmAttribute;
use protocol::kfd::{Call, Fault, Interrupt, PassedFd, Shared, UserMem};
use zerocopy::IntoBytes;

use super::*;

const SET: u32 = SvmOp::SET_ATTR.0;
const GET: u32 = SvmOp::GET_ATTR.0;

fn attr(kind: SvmAttr, value: u32) -> SvmAttribute {
    SvmAttribute { type_: kind.0, value }
}

impl Program {
    /// The raw call: a request of `size` bytes, of which `list` are the attributes.
    fn svm_raw(&self, header: SvmArgs, size: u32, list: &mut [SvmAttribute]) -> Result<(), Errno> {
        self.svm_call(header, size, list, &LocalCall::new())
    }

    fn svm_call(
        &self,
        header: SvmArgs,
        size: u32,
        list: &mut [SvmAttribute],
        call: &dyn Call,
    ) -> Result<(), Errno> {
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(list.as_bytes());
        bytes.resize(size as usize, 0);
        let request = Ioctl::Svm.request() & !(0x3fff << 16) | (size << 16);
        let result = self.process.ioctl(self.kfd, request, &mut bytes, call);
        if let Some(back) = bytes.get(size_of::<SvmArgs>()..).and_then(|rest| rest.get(..size_of_val(list))) {
            list.as_mut_bytes().copy_from_slice(back);
        }
        result.map(|_| ())
    }

    fn svm(&self, op: u32, start_addr: u64, size: u64, list: &mut [SvmAttribute]) -> Result<(), Errno> {
        let nattr = u32::try_from(list.len()).expect("few");
        let bytes = u32::try_from(size_of::<SvmArgs>() + size_of_val(list)).expect("small");
        self.svm_raw(SvmArgs { start_addr, size, op, nattr }, bytes, list)
    }

    fn svm_set(&self, pages: &Pages, list: &[SvmAttribute]) -> Result<(), Errno> {
        self.svm(SET, pages.addr(), pages.len as u64, &mut list.to_vec())
    }

    /// The answers for one attribute each.
    fn svm_get(&self, addr: u64, size: u64, list: &[SvmAttribute]) -> Result<Vec<SvmAttribute>, Errno> {
        let mut list = list.to_vec();
        self.svm(GET, addr, size, &mut list).map(|()| list)
    }
}

#[test]
fn s01_more_attributes_than_the_request_holds_are_einval() {
    // Case S01, kfd_ioctl_svm_validate.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let pages = Pages::new(1);
    let header = |nattr| SvmArgs { start_addr: pages.addr(), size: 4096, op: GET, nattr };
    let mut one = [attr(SvmAttr::GRANULARITY, 0)];
    for nattr in [2, 0x1_0000, 0x2000_0000, u32::MAX] {
        assert_eq!(program.svm_raw(header(nattr), 32, &mut one), Err(Errno::EINVAL), "{nattr:#x}");
    }
    assert_eq!(program.svm_raw(header(0), 16, &mut []), Err(Errno::EINVAL), "not even the header");
    assert_eq!(program.svm_raw(header(1), 32, &mut one), Ok(()));
    assert_eq!(program.svm_raw(header(1), 64, &mut one), Ok(()), "longer than needed");
    assert_eq!(program.svm_raw(header(0), 24, &mut []), Ok(()));
    // kfd_ioctl_svm: whole pages, not zero.
    for (start_addr, size) in [(1, 4096), (pages.addr(), 4097), (0, 4096), (pages.addr(), 0)] {
        let header = SvmArgs { start_addr, size, op: GET, nattr: 0 };
        assert_eq!(program.svm_raw(header, 24, &mut []), Err(Errno::EINVAL));
    }
    let header = SvmArgs { start_addr: pages.addr(), size: 4096, op: 2, nattr: 0 };
    assert_eq!(program.svm_raw(header, 24, &mut []), Err(Errno::EINVAL), "svm_ioctl: unknown operation");
}

#[test]
fn without_shared_virtual_memory_the_call_is_eperm() {
    // kfd_ioctl_svm without CONFIG_HSA_AMD_SVM, seen on a real kernel without GPU.
    let machine = Machine::new(Profile::CpuOnly);
    let program = machine.process(1);
    assert_eq!(program.svm(GET, 0, 0, &mut []), Err(Errno::EPERM));
    let machine = Machine::new(Profile::Mi210);
    let remote = Caller { id: ProcessId(2), pid: 2, privileged: false, mem: None };
    let process = machine.gpu.attach(remote).expect("attach");
    let kfd = process.open(Node::Kfd).expect("kfd");
    let remote = Program { process, kfd, drm: vec![], gpu_ids: machine.gpu_ids.clone() };
    assert_eq!(remote.svm(GET, 4096, 4096, &mut []), Err(Errno::EPERM));
}

#[test]
fn each_profile_with_a_gpu_has_shared_virtual_memory_and_the_one_without_has_not() {
    // kgd2kfd_device_init: svm_range_set_max_pages and KFD_IS_SVM_API_SUPPORTED for gfx9 and later.
    for profile in Profile::ALL {
        let machine = Machine::new(profile);
        let program = machine.running(1);
        let pages = Pages::new(1);
        let expected = if profile == Profile::CpuOnly { Err(Errno::EPERM) } else { Ok(()) };
        assert_eq!(program.svm(GET, pages.addr(), 4096, &mut []), expected, "{profile}");
        assert_eq!(machine.device().has_svm(), expected.is_ok(), "{profile}");
    }
}

#[test]
fn attributes_are_checked_before_the_range() {
    let machine = Machine::new(Profile::Mi210);
    let program = machine.process(1);
    let pages = Pages::new(2);
    let gpu = program.gpu();
    // svm_range_check_attr, even for an address that is not mapped.
    for bad in [
        attr(SvmAttr(8), 0),
        attr(SvmAttr::ACCESS, gpu ^ 1),
        attr(SvmAttr::NO_ACCESS, 0),
        attr(SvmAttr::PREFETCH_LOC, SvmLocation::UNDEFINED.0),
        attr(SvmAttr::PREFERRED_LOC, gpu ^ 1),
    ] {
        assert_eq!(program.svm(SET, 4096, 4096, &mut [bad]), Err(Errno::EINVAL), "{bad:?}");
    }
    // svm_range_set_attr: no page tables of any GPU yet.
    assert_eq!(program.svm_set(&pages, &[attr(SvmAttr::GRANULARITY, 1)]), Err(Errno::EINVAL));
    program.acquire_vm(0).expect("a fresh file");
    assert_eq!(program.svm_set(&pages, &[attr(SvmAttr::GRANULARITY, 1)]), Ok(()));
    // svm_range_get_attr cannot ask for these.
    for kind in [SvmAttr::ACCESS_IN_PLACE, SvmAttr::NO_ACCESS, SvmAttr(8)] {
        assert_eq!(program.svm_get(pages.addr(), 4096, &[attr(kind, gpu)]), Err(Errno::EINVAL));
    }
    assert_eq!(program.svm_get(pages.addr(), 4096, &[attr(SvmAttr::ACCESS, 1)]), Err(Errno::EINVAL));
}

#[test]
fn memory_that_is_not_mapped_or_a_devices_is_efault() {
    // svm_range_is_valid: no VMA, or one with VM_IO, VM_PFNMAP or VM_MIXEDMAP; the kernel's own time page is such.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("own maps");
    let vvar = maps.lines().find(|line| line.ends_with("[vvar]")).expect("a time page");
    let vvar = u64::from_str_radix(vvar.split('-').next().expect("a start"), 16).expect("hexadecimal");
    for addr in [4096, vvar, 1 << 48] {
        assert_eq!(program.svm(SET, addr, 4096, &mut []), Err(Errno::EFAULT), "{addr:#x}");
        assert_eq!(program.svm(GET, addr, 4096, &mut []), Err(Errno::EFAULT), "{addr:#x}");
    }
    let wraps = 0u64.wrapping_sub(4096);
    assert_eq!(program.svm(GET, wraps, 8192, &mut []), Err(Errno::EOVERFLOW));
}

#[test]
fn buffers_and_shared_virtual_memory_do_not_share_addresses() {
    // svm_range_check_vm: EADDRINUSE; kfd_ioctl_alloc_memory_of_gpu: EADDRINUSE for VA and for program memory.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let (svm, userptr) = (Pages::new(4), Pages::new(4));
    let buffer = program.alloc_userptr(userptr.addr(), 16384, userptr.addr()).expect("mapped memory");
    program.map(buffer.handle, &program.gpu_ids).expect("free address");
    let access = [attr(SvmAttr::ACCESS, program.gpu())];
    assert_eq!(program.svm_set(&userptr, &access), Err(Errno::EADDRINUSE));
    assert_eq!(program.svm_get(userptr.addr() + 4096, 4096, &access), Err(Errno::EADDRINUSE));
    program.svm_set(&svm, &access).expect("ordinary memory");
    let gtt = AllocFlags::GTT | RW;
    assert_eq!(program.alloc(svm.addr() + 8192, 4096, gtt).err(), Some(Errno::EADDRINUSE));
    assert_eq!(program.alloc(svm.addr() - 4096, 8192, gtt).err(), Some(Errno::EADDRINUSE));
    assert_eq!(program.alloc_userptr(VA, 4096, svm.addr()).err(), Some(Errno::EADDRINUSE));
    assert!(program.alloc(svm.addr() + 16384, 4096, gtt).is_ok(), "right behind it");
    // "Skip a special case that allocates VRAM without VA".
    assert!(program.alloc(0, 1 << 20, AllocFlags::VRAM | RW).is_ok());
}

#[test]
fn an_area_without_ranges_has_the_default_attributes() {
    // svm_range_set_default_attributes; XNACK is off, so no GPU has access.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let pages = Pages::new(1);
    let gpu = program.gpu();
    let flags = SvmFlags::HOST_ACCESS | SvmFlags::COHERENT;
    let asked = [
        attr(SvmAttr::PREFERRED_LOC, 7),
        attr(SvmAttr::PREFETCH_LOC, 7),
        attr(SvmAttr::ACCESS, gpu),
        attr(SvmAttr::SET_FLAGS, 7),
        attr(SvmAttr::CLR_FLAGS, 7),
        attr(SvmAttr::GRANULARITY, 7),
    ];
    let expected = [
        attr(SvmAttr::PREFERRED_LOC, SvmLocation::UNDEFINED.0),
        attr(SvmAttr::PREFETCH_LOC, SvmLocation::UNDEFINED.0),
        attr(SvmAttr::NO_ACCESS, gpu),
        attr(SvmAttr::SET_FLAGS, flags.0),
        attr(SvmAttr::CLR_FLAGS, !flags.0),
        attr(SvmAttr::GRANULARITY, 9),
    ];
    assert_eq!(program.svm_get(pages.addr(), 4096, &asked).as_deref(), Ok(&expected[..]));
}

#[test]
fn an_answer_is_what_all_ranges_of_the_area_have_in_common() {
    // svm_range_get_attr.
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.running(1);
    let [first, second] = [program.gpu_ids[0], program.gpu_ids[1]];
    let pages = Pages::new(4);
    let half = |n: u64, list: &[SvmAttribute]| {
        program.svm(SET, pages.addr() + n * 8192, 8192, &mut list.to_vec()).expect("mapped memory");
    };
    half(
        0,
        &[
            attr(SvmAttr::ACCESS, first),
            attr(SvmAttr::ACCESS_IN_PLACE, second),
            attr(SvmAttr::PREFERRED_LOC, first),
            attr(SvmAttr::SET_FLAGS, SvmFlags::GPU_EXEC.0),
            attr(SvmAttr::GRANULARITY, 0xff),
        ],
    );
    half(
        1,
        &[
            attr(SvmAttr::ACCESS, second),
            attr(SvmAttr::PREFERRED_LOC, second),
            attr(SvmAttr::CLR_FLAGS, SvmFlags::COHERENT.0),
            attr(SvmAttr::GRANULARITY, 4),
        ],
    );
    let asked = [
        attr(SvmAttr::ACCESS, first),
        attr(SvmAttr::ACCESS, second),
        attr(SvmAttr::PREFERRED_LOC, 0),
        attr(SvmAttr::SET_FLAGS, 0),
        attr(SvmAttr::CLR_FLAGS, 0),
        attr(SvmAttr::GRANULARITY, 0),
    ];
    let get = |offset: u64, len: u64| {
        let answer = program.svm_get(pages.addr() + offset, len, &asked).expect("mapped memory");
        answer.iter().map(|attr| (SvmAttr(attr.type_), attr.value)).collect::<Vec<_>>()
    };
    let [host, coherent, exec] = [SvmFlags::HOST_ACCESS.0, SvmFlags::COHERENT.0, SvmFlags::GPU_EXEC.0];
    let left = get(4096, 4096);
    assert_eq!(
        left,
        [
            (SvmAttr::ACCESS, first),
            (SvmAttr::ACCESS_IN_PLACE, second),
            (SvmAttr::PREFERRED_LOC, first),
            (SvmAttr::SET_FLAGS, host | coherent | exec),
            (SvmAttr::CLR_FLAGS, !(host | coherent | exec)),
            (SvmAttr::GRANULARITY, 0x3f),
        ]
    );
    // The kernel keeps the two kinds of access apart: with one of each, there is none in common.
    assert_eq!(
        get(4096, 8192),
        [
            (SvmAttr::NO_ACCESS, first),
            (SvmAttr::NO_ACCESS, second),
            (SvmAttr::PREFERRED_LOC, SvmLocation::UNDEFINED.0),
            (SvmAttr::SET_FLAGS, host),
            (SvmAttr::CLR_FLAGS, !(host | coherent | exec)),
            (SvmAttr::GRANULARITY, 4),
        ]
    );
    // A part of a range that is changed is split off.
    program.svm(SET, pages.addr() + 4096, 4096, &mut [attr(SvmAttr::GRANULARITY, 1)]).expect("mapped memory");
    assert_eq!(get(0, 4096), left);
    assert_eq!(get(4096, 4096)[5], (SvmAttr::GRANULARITY, 1));
    assert_eq!(get(8192, 4096)[5], (SvmAttr::GRANULARITY, 4));
}

#[test]
fn gpus_with_access_have_the_programs_memory_at_its_address() {
    // svm_range_validate_and_map, svm_range_get_pte_flags.
    let machine = Machine::new(Profile::TwoGpu);
    let program = machine.running(1);
    let pages = Pages::new(3);
    let process = machine.device().process_by_pid(1).expect("running");
    let vm = |gpu: usize| process.memory.vm(program.gpu_ids[gpu]).expect("acquired");
    let order = std::sync::atomic::Ordering::SeqCst;
    pages.atomic(0).store(5, order);
    program.svm_set(&pages, &[attr(SvmAttr::ACCESS, program.gpu())]).expect("mapped memory");
    let at = pages.addr();
    assert_eq!(vm(0).read_u64(at), Ok(5));
    vm(0).atomic_u64(at, |word| word.fetch_add(1, order)).expect("writable");
    assert_eq!(pages.atomic(0).load(order), 6);
    assert!(vm(1).read_u64(at).is_err(), "the other GPU has no access");
    // Flags of the middle page only.
    let flags = attr(SvmAttr::SET_FLAGS, (SvmFlags::GPU_RO | SvmFlags::GPU_EXEC).0);
    program.svm(SET, at + 4096, 4096, &mut [flags]).expect("mapped memory");
    assert_eq!(vm(0).write_u64(at + 8192, 1), Ok(()));
    assert!(vm(0).write_u64(at + 4096, 1).is_err_and(|fault| !fault.not_present));
    assert_eq!(vm(0).lookup(at + 4096).map(|mapping| mapping.flags.executable), Some(true));
    // Memory that the program may only read.
    let constants = Pages::with_protection(1, rustix::mm::ProtFlags::READ);
    program.svm_set(&constants, &[attr(SvmAttr::ACCESS, program.gpu())]).expect("mapped memory");
    assert_eq!(vm(0).read_u64(constants.addr()), Ok(0));
    assert!(vm(0).write_u64(constants.addr(), 1).is_err());
}

#[test]
fn a_save_area_may_be_shared_virtual_memory_that_is_always_mapped() {
    // kfd_queue.c, kfd_queue_buffer_svm_get.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let pages = Pages::new(4);
    let process = machine.device().process_by_pid(1).expect("running");
    let acquire = || process.memory.acquire_save_area(program.gpu(), pages.addr(), 16384).err();
    assert_eq!(acquire(), Some(Errno::EINVAL));
    program.svm_set(&pages, &[attr(SvmAttr::ACCESS_IN_PLACE, program.gpu())]).expect("mapped memory");
    assert_eq!(acquire(), Some(Errno::EINVAL), "not always mapped");
    let always = attr(SvmAttr::SET_FLAGS, SvmFlags::GPU_ALWAYS_MAPPED.0);
    program.svm(SET, pages.addr(), 8192, &mut [always]).expect("mapped memory");
    assert_eq!(acquire(), Some(Errno::EINVAL), "only half of it");
    program.svm_set(&pages, &[always]).expect("mapped memory");
    assert_eq!(acquire(), None, "in several ranges");
    let ring = process.memory.acquire_queue_buffer(program.gpu(), pages.addr(), 16384);
    assert_eq!(ring.err(), Some(Errno::EINVAL), "for save areas only");
}

#[test]
fn ranges_end_with_the_memory_of_the_program() {
    // svm_range_unmap_from_cpu: the kernel is told of an munmap; here it is found out at the next call.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let pages = Pages::new(4);
    let addr = pages.addr();
    program.svm_set(&pages, &[attr(SvmAttr::ACCESS, program.gpu())]).expect("mapped memory");
    drop(pages);
    let buffer = program.alloc(addr, 16384, AllocFlags::GTT | RW).expect("the address is free again");
    program.map(buffer.handle, &program.gpu_ids).expect("not in the page tables any more");
}

#[test]
fn shared_virtual_memory_counts_as_system_memory() {
    // svm_range_new: "exceeds resident system memory limit". mi210's host has 64 GiB.
    let machine = Machine::new(Profile::Mi210);
    let program = machine.running(1);
    let huge = Pages::with_protection((64 << 30) / 4096, rustix::mm::ProtFlags::READ);
    let access = [attr(SvmAttr::ACCESS, program.gpu())];
    assert_eq!(program.svm_set(&huge, &access), Err(Errno::ENOMEM));
    assert_eq!(program.svm(SET, huge.addr(), 4096, &mut access.to_vec()), Ok(()), "nothing stays counted");
}

/// A call whose memory takes its time to be shared: another thread of the program allocates a buffer meanwhile, and has
/// to be answered before it can stop.
struct Busy {
    program: Arc<Program>,
    buffer_at: u64,
    inner: LocalCall,
    answers: Mutex<Vec<Result<Result<AllocMemoryOfGpuArgs, Errno>, RecvTimeoutError>>>,
}

impl Busy {
    fn new(program: &Arc<Program>, buffer_at: u64) -> Self {
        let inner = LocalCall::new();
        Self { program: Arc::clone(program), buffer_at, inner, answers: Mutex::default() }
    }
}

impl UserMem for Busy {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        LocalMem.read(addr, buf)
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), Fault> {
        LocalMem.write(addr, buf)
    }

    fn share(&self, addr: u64, len: u64, writable: bool) -> Result<Vec<Shared>, Errno> {
        let shared = LocalMem.share(addr, len, writable);
        let (sender, receiver) = channel();
        let (program, at) = (Arc::clone(&self.program), self.buffer_at);
        std::thread::spawn(move || sender.send(program.alloc(at, 4096, AllocFlags::GTT | RW)));
        self.answers.lock().expect("no panic").push(receiver.recv_timeout(Duration::from_secs(10)));
        shared
    }
}

impl Call for Busy {
    fn mem(&self) -> &dyn UserMem {
        self
    }

    fn descriptor(&self, fd: i32) -> Result<PassedFd, Errno> {
        self.inner.descriptor(fd)
    }

    fn install(&self, fd: OwnedFd) -> Result<i32, Errno> {
        self.inner.install(fd)
    }

    fn interrupt(&self) -> &Interrupt {
        self.inner.interrupt()
    }
}

#[test]
fn other_calls_are_answered_while_memory_is_being_shared() {
    // Sharing stops the program's threads; one that waits for such an answer cannot stop.
    let machine = Machine::new(Profile::Mi210);
    let program = Arc::new(machine.running(1));
    let pages = Pages::new(2);
    let mut access = [attr(SvmAttr::ACCESS, program.gpu())];
    let set = SvmArgs { start_addr: pages.addr(), size: pages.len as u64, op: SET, nattr: 1 };
    // Elsewhere, and in the range itself, which is the program's already.
    for (buffer_at, expected) in [(VA, None), (pages.addr(), Some(Errno::EADDRINUSE))] {
        let call = Busy::new(&program, buffer_at);
        program.svm_call(set, 32, &mut access, &call).expect("mapped memory");
        let answers = call.answers.into_inner().expect("no panic");
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.map(Result::err)).collect();
        assert_eq!(answers, [Ok(expected)]);
        access[0].type_ = SvmAttr::ACCESS_IN_PLACE.0;
    }
    let vm = machine.device().process_by_pid(1).expect("running").memory.vm(program.gpu()).expect("acquired");
    assert_eq!(vm.read_u64(pages.addr()), Ok(0));
}
