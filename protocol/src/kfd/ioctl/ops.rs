//! The operations of the ioctls whose arguments select one: DBG_TRAP, CRIU_OP, SVM, RLC_SPM, PC_SAMPLE and
//! PROFILER.

use super::model::{
    Beyond, Bound, FdField, FdPlace, FieldRef, Flow, Length, Op, Ops, Pointer, Reach, SharedRange, Stride,
    When,
};
use crate::Errno;
use crate::kfd::args::{
    CriuArgs, DbgTrapArgs, PcSampleArgs, ProfilerArgs, RocmProfilerArgs, SpmArgs, SvmArgs,
};
use crate::kfd::structs::{Struct, UapiStruct};
use crate::kfd::types as t;

/// GPUs (`MAX_GPU_INSTANCE`): no call writes more entries per GPU than this.
pub(super) const MAX_GPUS: u64 = 64;

/// Queues of one process (`KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`).
const MAX_QUEUES: u64 = 1024;

/// Buffers of a CRIU call. The kernel has no limit but its allocator's (`kvmalloc_array`: 2 GiB); this one is
/// ours, far above what a process has.
const MAX_CRIU_BUFFERS: u64 = 1 << 16;

/// Private data of a CRIU call in bytes; ours as well. A queue's entry holds its queue descriptor and control
/// stack, some 100 KiB.
const MAX_CRIU_PRIVATE: u64 = 256 << 20;

const fn op(value: u32, name: &'static str, body: Option<(usize, Struct)>, reach: Reach) -> Op {
    Op { value, name, body, reach, ops: None }
}

/// Offset of the operation's own struct in `struct kfd_ioctl_dbg_trap_args`.
const DBG_BODY: usize = core::mem::offset_of!(DbgTrapArgs, body);

/// An operation of DBG_TRAP whose body is `T`.
const fn dbg<T: UapiStruct>(value: u32, name: &'static str, reach: Reach) -> Op {
    op(value, name, Some((DBG_BODY, Struct::of::<T>())), reach)
}

/// A field of a DBG_TRAP operation's body.
const fn dbg_field<T: UapiStruct>(name: &str) -> FieldRef {
    FieldRef::at::<T>(DBG_BODY, name)
}

