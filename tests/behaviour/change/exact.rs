//! Random checks and changes of a bucket, compared with exact rational arithmetic.

use proptest::prelude::*;
use tollgate::{Inherit, Limiter, ManualClock, TokenBucket};

use super::{at, per};

/// `count` tokens in `nanos` nanoseconds, in lowest terms, in a bucket of `burst`.
#[derive(Clone, Copy, Debug)]
struct Limit {
    count: u64,
    nanos: u64,
    burst: u64,
}

impl Limit {
    fn quota(self) -> TokenBucket {
        TokenBucket::new(per(self.count, self.nanos)).burst(self.burst)
    }
}

/// The debt of a key in units of `1 / nanos` token: `count` of them drain each nanosecond. Only a
/// change rounds, up to the next unit of the new limit.
#[derive(Clone, Copy, Debug)]
struct Model {
    limit: Limit,
    owed: u128,
    now: u64,
}

impl Model {
    fn advance(&mut self, now: u64) {
        if now > self.now {
            let dripped = u128::from(now - self.now) * u128::from(self.limit.count);
            self.owed = self.owed.saturating_sub(dripped);
            self.now = now;
        }
    }

    fn check(&mut self, cost: u64) -> bool {
        let owed = self.owed + u128::from(cost) * u128::from(self.limit.nanos);
        let allowed = owed <= u128::from(self.limit.burst) * u128::from(self.limit.nanos);
        if allowed {
            self.owed = owed;
        }
        allowed
    }

    fn remaining(&self) -> u64 {
        let full = u128::from(self.limit.burst) * u128::from(self.limit.nanos);
        (full.saturating_sub(self.owed) / u128::from(self.limit.nanos)) as u64
    }

    /// Converts the available tokens, the full bucket less the debt, as `inherit` defines it.
    fn change(&mut self, new: Limit, inherit: Inherit) {
        let old = self.limit;
        let (old_nanos, new_nanos) = (i128::from(old.nanos), i128::from(new.nanos));
        let (old_burst, new_burst) = (i128::from(old.burst), i128::from(new.burst));
        // The available tokens times `unit`.
        let (available, unit) = (old_burst * old_nanos - self.owed as i128, old_nanos);
        let (available, unit) = match inherit {
            Inherit::AsIs => (available.min(new_burst * unit), unit),
            Inherit::Proportional => (available * new_burst, unit * old_burst),
            Inherit::Additive => ((available + (new_burst - old_burst) * unit).max(0), unit),
            Inherit::Reset => (new_burst, 1),
            other => unreachable!("{other:?}"),
        };
        let owed = (new_burst * unit - available) * new_nanos;
        self.owed = u128::try_from((owed + unit - 1) / unit).unwrap();
        self.limit = new;
    }
}

#[derive(Clone, Debug)]
enum Op {
    Check(u64, u64),
    Advance(u64),
    Change(Limit, Inherit),
}

/// Limits whose units fit a word exactly: at most 7 tokens in lowest terms, from 1 in 10 days to 7
/// a nanosecond.
fn limit() -> impl Strategy<Value = Limit> {
    let nanos = prop_oneof![1_u64..20, 100_u64..10_000, Just(1_000_000_000), Just(864_000_000_000_000)];
    (1_u64..=7, nanos, prop_oneof![1_u64..=3, 1_u64..=200]).prop_map(|(count, nanos, burst)| {
        let common = (1..=count).rev().find(|&common| count % common == 0 && nanos % common == 0).unwrap();
        Limit { count: count / common, nanos: nanos / common, burst }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let inherit = prop_oneof![
        Just(Inherit::AsIs),
        Just(Inherit::Proportional),
        Just(Inherit::Additive),
        Just(Inherit::Reset),
    ];
    prop_oneof![
        6 => (0_u64..4, prop_oneof![1_u64..4, 1_u64..210]).prop_map(|(key, cost)| Op::Check(key, cost)),
        3 => prop_oneof![0_u64..5, 0_u64..10_000, 0_u64..5_000_000_000].prop_map(Op::Advance),
        2 => (limit(), inherit).prop_map(|(limit, inherit)| Op::Change(limit, inherit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_500 } else { 60_000 }))]

    #[test]
    fn every_answer_is_that_of_exact_arithmetic(first in limit(), ops in prop::collection::vec(op(), 1..60)) {
        let clock = ManualClock::new();
        let builder = Limiter::builder(first.quota()).per::<u64>().clock(clock.clone());
        let limiter = builder.build().unwrap();
        let mut keys = [Model { limit: first, owed: 0, now: 0 }; 4];
        let mut now = 0;
        for op in ops {
            match op {
                Op::Advance(by) => {
                    now += by;
                    clock.set(at(now));
                }
                Op::Change(limit, inherit) => {
                    prop_assert_eq!(limiter.change().to(limit.quota()).inherit(inherit).apply(), Ok(()));
                    for model in &mut keys {
                        model.advance(now);
                        model.change(limit, inherit);
                    }
                }
                Op::Check(key, cost) => {
                    let model = &mut keys[key as usize];
                    model.advance(now);
                    let decision = limiter.check_n(key, cost);
                    let allowed = model.check(cost);
                    prop_assert_eq!(decision.is_allowed(), allowed, "key {} cost {} at {}", key, cost, now);
                    prop_assert_eq!(decision.remaining(), model.remaining());
                    if let Some(wait) = decision.retry_after() {
                        let wait = u64::try_from(wait.as_nanos()).unwrap();
                        let after = |wait| {
                            let mut later = *model;
                            later.advance(now + wait);
                            later.check(cost)
                        };
                        prop_assert!(!after(wait - 1) && after(wait), "wait {}", wait);
                    }
                }
            }
        }
        for (key, model) in keys.iter_mut().enumerate() {
            model.advance(now);
            let left = limiter.account(key as u64).at(at(now)).peek_n(0).remaining();
            prop_assert_eq!(left, model.remaining());
        }
    }
}
