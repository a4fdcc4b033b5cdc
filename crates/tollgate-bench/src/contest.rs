//! A contest: one workload, and all who do it, taking turns.
//!
//! Pass by pass, each contestant is asked for the same keys in the same order, so that whatever else the machine does hits
//! all alike. What each answered is checked: nobody gets a figure for work that it did not do.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::fault::Fault;
use crate::limit::Answer;
use crate::machine::waited;
use crate::measure::{Outcome, Score, Unit};

/// A limiter under test.
pub(crate) trait Limits<K>: Send + Sync {
    /// Asks for one unit.
    fn admits(&self, key: &K) -> bool;

    /// Asks for all in order, and counts the admitted.
    fn admitted(&self, keys: &[K]) -> usize {
        keys.iter().filter(|key| self.admits(key)).count()
    }
}

impl<K, F: Fn(&K) -> bool + Send + Sync> Limits<K> for F {
    fn admits(&self, key: &K) -> bool {
        self(key)
    }
}

/// A limiter of any kind.
pub(crate) type Boxed<K> = Box<dyn Limits<K>>;

/// One who takes part.
pub(crate) struct Contestant<K> {
    /// As the tables and the targets call it.
    pub(crate) name: String,
    /// Threads that ask at once, each for its share of the keys.
    pub(crate) threads: usize,
    /// A floor decides nothing, so its answers are not checked.
    pub(crate) is_floor: bool,
    /// Builds it anew.
    pub(crate) make: Box<dyn Fn() -> Boxed<K>>,
}

impl<K: 'static> Contestant<K> {
    /// A limiter asked by one thread.
    pub(crate) fn new<L: Limits<K> + 'static>(name: &str, make: impl Fn() -> L + 'static) -> Self {
        let make = move || -> Boxed<K> { Box::new(make()) };
        Self { name: name.to_owned(), threads: 1, is_floor: false, make: Box::new(make) }
    }

    /// What no limiter can beat.
    pub(crate) fn floor<L: Limits<K> + 'static>(name: &str, make: impl Fn() -> L + 'static) -> Self {
        Self { is_floor: true, ..Self::new(name, make) }
    }

    /// The same under another name.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// The same asked by so many threads at once.
    pub(crate) fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }
}

/// What is asked, and who.
pub(crate) struct Contest<K> {
    /// Keys that are asked for once before.
    pub(crate) known: Vec<K>,
    /// The keys of a pass.
    pub(crate) asks: Asks<K>,
    /// Turns a pass: short ones mostly fit between two of the scheduler's interruptions, but then there must be many.
    pub(crate) turns: usize,
    /// What everybody must answer.
    pub(crate) answer: Answer,
    /// Who is asked.
    pub(crate) contestants: Vec<Contestant<K>>,
}

/// The keys of a turn.
pub(crate) enum Asks<K> {
    /// The same in every turn, and once before that the clock does not see.
    Same(Vec<K>),
    /// Others in every turn.
    Other(Draw<K>),
    /// Others in every turn, of a limiter that is built anew for it.
    Fresh(Draw<K>),
}

/// Draws the keys of a turn by its number.
type Draw<K> = Box<dyn Fn(usize) -> Vec<K>>;

impl<K: Sync> Contest<K> {
    /// Runs all passes; `tick` is called after each.
    pub(crate) fn run(self, name: &str, passes: usize, tick: &mut dyn FnMut()) -> Result<Outcome, Fault> {
        let mut limiters: Vec<Boxed<K>> = Vec::new();
        for contestant in &self.contestants {
            let limiter = (contestant.make)();
            limiter.admitted(&self.known);
            if let Asks::Same(keys) = &self.asks {
                limiter.admitted(keys);
            }
            limiters.push(limiter);
        }
        let mut scores: Vec<Score> = self
            .contestants
            .iter()
            .map(|contestant| Score::new(&contestant.name, contestant.is_floor))
            .collect();
        for turn in 0..passes * self.turns {
            let drawn;
            let keys = match &self.asks {
                Asks::Same(keys) => keys,
                Asks::Other(draw) | Asks::Fresh(draw) => {
                    drawn = draw(turn);
                    &drawn
                }
            };
            // Who begins, and so who comes after whom, changes from turn to turn.
            for place in 0..limiters.len() {
                let index = (place + turn) % limiters.len();
                let contestant = &self.contestants[index];
                if matches!(self.asks, Asks::Fresh(..)) {
                    limiters[index] = (contestant.make)();
                }
                let done = self.turn(name, contestant, &*limiters[index], keys)?;
                let asked = keys.len();
                scores[index].add(done.took.as_secs_f64() * 1e9 / asked as f64, done.admitted, asked);
                scores[index].waits(done.waited, done.of);
            }
            if (turn + 1) % self.turns == 0 {
                tick();
            }
        }
        Ok(Outcome { workload: name.to_owned(), unit: Unit::NanosACheck, scores })
    }

