//! The numbers of `hsakmttypes.h`, written down independently of the declarations: those of 5.2.3, 6.2.4 and
//! October 2024 as the C compiler sees the headers, those of August 2025 and 2026 from public sources.

/// A struct in a layout a line: layout (`all` where every layout that knows the struct is the same), name, size,
/// then `field@offset+size`. Members of a union have the same offset.
pub const STRUCTS: &str = "
all HsaVersionInfo 8 KernelInterfaceMajorVersion@0+4 KernelInterfaceMinorVersion@4+4
all HsaSystemProperties 16 NumNodes@0+4 PlatformOem@4+4 PlatformId@8+4 PlatformRev@12+4
356 HsaNodeProperties 356 NumCPUCores@0+4 NumFComputeCores@4+4 NumMemoryBanks@8+4 NumCaches@12+4 \
    NumIOLinks@16+4 CComputeIdLo@20+4 FComputeIdLo@24+4 Capability@28+4 MaxWavesPerSIMD@32+4 \
    LDSSizeInKB@36+4 GDSSizeInKB@40+4 WaveFrontSize@44+4 NumShaderBanks@48+4 NumArrays@52+4 \
    NumCUPerArray@56+4 NumSIMDPerCU@60+4 MaxSlotsScratchCU@64+4 EngineId@68+4 VendorId@72+2 DeviceId@74+2 \
    LocationId@76+4 LocalMemSize@80+8 MaxEngineClockMhzFCompute@88+4 MaxEngineClockMhzCCompute@92+4 \
    DrmRenderMinor@96+4 MarketingName@100+128 AMDName@228+64 uCodeEngineVersions@292+4 DebugProperties@296+8 \
    HiveID@304+8 NumSdmaEngines@312+4 NumSdmaXgmiEngines@316+4 NumSdmaQueuesPerEngine@320+1 \
    NumCpQueues@321+1 NumGws@322+1 Integrated@323+1 Domain@324+4 UniqueID@328+8 VGPRSizePerCU@336+4 \
    SGPRSizePerCU@340+4 NumXcc@344+4 KFDGpuID@348+4 FamilyID@352+4
360 HsaNodeProperties 360 NumCPUCores@0+4 NumFComputeCores@4+4 NumMemoryBanks@8+4 NumCaches@12+4 \
    NumIOLinks@16+4 CComputeIdLo@20+4 FComputeIdLo@24+4 Capability@28+4 MaxWavesPerSIMD@32+4 \
    LDSSizeInKB@36+4 GDSSizeInKB@40+4 WaveFrontSize@44+4 NumShaderBanks@48+4 NumArrays@52+4 \
    NumCUPerArray@56+4 NumSIMDPerCU@60+4 MaxSlotsScratchCU@64+4 EngineId@68+4 OverrideEngineId@72+4 \
    VendorId@76+2 DeviceId@78+2 LocationId@80+4 LocalMemSize@84+8 MaxEngineClockMhzFCompute@92+4 \
    MaxEngineClockMhzCCompute@96+4 DrmRenderMinor@100+4 MarketingName@104+128 AMDName@232+64 \
    uCodeEngineVersions@296+4 DebugProperties@300+8 HiveID@308+8 NumSdmaEngines@316+4 \
    NumSdmaXgmiEngines@320+4 NumSdmaQueuesPerEngine@324+1 NumCpQueues@325+1 NumGws@326+1 Integrated@327+1 \
    Domain@328+4 UniqueID@332+8 VGPRSizePerCU@340+4 SGPRSizePerCU@344+4 NumXcc@348+4 KFDGpuID@352+4 \
    FamilyID@356+4
368 HsaNodeProperties 368 NumCPUCores@0+4 NumFComputeCores@4+4 NumNeuralCores@8+4 NumMemoryBanks@12+4 \
    NumCaches@16+4 NumIOLinks@20+4 CComputeIdLo@24+4 FComputeIdLo@28+4 Capability@32+4 Capability2@36+4 \
    MaxWavesPerSIMD@40+4 LDSSizeInKB@44+4 GDSSizeInKB@48+4 WaveFrontSize@52+4 NumShaderBanks@56+4 \
    NumArrays@60+4 NumCUPerArray@64+4 NumSIMDPerCU@68+4 MaxSlotsScratchCU@72+4 EngineId@76+4 \
    OverrideEngineId@80+4 VendorId@84+2 DeviceId@86+2 LocationId@88+4 LocalMemSize@92+8 \
    MaxEngineClockMhzFCompute@100+4 MaxEngineClockMhzCCompute@104+4 DrmRenderMinor@108+4 \
    MarketingName@112+128 AMDName@240+64 uCodeEngineVersions@304+4 DebugProperties@308+8 HiveID@316+8 \
    NumSdmaEngines@324+4 NumSdmaXgmiEngines@328+4 NumSdmaQueuesPerEngine@332+1 NumCpQueues@333+1 \
    NumGws@334+1 Integrated@335+1 Domain@336+4 UniqueID@340+8 VGPRSizePerCU@348+4 SGPRSizePerCU@352+4 \
    NumXcc@356+4 KFDGpuID@360+4 FamilyID@364+4
