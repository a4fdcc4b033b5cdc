//! Several limits decide as the same limits do one by one, with and without an observer.

use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    CountPolicy, Decision, FixedWindow, Inherit, LeakyBucket, Limiter, MOST_LIMITS, ManualClock, Outcome,
    Quota, Rate, SlidingLog, SlidingWindow, TokenBucket,
};

type Alone = Limiter<u64, Quota, 1, ManualClock>;

/// Returns one of these algorithms. The first four are decided by the fast path of a check.
pub(crate) fn quota(algorithms: Range<u8>) -> impl Strategy<Value = Quota> {
    let rate = (1..12_u64, prop::sample::select(vec![1_u64, 7, 1_000, 60_000]))
        .prop_map(|(count, millis)| Rate::new(count, Duration::from_millis(millis)));
    let count = prop::sample::select(vec![CountPolicy::Allowed, CountPolicy::All]);
    (rate, count, algorithms, 1..20_u64).prop_map(|(rate, count, algorithm, burst)| match algorithm {
        0 => TokenBucket::new(rate).burst(burst).into(),
        1 => LeakyBucket::meter(rate).into(),
        2 => LeakyBucket::queue(rate).into(),
        3 => FixedWindow::new(rate).count(count).into(),
        4 => SlidingWindow::new(rate).count(count).into(),
        5 => SlidingWindow::new(rate).subwindows(3).count(count).into(),
        _ => SlidingLog::new(rate).count(count).into(),
    })
}

/// A key, a cost, the nanoseconds before the step, and whether it is refunded.
pub(crate) type Step = (u64, u64, u64, bool);

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let pause = prop_oneof![Just(0), 0..2_000_000_000_u64, 0..2_000_000_u64, Just(1_000_000_000)];
    (0..3_u64, 0..14_u64, pause, prop::bool::weighted(0.2))
}

/// Decides by the limits one by one, and charges them if all admit.
fn one_by_one(
    alone: &[Alone],
    key: u64,
    cost: u64,
    units: &mut Option<u64>,
    give_back: bool,
) -> (Outcome, u64, Option<Duration>, Option<usize>, Duration) {
    let now = alone[0].now();
    let peeks: Vec<_> = alone.iter().map(|limiter| limiter.account(key).at(now).peek_n(cost)).collect();
    let never = peeks.iter().position(|peek| peek.is_never());
    let waits: Vec<_> = peeks.iter().map(|peek| peek.retry_after()).collect();
    let longest = waits.iter().flatten().max().copied();
    let outcome = match (never, longest) {
        (Some(_), _) => Outcome::Never,
        (None, Some(_)) => Outcome::Denied,
        (None, None) => Outcome::Allowed,
    };
    let by =
        never.or_else(|| longest.and_then(|longest| waits.iter().position(|wait| *wait == Some(longest))));
    let (mut remaining, mut reset) = (u64::MAX, Duration::ZERO);
    for (limiter, wait) in alone.iter().zip(&waits) {
        // A limit that refuses sees the request and may count it. Other limits see admitted
        // requests only.
        let sees = outcome == Outcome::Allowed || (outcome == Outcome::Denied && wait.is_some());
        let decision = limiter.check_n(key, if sees { cost } else { 0 });
        remaining = remaining.min(decision.remaining());
        reset = reset.max(decision.reset_after());
        if give_back && outcome == Outcome::Allowed {
            let back = limiter.refund(decision);
            *units = Some(units.map_or(back, |units| units.min(back)));
        }
    }
    (outcome, remaining, longest.filter(|_| never.is_none()), by, reset)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_limits_admit_what_each_of_them_admits(
        quotas in prop::collection::vec(quota(0..7), 1..=8),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let clock = ManualClock::new();
        let alone: Result<Vec<Alone>, _> = quotas
            .iter()
            .map(|&quota| Limiter::builder(quota).per().clock(clock.clone()).max_keys(100).build())
            .collect();
        let several = Limiter::builder(quotas).per::<u64>().clock(clock.clone()).max_keys(100).build();
        prop_assert_eq!(alone.is_ok(), several.is_ok());
        let (Ok(alone), Ok(several)) = (alone, several) else { return Ok(()) };
        for (key, cost, pause, give_back) in steps {
            clock.advance(Duration::from_nanos(pause));
            let foreseen = format!("{:?}", several.account(key).at(several.now()).peek_n(cost));
            let decision = several.check_n(key, cost);
            prop_assert_eq!(foreseen, format!("{:?}", decision));
            let ours = (
                decision.outcome(),
                decision.remaining(),
                decision.retry_after(),
                decision.refused_by(),
                decision.reset_after(),
            );
            let mut units = None;
            let delay = decision.delay();
            let back = if give_back { several.refund(decision) } else { 0 };
            prop_assert_eq!(ours, one_by_one(&alone, key, cost, &mut units, give_back));
            prop_assert_eq!(back, units.unwrap_or(0));
            prop_assert!(delay.is_zero() || ours.0 == Outcome::Allowed);
        }
    }

    /// With an observer, every check takes the slow path. Without one, up to three buckets and
    /// windows take the fast path.
    #[test]
    fn several_limits_decide_the_same_with_an_observer(
        quotas in prop::collection::vec((quota(0..4), quota(0..4)), 1..=4),
        steps in prop::collection::vec(step(), 1..80),
        change in 0..80_usize,
    ) {
        let clock = ManualClock::new();
        let (quotas, later): (Vec<_>, Vec<_>) = quotas.into_iter().unzip();
        let builder = || Limiter::builder(quotas.clone()).per::<u64>().clock(clock.clone()).max_keys(100);
        let (Ok(alone), Ok(observed)) = (builder().build(), builder().on_decision(|_| ()).build()) else {
            return Ok(());
        };
        for (at, (key, cost, pause, give_back)) in steps.into_iter().enumerate() {
            if at == change {
                let [changed, too] = [&alone, &observed].map(|all| all.change().to(later.clone()).inherit(Inherit::AsIs).apply());
                prop_assert_eq!(changed, too);
            }
            clock.advance(Duration::from_nanos(pause));
            let [ours, theirs] = [&alone, &observed].map(|limiter| limiter.check_n(key, cost));
            prop_assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            let remaining = |decision: &Decision<'_, MOST_LIMITS>| {
                decision.parts().map(|part| (part.remaining(), part.reset_after())).collect::<Vec<_>>()
            };
            prop_assert_eq!(remaining(&ours), remaining(&theirs));
            if give_back {
                prop_assert_eq!(alone.refund(ours), observed.refund(theirs));
            }
        }
    }
}
