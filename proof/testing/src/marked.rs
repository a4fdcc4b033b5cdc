//! A bucket as the store's scripts keep it, in whole grains, and what it is held against.
//!
//! [`MarkedBucket`] gives back by marks: a refund notes its time, and for some of the refunds
//! before it a lower bound of the debt since. [`Counterfactual`] knows every request, and computes
//! the debt of those that remain, each at its arrival.

use std::collections::VecDeque;

/// How many refunds the store keeps of a key.
pub const MARKS: usize = 15;

/// A charge that can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Charged {
    /// The time of the charge.
    pub at: u64,
    /// When the debt ended, in grains since the start, less the parts that were given back.
    pub ends: i128,
}

/// A bucket that gains some grains a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedBucket {
    grains_a_tick: i128,
    keep: usize,
    /// When the debt ends, in grains since the start.
    ends: i128,
    /// The time of the last refund out of order.
    mark: Option<u64>,
    /// Whether a reservation was made. Then the rule is that of the model.
    has_reservation: bool,
    refunds: Vec<Refund>,
}

/// A refund out of order that the bucket remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refund {
    at: u64,
    /// The time of the refund before.
    before: Option<u64>,
    /// The debt since this refund was never below.
    least: i128,
}

impl MarkedBucket {
    /// A full bucket that remembers `keep` refunds.
    pub fn new(grains_a_tick: u64, keep: usize) -> Self {
        Self {
            grains_a_tick: grains_a_tick.into(),
            keep,
            ends: 0,
            mark: None,
            has_reservation: false,
            refunds: Vec::new(),
        }
    }

    /// Makes it as good as new.
    pub fn forget(&mut self) {
        (self.ends, self.mark, self.has_reservation) = (0, None, false);
        self.refunds.clear();
    }

    fn clock(&self, now: u64) -> i128 {
        i128::from(now) * self.grains_a_tick
    }

    /// When the debt ends, in grains since the start.
    pub fn ends(&self) -> i128 {
        self.ends
    }

    /// The debt in grains.
    pub fn debt(&self, now: u64) -> i128 {
        (self.ends - self.clock(now)).max(0)
    }

    /// Whether anything but charges is known of it.
    pub fn has_marks(&self) -> bool {
        self.mark.is_some() || self.has_reservation
    }

    /// Charges these grains, whether there is room or not.
    pub fn charge(&mut self, now: u64, grains: i128) -> Charged {
        self.ends = self.ends.max(self.clock(now)) + grains;
        Charged { at: now, ends: self.ends }
    }

    /// Charges a request that acts later: what it depends on is not given back.
    pub fn reserve(&mut self, now: u64, grains: i128) -> Charged {
        self.has_reservation = true;
        self.refunds.clear();
        self.charge(now, grains)
    }

    /// Gives back up to these grains of a charge; returns how many came back. `capacity` is that of
    /// the bucket in grains.
    pub fn refund(&mut self, charge: &mut Charged, now: u64, grains: i128, capacity: i128) -> i128 {
        let now = now.max(charge.at).max(self.mark.unwrap_or(0));
        let Charged { at, ends } = *charge;
        charge.ends -= grains;
        let debt = self.debt(now);
        let is_marked = self.mark >= Some(at);
        // What the charge alone is known to have left, if no refund followed it.
        let left = if is_marked { 0 } else { grains.min(ends - self.clock(now)).max(0) };
        let back = if debt == 0 {
            return 0;
        } else if self.ends == ends && !is_marked {
            left
        } else if self.has_reservation {
            self.mark = Some(now);
            let depends = if debt > capacity { self.ends - ends } else { 0 };
            (left - depends.max(0)).max(0)
        } else {
            self.noted(Charged { at, ends }, now, grains, left)
        };
        self.ends -= back;
        back
    }

    /// Gives back a charge of a queue, if it is the newest; returns how much came back.
    pub fn refund_newest(&mut self, charge: Charged, now: u64, grains: i128) -> i128 {
        let back = if self.ends == charge.ends { grains.min(self.debt(now)) } else { 0 };
        self.ends -= back;
        back
    }

