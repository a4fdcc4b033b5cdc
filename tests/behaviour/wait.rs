//! Waiting for one's turn, as a thread and as a future.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::{
    Clock, GlobalLimiter, LeakyBucket, Limiter, ManualClock, Quota, Rate, ReserveError, ThreadTimer, Timer,
    Timestamp, TokenBucket, TscClock,
};

/// Ten a second, one at a time.
const TENTHS: TokenBucket = TokenBucket::new(Rate::per_second(10)).burst(1);

/// All that has turns, ten a second and one at a time.
fn lines() -> [Quota; 3] {
    let rate = Rate::per_second(10);
    [
        TENTHS.into(),
        LeakyBucket::meter(rate).capacity(1).into(),
        LeakyBucket::queue(rate).capacity(200).into(),
    ]
}

fn tick(ticks: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(100 * ticks)
}

type Manual = Limiter<u64, Quota, ManualClock>;

fn limiter(quota: impl Into<Quota>) -> (Manual, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota.into()).clock(clock.clone()).max_keys(100).build().unwrap(), clock)
}

/// How long the next to come would have to wait.
fn line(limiter: &Manual) -> Duration {
    match limiter.reserve(&1, Duration::ZERO) {
        Err(ReserveError::TooLong { wait }) => wait,
        other => panic!("somebody is in line: {other:?}"),
    }
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Thread(std::thread::Thread);
    impl Wake for Thread {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Thread(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn waiting_threads_are_paced_by_the_rate() {
    let clock = TscClock::new();
    let quota = TokenBucket::new(Rate::per_second(500)).burst(1);
    let limiter = Limiter::<u64>::builder(quota).clock(clock.clone()).build().unwrap();
    let begun = clock.now();
    let left = AtomicU64::new(20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    limiter.wait(&1).unwrap();
                }
            });
        }
    });
    let took = clock.now().saturating_since(begun);
    assert!(took >= Duration::from_millis(2 * 19), "{took:?}");
}

#[test]
fn a_thread_waits_until_its_own_departure() {
    for quota in lines() {
        let (limiter, clock) = limiter(quota);
        assert!(limiter.check(&1).is_allowed());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| limiter.wait(&1).map(|()| clock.now()));
            while line(&limiter) != Duration::from_millis(200) {
                std::thread::yield_now();
            }
            clock.set(tick(1));
            assert_eq!(waiter.join().unwrap(), Ok(tick(1)), "{quota}");
        });
    }
}

#[test]
fn a_global_limiter_is_waited_for_alike() {
    let clock = ManualClock::new();
    let limiter = GlobalLimiter::builder(TENTHS).clock(clock.clone()).build().unwrap();
    assert_eq!(limiter.wait(), Ok(()));
    let too_long = Err(ReserveError::TooLong { wait: Duration::from_millis(100) });
    assert_eq!(limiter.wait_timeout(Duration::from_millis(99)), too_long);
    assert_eq!(block_on(limiter.ready_within(Duration::from_millis(99))), too_long);
    {
        let mut waiting = pin!(limiter.ready());
        assert!(poll(waiting.as_mut()).is_pending());
        assert_eq!(limiter.peek().retry_after(), Some(Duration::from_millis(200)));
        clock.set(tick(1));
        assert_eq!(block_on(waiting), Ok(()));
    }
    assert_eq!(limiter.reserve(Duration::MAX).unwrap().departure(), tick(2));
}

#[test]
fn who_would_wait_too_long_is_told_at_once_and_takes_nothing() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check(&1).is_allowed());
        let too_long = Err(ReserveError::TooLong { wait: Duration::from_millis(100) });
        assert_eq!(limiter.wait_timeout(&1, Duration::from_millis(99)), too_long, "{quota}");
        assert_eq!(block_on(limiter.ready_within(&1, Duration::from_millis(99))), too_long, "{quota}");
        assert_eq!(line(&limiter), Duration::from_millis(100), "{quota}");
    }
}

#[test]
fn a_cost_above_the_limit_fails_at_once_and_never_stands_in_line() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        let limit = limiter.peek(&1).limit();
        let never = ReserveError::Never { cost: limit + 1, limit };
        assert_eq!(limiter.reserve_n(&1, limit + 1, Duration::MAX).unwrap_err(), never);
        assert_eq!(block_on(limiter.ready(&1)), Ok(()), "{quota}");
    }
}

/// A timer that never wakes anybody, and counts who asked it to.
#[derive(Clone, Default)]
struct Deaf(Arc<AtomicUsize>);

