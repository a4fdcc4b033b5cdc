//! The limiters under test, and the limits that they enforce.

/// A limiter under test. Time is in nanoseconds since its clock's zero, where windows are aligned.
pub(crate) trait Subject {
    /// Decides and charges.
    fn check(&mut self, key: &str, at: u64, cost: u64) -> Seen;

    /// Returns the answer of `check` without a charge.
    fn peek(&self, key: &str, at: u64, cost: u64) -> Seen;

    /// Forgets the key.
    fn reset(&mut self, key: &str);

    /// Makes another limit current. Available units stay as they are.
    fn change(&mut self, limit: Limit, at: u64);

    /// Reserves a departure at most `max_wait` ahead, and keeps it under `name` if there is one.
    fn reserve(&mut self, name: Option<&str>, key: &str, at: u64, cost: u64, max_wait: u64) -> Seen;

    /// Cancels the reservation of this name. A refused reservation has nothing to cancel.
    fn cancel(&mut self, name: &str, at: u64);
}

/// Takes one unit at its turn: a queue returns the departure by itself, a bucket needs a
/// reservation.
pub(crate) fn take(subject: &mut dyn Subject, limit: Limit, key: &str, at: u64) -> Seen {
    match limit {
        Limit::LeakyQueue { .. } => subject.check(key, at, 1),
        _ => subject.reserve(None, key, at, 1, u64::MAX),
    }
}

/// Makes a new limiter.
pub(crate) type Build = fn(Limit) -> Box<dyn Subject>;

/// A limit in our terms. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    TokenBucket { count: u64, period: u64, burst: u64, initial: u64 },
    LeakyMeter { count: u64, period: u64, capacity: u64 },
    LeakyQueue { count: u64, period: u64, capacity: u64 },
    FixedWindowCountingAll { limit: u64, window: u64 },
    SlidingWindow { limit: u64, window: u64 },
}

/// An answer. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) allowed: bool,
    pub(crate) never: bool,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after: Option<u64>,
    pub(crate) reset_after: u64,
    pub(crate) delay: u64,
}
