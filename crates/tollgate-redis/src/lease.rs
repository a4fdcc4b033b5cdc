//! Permits taken from the store ahead, and spent in this process without a trip.
//!
//! Not the engine's `Lease`: that is one thread's, takes from a limiter of the same process by a
//! compare-exchange, and counts its ttl from the charge. Here tasks share a lease, the charge is a
//! trip away, and so the ttl counts from before the request was sent.

mod pace;
mod permits;
mod slot;
mod table;

use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tollgate::Outcome;

use crate::answer::{Answer, Charge, DecidedBy, LimitAnswer, Receipt};
use crate::deny::Fingerprint;
use crate::error::within;
use crate::limiter::Limiter;
use crate::quota::{Kind, Limit};
use crate::{BuildError, Failed};
use permits::{Ended, Generation, Terms};
use slot::{Asked, Kept, Place, Rules};
use table::Table;

/// The parts that the simulation runs.
#[cfg(test)]
pub(crate) mod simulated {
    pub(crate) use super::permits::Terms;
    pub(crate) use super::slot::{Asked, Kept, Place, Rules, Slot};
}

/// Whether each check asks the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Each check asks the store.
    #[default]
    Strict,
    /// This process takes permits ahead and spends them without a trip: for keys that are checked
    /// often, of a single limit that is no queue.
    ///
    /// **Guarantee.** Over every interval of length `W`, all processes together admit at most
    /// `burst + rate * (W + ttl)`, or what the algorithm promises of an interval of length `W +
    /// ttl`: for any number of processes, also if some crash or lose answers. The store charges
    /// each permit before it is spent, and a permit is spent less than `ttl` after its request was
    /// sent, by this process's monotonic clock, or not at all. A [reset](crate::Limiter::reset)
    /// adds, once, the permits that other processes hold.
    ///
    /// **How many.** A trip for a key asks for 1 permit at first; for twice as many when the last
    /// ones are being spent within half of the ttl, half as many after some lapsed, as many as
    /// there were when there were fewer, and 1 after a refusal; never for more than `burst / (4 *
    /// nodes)`. Checks that wait for one key share a trip. Unspent permits go back after the ttl.
    /// So a key that is checked now and then is decided strictly, and so is each check of a key
    /// beyond the 4,096 that have leases at one time.
    ///
    /// **What may be refused wrongly.** While processes hold permits, others may be refused: at
    /// most three eighths of the burst in all (a process asks ahead while it holds half), for at
    /// most `ttl`; and the permits of a process that was killed. `ttl` should be at least 8 round
    /// trips, and no shorter than the [deadline](crate::RedisBuilder::deadline): with a longer
    /// deadline, the bound has that in its place.
    ///
    /// **The other verbs** are trips. A peek counts held permits as charged. A
    /// [deny cache](crate::LimiterBuilder::deny_cache) remembers refusals for at most `ttl`, since
    /// permits come back.
    ///
    /// **When the store fails**, held permits are spent until their end; then
    /// [`OnFailure`](crate::OnFailure) decides.
    Leased {
        /// How long after its request was sent a permit may be spent. From 1 ms to a minute.
        ttl: Duration,
        /// How many processes share the limit, at least 1. A wrong number costs fairness, and never
        /// the bound.
        nodes: u32,
    },
}

impl Mode {
    /// Leases of 50 ms, for so many processes.
    #[must_use]
    pub const fn leased(nodes: u32) -> Self {
        Self::Leased { ttl: Duration::from_millis(50), nodes }
    }

    /// The leases of a limiter of these limits.
    pub(crate) fn leases(self, limits: &[Limit]) -> Result<Option<Leases>, BuildError> {
        let Self::Leased { ttl, nodes } = self else { return Ok(None) };
        within("ttl", ttl.as_nanos(), 1_000_000, 60_000_000_000)?;
        within("nodes", nodes.into(), 1, u32::MAX.into())?;
        match limits {
            [limit] if limit.kind != Kind::Queue => {
                let rules = Rules { ttl, limit: limit.most, nodes };
                Ok(Some(Leases { table: Table::new(rules), totals: Totals::default() }))
            }
            [_] => Err(BuildError::Unsupported { setting: "leases of a queue" }),
            _ => Err(BuildError::Unsupported { setting: "leases of several limits" }),
        }
    }
}

