//! Waiting for one's turn, on a thread and as a future.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::{
    Clock, LeakyBucket, Limiter, ManualClock, Quota, Rate, ReserveError, ThreadTimer, Timer, Timestamp,
    TokenBucket, TscClock,
};

/// Ten a second, one at a time.
const TENTHS: TokenBucket = TokenBucket::new(Rate::per_second(10)).burst(1);

/// The limits with turns, ten a second and one at a time.
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

type Manual = Limiter<u64, Quota, 1, ManualClock>;

fn limiter(quota: impl Into<Quota>) -> (Manual, ManualClock) {
    let clock = ManualClock::new();
    let limit = Limiter::builder(quota.into()).per().clock(clock.clone());
    (limit.max_keys(100).build().unwrap(), clock)
}

/// Returns the wait of the next request.
fn line(limiter: &Manual) -> Duration {
    match limiter.account(1).reserve(1, Duration::ZERO) {
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
    let limiter = Limiter::builder(quota).per::<u64>().clock(clock.clone()).build().unwrap();
    let begun = clock.now();
    let left = AtomicU64::new(100);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    limiter.account(1).wait(1, Duration::MAX).unwrap();
                }
            });
        }
    });
    let took = clock.now().saturating_since(begun);
    assert!(took >= Duration::from_millis(2 * 99), "{took:?}");
}

/// A manual clock that counts the threads that have gone to sleep by it.
#[derive(Clone, Default)]
struct Counting(ManualClock, Arc<AtomicUsize>);

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep_until(&self, when: Timestamp) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.sleep_until(when);
    }
}

#[test]
fn a_thread_waits_until_its_own_departure() {
    for quota in lines() {
        let clock = Counting::default();
        let limiter = Limiter::builder(quota).per::<u64>().clock(clock.clone()).build().unwrap();
        assert!(limiter.check(1).is_allowed());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| limiter.account(1).wait(1, Duration::MAX).map(|()| clock.now()));
            while clock.1.load(Ordering::SeqCst) == 0 && !waiter.is_finished() {
                std::thread::yield_now();
            }
            clock.0.set(tick(1));
            assert_eq!(waiter.join().unwrap(), Ok(tick(1)), "{quota}");
        });
    }
}

#[test]
fn a_global_limiter_is_waited_for_alike() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(TENTHS).clock(clock.clone()).build().unwrap();
    assert_eq!(limiter.account(()).wait(1, Duration::MAX), Ok(()));
    let too_long = Err(ReserveError::TooLong { wait: Duration::from_millis(100) });
    assert_eq!(limiter.account(()).wait(1, Duration::from_millis(99)), too_long);
    assert_eq!(block_on(limiter.account(()).ready(1, Duration::from_millis(99), ThreadTimer)), too_long);
    {
        let mut waiting = pin!(limiter.account(()).ready(1, Duration::MAX, ThreadTimer));
        assert!(poll(waiting.as_mut()).is_pending());
        assert_eq!(limiter.peek(()).retry_after(), Some(Duration::from_millis(200)));
        clock.set(tick(1));
        assert_eq!(block_on(waiting), Ok(()));
    }
    assert_eq!(limiter.account(()).reserve(1, Duration::MAX).unwrap().departure(), tick(2));
}

#[test]
fn a_wait_that_is_too_long_fails_at_once() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check(1).is_allowed());
        let too_long = Err(ReserveError::TooLong { wait: Duration::from_millis(100) });
        assert_eq!(limiter.account(1).wait(1, Duration::from_millis(99)), too_long, "{quota}");
        let ready = limiter.account(1).ready(1, Duration::from_millis(99), ThreadTimer);
        assert_eq!(block_on(ready), too_long, "{quota}");
        assert_eq!(line(&limiter), Duration::from_millis(100), "{quota}");
    }
}

#[test]
fn waiting_with_a_cost_above_the_limit_fails_at_once() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        let limit = limiter.peek(1).limit();
        let never = ReserveError::Never { cost: limit + 1, limit };
        assert_eq!(limiter.account(1).reserve(limit + 1, Duration::MAX).unwrap_err(), never);
        assert_eq!(block_on(limiter.account(1).ready(1, Duration::MAX, ThreadTimer)), Ok(()), "{quota}");
    }
}

/// A timer that never wakes, and counts its sleeps.
#[derive(Clone, Default)]
struct Deaf(Arc<AtomicUsize>);

impl Timer for Deaf {
    fn sleep(&self, _: Duration) -> impl Future<Output = ()> + Send {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::future::pending()
    }
}

/// A timer that always wakes early.
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

/// The last waiting future is dropped, and the next request gets its turn.
#[test]
fn a_dropped_future_returns_its_turn() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check(1).is_allowed());
        {
            let place = limiter.account(1).reserve(1, Duration::MAX).unwrap();
            let mut waiting = pin!(place.ready(Deaf::default()));
            assert!(poll(waiting.as_mut()).is_pending());
            assert_eq!(line(&limiter), Duration::from_millis(200), "{quota}");
        }
        assert_eq!(limiter.account(1).reserve(1, Duration::MAX).unwrap().departure(), tick(1), "{quota}");
    }
}

/// As in a `select` whose other branch was ready first.
#[test]
fn a_future_that_was_never_polled_returns_its_turn() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check(1).is_allowed());
        drop(limiter.account(1).reserve(1, Duration::MAX).unwrap().ready(Deaf::default()));
        assert_eq!(limiter.account(1).reserve(1, Duration::MAX).unwrap().departure(), tick(1), "{quota}");
    }
}

