//! Tries rules for a bucket's refund with every short sequence of operations.
//!
//! The bucket has one unit a tick; costs, times and bursts go from 0 to a handful. A sequence has
//! checks, reservations, refunds, cancellations and credits up to some number of steps. After each
//! step, the requests that act (at their departure, unless given back) must keep the promise: at
//! most `burst + D` and the units credited in any interval of length D, and in a queue one after
//! the other.
//!
//! [`Rule::Whole`] is the rule of `src/refund.rs`, written again. The others omit a part of it, to
//! show that the part is needed: each breaks the promise in six steps.

use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// The rule of `src/refund.rs`.
    Whole,
    /// The same with room for one step.
    OneStep,
    /// Refunds are not noted.
    Unnoted,
    /// An admission whose TAT is unchanged counts as the newest, whatever came back before.
    NewestByTat,
    /// Of a request whose order is lost the own debt comes back also while one is booked ahead.
    IgnoresReservations,
    /// The first step after an admission counts, whether or not another refund came in between.
    IgnoresTheGap,
    /// A step's gap goes back to the debt before the refund, not to the one that it left.
    GapFromBefore,
    /// Steps after an admission stay where they are when it comes back.
    StepsNotLowered,
    /// Steps before an admission stay where they are when it comes back.
    EarlierStepsStay,
}

/// A request that was admitted or reserved, and not given back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Charge {
    cost: u64,
    /// The time of the request.
    at: u64,
    departs_at: u64,
    /// The TAT right after the charge.
    tat: u64,
    /// Whether it is a reservation, which can only be given back before its departure.
    reserved: bool,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Bucket {
    tat: u64,
    /// When the latest reservation departs.
    booked: Option<u64>,
    /// When the latest refund came that was noted.
    latest: Option<u64>,
    /// The debt that it left.
    debt: u64,
    /// Of each that is remembered: its time, the time of the one before, the least debt since.
    steps: Vec<(u64, Option<u64>, u64)>,
}

/// The state of a search after some steps.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct History {
    bucket: Bucket,
    /// The latest time seen.
    now: u64,
    /// Sorted, so that histories that differ only in the order of charges are equal.
    charges: Vec<Charge>,
    /// The most that refunds at old times may have created.
    excess: u64,
    /// When the latest refund would have been noted if that were at the latest time seen.
    ideal_latest: Option<u64>,
    /// The units that credits gave.
    credited: u64,
}

/// Which operations may have a time before the latest time seen.
#[derive(Clone, Copy, PartialEq)]
enum Stale {
    None,
    Checks,
    All,
}

/// The sequences that a search tries.
#[derive(Clone, Copy)]
struct Search {
    rule: Rule,
    /// The number of steps of a sequence.
    steps: usize,
    burst: u64,
    queue: bool,
    /// Whether requests that find no room reserve.
    reserve: bool,
    /// Whether an operator gives credits.
    credit: bool,
    stale: Stale,
}

const LATEST: u64 = 8;

impl Search {
    /// A sequence that breaks the promise, if there is one.
    fn counterexample(self) -> Option<String> {
        let mut steps_after = self.search_from(&History::default(), self.steps, &mut HashMap::new())?;
        steps_after.reverse();
        Some(steps_after.join("; "))
    }

    /// The steps after `history` that break the promise, last step first. `seen` has the number of
    /// remaining steps with which each history was searched before.
    fn search_from(
        self,
        history: &History,
        steps: usize,
        seen: &mut HashMap<History, usize>,
    ) -> Option<Vec<String>> {
        if self.breaks_the_promise(history) {
            return Some(Vec::new());
        }
        if steps == 0 || seen.get(history).is_some_and(|&before| before >= steps) {
            return None;
        }
        seen.insert(history.clone(), steps);
        // A full bucket is the same at any time.
        let latest = if *history == History::default() { 0 } else { (history.now + 2).min(LATEST) };
        let from = |stale| if stale { 0 } else { history.now };
        let charged = (from(self.stale != Stale::None)..=latest)
            .flat_map(|now| (1..=self.burst).filter_map(move |cost| self.charged(history, now, cost)));
        let refunded = (from(self.stale == Stale::All)..=latest).flat_map(|now| {
            (0..history.charges.len()).filter_map(move |index| self.refunded(history, now, index))
        });
        let credited = (from(self.stale == Stale::All)..=latest)
            .flat_map(|now| (1..=self.burst).filter_map(move |units| self.credited(history, now, units)));
        charged.chain(refunded).chain(credited).find_map(|(next, step)| {
            let mut steps_after = self.search_from(&next, steps - 1, seen)?;
            steps_after.push(step);
            Some(steps_after)
        })
    }

