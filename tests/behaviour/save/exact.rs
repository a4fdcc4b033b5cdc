//! A restored limiter compared with one that was never saved.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{
    CountPolicy, Decision, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, Rate, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket,
};

use super::{SECOND, Subject, clock};

/// The first zero of the clock, which is no multiple of any period.
pub(crate) const BEGUN: u64 = 1_700_000_000 * SECOND + 123_456_789;

/// Every algorithm in every form with a different word, but without grains, which are below.
pub(crate) fn quotas() -> Vec<Quota> {
    let second = |count| Rate::new(count, Duration::from_secs(1));
    let odd = Rate::new(7, Duration::from_nanos(999_999_937));
    vec![
        TokenBucket::new(second(10)).burst(5).into(),
        TokenBucket::new(odd).burst(20).into(),
        TokenBucket::new(Rate::per_hour(6)).initial(2).into(),
        TokenBucket::new(second(10)).burst(25).by_intervals().into(),
        TokenBucket::new(Rate::per_minute(7)).initial(2).by_intervals().into(),
        FixedWindow::new(second(3)).from_first_hit().into(),
        FixedWindow::new(Rate::per_minute(2)).count(CountPolicy::All).from_first_hit().into(),
        LeakyBucket::meter(second(3)).into(),
        LeakyBucket::queue(Rate::per_minute(6)).capacity(4).into(),
        FixedWindow::new(second(5)).into(),
        FixedWindow::new(Rate::per_minute(4)).count(CountPolicy::All).into(),
        SlidingWindow::new(second(6)).into(),
        SlidingWindow::new(Rate::per_minute(1_000_000)).into(),
        SlidingWindow::new(odd).count(CountPolicy::All).into(),
        SlidingWindow::new(second(6)).subwindows(3).into(),
        SlidingWindow::new(Rate::per_hour(9)).subwindows(7).count(CountPolicy::All).into(),
        SlidingLog::new(second(5)).into(),
        SlidingLog::new(second(1)).into(),
        SlidingLog::new(Rate::per_hour(4)).into(),
        SlidingLog::new(Rate::per_minute(3)).count(CountPolicy::All).into(),
    ]
}

/// An operation on the limiter.
#[derive(Clone, Debug)]
enum Op {
    Wait(u64),
    Check { key: u64, cost: u64 },
    Refund { key: u64, cost: u64 },
    Reset { key: u64 },
}

/// The life of a process: the gap before it, the time that its clock shows at first, and the
/// operations.
type Life = (u64, u64, Vec<Op>);

pub(crate) fn span() -> impl Strategy<Value = u64> {
    let usual = select(vec![0, 1, SECOND, SECOND / 7, 20 * SECOND, 60 * SECOND, 3_600 * SECOND]);
    prop_oneof![2 => usual, 1 => 0..2 * SECOND, 1 => 0..7_200 * SECOND]
}

fn op() -> impl Strategy<Value = Op> {
    let cost = || prop_oneof![6 => 0..=3_u64, 1 => 1..=10_u64, 1 => 100_000..900_000_u64];
    prop_oneof![
        3 => span().prop_map(Op::Wait),
        8 => (0..3_u64, cost()).prop_map(|(key, cost)| Op::Check { key, cost }),
        1 => (0..3_u64, cost()).prop_map(|(key, cost)| Op::Refund { key, cost }),
        1 => (0..3_u64).prop_map(|key| Op::Reset { key }),
    ]
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let shown = || prop_oneof![1 => Just(0_u64), 2 => span(), 1 => 0..1_000_000 * SECOND];
    let life = (span(), shown(), prop::collection::vec(op(), 0..12));
    prop::collection::vec(life, 2..4)
}

/// Every field of a decision.
pub(crate) fn answer(decision: &Decision<'_>) -> String {
    format!(
        "allowed {} never {} limit {} remaining {} retry {:?} reset {:?} delay {:?}",
        decision.is_allowed(),
        decision.is_never(),
        decision.limit(),
        decision.remaining(),
        decision.retry_after(),
        decision.reset_after(),
        decision.delay(),
    )
}

