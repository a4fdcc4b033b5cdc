//! What comes back of a bucket, exactly, and what the model gives back of it.

use tollgate_model::{Algorithm, Exact, Model, Receipt};

const BURST: u64 = 4;

/// One request that was admitted.
#[derive(Clone, Copy)]
struct Charge {
    at: u64,
    left: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Tick,
    Charge(u64),
    Refund(usize, u64),
}

/// The debt at `now` of the charges that remain, each at its arrival.
fn debt_of(charges: &[Charge], now: u64) -> u64 {
    let full_at = charges.iter().filter(|charge| charge.left > 0);
    full_at.fold(0, |tat: u64, charge| tat.max(charge.at) + charge.left).saturating_sub(now)
}

/// A bucket of one unit a tick, by the counterfactual, exactly and by the model.
#[derive(Default)]
struct Buckets {
    now: u64,
    charges: Vec<Charge>,
    exact: Exact,
    model: Option<Model>,
    receipts: Vec<Receipt>,
}

impl Buckets {
    fn with_model() -> Self {
        let bucket =
            Algorithm::TokenBucket { count: 1, period_ns: 1, burst: BURST, initial: BURST, grains: None };
        Self { model: Some(Model::new(bucket)), ..Self::default() }
    }

    /// Whether the step could be made.
    fn step(&mut self, step: Step) -> bool {
        match step {
            Step::Tick => self.now += 1,
            Step::Charge(cost) => {
                if let Some(model) = &mut self.model {
                    let Some(receipt) = model.admit("k", self.now, cost).1 else { return false };
                    self.receipts.push(receipt);
                } else if debt_of(&self.charges, self.now) + cost > BURST {
                    return false;
                }
                self.charges.push(Charge { at: self.now, left: cost });
                self.exact.charge(self.now, cost);
            }
            Step::Refund(charge, units) => {
                let Some(charged) = self.charges.get_mut(charge).filter(|charge| charge.left >= units) else {
                    return false;
                };
                charged.left -= units;
                let exact = self.exact.refund(self.now, charge, units);
                if let Some(model) = &mut self.model {
                    // By parts of a unit, which are rounded up; here a unit is one tick.
                    let back = model.refund_part(&mut self.receipts[charge], units, self.now);
                    assert!(back <= units && exact <= units);
                }
            }
        }
        true
    }

    fn debt(&self) -> Option<u64> {
        self.model.as_ref().map(|model| BURST - model.peek("k", self.now, 0).remaining)
    }
}

/// Makes all sequences of so many steps, and judges each.
fn every_sequence(steps: usize, fresh: fn() -> Buckets, judge: &mut dyn FnMut(&mut Buckets, &[Step])) {
    fn go(
        prefix: &mut Vec<Step>,
        steps: usize,
        fresh: fn() -> Buckets,
        judge: &mut dyn FnMut(&mut Buckets, &[Step]),
    ) {
        let mut buckets = fresh();
        if !prefix.iter().all(|&step| buckets.step(step)) {
            return;
        }
        judge(&mut buckets, prefix);
        if steps == 0 {
            return;
        }
        let refunds = (0..buckets.charges.len())
            .flat_map(|charge| (1..=2).map(move |units| Step::Refund(charge, units)));
        for step in [Step::Tick, Step::Charge(1), Step::Charge(2)].into_iter().chain(refunds) {
            prefix.push(step);
            go(prefix, steps - 1, fresh, judge);
            prefix.pop();
        }
    }
    go(&mut Vec::new(), steps, fresh, judge);
}

#[test]
fn the_exact_debt_is_that_of_the_charges_that_remain() {
    let mut sequences = 0;
    every_sequence(7, Buckets::default, &mut |buckets, steps| {
        assert_eq!(buckets.exact.debt(buckets.now), debt_of(&buckets.charges, buckets.now), "{steps:?}");
        sequences += 1;
    });
    assert!(sequences > 20_000, "{sequences}");
}

#[test]
fn the_model_never_gives_back_more_than_is_exact() {
    let (mut sequences, mut equal) = (0, 0);
    every_sequence(7, Buckets::with_model, &mut |buckets, steps| {
        let (debt, exact) = (buckets.debt().expect("a model"), debt_of(&buckets.charges, buckets.now));
        assert!(debt >= exact, "{debt} for {exact}: {steps:?}");
        sequences += 1;
        equal += u32::from(debt == exact);
    });
    assert!(sequences > 20_000, "{sequences}");
    // The notes of refunds tell all but the least debt between two of them.
    assert!(equal * 100 > sequences * 90, "{equal} of {sequences} are exact");
}

/// Forty of sixty a minute, charged at once: the library's case of before.
#[test]
fn what_came_at_once_comes_back_in_any_order() {
    const SECOND: u64 = 1_000_000_000;
    for newest_first in [false, true] {
        let mut model = Model::new(Algorithm::TokenBucket {
            count: 60,
            period_ns: 60 * SECOND,
            burst: 60,
            initial: 60,
            grains: None,
        });
        let mut receipts: Vec<_> =
            (0..40).map(|_| model.admit("k", 0, 1).1.expect("there is room")).collect();
        if newest_first {
            receipts.reverse();
        }
        receipts.into_iter().for_each(|receipt| {
            model.refund(receipt, 2 * SECOND);
        });
        assert!(model.peek("k", 2 * SECOND, 0).remaining >= 59);
    }
}
