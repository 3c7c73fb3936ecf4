//! A context with a worker that answers: its calls, and the addresses that both have.

use std::sync::Arc;
use std::time::Duration;

use protocol::Errno;
use protocol::wire::structs::{HelloAnswer, Range};
use protocol::wire::{Answer, Request, VERSION_MAX, VERSION_MIN, feature};

use super::calls::Calls;
use super::device::Device;
use super::guest::Guest;
use super::ranges;
use crate::fork::ForkMark;

/// Bytes of a page, of the guest and of the host.
pub(super) const PAGE: u64 = 4096;

/// Why there is no context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The driver makes no context, or has no memory for the calls.
    #[error("the virtio-gpu driver makes no context: {0}")]
    Context(Errno),
    /// Nobody answers.
    #[error("the host has no worker process for this program: the daemon vhost-device-kfd says why")]
    NoWorker,
    /// The worker does not want to.
    #[error("the host's worker refuses this program: {0}")]
    Refused(Errno),
    /// It speaks another language.
    #[error(
        "the host's worker speaks version {0} of the protocol, this library {VERSION_MIN} to {VERSION_MAX}"
    )]
    Version(u32),
    /// No addresses that are free on both sides.
    #[error("no {} GiB of addresses are free in this program and on the host", ranges::LEAST >> 30)]
    NoAddresses,
    /// It answers with addresses that were not offered.
    #[error("the host's worker answers with addresses that were not offered: {0:#x}, {1} bytes")]
    Addresses(u64, u64),
}

/// A context with a worker that answers. It ends when this is dropped.
pub(super) struct Link {
    pub(super) calls: Arc<Calls>,
    /// Memory outside of these addresses cannot be shared.
    pub(super) addresses: Addresses,
    /// The `blob_id` of this context's memory in the window, if that is used.
    pub(super) window: Option<u64>,
    fork: ForkMark,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    base: u64,
    len: u64,
}

impl Addresses {
    /// The first of them.
    #[cfg(test)]
    pub(super) fn first(self) -> u64 {
        self.base
    }

    /// Whether all of `[start, start + len)` is in it.
    pub(super) fn hold(self, start: u64, len: u64) -> bool {
        let offset = start.checked_sub(self.base);
        offset.and_then(|offset| offset.checked_add(len)).is_some_and(|end| end <= self.len)
    }
}

impl Link {
    /// Makes the context of a device and greets its worker.
    ///
    /// # Errors
    /// In words; see [`LinkError`].
    pub(super) fn open(device: Arc<dyn Device>, spin: Duration) -> Result<Self, LinkError> {
        let fork = ForkMark::new();
        let calls = Arc::new(Calls::new(device, spin).map_err(LinkError::Context)?);
        let agreed = greet(&calls, &ranges::candidates(Guest::look().memory))?;
        Ok(Self { calls, addresses: agreed.addresses, window: agreed.window, fork })
    }

    /// Refuses a forked child: it has a copy of this memory, and its parent's context is not its own.
    ///
    /// # Errors
    /// `EBADF`, as of `/dev/kfd`.
    pub(super) fn own_process(&self) -> Result<(), Errno> {
        if self.fork.is_here() { Ok(()) } else { Err(Errno::EBADF) }
    }
}

/// What HELLO agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Agreed {
    addresses: Addresses,
    window: Option<u64>,
}

/// HELLO.
fn greet(calls: &Arc<Calls>, offered: &[Range]) -> Result<Agreed, LinkError> {
    if offered.is_empty() {
        return Err(LinkError::NoAddresses);
    }
    let (versions, page_size) = ((VERSION_MIN, VERSION_MAX), PAGE as u32);
    let features = if calls.device().has_window() { feature::WINDOW } else { 0 };
    let request = Request::Hello { versions, features, page_size, ranges: offered };
    let answer = calls.call(&request, |answer| match answer {
        Answer::Hello(answer) => Ok(answer),
        _ => Err(Errno::EPROTO),
    });
    let answer = answer.map_err(|errno| match errno {
        Errno::ENODEV => LinkError::NoWorker,
        Errno::ENOMEM => LinkError::NoAddresses,
        errno => LinkError::Refused(errno),
    })?;
    check(&answer, features, offered)
}

fn check(answer: &HelloAnswer, features: u64, offered: &[Range]) -> Result<Agreed, LinkError> {
    let version = answer.version.get();
    if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
        return Err(LinkError::Version(version));
    }
    let range = answer.addresses;
    let (base, len) = (range.base.get(), range.len.get());
    let whole = base.is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
    if !whole || !ranges::is_offered(range, offered) {
        return Err(LinkError::Addresses(base, len));
    }
    // What was not asked for is not used.
    let window = features & answer.features.get() & feature::WINDOW != 0;
    let window = window.then_some(answer.window_blob.get());
    let seen = if window.is_some() { "seen in the window" } else { "not to be seen" };
    log::debug!("the GPUs' addresses are {base:#x}, {} GiB; their memory is {seen}", len >> 30);
    Ok(Agreed { addresses: Addresses { base, len }, window })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(base: u64, len: u64) -> Range {
        Range { base: base.into(), len: len.into() }
    }

    #[test]
    fn answers_to_hello_are_checked() {
        let offered = [range(1 << 42, 1 << 40)];
        let answer = |version: u32, addresses| HelloAnswer {
            version: version.into(),
            addresses,
            ..Default::default()
        };
        let good = answer(VERSION_MAX, range(1 << 42, 1 << 36));
        let agreed = Agreed { addresses: Addresses { base: 1 << 42, len: 1 << 36 }, window: None };
        assert_eq!(check(&good, feature::WINDOW, &offered), Ok(agreed));
        let window = HelloAnswer { features: u64::MAX.into(), window_blob: 7.into(), ..good };
        assert_eq!(check(&window, feature::WINDOW, &offered), Ok(Agreed { window: Some(7), ..agreed }));
        assert_eq!(check(&window, 0, &offered), Ok(agreed), "it was not asked for");
        assert_eq!(
            check(&answer(VERSION_MAX + 1, offered[0]), 0, &offered),
            Err(LinkError::Version(VERSION_MAX + 1))
        );
        for wrong in
            [range(1 << 41, 1 << 36), range((1 << 42) + 1, 4096), range(1 << 42, 4097), range(1 << 42, 0)]
        {
            assert!(matches!(check(&answer(VERSION_MAX, wrong), 0, &offered), Err(LinkError::Addresses(..))));
        }
    }

    #[test]
    fn addresses_hold_what_is_wholly_inside() {
        let addresses = Addresses { base: 1 << 42, len: 1 << 40 };
        assert!(addresses.hold(1 << 42, 1 << 40));
        assert!(addresses.hold((1 << 42) + 4096, 4096));
        assert!(!addresses.hold((1 << 42) - 1, 2));
        assert!(!addresses.hold((1 << 42) + (1 << 40), 1));
        assert!(!addresses.hold(u64::MAX, u64::MAX));
    }
}
