//! System management events.

super::kfd_consts! {
    /// Bytes of a message at most.
    SMI_EVENT_MSG_SIZE: u32 = 96, "KFD_SMI_EVENT_MSG_SIZE";
}

super::kfd_values! {
    /// An event (`enum kfd_smi_event`). Every message starts with its number in hexadecimal.
    pub struct SmiEvent: u32 {
        /// No event.
        NONE = 0, "KFD_SMI_EVENT_NONE";
        /// A GPU page fault that nobody could resolve.
        VMFAULT = 1, "KFD_SMI_EVENT_VMFAULT";
        /// Too hot.
        THERMAL_THROTTLE = 2, "KFD_SMI_EVENT_THERMAL_THROTTLE";
        /// A GPU is about to be reset.
        GPU_PRE_RESET = 3, "KFD_SMI_EVENT_GPU_PRE_RESET";
        /// A GPU has been reset.
        GPU_POST_RESET = 4, "KFD_SMI_EVENT_GPU_POST_RESET";
        /// A range starts to move.
        MIGRATE_START = 5, "KFD_SMI_EVENT_MIGRATE_START";
        /// A range has moved.
        MIGRATE_END = 6, "KFD_SMI_EVENT_MIGRATE_END";
        /// A recoverable page fault starts.
        PAGE_FAULT_START = 7, "KFD_SMI_EVENT_PAGE_FAULT_START";
        /// It is resolved.
        PAGE_FAULT_END = 8, "KFD_SMI_EVENT_PAGE_FAULT_END";
        /// The queues of a process are stopped.
        QUEUE_EVICTION = 9, "KFD_SMI_EVENT_QUEUE_EVICTION";
        /// They run again.
        QUEUE_RESTORE = 10, "KFD_SMI_EVENT_QUEUE_RESTORE";
        /// A range is unmapped from a GPU.
        UNMAP_FROM_GPU = 11, "KFD_SMI_EVENT_UNMAP_FROM_GPU";
        /// A process starts to use KFD.
        PROCESS_START = 12, "KFD_SMI_EVENT_PROCESS_START";
        /// A process ends.
        PROCESS_END = 13, "KFD_SMI_EVENT_PROCESS_END";
        /// In the mask: events of all processes (privileged).
        ALL_PROCESS = 64, "KFD_SMI_EVENT_ALL_PROCESS";
    }

    /// Why a range moves (`enum KFD_MIGRATE_TRIGGERS`).
    pub struct MigrateTrigger: u32 {
        /// Asked for.
        PREFETCH = 0, "KFD_MIGRATE_TRIGGER_PREFETCH";
        /// The GPU touched it.
        PAGEFAULT_GPU = 1, "KFD_MIGRATE_TRIGGER_PAGEFAULT_GPU";
        /// The CPU touched it.
        PAGEFAULT_CPU = 2, "KFD_MIGRATE_TRIGGER_PAGEFAULT_CPU";
        /// The GPU's memory is full.
        TTM_EVICTION = 3, "KFD_MIGRATE_TRIGGER_TTM_EVICTION";
    }

    /// Why queues are stopped (`enum KFD_QUEUE_EVICTION_TRIGGERS`).
    pub struct QueueEvictionTrigger: u32 {
        /// A change of an SVM range.
        SVM = 0, "KFD_QUEUE_EVICTION_TRIGGER_SVM";
        /// A change of registered memory.
        USERPTR = 1, "KFD_QUEUE_EVICTION_TRIGGER_USERPTR";
        /// The GPU's memory is full.
        TTM = 2, "KFD_QUEUE_EVICTION_TRIGGER_TTM";
        /// System suspend.
        SUSPEND = 3, "KFD_QUEUE_EVICTION_TRIGGER_SUSPEND";
        /// Checkpoint.
        CRIU_CHECKPOINT = 4, "KFD_QUEUE_EVICTION_CRIU_CHECKPOINT";
        /// Restore.
        CRIU_RESTORE = 5, "KFD_QUEUE_EVICTION_CRIU_RESTORE";
    }

    /// Why a range is unmapped from a GPU (`enum KFD_SVM_UNMAP_TRIGGERS`).
    pub struct SvmUnmapTrigger: u32 {
        /// The CPU's mapping changes.
        MMU_NOTIFY = 0, "KFD_SVM_UNMAP_TRIGGER_MMU_NOTIFY";
        /// It moves.
        MMU_NOTIFY_MIGRATE = 1, "KFD_SVM_UNMAP_TRIGGER_MMU_NOTIFY_MIGRATE";
        /// The program unmaps it.
        UNMAP_FROM_CPU = 2, "KFD_SVM_UNMAP_TRIGGER_UNMAP_FROM_CPU";
    }
}

impl SmiEvent {
    /// The event's bit in the mask that is written to the descriptor (`KFD_SMI_EVENT_MASK_FROM_INDEX`); `None`
    /// for a number that has no bit.
    #[must_use]
    pub const fn mask(self) -> Option<u64> {
        if self.0 >= 1 && self.0 <= 64 { Some(1 << (self.0 - 1)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_n_has_bit_n_minus_1() {
        assert_eq!(SmiEvent::VMFAULT.mask(), Some(1));
        assert_eq!(SmiEvent::ALL_PROCESS.mask(), Some(1 << 63));
        assert_eq!(SmiEvent::NONE.mask(), None);
        assert_eq!(SmiEvent(65).mask(), None);
    }
}
