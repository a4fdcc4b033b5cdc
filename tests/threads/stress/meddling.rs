//! Everything at once: checks, peeks, resets and statistics on a table that is far too small.

use std::time::Duration;

use tollgate::{CountPolicy, Limiter, ManualClock, Outcome, Quota, WhenFull};
use tollgate_testing::random::Random;

use super::crew::crew;
use super::every;

const LIMIT: u64 = 4;

fn everything() -> impl Iterator<Item = Quota> {
    [CountPolicy::Allowed, CountPolicy::All].into_iter().flat_map(|count| every(LIMIT, count))
}

#[test]
fn every_operation_returns_a_plausible_answer_under_contention() {
    for quota in everything() {
        for (max_keys, when_full) in [(1, WhenFull::Share), (1, WhenFull::Allow), (20, WhenFull::Deny)] {
            let clock = ManualClock::new();
            let builder = Limiter::builder(quota).per::<u64>().max_keys(max_keys).when_full(when_full);
            let limiter = builder.clock(clock.clone()).build().unwrap();
            crew(3, |worker| {
                let mut random = Random::with_seed(worker.number as u64);
                for _ in 0..2_000 {
                    let (key, cost) = (random.u64(..50), random.u64(..LIMIT + 2));
                    match random.u64(..20) {
                        0 => drop(limiter.account(key).reset()),
                        1 => clock.advance(Duration::from_millis(random.u64(..300))),
                        2 => assert!(limiter.usage().live_keys <= 60),
                        _ => {
                            let now = limiter.now();
                            let look = random.u64(..4) == 0;
                            let decision = if look {
                                limiter.account(key).at(now).peek_n(cost)
                            } else {
                                limiter.check_n(key, cost)
                            };
                            assert_eq!(decision.outcome() == Outcome::Never, cost > LIMIT);
                            assert!(cost > 0 || decision.is_allowed());
                            assert!(decision.remaining() <= LIMIT, "{quota}: {decision:?}");
                            assert!(!decision.is_allowed() || decision.retry_after().is_none());
                        }
                    }
                    worker.count_operation();
                }
            });
        }
    }
}

#[test]
fn a_reset_after_contention_makes_a_key_new() {
    for quota in everything() {
        let limiter = Limiter::builder(quota).per::<u64>().clock(ManualClock::new()).max_keys(1_000);
        let limiter = limiter.build().unwrap();
        let global = Limiter::builder(quota).clock(ManualClock::new()).build().unwrap();
        for _ in 0..10 {
            crew(4, |worker| {
                let mut random = Random::with_seed(worker.number as u64);
                for _ in 0..500 {
                    let key = random.u64(..5);
                    if random.u64(..50) == 0 {
                        limiter.account(key).reset();
                        global.account(()).reset();
                    }
                    let _ = limiter.check_n(key, random.u64(1..=LIMIT));
                    let _ = global.check(());
                    worker.count_operation();
                }
            });
            for key in 0..5 {
                assert!(limiter.account(key).reset());
                assert!(limiter.check_n(key, LIMIT).is_allowed(), "{quota}");
                assert!(!limiter.check(key).is_allowed(), "{quota}");
            }
            global.account(()).reset();
            assert!(global.check_n((), LIMIT).is_allowed(), "{quota}");
            assert!(!global.check(()).is_allowed(), "{quota}");
        }
    }
}
