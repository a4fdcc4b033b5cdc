//! A trip to the store: the breaker before it, the deadline around it, and the probes while the
//! breaker is open.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::breaker::{Breaker, Probed, Trip, jittered};
use crate::failed::{Failed, FailureKind};
use crate::failure_log::FailureLog;
use crate::pulse::Pulse;

/// The longest time for which a probe is awaited: a new connection may take longer than a check.
const LONGEST_PROBE: Duration = Duration::from_secs(1);

/// Asks the store for a sign of life, by a command that writes: a server that has no memory left or
/// accepts no writes answers everything else.
pub(crate) type Probe =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), Failed>> + Send>> + Send + Sync>;

/// What stands between the checks and one master.
pub(crate) struct Guard {
    /// The address of the server, for logs.
    server: String,
    deadline: Duration,
    start: Instant,
    breaker: Breaker,
    log: FailureLog,
    probe: Probe,
    /// Whether the store answers others.
    pulse: Arc<Pulse>,
    /// The runtime that the connection lives on, too.
    runtime: Handle,
    opened: AtomicU64,
    closed: AtomicU64,
    /// The number of the kind that an open breaker's last probe failed with, if it is telling;
    /// otherwise one beyond them all.
    ///
    /// Relaxed: it tells why, and nothing depends on it.
    found: AtomicUsize,
}

/// No kind of failure has this number.
const NOTHING: usize = FailureKind::ALL.len();

/// The breaker of a store, as it is now; of a cluster, those of all masters together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerCounts {
    /// Whether checks fail at once; in a cluster, those of at least one master.
    pub is_open: bool,
    /// How often it has opened.
    pub opened: u64,
    /// How often it has closed.
    pub closed: u64,
}