/// The permits that this process took ahead. A permit that is in none of the last three is held, or
/// its lease has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseCounts {
    /// Permits that the store granted.
    pub taken: u64,
    /// Permits that requests spent, counted when their lease ends.
    pub spent: u64,
    /// Unspent permits that the store took back.
    pub returned: u64,
    /// Unspent permits that did not come back: time had won them back already, or the way back
    /// failed, or a reset made them void.
    pub lapsed: u64,
}

/// The leases of one limiter.
#[derive(Debug)]
pub(crate) struct Leases {
    table: Table<oneshot::Sender<Told>>,
    totals: Totals,
}

#[derive(Debug, Default)]
struct Totals {
    taken: AtomicU64,
    spent: AtomicU64,
    returned: AtomicU64,
    lapsed: AtomicU64,
}

/// Where the spent permits of a request are put back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeasedPermits {
    // Small, since an answer has them: there are `table::KEYS` slots, of two leases.
    slot: u32,
    lease: u8,
    generation: Generation,
}

impl LeasedPermits {
    fn new(slot: usize, Place { lease, generation }: Place) -> Self {
        Self { slot: slot as u32, lease: lease as u8, generation }
    }

    fn place(self) -> Place {
        Place { lease: self.lease.into(), generation: self.generation }
    }
}

/// A trip's outcome, for a request that waited for it.
#[derive(Debug)]
enum Told {
    /// Its permits are spent, if it hears of them in time. `None`: there were too few, or too late.
    Granted(Option<(Place, Terms)>),
    /// The store refused this cost until then.
    Refused {
        cost: u64,
        ready: Duration,
        part: LimitAnswer,
    },
    Failed(Failed),
}

/// A trip for permits.
struct Trip {
    key: Box<[u8]>,
    fingerprint: Fingerprint,
    slot: usize,
    least: u64,
    most: u64,
    /// The time before it is sent: all that it brings ends a ttl after.
    sent: Duration,
}

impl Leases {
    pub(crate) fn ttl(&self) -> Duration {
        self.table.rules().ttl
    }

    pub(crate) fn counts(&self) -> LeaseCounts {
        let Totals { taken, spent, returned, lapsed } = &self.totals;
        // `taken` last: each permit is counted there first.
        let [spent, returned, lapsed] = [spent, returned, lapsed].map(|total| total.load(Relaxed));
        LeaseCounts { taken: taken.load(Relaxed), spent, returned, lapsed }
    }

    /// Counts the end of a lease, of whose permits so many came back.
    fn ended(&self, ended: Ended, returned: u64) {
        self.totals.spent.fetch_add(ended.spent, Relaxed);
        self.totals.returned.fetch_add(returned, Relaxed);
        self.totals.lapsed.fetch_add(ended.left - returned, Relaxed);
    }
}

impl Limiter {
    /// Decides a check that needs no trip: by permits that this process holds, or by a refusal that
    /// it remembers.
    ///
    /// **Cost.** Of a limiter that holds and remembers nothing: two loads; no clock.
    pub(crate) fn known(&self, key: &[u8], cost: u64) -> Option<Answer> {
        let layers = self.layers();
        if layers.leases.is_none() && layers.deny.is_none() {
            return None;
        }
        let (fingerprint, now) = (layers.fingerprint(key), layers.store.now());
        let leases = layers.leases.as_ref();
        let permit = leases.and_then(|leases| self.spend_permits(leases, key, fingerprint, cost, now));
        permit.or_else(|| layers.remembered(fingerprint, cost, now))
    }

    /// Puts the spent permits of a request back into their lease. After its end, nothing comes
    /// back: the store takes back the rest of a charge only once.
    pub(crate) fn put_back(&self, permits: &LeasedPermits, cost: u64) -> u64 {
        let (layers, slot, place) = (self.layers(), permits.slot as usize, permits.place());
        let Some(leases) = &layers.leases else { return 0 };
        let is_back = leases.table.slot(slot).put_back(place, cost, layers.store.now());
        if is_back { cost } else { 0 }
    }

