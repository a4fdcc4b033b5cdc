//! Waiting for one's turn, as a thread and as a future.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tollgate::{Clock, Limiter, ManualClock, Rate, ReserveError, ThreadTimer, Timer, Timestamp, TokenBucket};

/// Ten a second, one at a time.
const TENTHS: TokenBucket = TokenBucket::new(Rate::per_second(10)).burst(1);

fn tick(ticks: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(100 * ticks)
}

fn limiter(quota: TokenBucket) -> (Limiter<u64, TokenBucket, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).clock(clock.clone()).max_keys(100).build().unwrap(), clock)
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
    let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(500)).burst(1)).build().unwrap();
    let begun = Instant::now();
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
    assert!(begun.elapsed() >= Duration::from_millis(2 * 19), "{:?}", begun.elapsed());
}

#[test]
fn a_thread_waits_until_its_own_departure() {
    let (limiter, clock) = limiter(TENTHS);
    assert!(limiter.check(&1).is_allowed());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| limiter.wait(&1).map(|()| clock.now()));
        while limiter.peek(&1).retry_after() != Some(Duration::from_millis(200)) {
            std::thread::yield_now();
        }
        clock.set(tick(1));
        assert_eq!(waiter.join().unwrap(), Ok(tick(1)));
    });
}

#[test]
fn who_would_wait_too_long_is_told_at_once_and_takes_nothing() {
    let (limiter, _) = limiter(TENTHS);
    assert!(limiter.check(&1).is_allowed());
    let too_long = Err(ReserveError::TooLong { wait: Duration::from_millis(100) });
    assert_eq!(limiter.wait_timeout(&1, Duration::from_millis(99)), too_long);
    assert_eq!(block_on(limiter.ready_within(&1, Duration::from_millis(99))), too_long);
    assert_eq!(limiter.peek(&1).retry_after(), Some(Duration::from_millis(100)));
}

/// V6.2
#[test]
fn a_cost_above_the_limit_fails_at_once_and_never_stands_in_line() {
    let (limiter, _) = limiter(TENTHS);
    let never = ReserveError::Never { cost: 2, limit: 1 };
    assert_eq!(limiter.reserve_n(&1, 2, Duration::MAX).unwrap_err(), never);
    assert_eq!(block_on(limiter.ready(&1)), Ok(()));
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

/// V10.7: the last in line is dropped, and the next to come has its place.
#[test]
fn a_dropped_future_returns_its_place() {
    let (limiter, _) = limiter(TENTHS);
    assert!(limiter.check(&1).is_allowed());
    {
        let place = limiter.reserve(&1, Duration::MAX).unwrap();
        let mut waiting = pin!(place.ready(Deaf::default()));
        assert!(poll(waiting.as_mut()).is_pending());
        assert_eq!(limiter.peek(&1).retry_after(), Some(Duration::from_millis(200)));
    }
    assert_eq!(limiter.reserve(&1, Duration::MAX).unwrap().departure(), tick(1));
}

/// V10.7: eight wait, the first is dropped, the other seven keep their order and their distance.
#[test]
fn who_stands_behind_a_dropped_future_keeps_its_departure() {
    let (limiter, clock) = limiter(TENTHS);
    assert!(limiter.check(&1).is_allowed());
    let early = Early::default();
    let mut waiting: Vec<_> =
        (0..8).map(|_| Box::pin(limiter.reserve(&1, Duration::MAX).unwrap().ready(early.clone()))).collect();
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
        assert_eq!(order.len() as u64, now - 1, "one a tick, the first's is lost");
    }
    assert_eq!(order, (0..7).collect::<Vec<_>>());
    assert!(!limiter.check(&1).is_allowed(), "no permit without a charge");
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
    let (limiter, _) = limiter(TENTHS);
    let timer = Deaf::default();
    let mut waiting: Vec<_> = (0..100)
        .map(|_| Box::pin(limiter.reserve(&1, Duration::MAX).unwrap().ready(timer.clone())))
        .collect();
    for future in &mut waiting {
        let _ = poll(future.as_mut());
    }
    assert_eq!(timer.0.load(Ordering::Relaxed), 99, "the first departs at once");
}

#[test]
fn futures_wait_for_their_turns_by_the_thread_timer() {
    let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(200)).burst(1)).build().unwrap();
    let (begun, order) = (Instant::now(), Mutex::new(Vec::new()));
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
    assert!(begun.elapsed() >= Duration::from_millis(7 * 5));
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
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    {
        let mut sleep = pin!(ThreadTimer.sleep(Duration::from_millis(20)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    block_on(ThreadTimer.sleep(Duration::from_millis(60)));
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
}

#[test]
fn a_future_can_be_sent_to_another_thread() {
    fn sendable<T: Send>(future: T) -> T {
        future
    }
    let limiter = Limiter::<u64>::builder(TENTHS).build().unwrap();
    assert_eq!(block_on(sendable(limiter.ready(&1))), Ok(()));
}
