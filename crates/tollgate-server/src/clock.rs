//! The clock of the server, and that of the world.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tollgate::{Clock, Timestamp, TscClock};
pub(crate) use tollgate_proxy::ServerClock;

/// The processor's counter, and the time for which the machine slept, which it does not count: for
/// clients that time has passed, and windows have ended.
///
/// The system's clock may be set. That is no time that has passed, so this clock shows the same:
/// buckets would fill at once, and windows end early. What changes is the Unix time of its zero,
/// and the windows are realigned to it. [`ahead`] tells how far the two are apart.
#[derive(Debug)]
pub(crate) struct WakingClock<C = TscClock> {
    counter: C,
    /// Nanoseconds. Relaxed: a check that reads it late is one of the time before.
    slept: AtomicU64,
    /// The Unix time of its zero, in nanoseconds. Relaxed: decisions go by the windows, which
    /// `keep` realigns.
    unix_at_zero: AtomicU64,
    /// What the machine's clock showed, which counts its sleep, when this one showed zero.
    zero: Duration,
}

/// The least sleep that is noticed, and by how much the system's clock is set at least. The
/// counter's drift comes to it in days, and then counts as sleep: it, too, is time that has passed.
const NOTICED: Duration = Duration::from_secs(1);

/// How often the server looks whether it slept, or the system's clock was set.
const LOOKS: Duration = Duration::from_secs(10);

impl WakingClock {
    /// A clock that shows zero now.
    pub(crate) fn new() -> Self {
        Self::of(TscClock::new(), machine_time())
    }
}

impl<C: Clock> WakingClock<C> {
    fn of(counter: C, zero: Duration) -> Self {
        let unix_at_zero = AtomicU64::new(nanos(counter.unix_at_zero()));
        Self { counter, slept: AtomicU64::new(0), unix_at_zero, zero }
    }

    /// Looks whether the machine slept, and whether the system's clock was set, time and again.
    /// `realign` aligns all windows to another Unix time of this clock's zero. It is asked again
    /// until it can.
    pub(crate) async fn keep<E: Display, F: Future<Output = Result<(), E>>>(
        self: Arc<Self>,
        realign: impl Fn(Duration) -> F,
    ) {
        let (mut before, mut is_behind) = (None, false);
        loop {
            tokio::time::sleep(LOOKS).await;
            let slept = self.look(machine_time());
            if !slept.is_zero() {
                tracing::info!(?slept, "the machine slept: the time has passed for all limits");
            }
            if let Some(by) = self.follow(self.unix_now(), &mut before) {
                let seconds = by as f64 / 1e9;
                tracing::info!(seconds, "the system's clock was set ahead by so much: windows follow");
                is_behind = true;
            }
            if is_behind {
                match realign(self.unix_at_zero()).await {
                    Ok(()) => is_behind = false,
                    Err(error) => tracing::warn!(%error, "not all windows follow the system's clock yet"),
                }
            }
        }
    }

    /// Follows the system's clock, which shows this Unix time, when it was ahead by as much at the
    /// look before. Returns by how many nanoseconds: below zero, it was set back.
    fn follow(&self, system: Duration, before: &mut Option<i64>) -> Option<i64> {
        let zero = system.saturating_sub(self.now().saturating_since(Timestamp::ZERO));
        let known = nanos(self.unix_at_zero());
        let ahead = nanos(zero).wrapping_sub(known).cast_signed();
        let is_set = ahead.unsigned_abs() >= nanos(NOTICED);
        let is_same = |before: i64| before.abs_diff(ahead) < nanos(NOTICED);
        let is_sure = is_set && before.is_some_and(is_same);
        *before = Some(ahead).filter(|_| is_set && !is_sure);
        if !is_sure {
            return None;
        }
        self.unix_at_zero.store(nanos(zero), Relaxed);
        Some(ahead)
    }

    /// Follows the machine's clock where it is ahead. Returns by how much: never back, and not by
    /// less than [`NOTICED`].
    fn look(&self, machine: Duration) -> Duration {
        let passed = machine.saturating_sub(self.zero);
        let slept = passed.saturating_sub(self.now().saturating_since(Timestamp::ZERO));
        if slept < NOTICED {
            return Duration::ZERO;
        }
        self.slept.fetch_add(nanos(slept), Relaxed);
        slept
    }
}

impl<C: Clock> Clock for WakingClock<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.counter.now() + Duration::from_nanos(self.slept.load(Relaxed))
    }

    fn unix_at_zero(&self) -> Duration {
        Duration::from_nanos(self.unix_at_zero.load(Relaxed))
    }

    fn unix_now(&self) -> Duration {
        self.counter.unix_now()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How many seconds the system's clock is ahead of that by which windows begin: below zero, it was
/// set back.
pub(crate) fn ahead(clock: &ServerClock) -> f64 {
    let shown = clock.unix_at_zero() + clock.now().saturating_since(Timestamp::ZERO);
    unix_time().as_secs_f64() - shown.as_secs_f64()
}

/// The time since the machine was started, its sleep included.
fn machine_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0));
    Duration::new(seconds, nanos)
}

