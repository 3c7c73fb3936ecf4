//! One call to the device that fails on purpose, to see what a program makes of it.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::Errno;

/// Which call fails, and how. Opens, ioctls and shared mappings of device files are counted together, of all processes,
/// in the order in which they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first call is 1.
    pub call: u64,
    /// What it answers instead of being executed.
    pub errno: Errno,
}

/// Why text is no [`Fault`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Not `CALL:ERRNO`.
    #[error("expected CALL:ERRNO, as in 12:ENOMEM")]
    Form,
    /// Not a number from 1 on.
    #[error("{0} is no number of a call; the first is 1")]
    Call(String),
    /// No errno's name.
    #[error("{0} is no name of an error, as ENOMEM")]
    Errno(String),
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (call, errno) = text.split_once(':').ok_or(FaultError::Form)?;
        let number = call.parse().ok().filter(|call| *call > 0);
        let number = number.ok_or_else(|| FaultError::Call(call.to_owned()))?;
        let errno = Errno::from_name(errno).ok_or_else(|| FaultError::Errno(errno.to_owned()))?;
        Ok(Fault { call: number, errno })
    }
}

/// Numbers calls, which a trace shows, and lets one fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    fault: Option<Fault>,
    calls: AtomicU64,
}

impl Faults {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self { fault, calls: AtomicU64::new(0) }
    }

    /// To be asked once by each call, before it has any effect: its number, and what it is to answer if it fails on purpose.
    pub(super) fn next(&self) -> (u64, Result<(), Errno>) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = self.fault.filter(|fault| fault.call == call);
        (call, fault.map_or(Ok(()), |fault| Err(fault.errno)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_fails() {
        let faults = Faults::new(Some("3:ENOMEM".parse().unwrap()));
        let results: Vec<_> = (0..5).map(|_| faults.next()).collect();
        assert_eq!(results, [(1, Ok(())), (2, Ok(())), (3, Err(Errno::ENOMEM)), (4, Ok(())), (5, Ok(()))]);
        let none = Faults::new(None);
        assert!((1..5).all(|number| none.next() == (number, Ok(()))));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let parse = |text: &str| text.parse::<Fault>();
        assert_eq!(parse("12"), Err(FaultError::Form));
        assert_eq!(parse("0:EIO"), Err(FaultError::Call("0".to_owned())));
        assert_eq!(parse("x:EIO"), Err(FaultError::Call("x".to_owned())));
        assert_eq!(parse("1:EWRONG"), Err(FaultError::Errno("EWRONG".to_owned())));
    }
}
