/* The topology as the thunk reports it. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gpu_node = -1;
unsigned node_count;

static HsaNodeProperties properties_of(unsigned node) {
    HsaNodeProperties properties;
    memset(&properties, 0, sizeof(properties));
    hsaKmtGetNodeProperties(node, &properties);
    return properties;
}

void topology_checks(void) {
    HsaSystemProperties system;
    HsaNodeProperties properties;
    HsaMemoryProperties memory;
    HsaCacheProperties cache;
    HsaIoLinkProperties link;
    memset(&system, 0, sizeof(system));

    /* Nothing is known before a snapshot was taken. */
    check_status("topology.node-properties.before-acquire", hsaKmtGetNodeProperties(0, &properties));
    check_status("topology.acquire", hsaKmtAcquireSystemProperties(&system));
    check_status("topology.acquire.again", hsaKmtAcquireSystemProperties(&system));
    check_status("topology.acquire.null", hsaKmtAcquireSystemProperties(NULL));
    node_count = system.NumNodes;
    check_true("topology.has-nodes", node_count >= 1);

    const unsigned beyond = node_count;
    check_status("topology.node-properties.0", hsaKmtGetNodeProperties(0, &properties));
    check_status("topology.node-properties.beyond", hsaKmtGetNodeProperties(beyond, &properties));
    check_status("topology.node-properties.huge", hsaKmtGetNodeProperties(0xffffffffu, &properties));
    check_status("topology.node-properties.null", hsaKmtGetNodeProperties(0, NULL));
    check_status("topology.memory-properties.beyond", hsaKmtGetNodeMemoryProperties(beyond, 1, &memory));
    check_status("topology.memory-properties.null", hsaKmtGetNodeMemoryProperties(0, 1, NULL));
    check_status("topology.cache-properties.beyond", hsaKmtGetNodeCacheProperties(beyond, 0, 1, &cache));
    check_status("topology.cache-properties.null", hsaKmtGetNodeCacheProperties(0, 0, 1, NULL));
    check_status("topology.io-link-properties.beyond", hsaKmtGetNodeIoLinkProperties(beyond, 1, &link));
    check_status("topology.io-link-properties.null", hsaKmtGetNodeIoLinkProperties(0, 1, NULL));

    properties = properties_of(0);
    check_true("topology.cpu.has-cores", properties.NumCPUCores >= 1);
    check_u64("topology.cpu.simds", properties.NumFComputeCores);
    check_u64("topology.cpu.vendor", properties.VendorId);
    check_u64("topology.cpu.device", properties.DeviceId);
    check_u64("topology.cpu.gfx-major", properties.EngineId.ui32.Major);
    check_u64("topology.cpu.wavefront-size", properties.WaveFrontSize);
    check_u64("topology.cpu.memory-banks", properties.NumMemoryBanks);
    memset(&memory, 0xff, sizeof(memory));
    check_status("topology.cpu.bank", hsaKmtGetNodeMemoryProperties(0, 1, &memory));
    check_u64("topology.cpu.bank.heap-type", memory.HeapType);
    check_true("topology.cpu.bank.has-memory", memory.SizeInBytes >= (64u << 20));
    check_hex("topology.cpu.bank.base", memory.VirtualBaseAddress);

    for (unsigned node = 0; node < node_count && gpu_node < 0; node++)
        if (properties_of(node).NumFComputeCores > 0)
            gpu_node = (int)node;

    check_status("topology.release", hsaKmtReleaseSystemProperties());
    check_status("topology.node-properties.after-release", hsaKmtGetNodeProperties(0, &properties));
    check_status("topology.acquire.after-release", hsaKmtAcquireSystemProperties(&system));
}

