//! Which calls a guest can have.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use protocol::drm::DrmIoctl;
use protocol::kfd::constants::AllocFlags;
use protocol::kfd::flat::Declared as _;
use protocol::kfd::ioctl::FieldRef;
use protocol::kfd::{Ioctl, structs::UapiStruct};
use protocol::{Declaration, Errno};

use super::space::AddressRange;

/// What the host lets guests do that not every host does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Debug: RUNTIME_ENABLE.
    pub debug: bool,
    /// Use the GPUs' profiler: PROFILER, PC_SAMPLE.
    pub profiling: bool,
}

/// The rules of a context.
#[derive(Debug)]
pub(super) struct Policy {
    range: AddressRange,
    permissions: Permissions,
    window: bool,
    /// KFD's ids of the GPUs that the guest sees.
    gpus: Vec<u32>,
    /// What was refused and logged already.
    told: Mutex<HashSet<(&'static str, &'static str)>>,
}

/// A refusal, with its reason for the log.
type Refused = (Errno, &'static str);

/// Why the page of registers is refused.
const NO_REGISTERS: &str = "a guest has no registers of the GPU";

impl Policy {
    pub(super) fn new(range: AddressRange, permissions: Permissions, window: bool, gpus: Vec<u32>) -> Policy {
        Policy { range, permissions, window, gpus, told: Mutex::default() }
    }

    /// Whether the guest sees this GPU.
    pub(super) fn shows(&self, gpu_id: u32) -> bool {
        self.gpus.contains(&gpu_id)
    }

    /// How many GPUs it sees.
    pub(super) fn gpus(&self) -> usize {
        self.gpus.len()
    }

    /// Whether the guest sees memory of the GPUs, and stores into their doorbells itself.
    pub(super) fn window(&self) -> bool {
        self.window
    }

    /// Whether a call with these arguments may be made.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for a call that guests do not have; `EINVAL` for addresses outside the context's, for GPUs that are not
    /// shared, and for memory that guests do not have. Logged once for each kind, where it is more than every library asks for.
    pub(super) fn check(&self, declaration: Declaration, args: &[u8]) -> Result<(), Errno> {
        let name = name(declaration);
        let allowed = match declaration {
            Declaration::Kfd(ioctl) => self.kfd(ioctl, args),
            Declaration::Drm(ioctl) => drm(ioctl),
            Declaration::Unknown => Err((Errno::EOPNOTSUPP, "it is not declared")),
        };
        allowed.and_then(|()| self.addresses(declaration, args)).map_err(|(errno, why)| {
            if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert((name, why)) {
                // The library asks for registers at each start, as it does natively, and goes on without.
                let level = if why == NO_REGISTERS { log::Level::Debug } else { log::Level::Warn };
                log::log!(level, "{name} is refused: {why}");
            }
            errno
        })
    }

    fn addresses(&self, declaration: Declaration, args: &[u8]) -> Result<(), Refused> {
        let fields = declaration.reaches(args).flat_map(|reach| reach.addresses);
        for extent in fields.filter_map(|field| field.extent(args)) {
            let inside = AddressRange::new(extent.addr, extent.len).is_some_and(|at| self.range.contains(at));
            if !inside {
                return Err((Errno::EINVAL, "an address is not one of the context's"));
            }
        }
        Ok(())
    }

    fn kfd(&self, ioctl: Ioctl, args: &[u8]) -> Result<(), Refused> {
        offered(ioctl, self.permissions).map_err(|why| (Errno::EOPNOTSUPP, why))?;
        // 0 stands for no GPU where it means anything.
        let gpu = field(ioctl, "gpu_id", args);
        if gpu != 0 && !u32::try_from(gpu).is_ok_and(|gpu| self.shows(gpu)) {
            return Err((Errno::EINVAL, "the guest does not have this GPU"));
        }
        match ioctl {
            Ioctl::AllocMemoryOfGpu => alloc(args, self.window),
            Ioctl::GetQueueWaveState => self.wave_state(args),
            Ioctl::SetXnackMode => xnack(args),
            _ => Ok(()),
        }
    }

    /// The kernel writes to this address of this process.
    fn wave_state(&self, args: &[u8]) -> Result<(), Refused> {
        let pointers = Ioctl::GetQueueWaveState.decl().reach.pointers;
        let addresses = pointers.iter().map(|pointer| pointer.addr.get(args));
        let inside = |addr: u64| AddressRange::new(addr, 1).is_some_and(|at| self.range.contains(at));
        if addresses.into_iter().all(inside) {
            Ok(())
        } else {
            Err((Errno::EINVAL, "an address is not one of the context's"))
        }
    }
}

/// Whether guests can make a call at all.
///
/// # Errors
/// Why not.
pub(super) fn offered(ioctl: Ioctl, permissions: Permissions) -> Result<(), &'static str> {
    match ioctl {
        Ioctl::GetVersion
        | Ioctl::CreateQueue
        | Ioctl::DestroyQueue
        | Ioctl::SetMemoryPolicy
        | Ioctl::GetClockCounters
        | Ioctl::GetProcessApertures
        | Ioctl::UpdateQueue
        | Ioctl::CreateEvent
        | Ioctl::DestroyEvent
        | Ioctl::SetEvent
        | Ioctl::ResetEvent
        | Ioctl::WaitEvents
        | Ioctl::DbgRegisterDeprecated
        | Ioctl::DbgUnregisterDeprecated
        | Ioctl::DbgAddressWatchDeprecated
        | Ioctl::DbgWaveControlDeprecated
        | Ioctl::SetScratchBackingVa
        | Ioctl::GetTileConfig
        | Ioctl::SetTrapHandler
        | Ioctl::GetProcessAperturesNew
        | Ioctl::AcquireVm
        | Ioctl::AllocMemoryOfGpu
        | Ioctl::FreeMemoryOfGpu
        | Ioctl::MapMemoryToGpu
        | Ioctl::UnmapMemoryFromGpu
        | Ioctl::SetCuMask
        | Ioctl::GetQueueWaveState
        | Ioctl::SetXnackMode
        | Ioctl::AvailableMemory => Ok(()),
        Ioctl::RuntimeEnable if permissions.debug => Ok(()),
        Ioctl::RuntimeEnable => Err("debugging is off"),
        Ioctl::Svm => Err("a guest has no shared virtual memory"),
        Ioctl::DbgTrap => Err("debuggers of a guest are not supported"),
        Ioctl::GetDmabufInfo
        | Ioctl::ImportDmabuf
        | Ioctl::ExportDmabuf
        | Ioctl::SmiEvents
        | Ioctl::IpcImportHandle
        | Ioctl::IpcExportHandle => Err("descriptors and handles of the host are not passed to guests"),
        Ioctl::AllocQueueGws => Err("a guest has no global wave sync"),
        Ioctl::CreateProcess | Ioctl::RocmCreateProcess => Err("a context is one process"),
        Ioctl::CriuOp | Ioctl::CrossMemoryCopy | Ioctl::AisOp => Err("it reaches beyond the context"),
        Ioctl::Profiler | Ioctl::RocmProfiler | Ioctl::PcSample if permissions.profiling => Ok(()),
        Ioctl::Profiler | Ioctl::RocmProfiler | Ioctl::PcSample => {
            Err("a guest could lock all others out of the profiler")
        }
        // Its memory is written long after the call, which no copy that comes with the call can stand for.
        Ioctl::RlcSpm => Err("streams of counters are not carried to guests"),
    }
}

