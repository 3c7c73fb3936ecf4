//! The table itself.

use super::model::{
    AddressField, Beyond, Bound, Decl, Direction, FdField, FdPlace, FieldRef, Flow, Kernels, Length, Pointer,
    Reach, SharedRange, Stride, Tail, When,
};
use super::ops::{self, MAX_GPUS, bytes};
use crate::Errno;
use crate::kfd::args::*;
use crate::kfd::constants::AllocFlags;
use crate::kfd::structs::Struct;
use crate::kfd::types::{EventData, ProcessDeviceApertures, SvmAttribute};

/// Memory of the program's own.
const USERPTR: u64 = AllocFlags::USERPTR.0 as u64;

/// The largest allocation of `kmalloc` on x86-64 (`KMALLOC_MAX_SIZE`); above it the answer is `ENOMEM`.
const KMALLOC_MAX: u64 = 4 << 20;

/// `sizeof(struct kfd_event_waiter)`: a wait queue entry (40), an event pointer (8), two flags (8).
const EVENT_WAITER: u64 = 56;

/// Declares [`Ioctl`] and its [`Decl`]s, one line each:
/// `Variant: "name", number, direction, argument struct, kernels, since minor;`, then what differs from the
/// default.
macro_rules! kfd_ioctls {
    ($(
        $(#[$doc:meta])*
        $variant:ident: $name:literal, $nr:literal, $direction:ident, $args:ty, $kernels:ident, $since:literal
        $({ $($field:ident: $value:expr),* $(,)? })?;
    )*) => {
        /// An ioctl of `/dev/kfd`. Two numbers have a second layout on ROCm's kernels; those are variants of
        /// their own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Ioctl {
            $($(#[$doc])* $variant,)*
        }

        impl Ioctl {
            /// Every ioctl, in the order of the uapi headers.
            pub const ALL: &'static [Ioctl] = &[$(Ioctl::$variant),*];

            /// Its declaration.
            #[must_use]
            pub const fn decl(self) -> &'static Decl {
                match self {
                    $(Ioctl::$variant => {
                        #[allow(clippy::needless_update, reason = "for those that set every field")]
                        static DECL: Decl = Decl {
                            $($($field: $value,)*)?
                            ..Decl {
                                ioctl: Ioctl::$variant,
                                name: concat!("AMDKFD_IOC_", $name),
                                nr: $nr,
                                direction: Direction::$direction,
                                args: Struct::of::<$args>(),
                                kernels: Kernels::$kernels,
                                since: $since,
                                reach: Reach::NONE,
                                ops: None,
                                tail: None,
                            }
                        };
                        &DECL
                    })*
                }
            }
        }
    };
}

/// The argument struct is passed, and nothing else of the program is touched; it takes milliseconds.
const SLOW: Reach = Reach { slow: true, ..Reach::NONE };

/// `kmalloc_array` of the ids, then one copy.
const fn device_ids(addr: FieldRef, count: FieldRef) -> Pointer {
    Pointer {
        addr,
        length: Length::Array { count, per: 1, stride: Stride::Bytes(4) },
        flow: Flow::In,
        bound: Bound { max: KMALLOC_MAX / 4, beyond: Beyond::Refused(Errno::ENOMEM) },
    }
}

/// An array of words that the kernel fills in, at most `max` of them.
const fn words_out(addr: FieldRef, count: FieldRef, max: u64) -> Pointer {
    Pointer {
        addr,
        length: Length::Array { count, per: 1, stride: Stride::Bytes(4) },
        flow: Flow::Out,
        bound: Bound { max, beyond: Beyond::Clamped },
    }
}

/// An address with a length in the arguments.
const fn range(addr: FieldRef, len: FieldRef) -> AddressField {
    AddressField { addr, len: Some(len), optional: false }
}

/// An address whose length KFD knows.
const fn address(addr: FieldRef) -> AddressField {
    AddressField { addr, len: None, optional: false }
}

/// The same, but 0 stands for none.
const fn optional(address: AddressField) -> AddressField {
    AddressField { optional: true, ..address }
}

const fn fd(field: FieldRef, flow: Flow) -> FdField {
    FdField { place: FdPlace::Args(field), flow }
}

kfd_ioctls! {
    /// Version of the interface.
    GetVersion: "GET_VERSION", 0x01, Read, GetVersionArgs, Both, 0;
    /// Creates a user mode queue. The addresses are GPU addresses of buffers that KFD knows.
    CreateQueue: "CREATE_QUEUE", 0x02, ReadWrite, CreateQueueArgs, Both, 0 {
        reach: Reach {
            addresses: &[
                range(
                    FieldRef::of::<CreateQueueArgs>("ring_base_address"),
                    FieldRef::of::<CreateQueueArgs>("ring_size"),
                ),
                address(FieldRef::of::<CreateQueueArgs>("write_pointer_address")),
                address(FieldRef::of::<CreateQueueArgs>("read_pointer_address")),
                optional(range(
                    FieldRef::of::<CreateQueueArgs>("eop_buffer_address"),
                    FieldRef::of::<CreateQueueArgs>("eop_buffer_size"),
                )),
                optional(range(
                    FieldRef::of::<CreateQueueArgs>("ctx_save_restore_address"),
                    FieldRef::of::<CreateQueueArgs>("ctx_save_restore_size"),
                )),
            ],
            ..SLOW
        },
    };
    /// Destroys a queue, after it has been preempted.
    DestroyQueue: "DESTROY_QUEUE", 0x03, ReadWrite, DestroyQueueArgs, Both, 0 { reach: SLOW };
    /// Cache policy of the default and of an alternate aperture.
    SetMemoryPolicy: "SET_MEMORY_POLICY", 0x04, Write, SetMemoryPolicyArgs, Both, 0 {
        reach: Reach {
            addresses: &[optional(range(
                FieldRef::of::<SetMemoryPolicyArgs>("alternate_aperture_base"),
                FieldRef::of::<SetMemoryPolicyArgs>("alternate_aperture_size"),
            ))],
            ..Reach::NONE
        },
    };
    /// GPU, CPU and system clocks at one moment.
    GetClockCounters: "GET_CLOCK_COUNTERS", 0x05, ReadWrite, GetClockCountersArgs, Both, 0;
    /// Apertures of up to seven GPUs, in the argument struct.
    GetProcessApertures: "GET_PROCESS_APERTURES", 0x06, Read, GetProcessAperturesArgs, Both, 0;
    /// Changes ring, share and priority of a queue; a ring of size 0 stops it.
    UpdateQueue: "UPDATE_QUEUE", 0x07, Write, UpdateQueueArgs, Both, 0 {
        reach: Reach {
            addresses: &[optional(range(
                FieldRef::of::<UpdateQueueArgs>("ring_base_address"),
                FieldRef::of::<UpdateQueueArgs>("ring_size"),
            ))],
            ..SLOW
        },
    };
    /// Creates an event.
    CreateEvent: "CREATE_EVENT", 0x08, ReadWrite, CreateEventArgs, Both, 0;
    /// Destroys an event; waits on it fail.
    DestroyEvent: "DESTROY_EVENT", 0x09, Write, DestroyEventArgs, Both, 0;
    /// Signals an event.
    SetEvent: "SET_EVENT", 0x0a, Write, SetEventArgs, Both, 0;
    /// Takes an event's signal back.
    ResetEvent: "RESET_EVENT", 0x0b, Write, ResetEventArgs, Both, 0;
    /// Waits for one or all of a list of events.
    WaitEvents: "WAIT_EVENTS", 0x0c, ReadWrite, WaitEventsArgs, Both, 0 {
        reach: Reach {
            // kfd_wait_on_events: read one by one, payloads written back for those that fired. The number is
            // limited by the allocation of a waiter each (kcalloc), which comes first.
            pointers: &[Pointer {
                addr: FieldRef::of::<WaitEventsArgs>("events_ptr"),
                length: Length::Array {
                    count: FieldRef::of::<WaitEventsArgs>("num_events"),
                    per: 1,
                    stride: Stride::Bytes(size_of::<EventData>() as u64),
                },
                flow: Flow::InOut,
                bound: Bound { max: KMALLOC_MAX / EVENT_WAITER, beyond: Beyond::Refused(Errno::ENOMEM) },
            }],
            blocking: true,
            ..Reach::NONE
        },
    };
    /// Always `EPERM` (`kfd_ioctl_dbg_register`): the old debugger interface is gone.
    DbgRegisterDeprecated: "DBG_REGISTER_DEPRECATED", 0x0d, Write, DbgRegisterArgs, Both, 0;
    /// Always `EPERM`.
    DbgUnregisterDeprecated: "DBG_UNREGISTER_DEPRECATED", 0x0e, Write, DbgUnregisterArgs, Both, 0;
    /// Always `EPERM`; its pointer is never touched.
    DbgAddressWatchDeprecated: "DBG_ADDRESS_WATCH_DEPRECATED", 0x0f, Write, DbgAddressWatchArgs, Both, 0;
    /// Always `EPERM`; its pointer is never touched.
    DbgWaveControlDeprecated: "DBG_WAVE_CONTROL_DEPRECATED", 0x10, Write, DbgWaveControlArgs, Both, 0;
    /// Address of the scratch aperture, in units of 64 KiB, for GPUs whose VMIDs the scheduler does not manage: the value of a
    /// register (`SH_HIDDEN_PRIVATE_BASE_VMID`), with which a program's kernels reach what the GPU's page tables let them.
    SetScratchBackingVa: "SET_SCRATCH_BACKING_VA", 0x11, ReadWrite, SetScratchBackingVaArgs, Both, 0;
    /// Tiling registers of a GPU.
    GetTileConfig: "GET_TILE_CONFIG", 0x12, ReadWrite, GetTileConfigArgs, Both, 0 {
        reach: Reach {
            // Lengths of tile_mode_array and macrotile_mode_array in struct amdgpu_gfx_config.
            pointers: &[
                words_out(
                    FieldRef::of::<GetTileConfigArgs>("tile_config_ptr"),
                    FieldRef::of::<GetTileConfigArgs>("num_tile_configs"),
                    32,
                ),
                words_out(
                    FieldRef::of::<GetTileConfigArgs>("macro_tile_config_ptr"),
                    FieldRef::of::<GetTileConfigArgs>("num_macro_tile_configs"),
                    16,
                ),
            ],
            ..Reach::NONE
        },
    };
    /// Trap handler of the process on one GPU. The addresses are GPU addresses.
    SetTrapHandler: "SET_TRAP_HANDLER", 0x13, Write, SetTrapHandlerArgs, Both, 0 {
        reach: Reach {
            addresses: &[
                optional(address(FieldRef::of::<SetTrapHandlerArgs>("tba_addr"))),
                optional(address(FieldRef::of::<SetTrapHandlerArgs>("tma_addr"))),
            ],
            ..Reach::NONE
        },
    };
    /// Apertures of all GPUs, or with a count of 0 their number.
    GetProcessAperturesNew: "GET_PROCESS_APERTURES_NEW", 0x14, ReadWrite, GetProcessAperturesNewArgs, Both, 0 {
        reach: Reach {
            // A count above the number of topology nodes is EINVAL; what is written is one entry a GPU.
            pointers: &[Pointer {
                addr: FieldRef::of::<GetProcessAperturesNewArgs>("kfd_process_device_apertures_ptr"),
                length: Length::Array {
                    count: FieldRef::of::<GetProcessAperturesNewArgs>("num_of_nodes"),
                    per: 1,
                    stride: Stride::Bytes(size_of::<ProcessDeviceApertures>() as u64),
                },
                flow: Flow::Out,
                bound: Bound { max: MAX_GPUS, beyond: Beyond::Clamped },
            }],
            ..Reach::NONE
        },
    };
    /// Makes the GPU address space of a render node file the process's compute address space.
    AcquireVm: "ACQUIRE_VM", 0x15, Write, AcquireVmArgs, Both, 0 {
        reach: Reach {
            fds: &[fd(FieldRef::of::<AcquireVmArgs>("drm_fd"), Flow::In)],
            ..Reach::NONE
        },
    };
    /// Allocates memory that GPUs can map, or registers the program's own.
    AllocMemoryOfGpu: "ALLOC_MEMORY_OF_GPU", 0x16, ReadWrite, AllocMemoryOfGpuArgs, Both, 0 {
        reach: Reach {
            shared: &[SharedRange {
                addr: FieldRef::of::<AllocMemoryOfGpuArgs>("mmap_offset"),
                len: FieldRef::of::<AllocMemoryOfGpuArgs>("size"),
                when: When::Bits(FieldRef::of::<AllocMemoryOfGpuArgs>("flags"), USERPTR),
            }],
            addresses: &[range(
                FieldRef::of::<AllocMemoryOfGpuArgs>("va_addr"),
                FieldRef::of::<AllocMemoryOfGpuArgs>("size"),
            )],
            ..Reach::NONE
        },
    };
    /// Frees memory.
    FreeMemoryOfGpu: "FREE_MEMORY_OF_GPU", 0x17, Write, FreeMemoryOfGpuArgs, Both, 0 { reach: SLOW };
    /// Maps memory into the page tables of GPUs.
    MapMemoryToGpu: "MAP_MEMORY_TO_GPU", 0x18, ReadWrite, MapMemoryToGpuArgs, Both, 0 {
        reach: Reach {
            pointers: &[device_ids(
                FieldRef::of::<MapMemoryToGpuArgs>("device_ids_array_ptr"),
                FieldRef::of::<MapMemoryToGpuArgs>("n_devices"),
            )],
            ..Reach::NONE
        },
    };
    /// Takes memory out of the page tables of GPUs.
    UnmapMemoryFromGpu: "UNMAP_MEMORY_FROM_GPU", 0x19, ReadWrite, UnmapMemoryFromGpuArgs, Both, 0 {
        reach: Reach {
            pointers: &[device_ids(
                FieldRef::of::<UnmapMemoryFromGpuArgs>("device_ids_array_ptr"),
                FieldRef::of::<UnmapMemoryFromGpuArgs>("n_devices"),
            )],
            slow: true,
            ..Reach::NONE
        },
    };
    /// Compute units that a queue may use.
    SetCuMask: "SET_CU_MASK", 0x1a, Write, SetCuMaskArgs, Both, 0 {
        reach: Reach {
            // kfd_ioctl_set_cu_mask: a bit each, in whole words, of which 1024 bits are taken.
            pointers: &[Pointer {
                addr: FieldRef::of::<SetCuMaskArgs>("cu_mask_ptr"),
                length: Length::Array {
                    count: FieldRef::of::<SetCuMaskArgs>("num_cu_mask"),
                    per: 32,
                    stride: Stride::Bytes(4),
                },
                flow: Flow::In,
                bound: Bound { max: 1024 / 32, beyond: Beyond::Clamped },
            }],
            slow: true,
            ..Reach::NONE
        },
    };
    /// Control stack and sizes of the saved waves of a queue that does not run.
    GetQueueWaveState: "GET_QUEUE_WAVE_STATE", 0x1b, ReadWrite, GetQueueWaveStateArgs, Both, 0 {
        reach: Reach {
            // get_wave_state: a header and the used part of the control stack; on GPUs of several dies one
            // per die, a save area's size (32 bits) apart. Dies: 8, so less than 2^35 bytes.
            pointers: &[Pointer {
                addr: FieldRef::of::<GetQueueWaveStateArgs>("ctl_stack_address"),
                length: Length::Device,
                flow: Flow::Out,
                bound: Bound { max: 1 << 35, beyond: Beyond::Clamped },
            }],
            ..Reach::NONE
        },
    };
    /// Size, GPU, flags and metadata of a dma-buf of this driver.
    GetDmabufInfo: "GET_DMABUF_INFO", 0x1c, ReadWrite, GetDmabufInfoArgs, Both, 0 {
        reach: Reach {
            // Metadata is set through AMDGPU_GEM_METADATA, which takes 256 bytes at most.
            pointers: &[Pointer {
                addr: FieldRef::of::<GetDmabufInfoArgs>("metadata_ptr"),
                length: bytes(FieldRef::of::<GetDmabufInfoArgs>("metadata_size")),
                flow: Flow::Out,
                bound: Bound { max: 256, beyond: Beyond::Clamped },
            }],
            fds: &[fd(FieldRef::of::<GetDmabufInfoArgs>("dmabuf_fd"), Flow::In)],
            ..Reach::NONE
        },
    };
    /// Makes a buffer of a dma-buf.
    ImportDmabuf: "IMPORT_DMABUF", 0x1d, ReadWrite, ImportDmabufArgs, Both, 0 {
        reach: Reach {
            fds: &[fd(FieldRef::of::<ImportDmabufArgs>("dmabuf_fd"), Flow::In)],
            addresses: &[address(FieldRef::of::<ImportDmabufArgs>("va_addr"))],
            ..Reach::NONE
        },
    };
    /// Global wave sync for a queue.
    AllocQueueGws: "ALLOC_QUEUE_GWS", 0x1e, ReadWrite, AllocQueueGwsArgs, Both, 0 { reach: SLOW };
    /// Opens a stream of system management events.
    SmiEvents: "SMI_EVENTS", 0x1f, ReadWrite, SmiEventsArgs, Both, 3 {
        reach: Reach {
            fds: &[fd(FieldRef::of::<SmiEventsArgs>("anon_fd"), Flow::Out)],
            ..Reach::NONE
        },
    };
    /// Attributes of shared virtual memory. They follow the argument struct, and the request's size counts
    /// them.
    Svm: "SVM", 0x20, ReadWrite, SvmArgs, Both, 5 {
        ops: Some(&ops::SVM),
        tail: Some(Tail {
            count: FieldRef::of::<SvmArgs>("nattr"),
            element: Struct::of::<SvmAttribute>(),
        }),
    };
    /// Sets or reads whether GPU page faults can be retried.
    SetXnackMode: "SET_XNACK_MODE", 0x21, ReadWrite, SetXnackModeArgs, Both, 5;
    /// Checkpoint and restore.
    CriuOp: "CRIU_OP", 0x22, ReadWrite, CriuArgs, Both, 7 { ops: Some(&ops::CRIU) };
    /// Memory that a GPU still has.
    AvailableMemory: "AVAILABLE_MEMORY", 0x23, ReadWrite, GetAvailableMemoryArgs, Both, 9;
    /// Makes a dma-buf of a buffer.
    ExportDmabuf: "EXPORT_DMABUF", 0x24, ReadWrite, ExportDmabufArgs, Both, 12 {
        reach: Reach {
            fds: &[fd(FieldRef::of::<ExportDmabufArgs>("dmabuf_fd"), Flow::Out)],
            ..Reach::NONE
        },
    };
    /// Tells KFD, and a debugger, that the runtime is there. Waits for the debugger if there is one.
    RuntimeEnable: "RUNTIME_ENABLE", 0x25, ReadWrite, RuntimeEnableArgs, Both, 13 {
        reach: Reach { blocking: true, ..Reach::NONE },
    };
    /// Debugger.
    DbgTrap: "DBG_TRAP", 0x26, ReadWrite, DbgTrapArgs, Both, 13 { ops: Some(&ops::DBG_TRAP) };
    /// Makes the file a KFD process of its own, beside the first one of the program.
    CreateProcess: "CREATE_PROCESS", 0x27, None, NoArgs, Mainline, 19;
    /// The same with ROCm's argument.
    RocmCreateProcess: "CREATE_PROCESS", 0x27, ReadWrite, CreateProcessArgs, Rocm, 0;
    /// Performance counters and power limits.
    Profiler: "PROFILER", 0x28, ReadWrite, ProfilerArgs, Mainline, 23 { ops: Some(&ops::PROFILER) };
    /// Maps memory that another process exported.
    IpcImportHandle: "IPC_IMPORT_HANDLE", 0x80, ReadWrite, IpcImportHandleArgs, Rocm, 0 {
        reach: Reach {
            addresses: &[address(FieldRef::of::<IpcImportHandleArgs>("va_addr"))],
            ..Reach::NONE
        },
    };
    /// Makes a handle by which another process maps memory.
    IpcExportHandle: "IPC_EXPORT_HANDLE", 0x81, ReadWrite, IpcExportHandleArgs, Rocm, 0;
    /// Copies between the GPU-mapped memory of two processes. The ranges in the arrays are GPU addresses of
    /// buffers that KFD knows, in the one or the other process.
    CrossMemoryCopy: "CROSS_MEMORY_COPY", 0x83, ReadWrite, CrossMemoryCopyArgs, Rocm, 0 {
        reach: Reach {
            pointers: &[
                memory_ranges(
                    FieldRef::of::<CrossMemoryCopyArgs>("src_mem_range_array"),
                    FieldRef::of::<CrossMemoryCopyArgs>("src_mem_array_size"),
                ),
                memory_ranges(
                    FieldRef::of::<CrossMemoryCopyArgs>("dst_mem_range_array"),
                    FieldRef::of::<CrossMemoryCopyArgs>("dst_mem_array_size"),
                ),
            ],
            slow: true,
            ..Reach::NONE
        },
    };
    /// Streaming performance monitor.
    RlcSpm: "RLC_SPM", 0x84, ReadWrite, SpmArgs, Rocm, 0 { ops: Some(&ops::SPM) };
    /// Program counter sampling.
    PcSample: "PC_SAMPLE", 0x85, ReadWrite, PcSampleArgs, Rocm, 0 { ops: Some(&ops::PC_SAMPLE) };
    /// ROCm's layout and number of [`Ioctl::Profiler`].
    RocmProfiler: "PROFILER", 0x86, ReadWrite, RocmProfilerArgs, Rocm, 0 { ops: Some(&ops::ROCM_PROFILER) };
    /// Reads a file into GPU memory or writes it from there.
    AisOp: "AIS_OP", 0x87, ReadWrite, AisArgs, Rocm, 0 {
        reach: Reach {
            fds: &[fd(FieldRef::of::<crate::kfd::types::AisInArgs>("fd"), Flow::In)],
            slow: true,
            ..Reach::NONE
        },
    };
}

/// Ranges of a cross memory copy.
const fn memory_ranges(addr: FieldRef, count: FieldRef) -> Pointer {
    Pointer {
        addr,
        length: Length::Array {
            count,
            per: 1,
            stride: Stride::Bytes(size_of::<crate::kfd::types::MemoryRange>() as u64),
        },
        flow: Flow::In,
        bound: Bound { max: KMALLOC_MAX / 16, beyond: Beyond::Refused(Errno::ENOMEM) },
    }
}
