//! The ways to call the engine: a limiter for each key, or a keyed limiter.

use std::cell::Cell;
use std::time::Duration;

use tollgate::{
    Account, Algorithm, Decision, GlobalLimiter, Key, Limiter, ManualClock, Receipt, Reservation,
    ReserveError, Timestamp,
};

/// Limits three keys. Without a time, an operation reads the clock.
pub(crate) trait Door<'l>: Copy {
    type Algorithm: Algorithm;

    fn account(self, key: usize) -> Account<'l, Self::Algorithm, 1, ManualClock>;

    fn check(self, key: usize, cost: u64, at: Option<Timestamp>) -> Decision<'l> {
        match at {
            None => self.account(key).check_n(cost),
            Some(at) => self.account(key).at(at).check_n(cost),
        }
    }

    fn peek(self, key: usize, cost: u64, at: Timestamp) -> Decision<'l> {
        self.account(key).at(at).peek_n(cost)
    }

    fn reset(self, key: usize) {
        self.account(key).reset();
    }

    fn refund(self, key: usize, receipt: Receipt, at: Option<Timestamp>) -> u64 {
        match at {
            None => self.account(key).refund(receipt),
            Some(at) => self.account(key).at(at).refund(receipt),
        }
    }

    fn reserve(
        self,
        key: usize,
        cost: u64,
        max_wait: Duration,
        at: Option<Timestamp>,
    ) -> Result<Reservation<'l, Self::Algorithm, 1, ManualClock>, ReserveError> {
        match at {
            None => self.account(key).reserve(cost, max_wait),
            Some(at) => self.account(key).at(at).reserve(cost, max_wait),
        }
    }
}

/// A limiter for each key.
pub(crate) struct Each<A: Algorithm>(pub(crate) [GlobalLimiter<A, 1, ManualClock>; 3]);

impl<'l, A: Algorithm> Door<'l> for &'l Each<A> {
    type Algorithm = A;

    fn account(self, key: usize) -> Account<'l, A, 1, ManualClock> {
        self.0[key].account(())
    }
}

/// A limiter with three keys.
pub(crate) struct Keyed<'k, K: ?Sized, A: Algorithm> {
    pub(crate) limiter: Limiter<K, A, 1, ManualClock>,
    pub(crate) keys: [&'k K; 3],
}

impl<'l, K: Key + ?Sized, A: Algorithm> Door<'l> for &'l Keyed<'_, K, A> {
    type Algorithm = A;

    fn account(self, key: usize) -> Account<'l, A, 1, ManualClock> {
        self.limiter.account(self.keys[key])
    }
}

/// The number of other keys before each operation.
const CROWD: u64 = 4;

/// A keyed limiter to which new keys come before every operation.
pub(crate) struct Crowded<'k, K, A: Algorithm, S> {
    pub(crate) keyed: Keyed<'k, K, A>,
    /// The number of keys that have come.
    pub(crate) came: Cell<u64>,
    pub(crate) stranger: S,
}

impl<'l, K: Key, A: Algorithm, S: Fn(u64) -> K> Door<'l> for &'l Crowded<'_, K, A, S> {
    type Algorithm = A;

    fn account(self, key: usize) -> Account<'l, A, 1, ManualClock> {
        for number in self.came.get()..self.came.get() + CROWD {
            let _ = self.keyed.limiter.check((self.stranger)(number));
        }
        self.came.set(self.came.get() + CROWD);
        (&self.keyed).account(key)
    }
}
