//! Calls about GPUs, memory and queues, which a machine without a GPU mostly refuses.

use protocol::kfd::args::*;
use protocol::kfd::constants::{AllocFlags, DbgTrapOp};
use protocol::kfd::ioctl::Ioctl;
use protocol::kfd::types::RuntimeInfo;

use crate::calls::{Edges, Kfd, address, line};

/// A GPU id that no GPU has.
const NO_GPU: u32 = 0x1234;

pub fn run(kfd: &Kfd) {
    clocks_and_apertures(kfd);
    unknown_gpu(kfd);
    memory(kfd);
    queues(kfd);
    svm(kfd);
    descriptors(kfd);
    runtime_and_debugger(kfd);
}

fn clocks_and_apertures(kfd: &Kfd) {
    for gpu_id in [0, NO_GPU, u32::MAX] {
        let mut args = GetClockCountersArgs { gpu_id, gpu_clock_counter: 5, ..Default::default() };
        let result = kfd.call(Ioctl::GetClockCounters, &mut args);
        let rest = format!(
            "gpu {} frequency {} cpu {} system {} id {:#x}",
            args.gpu_clock_counter,
            args.system_clock_freq,
            args.cpu_clock_counter != 0,
            args.system_clock_counter != 0,
            args.gpu_id
        );
        line(&format!("GET_CLOCK_COUNTERS of {gpu_id:#x}"), result, &rest);
    }
    let mut args = GetProcessAperturesArgs { num_of_nodes: 5, ..Default::default() };
    let result = kfd.call(Ioctl::GetProcessApertures, &mut args);
    line("GET_PROCESS_APERTURES", result, &format!("nodes {}", args.num_of_nodes));
    for (num_of_nodes, ptr) in [(0, 0), (0, 8), (1, 0), (7, 8), (u32::MAX, 0)] {
        let mut args = GetProcessAperturesNewArgs {
            num_of_nodes,
            kfd_process_device_apertures_ptr: ptr,
            ..Default::default()
        };
        let result = kfd.call(Ioctl::GetProcessAperturesNew, &mut args);
        let rest = format!("nodes {}", args.num_of_nodes);
        line(&format!("GET_PROCESS_APERTURES_NEW {num_of_nodes} at {ptr}"), result, &rest);
    }
}

fn unknown_gpu(kfd: &Kfd) {
    for gpu_id in [0, NO_GPU] {
        let name = |call: &str| format!("{call} of GPU {gpu_id:#x}");
        let mut args = SetMemoryPolicyArgs { gpu_id, ..Default::default() };
        line(&name("SET_MEMORY_POLICY"), kfd.call(Ioctl::SetMemoryPolicy, &mut args), "");
        args.default_policy = 9;
        line(&name("SET_MEMORY_POLICY 9"), kfd.call(Ioctl::SetMemoryPolicy, &mut args), "");
        args = SetMemoryPolicyArgs { gpu_id, alternate_policy: 9, ..Default::default() };
        line(&name("SET_MEMORY_POLICY alternate 9"), kfd.call(Ioctl::SetMemoryPolicy, &mut args), "");
        let mut args = SetScratchBackingVaArgs { gpu_id, ..Default::default() };
        line(&name("SET_SCRATCH_BACKING_VA"), kfd.call(Ioctl::SetScratchBackingVa, &mut args), "");
        let mut args = GetTileConfigArgs { gpu_id, num_tile_configs: 3, ..Default::default() };
        let result = kfd.call(Ioctl::GetTileConfig, &mut args);
        line(&name("GET_TILE_CONFIG"), result, &format!("tables {}", args.num_tile_configs));
        let mut args = SetTrapHandlerArgs { gpu_id, ..Default::default() };
        line(&name("SET_TRAP_HANDLER"), kfd.call(Ioctl::SetTrapHandler, &mut args), "");
        let mut args = GetAvailableMemoryArgs { gpu_id, available: 3, ..Default::default() };
        let result = kfd.call(Ioctl::AvailableMemory, &mut args);
        line(&name("AVAILABLE_MEMORY"), result, &format!("{}", args.available));
        let mut args = SmiEventsArgs { gpuid: gpu_id, anon_fd: 9 };
        let result = kfd.call(Ioctl::SmiEvents, &mut args);
        line(&name("SMI_EVENTS"), result, &format!("fd {}", args.anon_fd));
        let mut args = AcquireVmArgs { gpu_id, drm_fd: 0 };
        line(&name("ACQUIRE_VM"), kfd.call(Ioctl::AcquireVm, &mut args), "");
        args.drm_fd = 4000;
        line(&name("ACQUIRE_VM with no file"), kfd.call(Ioctl::AcquireVm, &mut args), "");
        let mut args = DbgRegisterArgs { gpu_id, ..Default::default() };
        line(&name("DBG_REGISTER"), kfd.call(Ioctl::DbgRegisterDeprecated, &mut args), "");
    }
    line("DBG_UNREGISTER", kfd.call(Ioctl::DbgUnregisterDeprecated, &mut DbgUnregisterArgs::default()), "");
    line(
        "DBG_ADDRESS_WATCH",
        kfd.call(Ioctl::DbgAddressWatchDeprecated, &mut DbgAddressWatchArgs::default()),
        "",
    );
    line(
        "DBG_WAVE_CONTROL",
        kfd.call(Ioctl::DbgWaveControlDeprecated, &mut DbgWaveControlArgs::default()),
        "",
    );
}

