//! What is put to the test, and what it is asked to enforce.

/// A limiter under test. Time is in nanoseconds since its clock's zero, where windows are aligned.
pub(crate) trait Subject {
    /// Decides and remembers.
    fn check(&mut self, key: &str, at: u64, cost: u64) -> Seen;

    /// What `check` would answer.
    fn peek(&self, key: &str, at: u64, cost: u64) -> Seen;

    /// Forgets the key.
    fn reset(&mut self, key: &str);

    /// Puts another limit in force; what is available stays as it is.
    fn change(&mut self, limit: Limit, at: u64);

    /// Books a departure at most `max_wait` away; remembers it under `name`, if it has one.
    fn reserve(&mut self, name: Option<&str>, key: &str, at: u64, cost: u64, max_wait: u64) -> Seen;

    /// Cancels what was booked under `name`; what was refused has nothing to cancel.
    fn cancel(&mut self, name: &str, at: u64);
}

/// Takes one, whenever its turn comes: a queue says when by itself, a bucket has to be booked ahead.
pub(crate) fn take(subject: &mut dyn Subject, limit: Limit, key: &str, at: u64) -> Seen {
    match limit {
        Limit::LeakyQueue { .. } => subject.check(key, at, 1),
        _ => subject.reserve(None, key, at, 1, u64::MAX),
    }
}

/// Makes a limiter that has seen no key.
pub(crate) type Build = fn(Limit) -> Box<dyn Subject>;

/// A limit in our words. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    TokenBucket { count: u64, period: u64, burst: u64, initial: u64 },
    LeakyMeter { count: u64, period: u64, capacity: u64 },
    LeakyQueue { count: u64, period: u64, capacity: u64 },
    FixedWindowCountingAll { limit: u64, window: u64 },
    SlidingWindow { limit: u64, window: u64 },
}

/// An answer, in nanoseconds where it speaks of time.
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