/// Runs the lives on a limiter that is never saved and on one that is saved and restored between
/// them.
fn restarts_change_nothing(quota: Quota, lives: &[Life]) -> Result<(), TestCaseError> {
    let builder = || Limiter::builder(quota).per::<u64>().max_keys(8);
    let global = || Limiter::builder(quota);
    let mut unix = BEGUN;
    let lasting_clock = clock(unix, 0);
    let lasting = builder().clock(lasting_clock.clone()).build().unwrap();
    let lasting_global = global().clock(lasting_clock.clone()).build().unwrap();
    let mut file = Vec::new();
    let mut global_file = Vec::new();
    for (number, (away, shown, ops)) in lives.iter().enumerate() {
        unix += if number == 0 { 0 } else { *away };
        let shown = if number == 0 { 0 } else { *shown };
        let zero = unix - shown;
        let now = ManualClock::starting_at(Duration::from_nanos(zero));
        now.set(Timestamp::from_nanos(shown));
        lasting_clock.set(Timestamp::from_nanos(unix - BEGUN));
        let (brief, brief_global) = if number == 0 {
            (builder().clock(now.clone()).build().unwrap(), global().clock(now.clone()).build().unwrap())
        } else {
            let brief = builder().clock(now.clone()).restore(&file[..]).unwrap();
            (brief, global().clock(now.clone()).restore(&global_file[..]).unwrap())
        };
        for op in ops {
            match *op {
                Op::Wait(nanos) => unix += nanos,
                Op::Check { key, cost } => {
                    let (one, other) = (lasting.check_n(key, cost), brief.check_n(key, cost));
                    prop_assert_eq!(answer(&one), answer(&other), "key {}, life {}", key, number);
                    let (one, other) = (lasting_global.check_n((), cost), brief_global.check_n((), cost));
                    prop_assert_eq!(answer(&one), answer(&other), "global, life {}", number);
                }
                Op::Refund { key, cost } => {
                    let one = lasting.refund(lasting.check_n(key, cost));
                    prop_assert_eq!(one, brief.refund(brief.check_n(key, cost)), "refund of {}", key);
                }
                Op::Reset { key } => {
                    lasting.account(key).reset();
                    brief.account(key).reset();
                }
            }
            lasting_clock.set(Timestamp::from_nanos(unix - BEGUN));
            now.set(Timestamp::from_nanos(unix - zero));
            for key in 0..3 {
                prop_assert_eq!(answer(&lasting.peek(key)), answer(&brief.peek(key)), "peek of {}", key);
            }
            prop_assert_eq!(answer(&lasting_global.peek(())), answer(&brief_global.peek(())), "global peek");
        }
        file.clear();
        brief.save(&mut file).unwrap();
        global_file.clear();
        brief_global.save(&mut global_file).unwrap();
    }
    Ok(())
}

pub(crate) fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(1_500))]

    #[test]
    fn a_restored_limiter_answers_as_the_saved_one_would(quota in select(quotas()), lives in lives()) {
        restarts_change_nothing(quota, &lives)?;
    }

    #[test]
    fn a_rate_in_grains_is_restored_within_a_grain(
        cost in 1..=300_u64, away in span(), shown in span(), later in span(),
    ) {
        let quota = TokenBucket::new(Rate::new(14_500, Duration::from_secs(60))).burst(300);
        let before = clock(BEGUN + 5 * SECOND, 5 * SECOND);
        let saved: Subject = Limiter::builder(Quota::from(quota)).per().max_keys(8).clock(before.clone()).build().unwrap();
        prop_assert!(saved.resolution().grains.is_some());
        let _ = saved.check_n(7, cost);
        let unix = BEGUN + 5 * SECOND + away;
        let after = clock(unix, shown);
        let restored: Subject =
            Limiter::builder(Quota::from(quota)).per().max_keys(8).clock(after.clone()).restore(&super::saved(&saved)[..]).unwrap();
        for nanos in [0, later] {
            before.set(Timestamp::from_nanos(unix + nanos - BEGUN));
            after.set(Timestamp::from_nanos(shown + nanos));
            let (one, other) = (saved.account(7).at(saved.now()).peek_n(0), restored.account(7).at(restored.now()).peek_n(0));
            prop_assert!(other.remaining() <= one.remaining());
            prop_assert!(other.reset_after() >= one.reset_after());
            prop_assert!(other.reset_after() <= one.reset_after() + Duration::from_nanos(1));
        }
    }
}

#[test]
fn tiers_are_restored_each() {
    let tier = |count| TokenBucket::new(Rate::per_minute(count)).initial(1);
    let builder = || Limiter::builder(tier(10)).per::<str>().tier(tier(60));
    let before = clock(BEGUN, 0);
    let saved = builder().clock(before.clone()).build().unwrap();
    let _ = saved.account("paid").tier(1).unwrap().check();
    let mut file = Vec::new();
    assert_eq!(saved.save(&mut file).unwrap(), 1);
    let restored = builder().clock(clock(BEGUN + 7 * SECOND, SECOND)).restore(&file[..]).unwrap();
    before.advance(Duration::from_secs(7));
    for key in ["paid", "other"] {
        for tier in [0, 1] {
            let (one, other) = (
                saved.account(key).tier(tier).unwrap().peek(),
                restored.account(key).tier(tier).unwrap().peek(),
            );
            assert_eq!(answer(&one), answer(&other), "{key} in tier {tier}");
        }
    }
}
