//! Windows that follow a Unix time that was set: each position in a window, each step of the clock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate::{BuildError, FixedWindow, Limiter, ManualClock, Quota, TokenBucket};
use tollgate_testing::clocks::UnixSet;
use tollgate_testing::limits::every;

use super::{at, per};

const LENGTH: u64 = 3_200;
const STEP: u64 = 200;
const LIMIT: u64 = 3;
/// The clock's zero is the start of a window.
const UNIX: u64 = 1_000_000 * LENGTH;

type Subject = Limiter<u64, Quota, 1, UnixSet>;

/// The Unix time is set once, `by` nanoseconds ahead, at the instant `since` of the first window.
#[derive(Clone, Copy, Debug)]
struct Case {
    since: u64,
    by: i64,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let by = (-2 * LENGTH as i64..=2 * LENGTH as i64).step_by(STEP as usize);
        by.flat_map(|by| (0..LENGTH).step_by(STEP as usize).map(move |since| Self { since, by }))
    }

    fn unix_at_zero(self) -> u64 {
        UNIX.checked_add_signed(self.by).expect("it is large")
    }

    /// Whether a window begins at this instant by the Unix time that was set.
    fn begins(self, instant: u64) -> bool {
        (self.unix_at_zero() + instant).is_multiple_of(LENGTH)
    }

    /// When the keys that have spent the first window have it again: at the end of the earliest
    /// window that begins at most an eighth sooner than the first did.
    fn again(self) -> u64 {
        let earliest = LENGTH - LENGTH / 8;
        let ends = (earliest..earliest + LENGTH).find(|&end| self.begins(end));
        ends.expect("one in each length").max(self.since)
    }

    fn realign(self, limiter: &Subject, clock: &UnixSet) {
        clock.set_unix_at_zero(self.unix_at_zero());
        limiter.realign(Duration::from_nanos(self.unix_at_zero())).expect("there is room");
    }
}

fn limiter(quota: impl Into<Quota>) -> (Subject, UnixSet) {
    let clock = UnixSet::new(UNIX);
    let limiter = Limiter::builder(quota.into()).per().max_keys(256).clock(clock.clone()).build();
    (limiter.expect("the quota is ordinary"), clock)
}

/// The limiter of the next process, and its clock: the Unix time is as the last one knew it.
fn restarted(limiter: &Subject, clock: &UnixSet, quota: impl Into<Quota>) -> (Subject, UnixSet) {
    let mut file = Vec::new();
    limiter.save(&mut file).expect("a vector takes all");
    let next = clock.restarted();
    let limiter = Limiter::builder(quota.into()).per().max_keys(256).clock(next.clone()).restore(&file[..]);
    (limiter.expect("it was saved just now"), next)
}

/// What the limiter tells of a key.
fn told(limiter: &Subject, key: u64) -> (u64, Option<Duration>) {
    let account = limiter.account(key).at(limiter.now());
    (account.peek_n(0).remaining(), account.peek_n(1).retry_after())
}

/// What the key is admitted now.
fn taken(limiter: &Subject, key: u64) -> u64 {
    std::iter::repeat_with(|| limiter.check(key)).take_while(|decision| decision.is_allowed()).count() as u64
}

fn instants() -> impl Iterator<Item = u64> {
    (0..5 * LENGTH).step_by(STEP as usize)
}

fn window() -> FixedWindow {
    FixedWindow::new(per(LIMIT, LENGTH))
}

/// One key for each instant, from which on it takes what it gets.
#[test]
fn no_step_of_the_clock_gives_a_window_twice() {
    for case in Case::all() {
        let (limiter, clock) = limiter(window());
        let mut admitted = vec![0; instants().count()];
        for (number, now) in instants().enumerate() {
            clock.manual.set(at(now));
            let realigned = now == case.since;
            if realigned {
                case.realign(&limiter, &clock);
            }
            if now == case.again() || now > case.again() && case.begins(now) {
                admitted.fill(0);
            }
            for (key, admitted) in admitted.iter_mut().enumerate().take(number + 1) {
                *admitted += taken(&limiter, key as u64);
                assert!(*admitted <= LIMIT, "{case:?}: {admitted} of key {key} at {now}");
                assert_eq!(*admitted, LIMIT, "{case:?}: key {key} at {now}");
            }
        }
    }
}