/// Render node calls that guests can make: information is what they need; buffers are KFD's.
const DRM: [DrmIoctl; 4] = [DrmIoctl::Version, DrmIoctl::GetClient, DrmIoctl::GetCap, DrmIoctl::AmdgpuInfo];

/// The calls of a guest that reach a kernel's driver: name, and the letter and number of its request.
pub(in crate::worker) fn kernel_calls(permissions: Permissions) -> impl Iterator<Item = (&'static str, u16)> {
    let number = |request: u32| u16::try_from(request & 0xffff).unwrap_or(u16::MAX);
    let kfd = Ioctl::ALL.iter().filter(move |ioctl| offered(**ioctl, permissions).is_ok());
    let kfd = kfd.map(move |ioctl| (ioctl.name(), number(ioctl.request())));
    kfd.chain(DRM.into_iter().map(move |ioctl| (ioctl.decl().name, number(ioctl.request()))))
}

fn alloc(args: &[u8], window: bool) -> Result<(), Refused> {
    let flags = AllocFlags(u32::try_from(field(Ioctl::AllocMemoryOfGpu, "flags", args)).unwrap_or(u32::MAX));
    if flags.contains(AllocFlags::MMIO_REMAP) {
        return Err((Errno::EOPNOTSUPP, NO_REGISTERS));
    }
    if flags.contains(AllocFlags::VRAM | AllocFlags::PUBLIC) && !window {
        return Err((Errno::EINVAL, "without a window no CPU of the guest sees VRAM"));
    }
    Ok(())
}

/// A negative value asks, 0 turns it off.
fn xnack(args: &[u8]) -> Result<(), Refused> {
    let bytes = args.first_chunk().copied().unwrap_or_default();
    if i32::from_le_bytes(bytes) > 0 {
        return Err((Errno::EOPNOTSUPP, "with XNACK, GPUs would reach all memory of this process"));
    }
    Ok(())
}

