//! The memory that the contexts of a device share, and who has how much of it.
//!
//! Threats: a worker may ask for anything and give back anything. It gets no more than is left, and nothing counts as given
//! back that it does not have. What it has goes back when its process is gone, not before: until then it may still use it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::link::Stock;

/// GPUs that a worker may name where the device process does not know them.
const GPUS: usize = 128;

/// How much there is. Without a number: as much as the KFD gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// VRAM of each GPU by its KFD id, where that is known; there are no others then.
    pub gpus: Option<BTreeMap<u32, u64>>,
    /// VRAM that all contexts have together, on all GPUs.
    pub vram: Option<u64>,
    /// VRAM that one context has, on all GPUs.
    pub context_vram: Option<u64>,
    /// System memory of the host that KFD allocates for all contexts together.
    pub host: Option<u64>,
}

/// What was granted.
#[derive(Debug, Default)]
pub struct Supply {
    limits: Limits,
    granted: Mutex<Amounts>,
}

/// Bytes of each kind.
#[derive(Debug, Default)]
struct Amounts(BTreeMap<Stock, u64>);

/// What a worker said that a sound one does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// No such GPU.
    #[error("it asked for memory of GPU {0:#x}, which it does not have")]
    Gpu(u32),
    /// More than it has.
    #[error("it gave {0} bytes back that were not its own")]
    NotItsOwn(u64),
}

impl Supply {
    /// With nothing granted.
    #[must_use]
    pub fn new(limits: Limits) -> Arc<Supply> {
        Arc::new(Supply { limits, granted: Mutex::default() })
    }

    /// Bytes that workers have now: VRAM of all GPUs, and system memory of the host.
    #[must_use]
    pub fn granted(&self) -> (u64, u64) {
        let granted = self.lock();
        (granted.vram(), granted.of(Stock::Host))
    }

    /// What a new worker has: nothing yet.
    #[must_use]
    pub fn share(self: &Arc<Self>) -> Share {
        Share { supply: Arc::clone(self), own: Amounts::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Amounts> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self, granted: &Amounts, own: &Amounts, stock: Stock) -> u64 {
        let rest = |limit: Option<u64>, used: u64| limit.unwrap_or(u64::MAX).saturating_sub(used);
        match stock {
            Stock::Host => rest(self.limits.host, granted.of(stock)),
            Stock::Vram(gpu) => {
                let size = self.limits.gpus.as_ref().map(|gpus| gpus.get(&gpu).copied().unwrap_or(0));
                rest(size, granted.of(stock))
                    .min(rest(self.limits.vram, granted.vram()))
                    .min(rest(self.limits.context_vram, own.vram()))
            }
        }
    }
}

impl Amounts {
    fn of(&self, stock: Stock) -> u64 {
        self.0.get(&stock).copied().unwrap_or(0)
    }

    fn vram(&self) -> u64 {
        let vram = self.0.iter().filter(|(stock, _)| matches!(stock, Stock::Vram(_)));
        vram.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn set(&mut self, stock: Stock, bytes: u64) {
        if bytes == 0 {
            self.0.remove(&stock);
        } else {
            self.0.insert(stock, bytes);
        }
    }
}

/// What one worker has. Dropping it gives everything back.
#[derive(Debug)]
pub struct Share {
    supply: Arc<Supply>,
    own: Amounts,
}

impl Share {
    /// Grants so many bytes if they are left; whether it did, and what is left then.
    ///
    /// # Errors
    /// [`Wrong::Gpu`].
    pub fn ask(&mut self, stock: Stock, bytes: u64) -> Result<(bool, u64), Wrong> {
        self.knows(stock)?;
        let mut granted = self.supply.lock();
        let left = self.supply.left(&granted, &self.own, stock);
        let (all, own) = (granted.of(stock).checked_add(bytes), self.own.of(stock).checked_add(bytes));
        let (Some(all), Some(own), true) = (all, own, bytes <= left) else { return Ok((false, left)) };
        granted.set(stock, all);
        self.own.set(stock, own);
        Ok((true, self.supply.left(&granted, &self.own, stock)))
    }

    /// Takes bytes back.
    ///
    /// # Errors
    /// [`Wrong::NotItsOwn`]; nothing is taken then.
    pub fn give_back(&mut self, stock: Stock, bytes: u64) -> Result<(), Wrong> {
        let own = self.own.of(stock).checked_sub(bytes).ok_or(Wrong::NotItsOwn(bytes))?;
        let mut granted = self.supply.lock();
        let all = granted.of(stock).saturating_sub(bytes);
        granted.set(stock, all);
        self.own.set(stock, own);
        Ok(())
    }

