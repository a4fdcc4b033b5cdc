//! A limiter whose quota was changed, saved and restored: it answers as if it had never been saved.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::Inherit::{Additive, AsIs, Proportional, Reset};
use tollgate::{
    CountPolicy, FixedWindow, Inherit, LeakyBucket, Limiter, ManualClock, Quota, Rate, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket,
};

use super::exact::{BEGUN, span};
use super::{SECOND, Subject, clock, saved};

fn restored(quota: Quota, file: &[u8], clock: &ManualClock) -> Subject {
    Limiter::builder(quota)
        .per()
        .max_keys(8)
        .clock(clock.clone())
        .restore(file)
        .expect("it was saved just now")
}

fn built(quota: Quota, clock: &ManualClock) -> Subject {
    Limiter::builder(quota).per().max_keys(8).clock(clock.clone()).build().expect("the quota is ordinary")
}

fn left(limiter: &Subject, key: u64) -> u64 {
    limiter.account(key).at(limiter.now()).peek_n(0).remaining()
}

/// Ten a minute were all available; they stay all that is until the minute ends.
#[test]
fn a_key_never_seen_has_no_more_after_a_restart() {
    let quota = |count| Quota::from(FixedWindow::new(Rate::per_minute(count)));
    for shown in [0, 20 * SECOND, 1_000_000 * SECOND] {
        let before = clock(BEGUN, shown);
        let limiter = built(quota(10), &before);
        assert!(limiter.check_n(1, 4).is_allowed());
        limiter.change().to(quota(100)).inherit(AsIs).apply().unwrap();
        assert_eq!((left(&limiter, 1), left(&limiter, 2)), (6, 10));
        let mut file = saved(&limiter);
        // The window is over before the next clock begins.
        let minute = || clock(BEGUN + 60 * SECOND, 0);
        let late = restored(quota(100), &file, &minute());
        let late = restored(quota(100), &saved(&late), &minute());
        assert_eq!((left(&late, 1), left(&late, 2)), (100, 100));
        for restart in 0..3 {
            let after = clock(BEGUN + restart, 7 * restart);
            let limiter = restored(quota(100), &file, &after);
            assert_eq!((left(&limiter, 1), left(&limiter, 2)), (6, 10), "restart {restart}");
            file = saved(&limiter);
            let reset = limiter.account(2).at(limiter.now()).peek_n(0).reset_after();
            assert!(reset > Duration::ZERO && reset < Duration::from_secs(60));
            after.advance(reset);
            assert_eq!((left(&limiter, 1), left(&limiter, 2)), (100, 100), "restart {restart}");
            let again = clock(BEGUN + restart + reset.as_nanos() as u64, 0);
            let again = restored(quota(100), &saved(&limiter), &again);
            assert_eq!((left(&again, 1), left(&again, 2)), (100, 100), "restart {restart}");
        }
    }
}

/// Both counts of the window are far above the new limit, and above what a window that is built for
/// it has room for.
#[test]
fn a_lowered_sliding_window_keeps_its_counts_over_a_restart() {
    let quota = |count| Quota::from(SlidingWindow::new(Rate::per_second(count)));
    let before = clock(BEGUN, 0);
    let limiter = built(quota(4_000_000), &before);
    assert!(limiter.check_n(1, 4_000_000).is_allowed());
    limiter.change().to(quota(60_000)).inherit(Additive).apply().unwrap();
    let after = clock(BEGUN, 5 * SECOND);
    let restored = restored(quota(60_000), &saved(&limiter), &after);
    assert_eq!(limiter.resolution(), restored.resolution());
    for milliseconds in 0..3_000 {
        assert_eq!(left(&limiter, 1), left(&restored, 1), "after {milliseconds} ms");
        before.advance(Duration::from_millis(1));
        after.advance(Duration::from_millis(1));
    }
}

/// Ten units are in the window, seven more than the new limit: a credit of three leaves none.
#[test]
fn a_lowered_log_keeps_all_times_over_a_restart() {
    let quota = |count| Quota::from(SlidingLog::new(Rate::per_minute(count)));
    let before = clock(BEGUN, 0);
    let limiter = built(quota(10), &before);
    assert!(limiter.check_n(1, 10).is_allowed());
    limiter.change().to(quota(3)).inherit(Additive).apply().unwrap();
    let after = clock(BEGUN, SECOND);
    let restored = restored(quota(3), &saved(&limiter), &after);
    for units in [3, 3, 3, 1] {
        let credits = [&limiter, &restored].map(|limiter| limiter.account(1).credit(units));
        assert_eq!(credits[0], credits[1]);
        assert_eq!(left(&limiter, 1), left(&restored, 1));
    }
    assert_eq!(left(&restored, 1), 3);
    assert!(
        restored.change().to(quota(10)).inherit(Additive).apply().is_ok(),
        "its ring has room for ten still"
    );
}