fn memory(kfd: &Kfd) {
    let flag_sets = [
        ("VRAM", AllocFlags::VRAM.0),
        ("GTT", AllocFlags::GTT.0),
        ("USERPTR", AllocFlags::USERPTR.0),
        ("nothing", 0),
    ];
    for (name, flags) in flag_sets {
        for (va_addr, size) in
            [(0x10_0000, 0x1000), (0x10_0000, 0), (0x10_0001, 0x1000), (u64::MAX - 0xfff, 0x2000)]
        {
            let mut args = AllocMemoryOfGpuArgs {
                va_addr,
                size,
                flags,
                gpu_id: NO_GPU,
                handle: 5,
                ..Default::default()
            };
            let result = kfd.call(Ioctl::AllocMemoryOfGpu, &mut args);
            line(
                &format!("ALLOC {name} {size:#x} at {va_addr:#x}"),
                result,
                &format!("handle {}", args.handle),
            );
        }
    }
    for handle in [0, 1, 0x1234_0000_0000, u64::MAX] {
        let mut args = FreeMemoryOfGpuArgs { handle };
        line(&format!("FREE {handle:#x}"), kfd.call(Ioctl::FreeMemoryOfGpu, &mut args), "");
        let mut args = ExportDmabufArgs { handle, dmabuf_fd: 9, ..Default::default() };
        let result = kfd.call(Ioctl::ExportDmabuf, &mut args);
        line(&format!("EXPORT_DMABUF {handle:#x}"), result, &format!("fd {}", args.dmabuf_fd));
    }
    let mut ids = [NO_GPU; 4];
    let edges = Edges::map();
    for (ptr_name, ptr) in [("ids", address(&mut ids)), ("NULL", 0), ("nowhere", edges.nowhere())] {
        for (n_devices, n_success) in [(0, 0), (1, 0), (1, 2), (1, 1), (4, 0)] {
            let name = format!("{n_devices} GPUs at {ptr_name}, {n_success} done");
            let mut args = MapMemoryToGpuArgs {
                handle: 0x1234_0000_0001,
                device_ids_array_ptr: ptr,
                n_devices,
                n_success,
            };
            let result = kfd.call(Ioctl::MapMemoryToGpu, &mut args);
            line(&format!("MAP to {name}"), result, &format!("done {}", args.n_success));
            let mut args = UnmapMemoryFromGpuArgs {
                handle: 0x1234_0000_0001,
                device_ids_array_ptr: ptr,
                n_devices,
                n_success,
            };
            let result = kfd.call(Ioctl::UnmapMemoryFromGpu, &mut args);
            line(&format!("UNMAP from {name}"), result, &format!("done {}", args.n_success));
        }
    }
}

