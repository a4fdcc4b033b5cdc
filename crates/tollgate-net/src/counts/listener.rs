//! The counters of a listener.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::histogram::{Buckets, Histogram};
use super::protocol_errors::{ProtocolErrors, Told};
use crate::listen::Unfinished;
use crate::workers::PerWorker;

/// The bounds of a request's time, in nanoseconds.
pub const TIMES: [u64; 14] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    1_000_000_000,
];

/// The counters of the listeners of one kind.
pub struct ListenerCounts {
    name: &'static str,
    times: PerWorker<Buckets<15>>,
    open: Arc<AtomicU64>,
    accepted: AtomicU64,
    most: AtomicU64,
    unfinished: Arc<Unfinished>,
    protocol_errors: ProtocolErrors,
}

/// Counts a connection as open until it is dropped.
pub struct OpenConnection(Arc<AtomicU64>);

impl ListenerCounts {
    /// Those of listeners that labels and messages call so.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            times: PerWorker::counters(),
            open: Arc::default(),
            accepted: AtomicU64::new(0),
            most: AtomicU64::new(0),
            unfinished: Arc::default(),
            protocol_errors: ProtocolErrors::new(),
        }
    }

    /// As labels and messages say it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How long a request took, from its head to its answer.
    #[inline]
    pub fn took(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.times.here().add(nanos, &TIMES);
    }

    /// The times of all requests, between [`TIMES`].
    #[must_use]
    pub fn times(&self) -> Histogram<15> {
        Histogram::of(self.times.all())
    }

    /// Counts input that was refused, by a short word for the reason, and its client, which the log
    /// may name. Returns whether it will: the caller may say more of this one. Waits for no lock,
    /// but for the memory of a kind that is new.
    pub fn protocol_error(&self, kind: &'static str, client: impl Into<Option<IpAddr>>) -> bool {
        self.protocol_errors.add(kind, client.into())
    }

    /// How often input was refused, by kind.
    #[must_use]
    pub fn protocol_errors(&self) -> BTreeMap<&'static str, u64> {
        self.protocol_errors.counts()
    }

    /// Tells the log of input that was refused, at this time in nanoseconds: each kind once a
    /// minute at most.
    pub fn tell_protocol_errors(&self, now: u64) {
        self.protocol_errors.due(now).iter().for_each(|told| Told::log(told, self.name));
    }

    /// Counts an open connection until the guard is dropped.
    #[must_use]
    pub fn connection(&self) -> OpenConnection {
        self.open.fetch_add(1, Relaxed);
        self.accepted.fetch_add(1, Relaxed);
        OpenConnection(Arc::clone(&self.open))
    }

    /// The connections that are open, and all that were accepted.
    #[must_use]
    pub fn connections(&self) -> (u64, u64) {
        (self.open.load(Relaxed), self.accepted.load(Relaxed))
    }

    /// One more address takes at most so many connections.
    pub fn add_most(&self, most: usize) {
        self.most.fetch_add(most as u64, Relaxed);
    }

    /// The most connections, all addresses together.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// The bytes that are held of unfinished requests.
    #[must_use]
    pub fn unfinished(&self) -> &Arc<Unfinished> {
        &self.unfinished
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