static void node_properties(void) {
    const HsaNodeProperties node = properties_of((unsigned)gpu_node);
    char name[HSA_PUBLIC_NAME_SIZE + 1] = "";

    check_u64("topology.nodes", node_count);
    check_u64("gpu.node", (uint64_t)gpu_node);
    check_u64("gpu.cpu-cores", node.NumCPUCores);
    check_u64("gpu.simds", node.NumFComputeCores);
    check_u64("gpu.compute-units", node.NumFComputeCores / node.NumSIMDPerCU);
    check_u64("gpu.memory-banks", node.NumMemoryBanks);
    check_u64("gpu.caches", node.NumCaches);
    check_u64("gpu.io-links", node.NumIOLinks);
    check_u64("gpu.max-waves-per-simd", node.MaxWavesPerSIMD);
    check_u64("gpu.lds-kib", node.LDSSizeInKB);
    check_u64("gpu.gds-kib", node.GDSSizeInKB);
    check_u64("gpu.wavefront-size", node.WaveFrontSize);
    check_u64("gpu.shader-banks", node.NumShaderBanks);
    check_u64("gpu.arrays", node.NumArrays);
    check_u64("gpu.cus-per-array", node.NumCUPerArray);
    check_u64("gpu.simds-per-cu", node.NumSIMDPerCU);
    check_u64("gpu.scratch-slots-per-cu", node.MaxSlotsScratchCU);
    check_u64("gpu.engine.major", node.EngineId.ui32.Major);
    check_u64("gpu.engine.minor", node.EngineId.ui32.Minor);
    check_u64("gpu.engine.stepping", node.EngineId.ui32.Stepping);
    check_hex("gpu.vendor", node.VendorId);
    check_hex("gpu.device", node.DeviceId);
    check_u64("gpu.local-memory-size", node.LocalMemSize);
    check_u64("gpu.max-clock-mhz", node.MaxEngineClockMhzFCompute);
    check_true("gpu.render-minor-is-one", node.DrmRenderMinor >= 128 && node.DrmRenderMinor <= 255);
    check_u64("gpu.sdma-engines", node.NumSdmaEngines);
    check_u64("gpu.sdma-xgmi-engines", node.NumSdmaXgmiEngines);
    check_u64("gpu.sdma-queues-per-engine", node.NumSdmaQueuesPerEngine);
    check_u64("gpu.cp-queues", node.NumCpQueues);
    check_u64("gpu.gws", node.NumGws);
    check_u64("gpu.domain", node.Domain);
    check_hex("gpu.vgpr-bytes-per-cu", node.VGPRSizePerCU);
    check_hex("gpu.sgpr-bytes-per-cu", node.SGPRSizePerCU);
    check_true("gpu.has-unique-id", node.UniqueID != 0);
    check_u64("gpu.capability.doorbell-type", node.Capability.ui32.DoorbellType);
    check_u64("gpu.capability.aql-double-map", node.Capability.ui32.AQLQueueDoubleMap);
    check_u64("gpu.capability.ats", node.Capability.ui32.HSAMMUPresent);
    check_u64("gpu.capability.watch-points", node.Capability.ui32.WatchPointsSupported);
    check_u64("gpu.capability.watch-points-log2", node.Capability.ui32.WatchPointsTotalBits);
    check_u64("gpu.capability.debug-trap", node.Capability.ui32.DebugTrapSupported);
    check_u64("gpu.capability.svm", node.Capability.ui32.SVMAPISupported);
    check_u64("gpu.debug.watch-mask-low", node.DebugProperties.WatchAddrMaskLoBit);
    check_u64("gpu.debug.watch-mask-high", node.DebugProperties.WatchAddrMaskHiBit);
    memcpy(name, node.AMDName, HSA_PUBLIC_NAME_SIZE);
    check_str("gpu.amd-name", name);
}

static void memory_banks(void) {
    const HsaNodeProperties node = properties_of((unsigned)gpu_node);
    HsaMemoryProperties banks[16];
    char id[64];
    const unsigned count = node.NumMemoryBanks < 16 ? node.NumMemoryBanks : 16;

    memset(banks, 0xff, sizeof(banks));
    check_status("gpu.banks", hsaKmtGetNodeMemoryProperties((unsigned)gpu_node, count, banks));
    for (unsigned i = 0; i < count; i++) {
        snprintf(id, sizeof(id), "gpu.bank-%u.heap-type", i);
        check_u64(id, banks[i].HeapType);
    }
    check_u64("gpu.bank-0.bytes", banks[0].SizeInBytes);
    check_u64("gpu.bank-0.width", banks[0].Width);
    check_u64("gpu.bank-0.clock-mhz", banks[0].MemoryClockMax);
    for (unsigned i = 1; i < count; i++) {
        if (banks[i].HeapType == HSA_HEAPTYPE_GPU_LDS) {
            check_hex("gpu.bank-lds.base", banks[i].VirtualBaseAddress);
            check_u64("gpu.bank-lds.bytes", banks[i].SizeInBytes);
        }
        if (banks[i].HeapType == HSA_HEAPTYPE_GPU_SCRATCH) {
            check_hex("gpu.bank-scratch.base", banks[i].VirtualBaseAddress);
            check_u64("gpu.bank-scratch.bytes", banks[i].SizeInBytes);
        }
        if (banks[i].HeapType == HSA_HEAPTYPE_MMIO_REMAP)
            check_u64("gpu.bank-mmio.bytes", banks[i].SizeInBytes);
    }
}

