//! Rules for a bucket's refund, put to every short sequence there is.
//!
//! A bucket with one unit a tick; costs, times and bursts from 0 to a handful; every sequence of checks,
//! reservations, refunds and cancellations up to some length. After each step, what acts (at its departure, unless
//! it was given back) is held against the promise: at most `burst + D` in any interval of length D, and in a queue
//! one after the other.
//!
//! The rule is that of `src/refund.rs`, written down again; the others leave something out of it, to show what it is
//! for. Each is broken in six steps.

use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// As it is.
    Whole,
    /// Whoever is given back is out of order, nobody is marked.
    Unmarked,
    /// Whose TAT it is counts as the newest, marked or not: it may be another's TAT.
    NewestByTat,
    /// Its own debt is given back even if somebody has reserved.
    BlindToBookings,
}

/// A request that was admitted or booked, and not given back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Charge {
    cost: u64,
    /// The time it was asked at.
    at: u64,
    departs_at: u64,
    /// The TAT right after.
    tat: u64,
    /// Whether it was reserved, so that it can only be given back before its departure.
    booked: bool,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Bucket {
    tat: u64,
    mark: Option<u64>,
    reserved: bool,
}

/// What has happened so far, and what may follow from it.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Story {
    bucket: Bucket,
    /// The latest time seen.
    now: u64,
    /// In order, so that stories that differ in nothing else are the same.
    charges: Vec<Charge>,
    /// What refunds at old times may have minted.
    minted: u64,
    /// What the mark would be had each been set at the latest time seen.
    due_mark: Option<u64>,
}

/// Which times can be earlier than what was seen before.
#[derive(Clone, Copy, PartialEq)]
enum Stale {
    None,
    Checks,
    All,
}

/// What a search goes through.
#[derive(Clone, Copy)]
struct Search {
    rule: Rule,
    /// How many steps a sequence has.
    steps: usize,
    burst: u64,
    queue: bool,
    /// Whether who finds no room books ahead.
    reserve: bool,
    stale: Stale,
}

const LATEST: u64 = 8;

impl Search {
    /// A story in which too much acts.
    fn counterexample(self) -> Option<String> {
        let mut told = self.go_on(&Story::default(), self.steps, &mut HashMap::new())?;
        told.reverse();
        Some(told.join("; "))
    }

    /// The rest of such a story, last step first. `seen` says how many steps had been left when a story was seen.
    fn go_on(self, story: &Story, steps: usize, seen: &mut HashMap<Story, usize>) -> Option<Vec<String>> {
        if self.breaks_the_promise(story) {
            return Some(Vec::new());
        }
        if steps == 0 || seen.get(story).is_some_and(|&before| before >= steps) {
            return None;
        }
        seen.insert(story.clone(), steps);
        // A full bucket is the same at any time.
        let latest = if *story == Story::default() { 0 } else { (story.now + 2).min(LATEST) };
        let from = |stale| if stale { 0 } else { story.now };
        let charged = (from(self.stale != Stale::None)..=latest)
            .flat_map(|now| (1..=self.burst).filter_map(move |cost| self.charged(story, now, cost)));
        let refunded = (from(self.stale == Stale::All)..=latest).flat_map(|now| {
            (0..story.charges.len()).filter_map(move |index| self.refunded(story, now, index))
        });
        charged.chain(refunded).find_map(|(next, step)| {
            let mut told = self.go_on(&next, steps - 1, seen)?;
            told.push(step);
            Some(told)
        })
    }

    fn charged(self, story: &Story, now: u64, cost: u64) -> Option<(Story, String)> {
        let base = story.bucket.tat.max(now);
        let tat = base + cost;
        let room = tat <= now + self.burst;
        let departs_at = if self.queue { base } else { now.max(tat.saturating_sub(self.burst)) };
        let booked = !room && self.reserve && !self.queue;
        if !(room || booked) {
            return None;
        }
        let mut next = story.clone();
        next.bucket.tat = tat;
        next.bucket.reserved |= booked;
        next.now = now.max(story.now);
        next.charges.push(Charge { cost, at: now, departs_at, tat, booked });
        next.charges.sort_unstable();
        Some((next, format!("{cost} at {now} for {departs_at}")))
    }