    fn charged(self, history: &History, now: u64, cost: u64) -> Option<(History, String)> {
        let base = history.bucket.tat.max(now);
        let tat = base + cost;
        let room = tat <= now + self.burst;
        let departs_at = if self.queue { base } else { now.max(tat.saturating_sub(self.burst)) };
        let reserved = !room && self.reserve && !self.queue;
        if !(room || reserved) {
            return None;
        }
        let mut next = history.clone();
        next.bucket.tat = tat;
        next.bucket.booked = next.bucket.booked.max(reserved.then_some(departs_at));
        next.now = now.max(history.now);
        next.charges.push(Charge { cost, at: now, departs_at, tat, reserved });
        next.charges.sort_unstable();
        Some((next, format!("{cost} at {now} for {departs_at}")))
    }

    fn credited(self, history: &History, now: u64, units: u64) -> Option<(History, String)> {
        let back = units.min(history.bucket.tat.saturating_sub(now));
        if !self.credit || back < units {
            return None;
        }
        let mut next = history.clone();
        next.bucket.tat -= back;
        if !self.queue {
            let bucket = &mut next.bucket;
            (bucket.latest, bucket.debt) = (bucket.latest.max(Some(now)), 0);
            bucket.steps.clear();
        }
        next.now = now.max(history.now);
        next.credited += back;
        Some((next, format!("credit {units} at {now}")))
    }

    fn refunded(self, history: &History, now: u64, index: usize) -> Option<(History, String)> {
        let charge = history.charges[index];
        if charge.reserved && now >= charge.departs_at {
            return None;
        }
        let now = now.max(charge.at);
        let mut next = History { bucket: self.given_back(&history.bucket, &charge, now), ..history.clone() };
        if next.bucket == history.bucket {
            return None;
        }
        let back = history.bucket.tat - next.bucket.tat;
        if next.bucket.latest != history.bucket.latest || history.bucket.latest >= Some(now) {
            next.ideal_latest = history.ideal_latest.max(next.bucket.latest).max(Some(history.now));
        }
        if self.stale == Stale::All {
            // Had the refund before been noted in time, all of it might be too much.
            let was_too_early =
                history.ideal_latest > history.bucket.latest && history.ideal_latest >= Some(charge.at);
            next.excess += if was_too_early { back } else { back.min(history.now.saturating_sub(now)) };
        } else {
            next.ideal_latest = None;
        }
        next.now = now.max(history.now);
        next.charges.remove(index);
        Some((next, format!("back {} at {now}: {back}", charge.cost)))
    }

    /// The bucket after the refund; `now` is not before the charge.
    fn given_back(self, bucket: &Bucket, charge: &Charge, now: u64) -> Bucket {
        let kept = charge.tat.saturating_sub(now);
        let debt = bucket.tat.saturating_sub(now);
        let is_noted = self.rule != Rule::Unnoted && bucket.latest >= Some(charge.at);
        let is_newest = bucket.tat == charge.tat;
        if self.queue {
            let back = if is_newest { charge.cost.min(kept).min(debt) } else { 0 };
            return Bucket { tat: bucket.tat - back, ..bucket.clone() };
        }
        let reserved_ahead = bucket.tat > now + self.burst;
        let ignores_order = self.rule == Rule::NewestByTat && is_newest;
        let is_booked = bucket.booked >= Some(charge.at) && self.rule != Rule::IgnoresReservations;
        let (back, rest) = if !is_noted || ignores_order {
            let back = kept.min(debt).min(charge.cost);
            match bucket.tat.saturating_sub(charge.tat) {
                later if reserved_ahead && later > 0 => (back.saturating_sub(later), 0),
                _ => (back, kept.min(debt) - back),
            }
        } else if is_booked {
            (0, 0)
        } else {
            let own = (charge.at + charge.cost).saturating_sub(now);
            let least = own.max(self.least(bucket, charge, now)).min(debt);
            let back = least.min(charge.cost);
            (back, least - back)
        };
        let mut next = Bucket { tat: bucket.tat - back, ..bucket.clone() };
        let reorders = is_noted || !is_newest || bucket.latest.is_some();
        if back > 0 && reorders && self.rule != Rule::Unnoted {
            self.note(&mut next, charge, now, (back, rest));
        }
        next
    }

    /// The least debt since the charge, as far as the steps tell.
    fn least(self, bucket: &Bucket, charge: &Charge, now: u64) -> u64 {
        let left = left(bucket, now);
        let before = bucket.steps.iter().rfind(|&&(at, ..)| at <= charge.at);
        let before = before.map_or(0, |&(_, _, least)| least.min(left));
        let after = bucket.steps.iter().find(|&&(at, ..)| at > charge.at);
        let after = after.filter(|&&(_, gap, _)| gap < Some(charge.at) || self.rule == Rule::IgnoresTheGap);
        let after = after.map_or(0, |&(at, _, least)| least.min(left).min(charge.tat.saturating_sub(at)));
        before.max(after)
    }