    /// A refund out of order: how much comes back.
    fn noted(&mut self, charge: Charged, now: u64, grains: i128, left: i128) -> i128 {
        let (at, debt) = (charge.at, self.debt(now));
        // Time lowers the debt since the last refund, and nothing else does.
        let since = |mark| self.clock(now) - self.clock(mark);
        let last = self.refunds.last().map_or(0, |last| (last.least - since(last.at)).max(0));
        let mut low = (grains - (self.clock(now) - self.clock(at))).max(left).max(0);
        for refund in &mut self.refunds {
            refund.least = refund.least.min(last);
        }
        low = self
            .refunds
            .iter()
            .filter(|refund| refund.at <= at)
            .map(|refund| refund.least)
            .fold(low, i128::max);
        // From the charge to the first refund after it, time alone lowered the debt.
        if let Some(next) = self.refunds.iter().find(|refund| refund.at > at)
            && next.before < Some(at)
        {
            low = low.max(next.least.min(charge.ends - self.clock(next.at)));
        }
        let low = low.min(debt);
        let back = grains.min(low);
        for refund in &mut self.refunds {
            refund.least = if refund.at > at { refund.least - back } else { refund.least.min(low - back) };
        }
        self.refunds.push(Refund { at: now, before: self.mark, least: debt - back });
        self.mark = Some(now);
        self.refunds.retain(|refund| refund.least > 0);
        while self.refunds.len() > self.keep {
            self.refunds.remove(self.least_told());
        }
        back
    }

    /// The refund, but for the last, that raises the bound of the one before by the smallest part.
    fn least_told(&self) -> usize {
        let mut found = (0, f64::INFINITY);
        let mut below = 0;
        for (place, refund) in self.refunds[..self.refunds.len() - 1].iter().enumerate() {
            let told = (refund.least - below) as f64 / refund.least as f64;
            if told < found.1 {
                found = (place, told);
            }
            below = refund.least;
        }
        found.0
    }
}

/// The debt of the charges that remain, each at its arrival.
#[derive(Clone, Debug)]
pub struct Counterfactual {
    grains_a_tick: i128,
    /// When the debt of all charges before the first of `charges` ends.
    ends: i128,
    /// The number of the first of `charges`.
    first: usize,
    charges: VecDeque<Remaining>,
}

#[derive(Clone, Debug)]
struct Remaining {
    at: u64,
    grains: i128,
    is_settled: bool,
}

impl Counterfactual {
    /// A full bucket.
    pub fn new(grains_a_tick: u64) -> Self {
        Self { grains_a_tick: grains_a_tick.into(), ends: 0, first: 0, charges: VecDeque::new() }
    }

    /// Charges these grains, at no earlier time than before; returns the charge's number.
    pub fn charge(&mut self, now: u64, grains: i128) -> usize {
        self.charges.push_back(Remaining { at: now, grains, is_settled: false });
        self.first + self.charges.len() - 1
    }

    /// Takes these grains of a charge away, as if they had never been charged.
    pub fn give_back(&mut self, number: usize, grains: i128) {
        let charge = &mut self.charges[number - self.first];
        charge.grains -= grains;
        assert!(charge.grains >= 0, "no more than was charged comes back");
    }

    /// Says that nothing more of a charge comes back. Forgets what all charges up to it share.
    pub fn settle(&mut self, number: usize) {
        self.charges[number - self.first].is_settled = true;
        while let Some(charge) = self.charges.front().filter(|charge| charge.is_settled) {
            self.ends = after(self.ends, charge, self.grains_a_tick);
            self.charges.pop_front();
            self.first += 1;
        }
    }

    /// The debt in grains.
    pub fn debt(&self, now: u64) -> i128 {
        let end = self.charges.iter().fold(self.ends, |ends, charge| after(ends, charge, self.grains_a_tick));
        (end - i128::from(now) * self.grains_a_tick).max(0)
    }
}