    fn refunded(self, story: &Story, now: u64, index: usize) -> Option<(Story, String)> {
        let charge = story.charges[index];
        if charge.booked && now >= charge.departs_at {
            return None;
        }
        let now = now.max(charge.at);
        let mut next = Story { bucket: self.given_back(&story.bucket, &charge, now), ..story.clone() };
        if next.bucket == story.bucket {
            return None;
        }
        let back = story.bucket.tat - next.bucket.tat;
        if next.bucket.mark != story.bucket.mark || story.bucket.mark >= Some(now) {
            next.due_mark = story.due_mark.max(next.bucket.mark).max(Some(story.now));
        }
        if self.stale == Stale::All {
            // It should have been marked, so all that it gets back may be too much.
            let should_be_marked = story.bucket.mark < Some(charge.at) && story.due_mark >= Some(charge.at);
            next.minted += if should_be_marked { back } else { back.min(story.now.saturating_sub(now)) };
        } else {
            next.due_mark = None;
        }
        next.now = now.max(story.now);
        next.charges.remove(index);
        Some((next, format!("back {} at {now}: {back}", charge.cost)))
    }

    /// The bucket after giving back; `now` is not before the charge.
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
            let booked_ahead = bucket.tat > now + self.burst;
            left.saturating_sub(if booked_ahead { bucket.tat.saturating_sub(charge.tat) } else { 0 })
        } else if bucket.reserved && self.rule != Rule::BlindToBookings {
            0
        } else {
            charge.cost.min((charge.at + charge.cost).saturating_sub(now))
        };
        Bucket { tat: lowered(back), mark: bucket.mark.max(Some(now)), ..*bucket }
    }

    fn breaks_the_promise(self, story: &Story) -> bool {
        let acts = &story.charges;
        acts.iter().any(|first| {
            acts.iter().filter(|last| last.departs_at >= first.departs_at).any(|last| {
                let times = first.departs_at..=last.departs_at;
                let inside = acts.iter().filter(|act| times.contains(&act.departs_at));
                let admitted: u64 = inside.map(|act| act.cost).sum();
                let spread = last.departs_at - first.departs_at;
                let too_soon = self.queue && first.tat < last.tat && spread < first.cost;
                too_soon || admitted > self.burst + spread + story.minted
            })
        })
    }
}

/// Where the searches start; `REFUND_STEPS=7 REFUND_BURST=4 cargo test --release` looks further.
fn checks() -> impl Iterator<Item = Search> {
    let number = |name, default| std::env::var(name).map_or(default, |n| n.parse().expect("a number"));
    let (steps, bursts) = (number("REFUND_STEPS", 6), number("REFUND_BURST", 3));
    (1..=bursts as u64).map(move |burst| Search {
        rule: Rule::Whole,
        steps,
        burst,
        queue: false,
        reserve: false,
        stale: Stale::None,
    })
}

fn bookings() -> impl Iterator<Item = Search> {
    checks().map(|search| Search { reserve: true, ..search })
}

#[test]
fn the_rule_keeps_the_promise() {
    for search in checks().chain(bookings()) {
        assert_eq!(search.counterexample(), None);
        assert_eq!(Search { stale: Stale::Checks, steps: search.steps - 1, ..search }.counterexample(), None);
    }
}

#[test]
fn a_queue_lets_one_leave_after_the_other() {
    for search in checks() {
        assert_eq!(Search { queue: true, stale: Stale::All, ..search }.counterexample(), None);
    }
}

#[test]
fn a_refund_at_an_old_time_mints_no_more_than_is_documented() {
    for search in checks().chain(bookings()) {
        assert_eq!(Search { stale: Stale::All, steps: search.steps - 1, ..search }.counterexample(), None);
    }
}

fn broken(rule: Rule, reserve: bool) -> Option<String> {
    let search = Search { rule, steps: 6, burst: 2, queue: false, reserve, stale: Stale::None };
    assert_eq!(Search { steps: 5, ..search }.counterexample(), None);
    search.counterexample()
}

#[test]
fn without_marks_it_gives_back_twice() {
    let story = "1 at 0 for 0; 1 at 0 for 0; back 1 at 0: 1; 1 at 1 for 1; back 1 at 1: 1; 2 at 1 for 1";
    assert_eq!(broken(Rule::Unmarked, false).as_deref(), Some(story));
}

#[test]
fn who_is_marked_is_never_the_newest() {
    let story = "1 at 0 for 0; 1 at 0 for 0; back 1 at 0: 1; 1 at 1 for 1; back 1 at 1: 1; 2 at 1 for 1";
    assert_eq!(broken(Rule::NewestByTat, false).as_deref(), Some(story));
}

#[test]
fn after_a_reservation_not_even_ones_own_debt_is_safe() {
    let story = "1 at 0 for 0; 1 at 0 for 0; 2 at 0 for 2; back 1 at 0: 0; back 1 at 0: 1; 1 at 0 for 2";
    assert_eq!(broken(Rule::BlindToBookings, true).as_deref(), Some(story));
}
