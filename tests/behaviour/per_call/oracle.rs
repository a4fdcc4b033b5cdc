//! Random programs whose quotas change at each call, beside arithmetic in 128 bits.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Decision, Lent, Outcome, Timestamp};

use super::{SECOND, check, limiter, nanos, peek, wait};

/// A key's TAT; a key that is not there has none.
#[derive(Default)]
struct Oracle(HashMap<u64, i128>);

/// What the oracle says of a call.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    outcome: Outcome,
    limit: i128,
    remaining: i128,
    retry_after: Option<i128>,
    reset_after: i128,
}

/// A call, in numbers as a user has them.
#[derive(Clone, Copy, Debug)]
struct Call {
    key: u64,
    emission: u64,
    tolerance: u64,
    cost: u64,
}

impl Call {
    fn quota(self) -> Lent {
        nanos(self.emission, self.tolerance)
    }
}

impl Oracle {
    fn debt(&self, key: u64, now: i128) -> i128 {
        (self.0.get(&key).copied().unwrap_or(0) - now).max(0)
    }

    fn answer(&self, call: Call, now: i128) -> Answer {
        let (emission, tolerance) = (i128::from(call.emission), i128::from(call.tolerance));
        let (debt, charge) = (self.debt(call.key, now), i128::from(call.cost) * emission);
        let outcome = match () {
            () if charge > tolerance => Outcome::Never,
            () if charge == 0 || debt + charge <= tolerance => Outcome::Allowed,
            () => Outcome::Denied,
        };
        let after = if outcome == Outcome::Allowed { debt + charge } else { debt };
        Answer {
            outcome,
            limit: tolerance / emission,
            remaining: (tolerance - after).max(0) / emission,
            retry_after: (outcome == Outcome::Denied).then(|| debt + charge - tolerance),
            reset_after: after,
        }
    }

    fn charge(&mut self, call: Call, now: i128) {
        let charge = i128::from(call.cost) * i128::from(call.emission);
        if charge > 0 {
            self.0.insert(call.key, now + self.debt(call.key, now) + charge);
        }
    }
}

fn seen(decision: &Decision<'_>) -> Answer {
    Answer {
        outcome: decision.outcome(),
        limit: decision.limit().into(),
        remaining: decision.remaining().into(),
        retry_after: wait(decision).map(Into::into),
        reset_after: decision.reset_after().as_nanos() as i128,
    }
}

/// From nanoseconds to months, and never above what fits. `is_small`: nanoseconds only, so that
/// debts meet tolerances exactly.
fn durations(is_small: bool) -> impl Strategy<Value = u64> {
    let months = (1..10_000_000_u64).prop_map(|seconds| seconds * SECOND);
    prop_oneof![1..20_u64, 1..SECOND, months]
        .prop_map(move |nanos| if is_small { 1 + nanos % 9 } else { nanos })
}

fn calls(keys: u64, is_small: bool) -> impl Strategy<Value = Call> {
    let tolerances = prop_oneof![Just(0), 0..30_u64, durations(is_small)];
    let costs = prop_oneof![0..4_u64, 0..if is_small { 15 } else { 900_u64 }];
    (0..keys, durations(is_small), tolerances, costs).prop_map(|(key, emission, more, cost)| {
        let tolerance = emission * (1 + more % 12) + more % emission;
        Call { key, emission, tolerance, cost }
    })
}

/// A call, and the nanoseconds until the next.
fn steps(keys: u64) -> impl Strategy<Value = Vec<(Call, u64)>> {
    any::<bool>().prop_flat_map(move |is_small| {
        let pauses = prop_oneof![3 => Just(0), 2 => 1..50_u64, 2 => durations(is_small)];
        prop::collection::vec((calls(keys, is_small), pauses), 1..120)
    })
}

/// The same with many steps and short pauses.
fn crowds(keys: u64) -> impl Strategy<Value = Vec<(Call, u64)>> {
    any::<bool>().prop_flat_map(move |is_small| {
        let pauses = prop_oneof![4 => Just(0), 1 => 1..if is_small { 4 } else { SECOND }];
        prop::collection::vec((calls(keys, is_small), pauses), 500..900)
    })
}