396 HsaNodeProperties 396 NumCPUCores@0+4 NumFComputeCores@4+4 NumNeuralCores@8+4 NumMemoryBanks@12+4 \
    NumCaches@16+4 NumIOLinks@20+4 CComputeIdLo@24+4 FComputeIdLo@28+4 Capability@32+4 Capability2@36+4 \
    MaxWavesPerSIMD@40+4 LDSSizeInKB@44+4 GDSSizeInKB@48+4 WaveFrontSize@52+4 NumShaderBanks@56+4 \
    NumArrays@60+4 NumCUPerArray@64+4 NumSIMDPerCU@68+4 MaxSlotsScratchCU@72+4 EngineId@76+4 \
    OverrideEngineId@80+4 VendorId@84+2 DeviceId@86+2 LocationId@88+4 LocalMemSize@92+8 \
    MaxEngineClockMhzFCompute@100+4 MaxEngineClockMhzCCompute@104+4 DrmRenderMinor@108+4 \
    MarketingName@112+128 AMDName@240+64 uCodeEngineVersions@304+4 DebugProperties@308+8 HiveID@316+8 \
    NumSdmaEngines@324+4 NumSdmaXgmiEngines@328+4 NumSdmaQueuesPerEngine@332+1 NumCpQueues@333+1 \
    NumGws@334+1 Integrated@335+1 Domain@336+4 UniqueID@340+8 VGPRSizePerCU@348+4 SGPRSizePerCU@352+4 \
    NumXcc@356+4 KFDGpuID@360+4 FamilyID@364+4 CwsrSize@368+4 CtlStackSize@372+4 LuidLowPart@376+4 \
    LuidHighPart@380+4 WallClockKHz@384+8 FabricHandleSupported@392+4
all HsaMemoryProperties 32 HeapType@0+4 SizeInBytes@4+8 ui32@4+8 Flags@12+4 Width@16+4 \
    MemoryClockMax@20+4 VirtualBaseAddress@24+8
356 HsaCacheProperties 1056 ProcessorIdLow@0+4 CacheLevel@4+4 CacheSize@8+4 CacheLineSize@12+4 \
    CacheLinesPerTag@16+4 CacheAssociativity@20+4 CacheLatency@24+4 CacheType@28+4 SiblingMap@32+1024
360 HsaCacheProperties 1056 ProcessorIdLow@0+4 CacheLevel@4+4 CacheSize@8+4 CacheLineSize@12+4 \
    CacheLinesPerTag@16+4 CacheAssociativity@20+4 CacheLatency@24+4 CacheType@28+4 SiblingMap@32+1024
368 HsaCacheProperties 1056 ProcessorIdLow@0+4 CacheLevel@4+4 CacheSize@8+4 CacheLineSize@12+4 \
    CacheLinesPerTag@16+4 CacheAssociativity@20+4 CacheLatency@24+4 CacheType@28+4 SiblingMap@32+1024
396 HsaCacheProperties 1060 ProcessorIdLow@0+4 CacheLevel@4+4 CacheSize@8+4 CacheLineSize@12+4 \
    CacheLinesPerTag@16+4 CacheAssociativity@20+4 CacheLatency@24+4 CacheType@28+4 SiblingMap@32+1024 \
    PersistingCacheSizeMax@1056+4
all HsaCComputeProperties 1024 SiblingMap@0+1024
356 HsaIoLinkProperties 48 IoLinkType@0+4 VersionMajor@4+4 VersionMinor@8+4 NodeFrom@12+4 NodeTo@16+4 \
    Weight@20+4 MinimumLatency@24+4 MaximumLatency@28+4 MinimumBandwidth@32+4 MaximumBandwidth@36+4 \
    RecTransferSize@40+4 Flags@44+4
360 HsaIoLinkProperties 52 IoLinkType@0+4 VersionMajor@4+4 VersionMinor@8+4 NodeFrom@12+4 NodeTo@16+4 \
    Weight@20+4 MinimumLatency@24+4 MaximumLatency@28+4 MinimumBandwidth@32+4 MaximumBandwidth@36+4 \
    RecTransferSize@40+4 RecSdmaEngIdMask@44+4 Flags@48+4
368 HsaIoLinkProperties 52 IoLinkType@0+4 VersionMajor@4+4 VersionMinor@8+4 NodeFrom@12+4 NodeTo@16+4 \
    Weight@20+4 MinimumLatency@24+4 MaximumLatency@28+4 MinimumBandwidth@32+4 MaximumBandwidth@36+4 \
    RecTransferSize@40+4 RecSdmaEngIdMask@44+4 Flags@48+4
396 HsaIoLinkProperties 52 IoLinkType@0+4 VersionMajor@4+4 VersionMinor@8+4 NodeFrom@12+4 NodeTo@16+4 \
    Weight@20+4 MinimumLatency@24+4 MaximumLatency@28+4 MinimumBandwidth@32+4 MaximumBandwidth@36+4 \
    RecTransferSize@40+4 RecSdmaEngIdMask@44+4 Flags@48+4
