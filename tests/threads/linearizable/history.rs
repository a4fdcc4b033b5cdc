//! Operations of threads on a few keys, with their answers.

use std::cell::Cell;
use std::fmt::Write;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Clock, Decision, Limiter, ManualClock, Quota, Resolution, Timestamp};
use tollgate_model::Answer;
use tollgate_testing::keys::Placed;
use tollgate_testing::limits::Limit;
use tollgate_testing::random::Random;

use super::limits::is_log;

/// One call of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) thread: usize,
    /// The begin, in steps of a counter that all threads share. `returned` is the end.
    pub(crate) began: u64,
    pub(crate) returned: u64,
    pub(crate) act: Act,
    /// The time of the decision: the last that the call read.
    pub(crate) now: u64,
    pub(crate) said: Said,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Check(u64),
    Peek(u64),
    /// Refunds the call with this number on the same key.
    Refund(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    Told(Told),
    Back(u64),
}

/// The answer of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) allowed: bool,
    pub(crate) remaining: u64,
    pub(crate) retry: Option<u64>,
    pub(crate) reset: u64,
    pub(crate) delay: u64,
}

impl Told {
    /// The other fields of a decision on a log are read from its ring later, so they are left out.
    const fn by_a_log(allowed: bool) -> Self {
        Self { allowed, remaining: 0, retry: None, reset: 0, delay: 0 }
    }

    pub(crate) fn of(limit: &Limit, answer: &Answer) -> Self {
        let Answer { allowed, remaining, retry_after_ns, reset_after_ns, delay_ns, .. } = *answer;
        if is_log(limit) {
            return Self::by_a_log(allowed);
        }
        Self { allowed, remaining, retry: retry_after_ns, reset: reset_after_ns, delay: delay_ns }
    }

    fn by(limit: &Limit, decision: &Decision<'_>) -> Self {
        if is_log(limit) {
            return Self::by_a_log(decision.is_allowed());
        }
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self {
            allowed: decision.is_allowed(),
            remaining: decision.remaining(),
            retry: decision.retry_after().map(nanos),
            reset: nanos(decision.reset_after()),
            delay: nanos(decision.delay()),
        }
    }
}

/// The parameters of a recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Play {
    /// The number of keys that the threads share.
    pub(crate) keys: usize,
    /// The number of calls of each thread.
    pub(crate) calls: usize,
    /// Whether the clock steps back at times. Then there are no refunds, whose remaining debt needs
    /// a clock that only goes ahead.
    pub(crate) goes_back: bool,
    /// Whether other keys keep entering the same bucket.
    pub(crate) strangers: bool,
}

/// The clock of all threads. It remembers each thread's last reading, and lets other threads run
/// from time to time.
#[derive(Debug)]
struct Watched(ManualClock);

thread_local! {
    static LAST: Cell<u64> = const { Cell::new(0) };
    static READINGS: Cell<u64> = const { Cell::new(0) };
}

impl Clock for Watched {
    fn now(&self) -> Timestamp {
        let now = self.0.now();
        LAST.set(now.as_nanos());
        READINGS.set(READINGS.get().wrapping_add(1));
        // Other threads must be able to run between a call's reading and its next step.
        if READINGS.get().is_multiple_of(3) {
            thread::yield_now();
        }
        now
    }
}

/// The number of threads, and the rounds of one limiter: refunds share marks by their keys'
/// fingerprints, and no two keys may share one.
const THREADS: usize = 3;
const ROUNDS: usize = 60;

/// Runs rounds on one limiter, each with new keys.
pub(crate) struct Recorder<'l> {
    limit: &'l Limit,
    play: Play,
    seed: u64,
    limiter: Limiter<Placed, Quota, 1, Watched>,
    clock: ManualClock,
    /// Counts the beginnings and the ends of all settings of the clock.
    settings: AtomicU64,
}

impl<'l> Recorder<'l> {
    pub(crate) fn new(limit: &'l Limit, play: Play, seed: u64) -> Self {
        let clock = ManualClock::new();
        let max_keys = if play.strangers { 100_000 } else { 600 };
        let builder = Limiter::builder(limit.quota()).per().max_keys(max_keys);
        let limiter = builder.clock(Watched(clock.clone())).build().expect("the limit is valid");
        Self { limit, play, seed, limiter, clock, settings: AtomicU64::new(0) }
    }

    pub(crate) fn resolution(&self) -> Resolution {
        self.limiter.resolution()
    }

    /// Returns the resolution of a limiter with this limit.
    pub(crate) fn resolution_of(limit: &'l Limit) -> Resolution {
        let play = Play { keys: 1, calls: 1, goes_back: false, strangers: false };
        Self::new(limit, play, 0).resolution()
    }