/// `kfd_ioctl_set_debug_trap`, `kfd_debug.c`.
pub(super) static DBG_TRAP: Ops = Ops {
    selector: FieldRef::of::<DbgTrapArgs>("op"),
    list: &[
        // kfd_dbg_trap_enable: min(rinfo_size, size of the struct) bytes.
        dbg::<t::DbgTrapEnableArgs>(
            0,
            "KFD_IOC_DBG_TRAP_ENABLE",
            Reach {
                pointers: &[Pointer {
                    addr: dbg_field::<t::DbgTrapEnableArgs>("rinfo_ptr"),
                    length: bytes(dbg_field::<t::DbgTrapEnableArgs>("rinfo_size")),
                    flow: Flow::Out,
                    bound: Bound { max: size_of::<t::RuntimeInfo>() as u64, beyond: Beyond::Clamped },
                }],
                fds: &[FdField {
                    place: FdPlace::Args(dbg_field::<t::DbgTrapEnableArgs>("dbg_fd")),
                    flow: Flow::In,
                }],
                ..Reach::NONE
            },
        ),
        op(1, "KFD_IOC_DBG_TRAP_DISABLE", None, Reach::NONE),
        dbg::<t::DbgTrapSendRuntimeEventArgs>(2, "KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT", Reach::NONE),
        dbg::<t::DbgTrapSetExceptionsEnabledArgs>(3, "KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED", Reach::NONE),
        dbg::<t::DbgTrapSetWaveLaunchOverrideArgs>(
            4,
            "KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE",
            Reach::NONE,
        ),
        dbg::<t::DbgTrapSetWaveLaunchModeArgs>(5, "KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE", Reach::NONE),
        dbg::<t::DbgTrapSuspendQueuesArgs>(
            6,
            "KFD_IOC_DBG_TRAP_SUSPEND_QUEUES",
            Reach { pointers: &[queue_ids::<t::DbgTrapSuspendQueuesArgs>()], slow: true, ..Reach::NONE },
        ),
        dbg::<t::DbgTrapResumeQueuesArgs>(
            7,
            "KFD_IOC_DBG_TRAP_RESUME_QUEUES",
            Reach { pointers: &[queue_ids::<t::DbgTrapResumeQueuesArgs>()], slow: true, ..Reach::NONE },
        ),
        dbg::<t::DbgTrapSetNodeAddressWatchArgs>(8, "KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH", Reach::NONE),
        dbg::<t::DbgTrapClearNodeAddressWatchArgs>(
            9,
            "KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH",
            Reach::NONE,
        ),
        dbg::<t::DbgTrapSetFlagsArgs>(10, "KFD_IOC_DBG_TRAP_SET_FLAGS", Reach::NONE),
        dbg::<t::DbgTrapQueryDebugEventArgs>(11, "KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT", Reach::NONE),
        // kfd_dbg_trap_query_exception_info: min(info_size, what is stored); the larger of the two structs
        // that can be stored is the memory exception's.
        dbg::<t::DbgTrapQueryExceptionInfoArgs>(
            12,
            "KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO",
            Reach {
                pointers: &[Pointer {
                    addr: dbg_field::<t::DbgTrapQueryExceptionInfoArgs>("info_ptr"),
                    length: bytes(dbg_field::<t::DbgTrapQueryExceptionInfoArgs>("info_size")),
                    flow: Flow::Out,
                    bound: Bound {
                        max: size_of::<t::HsaMemoryExceptionData>() as u64,
                        beyond: Beyond::Clamped,
                    },
                }],
                ..Reach::NONE
            },
        ),
        dbg::<t::DbgTrapQueueSnapshotArgs>(
            13,
            "KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT",
            Reach {
                pointers: &[snapshot::<t::DbgTrapQueueSnapshotArgs>("num_queues", MAX_QUEUES)],
                ..Reach::NONE
            },
        ),
        dbg::<t::DbgTrapDeviceSnapshotArgs>(
            14,
            "KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT",
            Reach {
                pointers: &[snapshot::<t::DbgTrapDeviceSnapshotArgs>("num_devices", MAX_GPUS)],
                ..Reach::NONE
            },
        ),
    ],
};

/// A length in bytes that a field holds.
pub(super) const fn bytes(count: FieldRef) -> Length {
    Length::Array { count, per: 1, stride: Stride::Bytes(1) }
}

/// `get_queue_ids`: the kernel answers `EINVAL` to more queues than a process can have; the ids come back with
/// the bits of `KFD_DBG_QUEUE_ERROR_MASK` and `KFD_DBG_QUEUE_INVALID_MASK`.
const fn queue_ids<T: UapiStruct>() -> Pointer {
    Pointer {
        addr: dbg_field::<T>("queue_array_ptr"),
        length: Length::Array { count: dbg_field::<T>("num_queues"), per: 1, stride: Stride::Bytes(4) },
        flow: Flow::InOut,
        bound: Bound { max: MAX_QUEUES, beyond: Beyond::Refused(Errno::EINVAL) },
    }
}

/// `pqm_get_queue_snapshot` and `kfd_dbg_trap_device_snapshot`: no more entries than there are queues or GPUs,
/// at the distance that the caller gives.
const fn snapshot<T: UapiStruct>(count: &str, max: u64) -> Pointer {
    Pointer {
        addr: dbg_field::<T>("snapshot_buf_ptr"),
        length: Length::Array {
            count: dbg_field::<T>(count),
            per: 1,
            stride: Stride::Field(dbg_field::<T>("entry_size")),
        },
        flow: Flow::Out,
        bound: Bound { max, beyond: Beyond::Clamped },
    }
}

