//! Counts of hits.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate::saved::{Reader, Writer};
use tollgate::{
    BuildError, Builder, Clock, CountPolicy, Decision, FixedWindow, Limiter, Rate, Receipt, RestoreError,
    Timestamp,
};

use crate::envoy::limit::EnvoyUnit;

/// How many hits each key has had in the current window of a unit.
///
/// It knows no limit: a count is compared with the limit that the caller brings. So no count is
/// lost where the number of a limit changes, calls can bring numbers of their own, and a count
/// tells by how much it is above a limit. The engine's limit is the largest count, which nothing
/// but the limits of [`u32::MAX`] comes near.
pub(super) struct Counter<C> {
    limiter: Limiter<[u8], FixedWindow, 1, C>,
    unit: EnvoyUnit,
    largest: u64,
    /// The Unix time of the clock's zero, in nanoseconds since the start of its window. Relaxed:
    /// it tells when the window ends, and decides nothing.
    offset: AtomicU64,
}

/// What a store says of a key.
///
/// # Examples
///
/// See [`EnvoyHandle::find`](crate::EnvoyHandle::find).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvoyCount {
    /// The hits in the window, with those that were asked for.
    pub hits: u64,
    /// Whether there are more than the store can count, which is more than any limit.
    pub is_beyond: bool,
    /// The time until the window ends. Zero: the key has no hits.
    pub until_reset: Duration,
}

impl EnvoyCount {
    /// How far a store has to count: beyond all limits.
    pub const MOST: u64 = 1 << 33;
}

/// What a call finds of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The hits in the window, with those of the call.
    pub(super) count: u64,
    /// The limit.
    pub(super) most: u32,
    /// Whether they are more than the limit.
    pub(super) is_over: bool,
    /// Whether nothing is known of the count: the store does not answer.
    pub(super) is_blind: bool,
    /// Until the window ends.
    pub(super) until_reset: Duration,
}

impl Seen {
    /// What a count with so many hits of the call is under a limit of `most`.
    pub(super) fn of(found: EnvoyCount, hits: u64, most: u32) -> Self {
        let EnvoyCount { hits: count, is_beyond, until_reset } = found;
        // A limit of 0 also refuses calls that only look.
        let is_over = is_beyond || hits > u64::from(most) || count > u64::from(most) || most == 0;
        Self { count, most, is_over, is_blind: false, until_reset }
    }
}

impl<C: Clock + Clone + 'static> Counter<C> {
    /// A counter that has seen no key, for so many keys with hits in a window.
    pub(super) fn new(unit: EnvoyUnit, max_keys: usize, clock: &C) -> Result<Self, BuildError> {
        Ok(Self::of(unit, builder(unit, max_keys, clock).build()?, clock))
    }

    /// The counts that were [saved](Self::save) of a counter of this unit.
    pub(super) fn restore(
        unit: EnvoyUnit,
        max_keys: usize,
        clock: &C,
        input: &mut Reader<impl Read>,
    ) -> Result<Self, RestoreError> {
        let limiter = builder(unit, max_keys, clock).restore_from(input)?;
        Ok(Self::of(unit, limiter, clock))
    }

    fn of(unit: EnvoyUnit, limiter: Limiter<[u8], FixedWindow, 1, C>, clock: &C) -> Self {
        let offset = offset(unit, clock.unix_at_zero()).into();
        Self { limiter, unit, largest: largest(unit), offset }
    }
}

/// How far this Unix time is into its window.
fn offset(unit: EnvoyUnit, unix: Duration) -> u64 {
    (unix.as_nanos() % (u128::from(unit.seconds()) * 1_000_000_000)) as u64
}

fn builder<C: Clock + Clone + 'static>(
    unit: EnvoyUnit,
    max_keys: usize,
    clock: &C,
) -> Builder<[u8], FixedWindow, 1, C> {
    // Counts that become too large stay at the largest.
    let window = FixedWindow::new(Rate::new(largest(unit), Duration::from_secs(unit.seconds())));
    let builder = Limiter::builder(window.count(CountPolicy::All)).per();
    builder.max_keys(max_keys).memory_budget(usize::MAX).clock(clock.clone())
}

/// The largest count. A word has 32 bits for the count in a second, and more for that in longer
/// windows.
fn largest(unit: EnvoyUnit) -> u64 {
    if unit == EnvoyUnit::Second { u64::from(u32::MAX) } else { 1 << 33 }
}

impl<C: Clock> Counter<C> {
    /// Aligns the windows to another Unix time.
    pub(super) fn realign(&self, unix_at_zero: Duration) -> Result<(), BuildError> {
        self.limiter.realign(unix_at_zero)?;
        self.offset.store(offset(self.unit, unix_at_zero), Relaxed);
        Ok(())
    }

    /// Writes down the counts. Returns how many.
    pub(super) fn save(&self, out: &mut Writer<impl Write>) -> io::Result<usize> {
        self.limiter.save_in(out)
    }

    pub(super) fn unit(&self) -> EnvoyUnit {
        self.unit
    }

    /// What [`charge`](Self::charge) would find. Counts nothing.
    pub(super) fn look(&self, key: &[u8], hits: u64, most: u32, now: Timestamp) -> Seen {
        let decision = self.limiter.account(key).at(now).peek_n(hits.min(self.largest));
        self.seen(&decision, hits, most, now)
    }

    /// Counts the hits, also those above the limit `most`.
    pub(super) fn charge(&self, key: &[u8], hits: u64, most: u32, now: Timestamp) -> (Seen, Receipt) {
        let decision = self.limiter.account(key).at(now).check_n(hits.min(self.largest));
        (self.seen(&decision, hits, most, now), decision.receipt())
    }

    /// Takes back the hits of a charge, as far as its window has them still: how many.
    pub(super) fn give_back(&self, charge: Receipt, now: Timestamp) -> u64 {
        self.limiter.refund_at(charge, now)
    }

    fn seen(&self, decision: &Decision<'_>, hits: u64, most: u32, now: Timestamp) -> Seen {
        let count = self.largest - decision.remaining().min(self.largest);
        // The largest count may have been more.
        let is_unsure = hits == 0 && count >= self.largest;
        // Refused: more than the largest count, or the table is full of keys that had more hits
        // than any limit allows.
        let is_beyond = !decision.is_allowed() || is_unsure;
        let until_reset = if count > 0 { decision.reset_after() } else { self.until_end(now) };
        Seen::of(EnvoyCount { hits: count, is_beyond, until_reset }, hits, most)
    }

    /// The time until the window of `now` ends.
    pub(super) fn until_end(&self, now: Timestamp) -> Duration {
        let length = self.unit.seconds() * 1_000_000_000;
        let offset = self.offset.load(Relaxed);
        let elapsed = (u128::from(offset) + u128::from(now.as_nanos())) % u128::from(length);
        Duration::from_nanos(length - elapsed as u64)
    }
}
