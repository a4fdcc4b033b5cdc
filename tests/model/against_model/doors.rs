//! The ways into the engine: a limiter for each key, or a limiter with keys.

use std::cell::Cell;
use std::time::Duration;

use tollgate::{
    Algorithm, Books, Decision, GlobalLimiter, Key, Limiter, ManualClock, Reservation, ReserveError,
    Timestamp,
};

/// Something that limits three keys. Without a time, the operation reads the clock.
pub(crate) trait Door<'l>: Copy {
    /// What its reservations are made with.
    type Books: Books + 'l;

    fn check(self, key: usize, cost: u64, at: Option<Timestamp>) -> Decision<'l>;

    fn peek(self, key: usize, cost: u64, at: Timestamp) -> Decision<'l>;

    fn reset(self, key: usize);

    fn refund(self, key: usize, decision: Decision<'l>, at: Option<Timestamp>) -> u64;

    fn reserve(
        self,
        key: usize,
        cost: u64,
        max_wait: Duration,
        at: Option<Timestamp>,
    ) -> Result<Reservation<'l, Self::Books>, ReserveError>;
}

/// A limiter for each key.
pub(crate) struct Each<A: Algorithm>(pub(crate) [GlobalLimiter<A, ManualClock>; 3]);

impl<'l, A: Algorithm> Door<'l> for &'l Each<A> {
    type Books = GlobalLimiter<A, ManualClock>;

    fn check(self, key: usize, cost: u64, at: Option<Timestamp>) -> Decision<'l> {
        match at {
            None => self.0[key].check_n(cost),
            Some(at) => self.0[key].check_n_at(cost, at),
        }
    }

    fn peek(self, key: usize, cost: u64, at: Timestamp) -> Decision<'l> {
        self.0[key].peek_n_at(cost, at)
    }

    fn reset(self, key: usize) {
        self.0[key].reset();
    }

    fn refund(self, key: usize, decision: Decision<'l>, at: Option<Timestamp>) -> u64 {
        match at {
            None => self.0[key].refund(decision),
            Some(at) => self.0[key].refund_at(decision, at),
        }
    }

    fn reserve(
        self,
        key: usize,
        cost: u64,
        max_wait: Duration,
        at: Option<Timestamp>,
    ) -> Result<Reservation<'l, Self::Books>, ReserveError> {
        match at {
            None => self.0[key].reserve_n(cost, max_wait),
            Some(at) => self.0[key].reserve_n_at(cost, max_wait, at),
        }
    }
}

/// A limiter with three keys.
pub(crate) struct Keyed<'k, K: ?Sized, A: Algorithm> {
    pub(crate) limiter: Limiter<K, A, ManualClock>,
    pub(crate) keys: [&'k K; 3],
}

impl<'l, K: Key + ?Sized, A: Algorithm> Door<'l> for &'l Keyed<'_, K, A> {
    type Books = Limiter<K, A, ManualClock>;

    fn check(self, key: usize, cost: u64, at: Option<Timestamp>) -> Decision<'l> {
        match at {
            None => self.limiter.check_n(self.keys[key], cost),
            Some(at) => self.limiter.check_n_at(self.keys[key], cost, at),
        }
    }

    fn peek(self, key: usize, cost: u64, at: Timestamp) -> Decision<'l> {
        self.limiter.peek_n_at(self.keys[key], cost, at)
    }

    fn reset(self, key: usize) {
        self.limiter.reset(self.keys[key]);
    }

    fn refund(self, _key: usize, decision: Decision<'l>, at: Option<Timestamp>) -> u64 {
        match at {
            None => self.limiter.refund(decision),
            Some(at) => self.limiter.refund_at(decision, at),
        }
    }

    fn reserve(
        self,
        key: usize,
        cost: u64,
        max_wait: Duration,
        at: Option<Timestamp>,
    ) -> Result<Reservation<'l, Self::Books>, ReserveError> {
        match at {
            None => self.limiter.reserve_n(self.keys[key], cost, max_wait),
            Some(at) => self.limiter.reserve_n_at(self.keys[key], cost, max_wait, at),
        }
    }
}

/// How many strangers come before an operation.
const CROWD: u64 = 4;

/// The same among strangers, of whom new ones come before every operation.
pub(crate) struct Crowded<'k, K, A: Algorithm, S> {
    pub(crate) keyed: Keyed<'k, K, A>,
    /// How many have come.
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
    type Books = Limiter<K, A, ManualClock>;

    fn check(self, key: usize, cost: u64, at: Option<Timestamp>) -> Decision<'l> {
        self.after_strangers().check(key, cost, at)
    }

    fn peek(self, key: usize, cost: u64, at: Timestamp) -> Decision<'l> {
        self.after_strangers().peek(key, cost, at)
    }

    fn reset(self, key: usize) {
        self.after_strangers().reset(key);
    }

    fn refund(self, key: usize, decision: Decision<'l>, at: Option<Timestamp>) -> u64 {
        self.after_strangers().refund(key, decision, at)
    }

    fn reserve(
        self,
        key: usize,
        cost: u64,
        max_wait: Duration,
        at: Option<Timestamp>,
    ) -> Result<Reservation<'l, Self::Books>, ReserveError> {
        self.after_strangers().reserve(key, cost, max_wait, at)
    }
}