    fn knows(&self, stock: Stock) -> Result<(), Wrong> {
        let Stock::Vram(gpu) = stock else { return Ok(()) };
        let known = match &self.supply.limits.gpus {
            Some(gpus) => gpus.contains_key(&gpu),
            // It may make this process remember so many.
            None => self.own.of(stock) > 0 || self.own.0.len() < GPUS,
        };
        if known { Ok(()) } else { Err(Wrong::Gpu(gpu)) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut granted = self.supply.lock();
        for (stock, bytes) in std::mem::take(&mut self.own.0) {
            let all = granted.of(stock).saturating_sub(bytes);
            granted.set(stock, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Stock = Stock::Vram(10);
    const B: Stock = Stock::Vram(11);

    fn supply(vram: Option<u64>, context_vram: Option<u64>) -> Arc<Supply> {
        let gpus = Some(BTreeMap::from([(10, 100), (11, 50)]));
        Supply::new(Limits { gpus, vram, context_vram, host: Some(30) })
    }

    #[test]
    fn what_one_takes_the_other_misses() {
        let supply = supply(None, None);
        let (mut one, mut other) = (supply.share(), supply.share());
        assert_eq!(one.ask(A, 60), Ok((true, 40)));
        assert_eq!(other.ask(A, 0), Ok((true, 40)));
        assert_eq!(other.ask(A, 41), Ok((false, 40)));
        assert_eq!(other.ask(A, 40), Ok((true, 0)));
        // Another GPU, and system memory, are not touched.
        assert_eq!(other.ask(B, 50), Ok((true, 0)));
        assert_eq!(other.ask(Stock::Host, 31), Ok((false, 30)));
        assert_eq!(other.ask(Stock::Host, 30), Ok((true, 0)));
        assert_eq!(supply.granted(), (150, 30));
        assert_eq!(one.give_back(A, 10), Ok(()));
        assert_eq!(other.ask(A, 10), Ok((true, 0)));
        drop(other);
        assert_eq!(supply.granted(), (50, 0));
        assert_eq!(one.ask(A, 0), Ok((true, 50)));
        drop(one);
        assert_eq!(supply.granted(), (0, 0));
    }

    #[test]
    fn limits_of_the_device_and_of_a_context_hold_on_all_gpus_together() {
        let supply = supply(Some(90), Some(55));
        let (mut one, mut other) = (supply.share(), supply.share());
        assert_eq!(one.ask(A, 40), Ok((true, 15)));
        assert_eq!(one.ask(B, 16), Ok((false, 15)));
        assert_eq!(one.ask(B, 15), Ok((true, 0)));
        assert_eq!(other.ask(A, 36), Ok((false, 35)));
        assert_eq!(other.ask(A, 35), Ok((true, 0)));
    }

    #[test]
    fn nothing_counts_as_given_back_that_is_not_ones_own() {
        let supply = supply(None, None);
        let (mut one, mut other) = (supply.share(), supply.share());
        assert_eq!(one.ask(A, 60), Ok((true, 40)));
        for (stock, bytes) in [(A, 1), (A, u64::MAX), (B, 1), (Stock::Host, 1), (Stock::Vram(9), 1)] {
            assert_eq!(other.give_back(stock, bytes), Err(Wrong::NotItsOwn(bytes)));
        }
        assert_eq!(one.give_back(A, 61), Err(Wrong::NotItsOwn(61)));
        assert_eq!(supply.granted(), (60, 0));
        assert_eq!(one.ask(Stock::Vram(9), 0), Err(Wrong::Gpu(9)));
        assert_eq!(one.ask(A, u64::MAX), Ok((false, 40)));
    }

    #[test]
    fn a_worker_names_a_bounded_number_of_gpus_where_they_are_not_known() {
        let supply = Supply::new(Limits::default());
        let mut share = supply.share();
        for gpu in 0..128 {
            assert_eq!(share.ask(Stock::Vram(gpu), 1).map(|(granted, _)| granted), Ok(true));
        }
        assert_eq!(share.ask(Stock::Vram(128), 1), Err(Wrong::Gpu(128)));
        assert_eq!(share.give_back(Stock::Vram(5), 1), Ok(()));
        assert_eq!(share.ask(Stock::Vram(128), 1).map(|(granted, _)| granted), Ok(true));
    }

    proptest! {
        /// Whatever workers say, no sum is beyond its limit, and at the end nothing is left over.
        #[test]
        fn sums_stay_within_their_limits(
            said in prop::collection::vec((0..3_usize, 0..4_u32, 0..80_u64, any::<bool>()), 0..200),
        ) {
            let supply = supply(Some(120), Some(70));
            let mut shares: Vec<Share> = (0..3).map(|_| supply.share()).collect();
            for (who, what, bytes, back) in said {
                let stock = if what == 3 { Stock::Host } else { Stock::Vram(9 + what) };
                let share = &mut shares[who];
                let (before, own) = (supply.granted(), share.own.of(stock));
                if back {
                    prop_assert_eq!(share.give_back(stock, bytes).is_ok(), bytes <= own);
                } else if let Ok((false, left)) = share.ask(stock, bytes) {
                    prop_assert!(bytes > left);
                    prop_assert_eq!(supply.granted(), before);
                }
                let (vram, host) = supply.granted();
                prop_assert!(vram <= 120 && host <= 30);
                prop_assert!(shares.iter().all(|share| share.own.vram() <= 70));
                let a: u64 = shares.iter().map(|share| share.own.of(A)).sum();
                let b: u64 = shares.iter().map(|share| share.own.of(B)).sum();
                prop_assert!(a <= 100 && b <= 50 && a + b == vram);
            }
            drop(shares);
            prop_assert_eq!(supply.granted(), (0, 0));
        }
    }
}