impl Timer for Deaf {
    fn sleep(&self, _: Duration) -> impl Future<Output = ()> + Send {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::future::pending()
    }
}

/// A timer that is always early.
#[derive(Clone, Default)]
struct Early(Arc<AtomicUsize>);

impl Timer for Early {
    fn sleep(&self, _: Duration) -> impl Future<Output = ()> + Send {
        self.0.fetch_add(1, Ordering::Relaxed);
        let mut slept = false;
        std::future::poll_fn(move |_| {
            if std::mem::replace(&mut slept, true) { Poll::Ready(()) } else { Poll::Pending }
        })
    }
}

/// The last in line is dropped, and the next to come has its place.
#[test]
fn a_dropped_future_returns_its_place() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check(&1).is_allowed());
        {
            let place = limiter.reserve(&1, Duration::MAX).unwrap();
            let mut waiting = pin!(place.ready(Deaf::default()));
            assert!(poll(waiting.as_mut()).is_pending());
            assert_eq!(line(&limiter), Duration::from_millis(200), "{quota}");
        }
        assert_eq!(limiter.reserve(&1, Duration::MAX).unwrap().departure(), tick(1), "{quota}");
    }
}

/// As when another branch of a `select` was ready first.
#[test]
fn a_future_that_was_never_polled_returns_its_place() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check(&1).is_allowed());
        drop(limiter.reserve(&1, Duration::MAX).unwrap().ready(Deaf::default()));
        assert_eq!(limiter.reserve(&1, Duration::MAX).unwrap().departure(), tick(1), "{quota}");
    }
}

/// Its charge was forgiven; what is owed since is others'.
#[test]
fn a_future_that_is_dropped_after_a_reset_gives_nothing_back() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        let departure = || limiter.reserve(&1, Duration::MAX).unwrap().departure();
        assert!(limiter.check(&1).is_allowed());
        let waiting = limiter.reserve(&1, Duration::MAX).unwrap().ready(Deaf::default());
        assert!(limiter.reset(&1));
        assert_eq!([departure(), departure()], [tick(0), tick(1)], "{quota}");
        drop(waiting);
        assert_eq!(departure(), tick(2), "{quota}");
    }
}

/// Eight wait, the first is dropped, the other seven keep their order and their distance.
#[test]
fn who_stands_behind_a_dropped_future_keeps_its_departure() {
    for quota in lines() {
        let (limiter, clock) = limiter(quota);
        assert!(limiter.check(&1).is_allowed());
        let early = Early::default();
        let mut waiting: Vec<_> = (0..8)
            .map(|_| Box::pin(limiter.reserve(&1, Duration::MAX).unwrap().ready(early.clone())))
            .collect();
        for future in &mut waiting {
            assert!(poll(future.as_mut()).is_pending());
        }
        drop(waiting.remove(0));
        let mut order = Vec::new();
        for now in 1..=8 {
            clock.set(tick(now));
            for (number, future) in waiting.iter_mut().enumerate() {
                if !order.contains(&number) && poll(future.as_mut()).is_ready() {
                    order.push(number);
                }
            }
            assert_eq!(order.len() as u64, now - 1, "{quota}: one a tick, the first's is lost");
        }
        assert_eq!(order, (0..7).collect::<Vec<_>>(), "{quota}");
        assert_eq!(line(&limiter), Duration::from_millis(100), "{quota}: no permit without a charge");
    }
}

/// With threads: they stand in line in the order of their charges, and so they leave.
#[test]
fn threads_that_come_together_leave_one_by_one_in_the_order_of_their_places() {
    const WAITERS: usize = 64;
    for quota in lines() {
        let (limiter, clock) = limiter(quota);
        assert!(limiter.check(&1).is_allowed());
        let (left, start) = (Mutex::new(Vec::new()), Barrier::new(WAITERS));
        std::thread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    start.wait();
                    let place = limiter.reserve(&1, Duration::MAX).unwrap();
                    let departure = place.departure();
                    place.wait();
                    assert!(clock.now() >= departure);
                    left.lock().unwrap().push(departure);
                });
            }
            for gone in 0..=WAITERS {
                while left.lock().unwrap().len() < gone
                    || gone == 0 && line(&limiter) != Duration::from_millis(100 * (WAITERS as u64 + 1))
                {
                    std::thread::yield_now();
                }
                assert_eq!(left.lock().unwrap().len(), gone, "{quota}: one a tick");
                clock.set(tick(gone as u64 + 1));
            }
        });
        let in_order: Vec<Timestamp> = (1..=WAITERS as u64).map(tick).collect();
        assert_eq!(left.into_inner().unwrap(), in_order, "{quota}");
    }
}

