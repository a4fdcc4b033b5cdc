//! Every verb under a quota that comes with the call, beside arithmetic in 128 bits.
//!
//! A key is its TAT. Quotas, costs and times are random, and tolerances are no multiples of their
//! emission intervals.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Clock, Decision, Outcome, Receipt, ReserveError};

use super::{Limiter, MOST, SECOND, check, debt, limiter, nanos, peek};

#[derive(Clone, Copy, Debug)]
enum Verb {
    Check,
    Peek,
    UpTo,
    Debit,
    Credit,
    Reset,
    /// The newest request of the key comes back, if it is known.
    Refund,
    /// A turn at most so many nanoseconds ahead; kept or cancelled at once.
    Reserve(u64, bool),
    /// A lease of this many permits, of which one is spent.
    Lease,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    verb: Verb,
    key: u64,
    emission: i128,
    tolerance: i128,
    cost: u64,
    pause: u64,
}

/// Keys as arithmetic has them.
#[derive(Default)]
struct Model {
    now: i128,
    tats: [i128; 3],
    /// Whether something was given back or booked ahead. From then on less may be known of what a
    /// request still causes, so less may come back.
    is_lossy: bool,
}

/// The numbers of a decision.
#[derive(Debug, PartialEq)]
struct Numbers {
    outcome: Outcome,
    cost: u64,
    limit: i128,
    remaining: i128,
    retry_after: Option<i128>,
    more_after: i128,
    reset_after: i128,
}

impl Numbers {
    fn of(decision: &Decision<'_>) -> Self {
        assert!(!decision.is_full(), "there is room for all");
        Self {
            outcome: decision.outcome(),
            cost: decision.cost(),
            limit: decision.limit().into(),
            remaining: decision.remaining().into(),
            retry_after: decision.retry_after().map(|wait| wait.as_nanos() as i128),
            more_after: decision.more_after().as_nanos() as i128,
            reset_after: decision.reset_after().as_nanos() as i128,
        }
    }
}

impl Model {
    fn debt(&self, key: u64) -> i128 {
        (self.tats[key as usize] - self.now).max(0)
    }

    fn charge(&mut self, key: u64, nanos: i128) {
        if nanos > 0 {
            self.tats[key as usize] = self.now + self.debt(key) + nanos;
        }
    }

    /// What the limiter has given back of these nanoseconds: all of them, unless it may be less.
    fn give_back(&mut self, limiter: &Limiter, key: u64, nanos: i128) -> i128 {
        let given = self.debt(key) - i128::from(debt(limiter, key));
        assert!(given == nanos || self.is_lossy && (0..nanos).contains(&given), "{given} of {nanos}");
        self.tats[key as usize] -= given;
        self.is_lossy |= nanos > 0;
        given
    }

    /// The answer that leaves the key as it now is.
    fn numbers(&self, Step { key, emission, tolerance, .. }: Step, outcome: Outcome, cost: u64) -> Numbers {
        let (debt, limit) = (self.debt(key), tolerance / emission);
        let remaining = (tolerance - debt).max(0) / emission;
        let admits = |cost: i128| debt + cost * emission - tolerance;
        let wait = admits(i128::from(cost)).max(1);
        let more = if remaining == limit { 0 } else { admits(remaining + 1) };
        Numbers {
            outcome,
            cost,
            limit,
            remaining,
            retry_after: (outcome == Outcome::Denied).then_some(wait),
            more_after: more,
            reset_after: debt,
        }
    }

    /// Decides a request, and charges it if it is admitted and `charges`.
    fn check(&mut self, step: Step, cost: u64, charges: bool) -> Numbers {
        let (debt, charge) = (self.debt(step.key), i128::from(cost) * step.emission);
        let outcome = match () {
            () if charge > step.tolerance => Outcome::Never,
            () if cost == 0 || debt + charge <= step.tolerance => Outcome::Allowed,
            () => Outcome::Denied,
        };
        let before = self.tats[step.key as usize];
        if outcome == Outcome::Allowed {
            self.charge(step.key, charge);
        }
        let numbers = self.numbers(step, outcome, cost);
        if !charges {
            self.tats[step.key as usize] = before;
        }
        numbers
    }
}

/// The newest request of a key.
struct Newest {
    receipt: Receipt,
    key: u64,
    emission: i128,
    tat: i128,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let verbs = || {
        prop_oneof![
            6 => Just(Verb::Check),
            1 => Just(Verb::Peek),
            2 => Just(Verb::UpTo),
            2 => Just(Verb::Debit),
            2 => Just(Verb::Credit),
            1 => Just(Verb::Reset),
            3 => Just(Verb::Refund),
            2 => (0..2 * SECOND, any::<bool>()).prop_map(|(wait, cancels)| Verb::Reserve(wait, cancels)),
            1 => Just(Verb::Lease),
        ]
    };
    // Of nanoseconds, so that debts meet tolerances exactly; or up to days. No debt comes to be
    // more than a word has room for.
    (prop_oneof![Just(12_u64), Just(3 * SECOND), Just(1_000_000 * SECOND)]).prop_flat_map(move |longest| {
        let emissions = prop_oneof![1..10_u64, 1..longest];
        let pauses = prop_oneof![3 => Just(0), 2 => 1..20_u64, 2 => 0..longest];
        let costs = prop_oneof![0..4_u64, 0..30_u64];
        let step = (verbs(), 0..3_u64, emissions, 0..20_u64, any::<u64>(), costs, pauses);
        let step = step.prop_map(|(verb, key, emission, burst, more, cost, pause)| {
            let tolerance = (emission * (1 + burst) + more % emission).min(MOST);
            Step { verb, key, emission: emission.into(), tolerance: tolerance.into(), cost, pause }
        });
        prop::collection::vec(step, 1..80)
    })
}