356 HsaGraphicsResourceInfo 32 MemoryAddress@0+8 SizeInBytes@8+8 Metadata@16+8 MetadataSizeInBytes@24+4 \
    NodeId@28+4
360 HsaGraphicsResourceInfo 32 MemoryAddress@0+8 SizeInBytes@8+8 Metadata@16+8 MetadataSizeInBytes@24+4 \
    NodeId@28+4
368 HsaGraphicsResourceInfo 32 MemoryAddress@0+8 SizeInBytes@8+8 Metadata@16+8 MetadataSizeInBytes@24+4 \
    NodeId@28+4
396 HsaGraphicsResourceInfo 40 MemoryAddress@0+8 SizeInBytes@8+8 Metadata@16+8 MetadataSizeInBytes@24+4 \
    NodeId@28+4 SizeHintInBytes@32+8
all HsaWddmSurfaceMetadata 24 version@0+4 swizzle_mode@4+4 tile_swizzle@8+4 compression_mode@12+4 \
    max_comp_blk@16+4 max_uncomp_blk@20+4
all HsaUserContextSaveAreaHeader 40 ControlStackOffset@0+4 ControlStackSize@4+4 WaveStateOffset@8+4 \
    WaveStateSize@12+4 DebugOffset@16+4 DebugSize@20+4 ErrorReason@24+8 ErrorEventId@32+4 Reserved1@36+4
356 HsaQueueInfo 68 QueueDetailError@0+4 QueueTypeExtended@4+4 NumCUAssigned@8+4 CUMaskInfo@12+8 \
    UserContextSaveArea@20+8 SaveAreaSizeInBytes@28+8 ControlStackTop@36+8 ControlStackUsedInBytes@44+8 \
    SaveAreaHeader@52+8 Reserved2@60+8
360 HsaQueueInfo 68 QueueDetailError@0+4 QueueTypeExtended@4+4 NumCUAssigned@8+4 CUMaskInfo@12+8 \
    UserContextSaveArea@20+8 SaveAreaSizeInBytes@28+8 ControlStackTop@36+8 ControlStackUsedInBytes@44+8 \
    SaveAreaHeader@52+8 Reserved2@60+8
368 HsaQueueInfo 68 QueueDetailError@0+4 QueueTypeExtended@4+4 NumCUAssigned@8+4 CUMaskInfo@12+8 \
    UserContextSaveArea@20+8 SaveAreaSizeInBytes@28+8 ControlStackTop@36+8 ControlStackUsedInBytes@44+8 \
    SaveAreaHeader@52+8 Reserved2@60+8
396 HsaQueueInfo 76 QueueDetailError@0+4 QueueTypeExtended@4+4 NumCUAssigned@8+4 CUMaskInfo@12+8 \
    UserContextSaveArea@20+8 SaveAreaSizeInBytes@28+8 ControlStackTop@36+8 ControlStackUsedInBytes@44+8 \
    SaveAreaHeader@52+8 Reserved2@60+8 SaveAreaAllocSize@68+8
356 HsaQueueResource 40 QueueId@0+8 Queue_DoorBell@8+8 Queue_DoorBell_aql@8+8 QueueDoorBell@8+8 \
    Queue_write_ptr@16+8 Queue_write_ptr_aql@16+8 QueueWptrValue@16+8 Queue_read_ptr@24+8 \
    Queue_read_ptr_aql@24+8 QueueRptrValue@24+8 ErrorReason@32+8
360 HsaQueueResource 40 QueueId@0+8 Queue_DoorBell@8+8 Queue_DoorBell_aql@8+8 QueueDoorBell@8+8 \
    Queue_write_ptr@16+8 Queue_write_ptr_aql@16+8 QueueWptrValue@16+8 Queue_read_ptr@24+8 \
    Queue_read_ptr_aql@24+8 QueueRptrValue@24+8 ErrorReason@32+8
368 HsaQueueResource 40 QueueId@0+8 Queue_DoorBell@8+8 Queue_DoorBell_aql@8+8 QueueDoorBell@8+8 \
    Queue_write_ptr@16+8 Queue_write_ptr_aql@16+8 QueueWptrValue@16+8 Queue_read_ptr@24+8 \
    Queue_read_ptr_aql@24+8 QueueRptrValue@24+8 ErrorReason@32+8
396 HsaQueueResource 52 QueueId@0+8 Queue_DoorBell@8+8 Queue_DoorBell_aql@8+8 QueueDoorBell@8+8 \
    Queue_write_ptr@16+8 Queue_write_ptr_aql@16+8 QueueWptrValue@16+8 Queue_read_ptr@24+8 \
    Queue_read_ptr_aql@24+8 QueueRptrValue@24+8 ErrorReason@32+8 SdmaProgressFenceVA@40+8 \
    SdmaHwQueueEpilogueBytes@48+4
