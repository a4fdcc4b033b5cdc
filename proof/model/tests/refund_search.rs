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
    /// Refunds leave no marks.
    Unmarked,
    /// An admission whose TAT is unchanged counts as the newest, even if marked.
    NewestByTat,
    /// A marked key gives back the own debt even after a reservation.
    IgnoresReservations,
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
    mark: Option<u64>,
    reserved: bool,
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
    /// The mark if every refund had set it to the latest time seen.
    ideal_mark: Option<u64>,
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
        next.bucket.reserved |= reserved;
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
            next.bucket.mark = next.bucket.mark.max(Some(now));
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
        if next.bucket.mark != history.bucket.mark || history.bucket.mark >= Some(now) {
            next.ideal_mark = history.ideal_mark.max(next.bucket.mark).max(Some(history.now));
        }
        if self.stale == Stale::All {
            // With the ideal mark it would get nothing back, so all of it may be too much.
            let should_be_marked =
                history.bucket.mark < Some(charge.at) && history.ideal_mark >= Some(charge.at);
            next.excess += if should_be_marked { back } else { back.min(history.now.saturating_sub(now)) };
        } else {
            next.ideal_mark = None;
        }
        next.now = now.max(history.now);
        next.charges.remove(index);
        Some((next, format!("back {} at {now}: {back}", charge.cost)))
    }

    /// The bucket after the refund; `now` is not before the charge.
    fn given_back(self, bucket: &Bucket, charge: &Charge, now: u64) -> Bucket {
        let left = charge.cost.min(charge.tat.saturating_sub(now));
        let lowered = |back: u64| bucket.tat - back.min(bucket.tat.saturating_sub(now));
        let marked = self.rule != Rule::Unmarked && bucket.mark >= Some(charge.at);
        let last = bucket.tat == charge.tat;
        if last && (!marked || self.rule == Rule::NewestByTat) {
            return Bucket { tat: lowered(left), ..*bucket };
        }
        if self.queue {
            return bucket.clone();
        }
        let back = if !marked {
            let reserved_ahead = bucket.tat > now + self.burst;
            left.saturating_sub(if reserved_ahead { bucket.tat.saturating_sub(charge.tat) } else { 0 })
        } else if bucket.reserved && self.rule != Rule::IgnoresReservations {
            0
        } else {
            charge.cost.min((charge.at + charge.cost).saturating_sub(now))
        };
        Bucket { tat: lowered(back), mark: bucket.mark.max(Some(now)), ..*bucket }
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

fn broken(rule: Rule, reserve: bool) -> Option<String> {
    let search =
        Search { rule, steps: 6, burst: 2, queue: false, reserve, credit: false, stale: Stale::None };
    assert_eq!(Search { steps: 5, ..search }.counterexample(), None);
    search.counterexample()
}

#[test]
fn without_marks_a_charge_is_given_back_twice() {
    let history = "1 at 0 for 0; 1 at 0 for 0; back 1 at 0: 1; 1 at 1 for 1; back 1 at 1: 1; 2 at 1 for 1";
    assert_eq!(broken(Rule::Unmarked, false).as_deref(), Some(history));
}

#[test]
fn a_marked_admission_is_never_the_newest() {
    let history = "1 at 0 for 0; 1 at 0 for 0; back 1 at 0: 1; 1 at 1 for 1; back 1 at 1: 1; 2 at 1 for 1";
    assert_eq!(broken(Rule::NewestByTat, false).as_deref(), Some(history));
}

#[test]
fn after_a_reservation_the_own_debt_is_not_given_back() {
    let history = "1 at 0 for 0; 1 at 0 for 0; 2 at 0 for 2; back 1 at 0: 0; back 1 at 0: 1; 1 at 0 for 2";
    assert_eq!(broken(Rule::IgnoresReservations, true).as_deref(), Some(history));
}