    /// Returns the histories of all keys of all rounds.
    pub(crate) fn record(&mut self) -> Vec<Vec<Call>> {
        let (meet, counter) = (Barrier::new(THREADS + 1), AtomicU64::new(0));
        let this = &*self;
        let recorded: Vec<Vec<(usize, Call)>> = thread::scope(|scope| {
            let (meet, counter) = (&meet, &counter);
            let player = |number| move || this.player(number, meet, counter);
            let players: Vec<_> = (0..THREADS).map(|number| scope.spawn(player(number))).collect();
            this.mover(meet);
            players.into_iter().map(|player| player.join().expect("no player panics")).collect()
        });
        let mut histories = vec![Vec::new(); ROUNDS * self.play.keys];
        for calls in recorded {
            // A refund names its call by the number among the thread's calls; from here on, among
            // the key's calls.
            let mut places = Vec::with_capacity(calls.len());
            for (key, mut call) in calls {
                if let Act::Refund(of) = &mut call.act {
                    *of = places[*of];
                }
                places.push(histories[key].len());
                histories[key].push(call);
            }
        }
        histories
    }

    /// Returns the `key`th of all keys.
    fn key(&self, key: usize) -> Placed {
        let key = key as u64;
        // The bits from the second on choose the mark of its refunds. With other keys, all are in
        // one bucket.
        let low = if self.play.strangers { key << 8 } else { key << 2 };
        Placed(key.wrapping_mul(0x9E37_79B9_7F4A_7C15) & !0xFFFF | low)
    }

    /// Moves the clock while the other threads run.
    fn mover(&self, meet: &Barrier) {
        let mut random = Random::with_seed(self.seed << 8 | 0xFF);
        let mut time = 0;
        for _ in 0..ROUNDS {
            meet.wait();
            for _ in 0..self.play.calls * 2 {
                // Tenths of seconds, and up to two nanoseconds more, to meet boundaries.
                let step = random.u64(..5) * 100_000_000 + random.u64(..3);
                let back = self.play.goes_back && random.u64(..3) == 0;
                time = if back { u64::saturating_sub(time, step) } else { time + step };
                self.settings.fetch_add(1, Ordering::SeqCst);
                self.clock.set(Timestamp::from_nanos(time));
                self.settings.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
            }
            meet.wait();
        }
    }

    fn player(&self, number: usize, meet: &Barrier, counter: &AtomicU64) -> Vec<(usize, Call)> {
        let mut random = Random::with_seed(self.seed << 8 | number as u64);
        let mut calls: Vec<(usize, Call)> = Vec::new();
        for round in 0..ROUNDS {
            let mut held: Vec<(usize, usize, Decision<'_>)> = Vec::new();
            meet.wait();
            for nth in 0..self.play.calls {
                let key = round * self.play.keys + random.usize(..self.play.keys);
                let settings = self.settings.load(Ordering::SeqCst);
                let began = counter.fetch_add(1, Ordering::SeqCst);
                LAST.set(self.clock.now().as_nanos());
                let (key, act, said) = match (random.u64(..8), held.pop()) {
                    (0..=2, Some((key, of, decision))) if !self.play.goes_back => {
                        (key, Act::Refund(of), Said::Back(self.limiter.refund(decision)))
                    }
                    // A log's ring may change during a peek, which promises nothing.
                    (3, other) if !is_log(self.limit) => {
                        held.extend(other);
                        let cost = random.u64(1..=2);
                        let decision =
                            self.limiter.account(self.key(key)).at(self.limiter.now()).peek_n(cost);
                        (key, Act::Peek(cost), Said::Told(Told::by(self.limit, &decision)))
                    }
                    (_, other) => {
                        held.extend(other);
                        let cost = random.u64(1..=2);
                        let decision = self.limiter.check_n(self.key(key), cost);
                        let told = Told::by(self.limit, &decision);
                        if told.allowed {
                            held.push((key, calls.len(), decision));
                        }
                        (key, Act::Check(cost), Said::Told(told))
                    }
                };
                let returned = counter.fetch_add(1, Ordering::SeqCst);
                // A peek at an earlier time than another thread's check may find the key recovered
                // and gone.
                let is_timely =
                    settings.is_multiple_of(2) && self.settings.load(Ordering::SeqCst) == settings;
                if is_timely || !matches!(act, Act::Peek(_)) {
                    calls.push((key, Call { thread: number, began, returned, act, now: LAST.get(), said }));
                }
                if self.play.strangers {
                    let stranger = (1 << 20) + (number * ROUNDS + round) * self.play.calls + nth;
                    let _ = self.limiter.check(self.key(stranger));
                }
            }
            meet.wait();
        }
        calls
    }
}

/// Formats the history, one line for each call.
pub(crate) fn show(history: &[Call]) -> String {
    let mut shown = String::new();
    let mut calls: Vec<(usize, &Call)> = history.iter().enumerate().collect();
    calls.sort_by_key(|(_, call)| call.began);
    for (number, Call { thread, began, returned, act, now, said }) in calls {
        let line =
            format!("#{number} thread {thread} [{began}, {returned}] at {now} ns: {act:?} -> {said:?}");
        writeln!(shown, "{line}").expect("a string takes all");
    }
    shown
}
