//! Do several threads get more done than one: on one key, among many, and without a key?
//!
//! The figure is the time from one answer to the next of all threads together, so twice the throughput is half of it.

use crate::contest::{Asks, Contest, Contestant};
use crate::floors;
use crate::keys;
use crate::limit::{Answer, HOT, Limit, MANY, SKEWED, SPENT};
use crate::machine;
use crate::peers::{Task, keyed, leased, tollgate, unkeyed};
use crate::workloads::{Effort, Workload};

const MILLION: usize = 1_000_000;
/// Checks a turn on one key, of all threads.
const HOT_ASKS: usize = 100_000;
/// Checks a turn among many keys.
const ASKS: usize = 50_000;
/// Turns a pass.
const TURNS: usize = 5;

/// Two, and powers of two as far as there are processors for them.
fn counts() -> Vec<usize> {
    let more = (2..).map(|power| 1 << power).take_while(|&threads| threads <= machine::threads());
    std::iter::once(2).chain(more).collect()
}

pub(crate) fn workloads() -> Vec<Workload> {
    counts().into_iter().flat_map(of).collect()
}

fn of(threads: usize) -> Vec<Workload> {
    vec![
        hot(threads, "allow", Answer::Allow),
        hot(threads, "deny", Answer::Deny),
        lease(threads),
        many(threads, "1M keys uniform, allow", MANY, Answer::Allow, uniform),
        many(threads, "1M keys uniform, deny", SPENT, Answer::Deny, uniform),
        many(threads, "1M keys Zipf 0.99, allow", SKEWED, Answer::Allow, zipf),
        many(threads, "1M keys Zipf 0.99, deny", SPENT, Answer::Deny, zipf),
        no_key(threads),
    ]
}

/// `alone` in one thread, and everybody in so many.
fn beside<K: 'static>(alone: Contestant<K>, all: Vec<Contestant<K>>, threads: usize) -> Vec<Contestant<K>> {
    let alone = {
        let name = format!("{}, 1 thread", alone.name);
        alone.named(&name)
    };
    all.into_iter().map(|contestant| contestant.threads(threads)).chain([alone]).collect()
}

fn hot(threads: usize, said: &str, answer: Answer) -> Workload {
    Workload::contest(format!("hot key, {said}, {threads} threads"), move |effort: Effort| {
        let task = Task::new(if answer == Answer::Deny { SPENT } else { HOT }, 1_000);
        let mut all = keyed(task);
        all.extend([floors::clock_and_swap()]);
        Contest {
            known: vec![7],
            asks: Asks::Same(vec![7; effort.asks(HOT_ASKS)]),
            turns: TURNS,
            answer,
            contestants: beside(tollgate(task), all, threads),
        }
    })
}

fn lease(threads: usize) -> Workload {
    Workload::contest(format!("hot key, lease, {threads} threads"), move |effort: Effort| {
        let task = Task::new(HOT, 1_000);
        Contest {
            known: vec![7],
            asks: Asks::Same(vec![7; effort.asks(HOT_ASKS)]),
            turns: TURNS,
            answer: Answer::Allow,
            contestants: beside(leased(task), vec![leased(task), tollgate(task)], threads),
        }
    })
}

type Draw = fn(usize, Effort) -> Asks<u64>;

fn uniform(keys: usize, effort: Effort) -> Asks<u64> {
    Asks::Other(Box::new(move |turn| keys::uniform_in(turn, keys, effort.asks(ASKS))))
}

/// The same in every turn, so more of them.
fn zipf(keys: usize, effort: Effort) -> Asks<u64> {
    Asks::Same(keys::zipf(keys, effort.asks(4 * ASKS), 0.99))
}

fn many(threads: usize, name: &str, limit: Limit, answer: Answer, draw: Draw) -> Workload {
    Workload::contest(format!("{name}, {threads} threads"), move |effort: Effort| {
        let keys = effort.keys(MILLION);
        let task = Task::new(limit, keys);
        let mut all = keyed(task);
        all.push(floors::line(keys));
        Contest {
            known: (0..keys as u64).collect(),
            asks: draw(keys, effort),
            turns: TURNS,
            answer,
            contestants: beside(tollgate(task), all, threads),
        }
    })
}

fn no_key(threads: usize) -> Workload {
    Workload::contest(format!("unkeyed, allow, {threads} threads"), move |effort: Effort| {
        let asks = effort.asks(HOT_ASKS);
        let all = unkeyed(HOT).into_iter().map(|contestant| contestant.threads(threads)).collect();
        Contest {
            known: vec![()],
            asks: Asks::Same(vec![(); asks]),
            turns: 1,
            answer: Answer::Allow,
            contestants: all,
        }
    })
}