#[test]
fn a_bucket_by_intervals_refills_when_the_window_begins() {
    for case in Case::all() {
        let (limiter, clock) = limiter(TokenBucket::new(per(LIMIT, LENGTH)).burst(2 * LIMIT).by_intervals());
        assert!(limiter.check_n(0, 2 * LIMIT).is_allowed());
        for now in instants() {
            clock.manual.set(at(now));
            if now == case.since {
                case.realign(&limiter, &clock);
            }
            let refills = now > 0 && (now == case.again() || now > case.again() && case.begins(now));
            let expected = if refills { LIMIT } else { 0 };
            let units = taken(&limiter, 0);
            assert_eq!(units, expected, "{case:?} at {now}");
        }
    }
}

/// A restart has the corrected time from its start. So it, too, may not end a window early.
#[test]
fn a_realigned_limiter_decides_as_a_restarted_one() {
    let quotas = [Quota::from(window()), TokenBucket::new(per(LIMIT, LENGTH)).by_intervals().into()];
    for (case, quota) in Case::all().flat_map(|case| quotas.map(|quota| (case, quota))) {
        let (limiter, clock) = limiter(quota);
        clock.manual.set(at(case.since));
        let spent = || 1..=LIMIT;
        spent().for_each(|key| assert!(limiter.check_n(key, key).is_allowed()));
        clock.set_unix_at_zero(case.unix_at_zero());
        let (next, later) = restarted(&limiter, &clock, quota);
        case.realign(&limiter, &clock);
        for now in instants().filter(|&now| now >= case.since) {
            [&clock, &later].iter().for_each(|clock| clock.manual.set(at(now)));
            for key in spent() {
                assert_eq!(told(&limiter, key), told(&next, key), "{quota}, {case:?}: {key} at {now}");
            }
        }
    }
}

/// Half a window later, and of keys that were never seen, too.
#[test]
fn a_restart_after_it_changes_no_decision() {
    for case in Case::all() {
        let (limiter, clock) = limiter(window());
        clock.manual.set(at(case.since));
        assert!(limiter.check_n(1, 1).is_allowed());
        case.realign(&limiter, &clock);
        clock.manual.set(at(case.since + LENGTH / 2));
        let (next, later) = restarted(&limiter, &clock, window());
        let (third, last) = restarted(&next, &later, window());
        for now in instants().filter(|&now| now >= case.since + LENGTH / 2) {
            [&clock, &later, &last].iter().for_each(|clock| clock.manual.set(at(now)));
            for key in [1, 2] {
                let told = [&limiter, &next, &third].map(|limiter| {
                    let _ = limiter.check(key);
                    told(limiter, key)
                });
                assert_eq!(told, [told[0]; 3], "{case:?}: {key} at {now}");
            }
        }
    }
}

/// A clock that is set ahead and back time and again locks no key out for ever.
#[test]
fn a_clock_that_swings_keeps_two_windows_at_most() {
    let quotas = [Quota::from(window()), TokenBucket::new(per(LIMIT, LENGTH)).by_intervals().into()];
    for quota in quotas {
        let (limiter, clock) = limiter(quota);
        assert!(limiter.check_n(1, LIMIT).is_allowed());
        for swing in 0..40 {
            let by = if swing % 2 == 0 { LENGTH / 4 } else { 0 };
            limiter.realign(Duration::from_nanos(UNIX + by)).unwrap();
        }
        let wait = limiter.check(1).retry_after().expect("all is spent");
        assert!(wait <= Duration::from_nanos(2 * LENGTH), "{quota}: {wait:?}");
        clock.manual.set(at(wait.as_nanos() as u64));
        assert!(limiter.check_n(1, LIMIT).is_allowed(), "{quota}");
    }
}