/// Some rates have no common grain that is fine enough. A later version has another range of
/// payloads, so it may find one, and the limiter that is built to go on would not.
#[test]
fn what_no_limiter_can_be_built_with_is_no_change() {
    let slow = [(Rate::per_minute(3), Rate::per_day(50)), (Rate::per_day(1), Rate::per_day(1))];
    let fast = [60, 250, 300, 500, 999, 1_000, 5_000];
    let (mut refused, mut saved) = (0, 0);
    for (first, second) in slow {
        for wait in [0, SECOND, 86_400 * SECOND] {
            for (count, other) in fast.into_iter().flat_map(|count| [(count, 17), (count, 250)]) {
                let clock = ManualClock::new();
                let build = |tiers: [Rate; 2]| {
                    let [first, second] = tiers.map(TokenBucket::new);
                    Limiter::builder(first).per::<u64>().tier(second).clock(clock.clone()).max_keys(8)
                };
                let limiter = build([first, second]).build().expect("these have a common grain");
                clock.advance(Duration::from_nanos(wait));
                let rates = [count, other].map(Rate::per_second);
                let [one, two] = rates.map(TokenBucket::new);
                let change = limiter.change().to(one).tier(1, two).inherit(Additive).apply();
                if let Err(error) = build(rates).build() {
                    assert_eq!(change, Err(error), "{count} and {other} a second");
                    refused += 1;
                } else if change.is_ok() {
                    let mut file = Vec::new();
                    limiter.save(&mut file).expect("it is written to memory");
                    assert!(build(rates).restore(&file[..]).is_ok(), "{count} and {other} a second");
                    saved += 1;
                }
            }
        }
    }
    assert!(refused > 10 && saved > 10, "{refused} were refused, {saved} saved");
}

/// An operation on the limiter.
#[derive(Clone, Debug)]
enum Op {
    Wait(u64),
    Check {
        key: u64,
        cost: u64,
    },
    Refund {
        key: u64,
        cost: u64,
    },
    Credit {
        key: u64,
        units: u64,
    },
    Debit {
        key: u64,
        cost: u64,
    },
    Reset {
        key: u64,
    },
    Change {
        to: usize,
        inherit: Inherit,
    },
    /// The time between, and what the next clock shows.
    Restart {
        away: u64,
        shown: u64,
    },
}

