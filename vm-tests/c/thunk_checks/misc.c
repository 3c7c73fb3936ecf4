/* Clocks, tile configuration, trap handler, memory policy, runtime and debugger, counters. */
#include "check.h"
#include "gpu.h"

#include <string.h>

#define PAGE 4096u

static void counters(void) {
    HsaCounterProperties *properties;
    HsaPmcTraceRoot root;
    HsaCounter counter;
    char buffer[8];
    memset(&counter, 0, sizeof(counter));
    check_status("pmc.properties.null", hsaKmtPmcGetCounterProperties(0, NULL));
    check_status("pmc.properties.beyond", hsaKmtPmcGetCounterProperties(node_count, &properties));
    check_status("pmc.register.no-counters", hsaKmtPmcRegisterTrace(0, 0, &counter, &root));
    check_status("pmc.register.null", hsaKmtPmcRegisterTrace(0, 1, NULL, &root));
    check_status("pmc.register.beyond", hsaKmtPmcRegisterTrace(node_count, 1, &counter, &root));
    check_status("pmc.unregister.0", hsaKmtPmcUnregisterTrace(0, 0));
    check_status("pmc.acquire.0", hsaKmtPmcAcquireTraceAccess(0, 0));
    check_status("pmc.release.0", hsaKmtPmcReleaseTraceAccess(0, 0));
    check_status("pmc.start.0", hsaKmtPmcStartTrace(0, buffer, sizeof(buffer)));
    check_status("pmc.query.0", hsaKmtPmcQueryTrace(0));
    check_status("pmc.stop.0", hsaKmtPmcStopTrace(0));
}

/* The calls of ROCm's own kernel, by the numbers of this thunk. */
static void runtime(void) {
    HSAuint32 major = 0, minor = 0;
    check_status("runtime.enable", hsaKmtRuntimeEnable(NULL, true));
    check_status("runtime.disable", hsaKmtRuntimeDisable());
    check_status("runtime.debug-trap-version", hsaKmtGetKernelDebugTrapVersionInfo(&major, &minor));
    check_status("debug.register", hsaKmtDbgRegister(0));
    check_status("debug.unregister", hsaKmtDbgUnregister(0));
    check_status("debug.register.beyond", hsaKmtDbgRegister(node_count));
    check_status("spm.acquire.beyond", hsaKmtSPMAcquire(node_count));
    check_status("spm.release.beyond", hsaKmtSPMRelease(node_count));
}

void misc_checks(void) {
    HsaClockCounters first, second;
    HsaGpuTileConfig tile;
    HSAuint64 address = 0;
    memset(&first, 0xff, sizeof(first));
    memset(&tile, 0, sizeof(tile));
    check_status("clock.cpu-node", hsaKmtGetClockCounters(0, &first));
    check_status("clock.cpu-node.again", hsaKmtGetClockCounters(0, &second));
    check_u64("clock.cpu-node.gpu-counter", first.GPUClockCounter);
    check_u64("clock.cpu-node.frequency", first.SystemClockFrequencyHz);
    check_true("clock.cpu-node.system-counts", second.SystemClockCounter > first.SystemClockCounter);
    check_true("clock.cpu-node.cpu-counts", second.CPUClockCounter > first.CPUClockCounter);
    check_status("clock.node-max", hsaKmtGetClockCounters(0xffffffffu, &first));
    check_status("tile.cpu-node", hsaKmtGetTileConfig(0, &tile));
    check_status("tile.beyond", hsaKmtGetTileConfig(node_count, &tile));
    check_status("trap-handler.cpu-node", hsaKmtSetTrapHandler(0, NULL, 0, NULL, 0));
    check_status("trap-handler.beyond", hsaKmtSetTrapHandler(node_count, NULL, 0, NULL, 0));
    check_status("policy.cpu-node", hsaKmtSetMemoryPolicy(0, HSA_CACHING_CACHED, HSA_CACHING_CACHED, NULL, 0));
    check_status("policy.beyond", hsaKmtSetMemoryPolicy(node_count, HSA_CACHING_CACHED, HSA_CACHING_CACHED, NULL, 0));
    check_status("map-graphic-handle", hsaKmtMapGraphicHandle(0, 0, 0, 0, PAGE, &address));
    check_status("unmap-graphic-handle.null", hsaKmtUnmapGraphicHandle(0, 0, PAGE));
    counters();
    runtime();
}

static void tile_configuration(void) {
    uint32_t tiles[40], macro_tiles[40];
    HsaGpuTileConfig config;
    memset(&config, 0, sizeof(config));
    config.TileConfig = tiles;
    config.MacroTileConfig = macro_tiles;
    config.NumTileConfigs = 40;
    config.NumMacroTileConfigs = 40;
    check_status("tile.gpu", hsaKmtGetTileConfig((HSAuint32)gpu_node, &config));
    /* The bits that the kernel sets; the others are the chip's own. */
    check_hex("tile.gpu.address-configuration", config.GbAddrConfig & 0xf3e777ff);
    check_u64("tile.gpu.tiles", config.NumTileConfigs);
    check_u64("tile.gpu.macro-tiles", config.NumMacroTileConfigs);
    config.NumTileConfigs = 3;
    config.NumMacroTileConfigs = 0;
    check_status("tile.gpu.fewer", hsaKmtGetTileConfig((HSAuint32)gpu_node, &config));
    check_u64("tile.gpu.fewer.tiles", config.NumTileConfigs);
}

void misc_gpu_checks(void) {
    const HSAuint32 gpu = (HSAuint32)gpu_node;
    char *handler = gpu_alloc(0, 2 * PAGE, gtt_flags());
    tile_configuration();
    check_status("trap-handler.gpu", hsaKmtSetTrapHandler(gpu, handler, PAGE, handler + PAGE, PAGE));
    check_status("trap-handler.gpu.again", hsaKmtSetTrapHandler(gpu, handler, PAGE, handler + PAGE, PAGE));
    check_status("trap-handler.gpu.none", hsaKmtSetTrapHandler(gpu, NULL, 0, NULL, 0));
    check_status("policy.gpu", hsaKmtSetMemoryPolicy(gpu, HSA_CACHING_CACHED, HSA_CACHING_CACHED, NULL, 0));
    check_status("debug.register.gpu", hsaKmtDbgRegister(gpu));
    check_status("debug.unregister.gpu", hsaKmtDbgUnregister(gpu));
    check_u64("spm.acquire.gpu", (HSAuint32)hsaKmtSPMAcquire(gpu));
    check_u64("spm.release.gpu", (HSAuint32)hsaKmtSPMRelease(gpu));
    gpu_free(handler, 2 * PAGE);
}
