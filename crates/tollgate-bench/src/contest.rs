//! A contest: one workload, and the contestants that check its keys, in turns or each alone.
//!
//! In each pass, the contestants check the same keys in the same order, so that other activity of
//! the machine affects all of them. The contest verifies the answers: a contestant that gives wrong
//! answers gets no figure.

use std::hint::black_box;
use std::ops::Deref;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::limit::Expected;
use crate::machine::time_without_processor;
use crate::measure::{Outcome, Score, Unit, alone};

/// A limiter or a floor whose checks are timed.
pub(crate) trait TestedLimiter<K>: Send + Sync {
    /// Checks a key. Returns whether it is admitted.
    fn admit(&self, key: &K) -> bool;

    /// Checks the keys in order. Returns the number admitted.
    fn admit_all(&self, keys: &[K]) -> usize {
        keys.iter().filter(|key| self.admit(key)).count()
    }
}

impl<K, F: Fn(&K) -> bool + Send + Sync> TestedLimiter<K> for F {
    fn admit(&self, key: &K) -> bool {
        self(key)
    }
}

pub(crate) type BoxedLimiter<K> = Box<dyn TestedLimiter<K>>;

/// A limiter or a floor that takes part in a contest.
pub(crate) struct Contestant<K> {
    /// Its name in tables and targets.
    pub(crate) name: String,
    /// The number of concurrent threads, each with its share of the keys.
    pub(crate) threads: usize,
    /// A floor decides nothing, so its answers are not verified.
    pub(crate) is_floor: bool,
    /// Builds a new limiter.
    pub(crate) make: Box<dyn Fn() -> BoxedLimiter<K>>,
}

impl<K: 'static> Contestant<K> {
    /// A limiter with one thread.
    pub(crate) fn new<L: TestedLimiter<K> + 'static>(name: &str, make: impl Fn() -> L + 'static) -> Self {
        let make = move || -> BoxedLimiter<K> { Box::new(make()) };
        Self { name: name.to_owned(), threads: 1, is_floor: false, make: Box::new(make) }
    }

    /// A floor, which no limiter can beat.
    pub(crate) fn floor<L: TestedLimiter<K> + 'static>(name: &str, make: impl Fn() -> L + 'static) -> Self {
        Self { is_floor: true, ..Self::new(name, make) }
    }

    /// Gives the contestant another name.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Sets the number of concurrent threads.
    pub(crate) fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }
}

/// The order in which the contestants of a workload check its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// All limiters exist at once, and each turn belongs to another.
    InTurns,
    /// One limiter exists at a time. In each pass it is new and makes at least these checks.
    Alone { checks: usize },
}

impl Order {
    /// Returns the name of a contestant's figures.
    fn named(self, contestant: &str) -> String {
        match self {
            Self::InTurns => contestant.to_owned(),
            Self::Alone { .. } => alone(contestant),
        }
    }
}

/// The keys and the contestants of a workload.
pub(crate) struct Contest<K> {
    /// Keys that are checked once before the measurement.
    pub(crate) warm_up: Vec<K>,
    /// The keys of each turn.
    pub(crate) turn_keys: TurnKeys<K>,
    /// The turns in a pass. Short turns mostly fit between two interruptions by the scheduler, but
    /// then a pass needs several.
    pub(crate) turns: usize,
    /// The answers that all contestants must give.
    pub(crate) expected: Expected,
    pub(crate) contestants: Vec<Contestant<K>>,
}

/// The keys of a turn.
pub(crate) enum TurnKeys<K> {
    /// The same keys in every turn, and once before the measurement.
    Same(Vec<K>),
    /// Other keys in every turn.
    Other(Draw<K>),
    /// Other keys in every turn, each with a new limiter.
    NewLimiter(Draw<K>),
}

/// Returns the keys of a turn by its number.
type Draw<K> = Box<dyn Fn(usize) -> Vec<K>>;

/// The keys of one turn.
enum DrawnKeys<'a, K> {
    Same(&'a [K]),
    Drawn(Vec<K>),
}

impl<K> Deref for DrawnKeys<'_, K> {
    type Target = [K];

    fn deref(&self) -> &[K] {
        match self {
            Self::Same(keys) => keys,
            Self::Drawn(keys) => keys,
        }
    }
}

impl<K: Sync> Contest<K> {
    /// Runs all passes. Calls `tick` after each.
    pub(crate) fn run(
        self,
        name: &str,
        passes: usize,
        order: Order,
        tick: &mut dyn FnMut(),
    ) -> Result<Outcome, BenchError> {
        let score =
            |contestant: &Contestant<K>| Score::new(&order.named(&contestant.name), contestant.is_floor);
        let mut scores: Vec<Score> = self.contestants.iter().map(score).collect();
        match order {
            Order::InTurns => self.run_in_turns(name, passes, &mut scores, tick)?,
            Order::Alone { checks } => self.run_alone(name, passes, checks, &mut scores, tick)?,
        }
        Ok(Outcome { workload: name.to_owned(), unit: Unit::NanosACheck, scores })
    }