/// The quotas that a limiter is changed to and fro between.
fn families() -> Vec<Vec<Quota>> {
    let second = |count| Rate::new(count, Duration::from_secs(1));
    let bucket = |count, burst| Quota::from(TokenBucket::new(second(count)).burst(burst));
    let minute = |count, burst| TokenBucket::new(Rate::per_minute(count)).burst(burst);
    let fixed = |rate| Quota::from(FixedWindow::new(rate));
    let log = |count| Quota::from(SlidingLog::new(second(count)));
    let sliding = |count| Quota::from(SlidingWindow::new(second(count)));
    let parts =
        |count| SlidingWindow::new(Rate::per_minute(count)).subwindows(3).count(CountPolicy::All).into();
    let own = |count| FixedWindow::new(second(count)).from_first_hit().into();
    vec![
        vec![bucket(2, 5), bucket(1, 40), bucket(4, 1), bucket(5, 10)],
        vec![minute(6, 3).by_intervals().into(), minute(3, 30).by_intervals().into()],
        vec![
            LeakyBucket::queue(second(2)).capacity(9).into(),
            LeakyBucket::queue(Rate::per_minute(30)).capacity(4).into(),
        ],
        vec![fixed(second(10)), fixed(second(100)), fixed(Rate::per_minute(3)), fixed(Rate::per_hour(20))],
        vec![log(9), log(2), log(5)],
        vec![sliding(6), sliding(1), sliding(900_000)],
        vec![parts(9), parts(2), parts(30)],
        vec![own(3), own(2), own(1)],
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let cost = || prop_oneof![6 => 0..=3_u64, 2 => 1..=40_u64, 1 => 100_000..900_000_u64];
    let inherit = select(vec![AsIs, Proportional, Additive, Reset]);
    prop_oneof![
        3 => span().prop_map(Op::Wait),
        9 => (0..3_u64, cost()).prop_map(|(key, cost)| Op::Check { key, cost }),
        1 => (0..3_u64, cost()).prop_map(|(key, cost)| Op::Refund { key, cost }),
        1 => (0..3_u64, cost()).prop_map(|(key, units)| Op::Credit { key, units }),
        1 => (0..3_u64, 1..9_u64).prop_map(|(key, cost)| Op::Debit { key, cost }),
        1 => (0..3_u64).prop_map(|key| Op::Reset { key }),
        4 => (0..4_usize, inherit).prop_map(|(to, inherit)| Op::Change { to, inherit }),
        3 => (span(), span()).prop_map(|(away, shown)| Op::Restart { away, shown }),
    ]
}

/// The limiter that is restarted, and the one beside it that never is.
struct Both {
    lasting: Subject,
    lasting_clock: ManualClock,
    brief: Subject,
    brief_clock: ManualClock,
    /// The Unix times now, and of the zero of the brief one's clock.
    unix: u64,
    zero: u64,
}

impl Both {
    fn set(&self) {
        self.lasting_clock.set(Timestamp::from_nanos(self.unix - BEGUN));
        self.brief_clock.set(Timestamp::from_nanos(self.unix - self.zero));
    }

    fn each<T>(&self, ask: impl Fn(&Subject) -> T) -> [T; 2] {
        [ask(&self.lasting), ask(&self.brief)]
    }
}

fn restarts_after_changes_change_nothing(family: &[Quota], ops: &[Op]) -> Result<(), TestCaseError> {
    let (lasting_clock, brief_clock) = (clock(BEGUN, 0), clock(BEGUN, 0));
    let mut quota = family[0];
    let (lasting, brief) = (built(quota, &lasting_clock), built(quota, &brief_clock));
    let mut both = Both { lasting, lasting_clock, brief, brief_clock, unix: BEGUN, zero: BEGUN };
    for (number, op) in ops.iter().enumerate() {
        match *op {
            Op::Wait(nanos) => both.unix += nanos,
            Op::Check { key, cost } => {
                let [one, other] = both.each(|limiter| super::exact::answer(&limiter.check_n(key, cost)));
                prop_assert_eq!(one, other, "check of key {}, operation {}", key, number);
            }
            Op::Refund { key, cost } => {
                let [one, other] = both.each(|limiter| limiter.refund(limiter.check_n(key, cost)));
                prop_assert_eq!(one, other, "refund of key {}, operation {}", key, number);
            }
            Op::Credit { key, units } => {
                let [one, other] = both.each(|limiter| limiter.account(key).credit(units));
                prop_assert_eq!(one, other, "credit of key {}, operation {}", key, number);
            }
            Op::Debit { key, cost } => {
                let [one, other] = both.each(|limiter| {
                    limiter.account(key).debit(cost).ok().map(|it| super::exact::answer(&it))
                });
                prop_assert_eq!(one, other, "debit of key {}, operation {}", key, number);
            }
            Op::Reset { key } => {
                both.each(|limiter| limiter.account(key).reset());
            }
            Op::Change { to, inherit } => {
                let to = family[to % family.len()];
                let [one, other] = both.each(|limiter| limiter.change().to(to).inherit(inherit).apply());
                prop_assert_eq!(&one, &other, "change of operation {}", number);
                quota = if one.is_ok() { to } else { quota };
            }
            Op::Restart { away, shown } => {
                let file = saved(&both.brief);
                both.unix += away;
                both.zero = both.unix - shown;
                both.brief_clock = clock(both.unix, shown);
                both.brief = restored(quota, &file, &both.brief_clock);
            }
        }
        both.set();
        for key in 0..4 {
            let [one, other] = both.each(|limiter| super::exact::answer(&limiter.peek(key)));
            prop_assert_eq!(one, other, "peek of key {}, after operation {}", key, number);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(super::exact::config(1_500))]

    #[test]
    fn a_restart_after_changes_changes_no_answer(
        family in select(families()), ops in prop::collection::vec(op(), 1..25),
    ) {
        restarts_after_changes_change_nothing(&family, &ops)?;
    }
}

/// A file has one debt for each key: the largest that any tier makes of it.
fn tiers_are_restored_no_better(
    tiers: &[[Quota; 2]; 2],
    ops: &[Op],
    shown: u64,
) -> Result<(), TestCaseError> {
    let builder = |number: usize, clock: &ManualClock| {
        Limiter::builder(tiers[number][0])
            .per::<u64>()
            .tier(tiers[number][1])
            .max_keys(8)
            .clock(clock.clone())
    };
    let change = |limiter: &Limiter<u64, Quota, 1, ManualClock>, [first, second]: [Quota; 2], inherit| {
        limiter.change().to(first).tier(1, second).inherit(inherit).apply()
    };
    let before = clock(BEGUN, 0);
    let (saved, mut unix, mut number) = (builder(0, &before).build().unwrap(), BEGUN, 0);
    // When each key was charged last, and under which tier.
    let (mut charged, mut changes) = ([None; 4], 0);
    for op in ops {
        match *op {
            Op::Wait(nanos) => unix += nanos,
            Op::Change { to, inherit } if change(&saved, tiers[to % 2], inherit).is_ok() => {
                (number, changes) = (to % 2, changes + 1);
            }
            Op::Check { key, cost } | Op::Refund { key, cost } => {
                let account = saved.account(key).tier(key as usize % 2).expect("there are two");
                if account.check_n(cost).is_allowed() && cost > 0 {
                    charged[key as usize] = Some(changes);
                }
            }
            _ => {}
        }
        before.set(Timestamp::from_nanos(unix - BEGUN));
    }
    let mut file = Vec::new();
    saved.save(&mut file).expect("it is written to memory");
    let after = clock(unix, shown);
    let restored = builder(number, &after).restore(&file[..]).expect("it was saved just now");
    for later in [0, SECOND / 3, SECOND, 30 * SECOND, 3_600 * SECOND] {
        before.set(Timestamp::from_nanos(unix + later - BEGUN));
        after.set(Timestamp::from_nanos(shown + later));
        for key in 0..4 {
            for tier in 0..2 {
                let left = |limiter: &Limiter<u64, Quota, 1, ManualClock>| {
                    limiter.account(key).tier(tier).expect("there are two").peek_n(0).remaining()
                };
                let (one, other) = (left(&saved), left(&restored));
                prop_assert!(other <= one, "key {key}, tier {tier}, {later} later: {other} for {one}");
                let is_exact = charged[key as usize].is_none_or(|at| at == changes);
                prop_assert!(!is_exact || other == one, "key {key}, tier {tier}: {other} for {one}");
            }
        }
    }
    Ok(())
}

fn tiers() -> [[[Quota; 2]; 2]; 3] {
    let bucket = |count, burst| Quota::from(TokenBucket::new(Rate::per_minute(count)).burst(burst));
    let window = |count| Quota::from(FixedWindow::new(Rate::per_minute(count)));
    let parts = |count| Quota::from(TokenBucket::new(Rate::per_minute(count)).burst(9).by_intervals());
    [
        [[bucket(6, 9), bucket(12, 4)], [bucket(12, 20), bucket(6, 8)]],
        [[window(9), window(4)], [window(20), window(8)]],
        [[parts(2), parts(4)], [parts(4), parts(1)]],
    ]
}

proptest! {
    #![proptest_config(super::exact::config(500))]

    #[test]
    fn tiers_are_restored_no_better_after_changes(
        tiers in select(tiers().to_vec()), ops in prop::collection::vec(op(), 1..20), shown in span(),
    ) {
        tiers_are_restored_no_better(&tiers, &ops, shown)?;
    }
}

#[test]
fn a_first_hits_window_ends_alike_over_a_restart() {
    let second = |count| Rate::new(count, Duration::from_secs(1));
    let own = |count| FixedWindow::new(second(count)).from_first_hit().into();
    let ops = [
        Op::Check { key: 0, cost: 1 },
        Op::Change { to: 2, inherit: Proportional },
        Op::Wait(40_094_739),
        Op::Change { to: 0, inherit: AsIs },
        Op::Restart { away: 959_905_261, shown: 0 },
    ];
    restarts_after_changes_change_nothing(&[own(3), own(2), own(1)], &ops).unwrap();
}
