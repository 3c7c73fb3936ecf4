//! Fixed parts of the messages.

use zerocopy::little_endian::{I32, U32, U64};

use crate::kfd::structs::uapi_structs;

uapi_structs! {
    /// No fixed part.
    #[derive(zerocopy::Unaligned)]
    pub struct Nothing: "nothing", 0 {
    }

    /// What an EXECBUFFER holds ([`Submission`](super::Submission)).
    #[derive(zerocopy::Unaligned)]
    pub struct Message: "kfdvirt_message", 8 {
        /// Which.
        pub kind: U32,
        /// Its value.
        pub value: U32,
    }

    /// A range of addresses.
    #[derive(zerocopy::Unaligned)]
    pub struct Range: "kfdvirt_range", 16 {
        /// First address.
        pub base: U64,
        /// Bytes.
        pub len: U64,
    }

    /// HELLO: [`Range`]s follow.
    #[derive(zerocopy::Unaligned)]
    pub struct Hello: "kfdvirt_hello", 32 {
        /// Lowest version that the guest speaks.
        pub version_min: U32,
        /// Highest version that the guest speaks.
        pub version_max: U32,
        /// Bits of what the guest can do ([`feature`](super::feature)); others are ignored.
        pub features: U64,
        /// Bytes of the guest's pages.
        pub page_size: U32,
        /// Ranges that follow.
        pub ranges: U32,
        /// Zero.
        pub reserved: U64,
    }

    /// Answer to HELLO.
    #[derive(zerocopy::Unaligned)]
    pub struct HelloAnswer: "kfdvirt_hello_answer", 56 {
        /// Version that is spoken from now on.
        pub version: U32,
        /// Zero.
        pub reserved: U32,
        /// Bits of what is used: some of those that the guest named.
        pub features: U64,
        /// The addresses of this context: the part of an offered range that is free on the host too.
        pub addresses: Range,
        /// Bytes of the guest's memory that this context may have shared with the GPUs at one time.
        pub memory_limit: U64,
        /// Blobs that may be mapped at one time.
        pub alias_limit: U32,
        /// Calls that may wait at one time; more are `EAGAIN`.
        pub wait_limit: U32,
        /// With [`feature::WINDOW`](super::feature::WINDOW): the `blob_id` of this context's memory in the window. Else zero.
        pub window_blob: U64,
    }

    /// TOPOLOGY.
    #[derive(zerocopy::Unaligned)]
    pub struct TopologyPart: "kfdvirt_topology", 8 {
        /// First byte of the tree ([`tree`](super::tree)) to be sent. 0 takes the tree anew.
        pub offset: U64,
    }

    /// Answer to TOPOLOGY: the bytes follow, as many as there is room for.
    #[derive(zerocopy::Unaligned)]
    pub struct TopologyAnswer: "kfdvirt_topology_answer", 8 {
        /// Bytes of the whole tree.
        pub total: U64,
    }

    /// OPEN.
    #[derive(zerocopy::Unaligned)]
    pub struct Open: "kfdvirt_open", 8 {
        /// 0: `/dev/kfd`. 1: a render node.
        pub node: U32,
        /// Minor of the render node; else 0.
        pub minor: U32,
    }

    /// Answer to OPEN; and CLOSE.
    #[derive(zerocopy::Unaligned)]
    pub struct File: "kfdvirt_file", 8 {
        /// Number of the open file.
        pub file: U64,
    }

    /// TRANSFER: what an ioctl copies.
    #[derive(zerocopy::Unaligned)]
    pub struct Transfer: "kfdvirt_transfer", 16 {
        /// Number of the open file.
        pub file: U64,
        /// Request code.
        pub request: U32,
        /// Zero.
        pub reserved: U32,
    }

    /// Answer to TRANSFER.
    #[derive(zerocopy::Unaligned)]
    pub struct TransferAnswer: "kfdvirt_transfer_answer", 8 {
        /// Bytes of the argument struct.
        pub size: U32,
        /// Bit 0: it is read from the program. Bit 1: it is written back.
        pub directions: U32,
    }

    /// IOCTL: then the argument struct, the gathered memory ([`FlatCall`](crate::kfd::flat::FlatCall)) if there is any, and
    /// [`Descriptor`]s.
    #[derive(zerocopy::Unaligned)]
    pub struct Ioctl: "kfdvirt_ioctl", 24 {
        /// Number of the open file.
        pub file: U64,
        /// Request code.
        pub request: U32,
        /// Bytes of the argument struct.
        pub args: U32,
        /// Bytes of the gathered memory.
        pub memory: U32,
        /// Descriptors that follow.
        pub descriptors: U32,
    }

    /// What stands behind a descriptor in the arguments.
    #[derive(zerocopy::Unaligned)]
    pub struct Descriptor: "kfdvirt_descriptor", 16 {
        /// The number in the arguments.
        pub number: I32,
        /// Zero.
        pub reserved: U32,
        /// Number of the open file.
        pub file: U64,
    }

    /// Answer to IOCTL: then the argument struct, and what the call wrote
    /// ([`FlatWrites`](crate::kfd::flat::FlatWrites)).
    #[derive(zerocopy::Unaligned)]
    pub struct IoctlAnswer: "kfdvirt_ioctl_answer", 16 {
        /// What `ioctl(2)` returned, or the negative errno.
        pub result: I32,
        /// Bytes of the argument struct.
        pub args: U32,
        /// Bytes of the writes.
        pub writes: U32,
        /// Zero.
        pub reserved: U32,
    }

    /// ALIAS: from now on a part of a blob is the memory at these addresses, for the host too.
    #[derive(zerocopy::Unaligned)]
    pub struct Alias: "kfdvirt_alias", 32 {
        /// Resource id of the blob.
        pub resource: U32,
        /// Zero.
        pub reserved: U32,
        /// First byte of the blob.
        pub offset: U64,
        /// Where: addresses of the context, whole pages, nothing there yet.
        pub addresses: Range,
    }

    /// UNALIAS: exactly the addresses of an ALIAS are free again.
    #[derive(zerocopy::Unaligned)]
    pub struct Unalias: "kfdvirt_unalias", 16 {
        /// Which.
        pub addresses: Range,
    }

    /// DOORBELLS: the guest's page for the doorbells of a GPU. The worker carries over what is stored there: it takes each
    /// value out and leaves `0xff` bytes. A queue's doorbell stands at the offset that CREATE_QUEUE said, counted from the
    /// place's base. A second one for the same place takes the place of the first.
    #[derive(zerocopy::Unaligned)]
    pub struct Doorbells: "kfdvirt_doorbells", 32 {
        /// Number of the open `/dev/kfd`.
        pub file: U64,
        /// Where the doorbells are in it.
        pub place: Range,
        /// Resource id of the guest's blob, as long as they are. All its bytes are `0xff` at this time.
        pub resource: U32,
        /// Zero.
        pub reserved: U32,
    }

    /// CANCEL: a call is to end, as by a signal. It is answered whether it still ran or not.
    #[derive(zerocopy::Unaligned)]
    pub struct Cancel: "kfdvirt_cancel", 8 {
        /// Number of its slot.
        pub slot: U32,
        /// Zero.
        pub reserved: U32,
    }

    /// ADD_SLOTS: one area more.
    #[derive(zerocopy::Unaligned)]
    pub struct AddSlots: "kfdvirt_add_slots", 8 {
        /// Resource id of the blob, of [`MORE_BYTES`](super::area::MORE_BYTES).
        pub resource: U32,
        /// Zero.
        pub reserved: U32,
    }

    /// PLACE, with [`feature::WINDOW`](super::feature::WINDOW): from now on the memory that `mmap` finds there (a buffer of
    /// VRAM or GTT, the doorbells of a GPU) is that of a blob of the window, which both sides see. What was in it is kept. It
    /// stays so until that memory is freed.
    #[derive(zerocopy::Unaligned)]
    pub struct Place: "kfdvirt_place", 32 {
        /// Number of the open file.
        pub file: U64,
        /// Where the memory is in it: all of a buffer, or all doorbells.
        pub place: Range,
        /// Resource id of the blob, which is as long and was placed nowhere yet.
        pub resource: U32,
        /// Zero.
        pub reserved: U32,
    }
}