    /// Makes this process's permits of a key void.
    pub(crate) fn end_leases(&self, key: &[u8]) {
        let Some(leases) = &self.layers().leases else { return };
        let fingerprint = self.layers().fingerprint(key);
        for slot in leases.table.ways(fingerprint) {
            leases.ended(leases.table.slot(slot).end(fingerprint), 0);
        }
    }

    #[inline]
    fn spend_permits(
        &self,
        leases: &Leases,
        key: &[u8],
        fingerprint: Fingerprint,
        cost: u64,
        now: Duration,
    ) -> Option<Answer> {
        // A cost of 0 charges nothing.
        if cost == 0 {
            return None;
        }
        let slot = leases.table.find(fingerprint)?;
        let (lease, spent) = leases.table.slot(slot).spend(fingerprint, cost, now)?;
        // One request asks ahead: the one that passes the half.
        if spent.passes_half(cost) {
            let asked = leases.table.slot(slot).ask_ahead(fingerprint, &spent, now, leases.table.rules());
            if let Some(most) = asked {
                self.begin(Trip { key: key.into(), fingerprint, slot, least: 1, most, sent: now });
            }
        }
        let permits = LeasedPermits::new(slot, Place { lease, generation: spent.generation });
        Some(self.admitted(permits, spent.terms, spent.left, cost, now))
    }

    /// Decides a check that found no permits: by a trip that it may share, or strictly.
    pub(crate) async fn ask_for_permits(
        &self,
        leases: &Leases,
        key: &[u8],
        cost: u64,
        now: Duration,
    ) -> Result<Answer, Failed> {
        let (table, layers) = (&leases.table, self.layers());
        let can_lend = (1..=table.rules().limit).contains(&cost);
        let fingerprint = layers.fingerprint(key);
        let Some(slot) = can_lend.then(|| table.find_or_give(fingerprint, now)).flatten() else {
            return self.check_strictly(key, cost, now).await;
        };
        let told = match table.slot(slot).ask(fingerprint, cost, now, table.rules(), oneshot::channel) {
            Asked::Spent(lease, spent) => {
                let permits = LeasedPermits::new(slot, Place { lease, generation: spent.generation });
                return Ok(self.admitted(permits, spent.terms, spent.left, cost, now));
            }
            Asked::Strict => {
                let answer = self.check_strictly(key, cost, now).await;
                if answer.as_ref().is_ok_and(|answer| answer.outcome() == Outcome::Denied) {
                    table.slot(slot).refused_strictly(fingerprint);
                }
                return answer;
            }
            Asked::Waits(told) => told,
            Asked::Begins(most, told) => {
                self.begin(Trip { key: key.into(), fingerprint, slot, least: cost, most, sent: now });
                told
            }
        };
        // The trip keeps its own deadline, but its runtime may stand still.
        let Ok(told) = timeout(self.deadline() + self.deadline() / 4, told).await else {
            layers.metrics.failed(&Failed::timeout());
            return layers.fall_back(key, cost, Failed::timeout());
        };
        let later = layers.store.now();
        match told {
            Ok(Told::Granted(Some((place, terms)))) if later < terms.until => {
                Ok(self.admitted(LeasedPermits::new(slot, place), terms, 0, cost, later))
            }
            Ok(Told::Refused { cost: refused, ready, part }) if refused == cost => {
                let wait = ready.saturating_sub(later);
                let part = LimitAnswer { retry_after: Some(wait), ..part };
                let (by, outcome, parts) = (DecidedBy::Store, Outcome::Denied, part.into());
                let answer = Answer::without_store(by, outcome, cost, Some(0), parts, None);
                layers.settle(key, cost, Ok(answer), now)
            }
            Ok(Told::Failed(failed)) => layers.fall_back(key, cost, failed),
            // Too few permits, or too late, or another cost was refused, or the task has ended.
            _ => {
                let rest = self.deadline().saturating_sub(later - now);
                let strictly = timeout(rest, self.check_strictly(key, cost, later)).await;
                strictly.unwrap_or_else(|_| {
                    layers.metrics.failed(&Failed::timeout());
                    layers.fall_back(key, cost, Failed::timeout())
                })
            }
        }
    }

