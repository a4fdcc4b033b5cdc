//! Futures that wait for units: each gets them once there is room, in the order of the line.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tollgate::{AcquireError, InFlight, InFlightLimiter, OwnedInFlight};
use tollgate_testing::random::Random;

use super::{limiter, smallest};

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A task of a test, polled by hand.
struct Task<'f, T> {
    future: Pin<Box<dyn Future<Output = T> + 'f>>,
    woken: Arc<Woken>,
}

impl<'f, T> Task<'f, T> {
    fn new(future: impl Future<Output = T> + 'f) -> Self {
        Self { future: Box::pin(future), woken: Arc::default() }
    }

    /// One that waits.
    fn waiting(future: impl Future<Output = T> + 'f) -> Self {
        let mut task = Self::new(future);
        assert!(task.poll().is_pending());
        task
    }

    fn poll(&mut self) -> Poll<T> {
        self.future.as_mut().poll(&mut Context::from_waker(&Waker::from(self.woken.clone())))
    }

    fn ready(&mut self) -> T {
        let Poll::Ready(value) = self.poll() else { panic!("there is room") };
        value
    }

    fn woken(&self) -> usize {
        self.woken.0.load(SeqCst)
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_future_waits_until_units_come_back() {
    let limiter = limiter(2);
    let (first, second) = (limiter.try_acquire(1).unwrap(), limiter.try_acquire(1).unwrap());
    let mut task = Task::waiting(limiter.acquire(1));
    assert_eq!((task.woken(), limiter.in_flight(1)), (0, 2), "who waits holds nothing");
    drop(first);
    assert_eq!(task.woken(), 1);
    let third = task.ready().unwrap();
    assert_eq!((third.units(), limiter.in_flight(1)), (1, 2));
    drop((second, third));
    assert_eq!((limiter.in_flight(1), limiter.usage().live_keys), (0, 0));
}

#[test]
fn where_there_is_room_nobody_waits() {
    let limiter = limiter(2);
    assert_eq!(Task::new(limiter.acquire_n(1, 2)).ready().unwrap().units(), 2);
    assert_eq!(Task::new(limiter.acquire_n(1, 0)).ready().unwrap().units(), 0);
    let never = AcquireError::Never { units: 3, limit: 2 };
    assert_eq!(Task::new(limiter.acquire_n(1, 3)).ready().unwrap_err(), never);
}

#[test]
fn the_first_in_line_is_woken_first() {
    let limiter = limiter(1);
    let held = limiter.try_acquire(1).unwrap();
    let mut tasks = [(); 3].map(|()| Task::waiting(limiter.acquire(1)));
    let mut held = Some(held);
    for turn in 0..3 {
        drop(held.take());
        let woken = tasks.each_ref().map(|task| task.woken() > 0);
        assert_eq!(woken.map(usize::from).iter().sum::<usize>(), turn + 1, "{woken:?}");
        held = Some(tasks[turn].ready().unwrap());
        // The next finds no room, and keeps its place.
        tasks[turn + 1..].iter_mut().for_each(|task| assert!(task.poll().is_pending()));
        tasks[turn + 1..].iter().for_each(|task| task.woken.0.store(0, SeqCst));
    }
}

/// Both guards give back before the first in line looks.
#[test]
fn two_that_have_room_are_both_woken() {
    let limiter = limiter(2);
    let guards = [limiter.try_acquire(1).unwrap(), limiter.try_acquire(1).unwrap()];
    let (mut one, mut two) = (Task::waiting(limiter.acquire(1)), Task::waiting(limiter.acquire(1)));
    drop(guards);
    assert_eq!((one.woken(), two.woken()), (1, 0));
    let _one = one.ready().unwrap();
    drop(one);
    assert_eq!(two.woken(), 1);
    assert!(two.ready().is_ok());
}

#[test]
fn one_that_gives_up_wakes_the_next() {
    let limiter = limiter(1);
    let held = limiter.try_acquire(1).unwrap();
    let (one, mut two) = (Task::waiting(limiter.acquire(1)), Task::waiting(limiter.acquire(1)));
    drop(held);
    assert_eq!((one.woken(), two.woken()), (1, 0));
    drop(one);
    assert_eq!(two.woken(), 1);
    assert!(two.ready().is_ok());
}

#[test]
fn a_heavy_request_is_not_passed_by_those_behind_it() {
    let limiter = limiter(3);
    let guards: Vec<_> = (0..3).map(|_| limiter.try_acquire(1).unwrap()).collect();
    let (mut heavy, mut light) = (Task::waiting(limiter.acquire_n(1, 3)), Task::waiting(limiter.acquire(1)));
    for guard in guards {
        assert!(heavy.poll().is_pending());
        drop(guard);
        assert_eq!(light.woken(), 0);
    }
    let all = heavy.ready().unwrap();
    drop(heavy);
    assert!(light.poll().is_pending());
    drop(all);
    assert!(light.woken() > 0 && light.ready().is_ok());
}

#[test]
fn a_key_wakes_its_own_waiters_only() {
    let limiter = limiter(1);
    let guards: Vec<_> = (0..40).map(|key| limiter.try_acquire(key).unwrap()).collect();
    let tasks: Vec<_> = (0..40).map(|key| Task::waiting(limiter.acquire(key))).collect();
    for (key, guard) in guards.into_iter().enumerate() {
        drop(guard);
        let woken: Vec<usize> = tasks.iter().map(Task::woken).collect();
        assert!((0..40).all(|other| woken[other] == usize::from(other <= key)), "{key}: {woken:?}");
    }
}

#[test]
fn a_limit_for_everything_is_waited_for_alike() {
    let limiter = InFlightLimiter::builder(1).build().unwrap();
    let held = limiter.try_acquire(()).unwrap();
    let mut task = Task::waiting(limiter.acquire(()));
    drop(held);
    assert_eq!(task.woken(), 1);
    assert!(task.ready().is_ok());
}

#[test]
fn another_limit_wakes_everyone() {
    let limiter = limiter(1);
    let _held = limiter.try_acquire(1).unwrap();
    let (mut one, mut two) = (Task::waiting(limiter.acquire(1)), Task::waiting(limiter.acquire(1)));
    limiter.set_limit(3).unwrap();
    assert_eq!((one.woken(), two.woken()), (1, 1));
    assert!(two.ready().is_ok() && one.ready().is_ok());
    let all = limiter.try_acquire_n(1, 2).unwrap();
    let mut heavy = Task::waiting(limiter.acquire_n(1, 2));
    limiter.set_limit(1).unwrap();
    let never = AcquireError::Never { units: 2, limit: 1 };
    assert_eq!((heavy.woken(), heavy.ready().unwrap_err()), (1, never));
    drop(all);
}

/// Every slot that the key could have is another key's.
#[test]
fn a_key_without_a_slot_does_not_wait() {
    let limiter = smallest(1);
    let guards: Vec<InFlight<'_>> = (0..300).filter_map(|key| limiter.try_acquire(key).ok()).collect();
    assert_eq!(Task::new(limiter.acquire(1_000)).ready().unwrap_err(), AcquireError::Busy);
    drop(guards);
    assert!(Task::new(limiter.acquire(1_000)).ready().is_ok());
}

/// The slot of a key goes to another while a future waits for it.
#[test]
fn a_waiter_gets_units_though_its_key_lost_the_slot() {
    let limiter = smallest(1);
    let mut guards: Vec<_> = (0..300).map(|key| limiter.try_acquire(key).ok()).collect();
    let key = guards.iter().position(Option::is_some).unwrap() as u64;
    let mut tasks = [(); 2].map(|()| Task::waiting(limiter.acquire(key)));
    guards[key as usize] = None;
    assert_eq!(tasks[0].woken(), 1);
    // Some other key of the bucket takes the slot before the waiter looks.
    let other = (300..600).find_map(|key| limiter.try_acquire(key).ok()).unwrap();
    assert_eq!(tasks[0].ready().unwrap_err(), AcquireError::Busy);
    let [_, mut next] = tasks;
    assert_eq!(next.woken(), 1);
    drop(other);
    assert!(next.ready().is_ok());
}

#[test]
fn an_owned_guard_is_waited_for_as_well() {
    let limiter = Arc::new(limiter(2));
    let guard: OwnedInFlight<u64> = Task::new(limiter.acquire_n_owned(1, 2)).ready().unwrap();
    let mut task = Task::waiting(limiter.acquire_owned(1));
    drop(guard);
    assert_eq!(task.woken(), 1);
    assert_eq!(task.ready().unwrap().units(), 1);
}

/// A waker that gives back another guard, and asks for more.
struct Gives(Mutex<Option<OwnedInFlight<u64>>>, Arc<InFlightLimiter<u64>>);

impl Wake for Gives {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
        drop(Task::new(self.1.acquire(1)).poll());
    }
}

#[test]
fn a_waker_may_use_the_limiter() {
    let limiter = Arc::new(limiter(2));
    let [one, two] = [(); 2].map(|()| limiter.try_acquire_owned(1).unwrap());
    let waker = Waker::from(Arc::new(Gives(Mutex::new(Some(two)), limiter.clone())));
    let mut future = pin!(limiter.acquire_n(1, 2));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(one);
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

/// Threads wait, give up, hold and change the limit. Where a wake-up is lost, one sleeps for ever.
#[test]
fn no_wake_up_is_lost_among_threads() {
    const THREADS: u64 = 4;
    let (limit, rounds) = (3, 20_000);
    let limiter = limiter(limit);
    let (held, too_many) = ([const { AtomicU64::new(0) }; 2], AtomicBool::new(false));
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (limiter, held, too_many) = (&limiter, &held, &too_many);
            scope.spawn(move || {
                let mut random = Random::with_seed(seed);
                for _ in 0..rounds {
                    let (key, units) = (random.u64(..2), 1 + random.u64(..limit));
                    if random.u64(..8) == 0 {
                        // Polled once or not at all, and dropped.
                        let mut task = Task::new(limiter.acquire_n(key, units));
                        let _ = random.u64(..2) == 0 && task.poll().is_ready();
                        continue;
                    }
                    if random.u64(..64) == 0 {
                        limiter.set_limit(limit - random.u64(..2)).unwrap();
                    }
                    // More than a lowered limit is never granted.
                    let Ok(guard) = block_on(limiter.acquire_n(key, units)) else { continue };
                    let all = held[key as usize].fetch_add(units, Relaxed) + units;
                    too_many.fetch_or(all > limit, Relaxed);
                    if random.u64(..4) == 0 {
                        thread::yield_now();
                    }
                    held[key as usize].fetch_sub(units, Relaxed);
                    drop(guard);
                }
            });
        }
    });
    limiter.set_limit(limit).unwrap();
    assert!(!too_many.load(Relaxed), "more than the limit at once");
    assert_eq!((limiter.in_flight(0), limiter.in_flight(1)), (0, 0));
    assert!(block_on(limiter.acquire_n(0, limit)).is_ok());
}
