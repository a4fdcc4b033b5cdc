//! Changes that are made when the clock shows nearly the largest time that there is.

use std::time::Duration;

use tollgate::Inherit::{Additive, AsIs};
use tollgate::{
    Algorithm, BuildError, FixedWindow, Limiter, ManualClock, Quota, Rate, SlidingLog, SlidingWindow,
    TokenBucket,
};

use tollgate_testing::random::Random;

use super::{SECOND, at, keyed};

const RATE: Rate = Rate::new(10, Duration::from_millis(100));

/// How many of many requests are admitted.
fn drained<A: Algorithm>(limiter: &Limiter<u64, A, 1, ManualClock>) -> usize {
    (0..50).filter(|_| limiter.check(1).is_allowed()).count()
}

/// The clock shows a time near its end, and is right again after a change. No time comes back that
/// has been reached, so nothing refills.
#[test]
fn a_change_at_the_clocks_end_gives_nothing_anew() {
    for (number, quota) in [
        Quota::from(TokenBucket::new(RATE)),
        TokenBucket::new(Rate::new(1, Duration::from_millis(37))).burst(10).into(),
        TokenBucket::new(Rate::new(7_919, Duration::from_secs(79))).burst(10).into(),
        TokenBucket::new(RATE).by_intervals().into(),
        FixedWindow::new(RATE).into(),
        FixedWindow::new(RATE).from_first_hit().into(),
        SlidingWindow::new(RATE).into(),
        SlidingWindow::new(RATE).subwindows(3).into(),
        SlidingLog::new(RATE).into(),
    ]
    .into_iter()
    .enumerate()
    {
        for seed in 0..400 {
            let mut random = Random::with_seed(seed * 31 + number as u64);
            let (limiter, clock) = keyed(quota);
            let (mut script, mut admitted) = (String::new(), 0);
            let spans = [0, 1, 7, 1 << 28, 1 << 29, 1 << 30, 1 << 31];
            clock.set(at(u64::MAX - spans[random.usize(..spans.len())]));
            let _ = limiter.change().to(quota).inherit(Additive).apply();
            admitted += drained(&limiter);
            for _ in 0..random.usize(2..20) {
                match random.u32(..3) {
                    0 => clock.set(at(spans[random.usize(..spans.len())])),
                    1 => admitted += drained(&limiter),
                    _ => drop(
                        limiter
                            .change()
                            .to(quota)
                            .inherit(if random.bool() { Additive } else { AsIs })
                            .apply(),
                    ),
                }
                script += &format!("{} {admitted}; ", limiter.now().as_nanos());
                assert!(admitted <= 10, "{quota}, seed {seed}: {script}");
            }
        }
    }
}

/// A version counts the time since its start: so that this is never around the end of a number, no
/// version starts when half of all numbers have passed.
#[test]
fn a_change_after_centuries_is_an_error() {
    for (shown, expected) in [
        (1 << 62, Ok(())),
        (u64::MAX - (u64::MAX >> 1), Ok(())),
        ((1 << 63) + 1, Err(BuildError::ChangedTooOften)),
        (u64::MAX, Err(BuildError::ChangedTooOften)),
    ] {
        let (limiter, clock) = keyed(TokenBucket::new(RATE));
        clock.set(at(shown));
        assert_eq!(limiter.change().to(TokenBucket::new(RATE)).inherit(AsIs).apply(), expected, "at {shown}");
        // Windows and logs have no time of their own in each version.
        let (limiter, clock) = keyed(SlidingLog::new(RATE));
        clock.set(at(shown));
        assert_eq!(
            limiter.change().to(SlidingLog::new(RATE)).inherit(Additive).apply(),
            Ok(()),
            "at {shown}"
        );
    }
}

/// The time of a turn and the time of a check were told apart.
#[test]
fn a_turn_of_several_limits_after_a_late_change_returns() {
    let limits = [TokenBucket::new(RATE), TokenBucket::new(Rate::per_second(2))];
    for back in [0, 1, 5, 1 << 28, 1 << 29, 1 << 31, 1 << 60] {
        for later in [0, 1 << 28, 1 << 29, SECOND, u64::MAX - back, u64::MAX] {
            let clock = ManualClock::new();
            let limiter = Limiter::builder(limits).per::<u64>().clock(clock.clone()).build().unwrap();
            clock.set(at(u64::MAX - back));
            let _ = limiter.change().to(limits).inherit(Additive).apply();
            assert!(limiter.check_n(1, 2).is_allowed());
            clock.set(at(later));
            for cost in [1, 2, 2] {
                let _ = limiter.account(1).reserve(cost, Duration::MAX);
                let _ = limiter.account(1).reserve(cost, Duration::ZERO);
            }
        }
    }
}