    fn run_in_turns(
        &self,
        name: &str,
        passes: usize,
        scores: &mut [Score],
        tick: &mut dyn FnMut(),
    ) -> Result<(), BenchError> {
        let mut limiters: Vec<_> = self.contestants.iter().map(|each| self.ready(each)).collect();
        for turn in 0..passes * self.turns {
            let keys = self.keys_of(turn);
            for index in self.rotated(turn) {
                self.add_turn(name, index, &mut limiters[index], &keys, &mut scores[index])?;
            }
            if (turn + 1) % self.turns == 0 {
                tick();
            }
        }
        Ok(())
    }

    fn run_alone(
        &self,
        name: &str,
        passes: usize,
        checks: usize,
        scores: &mut [Score],
        tick: &mut dyn FnMut(),
    ) -> Result<(), BenchError> {
        for pass in 0..passes {
            for index in self.rotated(pass) {
                let mut limiter = self.ready(&self.contestants[index]);
                let (mut turn, mut checked) = (0, 0);
                while checked < checks {
                    let keys = self.keys_of(turn);
                    self.add_turn(name, index, &mut limiter, &keys, &mut scores[index])?;
                    (turn, checked) = (turn + 1, checked + keys.len());
                }
            }
            tick();
        }
        Ok(())
    }

    /// Builds a limiter that has checked the keys from before the measurement.
    fn ready(&self, contestant: &Contestant<K>) -> BoxedLimiter<K> {
        let limiter = (contestant.make)();
        limiter.admit_all(&self.warm_up);
        if let TurnKeys::Same(keys) = &self.turn_keys {
            limiter.admit_all(keys);
        }
        limiter
    }

    fn keys_of(&self, turn: usize) -> DrawnKeys<'_, K> {
        match &self.turn_keys {
            TurnKeys::Same(keys) => DrawnKeys::Same(keys),
            TurnKeys::Other(draw) | TurnKeys::NewLimiter(draw) => DrawnKeys::Drawn(draw(turn)),
        }
    }

    /// Returns the indices of the contestants. Their order rotates from turn to turn.
    fn rotated(&self, turn: usize) -> impl Iterator<Item = usize> + use<K> {
        let count = self.contestants.len();
        (0..count).map(move |offset| (offset + turn) % count)
    }

    /// Runs one turn of a contestant and adds its figure.
    fn add_turn(
        &self,
        workload: &str,
        index: usize,
        limiter: &mut BoxedLimiter<K>,
        keys: &[K],
        score: &mut Score,
    ) -> Result<(), BenchError> {
        let contestant = &self.contestants[index];
        if matches!(self.turn_keys, TurnKeys::NewLimiter(..)) {
            *limiter = (contestant.make)();
        }
        let done = self.turn(workload, contestant, &**limiter, keys)?;
        score.add(done.took.as_secs_f64() * 1e9 / keys.len() as f64, done.admitted, keys.len());
        score.add_wait(done.waited, done.timed);
        Ok(())
    }

    /// Runs one turn of a contestant. Repeats a short turn that was interrupted.
    fn turn(
        &self,
        workload: &str,
        contestant: &Contestant<K>,
        limiter: &dyn TestedLimiter<K>,
        keys: &[K],
    ) -> Result<Turn, BenchError> {
        let mut retries = if self.turns > 1 { MAX_RETRIES } else { 0 };
        loop {
            let turn = run_turn(limiter, keys, contestant.threads);
            self.verify(workload, contestant, turn.admitted, keys.len())?;
            if !turn.is_interrupted() || retries == 0 {
                return Ok(turn);
            }
            retries -= 1;
        }
    }

    /// Verifies that the contestant gave the expected answers.
    fn verify(
        &self,
        workload: &str,
        contestant: &Contestant<K>,
        admitted: usize,
        checks: usize,
    ) -> Result<(), BenchError> {
        let expected = match self.expected {
            Expected::Allowed => checks,
            Expected::Denied => 0,
            Expected::Any => return Ok(()),
        };
        if admitted == expected || contestant.is_floor {
            return Ok(());
        }
        let (workload, contestant) = (workload.to_owned(), contestant.name.clone());
        Err(BenchError::WrongAnswers { workload, contestant, admitted, expected, checks })
    }
}