fn drm(ioctl: DrmIoctl) -> Result<(), Refused> {
    if DRM.contains(&ioctl) { Ok(()) } else { Err((Errno::EOPNOTSUPP, "a guest's buffers are those of KFD")) }
}

fn name(declaration: Declaration) -> &'static str {
    match declaration {
        Declaration::Kfd(ioctl) => ioctl.name(),
        Declaration::Drm(ioctl) => ioctl.decl().name,
        Declaration::Unknown => "an ioctl",
    }
}

/// A field of the argument struct, by name; 0 for one that it has not.
fn field(ioctl: Ioctl, name: &str, args: &[u8]) -> u64 {
    let found = ioctl.decl().args.fields.iter().find(|field| field.name == name);
    found.map_or(0, |field| FieldRef { name: field.name, offset: field.offset, size: field.size }.get(args))
}

/// The argument struct; what is missing is zero, as in the kernel.
pub(super) fn typed<A: UapiStruct + Default>(bytes: &[u8]) -> A {
    let mut args = A::default();
    for (to, from) in args.as_mut_bytes().iter_mut().zip(bytes) {
        *to = *from;
    }
    args
}

/// The opposite of [`typed`]: bytes that are not there are not written.
pub(super) fn put<A: UapiStruct>(bytes: &mut [u8], args: &A) {
    for (to, from) in bytes.iter_mut().zip(args.as_bytes()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use protocol::kfd::args::{
        AllocMemoryOfGpuArgs, CreateQueueArgs, GetClockCountersArgs, SetXnackModeArgs,
    };
    use zerocopy::IntoBytes;

    use super::*;

    const BASE: u64 = 1 << 42;
    const GPU: u32 = 0x1234;

    fn policy() -> Policy {
        Policy::new(AddressRange { base: BASE, len: 1 << 40 }, Permissions::default(), false, vec![GPU])
    }

    fn check(ioctl: Ioctl, args: &[u8]) -> Result<(), Errno> {
        policy().check(Declaration::Kfd(ioctl), args)
    }

    /// Whoever adds an ioctl decides; and nothing that hands out or takes descriptors is allowed, but the files of a context.
    #[test]
    fn calls_that_hand_out_descriptors_are_refused() {
        for &ioctl in Ioctl::ALL {
            let decl = ioctl.decl();
            let operations = decl.ops.iter().flat_map(|ops| ops.list).map(|op| op.reach);
            let out = |fd: &protocol::kfd::ioctl::FdField| fd.flow.writes();
            if operations.chain([decl.reach]).any(|reach| reach.fds.iter().any(out)) {
                assert_eq!(check(ioctl, &vec![0; decl.args.size]), Err(Errno::EOPNOTSUPP), "{}", decl.name);
            }
        }
    }

    #[test]
    fn addresses_outside_of_the_range_are_refused() {
        let alloc = |va_addr, size| {
            let flags = AllocFlags::VRAM.0;
            let args = AllocMemoryOfGpuArgs { va_addr, size, flags, ..Default::default() };
            check(Ioctl::AllocMemoryOfGpu, args.as_bytes())
        };
        assert_eq!(alloc(BASE, 4096), Ok(()));
        assert_eq!(alloc(BASE + (1 << 40) - 4096, 4096), Ok(()));
        for (va, size) in [
            (0, 4096),
            (BASE - 4096, 4096),
            (BASE - 4096, 8192),
            (BASE + (1 << 40) - 4096, 8192),
            (BASE, u64::MAX),
            (u64::MAX, 1),
            (u64::MAX - 4095, 1 << 50),
        ] {
            assert_eq!(alloc(va, size), Err(Errno::EINVAL), "{va:#x} {size:#x}");
        }
        let queue = |args: CreateQueueArgs| check(Ioctl::CreateQueue, args.as_bytes());
        let good = CreateQueueArgs {
            ring_base_address: BASE,
            ring_size: 4096,
            write_pointer_address: BASE,
            read_pointer_address: BASE,
            ..Default::default()
        };
        assert_eq!(queue(good), Ok(()));
        assert_eq!(queue(CreateQueueArgs { read_pointer_address: 0, ..good }), Err(Errno::EINVAL));
        assert_eq!(queue(CreateQueueArgs { ctx_save_restore_address: 8, ..good }), Err(Errno::EINVAL));
        assert_eq!(queue(CreateQueueArgs { eop_buffer_address: 8, ..good }), Err(Errno::EINVAL));
    }

    #[test]
    fn memory_that_guests_do_not_have_is_refused() {
        let alloc = |flags: AllocFlags| {
            let args =
                AllocMemoryOfGpuArgs { va_addr: BASE, size: 4096, flags: flags.0, ..Default::default() };
            check(Ioctl::AllocMemoryOfGpu, args.as_bytes())
        };
        assert_eq!(alloc(AllocFlags::VRAM | AllocFlags::WRITABLE), Ok(()));
        assert_eq!(alloc(AllocFlags::GTT), Ok(()));
        assert_eq!(alloc(AllocFlags::VRAM | AllocFlags::PUBLIC), Err(Errno::EINVAL));
        assert_eq!(alloc(AllocFlags::MMIO_REMAP), Err(Errno::EOPNOTSUPP));
        let (size, flags) = (4096, (AllocFlags::VRAM | AllocFlags::PUBLIC).0);
        let args = AllocMemoryOfGpuArgs { va_addr: BASE, size, flags, ..Default::default() };
        let window = Policy { window: true, ..policy() };
        assert_eq!(window.check(Declaration::Kfd(Ioctl::AllocMemoryOfGpu), args.as_bytes()), Ok(()));
    }

    #[test]
    fn xnack_cannot_be_turned_on() {
        let set = |xnack_enabled| check(Ioctl::SetXnackMode, SetXnackModeArgs { xnack_enabled }.as_bytes());
        assert_eq!((set(-1), set(0), set(1)), (Ok(()), Ok(()), Err(Errno::EOPNOTSUPP)));
    }

    #[test]
    fn the_runtime_is_enabled_where_debugging_is() {
        let args = [0; 16];
        assert_eq!(check(Ioctl::RuntimeEnable, &args), Err(Errno::EOPNOTSUPP));
        let debug = Policy { permissions: DEBUG, ..policy() };
        assert_eq!(debug.check(Declaration::Kfd(Ioctl::RuntimeEnable), &args), Ok(()));
    }

    const DEBUG: Permissions = Permissions { debug: true, profiling: false };
    const PROFILING: Permissions = Permissions { debug: false, profiling: true };

    /// The filter of system calls of a worker on the kernel's KFD lets exactly those through that the policy does.
    #[test]
    fn the_profiler_is_used_where_the_host_allows_it() {
        let calls = [Ioctl::Profiler, Ioctl::RocmProfiler, Ioctl::PcSample];
        let through = |ioctl: Ioctl, permissions| {
            let name = ioctl.name();
            kernel_calls(permissions).any(|(other, number)| other == name && number != 0)
        };
        for ioctl in calls {
            let args = vec![0; ioctl.decl().args.size];
            assert_eq!(check(ioctl, &args), Err(Errno::EOPNOTSUPP));
            let allowed = Policy { permissions: PROFILING, ..policy() };
            assert_eq!(allowed.check(Declaration::Kfd(ioctl), &args), Ok(()));
            assert!(through(ioctl, PROFILING) && !through(ioctl, DEBUG));
        }
        let spm = Policy { permissions: PROFILING, ..policy() };
        assert_eq!(spm.check(Declaration::Kfd(Ioctl::RlcSpm), &[0; 64]), Err(Errno::EOPNOTSUPP));
        assert!(!through(Ioctl::RlcSpm, PROFILING));
        assert!(through(Ioctl::RuntimeEnable, DEBUG) && !through(Ioctl::RuntimeEnable, PROFILING));
    }

    #[test]
    fn gpus_that_are_not_shared_are_none() {
        let alloc = |gpu_id| {
            let args = AllocMemoryOfGpuArgs { va_addr: BASE, size: 4096, gpu_id, ..Default::default() };
            check(Ioctl::AllocMemoryOfGpu, args.as_bytes())
        };
        assert_eq!((alloc(GPU), alloc(GPU + 1)), (Ok(()), Err(Errno::EINVAL)));
        let clocks = |gpu_id| {
            let args = GetClockCountersArgs { gpu_id, ..Default::default() };
            check(Ioctl::GetClockCounters, args.as_bytes())
        };
        assert_eq!((clocks(0), clocks(GPU), clocks(1)), (Ok(()), Ok(()), Err(Errno::EINVAL)));
    }

    #[test]
    fn what_is_not_declared_and_buffers_of_render_nodes_are_refused() {
        let drm = |ioctl| policy().check(Declaration::Drm(ioctl), &[0; 64]);
        assert_eq!(drm(DrmIoctl::AmdgpuInfo), Ok(()));
        assert_eq!(drm(DrmIoctl::AmdgpuGemCreate), Err(Errno::EOPNOTSUPP));
        assert_eq!(policy().check(Declaration::Unknown, &[]), Err(Errno::EOPNOTSUPP));
    }
}
