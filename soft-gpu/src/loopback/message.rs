//! The messages: [`protocol::kfd::Kfd`] and [`protocol::kfd::Process`], one variant per method.

use serde::{Deserialize, Serialize};

/// Number of a call, unique on its connection, chosen by the client.
pub(super) type CallId = u64;

/// Client to server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Topology {
        call: CallId,
    },
    Attach {
        call: CallId,
        id: u64,
        pid: u32,
        privileged: bool,
    },
    /// The last reference is gone. Not answered.
    Detach {
        process: u32,
    },
    Open {
        call: CallId,
        process: u32,
        node: WireNode,
    },
    /// Not answered.
    Close {
        process: u32,
        file: u64,
    },
    Transfer {
        call: CallId,
        process: u32,
        file: u64,
        request: u32,
    },
    Ioctl(Box<IoctlRequest>),
    Mmap {
        call: CallId,
        process: u32,
        file: u64,
        offset: u64,
        len: u64,
    },
    /// Ends a blocking call early. Not answered itself.
    Interrupt {
        call: CallId,
    },
}

/// An ioctl with everything that it can reach of its caller.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IoctlRequest {
    pub call: CallId,
    pub process: u32,
    pub file: u64,
    pub request: u32,
    /// The argument struct.
    #[serde(with = "serde_bytes")]
    pub args: Vec<u8>,
    /// Flattened memory, as `protocol::kfd::flat` encodes it.
    #[serde(with = "serde_bytes")]
    pub memory: Vec<u8>,
    /// Memory of the caller that the call may share with the device.
    pub shared: Vec<WireShared>,
    /// What stands behind the descriptor numbers in the arguments.
    pub descriptors: Vec<(i32, WireDescriptor)>,
}

/// A shared range, or why it cannot be shared (errno).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireShared {
    pub addr: u64,
    pub len: u64,
    pub writable: bool,
    pub pieces: Result<Vec<WirePiece>, i32>,
}

/// One piece of a shared range.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WirePiece {
    pub addr: u64,
    pub len: u64,
    /// Index into the message's descriptors.
    pub descriptor: u32,
    pub offset: u64,
}

/// What a descriptor number stands for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WireDescriptor {
    File(u64),
    /// Index into the message's descriptors.
    Foreign(u32),
    Error(i32),
}

/// A device node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WireNode {
    Kfd,
    Render(u32),
}

/// Server to client: the answer to `call`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    pub call: CallId,
    pub answer: Answer,
}

/// An answer, by the kind of the request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Error(i32),
    Topology {
        files: Vec<(String, Vec<u8>)>,
        denied: Vec<String>,
    },
    Attached {
        process: u32,
    },
    Opened {
        file: u64,
    },
    Transfer {
        size: u64,
        from_user: bool,
        to_user: bool,
    },
    Ioctl(Box<IoctlAnswer>),
    /// The mapping's file is the message's only descriptor.
    Mapping {
        offset: u64,
        len: u64,
        writable: bool,
    },
}

/// What an ioctl left behind, successful or not.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IoctlAnswer {
    pub result: Result<i32, i32>,
    #[serde(with = "serde_bytes")]
    pub args: Vec<u8>,
    /// Writes to flattened memory, as `protocol::kfd::flat` encodes them.
    #[serde(with = "serde_bytes")]
    pub writes: Vec<u8>,
    /// How many of the message's descriptors the call installed: number `n` in the arguments means
    /// the `n`-th.
    pub installed: u32,
}