/// The reset forgave its charge. The debt since then belongs to other requests.
#[test]
fn a_wait_dropped_after_a_reset_refunds_nothing() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        let departure = || limiter.account(1).reserve(1, Duration::MAX).unwrap().departure();
        assert!(limiter.check(1).is_allowed());
        let waiting = limiter.account(1).reserve(1, Duration::MAX).unwrap().ready(Deaf::default());
        assert!(limiter.account(1).reset());
        assert_eq!([departure(), departure()], [tick(0), tick(1)], "{quota}");
        drop(waiting);
        assert_eq!(departure(), tick(2), "{quota}");
    }
}

/// Eight futures wait, the first is dropped, and the other seven keep their departures.
#[test]
fn futures_behind_a_dropped_one_keep_their_departures() {
    for quota in lines() {
        let (limiter, clock) = limiter(quota);
        assert!(limiter.check(1).is_allowed());
        let early = Early::default();
        let mut waiting: Vec<_> = (0..8)
            .map(|_| Box::pin(limiter.account(1).reserve(1, Duration::MAX).unwrap().ready(early.clone())))
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

/// Lets all threads go that wait by this clock, also when the test fails.
struct EndOfTime(ManualClock);

impl Drop for EndOfTime {
    fn drop(&mut self) {
        self.0.set(Timestamp::from_nanos(u64::MAX));
    }
}

/// Threads depart in the order of their charges.
#[test]
fn waiting_threads_depart_one_by_one_in_order() {
    const WAITERS: usize = 64;
    for quota in lines() {
        let (limiter, clock) = limiter(quota);
        assert!(limiter.check(1).is_allowed());
        let (left, start) = (Mutex::new(Vec::new()), Barrier::new(WAITERS));
        std::thread::scope(|scope| {
            let _end = EndOfTime(clock.clone());
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    start.wait();
                    let place = limiter.account(1).reserve(1, Duration::MAX).unwrap();
                    let departure = place.departure();
                    place.wait();
                    left.lock().unwrap().push((departure, clock.now()));
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
        let in_order: Vec<_> = (1..=WAITERS as u64).map(|nth| (tick(nth), tick(nth))).collect();
        assert_eq!(left.into_inner().unwrap(), in_order, "{quota}");
    }
}

#[test]
fn a_future_gets_its_turn_when_first_polled() {
    let (limiter, _) = limiter(TENTHS);
    let future = limiter.account(1).ready(1, Duration::MAX, ThreadTimer);
    assert!(limiter.check(1).is_allowed());
    drop(future);
    assert_eq!(limiter.peek(1).retry_after(), Some(Duration::from_millis(100)));
}

#[test]
fn each_waiter_sleeps_once() {
    for quota in lines() {
        let (limiter, _) = limiter(quota);
        let timer = Deaf::default();
        let mut waiting: Vec<_> = (0..100)
            .map(|_| Box::pin(limiter.account(1).reserve(1, Duration::MAX).unwrap().ready(timer.clone())))
            .collect();
        for future in &mut waiting {
            let _ = poll(future.as_mut());
        }
        assert_eq!(timer.0.load(Ordering::Relaxed), 99, "{quota}: the first departs at once");
    }
}

/// A timer whose sleepers move the clock themselves, and that counts them.
#[derive(Clone)]
struct Forward(ManualClock, Arc<AtomicUsize>);

impl Timer for Forward {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.0.advance(duration);
        self.1.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    }
}

#[test]
fn a_waiter_sleeps_until_its_departure_and_no_longer() {
    for quota in lines() {
        let (limiter, clock) = limiter(quota);
        let timer = Forward(clock.clone(), Arc::default());
        for turn in 0..5 {
            block_on(limiter.account(1).reserve(1, Duration::MAX).unwrap().ready(timer.clone()));
            assert_eq!(
                (clock.now(), timer.1.load(Ordering::Relaxed)),
                (tick(turn), turn as usize),
                "{quota}"
            );
        }
    }
}

#[test]
fn futures_wait_for_their_turns_by_the_thread_timer() {
    let clock = TscClock::new();
    let quota = TokenBucket::new(Rate::per_second(200)).burst(1);
    let limiter = Limiter::builder(quota).per::<u64>().clock(clock.clone()).build().unwrap();
    let (begun, order) = (clock.now(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let place = limiter.account(1).reserve(1, Duration::MAX).unwrap();
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
fn a_dropped_sleep_wakes_no_task() {
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

/// Returns whether `what` is done within seconds. It runs on a thread, which is left behind if not.
fn is_done(what: impl FnOnce() + Send + 'static) -> bool {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        what();
        done.send(())
    });
    wait.recv_timeout(Duration::from_secs(20)).is_ok()
}

#[test]
fn a_waker_that_panics_leaves_no_other_task_asleep() {
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

#[test]
fn a_panic_whose_payload_panics_leaves_the_timer_running() {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("and its payload cannot be dropped");
        }
    }
    struct Panics(AtomicUsize);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::panic::panic_any(Payload);
        }
    }
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    let waker = Waker::from(panics.clone());
    let mut sleep = pin!(ThreadTimer.sleep(Duration::from_millis(5)));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // The first may be woken together with the one that panics; the second needs the thread
    // afterwards.
    for _ in 0..2 {
        assert!(is_done(|| block_on(ThreadTimer.sleep(Duration::from_millis(30)))));
    }
    assert_eq!(panics.0.load(Ordering::Relaxed), 1);
}

/// Like the waker of an aborted task whose future sleeps too.
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
        // The second waker replaces the first, and is dropped with the sleep.
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
    let limiter = Limiter::builder(TENTHS).per::<u64>().build().unwrap();
    assert_eq!(block_on(sendable(limiter.account(1).ready(1, Duration::MAX, ThreadTimer))), Ok(()));
}