all HsaQueueReport 20 VMID@0+4 QueueAddress@4+8 QueueSize@12+8
all HsaDbgWaveMsgAMDGen2 8 Value@0+4 Reserved2@4+4
all HsaDbgWaveMessage 16 MemoryVA@0+8 DbgWaveMsg@8+8
all HsaSyncVar 16 SyncVar@0+8 SyncVarSize@8+8
all HsaNodeChange 4 Flags@0+4
all HsaDeviceStateChange 12 NodeId@0+4 Device@4+4 Flags@8+4
all HsaMemoryAccessFault 20 NodeId@0+4 VirtualAddress@4+8 Failure@12+4 Flags@16+4
all HsaHwException 16 NodeId@0+4 ResetType@4+4 MemoryLost@8+4 ResetCause@12+4
all HsaEventData 44 EventType@0+4 EventData@4+20 HWData1@24+8 HWData2@32+8 HWData3@40+4
all HsaEventDescriptor 24 EventType@0+4 NodeId@4+4 SyncVar@8+16
all HsaEvent 48 EventId@0+4 EventData@4+44
all HsaClockCounters 32 GPUClockCounter@0+8 CPUClockCounter@8+8 SystemClockCounter@16+8 \
    SystemClockFrequencyHz@24+8
all HsaFabricHandle 16 handle@0+16
all HSA_UUID 16 Data1@0+4 Data2@4+2 Data3@6+2 Data4@8+8
all HsaCounter 32 Type@0+4 CounterId@4+8 CounterSizeInBits@12+4 CounterMask@16+8 Flags@24+4 \
    BlockIndex@28+4
all HsaCounterBlockProperties 56 BlockId@0+16 NumCounters@16+4 NumConcurrent@20+4 Counters@24+32
all HsaCounterProperties 64 NumBlocks@0+4 NumConcurrent@4+4 Blocks@8+56
all HsaPmcTraceRoot 20 TraceBufferMinSizeBytes@0+8 NumberOfPasses@8+4 TraceId@12+8
all HsaGpuTileConfig 64 TileConfig@0+8 MacroTileConfig@8+8 NumTileConfigs@16+4 NumMacroTileConfigs@20+4 \
    GbAddrConfig@24+4 NumBanks@28+4 NumRanks@32+4 Reserved@36+28
all HsaPointerInfo 68 Type@0+4 Node@4+4 MemFlags@8+4 CPUAddress@12+8 GPUAddress@20+8 SizeInBytes@28+8 \
    NRegisteredNodes@36+4 NMappedNodes@40+4 RegisteredNodes@44+8 MappedNodes@52+8 UserData@60+8
all HsaMemoryRange 16 MemoryAddress@0+8 SizeInBytes@8+8
all HSA_SVM_ATTRIBUTE 8 type@0+4 value@4+4
all HsaPcSamplingInfo 40 value@0+8 value_min@8+8 value_max@16+8 flags@24+8 method@32+4 units@36+4
all HsaHandleImportDesc 40 device_handle@0+8 type@8+4 dmabuf_fd@12+8 buf_handle@12+8 fabric@12+16 \
    mem@28+8 metadata@36+4
all HsaHandleImportResult 24 buf_handle@0+8 dmabuf_fd@8+4 alloc_size@12+8 metadata@20+4
all HsaStructureSizes 16 StructureSizes@0+2 SizeOfHsaNodeProperties@2+2 SizeOfHsaExternalHandleDesc@4+2 \
    Reserved@6+10
all HSA_EXTERNAL_SEMAPHORE_HANDLE 8 handle@0+8
all HsaHandleExportDesc 28 device_handle@0+8 type@8+4 buf_handle@12+8 size@20+8
all HsaMemoryExportResult 16 dmabuf_fd@0+4 fabric@0+16
all HsaSharedMemoryHandle 32 HsaSharedMemoryHandle@0+32
";

/// A word of bits a line: name, size in bytes, then `field:lowest bit+width`. Reserved bits are left out.
pub const WORDS: &str = "
HSA_ENGINE_ID 4 uCode:0+10 Major:10+6 Minor:16+8 Stepping:24+8
HSA_ENGINE_VERSION 4 uCodeSDMA:0+10 uCodeRes:10+10
HSA_CAPABILITY 4 HotPluggable:0+1 HSAMMUPresent:1+1 SharedWithGraphics:2+1 QueueSizePowerOfTwo:3+1 \
    QueueSize32bit:4+1 QueueIdleEvent:5+1 VALimit:6+1 WatchPointsSupported:7+1 WatchPointsTotalBits:8+4 \
    DoorbellType:12+2 AQLQueueDoubleMap:14+1 DebugTrapSupported:15+1 WaveLaunchTrapOverrideSupported:16+1 \
    WaveLaunchModeSupported:17+1 PreciseMemoryOperationsSupported:18+1 DEPRECATED_SRAM_EDCSupport:19+1 \
    Mem_EDCSupport:20+1 RASEventNotify:21+1 ASICRevision:22+4 SRAM_EDCSupport:26+1 SVMAPISupported:27+1 \
    CoherentHostAccess:28+1 DebugSupportedFirmware:29+1 PreciseALUOperationsSupported:30+1 \
    PerQueueResetSupported:31+1