impl Guard {
    /// A guard with a closed breaker.
    pub(crate) fn new(
        server: String,
        deadline: Duration,
        probe: Probe,
        pulse: Arc<Pulse>,
        runtime: Handle,
    ) -> Arc<Self> {
        let (start, breaker, log) = (Instant::now(), Breaker::default(), FailureLog::new());
        let (opened, closed, found) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(NOTHING));
        Arc::new(Self { server, deadline, start, breaker, log, probe, pulse, runtime, opened, closed, found })
    }

    /// The end of the deadline of what begins at this time.
    pub(crate) fn until(&self, sent: Duration) -> Instant {
        self.start + sent + self.deadline
    }

    /// The time since the guard was made: the time of the breaker and of the deny caches.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The runtime of the connection and of all that is not awaited.
    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether checks fail at once.
    pub(crate) fn is_open(&self) -> bool {
        self.breaker.pass().is_none()
    }

    /// What a check fails with at once, while the breaker is open.
    ///
    /// **Cost.** One load, of an open breaker two.
    pub(crate) fn not_sent(&self) -> Option<Failed> {
        self.is_open().then(|| self.breaker_open())
    }

    fn breaker_open(&self) -> Failed {
        Failed::breaker_open(FailureKind::ALL.get(self.found.load(Relaxed)).copied())
    }

    /// Notes why the store serves no checks.
    fn finds(&self, kind: FailureKind) {
        self.found.store(if kind.is_telling() { kind.index() } else { NOTHING }, Relaxed);
    }

    /// Makes a trip that ends by `until`, unless the breaker is open.
    ///
    /// This time covers all of it, waits for a connection and for room included. An answer that is
    /// there but late counts as none: the store may have admitted the request long ago, and the
    /// bound of what passes the nodes relies on the deadline.
    ///
    /// If the returned future is dropped, the trip leaves no trace here; the store may still
    /// execute it.
    ///
    /// **Cost.** Of an open breaker: as [`not_sent`](Self::not_sent); no timer.
    ///
    /// # Errors
    ///
    /// That of the trip, a timeout, or [`FailureKind::BreakerOpen`].
    pub(crate) async fn trip<T>(
        self: &Arc<Self>,
        until: Instant,
        trip: impl Future<Output = Result<T, Failed>>,
    ) -> Result<T, Failed> {
        let Some(pass) = self.breaker.pass() else { return Err(self.breaker_open()) };
        // The only timer of a trip.
        let mut result = timeout_at(until, trip).await.unwrap_or_else(|_| Err(Failed::timeout()));
        let now = Instant::now();
        if result.is_ok() && now > until {
            result = Err(Failed::timeout());
        }
        let outcome = match result.as_ref().err().map(|failed| failed.kind) {
            None => Some(Trip::Answered),
            Some(FailureKind::Connection) => Some(Trip::Broken),
            // The slot moves; its masters are well.
            Some(FailureKind::Moved) => Some(Trip::Answered),
            // A store that answers others is busy, and not broken.
            Some(FailureKind::Timeout | FailureKind::Busy) => self.pulse.is_failing().then_some(Trip::Broken),
            Some(_) => Some(Trip::Failed),
        };
        let opens = outcome.is_some_and(|outcome| self.breaker.record(pass, outcome, now - self.start));
        match &result {
            Ok(_) => self.log.succeeded(),
            Err(failed) if opens => self.has_opened(failed),
            Err(failed) => self.log.failed(&self.server, failed, now - self.start),
        }
        result
    }

    /// Opens the breaker: the store could not be reached when the limiter was built.
    pub(crate) fn unreachable(self: &Arc<Self>, failed: &Failed) {
        if let Some(pass) = self.breaker.pass()
            && self.breaker.record(pass, Trip::Broken, self.now())
        {
            self.has_opened(failed);
        }
    }

    pub(crate) fn counts(&self) -> BreakerCounts {
        // `closed` first: a breaker never closes more often than it opens.
        let closed = self.closed.load(Relaxed);
        let opened = self.opened.load(Relaxed);
        BreakerCounts { is_open: self.is_open(), opened, closed }
    }

    fn has_opened(self: &Arc<Self>, failed: &Failed) {
        self.opened.fetch_add(1, Relaxed);
        self.log.is_logged(failed.kind, self.now());
        self.finds(failed.kind);
        let kind = failed.kind.name();
        let server = &self.server;
        tracing::warn!(kind, server, "the store fails: its breaker opens ({failed})");
        self.runtime.spawn(probe_until_closed(Arc::downgrade(self)));
    }

    fn has_closed(&self) {
        self.closed.fetch_add(1, Relaxed);
        self.log.succeeded();
        let server = &self.server;
        tracing::info!(server, "the store is back: its breaker closes");
    }

    /// Whether the store answers a probe, and as fast as a check must be answered.
    ///
    /// A connection that broke says little. Why none comes after it, the probes are told: that the
    /// store refuses the user, say. The first such failure is logged, as one of a check would be.
    async fn probes_well(&self) -> bool {
        // Made before the time is taken: it may compute.
        let probe = (self.probe)();
        let sent = self.now();
        let answer = timeout(LONGEST_PROBE, probe).await.unwrap_or_else(|_| Err(Failed::timeout()));
        if let Err(failed) = &answer {
            self.finds(failed.kind);
            if failed.kind.is_telling() {
                self.log.failed(&self.server, failed, self.now());
            }
        }
        answer.is_ok() && self.now() - sent <= self.deadline
    }
}