    /// Notes that so much came back and rests.
    fn note(self, bucket: &mut Bucket, charge: &Charge, now: u64, (back, rest): (u64, u64)) {
        let at = bucket.latest.map_or(now, |latest| latest.max(now));
        let debt = bucket.tat.saturating_sub(at);
        let left = left(bucket, at);
        for (step, _, least) in &mut bucket.steps {
            let lowered = if *step <= charge.at {
                if self.rule == Rule::EarlierStepsStay { *least } else { (*least).min(rest) }
            } else if self.rule == Rule::StepsNotLowered {
                *least
            } else {
                (*least).min(left).saturating_sub(back)
            };
            *least = lowered.min(left).min(debt);
        }
        bucket.steps.push((at, bucket.latest, debt));
        if self.rule == Rule::OneStep && bucket.steps.len() > 1 {
            bucket.steps.remove(0);
        }
        bucket.latest = Some(at);
        bucket.debt = if self.rule == Rule::GapFromBefore { debt + back } else { debt };
    }

    fn breaks_the_promise(self, history: &History) -> bool {
        let acts = &history.charges;
        acts.iter().any(|first| {
            acts.iter().filter(|last| last.departs_at >= first.departs_at).any(|last| {
                let times = first.departs_at..=last.departs_at;
                let inside = acts.iter().filter(|act| times.contains(&act.departs_at));
                let admitted: u64 = inside.map(|act| act.cost).sum();
                let spread = last.departs_at - first.departs_at;
                let too_soon = self.queue && first.tat < last.tat && spread + history.credited < first.cost;
                too_soon || admitted > self.burst + spread + history.excess + history.credited
            })
        })
    }
}

/// What is left at least of the debt after the latest refund.
fn left(bucket: &Bucket, now: u64) -> u64 {
    bucket.debt.saturating_sub(now.saturating_sub(bucket.latest.unwrap_or(0)))
}

/// Searches without reservations. `REFUND_STEPS=7 REFUND_BURST=4 cargo test --release` tries more.
fn checks() -> impl Iterator<Item = Search> {
    let number = |name, default| std::env::var(name).map_or(default, |n| n.parse().expect("a number"));
    let (steps, bursts) = (number("REFUND_STEPS", 6), number("REFUND_BURST", 3));
    (1..=bursts as u64).map(move |burst| Search {
        rule: Rule::Whole,
        steps,
        burst,
        queue: false,
        reserve: false,
        credit: false,
        stale: Stale::None,
    })
}

fn reservations() -> impl Iterator<Item = Search> {
    checks().map(|search| Search { reserve: true, ..search })
}

#[test]
fn the_rule_keeps_the_promise() {
    for search in checks().chain(reservations()) {
        assert_eq!(search.counterexample(), None);
        assert_eq!(Search { stale: Stale::Checks, steps: search.steps - 1, ..search }.counterexample(), None);
    }
}

#[test]
fn requests_of_a_queue_depart_one_after_the_other() {
    for search in checks() {
        assert_eq!(Search { queue: true, stale: Stale::All, ..search }.counterexample(), None);
    }
}

#[test]
fn a_refund_at_an_old_time_creates_a_bounded_excess() {
    for search in checks().chain(reservations()) {
        assert_eq!(Search { stale: Stale::All, steps: search.steps - 1, ..search }.counterexample(), None);
    }
}

/// What acts exceeds the promise by no more than credits gave.
#[test]
fn credits_add_no_more_than_they_say() {
    for search in checks().chain(reservations()) {
        assert_eq!(Search { credit: true, steps: search.steps - 1, ..search }.counterexample(), None);
    }
    for search in checks() {
        let queue = Search { queue: true, credit: true, steps: search.steps - 1, ..search };
        assert_eq!(queue.counterexample(), None);
    }
}

#[test]
fn a_step_that_is_dropped_costs_no_soundness() {
    for search in checks().chain(reservations()) {
        assert_eq!(Search { rule: Rule::OneStep, ..search }.counterexample(), None);
    }
}

fn broken(rule: Rule, steps: usize, burst: u64, reserve: bool) -> Option<String> {
    Search { rule, steps, burst, queue: false, reserve, credit: false, stale: Stale::None }.counterexample()
}

#[test]
fn without_notes_a_charge_is_given_back_twice() {
    assert!(broken(Rule::Unnoted, 6, 2, false).is_some());
}

#[test]
fn an_unchanged_tat_is_no_proof_of_the_newest() {
    assert!(broken(Rule::NewestByTat, 6, 2, false).is_some());
}

#[test]
fn after_a_reservation_the_own_debt_is_not_given_back() {
    assert!(broken(Rule::IgnoresReservations, 6, 2, true).is_some());
}

#[test]
fn a_step_tells_nothing_beyond_another_refund() {
    assert!(broken(Rule::IgnoresTheGap, 8, 3, false).is_some());
}

#[test]
fn a_refund_notes_the_debt_that_it_leaves() {
    assert!(broken(Rule::GapFromBefore, 8, 3, false).is_some());
}

#[test]
fn later_steps_fall_by_what_comes_back() {
    assert!(broken(Rule::StepsNotLowered, 8, 3, false).is_some());
}

#[test]
fn earlier_steps_fall_to_what_is_left() {
    assert!(broken(Rule::EarlierStepsStay, 8, 3, false).is_some());
}