proptest! {
    /// Of many keys, in a table with room for all.
    #[test]
    fn every_answer_is_that_of_plain_arithmetic(steps in steps(5)) {
        let (limiter, clock) = limiter(10_000);
        let mut oracle = Oracle::default();
        for (call, pause) in steps {
            let now = i128::from(limiter.now().as_nanos());
            let expected = oracle.answer(call, now);
            let quota = call.quota();
            let peeked = peek(&limiter, call.key, &quota, call.cost);
            prop_assert_eq!(&seen(&peeked), &expected, "a peek of {:?}", call);
            let decision = check(&limiter, call.key, &quota, call.cost);
            prop_assert_eq!(&seen(&decision), &expected, "{:?}", call);
            if decision.is_allowed() {
                oracle.charge(call, now);
            }
            clock.advance(Duration::from_nanos(pause));
        }
    }

    /// Of one key, which nothing displaces, under a clock that steps both ways.
    #[test]
    fn a_clock_that_steps_changes_no_debt(steps in steps(1), times in prop::collection::vec(0..100 * SECOND, 120)) {
        let (limiter, clock) = limiter(100);
        let mut oracle = Oracle::default();
        for ((call, pause), time) in steps.into_iter().zip(times) {
            clock.set(Timestamp::from_nanos(if pause.is_multiple_of(3) { time } else { time % 1_000 + pause }));
            let now = i128::from(limiter.now().as_nanos());
            let quota = call.quota();
            let decision = check(&limiter, call.key, &quota, call.cost);
            prop_assert_eq!(seen(&decision), oracle.answer(call, now), "{:?} at {}", call, now);
            if decision.is_allowed() {
                oracle.charge(call, now);
            }
        }
    }

    /// A refused call is refused a nanosecond before its wait is over, and admitted then.
    #[test]
    fn a_refused_call_passes_exactly_after_its_wait(call in any::<bool>().prop_flat_map(|is_small| calls(1, is_small)), burst in 1..100_u64) {
        let (limiter, clock) = limiter(100);
        let (first, quota) = (nanos(call.emission, call.emission * burst), call.quota());
        prop_assert!(check(&limiter, call.key, &first, burst).is_allowed());
        let decision = check(&limiter, call.key, &quota, call.cost);
        if let Some(wait) = wait(&decision) {
            clock.set(Timestamp::from_nanos(wait - 1));
            prop_assert!(!check(&limiter, call.key, &quota, call.cost).is_allowed());
            clock.set(Timestamp::from_nanos(wait));
            prop_assert!(check(&limiter, call.key, &quota, call.cost).is_allowed());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Of more keys than fit: each answer may be that of a larger debt, or a refusal that charges
    /// nothing. No key is ever admitted beyond its own debt.
    #[test]
    fn a_full_table_forgets_no_debt_of_any_key(
        steps in crowds(200),
    ) {
        let (limiter, clock) = limiter(1);
        let mut oracle = Oracle::default();
        for (call, pause) in steps {
            let now = i128::from(limiter.now().as_nanos());
            let least = oracle.debt(call.key, now);
            let before = limiter.stats();
            let quota = call.quota();
            let decision = check(&limiter, call.key, &quota, call.cost);
            let full = limiter.stats().refused_full - before.refused_full;
            if decision.is_full() {
                let is_look = call.cost == 0 || call.cost > call.tolerance / call.emission;
                prop_assert_eq!((full, decision.is_allowed()), (u64::from(!is_look), call.cost == 0));
            } else {
                prop_assert_eq!(full, 0);
                let after = seen(&decision).reset_after;
                let charge = i128::from(call.cost) * i128::from(call.emission);
                if decision.is_allowed() && call.cost > 0 {
                    prop_assert!(after >= least + charge, "{:?} had {}", call, least);
                    prop_assert!(after <= i128::from(call.tolerance), "{:?}", call);
                    oracle.charge(call, now);
                } else {
                    prop_assert!(after >= least, "{:?} had {}", call, least);
                }
            }
            clock.advance(Duration::from_nanos(pause));
        }
    }
}
