//! The cost of checks by concurrent threads: on one key, among many, and without a key.
//!
//! A figure is the time divided by the checks of all threads, so twice the throughput halves it.

use crate::contest::{Contest, Contestant, TurnKeys};
use crate::floors;
use crate::keys;
use crate::limit::{Expected, HOT, Limit, MANY, SKEWED, SPENT};
use crate::machine;
use crate::peers::{Task, exact, keyed, leased, tollgate, unkeyed};
use crate::workloads::{Effort, Workload, recovered};

const MILLION: usize = 1_000_000;
/// The checks of all threads in a turn on one key.
const HOT_CHECKS: usize = 100_000;
/// The checks in a turn among many keys.
const CHECKS: usize = 50_000;
/// The turns in a pass.
const TURNS: usize = 5;

/// Returns the numbers of threads: 2, and further powers of two up to the hardware threads.
fn thread_counts() -> Vec<usize> {
    let more = (2..).map(|power| 1 << power).take_while(|&threads| threads <= machine::threads());
    std::iter::once(2).chain(more).collect()
}

pub(crate) fn workloads() -> Vec<Workload> {
    thread_counts().into_iter().flat_map(workloads_of).collect()
}

fn workloads_of(threads: usize) -> Vec<Workload> {
    vec![
        hot(threads, "allow", Expected::Allowed),
        hot(threads, "deny", Expected::Denied),
        lease(threads),
        many(threads, "1M keys uniform, allow", MANY, Expected::Allowed, uniform),
        many(threads, "1M keys uniform, deny", SPENT, Expected::Denied, uniform),
        many(threads, "1M keys Zipf 0.99, allow", SKEWED, Expected::Allowed, zipf),
        many(threads, "1M keys Zipf 0.99, deny", SPENT, Expected::Denied, zipf),
        of_recovered(threads),
        no_key(threads),
    ]
}

/// Returns `all` with `threads` threads, and `alone` with one.
fn with_one_thread<K: 'static>(
    alone: Contestant<K>,
    all: Vec<Contestant<K>>,
    threads: usize,
) -> Vec<Contestant<K>> {
    let alone = {
        let name = format!("{}, 1 thread", alone.name);
        alone.named(&name)
    };
    all.into_iter().map(|contestant| contestant.threads(threads)).chain([alone]).collect()
}

fn hot(threads: usize, answer: &str, expected: Expected) -> Workload {
    Workload::contest(format!("hot key, {answer}, {threads} threads"), move |effort: Effort| {
        let task = Task::new(if expected == Expected::Denied { SPENT } else { HOT }, 1_000);
        let mut all = keyed(task);
        all.extend([floors::clock_and_compare_exchange()]);
        Contest {
            warm_up: vec![7],
            turn_keys: TurnKeys::Same(vec![7; effort.checks(HOT_CHECKS)]),
            turns: TURNS,
            expected,
            contestants: with_one_thread(tollgate(task), all, threads),
        }
    })
}

fn lease(threads: usize) -> Workload {
    Workload::contest(format!("hot key, lease, {threads} threads"), move |effort: Effort| {
        let task = Task::new(HOT, 1_000);
        Contest {
            warm_up: vec![7],
            turn_keys: TurnKeys::Same(vec![7; effort.checks(HOT_CHECKS)]),
            turns: TURNS,
            expected: Expected::Allowed,
            contestants: with_one_thread(leased(task), vec![leased(task), tollgate(task)], threads),
        }
    })
}

type Draw = fn(usize, Effort) -> TurnKeys<u64>;

fn uniform(keys: usize, effort: Effort) -> TurnKeys<u64> {
    TurnKeys::Other(Box::new(move |turn| keys::uniform_in(turn, keys, effort.checks(CHECKS))))
}

/// The keys are the same in every turn, so a turn has more of them.
fn zipf(keys: usize, effort: Effort) -> TurnKeys<u64> {
    TurnKeys::Same(keys::zipf(keys, effort.checks(4 * CHECKS), 0.99))
}

fn many(threads: usize, name: &str, limit: Limit, expected: Expected, draw: Draw) -> Workload {
    Workload::contest(format!("{name}, {threads} threads"), move |effort: Effort| {
        let keys = effort.keys(MILLION);
        let task = Task::new(limit, keys);
        let mut all = keyed(task);
        all.push(floors::line(keys));
        Contest {
            warm_up: (0..keys as u64).collect(),
            turn_keys: draw(keys, effort),
            turns: TURNS,
            expected,
            contestants: with_one_thread(tollgate(task), all, threads),
        }
    })
}

fn of_recovered(threads: usize) -> Workload {
    Workload::contest(format!("1M recovered keys, 100/s, {threads} threads"), move |effort: Effort| {
        let (keys, checks) = (effort.keys(MILLION), effort.checks_of_recovered(TURNS * CHECKS));
        let task = Task::new(Limit::per_second(100), keys);
        Contest {
            warm_up: (0..keys as u64).collect(),
            turn_keys: TurnKeys::Other(Box::new(move |turn| keys::uniform_in(turn, keys, checks))),
            // One long turn: a repeated turn would check keys that have not recovered yet.
            turns: 1,
            expected: Expected::Allowed,
            contestants: with_one_thread(tollgate(task), recovered::and_floor(exact(task)), threads),
        }
    })
}

fn no_key(threads: usize) -> Workload {
    Workload::contest(format!("unkeyed, allow, {threads} threads"), move |effort: Effort| {
        let checks = effort.checks(HOT_CHECKS);
        let all = unkeyed(HOT).into_iter().map(|contestant| contestant.threads(threads)).collect();
        Contest {
            warm_up: vec![()],
            turn_keys: TurnKeys::Same(vec![(); checks]),
            turns: 1,
            expected: Expected::Allowed,
            contestants: all,
        }
    })
}
