//! The call area: where things are in the blob that guest and worker share.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 4095 | words, each side's in cache lines of their own ([`word`]) |
//! | 4096 to [`QUEUE_END`] - 1 | the queue: numbers of submitted slots, `u32` each, a ring of [`QUEUE_LEN`] |
//! | from [`QUEUE_END`] | [`SLOTS`] slots of [`SLOT_BYTES`] |
//!
//! A guest with more calls at a time than slots adds areas that hold slots alone
//! ([`AddSlots`](super::Request::AddSlots)): slot `n` is number `n % SLOTS` of area `n / SLOTS`.
//!
//! # Submitting
//!
//! The guest fills a slot's header and request, stores [`SUBMITTED`](state::SUBMITTED) to its state, writes the slot's number
//! to `queue[submitted % QUEUE_LEN]` and adds 1 to [`word::SUBMITTED`] (release). It then looks at [`word::ASLEEP`]
//! (sequentially consistent) and sends a [`Kick`](super::Submission::Kick) if that is not 0. The worker stores 1 to `ASLEEP` before it
//! sleeps and looks at `SUBMITTED` once more after that.
//!
//! # Completing
//!
//! The worker writes the answer, its length and status, and stores [`DONE`](state::DONE) to the state (sequentially
//! consistent): the slot is the guest's again. Answers come in any order. The worker adds 1 to [`word::COMPLETED`] and looks at
//! [`slot::SLEEPS`] (sequentially consistent). If that is not 0, it adds 1 to [`word::WAKES`] (sequentially consistent), and a
//! [`Wake`](super::Submission::Wake) that it holds completes. A Wake that names another value of `WAKES` than there is completes
//! at once.
//!
//! A guest that is to sleep for an answer stores 1 to `SLEEPS`, looks at the state once more (both sequentially consistent),
//! and sends a Wake unless another of its threads has one under way. So answers that a guest spins for cost no fence, however
//! many of its threads sleep for others. By the time that the worker looks, `SLEEPS` may be that of the slot's next call: the
//! Wake then completes for nothing, which is no harm.
//!
//! # Status
//!
//! | errno | the command was not executed because |
//! |---|---|
//! | `EPROTO` | its bytes are none of it, it came before HELLO, or is a second HELLO |
//! | `EOPNOTSUPP` | its number is of no command |
//! | `ENOENT` | there is no blob of that id, also after some seconds (a call can overtake the attachment) |
//! | `EINVAL` | a value cannot be |
//! | `EBUSY` | memory is registered that was to be unaliased |
//! | `EEXIST` | there is something already |
//! | `EAGAIN` | too many calls wait |
//! | `ENOMEM` | a limit is reached |
//! | `E2BIG` | the request is longer than its slot or blob, or there is no room for the answer (it *was* executed then) |
//! | `EIO` | the context ends, or a bug |

/// Bytes before the queue.
pub const WORDS_BYTES: usize = 4096;
/// Entries of the queue: one for each slot that there can be.
pub const QUEUE_LEN: u32 = 16_384;
/// First byte behind the queue.
pub const QUEUE_END: usize = WORDS_BYTES + QUEUE_LEN as usize * 4;
/// Slots of an area.
pub const SLOTS: u32 = 256;
/// Areas at most, the first included.
pub const MAX_AREAS: u32 = QUEUE_LEN / SLOTS;
/// Bytes of a slot with its header.
pub const SLOT_BYTES: usize = 4096;
/// Bytes of a slot's header; the message follows.
pub const SLOT_HEADER: usize = 64;
/// Bytes of a message that fits its slot.
pub const INLINE: usize = SLOT_BYTES - SLOT_HEADER;
/// Bytes of the first area.
pub const AREA_BYTES: usize = QUEUE_END + SLOTS as usize * SLOT_BYTES;
/// Bytes of each further area.
pub const MORE_BYTES: usize = SLOTS as usize * SLOT_BYTES;

/// Offsets of the words, `u32` each.
pub mod word {
    /// Calls that the guest has submitted, modulo 2^32. Written by the guest.
    pub const SUBMITTED: usize = 64;
    /// Calls that the worker has taken, modulo 2^32: how far it is, for who looks for what hangs. Written by the worker.
    pub const TAKEN: usize = 128;
    /// Not 0 while the worker sleeps. Written by the worker.
    pub const ASLEEP: usize = 132;
    /// Calls that the worker has completed, modulo 2^32: for who looks for what hangs. Written by the worker.
    pub const COMPLETED: usize = 192;
    /// Those of them for which the guest slept ([`slot::SLEEPS`](super::slot::SLEEPS)), modulo 2^32. Written by the worker.
    pub const WAKES: usize = 196;
}

/// Offsets in a slot's header, `u32` each.
pub mod slot {
    /// A state.
    pub const STATE: usize = 0;
    /// Number of the command.
    pub const COMMAND: usize = 4;
    /// Bytes of the request.
    pub const REQUEST_LEN: usize = 8;
    /// Bytes that the answer may have.
    pub const ROOM: usize = 12;
    /// Resource id of the blob that holds the message from its first byte on, where it does not fit the slot; else 0.
    pub const PAYLOAD: usize = 16;
    /// Errno of a command that was not executed, or 0. Written by the worker.
    pub const STATUS: usize = 20;
    /// Bytes of the answer. Written by the worker.
    pub const ANSWER_LEN: usize = 24;
    /// Not 0 if the guest sleeps until the answer is there. Written by the guest: 0 before the call is submitted, 1 at any
    /// time after that.
    pub const SLEEPS: usize = 28;
}

/// States of a slot.
pub mod state {
    /// The guest's.
    pub const FREE: u32 = 0;
    /// The worker's.
    pub const SUBMITTED: u32 = 1;
    /// The guest's again, with an answer.
    pub const DONE: u32 = 2;
}

/// Where a slot is: number of its area, and first byte there. `None` for a number that no slot has.
#[must_use]
pub fn slot_place(number: u32) -> Option<(u32, usize)> {
    let area = number / SLOTS;
    let start = if area == 0 { QUEUE_END } else { 0 };
    (area < MAX_AREAS).then(|| (area, start + (number % SLOTS) as usize * SLOT_BYTES))
}

/// First byte of the queue's entry for the call with this number (the value of [`word::SUBMITTED`] before it).
#[must_use]
pub fn queue_place(call: u32) -> usize {
    WORDS_BYTES + (call % QUEUE_LEN) as usize * 4
}