/// `kfd_ioctl_criu`.
pub(super) static CRIU: Ops = Ops {
    selector: FieldRef::of::<CriuArgs>("op"),
    list: &[
        op(0, "KFD_CRIU_OP_PROCESS_INFO", None, Reach { slow: true, ..Reach::NONE }),
        op(
            1,
            "KFD_CRIU_OP_CHECKPOINT",
            None,
            Reach {
                pointers: &[criu_devices(Flow::Out), criu_buffers(Flow::Out), criu_private(Flow::Out)],
                fds: &[criu_dmabufs()],
                slow: true,
                ..Reach::NONE
            },
        ),
        op(2, "KFD_CRIU_OP_UNPAUSE", None, Reach { slow: true, ..Reach::NONE }),
        op(
            3,
            "KFD_CRIU_OP_RESTORE",
            None,
            Reach {
                pointers: &[criu_devices(Flow::In), criu_buffers(Flow::InOut), criu_private(Flow::In)],
                fds: &[
                    FdField {
                        place: FdPlace::Element {
                            pointer: 0,
                            field: FieldRef::of::<t::CriuDeviceBucket>("drm_fd"),
                        },
                        flow: Flow::In,
                    },
                    criu_dmabufs(),
                ],
                slow: true,
                ..Reach::NONE
            },
        ),
        op(4, "KFD_CRIU_OP_RESUME", None, Reach { slow: true, ..Reach::NONE }),
    ],
};

const fn criu_devices(flow: Flow) -> Pointer {
    Pointer {
        addr: FieldRef::of::<CriuArgs>("devices"),
        length: Length::Array {
            count: FieldRef::of::<CriuArgs>("num_devices"),
            per: 1,
            stride: Stride::Bytes(size_of::<t::CriuDeviceBucket>() as u64),
        },
        flow,
        // Both operations compare the number with the process's own: EINVAL if it differs.
        bound: Bound { max: MAX_GPUS, beyond: Beyond::Refused(Errno::EINVAL) },
    }
}

const fn criu_buffers(flow: Flow) -> Pointer {
    Pointer {
        addr: FieldRef::of::<CriuArgs>("bos"),
        length: Length::Array {
            count: FieldRef::of::<CriuArgs>("num_bos"),
            per: 1,
            stride: Stride::Bytes(size_of::<t::CriuBoBucket>() as u64),
        },
        flow,
        bound: Bound { max: MAX_CRIU_BUFFERS, beyond: Beyond::Refused(Errno::ENOMEM) },
    }
}

const fn criu_private(flow: Flow) -> Pointer {
    Pointer {
        addr: FieldRef::of::<CriuArgs>("priv_data"),
        length: bytes(FieldRef::of::<CriuArgs>("priv_data_size")),
        flow,
        bound: Bound { max: MAX_CRIU_PRIVATE, beyond: Beyond::Refused(Errno::ENOMEM) },
    }
}

/// `criu_get_prime_handle`: both operations create a dma-buf descriptor per buffer, for the plugin to copy
/// the contents.
const fn criu_dmabufs() -> FdField {
    FdField {
        place: FdPlace::Element { pointer: 1, field: FieldRef::of::<t::CriuBoBucket>("dmabuf_fd") },
        flow: Flow::Out,
    }
}

/// `svm_ioctl`. Setting attributes makes a range of the program's memory reachable for the GPUs.
pub(super) static SVM: Ops = Ops {
    selector: FieldRef::of::<SvmArgs>("op"),
    list: &[
        op(
            0,
            "KFD_IOCTL_SVM_OP_SET_ATTR",
            None,
            Reach {
                shared: &[SharedRange {
                    addr: FieldRef::of::<SvmArgs>("start_addr"),
                    len: FieldRef::of::<SvmArgs>("size"),
                    when: When::Always,
                }],
                slow: true,
                ..Reach::NONE
            },
        ),
        op(1, "KFD_IOCTL_SVM_OP_GET_ATTR", None, Reach::NONE),
    ],
};

/// `kfd_rlc_spm` of ROCm's kernel. A destination buffer is filled long after the call that names it, until the
/// next one takes its place.
pub(super) static SPM: Ops = Ops {
    selector: FieldRef::of::<SpmArgs>("op"),
    list: &[
        op(0, "KFD_IOCTL_SPM_OP_ACQUIRE", None, Reach::NONE),
        op(1, "KFD_IOCTL_SPM_OP_RELEASE", None, Reach { slow: true, ..Reach::NONE }),
        op(
            2,
            "KFD_IOCTL_SPM_OP_SET_DEST_BUF",
            None,
            Reach {
                shared: &[SharedRange {
                    addr: FieldRef::of::<SpmArgs>("dest_buf"),
                    len: FieldRef::of::<SpmArgs>("buf_size"),
                    when: When::Always,
                }],
                blocking: true,
                ..Reach::NONE
            },
        ),
    ],
};