/// When the debt ends after a charge.
fn after(ends: i128, charge: &Remaining, grains_a_tick: i128) -> i128 {
    match charge.grains {
        0 => ends,
        grains => ends.max(i128::from(charge.at) * grains_a_tick) + grains,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A bucket of `burst` grains beside the truth.
    #[derive(Clone)]
    struct Both {
        bucket: MarkedBucket,
        truth: Counterfactual,
        charges: Vec<(Charged, i128, usize)>,
        now: u64,
        burst: i128,
    }

    impl Both {
        fn new(keep: usize, burst: i128) -> Self {
            let (bucket, truth) = (MarkedBucket::new(1, keep), Counterfactual::new(1));
            Self { bucket, truth, charges: Vec::new(), now: 0, burst }
        }

        fn charge(&mut self, grains: i128) -> bool {
            let fits = self.bucket.debt(self.now) + grains <= self.burst;
            if fits {
                let number = self.truth.charge(self.now, grains);
                self.charges.push((self.bucket.charge(self.now, grains), grains, number));
            }
            fits
        }

        fn refund(&mut self, place: usize, grains: i128) {
            let (charge, left, number) = &mut self.charges[place];
            *left -= grains;
            self.truth.give_back(*number, grains);
            self.bucket.refund(charge, self.now, grains, self.burst);
        }

        /// By how much the debt is above the truth.
        fn excess(&self) -> i128 {
            let excess = self.bucket.debt(self.now) - self.truth.debt(self.now);
            assert!(excess >= 0, "{excess} below the truth: {:?}, {:?}", self.bucket, self.truth);
            excess
        }

        /// Every sequence of so many steps. Returns how many there are, and the sum of excesses.
        fn all(&self, steps: usize) -> (u64, i128) {
            let mut sum = (1, self.excess());
            if steps == 0 {
                return sum;
            }
            let mut go = |step: &dyn Fn(&mut Self) -> bool| {
                let mut next = self.clone();
                if step(&mut next) {
                    let (sequences, excess) = next.all(steps - 1);
                    sum = (sum.0 + sequences, sum.1 + excess);
                }
            };
            go(&|next| {
                next.now += 1;
                true
            });
            for grains in 1..=2 {
                go(&|next| next.charge(grains));
            }
            for (place, &(_, left, _)) in self.charges.iter().enumerate() {
                for grains in 1..=left {
                    go(&|next| {
                        next.refund(place, grains);
                        true
                    });
                }
            }
            sum
        }
    }

    #[test]
    fn no_short_sequence_ends_below_the_truth() {
        for keep in [1, 2, 7] {
            let (sequences, excess) = Both::new(keep, 4).all(8);
            println!(
                "{keep} marks: {sequences} sequences, mean excess {:.3}",
                excess as f64 / sequences as f64
            );
        }
    }

    #[test]
    fn no_long_sequence_ends_below_the_truth() {
        for keep in [1, 4, MARKS] {
            let mut random = Random::with_seed(7);
            let (mut steps, mut excess) = (0, 0);
            for _ in 0..3_000 {
                let mut both = Both::new(keep, 12);
                for _ in 0..60 {
                    match random.u64(..10) {
                        0..=2 => both.now += 1,
                        3..=5 => drop(both.charge(random.i128(1..=3))),
                        _ if both.charges.is_empty() => {}
                        _ => {
                            let last = both.charges.len() - 1;
                            let place = match random.bool() {
                                true => last.saturating_sub(random.usize(..4)),
                                false => random.usize(..=last),
                            };
                            let left = both.charges[place].1;
                            if left > 0 {
                                both.refund(place, random.i128(1..=left));
                            }
                        }
                    }
                    (steps, excess) = (steps + 1, excess + both.excess());
                }
            }
            println!("{keep} marks: mean excess {:.3}", excess as f64 / f64::from(steps));
        }
    }

    /// Of 60 a minute, 40 were charged at once. What is lost is what time won back meanwhile.
    #[test]
    fn requests_at_once_come_back_in_any_order() {
        for seed in 0..100 {
            let (mut random, mut both) = (Random::with_seed(seed), Both::new(MARKS, 60_000));
            for _ in 0..40 {
                assert!(both.charge(1_000));
            }
            let mut places: Vec<usize> = (0..40).collect();
            if seed > 0 {
                random.shuffle(&mut places);
            }
            both.now += 2_000;
            for place in places {
                both.refund(place, 1_000);
                assert!(both.excess() <= 2_000, "{}", both.excess());
            }
        }
    }
}
