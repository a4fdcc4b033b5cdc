//! Limits of requests in flight.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate::{AcquireError, BuildError, InFlightLimiter, OwnedInFlight, Timestamp};

type Held = OwnedInFlight<[u8]>;

/// A limit of requests in flight, shared by the generations of a rule.
pub(crate) struct AtOnce {
    pub(crate) limiter: Arc<InFlightLimiter<[u8]>>,
    leases: Mutex<Leases>,
    /// The earliest end of a lease, in nanoseconds; without leases, never.
    earliest: AtomicU64,
}

/// The requests in flight that count as ended after a time.
#[derive(Default)]
struct Leases {
    held: BTreeMap<(Timestamp, u64), Held>,
    /// How many leases there have been.
    count: u64,
}

/// What a request in flight holds of one limit. Dropping it gives that back.
pub(crate) enum Guard {
    /// Until it is dropped.
    Held { _held: Held },
    /// Until it is dropped, or its time has come.
    Leased { of: Arc<AtOnce>, number: (Timestamp, u64) },
}

/// What a request holds until it is answered, or given back, with the indices of the lines.
pub(super) type Guards = Vec<(usize, Guard)>;

impl AtOnce {
    pub(crate) fn new(most: u64, max_keys: Option<usize>) -> Result<Self, BuildError> {
        let builder = InFlightLimiter::builder(most).per().memory_budget(usize::MAX);
        let limiter = if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder }.build()?;
        let (leases, earliest) = (Mutex::default(), AtomicU64::new(u64::MAX));
        Ok(Self { limiter: Arc::new(limiter), leases, earliest })
    }

    /// Takes units of a key. They count as given back after `ttl`.
    ///
    /// With a `ttl` it takes a mutex and memory for the lease.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        key: &[u8],
        units: u64,
        ttl: Option<Duration>,
        now: Timestamp,
    ) -> Result<Guard, AcquireError> {
        self.end_leases(now);
        let held = self.limiter.try_acquire_n_owned(key, units)?;
        let Some(ttl) = ttl else { return Ok(Guard::Held { _held: held }) };
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.count += 1;
        let number = (now + ttl, leases.count);
        leases.held.insert(number, held);
        self.note_earliest(&leases);
        Ok(Guard::Leased { of: Arc::clone(self), number })
    }

    /// Returns what [`acquire`](Self::acquire) would, unless the table is full, and takes nothing.
    pub(crate) fn peek(&self, key: &[u8], units: u64, now: Timestamp) -> Result<(), AcquireError> {
        self.end_leases(now);
        let limit = self.limiter.limit();
        match units {
            0 => Ok(()),
            _ if units > limit => Err(AcquireError::Never { units, limit }),
            _ if self.limiter.in_flight(key).saturating_add(units) > limit => Err(AcquireError::Busy),
            _ => Ok(()),
        }
    }

    /// Returns the limit, and how much of it a key has left.
    pub(crate) fn state(&self, key: &[u8]) -> (u64, u64) {
        let limit = self.limiter.limit();
        (limit, limit.saturating_sub(self.limiter.in_flight(key)))
    }

    /// Gives back places that are held longer than they may be.
    fn end_leases(&self, now: Timestamp) {
        if self.earliest.load(Relaxed) > now.as_nanos() {
            return;
        }
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(lease) = leases.held.first_entry() {
            if lease.key().0 > now {
                break;
            }
            drop(lease.remove());
        }
        self.note_earliest(&leases);
    }

    fn note_earliest(&self, leases: &Leases) {
        let earliest = leases.held.first_key_value().map_or(u64::MAX, |(number, _)| number.0.as_nanos());
        self.earliest.store(earliest, Relaxed);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Self::Leased { of, number } = self {
            let mut leases = of.leases.lock().unwrap_or_else(PoisonError::into_inner);
            leases.held.remove(number);
            of.note_earliest(&leases);
        }
    }
}
