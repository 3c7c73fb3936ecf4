//! Shared virtual memory.

super::kfd_values! {
    /// Operation of SVM (`enum kfd_ioctl_svm_op`).
    pub struct SvmOp: u32 {
        /// Sets attributes.
        SET_ATTR = 0, "KFD_IOCTL_SVM_OP_SET_ATTR";
        /// Reads attributes.
        GET_ATTR = 1, "KFD_IOCTL_SVM_OP_GET_ATTR";
    }

    /// A location that is no GPU id (`enum kfd_ioctl_svm_location`).
    pub struct SvmLocation: u32 {
        /// System memory.
        SYSMEM = 0, "KFD_IOCTL_SVM_LOCATION_SYSMEM";
        /// None, or several.
        UNDEFINED = 0xffff_ffff, "KFD_IOCTL_SVM_LOCATION_UNDEFINED";
    }

    /// Type of an attribute (`enum kfd_ioctl_svm_attr_type`).
    pub struct SvmAttr: u32 {
        /// Where the range should be: a GPU id or a location.
        PREFERRED_LOC = 0, "KFD_IOCTL_SVM_ATTR_PREFERRED_LOC";
        /// Where it is moved now.
        PREFETCH_LOC = 1, "KFD_IOCTL_SVM_ATTR_PREFETCH_LOC";
        /// A GPU that may access it, by migration or in place.
        ACCESS = 2, "KFD_IOCTL_SVM_ATTR_ACCESS";
        /// A GPU that may access it where it is.
        ACCESS_IN_PLACE = 3, "KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE";
        /// A GPU that may not access it.
        NO_ACCESS = 4, "KFD_IOCTL_SVM_ATTR_NO_ACCESS";
        /// Flags to set.
        SET_FLAGS = 5, "KFD_IOCTL_SVM_ATTR_SET_FLAGS";
        /// Flags to clear.
        CLR_FLAGS = 6, "KFD_IOCTL_SVM_ATTR_CLR_FLAGS";
        /// Pages moved at a time, as a power of two.
        GRANULARITY = 7, "KFD_IOCTL_SVM_ATTR_GRANULARITY";
    }
}

super::kfd_flags! {
    /// Flags of an SVM range.
    pub struct SvmFlags: u32 {
        /// The CPU accesses it.
        HOST_ACCESS = 0x01, "KFD_IOCTL_SVM_FLAG_HOST_ACCESS";
        /// Fine-grained coherence.
        COHERENT = 0x02, "KFD_IOCTL_SVM_FLAG_COHERENT";
        /// Any GPU of the hive is local.
        HIVE_LOCAL = 0x04, "KFD_IOCTL_SVM_FLAG_HIVE_LOCAL";
        /// GPUs only read.
        GPU_RO = 0x08, "KFD_IOCTL_SVM_FLAG_GPU_RO";
        /// GPUs may execute.
        GPU_EXEC = 0x10, "KFD_IOCTL_SVM_FLAG_GPU_EXEC";
        /// GPUs mostly read.
        GPU_READ_MOSTLY = 0x20, "KFD_IOCTL_SVM_FLAG_GPU_READ_MOSTLY";
        /// Mapped on GPUs at all times.
        GPU_ALWAYS_MAPPED = 0x40, "KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED";
        /// Fine-grained coherence between GPUs.
        EXT_COHERENT = 0x80, "KFD_IOCTL_SVM_FLAG_EXT_COHERENT";
    }
}