fn queues(kfd: &Kfd) {
    let good = CreateQueueArgs {
        ring_base_address: 0x10_0000,
        ring_size: 4096,
        write_pointer_address: 0x20_0000,
        read_pointer_address: 0x20_0008,
        gpu_id: NO_GPU,
        queue_percentage: 100,
        queue_priority: 7,
        queue_id: 9,
        ..Default::default()
    };
    let variants = [
        ("good", good),
        ("type 9", CreateQueueArgs { queue_type: 9, ..good }),
        ("type 0x102", CreateQueueArgs { queue_type: 0x102, ..good }),
        ("percentage 101", CreateQueueArgs { queue_percentage: 101, ..good }),
        ("partial percentage 0x10064", CreateQueueArgs { queue_percentage: 0x10064, ..good }),
        ("priority 16", CreateQueueArgs { queue_priority: 16, ..good }),
        ("ring at 0 of size 4096", CreateQueueArgs { ring_base_address: 0, ..good }),
        ("ring in the kernel", CreateQueueArgs { ring_base_address: u64::MAX - 0xffff, ..good }),
        ("ring of 4097", CreateQueueArgs { ring_size: 4097, ..good }),
        ("ring of 0", CreateQueueArgs { ring_size: 0, ..good }),
        ("write pointer in the kernel", CreateQueueArgs { write_pointer_address: u64::MAX - 7, ..good }),
        ("read pointer in the kernel", CreateQueueArgs { read_pointer_address: u64::MAX - 7, ..good }),
        (
            "EOP in the kernel",
            CreateQueueArgs { eop_buffer_address: u64::MAX - 7, eop_buffer_size: 8, ..good },
        ),
        (
            "save area in the kernel",
            CreateQueueArgs { ctx_save_restore_address: u64::MAX - 7, ctx_save_restore_size: 8, ..good },
        ),
    ];
    for (name, mut args) in variants {
        let result = kfd.call(Ioctl::CreateQueue, &mut args);
        line(
            &format!("CREATE_QUEUE {name}"),
            result,
            &format!("id {} doorbell {}", args.queue_id, args.doorbell_offset),
        );
    }
    for queue_id in [0, 1, 1024, u32::MAX] {
        let name = |call: &str| format!("{call} {queue_id:#x}");
        let mut args = DestroyQueueArgs { queue_id, ..Default::default() };
        line(&name("DESTROY_QUEUE"), kfd.call(Ioctl::DestroyQueue, &mut args), "");
        let mut args =
            UpdateQueueArgs { queue_id, ring_base_address: 0x10_0000, ring_size: 4096, ..Default::default() };
        line(&name("UPDATE_QUEUE"), kfd.call(Ioctl::UpdateQueue, &mut args), "");
        args.queue_percentage = 101;
        line(&name("UPDATE_QUEUE percentage 101"), kfd.call(Ioctl::UpdateQueue, &mut args), "");
        args = UpdateQueueArgs { queue_id, queue_priority: 16, ..args };
        args.queue_percentage = 1;
        line(&name("UPDATE_QUEUE priority 16"), kfd.call(Ioctl::UpdateQueue, &mut args), "");
        args.queue_priority = 1;
        args.ring_size = 5;
        line(&name("UPDATE_QUEUE ring of 5"), kfd.call(Ioctl::UpdateQueue, &mut args), "");
        let mut mask = [1_u32; 4];
        for (bits, ptr) in
            [(32, address(&mut mask)), (0, address(&mut mask)), (33, address(&mut mask)), (32, 0)]
        {
            let mut args = SetCuMaskArgs { queue_id, num_cu_mask: bits, cu_mask_ptr: ptr };
            let place = if ptr == 0 { "NULL" } else { "a mask" };
            line(&name(&format!("SET_CU_MASK {bits} at {place}")), kfd.call(Ioctl::SetCuMask, &mut args), "");
        }
        let mut args = GetQueueWaveStateArgs { queue_id, ctl_stack_used_size: 3, ..Default::default() };
        let result = kfd.call(Ioctl::GetQueueWaveState, &mut args);
        line(&name("GET_QUEUE_WAVE_STATE"), result, &format!("{}", args.ctl_stack_used_size));
        let mut args = AllocQueueGwsArgs { queue_id, num_gws: 1, first_gws: 3, ..Default::default() };
        let result = kfd.call(Ioctl::AllocQueueGws, &mut args);
        line(&name("ALLOC_QUEUE_GWS"), result, &format!("{}", args.first_gws));
    }
}

fn svm(kfd: &Kfd) {
    for (start_addr, size, op, nattr) in [
        (0, 0, 0, 0),
        (0x1000, 0x1000, 0, 0),
        (0x1000, 0x1000, 9, 0),
        (1, 4097, 0, 0),
        (0x1000, 0x1000, 1, 1),
        (0x1000, 0x1000, 1, 0x2000_0000),
        (0x1000, 0x1000, 1, u32::MAX),
    ] {
        let mut args = SvmArgs { start_addr, size, op, nattr };
        let name = format!("SVM {op} {start_addr:#x}+{size:#x} with {nattr:#x} attributes");
        line(&name, kfd.call(Ioctl::Svm, &mut args), "");
    }
    let mut words = [0x1000_u64, 0x1000, 1 << 32, 0, 0];
    line("SVM with room for its attribute", kfd.raw(0xc020_4b20, address(&mut words)), "");
    for value in [-1, 0, 1, i32::MIN] {
        let mut args = SetXnackModeArgs { xnack_enabled: value };
        let result = kfd.call(Ioctl::SetXnackMode, &mut args);
        line(&format!("SET_XNACK_MODE {value}"), result, &format!("{}", args.xnack_enabled));
    }
}

