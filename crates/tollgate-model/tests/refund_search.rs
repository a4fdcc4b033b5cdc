//! Rules for a bucket's refund, put to every short sequence there is.
//!
//! A bucket with one unit a tick; costs, times and bursts from 0 to a handful; every sequence of checks,
//! reservations, refunds and cancellations up to some length. After each step, what acts (at its departure, unless
//! it was given back) is held against the promise: at most `burst + D` in any interval of length D.
//!
//! | rule            | gives back                                                          | holds                  |
//! |-----------------|---------------------------------------------------------------------|------------------------|
//! | `as_defined`    | what the refill has not paid back, less what was booked after it    | no: `known_holes.rs`   |
//! | `newest_only`   | the same, if nobody was charged since and not refunded              | yes, with a stale clock too |
//! | `by_generation` | as defined, until a refund that was not the newest's                | yes                    |

/// A request that was admitted or booked.
#[derive(Clone, Copy)]
struct Charge {
    cost: u64,
    /// The time it was asked at.
    at: u64,
    departs_at: u64,
    /// The TAT and the generation right after.
    tat: u64,
    generation: u64,
}

#[derive(Clone, Default)]
struct Bucket {
    tat: u64,
    /// Counts the refunds that made others' receipts worthless; only one of the rules looks at it.
    generation: u64,
    burst: u64,
}

/// What a refund does to the bucket.
type Rule = fn(&Bucket, &Charge, now: u64) -> Bucket;

/// What is left of the charge, less what was booked after it if somebody is booked ahead.
fn as_defined(bucket: &Bucket, charge: &Charge, now: u64) -> Bucket {
    let mut back = charge.cost.min(charge.tat.saturating_sub(now));
    if bucket.tat > now + bucket.burst {
        back = back.saturating_sub(bucket.tat.saturating_sub(charge.tat));
    }
    Bucket { tat: bucket.tat.saturating_sub(back), ..*bucket }
}

/// Last in, first out. The TAT is never below that of a charge not given back, so it shows who is last.
fn newest_only(bucket: &Bucket, charge: &Charge, now: u64) -> Bucket {
    if bucket.tat == charge.tat { as_defined(bucket, charge, now) } else { bucket.clone() }
}

/// Anyone's, until somebody's who was not the newest.
fn by_generation(bucket: &Bucket, charge: &Charge, now: u64) -> Bucket {
    if bucket.generation != charge.generation {
        return bucket.clone();
    }
    let next = as_defined(bucket, charge, now);
    let invalidates = next.tat < bucket.tat && bucket.tat != charge.tat;
    Bucket { generation: bucket.generation + u64::from(invalidates), ..next }
}

/// What a search goes through.
#[derive(Clone, Copy)]
struct Search {
    rule: Rule,
    /// How many steps a sequence has.
    steps: usize,
    /// Whether who finds no room books ahead.
    reserve: bool,
    /// Whether what was checked can be refunded; what was booked can always be cancelled.
    refund: bool,
    /// Whether the clock goes back.
    stale: bool,
}

const LATEST: u64 = 6;

#[derive(Clone, Default)]
struct Story {
    bucket: Bucket,
    now: u64,
    charges: Vec<Charge>,
    told: Vec<String>,
}

impl Search {
    /// The first story in which too much acts.
    fn counterexample(self) -> Option<String> {
        (1..=3).find_map(|burst| {
            let bucket = Bucket { burst, ..Bucket::default() };
            self.go_on(&Story { bucket, ..Story::default() }, self.steps)
        })
    }

    fn go_on(self, story: &Story, steps: usize) -> Option<String> {
        if story.breaks_the_promise() {
            return Some(story.told.join("; "));
        }
        let earliest = if self.stale { 0 } else { story.now };
        let times = earliest..=(story.now + 2).min(LATEST);
        steps.checked_sub(1).and_then(|left| {
            times.clone().find_map(|now| {
                let charged = (1..=story.bucket.burst).filter_map(|cost| self.charged(story, now, cost));
                let refunded = (0..story.charges.len()).filter_map(|index| self.refunded(story, now, index));
                charged.chain(refunded).find_map(|next| self.go_on(&next, left))
            })
        })
    }

    fn charged(self, story: &Story, now: u64, cost: u64) -> Option<Story> {
        let mut next = story.clone();
        let tat = story.bucket.tat.max(now) + cost;
        let departs_at = now.max(tat.saturating_sub(story.bucket.burst));
        if departs_at > now && !self.reserve {
            return None;
        }
        next.bucket.tat = tat;
        next.now = now.max(story.now);
        next.charges.push(Charge { cost, at: now, departs_at, tat, generation: story.bucket.generation });
        next.told.push(format!("{cost} at {now} for {departs_at}"));
        Some(next)
    }

    fn refunded(self, story: &Story, now: u64, index: usize) -> Option<Story> {
        let charge = story.charges[index];
        let booked = charge.departs_at > charge.at;
        let possible = if booked { now < charge.departs_at } else { self.refund };
        let bucket = (self.rule)(&story.bucket, &charge, now.max(charge.at));
        if !possible || bucket.tat == story.bucket.tat {
            return None;
        }
        let mut next = story.clone();
        next.told.push(format!("back {} at {now}: {}", charge.cost, story.bucket.tat - bucket.tat));
        next.bucket = bucket;
        next.now = now.max(story.now);
        next.charges.remove(index);
        Some(next)
    }
}

impl Story {
    fn breaks_the_promise(&self) -> bool {
        let times = || self.charges.iter().map(|charge| charge.departs_at);
        times().any(|first| {
            times().filter(|&last| last >= first).any(|last| {
                let inside = self.charges.iter().filter(|act| (first..=last).contains(&act.departs_at));
                inside.map(|act| act.cost).sum::<u64>() > self.bucket.burst + last - first
            })
        })
    }
}

/// Where the searches start; `REFUND_STEPS=7 cargo test --release` looks longer than these six.
fn checks() -> Search {
    let steps = std::env::var("REFUND_STEPS").map_or(6, |steps| steps.parse().expect("a number of steps"));
    Search { rule: newest_only, steps, reserve: false, refund: true, stale: false }
}

fn bookings() -> Search {
    Search { reserve: true, ..checks() }
}

fn stale() -> Search {
    let checks = checks();
    Search { stale: true, steps: checks.steps - 1, ..checks }
}

#[test]
fn giving_back_only_the_newest_keeps_the_promise() {
    for search in [checks(), bookings(), stale()] {
        assert_eq!(search.counterexample(), None);
    }
}

#[test]
fn a_generation_keeps_the_promise_while_the_clock_does_not_go_back() {
    let rule = by_generation;
    for search in [checks(), bookings()] {
        assert_eq!(Search { rule, ..search }.counterexample(), None);
    }
    assert!(Search { rule, ..stale() }.counterexample().is_some());
}

#[test]
fn the_rule_as_defined_breaks_it_in_six_steps() {
    let rule = as_defined;
    let search = Search { rule, steps: 6, ..checks() };
    assert_eq!(Search { steps: 5, ..search }.counterexample(), None);
    let story = "1 at 0 for 0; 1 at 0 for 0; back 1 at 0: 1; 1 at 1 for 1; back 1 at 1: 1; 2 at 1 for 1";
    assert_eq!(search.counterexample().as_deref(), Some(story));
}