/// The time of the system's clock.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tollgate::{BuildError, FixedWindow, Limiter, ManualClock, Rate, TokenBucket};
    use tollgate_testing::clocks::UnixSet;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn asleep() -> (Arc<WakingClock<Arc<ManualClock>>>, Arc<ManualClock>) {
        let counter = Arc::new(ManualClock::new());
        (Arc::new(WakingClock::of(Arc::clone(&counter), 5 * HOUR)), counter)
    }

    #[test]
    fn a_sleep_is_time_that_has_passed() {
        let (clock, counter) = asleep();
        let daily = FixedWindow::new(Rate::per_day(1));
        let daily = Limiter::builder(daily).per::<str>().clock(Arc::clone(&clock)).build().unwrap();
        let bucket = TokenBucket::new(Rate::new(1, 8 * HOUR)).burst(1);
        let bucket = Limiter::builder(bucket).per::<str>().clock(Arc::clone(&clock)).build().unwrap();
        assert!(daily.check("ada").is_allowed() && bucket.check("ada").is_allowed());
        counter.advance(HOUR);
        // It slept for ten hours; then for fifteen more.
        assert_eq!(clock.look(16 * HOUR), 10 * HOUR);
        assert!(!daily.check("ada").is_allowed() && bucket.check("ada").is_allowed());
        assert_eq!(clock.look(31 * HOUR), 15 * HOUR);
        assert!(daily.check("ada").is_allowed(), "the day has ended");
        assert_eq!(clock.look(31 * HOUR), Duration::ZERO, "each is counted once");
        assert_eq!(clock.now(), Timestamp::ZERO + 26 * HOUR);
    }

    #[test]
    fn no_clock_that_drifts_or_steps_back_takes_time_back() {
        let (clock, counter) = asleep();
        counter.advance(HOUR);
        for machine in [Duration::ZERO, 5 * HOUR, 6 * HOUR, 6 * HOUR + Duration::from_millis(999)] {
            assert_eq!(clock.look(machine), Duration::ZERO, "{machine:?}");
            assert_eq!(clock.now(), Timestamp::ZERO + HOUR);
        }
    }

    /// The Unix time of the clock's zero, in seconds after the first: as it is known now.
    fn follows(looks: &[i64]) -> Vec<i64> {
        let zero = 1_000 * HOUR;
        let counter = ManualClock::starting_at(zero);
        let (clock, mut before) = (WakingClock::of(counter.clone(), Duration::ZERO), None);
        let look = |ahead: &i64| {
            counter.advance(LOOKS);
            let shown = zero + counter.now().saturating_since(Timestamp::ZERO);
            let system = shown.as_secs().checked_add_signed(*ahead).unwrap();
            let _ = clock.follow(Duration::from_secs(system), &mut before);
            clock.unix_at_zero().as_secs().cast_signed() - zero.as_secs().cast_signed()
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn a_set_clock_is_followed_at_the_second_look() {
        let hours = -6 * 3_600;
        assert_eq!(follows(&[0, hours, hours, hours, 0, 0]), [0, 0, hours, hours, hours, 0]);
        assert_eq!(follows(&[2, 2, 2]), [0, 2, 2]);
        // One wrong look is none, nor are two that differ.
        assert_eq!(follows(&[0, 60, 0, 60, 120, 60, 0]), [0; 7]);
    }

    /// It is set back a second after midnight; then a limit has no room for the change for a while.
    #[tokio::test(start_paused = true)]
    async fn windows_follow_a_set_clock_within_a_minute() {
        const DAY: Duration = Duration::from_secs(86_400);
        let counter = UnixSet::new(nanos(1_000 * DAY + Duration::from_secs(1)));
        let clock = Arc::new(WakingClock::of(counter.clone(), machine_time()));
        let daily = Limiter::builder(FixedWindow::new(Rate::per_day(1))).per::<str>();
        let daily = Arc::new(daily.clock(Arc::clone(&clock)).build().unwrap());
        assert!(daily.check("ada").is_allowed());
        let (limits, tries) = (Arc::clone(&daily), Arc::new(AtomicU64::new(0)));
        let asked = Arc::clone(&tries);
        let realign = move |unix_at_zero| {
            let is_full = asked.fetch_add(1, Relaxed) < 2;
            let done = if is_full { Err(BuildError::ChangedTooOften) } else { limits.realign(unix_at_zero) };
            std::future::ready(done)
        };
        let kept = tokio::spawn(Arc::clone(&clock).keep(realign));
        tokio::time::sleep(6 * LOOKS).await;
        assert_eq!(tries.load(Relaxed), 0, "it is right");
        counter.set_unix_at_zero(nanos(1_000 * DAY - Duration::from_secs(9)));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(tries.load(Relaxed), 3, "it is asked until it can");
        let wait = daily.check("ada").retry_after();
        assert_eq!(wait, Some(DAY + Duration::from_secs(9)), "her new day is not begun twice");
        let clock: ServerClock = clock;
        assert!(clock.unix_now() == counter.unix_now() && clock.unix_at_zero() < 1_000 * DAY);
        kept.abort();
    }

    #[test]
    fn the_machines_clock_goes_on() {
        let clock = WakingClock::new();
        let before = machine_time();
        std::thread::sleep(Duration::from_millis(20));
        assert!(machine_time() - before >= Duration::from_millis(20));
        assert!(clock.look(machine_time()).is_zero());
        let clock: ServerClock = Arc::new(clock);
        assert!(ahead(&clock).abs() < 1.0);
    }
}
