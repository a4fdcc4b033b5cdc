//! The time between a save and a restore.

use std::time::Duration;

use tollgate::{
    Clock, FixedWindow, Limiter, Quota, Rate, SlidingLog, SlidingWindow, SystemClock, Timestamp, TokenBucket,
    TscClock,
};

use super::{SECOND, Subject, clock, saved};

const BEGUN: u64 = 1_700_000_000 * SECOND;

/// Returns the wait of a key that spent its limit at `BEGUN`, after a restart at `unix`.
fn wait(quota: Quota, unix: u64, shown: u64) -> Duration {
    let before: Subject =
        Limiter::builder(quota).per().max_keys(8).clock(clock(BEGUN, 50 * SECOND)).build().unwrap();
    assert_eq!(before.check_n(7, 10).remaining(), 0);
    let file = saved(&before);
    let after: Subject =
        Limiter::builder(quota).per().max_keys(8).clock(clock(unix, shown)).restore(&file[..]).unwrap();
    after.account(7).at(after.now()).peek_n(10).retry_after().unwrap_or_default()
}

fn quotas() -> [Quota; 4] {
    let rate = Rate::new(10, Duration::from_secs(100));
    [
        TokenBucket::new(rate).into(),
        SlidingLog::new(rate).into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).subwindows(2).into(),
    ]
}

#[test]
fn the_time_between_counts_as_passed() {
    for quota in quotas() {
        let whole = wait(quota, BEGUN, 0);
        assert!(whole > Duration::from_secs(60), "{quota}: {whole:?}");
        for shown in [0, SECOND, 1_000_000 * SECOND] {
            assert_eq!(wait(quota, BEGUN, shown), whole, "{quota}");
            assert_eq!(wait(quota, BEGUN + SECOND, shown), whole - Duration::from_secs(1), "{quota}");
            assert_eq!(wait(quota, BEGUN + 3_600 * SECOND, shown), Duration::ZERO, "{quota}");
        }
    }
}

#[test]
fn a_clock_set_back_neither_forgives_nor_lengthens_a_debt() {
    for quota in quotas() {
        let whole = wait(quota, BEGUN, 0);
        for back in [1, 37, 86_400, 1_000_000_000] {
            let found = wait(quota, BEGUN - back * SECOND, 0);
            // Windows stay aligned, so the wait may be up to one window longer.
            let window = Duration::from_secs(match quota {
                Quota::FixedWindow(_) => 100,
                Quota::SlidingWindow(_) => 50,
                _ => 0,
            });
            assert!(
                (whole..=whole + window).contains(&found),
                "{quota}, {back} s back: {found:?} for {whole:?}"
            );
        }
    }
}

/// A clock whose system clock was corrected while it ran.
struct Corrected {
    at: u64,
    unix_at_zero: u64,
    unix: u64,
}

impl Clock for Corrected {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.at)
    }

    fn unix_at_zero(&self) -> Duration {
        Duration::from_nanos(self.unix_at_zero)
    }

    fn unix_now(&self) -> Duration {
        Duration::from_nanos(self.unix)
    }
}

#[test]
fn a_clock_correction_before_the_save_counts_once() {
    // The machine starts in 1970 and learns the date after 50 seconds.
    let wrong = || Corrected { at: 50 * SECOND, unix_at_zero: 3 * SECOND, unix: BEGUN };
    for quota in quotas() {
        let before = Limiter::builder(quota).per::<u64>().max_keys(8).clock(wrong()).build().unwrap();
        let _ = before.check_n(7, 10);
        let whole = before.account(7).at(before.now()).peek_n(10).retry_after().unwrap();
        let mut file = Vec::new();
        before.save(&mut file).unwrap();
        let after: Subject =
            Limiter::builder(quota).per().max_keys(8).clock(clock(BEGUN, 0)).restore(&file[..]).unwrap();
        let found = after.account(7).at(after.now()).peek_n(10).retry_after();
        assert!(found >= Some(whole), "{quota}: {found:?} for {whole:?}");
        assert!(found <= Some(whole + Duration::from_secs(100)), "{quota}: {found:?} for {whole:?}");
    }
}

#[test]
fn clocks_that_drifted_apart_a_little_keep_the_window() {
    let quota = FixedWindow::new(Rate::new(10, Duration::from_secs(100)));
    for drift in [-2, 0, 2] {
        let unix = BEGUN.checked_add_signed(drift * SECOND as i64).unwrap();
        let clock = Corrected { at: 50 * SECOND, unix_at_zero: BEGUN - 50 * SECOND, unix };
        let before = Limiter::builder(quota).clock(clock).build().unwrap();
        assert!(before.check_n((), 10).is_allowed());
        let mut file = Vec::new();
        before.save(&mut file).unwrap();
        let unix = unix + 20 * SECOND;
        let after = Limiter::builder(quota).clock(super::clock(unix, 0)).restore(&file[..]).unwrap();
        let left = 100 * SECOND - unix % (100 * SECOND);
        assert_eq!(after.check(()).retry_after(), Some(Duration::from_nanos(left)));
    }
}

#[test]
fn the_machines_own_clocks_carry_a_debt_over() {
    let quota = TokenBucket::new(Rate::per_hour(10));
    let before = Limiter::builder(quota).clock(SystemClock::new()).build().unwrap();
    assert!(before.check_n((), 10).is_allowed());
    let mut file = Vec::new();
    before.save(&mut file).unwrap();
    let after = Limiter::builder(quota).clock(TscClock::new()).restore(&file[..]).unwrap();
    let wait = after.check(()).retry_after().expect("all was taken");
    assert!((350..=361).contains(&wait.as_secs()), "{wait:?}");
}