    /// The answer of permits of the lease at this place.
    fn admitted(&self, permits: LeasedPermits, terms: Terms, left: u64, cost: u64, now: Duration) -> Answer {
        let part = LimitAnswer {
            outcome: Outcome::Allowed,
            limit: self.limit(),
            remaining: terms.rest + left,
            retry_after: None,
            reset_after: terms.reset.saturating_sub(now),
            delay: Duration::ZERO,
        };
        self.layers().metrics.decided(DecidedBy::Lease, Outcome::Allowed);
        let receipt = Receipt { limiter: self.layers().number, cost, charge: Charge::Lease(permits) };
        let (by, parts) = (DecidedBy::Lease, part.into());
        Answer::without_store(by, Outcome::Allowed, cost, None, parts, Some(receipt))
    }

    /// Begins a trip on a task of its own: a request that is dropped takes no permits of others
    /// along.
    fn begin(&self, trip: Trip) {
        // Made here: a runtime that has ended drops the task before its first step.
        let unanswered = Unanswered { limiter: self.clone(), slot: Some(trip.slot) };
        let limiter = self.clone();
        self.layers().store.runtime().spawn(async move { limiter.lease(trip, unanswered).await });
    }

    /// The life of a lease: takes permits, keeps them until their end, gives back the rest.
    async fn lease(&self, trip: Trip, unanswered: Unanswered) {
        let Some(leases) = &self.layers().leases else { return };
        let (slot, store) = (leases.table.slot(trip.slot), &self.layers().store);
        let sent = store.now();
        let answer = {
            let take = pin!(self.take_at_least(store.until(sent), &trip.key, trip.least, trip.most));
            self.layers().trip(sent, take).await
        };
        unanswered.answered();
        let now = store.now();
        let answer = match answer {
            Ok(mut answer) if answer.is_allowed() => {
                answer.note(trip.fingerprint);
                answer
            }
            refused => return tell(slot.not_granted(), &refused, trip.least, trip.sent),
        };
        let (granted, until) = (answer.cost(), trip.sent + leases.ttl());
        leases.totals.taken.fetch_add(granted, Relaxed);
        let terms = Terms { until, rest: answer.remaining(), reset: now + answer.reset_after() };
        let hear = |waiting: oneshot::Sender<_>, place: Option<Place>| {
            waiting.send(Told::Granted(place.map(|place| (place, terms)))).is_ok()
        };
        let kept = slot.granted(trip.fingerprint, granted, (trip.sent, now), terms, hear);
        let ended = match kept {
            Kept::Late => Some(Ended { spent: 0, left: granted }),
            Kept::Lease(place, before) => {
                leases.ended(before, 0);
                sleep(until.saturating_sub(store.now())).await;
                slot.close(place)
            }
        };
        let (Some(ended), Some(mut receipt)) = (ended, answer.into_receipt()) else { return };
        let mut returned = 0;
        if ended.left > 0 {
            receipt.cost = ended.left;
            returned = self.refund(receipt).await.unwrap_or(0).min(ended.left);
        }
        leases.ended(ended, returned);
    }
}

/// Tells the requests that waited for a trip that the store refused this cost, or did not answer.
fn tell(waiting: Vec<oneshot::Sender<Told>>, answer: &Result<Answer, Failed>, cost: u64, sent: Duration) {
    for waiting in waiting {
        let told = match answer {
            Err(failed) => Told::Failed(failed.clone()),
            Ok(refused) => match (refused.limits(), refused.retry_after()) {
                (&[part], Some(wait)) => Told::Refused { cost, ready: sent + wait, part },
                _ => Told::Granted(None),
            },
        };
        // One that has gone away needs no answer.
        let _ = waiting.send(told);
    }
}

/// A trip that has not been answered. If its task ends, as with its runtime, the next request
/// begins another one.
struct Unanswered {
    limiter: Limiter,
    slot: Option<usize>,
}

impl Unanswered {
    fn answered(mut self) {
        self.slot = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let (Some(slot), Some(leases)) = (self.slot, &self.limiter.layers().leases) {
            // The requests that wait hear of it when their senders are dropped.
            drop(leases.table.slot(slot).not_granted());
        }
    }
}
