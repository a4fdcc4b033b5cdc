//! Checks that are decided by leases, and the trips for permits.

use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tollgate::Outcome;

use super::Limiter;
use crate::Failed;
use crate::answer::{Answer, Charge, DecidedBy, LimitAnswer, Receipt};
use crate::deny::Fingerprint;
use crate::lease::permits::{Ended, Terms};
use crate::lease::slot::{Asked, Kept, Place};
use crate::lease::{LeasedPermits, Leases, Told};

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