HSA_CAPABILITY2 4 PerSDMAQueueResetSupported:0+1 AqlEmulationPm4_:1+1 StallOnRetryFault:2+1
HSA_DEBUG_PROPERTIES 8 WatchAddrMaskLoBit:0+4 WatchAddrMaskHiBit:4+6 DispatchInfoAlwaysValid:10+1 \
    AddressWatchpointShareKind:11+1
HSA_MEMORYPROPERTY 4 HotPluggable:0+1 NonVolatile:1+1
HsaCacheType 4 Data:0+1 Instruction:1+1 CPU:2+1 HSACU:3+1
HSA_LINKPROPERTY 4 Override:0+1 NonCoherent:1+1 NoAtomics32bit:2+1 NoAtomics64bit:3+1 \
    NoPeerToPeerDMA:4+1
HsaMemFlags 4 NonPaged:0+1 CachePolicy:1+2 ReadOnly:3+1 PageSize:4+2 HostAccess:6+1 NoSubstitute:7+1 \
    GDSMemory:8+1 Scratch:9+1 AtomicAccessFull:10+1 AtomicAccessPartial:11+1 ExecuteAccess:12+1 \
    CoarseGrain:13+1 AQLQueueMemory:14+1 FixedAddress:15+1 NoNUMABind:16+1 Uncached:17+1 NoAddress:18+1 \
    OnlyAddress:19+1 ExtendedCoherent:20+1 GTTAccess:21+1 Contiguous:22+1 ExecuteBlit:23+1 QueueObject:24+1
HsaAccessAttributeFailure 4 NotPresent:0+1 ReadOnly:1+1 NoExecute:2+1 GpuAccess:3+1 ECC:4+1 \
    Imprecise:5+1 ErrorType:6+3
HsaCounterFlags 4 Global:0+1 Resettable:1+1 ReadOnly:2+1 Stream:3+1
HSA_REGISTER_MEM_FLAGS 4 requiresVAddr:0+1 kmtHandle:1+1
HsaHandleImportFlags 4 IPCHandle:0+1 SysMem:1+1 UpdateMetadata:2+1
HsaHandleExportFlags 4
HsaMemMapFlags 4 CachePolicy:1+2 ReadOnly:3+1 PageSize:4+2 HostAccess:6+1 Migrate:7+1 Probe:8+1
HSA_DBG_TRAP_MASK 4 HSA_DBG_TRAP_MASK_FP_INVALID:0+1 HSA_DBG_TRAP_MASK_FP_INPUT_DENOMAL:1+1 \
    HSA_DBG_TRAP_MASK_FP_DIVIDE_BY_ZERO:2+1 HSA_DBG_TRAP_MASK_FP_OVERFLOW:3+1 \
    HSA_DBG_TRAP_MASK_FP_UNDERFLOW:4+1 HSA_DBG_TRAP_MASK_FP_INEXACT:5+1 \
    HSA_DBG_TRAP_MASK_INT_DIVIDE_BY_ZERO:6+1 HSA_DBG_TRAP_MASK_DBG_ADDRESS_WATCH:7+1 \
    HSA_DBG_TRAP_MASK_DBG_MEMORY_VIOLATION:8+1
HSA_SVM_FLAGS 4 HSA_SVM_FLAG_HOST_ACCESS:0+1 HSA_SVM_FLAG_COHERENT:1+1 HSA_SVM_FLAG_HIVE_LOCAL:2+1 \
    HSA_SVM_FLAG_GPU_RO:3+1 HSA_SVM_FLAG_GPU_EXEC:4+1 HSA_SVM_FLAG_GPU_READ_MOSTLY:5+1 \
    HSA_SVM_FLAG_GPU_ALWAYS_MAPPED:6+1 HSA_SVM_FLAG_EXT_COHERENT:7+1
HSA_RUNTIME_ENABLE_CAPS 4 HSA_RUNTIME_ENABLE_CAPS_SUPPORTS_CORE_DUMP_MASK:31+1
";

/// An enum a line: name, size in bytes, then `value=number`. Counts and sizes (`..._NUM`, `..._SIZE`, `..._MAX`)
/// are left out.
pub const ENUMS: &str = "
HSAKMT_STATUS 4 HSAKMT_STATUS_SUCCESS=0 HSAKMT_STATUS_ERROR=1 HSAKMT_STATUS_DRIVER_MISMATCH=2 \
    HSAKMT_STATUS_INVALID_PARAMETER=3 HSAKMT_STATUS_INVALID_HANDLE=4 HSAKMT_STATUS_INVALID_NODE_UNIT=5 \
    HSAKMT_STATUS_NO_MEMORY=6 HSAKMT_STATUS_BUFFER_TOO_SMALL=7 HSAKMT_STATUS_NOT_IMPLEMENTED=10 \
    HSAKMT_STATUS_NOT_SUPPORTED=11 HSAKMT_STATUS_UNAVAILABLE=12 HSAKMT_STATUS_OUT_OF_RESOURCES=13 \
    HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED=20 HSAKMT_STATUS_KERNEL_COMMUNICATION_ERROR=21 \
    HSAKMT_STATUS_KERNEL_ALREADY_OPENED=22 HSAKMT_STATUS_HSAMMU_UNAVAILABLE=23 HSAKMT_STATUS_WAIT_FAILURE=30 \
    HSAKMT_STATUS_WAIT_TIMEOUT=31 HSAKMT_STATUS_MEMORY_ALREADY_REGISTERED=35 \
    HSAKMT_STATUS_MEMORY_NOT_REGISTERED=36 HSAKMT_STATUS_MEMORY_ALIGNMENT=37