fn descriptors(kfd: &Kfd) {
    for dmabuf_fd in [0, 4000, u32::MAX] {
        let mut args = GetDmabufInfoArgs { dmabuf_fd, metadata_size: 3, ..Default::default() };
        let result = kfd.call(Ioctl::GetDmabufInfo, &mut args);
        line(
            &format!("GET_DMABUF_INFO of {dmabuf_fd:#x}"),
            result,
            &format!("{} {}", args.size, args.gpu_id),
        );
        let mut args = ImportDmabufArgs { dmabuf_fd, gpu_id: NO_GPU, handle: 3, ..Default::default() };
        let result = kfd.call(Ioctl::ImportDmabuf, &mut args);
        line(&format!("IMPORT_DMABUF of {dmabuf_fd:#x}"), result, &format!("handle {}", args.handle));
    }
}

fn runtime_and_debugger(kfd: &Kfd) {
    let runtime = |name: &str, mode_mask: u32| {
        let mut args = RuntimeEnableArgs { mode_mask, capabilities_mask: 3, ..Default::default() };
        let result = kfd.call(Ioctl::RuntimeEnable, &mut args);
        line(&format!("RUNTIME_ENABLE {name}"), result, &format!("capabilities {}", args.capabilities_mask));
    };
    runtime("disable first", 0);
    runtime("enable", 1);
    runtime("enable twice", 3);
    runtime("disable", 0);
    runtime("enable again with traps", 3);
    runtime("disable again", 2);

    let own = std::process::id();
    let trap = |name: &str, pid: u32, op: DbgTrapOp, body: [u8; 24]| {
        let mut args = DbgTrapArgs { pid, op: op.0, body };
        let result = kfd.call(Ioctl::DbgTrap, &mut args);
        let changed = args.body != body;
        line(&format!("DBG_TRAP {name}"), result, if changed { "changed" } else { "" });
        args.body
    };
    let body = |words: [u32; 6]| -> [u8; 24] {
        let mut bytes = [0; 24];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    };
    trap("of nobody", 0x7fff_fff0, DbgTrapOp::DISABLE, [0; 24]);
    trap("of pid 0", 0, DbgTrapOp::DISABLE, [0; 24]);
    trap("of init", 1, DbgTrapOp::ENABLE, [0; 24]);
    for op in 1..17 {
        trap(&format!("{op} before attaching"), own, DbgTrapOp(op), [0; 24]);
    }
    trap("attach with no descriptor", own, DbgTrapOp::ENABLE, body([0, 0, 0, 0, 16, 4000]));
    trap("attach with a NULL buffer", own, DbgTrapOp::ENABLE, body([0, 0, 0, 0, 16, 2]));
    let mut info = RuntimeInfo { runtime_state: 77, ..Default::default() };
    let ptr = address(&mut info);
    let attach = body([0, 0, (ptr & 0xffff_ffff) as u32, (ptr >> 32) as u32, 16, 2]);
    trap("attach", own, DbgTrapOp::ENABLE, attach);
    line("what was attached to", Ok(0), &format!("state {}", info.runtime_state));
    trap("attach twice", own, DbgTrapOp::ENABLE, attach);
    for op in (2..17).filter(|op| *op != 3) {
        trap(&format!("{op} without runtime"), own, DbgTrapOp(op), [0; 24]);
    }
    trap("exceptions", own, DbgTrapOp::SET_EXCEPTIONS_ENABLED, body([0, 1, 0, 0, 0, 0]));
    trap("device snapshot", own, DbgTrapOp::GET_DEVICE_SNAPSHOT, body([0, 0, 8, 0, 4, 128]));
    trap("queue snapshot", own, DbgTrapOp::GET_QUEUE_SNAPSHOT, body([0, 0, 8, 0, 4, 64]));
    trap("queue snapshot, big entries", own, DbgTrapOp::GET_QUEUE_SNAPSHOT, body([0, 0, 8, 0, 4, 640]));
    for code in [0, 1, 16, 31, 33, 48, 49, 50, 64, 65, u32::MAX] {
        let name = format!("exception info of code {code}");
        trap(&name, own, DbgTrapOp::QUERY_EXCEPTION_INFO, body([8, 0, 16, 0, code, 0]));
    }
    trap("detach", own, DbgTrapOp::DISABLE, [0; 24]);
    trap("detach twice", own, DbgTrapOp::DISABLE, [0; 24]);
}