#[test]
fn a_future_takes_its_place_when_it_is_first_polled() {
    let (limiter, _) = limiter(TENTHS);
    let future = limiter.ready(&1);
    assert!(limiter.check(&1).is_allowed());
    drop(future);
    assert_eq!(limiter.peek(&1).retry_after(), Some(Duration::from_millis(100)));
}

#[test]
fn each_waiter_sleeps_once() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        let timer = Deaf::default();
        let mut waiting: Vec<_> = (0..100)
            .map(|_| Box::pin(limiter.reserve(&1, Duration::MAX).unwrap().ready(timer.clone())))
            .collect();
        for future in &mut waiting {
            let _ = poll(future.as_mut());
        }
        assert_eq!(timer.0.load(Ordering::Relaxed), 99, "{quota}: the first departs at once");
    }
}

#[test]
fn futures_wait_for_their_turns_by_the_thread_timer() {
    let clock = TscClock::new();
    let quota = TokenBucket::new(Rate::per_second(200)).burst(1);
    let limiter = Limiter::<u64>::builder(quota).clock(clock.clone()).build().unwrap();
    let (begun, order) = (clock.now(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let place = limiter.reserve(&1, Duration::MAX).unwrap();
            let (departure, order) = (place.departure(), &order);
            scope.spawn(move || {
                block_on(place.ready(ThreadTimer));
                order.lock().unwrap().push(departure);
            });
        }
    });
    let took = clock.now().saturating_since(begun);
    assert!(took >= Duration::from_millis(7 * 5), "{took:?}");
    assert_eq!(order.into_inner().unwrap().len(), 8);
}

#[test]
fn the_thread_timer_wakes_the_earlier_of_two_first() {
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for millis in [60, 20] {
            let done = &done;
            scope.spawn(move || {
                block_on(ThreadTimer.sleep(Duration::from_millis(millis)));
                done.lock().unwrap().push(millis);
            });
        }
    });
    assert_eq!(done.into_inner().unwrap(), [20, 60]);
}

#[test]
fn a_sleeper_that_is_dropped_wakes_nobody() {
    struct CountPolicy(AtomicUsize);
    impl Wake for CountPolicy {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let count = Arc::new(CountPolicy(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    {
        let mut sleep = pin!(ThreadTimer.sleep(Duration::from_millis(20)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    block_on(ThreadTimer.sleep(Duration::from_millis(60)));
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
}

/// Whether it is done within seconds, on a thread of its own, which is left behind if it is not.
fn is_done(what: impl FnOnce() + Send + 'static) -> bool {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        what();
        done.send(())
    });
    wait.recv_timeout(Duration::from_secs(20)).is_ok()
}

#[test]
fn a_waker_that_panics_leaves_nobody_else_asleep() {
    struct Panics(AtomicUsize);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("the executor is gone");
        }
    }
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    let waker = Waker::from(panics.clone());
    let mut sleep = pin!(ThreadTimer.sleep(Duration::from_millis(5)));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(is_done(|| block_on(ThreadTimer.sleep(Duration::from_millis(30)))));
    assert_eq!(panics.0.load(Ordering::Relaxed), 1);
}

/// As the waker of a task does that was given up, whose future sleeps as well.
#[test]
fn a_waker_may_own_another_sleeper() {
    struct Owner {
        _sleeps: Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>,
    }
    impl Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }
    let asleep = || -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut sleep = Box::pin(ThreadTimer.sleep(Duration::from_secs(3_600)));
        assert!(poll(sleep.as_mut()).is_pending());
        sleep
    };
    let owner = move || Waker::from(Arc::new(Owner { _sleeps: Mutex::new(asleep()) }));
    assert!(is_done(move || {
        let mut sleep = Box::pin(ThreadTimer.sleep(Duration::from_secs(3_600)));
        // The second waker takes the place of the first, and goes with the sleeper.
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        drop(sleep);
    }));
    assert!(is_done(|| block_on(ThreadTimer.sleep(Duration::from_millis(1)))));
}

#[test]
fn a_future_can_be_sent_to_another_thread() {
    fn sendable<T: Send>(future: T) -> T {
        future
    }
    let limiter = Limiter::<u64>::builder(TENTHS).build().unwrap();
    assert_eq!(block_on(sendable(limiter.ready(&1))), Ok(()));
}