HSA_HEAPTYPE 4 HSA_HEAPTYPE_SYSTEM=0 HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC=1 \
    HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE=2 HSA_HEAPTYPE_GPU_GDS=3 HSA_HEAPTYPE_GPU_LDS=4 \
    HSA_HEAPTYPE_GPU_SCRATCH=5 HSA_HEAPTYPE_DEVICE_SVM=6 HSA_HEAPTYPE_MMIO_REMAP=7
HSA_IOLINKTYPE 4 HSA_IOLINKTYPE_UNDEFINED=0 HSA_IOLINKTYPE_HYPERTRANSPORT=1 HSA_IOLINKTYPE_PCIEXPRESS=2 \
    HSA_IOLINKTYPE_AMBA=3 HSA_IOLINKTYPE_MIPI=4 HSA_IOLINK_TYPE_QPI_1_1=5 HSA_IOLINK_TYPE_RESERVED1=6 \
    HSA_IOLINK_TYPE_RESERVED2=7 HSA_IOLINK_TYPE_RAPID_IO=8 HSA_IOLINK_TYPE_INFINIBAND=9 \
    HSA_IOLINK_TYPE_RESERVED3=10 HSA_IOLINK_TYPE_XGMI=11 HSA_IOLINK_TYPE_XGOP=12 HSA_IOLINK_TYPE_GZ=13 \
    HSA_IOLINK_TYPE_ETHERNET_RDMA=14 HSA_IOLINK_TYPE_RDMA_OTHER=15 HSA_IOLINK_TYPE_OTHER=16
HSA_CACHING_TYPE 4 HSA_CACHING_CACHED=0 HSA_CACHING_NONCACHED=1 HSA_CACHING_WRITECOMBINED=2 \
    HSA_CACHING_RESERVED=3
HSA_PAGE_SIZE 4 HSA_PAGE_SIZE_4KB=0 HSA_PAGE_SIZE_64KB=1 HSA_PAGE_SIZE_2MB=2 HSA_PAGE_SIZE_1GB=3
HSA_DEVICE 4 HSA_DEVICE_CPU=0 HSA_DEVICE_GPU=1
HSA_QUEUE_PRIORITY 8 HSA_QUEUE_PRIORITY_MINIMUM=-3 HSA_QUEUE_PRIORITY_LOW=-2 \
    HSA_QUEUE_PRIORITY_BELOW_NORMAL=-1 HSA_QUEUE_PRIORITY_NORMAL=0 HSA_QUEUE_PRIORITY_ABOVE_NORMAL=1 \
    HSA_QUEUE_PRIORITY_HIGH=2 HSA_QUEUE_PRIORITY_MAXIMUM=3
HSA_QUEUE_TYPE 4 HSA_QUEUE_COMPUTE=1 HSA_QUEUE_SDMA=2 HSA_QUEUE_MULTIMEDIA_DECODE=3 \
    HSA_QUEUE_MULTIMEDIA_ENCODE=4 HSA_QUEUE_SDMA_XGMI=5 HSA_QUEUE_SDMA_BY_ENG_ID=6 HSA_QUEUE_COMPUTE_OS=11 \
    HSA_QUEUE_SDMA_OS=12 HSA_QUEUE_MULTIMEDIA_DECODE_OS=13 HSA_QUEUE_MULTIMEDIA_ENCODE_OS=14 \
    HSA_QUEUE_COMPUTE_AQL=21 HSA_QUEUE_DMA_AQL=22 HSA_QUEUE_DMA_AQL_XGMI=23
HSA_DBG_WAVEOP 4 HSA_DBG_WAVEOP_HALT=1 HSA_DBG_WAVEOP_RESUME=2 HSA_DBG_WAVEOP_KILL=3 \
    HSA_DBG_WAVEOP_DEBUG=4 HSA_DBG_WAVEOP_TRAP=5
HSA_DBG_WAVEMODE 4 HSA_DBG_WAVEMODE_SINGLE=0 HSA_DBG_WAVEMODE_BROADCAST_PROCESS=2 \
    HSA_DBG_WAVEMODE_BROADCAST_PROCESS_CU=3