    /// One turn. A short one that was interrupted is taken again, since the next one may not be.
    fn turn(
        &self,
        workload: &str,
        contestant: &Contestant<K>,
        limiter: &dyn Limits<K>,
        keys: &[K],
    ) -> Result<Turn, Fault> {
        let mut again = if self.turns > 1 { AGAIN } else { 0 };
        loop {
            let turn = together(limiter, keys, contestant.threads);
            self.judge(workload, contestant, turn.admitted, keys.len())?;
            if !turn.is_interrupted() || again == 0 {
                return Ok(turn);
            }
            again -= 1;
        }
    }

    /// Whether the contestant did what is claimed of it.
    fn judge(
        &self,
        workload: &str,
        contestant: &Contestant<K>,
        admitted: usize,
        asked: usize,
    ) -> Result<(), Fault> {
        let expected = match self.answer {
            Answer::Allow => asked,
            Answer::Deny => 0,
            Answer::Either => return Ok(()),
        };
        if admitted == expected || contestant.is_floor {
            return Ok(());
        }
        let (workload, contestant) = (workload.to_owned(), contestant.name.clone());
        Err(Fault::Answered { workload, contestant, admitted, expected, asked })
    }
}

/// What one turn came to.
struct Turn {
    took: Duration,
    admitted: usize,
    /// Of all threads together, for a processor.
    waited: Duration,
    /// Of so much time of all threads, with the reading of that.
    of: Duration,
}

impl Turn {
    /// Whether others held a processor for more of it than threads take to start.
    fn is_interrupted(&self) -> bool {
        self.waited * 20 > self.took
    }
}

/// How often an interrupted turn is taken again.
const AGAIN: usize = 5;

/// `threads` threads share the keys, and start together.
fn together<K: Sync>(limiter: &dyn Limits<K>, keys: &[K], threads: usize) -> Turn {
    if threads == 1 {
        let (watched, before, begun) = (Instant::now(), waited(), Instant::now());
        let admitted = black_box(limiter.admitted(keys));
        let took = begun.elapsed();
        return Turn { took, admitted, waited: waited() - before, of: watched.elapsed() };
    }
    let start = &Barrier::new(threads);
    let run = |keys: &[K]| {
        let (watched, before) = (Instant::now(), waited());
        start.wait();
        let begun = Instant::now();
        let admitted = black_box(limiter.admitted(keys));
        (begun, Instant::now(), admitted, waited() - before, watched.elapsed())
    };
    let parts: Vec<_> = thread::scope(|scope| {
        let shares = keys.chunks(keys.len().div_ceil(threads));
        let threads: Vec<_> = shares.map(|keys| scope.spawn(move || run(keys))).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("a contestant does not panic");
        threads.into_iter().map(join).collect()
    });
    // From the first that begins to the last that ends, by their own clocks: whoever started them may be late.
    let begun = parts.iter().map(|part| part.0).min();
    let ended = parts.iter().map(|part| part.1).max();
    Turn {
        took: begun.zip(ended).map_or(Duration::ZERO, |(begun, ended)| ended - begun),
        admitted: parts.iter().map(|part| part.2).sum(),
        waited: parts.iter().map(|part| part.3).sum(),
        of: parts.iter().map(|part| part.4).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(answer: Answer, admits: fn(&u64) -> bool) -> Result<Outcome, Fault> {
        let contestants =
            vec![Contestant::new("right", || |_: &u64| true), Contestant::new("tried", move || admits)];
        Contest { known: vec![], asks: Asks::Same(vec![1, 2, 3]), turns: 1, answer, contestants }.run(
            "name",
            2,
            &mut || (),
        )
    }

    #[test]
    fn who_answers_something_else_gets_no_figure() {
        assert!(contest(Answer::Allow, |_| true).is_ok());
        let fault = contest(Answer::Allow, |&key| key != 2).err().map(|fault| fault.to_string());
        assert_eq!(fault.as_deref(), Some("name: tried admitted 2 of 3, not 3"));
        assert!(contest(Answer::Deny, |_| false).is_err(), "the first one admits");
        assert!(contest(Answer::Either, |_| false).is_ok());
    }

    #[test]
    fn threads_share_the_keys() {
        let turn = together(&|key: &u64| *key > 1, &[1, 2, 3], 2);
        assert_eq!(turn.admitted, 2);
    }
}
