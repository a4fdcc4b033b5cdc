//! The cost of a check among many keys: known keys, new keys, and new keys in a full table.

use crate::contest::{Contest, Contestant, TurnKeys};
use crate::floors;
use crate::keys;
use crate::limit::{Expected, Limit, MANY, SKEWED, SPENT};
use crate::peers::{Task, batches, exact, governors, keyed};
use crate::workloads::{Effort, Workload};

const THOUSAND: usize = 1_000;
const MILLION: usize = 1_000_000;
/// The checks in a pass.
const CHECKS: usize = MILLION;
/// The new keys in a pass with a full table.
const FLOOD: usize = 200_000;
/// The skew of web requests.
const EXPONENT: f64 = 0.99;

pub(crate) fn workloads() -> Vec<Workload> {
    let keyed_and_floor = |task: Task| {
        let mut contestants = keyed(task);
        contestants.push(floors::line(task.keys));
        contestants
    };
    let mut workloads = vec![
        uniform("1k keys uniform, allow", THOUSAND, Expected::Allowed, keyed_and_floor),
        uniform("1k keys uniform, deny", THOUSAND, Expected::Denied, keyed_and_floor),
        refilled("1k keys, 100/s", THOUSAND),
        uniform("50k keys uniform, allow", 50 * THOUSAND, Expected::Allowed, keyed_and_floor),
        refilled("50k keys, 100/s", 50 * THOUSAND),
        uniform("1M keys uniform, allow", MILLION, Expected::Allowed, keyed_and_floor),
        uniform("1M keys uniform, deny", MILLION, Expected::Denied, keyed_and_floor),
        zipf("1M keys Zipf 0.99, allow", Expected::Allowed, keyed_and_floor),
        zipf("1M keys Zipf 0.99, deny", Expected::Denied, keyed_and_floor),
    ];
    workloads.extend([8, 32, 128].map(|size| in_batches("1M", MILLION, size)));
    workloads.push(Workload::contest("1M new keys", |effort: Effort| {
        let keys = effort.keys(MILLION);
        Contest {
            warm_up: vec![],
            turn_keys: TurnKeys::NewLimiter(Box::new(move |turn| keys::new_keys(turn, keys))),
            turns: 1,
            expected: Expected::Allowed,
            contestants: exact(Task::new(MANY, keys)),
        }
    }));
    workloads.push(Workload::contest("flood of new keys at 1M", |effort: Effort| {
        let keys = effort.keys(MILLION);
        Contest {
            warm_up: (0..keys as u64).collect(),
            turn_keys: TurnKeys::Other(Box::new(move |turn| keys::new_keys(turn, effort.checks(FLOOD)))),
            turns: 1,
            expected: Expected::Any,
            contestants: exact(Task::new(MANY, keys)),
        }
    }));
    workloads.push(uniform("10M keys uniform, allow", 10 * MILLION, Expected::Allowed, keyed_and_floor));
    workloads.push(in_batches("10M", 10 * MILLION, 32));
    workloads
}

type Who = fn(Task) -> Vec<Contestant<u64>>;

fn uniform(name: &str, keys: usize, expected: Expected, who: Who) -> Workload {
    Workload::contest(name, move |effort: Effort| {
        let keys = effort.keys(keys);
        among(keys, uniformly(keys, effort), MANY, expected, who)
    })
}

/// Keys that are checked more often than their limit allows, and admitted now and then.
fn refilled(name: &str, keys: usize) -> Workload {
    Workload::contest(name, move |effort: Effort| {
        let keys = effort.keys(keys);
        let mut contest = among(keys, uniformly(keys, effort), Limit::per_second(100), Expected::Any, exact);
        contest.contestants.push(floors::line(keys));
        contest
    })
}

fn zipf(name: &str, expected: Expected, who: Who) -> Workload {
    Workload::contest(name, move |effort: Effort| {
        let keys = effort.keys(MILLION);
        let turn_keys = TurnKeys::Same(keys::zipf(keys, effort.checks(CHECKS), EXPONENT));
        among(keys, turn_keys, SKEWED, expected, who)
    })
}

/// governor and the floor have no batches, so they check the keys one by one.
fn in_batches(many: &str, keys: usize, size: usize) -> Workload {
    Workload::contest(format!("{many} keys, batches of {size}"), move |effort: Effort| {
        let keys = effort.keys(keys);
        let task = Task::new(MANY, keys);
        let mut contest = among(keys, uniformly(keys, effort), MANY, Expected::Allowed, |_| vec![]);
        let all = [batches(task, size)].into_iter().chain(governors(task)).chain([floors::line(keys)]);
        contest.contestants = all.collect();
        contest
    })
}

/// Uniform keys, other ones in each pass, because a pass may check only a few of all keys.
fn uniformly(keys: usize, effort: Effort) -> TurnKeys<u64> {
    TurnKeys::Other(Box::new(move |turn| keys::uniform_in(turn, keys, effort.checks(CHECKS))))
}

/// A contest in which all keys are known and, under a slow limit, in debt until the end.
fn among(keys: usize, turn_keys: TurnKeys<u64>, slow: Limit, expected: Expected, who: Who) -> Contest<u64> {
    let limit = if expected == Expected::Denied { SPENT } else { slow };
    let warm_up = (0..keys as u64).collect();
    Contest { warm_up, turn_keys, turns: 1, expected, contestants: who(Task::new(limit, keys)) }
}