HSA_DBG_WAVEMSG_TYPE 4 HSA_DBG_WAVEMSG_AUTO=0 HSA_DBG_WAVEMSG_USER=1 HSA_DBG_WAVEMSG_ERROR=2
HSA_DBG_WATCH_MODE 4 HSA_DBG_WATCH_READ=0 HSA_DBG_WATCH_NONREAD=1 HSA_DBG_WATCH_ATOMIC=2 \
    HSA_DBG_WATCH_ALL=3
HSA_DBG_TRAP_OVERRIDE 4 HSA_DBG_TRAP_OVERRIDE_OR=0 HSA_DBG_TRAP_OVERRIDE_REPLACE=1
HSA_DBG_TRAP_EXCEPTION_CODE 4 HSA_DBG_EC_NONE=0 HSA_DBG_EC_QUEUE_WAVE_ABORT=1 \
    HSA_DBG_EC_QUEUE_WAVE_TRAP=2 HSA_DBG_EC_QUEUE_WAVE_MATH_ERROR=3 \
    HSA_DBG_EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION=4 HSA_DBG_EC_QUEUE_WAVE_MEMORY_VIOLATION=5 \
    HSA_DBG_EC_QUEUE_WAVE_APERTURE_VIOLATION=6 HSA_DBG_EC_QUEUE_PACKET_DISPATCH_DIM_INVALID=16 \
    HSA_DBG_EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID=17 \
    HSA_DBG_EC_QUEUE_PACKET_DISPATCH_CODE_INVALID=18 HSA_DBG_EC_QUEUE_PACKET_RESERVED=19 \
    HSA_DBG_EC_QUEUE_PACKET_UNSUPPORTED=20 HSA_DBG_EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID=21 \
    HSA_DBG_EC_QUEUE_PACKET_DISPATCH_REGISTER_INVALID=22 HSA_DBG_EC_QUEUE_PACKET_VENDOR_UNSUPPORTED=23 \
    HSA_DBG_EC_QUEUE_PREEMPTION_ERROR=30 HSA_DBG_EC_QUEUE_NEW=31 HSA_DBG_EC_DEVICE_QUEUE_DELETE=32 \
    HSA_DBG_EC_DEVICE_MEMORY_VIOLATION=33 HSA_DBG_EC_DEVICE_RAS_ERROR=34 HSA_DBG_EC_DEVICE_FATAL_HALT=35 \
    HSA_DBG_EC_DEVICE_NEW=36 HSA_DBG_EC_PROCESS_RUNTIME=48 HSA_DBG_EC_PROCESS_DEVICE_REMOVE=49
HSA_DBG_WAVE_LAUNCH_MODE 4 HSA_DBG_WAVE_LAUNCH_MODE_NORMAL=0 HSA_DBG_WAVE_LAUNCH_MODE_HALT=1 \
    HSA_DBG_WAVE_LAUNCH_MODE_KILL=2 HSA_DBG_WAVE_LAUNCH_MODE_SINGLE_STEP=3 \
    HSA_DBG_WAVE_LAUNCH_MODE_DISABLE=4
HSA_DBG_NODE_CONTROL 4 HSA_DBG_NODE_CONTROL_FLAG_MAX=1
HSA_EVENTTYPE 4 HSA_EVENTTYPE_SIGNAL=0 HSA_EVENTTYPE_NODECHANGE=1 HSA_EVENTTYPE_DEVICESTATECHANGE=2 \
    HSA_EVENTTYPE_HW_EXCEPTION=3 HSA_EVENTTYPE_SYSTEM_EVENT=4 HSA_EVENTTYPE_DEBUG_EVENT=5 \
    HSA_EVENTTYPE_PROFILE_EVENT=6 HSA_EVENTTYPE_QUEUE_EVENT=7 HSA_EVENTTYPE_MEMORY=8
HSA_DEBUG_EVENT_TYPE 4 HSA_DEBUG_EVENT_TYPE_NONE=0 HSA_DEBUG_EVENT_TYPE_TRAP=1 \
    HSA_DEBUG_EVENT_TYPE_VMFAULT=2 HSA_DEBUG_EVENT_TYPE_TRAP_VMFAULT=3
HSA_EVENTTYPE_NODECHANGE_FLAGS 4 HSA_EVENTTYPE_NODECHANGE_ADD=0 HSA_EVENTTYPE_NODECHANGE_REMOVE=1
HSA_EVENTTYPE_DEVICESTATECHANGE_FLAGS 4 HSA_EVENTTYPE_DEVICESTATUSCHANGE_START=0 \
    HSA_EVENTTYPE_DEVICESTATUSCHANGE_STOP=1
HSA_EVENTID_MEMORYFLAGS 4 HSA_EVENTID_MEMORY_RECOVERABLE=0 HSA_EVENTID_MEMORY_FATAL_PROCESS=1 \
    HSA_EVENTID_MEMORY_FATAL_VM=2
