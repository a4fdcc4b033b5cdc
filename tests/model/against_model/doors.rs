//! The ways to call the engine: a limiter for each key, or a keyed limiter.

use std::cell::Cell;
use std::time::Duration;

use tollgate::{
    Algorithm, Decision, Global, GlobalLimiter, Key, Limiter, Limits, ManualClock, Prepared, Receipt,
    Reservation, ReserveError, Timestamp,
};

/// Limits three keys. Without a time, an operation reads the clock.
pub(crate) trait Door<'l>: Copy {
    /// The lender of its reservations.
    type Limits: for<'d> Limits<Decision<'d> = Decision<'d>, Receipt = Receipt> + 'l;

    fn check(self, key: usize, cost: u64, at: Option<Timestamp>) -> Decision<'l>;

    fn peek(self, key: usize, cost: u64, at: Timestamp) -> Decision<'l>;

    /// For verbs that only one door has.
    fn prepared(self, key: usize, at: Timestamp) -> Prepared<'l, Self::Limits, ManualClock, Timestamp>;

    fn reset(self, key: usize);

    fn refund(self, key: usize, receipt: Receipt, at: Option<Timestamp>) -> u64;

    fn reserve(
        self,
        key: usize,
        cost: u64,
        max_wait: Duration,
        at: Option<Timestamp>,
    ) -> Result<Reservation<'l, Self::Limits, ManualClock>, ReserveError>;
}

/// A limiter for each key.
pub(crate) struct Each<A: Algorithm>(pub(crate) [GlobalLimiter<A, ManualClock>; 3]);

impl<'l, A: Algorithm> Door<'l> for &'l Each<A> {
    type Limits = Global<A>;

    fn check(self, key: usize, cost: u64, at: Option<Timestamp>) -> Decision<'l> {
        match at {
            None => self.0[key].check_n(cost),
            Some(at) => self.0[key].at(at).check_n(cost),
        }
    }

    fn peek(self, key: usize, cost: u64, at: Timestamp) -> Decision<'l> {
        self.0[key].at(at).peek_n(cost)
    }

    fn prepared(self, key: usize, at: Timestamp) -> Prepared<'l, Self::Limits, ManualClock, Timestamp> {
        self.0[key].at(at)
    }

    fn reset(self, key: usize) {
        self.0[key].prepare().reset();
    }

    fn refund(self, key: usize, receipt: Receipt, at: Option<Timestamp>) -> u64 {
        match at {
            None => self.0[key].prepare().refund(receipt),
            Some(at) => self.0[key].at(at).refund(receipt),
        }
    }

    fn reserve(
        self,
        key: usize,
        cost: u64,
        max_wait: Duration,
        at: Option<Timestamp>,
    ) -> Result<Reservation<'l, Self::Limits, ManualClock>, ReserveError> {
        match at {
            None => self.0[key].prepare().reserve(cost, max_wait),
            Some(at) => self.0[key].at(at).reserve(cost, max_wait),
        }
    }
}

/// A limiter with three keys.
pub(crate) struct Keyed<'k, K: ?Sized, A: Algorithm> {
    pub(crate) limiter: Limiter<K, A, ManualClock>,
    pub(crate) keys: [&'k K; 3],
}

impl<'l, K: Key + ?Sized, A: Algorithm> Door<'l> for &'l Keyed<'_, K, A> {
    type Limits = tollgate::Keyed<A>;

    fn check(self, key: usize, cost: u64, at: Option<Timestamp>) -> Decision<'l> {
        match at {
            None => self.limiter.check_n(self.keys[key], cost),
            Some(at) => self.limiter.at(at).check_n(self.keys[key], cost),
        }
    }

    fn peek(self, key: usize, cost: u64, at: Timestamp) -> Decision<'l> {
        self.limiter.at(at).peek_n(self.keys[key], cost)
    }

    fn prepared(self, key: usize, at: Timestamp) -> Prepared<'l, Self::Limits, ManualClock, Timestamp> {
        self.limiter.at(at).prepare(self.keys[key])
    }

    fn reset(self, key: usize) {
        self.limiter.prepare(self.keys[key]).reset();
    }

    fn refund(self, _key: usize, receipt: Receipt, at: Option<Timestamp>) -> u64 {
        match at {
            None => self.limiter.refund(receipt),
            Some(at) => self.limiter.at(at).refund(receipt),
        }
    }

    fn reserve(
        self,
        key: usize,
        cost: u64,
        max_wait: Duration,
        at: Option<Timestamp>,
    ) -> Result<Reservation<'l, Self::Limits, ManualClock>, ReserveError> {
        match at {
            None => self.limiter.prepare(self.keys[key]).reserve(cost, max_wait),
            Some(at) => self.limiter.at(at).prepare(self.keys[key]).reserve(cost, max_wait),
        }
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

impl<'k, K: Key, A: Algorithm, S: Fn(u64) -> K> Crowded<'k, K, A, S> {
    fn after_strangers(&self) -> &Keyed<'k, K, A> {
        for number in self.came.get()..self.came.get() + CROWD {
            let _ = self.keyed.limiter.check(&(self.stranger)(number));
        }
        self.came.set(self.came.get() + CROWD);
        &self.keyed
    }
}

impl<'l, K: Key, A: Algorithm, S: Fn(u64) -> K> Door<'l> for &'l Crowded<'_, K, A, S> {
    type Limits = tollgate::Keyed<A>;

    fn check(self, key: usize, cost: u64, at: Option<Timestamp>) -> Decision<'l> {
        self.after_strangers().check(key, cost, at)
    }

    fn peek(self, key: usize, cost: u64, at: Timestamp) -> Decision<'l> {
        self.after_strangers().peek(key, cost, at)
    }

    fn prepared(self, key: usize, at: Timestamp) -> Prepared<'l, Self::Limits, ManualClock, Timestamp> {
        self.after_strangers().prepared(key, at)
    }

    fn reset(self, key: usize) {
        self.after_strangers().reset(key);
    }

    fn refund(self, key: usize, receipt: Receipt, at: Option<Timestamp>) -> u64 {
        self.after_strangers().refund(key, receipt, at)
    }

    fn reserve(
        self,
        key: usize,
        cost: u64,
        max_wait: Duration,
        at: Option<Timestamp>,
    ) -> Result<Reservation<'l, Self::Limits, ManualClock>, ReserveError> {
        self.after_strangers().reserve(key, cost, max_wait, at)
    }
}
