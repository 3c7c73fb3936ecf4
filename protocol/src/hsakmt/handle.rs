//! Memory and semaphores of other drivers and processes, by handle; file transfers. All since 2026.

use super::declare::{hsa_enums, hsa_structs, hsa_words};

hsa_enums! {
    /// Direction of a file transfer (hsaKmtAisReadWriteFile).
    pub struct AisFlags: u32, "HsaAisFlags" {
        /// From the file into GPU memory.
        READ = 1, "HSA_AIS_READ";
        /// From GPU memory into the file.
        WRITE = 2, "HSA_AIS_WRITE";
    }

    /// Access to a mapping (hsaKmtMemoryVaMap).
    pub struct MemoryMapFlags: u32, "HsaMemoryMapFlags" {
        /// None.
        NONE = 0, "HSA_MEMORY_ACCESS_NONE";
        /// Reads.
        RO = 1, "HSA_MEMORY_ACCESS_RO";
        /// Writes.
        WO = 2, "HSA_MEMORY_ACCESS_WO";
        /// Both.
        RW = 3, "HSA_MEMORY_ACCESS_RW";
    }

    /// Kinds of handles.
    pub struct ExternalHandleType: u32, "HsaExternalHandleType" {
        /// Global GEM name.
        GEM_FLINK_NAME = 0, "HSA_EXTERNAL_HANDLE_GEM_FLINK_NAME";
        /// GEM handle.
        KMS = 1, "HSA_EXTERNAL_HANDLE_KMS";
        /// dma-buf descriptor.
        DMA_BUF = 2, "HSA_EXTERNAL_HANDLE_DMA_BUF";
        /// Handle of the fabric.
        FABRIC = 3, "HSA_EXTERNAL_HANDLE_FABRIC";
    }

    /// Kinds of semaphores.
    pub struct ExternalSemaphoreHandleType: u32, "HSA_EXTERNAL_SEMAPHORE_HANDLE_TYPE" {
        /// Windows NT handle.
        OPAQUE_WIN32 = 0, "HSA_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32";
        /// Windows KMT handle.
        OPAQUE_WIN32_KMT = 1, "HSA_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT";
        /// Descriptor.
        OPAQUE_FD = 2, "HSA_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD";
    }
}

hsa_words! {
    /// Flags of hsaKmtHandleImport.
    pub struct HandleImportFlags: u32, "HsaHandleImportFlags" {
        /// The handle comes from hsaKmtHandleExport of another process.
        IPC_HANDLE, ipc_handle: 0, "IPCHandle";
        /// System memory.
        SYS_MEM, sys_mem: 1, "SysMem";
        /// Write the metadata too.
        UPDATE_METADATA, update_metadata: 2, "UpdateMetadata";
    }

    /// Flags of hsaKmtHandleExport: none is defined.
    pub struct HandleExportFlags: u32, "HsaHandleExportFlags" {}
}

hsa_structs! {
    /// Handle of the fabric.
    pub struct FabricHandle: "HsaFabricHandle", 16 {
        /// Opaque words.
        pub handle: [u64; 2], "handle";
    }

    /// What to import.
    pub struct HandleImportDesc: "HsaHandleImportDesc", 40 {
        /// Address of libdrm's device.
        pub device_handle: u64, "device_handle";
        /// Kind of handle.
        pub type_: ExternalHandleType, "type";
        /// The handle, by kind: the first word is a dma-buf descriptor or the address of a memory object. The
        /// header has a union here.
        pub handle: FabricHandle, "fabric";
        /// Address of the memory, for system memory.
        pub mem: u64, "mem";
        /// Metadata that the buffer must have.
        pub metadata: u32, "metadata";
    }

    /// What was imported.
    pub struct HandleImportResult: "HsaHandleImportResult", 24 {
        /// Address of the memory object.
        pub buf_handle: u64, "buf_handle";
        /// dma-buf descriptor.
        pub dmabuf_fd: i32, "dmabuf_fd";
        /// Size in bytes.
        pub alloc_size: u64, "alloc_size";
        /// Metadata of the buffer.
        pub metadata: u32, "metadata";
    }

    /// What to export.
    pub struct HandleExportDesc: "HsaHandleExportDesc", 28 {
        /// Address of libdrm's device.
        pub device_handle: u64, "device_handle";
        /// Kind of handle.
        pub type_: ExternalHandleType, "type";
        /// Address of the memory object.
        pub buf_handle: u64, "buf_handle";
        /// Size in bytes.
        pub size: u64, "size";
    }

    /// The handle: in the first word a dma-buf descriptor. The header has a union of both.
    pub struct MemoryExportResult: "HsaMemoryExportResult", 16 {
        /// Handle of the fabric.
        pub fabric: FabricHandle, "fabric";
    }

    /// A semaphore.
    pub struct ExternalSemaphoreHandle: "HSA_EXTERNAL_SEMAPHORE_HANDLE", 8 {
        /// Opaque.
        pub handle: u64, "handle";
    }

    /// Sizes in bytes of structs, as the caller knows them.
    pub struct StructureSizes: "HsaStructureSizes", 16 {
        /// Of this struct.
        pub structure_sizes: u16, "StructureSizes";
        /// Of `HsaNodeProperties`.
        pub size_of_node_properties: u16, "SizeOfHsaNodeProperties";
        /// Of `HsaExternalHandleDesc`, today's `HsaHandleImportDesc`.
        pub size_of_external_handle_desc: u16, "SizeOfHsaExternalHandleDesc";
        /// Reserved.
        pub reserved: [u16; 5], "Reserved";
    }
}