HSA_EVENTID_HW_EXCEPTION_CAUSE 4 HSA_EVENTID_HW_EXCEPTION_GPU_HANG=0 HSA_EVENTID_HW_EXCEPTION_ECC=1
HsaEventTimeOut 4 HSA_EVENTTIMEOUT_IMMEDIATE=0 HSA_EVENTTIMEOUT_INFINITE=4294967295
HSA_PROFILE_TYPE 4 HSA_PROFILE_TYPE_PRIVILEGED_IMMEDIATE=0 HSA_PROFILE_TYPE_PRIVILEGED_STREAMING=1 \
    HSA_PROFILE_TYPE_NONPRIV_IMMEDIATE=2 HSA_PROFILE_TYPE_NONPRIV_STREAMING=3
HSA_POINTER_TYPE 4 HSA_POINTER_UNKNOWN=0 HSA_POINTER_ALLOCATED=1 HSA_POINTER_REGISTERED_USER=2 \
    HSA_POINTER_REGISTERED_GRAPHICS=3 HSA_POINTER_REGISTERED_SHARED=4 HSA_POINTER_RESERVED_ADDR=5
HSA_SVM_ATTR_TYPE 4 HSA_SVM_ATTR_PREFERRED_LOC=0 HSA_SVM_ATTR_PREFETCH_LOC=1 HSA_SVM_ATTR_ACCESS=2 \
    HSA_SVM_ATTR_ACCESS_IN_PLACE=3 HSA_SVM_ATTR_NO_ACCESS=4 HSA_SVM_ATTR_SET_FLAGS=5 \
    HSA_SVM_ATTR_CLR_FLAGS=6 HSA_SVM_ATTR_GRANULARITY=7
HSA_EVENT_TYPE 4 HSA_SMI_EVENT_NONE=0 HSA_SMI_EVENT_VMFAULT=1 HSA_SMI_EVENT_THERMAL_THROTTLE=2 \
    HSA_SMI_EVENT_GPU_PRE_RESET=3 HSA_SMI_EVENT_GPU_POST_RESET=4 HSA_SMI_EVENT_MIGRATE_START=5 \
    HSA_SMI_EVENT_MIGRATE_END=6 HSA_SMI_EVENT_PAGE_FAULT_START=7 HSA_SMI_EVENT_PAGE_FAULT_END=8 \
    HSA_SMI_EVENT_QUEUE_EVICTION=9 HSA_SMI_EVENT_QUEUE_RESTORE=10 HSA_SMI_EVENT_UNMAP_FROM_GPU=11 \
    HSA_SMI_EVENT_ALL_PROCESS=64
HSA_MIGRATE_TRIGGERS 4 HSA_MIGRATE_TRIGGER_PREFETCH=0 HSA_MIGRATE_TRIGGER_PAGEFAULT_GPU=1 \
    HSA_MIGRATE_TRIGGER_PAGEFAULT_CPU=2 HSA_MIGRATE_TRIGGER_TTM_EVICTION=3
HSA_QUEUE_EVICTION_TRIGGERS 4 HSA_QUEUE_EVICTION_TRIGGER_SVM=0 HSA_QUEUE_EVICTION_TRIGGER_USERPTR=1 \
    HSA_QUEUE_EVICTION_TRIGGER_TTM=2 HSA_QUEUE_EVICTION_TRIGGER_SUSPEND=3 \
    HSA_QUEUE_EVICTION_CRIU_CHECKPOINT=4 HSA_QUEUE_EVICTION_CRIU_RESTORE=5
HSA_SVM_UNMAP_TRIGGERS 4 HSA_SVM_UNMAP_TRIGGER_MMU_NOTIFY=0 HSA_SVM_UNMAP_TRIGGER_MMU_NOTIFY_MIGRATE=1 \
    HSA_SVM_UNMAP_TRIGGER_UNMAP_FROM_CPU=2
HSA_PC_SAMPLING_METHOD_KIND 4 HSA_PC_SAMPLING_METHOD_KIND_HOSTTRAP_V1=1 \
    HSA_PC_SAMPLING_METHOD_KIND_STOCHASTIC_V1=2
HSA_PC_SAMPLING_UNIT_INTERVAL 4 HSA_PC_SAMPLING_UNIT_INTERVAL_MICROSECONDS=0 \
    HSA_PC_SAMPLING_UNIT_INTERVAL_CYCLES=1 HSA_PC_SAMPLING_UNIT_INTERVAL_INSTRUCTIONS=2
HsaAisFlags 4 HSA_AIS_READ=1 HSA_AIS_WRITE=2
HsaMemoryMapFlags 4 HSA_MEMORY_ACCESS_NONE=0 HSA_MEMORY_ACCESS_RO=1 HSA_MEMORY_ACCESS_WO=2 \
    HSA_MEMORY_ACCESS_RW=3
HsaExternalHandleType 4 HSA_EXTERNAL_HANDLE_GEM_FLINK_NAME=0 HSA_EXTERNAL_HANDLE_KMS=1 \
    HSA_EXTERNAL_HANDLE_DMA_BUF=2 HSA_EXTERNAL_HANDLE_FABRIC=3
HSA_EXTERNAL_SEMAPHORE_HANDLE_TYPE 4 HSA_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32=0 \
    HSA_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT=1 HSA_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD=2
";