/// The measurement of one turn.
struct Turn {
    took: Duration,
    admitted: usize,
    /// How long all threads together waited for a processor.
    waited: Duration,
    /// How long all threads together were timed, including the readings of `waited`.
    timed: Duration,
}

impl Turn {
    /// Returns whether the threads waited for a processor for more than 5 % of the turn, which is
    /// more than they take to start.
    fn is_interrupted(&self) -> bool {
        self.waited * 20 > self.took
    }
}

/// How often an interrupted turn is repeated.
const MAX_RETRIES: usize = 5;

/// Divides the keys among `threads` threads, which start together.
fn run_turn<K: Sync>(limiter: &dyn TestedLimiter<K>, keys: &[K], threads: usize) -> Turn {
    if threads == 1 {
        let (watched, before, begun) = (Instant::now(), time_without_processor(), Instant::now());
        let admitted = black_box(limiter.admit_all(keys));
        let took = begun.elapsed();
        return Turn { took, admitted, waited: time_without_processor() - before, timed: watched.elapsed() };
    }
    let start = &Barrier::new(threads);
    let run = |keys: &[K]| {
        let (watched, before) = (Instant::now(), time_without_processor());
        start.wait();
        let begun = Instant::now();
        let admitted = black_box(limiter.admit_all(keys));
        (begun, Instant::now(), admitted, time_without_processor() - before, watched.elapsed())
    };
    let parts: Vec<_> = thread::scope(|scope| {
        let shares = keys.chunks(keys.len().div_ceil(threads));
        let threads: Vec<_> = shares.map(|keys| scope.spawn(move || run(keys))).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("a contestant does not panic");
        threads.into_iter().map(join).collect()
    });
    // From the first thread's start to the last thread's end, as they read the clock themselves:
    // the thread that started them may run late.
    let begun = parts.iter().map(|part| part.0).min();
    let ended = parts.iter().map(|part| part.1).max();
    Turn {
        took: begun.zip(ended).map_or(Duration::ZERO, |(begun, ended)| ended - begun),
        admitted: parts.iter().map(|part| part.2).sum(),
        waited: parts.iter().map(|part| part.3).sum(),
        timed: parts.iter().map(|part| part.4).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    fn contest(expected: Expected, admits: fn(&u64) -> bool) -> Result<Outcome, BenchError> {
        let contestants =
            vec![Contestant::new("right", || |_: &u64| true), Contestant::new("tried", move || admits)];
        Contest { warm_up: vec![], turn_keys: TurnKeys::Same(vec![1, 2, 3]), turns: 1, expected, contestants }
            .run("name", 2, Order::InTurns, &mut || ())
    }

    #[test]
    fn wrong_answers_are_an_error() {
        assert!(contest(Expected::Allowed, |_| true).is_ok());
        let error = contest(Expected::Allowed, |&key| key != 2).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("name: tried admitted 2 of 3, not 3"));
        assert!(contest(Expected::Denied, |_| false).is_err(), "the first contestant admits");
        assert!(contest(Expected::Any, |_| false).is_ok());
    }

    /// Counts the limiters that exist, and the checks of each.
    struct Counted {
        alive: Arc<AtomicUsize>,
        checks: AtomicUsize,
    }

    impl TestedLimiter<u64> for Counted {
        fn admit(&self, _: &u64) -> bool {
            // The warm-up and twelve more.
            self.alive.load(Relaxed) == 1 && self.checks.fetch_add(1, Relaxed) < 14
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.alive.fetch_sub(1, Relaxed);
        }
    }

    #[test]
    fn alone_means_one_limiter_new_in_each_pass() {
        let alive = Arc::new(AtomicUsize::new(0));
        let make = move || {
            alive.fetch_add(1, Relaxed);
            Counted { alive: Arc::clone(&alive), checks: AtomicUsize::new(0) }
        };
        let contestants = vec![Contestant::new("one", make.clone()), Contestant::new("two", make)];
        let contest = |contestants| Contest {
            warm_up: vec![1, 2],
            turn_keys: TurnKeys::Other(Box::new(|turn| vec![turn as u64; 4])),
            turns: 1,
            expected: Expected::Allowed,
            contestants,
        };
        let order = Order::Alone { checks: 10 };
        let outcome = contest(contestants).run("name", 2, order, &mut || ()).unwrap();
        let figures: Vec<_> = outcome.scores.iter().map(|score| (&*score.name, score.passes.len())).collect();
        assert_eq!(figures, [("one, alone", 6), ("two, alone", 6)]);
    }

    #[test]
    fn threads_share_the_keys() {
        let turn = run_turn(&|key: &u64| *key > 1, &[1, 2, 3], 2);
        assert_eq!(turn.admitted, 2);
    }
}