static void caches(void) {
    const HsaNodeProperties node = properties_of((unsigned)gpu_node);
    HsaCacheProperties *list = calloc(node.NumCaches ? node.NumCaches : 1, sizeof(*list));
    unsigned l1 = 0, l2 = 0, l2_kib = 0, vector_kib = 0, scalar = 0, instruction = 0;

    check_status("gpu.cache-list", hsaKmtGetNodeCacheProperties((unsigned)gpu_node, 0, node.NumCaches, list));
    for (unsigned i = 0; i < node.NumCaches; i++) {
        const HsaCacheProperties *cache = &list[i];
        l1 += cache->CacheLevel == 1;
        l2 += cache->CacheLevel == 2;
        if (cache->CacheLevel == 2)
            l2_kib = cache->CacheSize;
        if (cache->CacheLevel == 1 && cache->CacheType.ui32.Instruction)
            instruction = cache->CacheSize;
        else if (cache->CacheLevel == 1 && cache->CacheType.ui32.Data) {
            if (i == 0)
                vector_kib = cache->CacheSize;
            else
                scalar = cache->CacheSize;
        }
    }
    check_u64("gpu.caches.level-1", l1);
    check_u64("gpu.caches.level-2", l2);
    check_u64("gpu.caches.level-2-kib", l2_kib);
    check_u64("gpu.caches.vector-kib", vector_kib);
    check_u64("gpu.caches.scalar-kib", scalar);
    check_u64("gpu.caches.instruction-kib", instruction);
    free(list);
}

static void links(void) {
    HsaIoLinkProperties link;
    memset(&link, 0xff, sizeof(link));
    check_status("gpu.link", hsaKmtGetNodeIoLinkProperties((unsigned)gpu_node, 1, &link));
    check_u64("gpu.link.type", link.IoLinkType);
    check_u64("gpu.link.from", link.NodeFrom);
    check_u64("gpu.link.to", link.NodeTo);
    check_u64("gpu.link.weight", link.Weight);
    check_u64("gpu.link.min-bandwidth", link.MinimumBandwidth);
    check_u64("gpu.link.max-bandwidth", link.MaximumBandwidth);
    memset(&link, 0xff, sizeof(link));
    check_status("cpu.link", hsaKmtGetNodeIoLinkProperties(0, 1, &link));
    check_u64("cpu.link.type", link.IoLinkType);
    check_u64("cpu.link.from", link.NodeFrom);
    check_u64("cpu.link.to", link.NodeTo);
}

static void clocks(void) {
    HsaClockCounters first, second;
    memset(&first, 0, sizeof(first));
    memset(&second, 0, sizeof(second));
    check_status("clock.gpu", hsaKmtGetClockCounters((unsigned)gpu_node, &first));
    check_status("clock.gpu.again", hsaKmtGetClockCounters((unsigned)gpu_node, &second));
    check_u64("clock.system-frequency-hz", first.SystemClockFrequencyHz);
    check_true("clock.gpu.counts", second.GPUClockCounter >= first.GPUClockCounter && first.GPUClockCounter > 0);
    check_true("clock.system.counts", second.SystemClockCounter > first.SystemClockCounter);
    check_true("clock.cpu.counts", second.CPUClockCounter > first.CPUClockCounter);
    check_status("clock.beyond", hsaKmtGetClockCounters(node_count, &first));
}

void topology_gpu_checks(void) {
    node_properties();
    memory_banks();
    caches();
    links();
    clocks();
}