fn play(limiter: &Limiter, model: &mut Model, newest: &mut Option<Newest>, step: Step) {
    let Step { verb, key, emission, tolerance, cost, .. } = step;
    let quota = nanos(emission as u64, tolerance as u64);
    let account = limiter.account(key).under(&quota);
    let kept = newest.take().filter(|newest| newest.key != key || matches!(verb, Verb::Peek | Verb::Refund));
    let charged = |decision: Decision<'_>, tat| {
        let receipt = decision.receipt();
        Some(Newest { receipt, key, emission, tat }).filter(|newest| newest.receipt.left() > 0)
    };
    *newest = match verb {
        Verb::Check => {
            let expected = model.check(step, cost, true);
            assert_eq!(Numbers::of(&peek(limiter, key, &quota, cost)), expected, "a peek of {step:?}");
            let decision = check(limiter, key, &quota, cost);
            assert_eq!(Numbers::of(&decision), expected, "{step:?}");
            charged(decision, model.tats[key as usize]).or(kept)
        }
        Verb::Peek => {
            assert_eq!(Numbers::of(&account.peek_n(cost)), model.check(step, cost, false), "{step:?}");
            kept
        }
        Verb::UpTo => {
            let room = (tolerance - model.debt(key)).max(0) / emission;
            let units = if cost == 0 { 0 } else { room.min(cost.into()).max(1) as u64 };
            let expected = model.check(step, units, true);
            let decision = account.check_up_to(cost);
            assert_eq!(Numbers::of(&decision), expected, "{step:?}");
            charged(decision, model.tats[key as usize]).or(kept)
        }
        Verb::Debit => {
            model.charge(key, i128::from(cost) * emission);
            let decision = account.debit(cost).expect("there is room for all");
            let expected = model.numbers(step, Outcome::Allowed, cost);
            assert_eq!(Numbers::of(&decision), expected, "{step:?}");
            charged(decision, model.tats[key as usize]).or(kept)
        }
        Verb::Credit => {
            let back = model.debt(key).min(emission * i128::from(cost));
            model.tats[key as usize] -= back;
            assert_eq!(i128::from(account.credit(cost)), (back + emission - 1) / emission, "{step:?}");
            model.is_lossy = true;
            None
        }
        Verb::Reset => {
            account.reset();
            (model.tats[key as usize], model.is_lossy) = (0, true);
            None
        }
        Verb::Refund => {
            if let Some(mut newest) = kept {
                let units = i128::from(newest.receipt.left().min(cost));
                let left = (newest.tat - model.now).max(0).min(units * newest.emission);
                let found = i128::from(limiter.refund_part(&mut newest.receipt, cost));
                let given = model.give_back(limiter, newest.key, left);
                assert_eq!(found, (given + newest.emission - 1) / newest.emission, "{step:?}");
            }
            None
        }
        Verb::Reserve(max_wait, cancels) => {
            let charge = emission * i128::from(cost);
            let delay = if cost == 0 { 0 } else { (model.debt(key) + charge - tolerance).max(0) };
            match account.reserve(cost, Duration::from_nanos(max_wait)) {
                Ok(turn) => {
                    assert!(charge <= tolerance && delay <= max_wait.into(), "{step:?}");
                    assert_eq!(turn.delay().as_nanos() as i128, delay, "{step:?}");
                    model.charge(key, charge);
                    if cancels {
                        let found = i128::from(turn.cancel());
                        let given = model.give_back(limiter, key, charge);
                        assert_eq!(found * emission, given, "{step:?}");
                    }
                }
                Err(ReserveError::Never { .. }) => assert!(charge > tolerance, "{step:?}"),
                Err(ReserveError::TooLong { wait }) => {
                    assert!(charge <= tolerance && delay > max_wait.into(), "{step:?}");
                    assert_eq!(wait.as_nanos() as i128, delay, "{step:?}");
                }
                Err(error) => panic!("{error}"),
            }
            model.is_lossy = true;
            None
        }
        Verb::Lease => {
            let is_admitted = model.check(step, 1, true).outcome == Outcome::Allowed;
            let mut lease = account.lease().permits(cost);
            assert_eq!(lease.check().is_allowed(), is_admitted, "{step:?}");
            let held = emission * i128::from(lease.held());
            model.charge(key, held);
            drop(lease);
            model.give_back(limiter, key, held);
            None
        }
    };
    for key in 0..3 {
        assert_eq!(i128::from(debt(limiter, key)), model.debt(key), "of key {key} after {step:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_verb_under_a_call_is_plain_arithmetic(steps in steps()) {
        let (limiter, clock) = limiter(10_000);
        let (mut model, mut newest) = (Model::default(), None);
        for step in steps {
            model.now = i128::from(clock.now().as_nanos());
            play(&limiter, &mut model, &mut newest, step);
            clock.advance(Duration::from_nanos(step.pause));
        }
    }
}