/// Probes the store until its breaker closes or its guard is dropped.
async fn probe_until_closed(guard: Weak<Guard>) {
    let random = RandomState::new();
    let mut pause = Breaker::first_probe();
    for number in 0_u64.. {
        sleep(jittered(pause, random.hash_one(number))).await;
        let Some(guard) = guard.upgrade() else { return };
        let good = guard.probes_well().await;
        match guard.breaker.probed(good) {
            Probed::Again(after) => pause = after,
            Probed::Closed => return guard.has_closed(),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("breaker", &self.breaker).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use futures_util::future::join_all;
    use tollgate_testing::logs::{self, Level};

    use super::*;
    use crate::failed::Charged;

    const DEADLINE: Duration = Duration::from_millis(10);

    /// A guard whose probes are as good as the flag says, and their times.
    fn guarded() -> (Arc<Guard>, Arc<AtomicBool>, Arc<Mutex<Vec<Instant>>>) {
        let (up, probes) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (is_up, times) = (up.clone(), probes.clone());
        let probe: Probe = Box::new(move || {
            times.lock().unwrap().push(Instant::now());
            Box::pin(ready(if is_up.load(Relaxed) { Ok(()) } else { Err(broken()) }))
        });
        let pulse = Arc::new(Pulse::new(DEADLINE));
        (Guard::new(String::new(), DEADLINE, probe, pulse, Handle::current()), up, probes)
    }

    fn soon() -> Instant {
        Instant::now() + DEADLINE
    }

    fn broken() -> Failed {
        Failed::new(FailureKind::Connection, Charged::No)
    }

    #[tokio::test(start_paused = true)]
    async fn a_trip_fails_at_its_deadline() {
        let (guard, ..) = guarded();
        let start = Instant::now();
        let failed = guard.trip(soon(), pending::<Result<(), Failed>>()).await.unwrap_err();
        assert_eq!((failed.kind, failed.charged), (FailureKind::Timeout, Charged::Perhaps));
        let took = start.elapsed();
        assert!(took >= DEADLINE && took < DEADLINE * 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_after_the_deadline_is_not_used() {
        let (guard, ..) = guarded();
        let late = async {
            // The thread is held up while the answer arrives.
            tokio::time::advance(DEADLINE + Duration::from_millis(1)).await;
            Ok(7)
        };
        let failed = guard.trip(soon(), late).await.unwrap_err();
        assert_eq!(failed.kind, FailureKind::Timeout);
        assert_eq!(guard.trip(soon(), ready(Ok(7))).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn timeouts_between_answers_open_nothing() {
        let (guard, ..) = guarded();
        for _ in 0..100 {
            guard.pulse.asks(Instant::now());
            let trips = (0..50).map(|_| guard.trip(soon(), pending::<Result<(), Failed>>()));
            assert!(join_all(trips).await.iter().all(Result::is_err));
            guard.pulse.answered(Instant::now(), Instant::now());
        }
        assert_eq!(guard.counts(), BreakerCounts::default());
    }

    #[tokio::test(start_paused = true)]
    async fn five_deadlines_of_silence_open_it() {
        let (guard, ..) = guarded();
        guard.pulse.asks(Instant::now());
        for _ in 0..5 {
            assert!(!guard.counts().is_open);
            let failed = guard.trip(soon(), pending::<Result<(), Failed>>()).await.unwrap_err();
            assert_eq!(failed.kind, FailureKind::Timeout);
        }
        assert!(guard.counts().is_open);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_breaker_sends_nothing() {
        let (guard, ..) = guarded();
        assert_eq!(guard.trip(soon(), ready(Err::<(), _>(broken()))).await, Err(broken()));
        let sent = AtomicBool::new(false);
        let send = async {
            sent.store(true, Relaxed);
            Ok(())
        };
        let failed = guard.trip(soon(), send).await.unwrap_err();
        assert_eq!((failed.kind, failed.charged), (FailureKind::BreakerOpen, Charged::No));
        assert!(!sent.load(Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn probes_close_the_breaker_when_the_store_is_back() {
        let (guard, up, probes) = guarded();
        let opened = Instant::now();
        let _ = guard.trip(soon(), ready(Err::<(), _>(broken()))).await;
        sleep(Duration::from_secs(10)).await;
        assert!(guard.counts().is_open);
        let times: Vec<_> = probes.lock().unwrap().drain(..).map(|at| at - opened).collect();
        assert!(times[0] >= Duration::from_millis(75) && times[0] < Duration::from_millis(127), "{times:?}");
        assert!((10..=15).contains(&times.len()), "100 ms doubling to 1 s: {times:?}");
        up.store(true, Relaxed);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(guard.counts(), BreakerCounts { is_open: false, opened: 1, closed: 1 });
        assert_eq!(guard.trip(soon(), ready(Ok(7))).await, Ok(7));
        let last = probes.lock().unwrap().len();
        sleep(Duration::from_secs(10)).await;
        assert_eq!(probes.lock().unwrap().len(), last, "no probes of a closed breaker");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_store_is_not_back() {
        let probe: Probe = Box::new(|| {
            Box::pin(async {
                sleep(DEADLINE * 3).await;
                Ok(())
            })
        });
        let pulse = Arc::new(Pulse::new(DEADLINE));
        let guard = Guard::new(String::new(), DEADLINE, probe, pulse, Handle::current());
        guard.unreachable(&broken());
        sleep(Duration::from_secs(30)).await;
        assert_eq!(guard.counts(), BreakerCounts { is_open: true, opened: 1, closed: 0 });
    }

    /// A connection breaks, and no other is accepted since the password has changed.
    #[tokio::test(start_paused = true)]
    async fn an_open_breaker_tells_what_its_probes_are_told() {
        let log = logs::capture(Level::TRACE);
        let kinds = Arc::new(Mutex::new(FailureKind::Auth));
        let kind = Arc::clone(&kinds);
        let probe: Probe = Box::new(move || {
            let failed = Failed::new(*kind.lock().unwrap(), Charged::No);
            Box::pin(ready(Err(failed)))
        });
        let pulse = Arc::new(Pulse::new(DEADLINE));
        let guard = Guard::new(String::new(), DEADLINE, probe, pulse, Handle::current());
        let fail = async || guard.trip(soon(), ready(Err::<(), _>(broken()))).await.unwrap_err();
        assert_eq!(fail().await.cause(), FailureKind::Connection);
        assert_eq!(fail().await.cause(), FailureKind::BreakerOpen);
        sleep(Duration::from_secs(5)).await;
        let failed = fail().await;
        assert_eq!((failed.kind, failed.charged), (FailureKind::BreakerOpen, Charged::No));
        assert_eq!((failed.cause(), guard.not_sent()), (FailureKind::Auth, Some(failed.clone())));
        assert!(failed.to_string().contains("check the password"), "{failed}");
        let lines = log.lines();
        let told = lines.iter().filter(|line| line.contains("check the password")).count();
        assert_eq!((lines.len(), told), (2, 1), "{lines:?}");
        // Now no server is there.
        *kinds.lock().unwrap() = FailureKind::Connection;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(fail().await.cause(), FailureKind::BreakerOpen);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_guard_ends_its_probes() {
        let (guard, _, probes) = guarded();
        guard.unreachable(&broken());
        drop(guard);
        sleep(Duration::from_secs(5)).await;
        assert!(probes.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn each_transition_is_logged_once() {
        let log = logs::capture(Level::TRACE);
        let (guard, up, _) = guarded();
        up.store(true, Relaxed);
        for round in 1..=100 {
            for _ in 0..5 {
                let _ = guard.trip(soon(), ready(Err::<(), _>(broken()))).await;
            }
            sleep(Duration::from_secs(1)).await;
            assert_eq!(guard.counts(), BreakerCounts { is_open: false, opened: round, closed: round });
        }
        let messages = log.lines();
        let count = |end: &str| messages.iter().filter(|message| message.contains(end)).count();
        assert_eq!((count("opens"), count("closes"), messages.len()), (100, 100, 200));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_failure_since_a_success_is_logged() {
        let log = logs::capture(Level::TRACE);
        let (guard, ..) = guarded();
        let fail = async |kind| {
            let _ = guard.trip(soon(), ready(Err::<(), _>(Failed::new(kind, Charged::No)))).await;
        };
        fail(FailureKind::Auth).await;
        fail(FailureKind::Auth).await;
        fail(FailureKind::Memory).await;
        let messages = log.lines();
        assert!(messages[0].contains("check the password and the right to EVALSHA"), "{messages:?}");
        assert!(messages[1].contains("raise its maxmemory"), "{messages:?}");
        assert_eq!(messages.len(), 2, "{messages:?}");
        sleep(Duration::from_secs(10)).await;
        let _ = guard.trip(soon(), ready(Ok(7))).await;
        fail(FailureKind::Auth).await;
        assert_eq!(log.lines().len(), 3);
    }
}
