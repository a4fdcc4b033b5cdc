//! What threads do to few keys, and what they were told.

use std::cell::Cell;
use std::fmt::Write;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Clock, Decision, Key, KeyHasher, Limiter, ManualClock, Quota, Resolution, Timestamp};
use tollgate_model::Answer;

use super::limits::Limit;

/// One call of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) thread: usize,
    /// When it began and when it had returned, in steps of a counter that all threads share.
    pub(crate) began: u64,
    pub(crate) returned: u64,
    pub(crate) act: Act,
    /// The time that it was decided by: the last that it read.
    pub(crate) now: u64,
    pub(crate) said: Said,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Check(u64),
    Peek(u64),
    /// Of the call of this number on the same key.
    Refund(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    Told(Told),
    Back(u64),
}

/// What a decision says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) allowed: bool,
    pub(crate) remaining: u64,
    pub(crate) retry: Option<u64>,
    pub(crate) reset: u64,
    pub(crate) delay: u64,
}

impl Told {
    /// What a decision on a log says beside yes and no is read from its ring when it is asked for, so it is not asked.
    const fn by_a_log(allowed: bool) -> Self {
        Self { allowed, remaining: 0, retry: None, reset: 0, delay: 0 }
    }

    pub(crate) fn of(limit: &Limit, answer: &Answer) -> Self {
        let Answer { allowed, remaining, retry_after_ns, reset_after_ns, delay_ns, .. } = *answer;
        if limit.is_log() {
            return Self::by_a_log(allowed);
        }
        Self { allowed, remaining, retry: retry_after_ns, reset: reset_after_ns, delay: delay_ns }
    }

    fn by(limit: &Limit, decision: &Decision<'_>) -> Self {
        if limit.is_log() {
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

/// What is played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Play {
    /// How many keys the threads meet at.
    pub(crate) keys: usize,
    /// How many calls each thread makes.
    pub(crate) calls: usize,
    /// Whether the clock steps back now and then. Nothing is refunded then: how much is still owed of a request is a
    /// question to a clock that goes ahead.
    pub(crate) goes_back: bool,
    /// Whether other keys keep coming into the same bucket.
    pub(crate) strangers: bool,
}

/// A key that is kept where the test wants it: the lowest bits pick the bucket.
struct Placed(u64);

impl Key for Placed {
    fn name(&self, _: &KeyHasher) -> u64 {
        self.0
    }
}

/// The clock of all threads, which remembers what each has read last, and lets others go first now and then.
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
        // Between what a call has read and what it does next is where others must be able to come.
        if READINGS.get().is_multiple_of(3) {
            thread::yield_now();
        }
        now
    }
}

/// How many threads meet, and how often before the limiter is thrown away: refunds share marks by their keys' names, and
/// no two keys must.
const THREADS: usize = 3;
const ROUNDS: usize = 60;

/// Plays rounds on one limiter, each with keys that nobody has seen.
pub(crate) struct Recorder<'l> {
    limit: &'l Limit,
    play: Play,
    seed: u64,
    limiter: Limiter<Placed, Quota, Watched>,
    clock: ManualClock,
}

impl<'l> Recorder<'l> {
    pub(crate) fn new(limit: &'l Limit, play: Play, seed: u64) -> Self {
        let clock = ManualClock::new();
        let max_keys = if play.strangers { 100_000 } else { 600 };
        let builder = Limiter::builder(limit.quota()).max_keys(max_keys);
        let limiter = builder.clock(Watched(clock.clone())).build().expect("the limit is valid");
        Self { limit, play, seed, limiter, clock }
    }

    pub(crate) fn resolution(&self) -> Resolution {
        self.limiter.resolution()
    }

    /// That of a limiter of this limit.
    pub(crate) fn resolution_of(limit: &'l Limit) -> Resolution {
        let play = Play { keys: 1, calls: 1, goes_back: false, strangers: false };
        Self::new(limit, play, 0).resolution()
    }

    /// The histories of all keys of all rounds.
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
            // A refund names the call by its number in the thread's own calls: from here on, in the key's.
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

    /// The `key`th of all keys.
    fn key(&self, key: usize) -> Placed {
        let key = key as u64;
        // The bits from the second on pick the mark of its refunds; with strangers all are in one bucket.
        let low = if self.play.strangers { key << 6 } else { key << 2 };
        Placed(key.wrapping_mul(0x9E37_79B9_7F4A_7C15) & !0xFFFF | low)
    }

    /// Moves the clock while the others play.
    fn mover(&self, meet: &Barrier) {
        let mut dice = Dice(self.seed << 8 | 0xFF);
        let mut time = 0;
        for _ in 0..ROUNDS {
            meet.wait();
            for _ in 0..self.play.calls * 2 {
                // Tenths of seconds, a nanosecond less or more, so that boundaries are met.
                let step = dice.below(5) * 100_000_000 + dice.below(3);
                let back = self.play.goes_back && dice.below(3) == 0;
                time = if back { u64::saturating_sub(time, step) } else { time + step };
                self.clock.set(Timestamp::from_nanos(time));
                thread::yield_now();
            }
            meet.wait();
        }
    }

    fn player(&self, number: usize, meet: &Barrier, counter: &AtomicU64) -> Vec<(usize, Call)> {
        let mut dice = Dice(self.seed << 8 | number as u64);
        let mut calls: Vec<(usize, Call)> = Vec::new();
        for round in 0..ROUNDS {
            let mut held: Vec<(usize, usize, Decision<'_>)> = Vec::new();
            meet.wait();
            for nth in 0..self.play.calls {
                let key = round * self.play.keys + dice.below(self.play.keys as u64) as usize;
                let began = counter.fetch_add(1, Ordering::SeqCst);
                LAST.set(self.clock.now().as_nanos());
                let (key, act, said) = match (dice.below(8), held.pop()) {
                    (0..=2, Some((key, of, decision))) if !self.play.goes_back => {
                        (key, Act::Refund(of), Said::Back(self.limiter.refund(decision)))
                    }
                    // A log's ring may go on under a look at it, which promises nothing.
                    (3, other) if !self.limit.is_log() => {
                        held.extend(other);
                        let cost = 1 + dice.below(2);
                        let decision = self.limiter.peek_n_at(&self.key(key), cost, self.limiter.now());
                        (key, Act::Peek(cost), Said::Told(Told::by(self.limit, &decision)))
                    }
                    (_, other) => {
                        held.extend(other);
                        let cost = 1 + dice.below(2);
                        let decision = self.limiter.check_n(&self.key(key), cost);
                        let told = Told::by(self.limit, &decision);
                        if told.allowed {
                            held.push((key, calls.len(), decision));
                        }
                        (key, Act::Check(cost), Said::Told(told))
                    }
                };
                let returned = counter.fetch_add(1, Ordering::SeqCst);
                calls.push((key, Call { thread: number, began, returned, act, now: LAST.get(), said }));
                if self.play.strangers {
                    let stranger = (1 << 20) + (number * ROUNDS + round) * self.play.calls + nth;
                    let _ = self.limiter.check(&self.key(stranger));
                }
            }
            meet.wait();
        }
        calls
    }
}

/// The history, a line a call.
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

/// A sequence of numbers that looks random (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % end
    }
}
