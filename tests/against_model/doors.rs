//! The ways into the engine: a limiter for each key, or a limiter with keys.

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
