//! The clock of the server, and that of the world.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tollgate::{Clock, Timestamp, TscClock};

/// The clock of everything that the server decides.
pub(crate) type ServerClock = Arc<dyn Clock + Send + Sync>;

/// The processor's counter, and the time for which the machine slept, which it does not count: for
/// clients that time has passed, and windows have ended.
///
/// The system's clock may be set. That is no time that has passed, so this clock does not follow:
/// buckets would fill at once, and windows end early. [`ahead`] tells how far the two are apart.
#[derive(Debug)]
pub(crate) struct WakingClock<C = TscClock> {
    counter: C,
    /// Nanoseconds. Relaxed: a check that reads it late is one of the time before.
    slept: AtomicU64,
    /// What the machine's clock showed, which counts its sleep, when this one showed zero.
    zero: Duration,
}

/// The least sleep that is noticed. The counter's drift comes to it in days, and then counts as
/// sleep: it, too, is time that has passed.
const NOTICED: Duration = Duration::from_secs(1);

/// How often the server looks whether it slept.
const LOOKS: Duration = Duration::from_secs(10);

impl WakingClock {
    /// A clock that shows zero now.
    pub(crate) fn new() -> Self {
        Self { counter: TscClock::new(), slept: AtomicU64::new(0), zero: machine_time() }
    }

    /// Looks whether the machine slept, time and again.
    pub(crate) async fn keep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOKS).await;
            let slept = self.look(machine_time());
            if !slept.is_zero() {
                tracing::info!(?slept, "the machine slept: the time has passed for all limits");
            }
        }
    }
}

impl<C: Clock> WakingClock<C> {
    /// Follows the machine's clock where it is ahead. Returns by how much: never back, and not by
    /// less than [`NOTICED`].
    fn look(&self, machine: Duration) -> Duration {
        let passed = machine.saturating_sub(self.zero);
        let slept = passed.saturating_sub(self.now().saturating_since(Timestamp::ZERO));
        if slept < NOTICED {
            return Duration::ZERO;
        }
        self.slept.fetch_add(u64::try_from(slept.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        slept
    }
}

impl<C: Clock> Clock for WakingClock<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.counter.now() + Duration::from_nanos(self.slept.load(Relaxed))
    }

    fn unix_at_zero(&self) -> Duration {
        self.counter.unix_at_zero()
    }

    fn unix_now(&self) -> Duration {
        self.counter.unix_now()
    }
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
    use tollgate::{FixedWindow, Limiter, ManualClock, Rate, TokenBucket};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn asleep() -> (Arc<WakingClock<Arc<ManualClock>>>, Arc<ManualClock>) {
        let counter = Arc::new(ManualClock::new());
        let slept = AtomicU64::new(0);
        (Arc::new(WakingClock { counter: Arc::clone(&counter), slept, zero: 5 * HOUR }), counter)
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