/// PC_SAMPLE's operations, for an argument struct at offset `$base`.
macro_rules! pc_sample_ops {
    ($base:expr) => {
        Ops {
            selector: FieldRef::at::<PcSampleArgs>($base, "op"),
            list: &[
                // kfd_pc_sample_query_cap: one entry per method that the GPU has, of which there are two.
                op(
                    0,
                    "KFD_IOCTL_PCS_OP_QUERY_CAPABILITIES",
                    None,
                    Reach {
                        pointers: &[Pointer {
                            addr: FieldRef::at::<PcSampleArgs>($base, "sample_info_ptr"),
                            length: Length::Array {
                                count: FieldRef::at::<PcSampleArgs>($base, "num_sample_info"),
                                per: 1,
                                stride: Stride::Bytes(size_of::<t::PcSampleInfo>() as u64),
                            },
                            flow: Flow::Out,
                            bound: Bound { max: 16, beyond: Beyond::Clamped },
                        }],
                        ..Reach::NONE
                    },
                ),
                // kfd_pc_sample_create: exactly one; it is overwritten when another session differs (EEXIST).
                op(
                    1,
                    "KFD_IOCTL_PCS_OP_CREATE",
                    None,
                    Reach {
                        pointers: &[Pointer {
                            addr: FieldRef::at::<PcSampleArgs>($base, "sample_info_ptr"),
                            length: Length::Fixed(size_of::<t::PcSampleInfo>() as u64),
                            flow: Flow::InOut,
                            bound: Bound {
                                max: size_of::<t::PcSampleInfo>() as u64,
                                beyond: Beyond::Clamped,
                            },
                        }],
                        ..Reach::NONE
                    },
                ),
                op(2, "KFD_IOCTL_PCS_OP_DESTROY", None, Reach { slow: true, ..Reach::NONE }),
                op(3, "KFD_IOCTL_PCS_OP_START", None, Reach::NONE),
                op(4, "KFD_IOCTL_PCS_OP_STOP", None, Reach { slow: true, ..Reach::NONE }),
            ],
        }
    };
}

/// `kfd_pc_sample` of ROCm's kernel.
pub(super) static PC_SAMPLE: Ops = pc_sample_ops!(0);

/// The same inside PROFILER's arguments.
static PROFILER_PC_SAMPLE: Ops = pc_sample_ops!(core::mem::offset_of!(RocmProfilerArgs, body));

const PROFILER_BODY: usize = core::mem::offset_of!(ProfilerArgs, body);
const ROCM_PROFILER_BODY: usize = core::mem::offset_of!(RocmProfilerArgs, body);

/// Mainline's PROFILER. The version comes back in the first word of the body.
pub(super) static PROFILER: Ops = Ops {
    selector: FieldRef::of::<ProfilerArgs>("op"),
    list: &[
        op(0, "KFD_IOC_PROFILER_PMC", Some((PROFILER_BODY, Struct::of::<t::PmcSettings>())), Reach::NONE),
        op(2, "KFD_IOC_PROFILER_VERSION", None, Reach::NONE),
        op(
            3,
            "KFD_IOC_PROFILER_PTL_CONTROL",
            Some((PROFILER_BODY, Struct::of::<t::PtlControl>())),
            Reach::NONE,
        ),
    ],
};

/// ROCm's PROFILER, which contains PC_SAMPLE.
pub(super) static ROCM_PROFILER: Ops = Ops {
    selector: FieldRef::of::<RocmProfilerArgs>("op"),
    list: &[
        op(
            0,
            "KFD_IOC_PROFILER_PMC",
            Some((ROCM_PROFILER_BODY, Struct::of::<t::PmcSettings>())),
            Reach::NONE,
        ),
        Op {
            value: 1,
            name: "KFD_IOC_PROFILER_PC_SAMPLE",
            body: Some((ROCM_PROFILER_BODY, Struct::of::<PcSampleArgs>())),
            reach: Reach::NONE,
            ops: Some(&PROFILER_PC_SAMPLE),
        },
        op(2, "KFD_IOC_PROFILER_VERSION", None, Reach::NONE),
    ],
};