/// Neither a log, nor a sliding window, nor a window from the first hit, nor a bucket that drips.
#[test]
fn what_begins_at_no_unix_time_stays() {
    let is_aligned = |quota: &Quota| matches!(quota, Quota::FixedWindow(_)) || quota.is_by_intervals();
    let period = 8 * LENGTH;
    for quota in every(per(LIMIT, period)).into_iter().filter(|quota| !is_aligned(quota)) {
        for case in Case::all().filter(|case| case.since % 800 == 0) {
            let [(moved, clock), (twin, twin_clock)] = [limiter(quota), limiter(quota)];
            for limiter in [&moved, &twin] {
                assert!(limiter.check_n(1, LIMIT).is_allowed());
            }
            [&clock, &twin_clock].iter().for_each(|clock| clock.manual.set(at(case.since)));
            case.realign(&moved, &clock);
            let (next, next_clock) = restarted(&moved, &clock, quota);
            let seen = (case.since..4 * period).step_by(period as usize / 16).map(|now| {
                [&clock, &twin_clock, &next_clock].iter().for_each(|clock| clock.manual.set(at(now)));
                assert_eq!(told(&moved, 1), told(&twin, 1), "{quota}, {case:?} at {now}");
                (told(&moved, 1).0, told(&next, 1).0)
            });
            // The next process has another grid: a sliding count is rounded up to it, but for an
            // eighth of a window.
            let seen: Vec<_> = seen.collect();
            assert!(
                seen.iter().zip(&seen[2..]).all(|(sooner, later)| sooner.1 <= later.0),
                "{quota}, {case:?}"
            );
            assert_eq!(seen.last(), Some(&(LIMIT, LIMIT)), "{quota}, {case:?}");
        }
    }
}

/// Of several limits, the day moves and the log stays. Both keep their counts.
#[test]
fn several_limits_are_realigned_at_one_instant() {
    // There is room for eight.
    let quotas = every(per(LIMIT, LENGTH)).split_off(1);
    let clock = ManualClock::starting_at(Duration::from_nanos(UNIX));
    let limiter = Limiter::builder(quotas).per::<u64>().max_keys(8).clock(clock.clone()).build().unwrap();
    clock.set(at(1_600));
    assert!(limiter.check_n(1, LIMIT).is_allowed());
    // A quarter of a window back: it ends so much later.
    limiter.realign(Duration::from_nanos(UNIX - 800)).unwrap();
    let seen = limiter.check(1);
    assert!(!seen.is_allowed() && seen.parts().all(|part| part.remaining() == 0));
    let waits: Vec<_> = seen.parts().map(|part| part.reset_after().as_nanos()).collect();
    assert!(waits.contains(&2_400), "{waits:?}");
}

#[test]
fn a_refund_after_it_gives_back_what_was_charged_since() {
    for case in Case::all().filter(|case| case.by != 0) {
        let (limiter, clock) = limiter(window());
        clock.manual.set(at(case.since));
        let before = limiter.check_n(1, 1).receipt();
        case.realign(&limiter, &clock);
        let charged = limiter.check_n(1, 1);
        assert!(charged.is_allowed(), "{case:?}");
        let (left, after) = (charged.remaining(), charged.receipt());
        assert_eq!(limiter.refund(before), 0, "{case:?}: an older version charged it");
        assert_eq!((limiter.refund(after), told(&limiter, 1).0), (1, left + 1), "{case:?}");
        assert!(limiter.account(1).reset());
        assert_eq!(told(&limiter, 1).0, LIMIT, "{case:?}");
    }
}

/// Each is set back by a nanosecond more.
#[test]
fn threads_that_cross_many_changes_share_one_limit() {
    const ALL: u64 = 5_000;
    let (limiter, clock) = limiter(FixedWindow::new(per(ALL, 1_000 * LENGTH)));
    clock.manual.set(at(LENGTH));
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let count = (0..ALL).filter(|_| limiter.check(1).is_allowed()).count();
                admitted.fetch_add(count as u64, Relaxed);
            });
        }
        for by in 1..=300 {
            limiter.realign(Duration::from_nanos(UNIX - by)).unwrap();
        }
    });
    assert_eq!(admitted.into_inner(), ALL);
}

#[test]
fn the_same_unix_time_takes_no_room() {
    let (limiter, clock) = limiter(window());
    for _ in 0..100_000 {
        limiter.realign(Duration::from_nanos(UNIX)).unwrap();
    }
    assert!(limiter.check_n(1, LIMIT).is_allowed());
    // Twenty years of windows have numbers, and each change takes one or two.
    clock.manual.set(at(LENGTH * ((1 << 48) - 1)));
    assert_eq!(limiter.realign(Duration::from_nanos(UNIX + 800)), Err(BuildError::ChangedTooOften));
}
