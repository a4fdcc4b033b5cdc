//! The cost of a check among keys that have recovered: clients under their limit, seen now and
//! then, mostly without debt when they come back.
//!
//! A map finds such a key. Tollgate has forgotten it, so that nearly every check is an insertion.

use crate::contest::{Contest, Contestant, TurnKeys};
use crate::floors;
use crate::keys;
use crate::limit::{Expected, Limit};
use crate::peers::{AnyKey, Task, exact, governors, throttlecrab, time_given, tollgate, trusted};
use crate::workloads::{Effort, Workload};

const MILLION: usize = 1_000_000;
/// The checks in a turn: one for each of a million keys, which has a burst of twenty.
const CHECKS: usize = MILLION;

pub(crate) fn workloads() -> Vec<Workload> {
    let strings = Workload::contest("1M recovered string keys of 16 bytes, 100/s", |effort: Effort| {
        among(
            MILLION,
            CHECKS / 2,
            100,
            effort,
            |number| keys::text(number, 16),
            |task| exact(task).into_iter().chain([trusted(task), throttlecrab(task)]).collect(),
        )
    });
    let numbers = [100, 10].into_iter().flat_map(|rate| {
        [
            uniform("1M", MILLION, rate, "", |task| and_floor(exact(task))),
            // The other limiters take several seconds to see ten million keys for the first time.
            uniform("10M", 10 * MILLION, rate, "", |task| {
                and_floor([tollgate(task)].into_iter().chain(governors(task)).collect())
            }),
            uniform("1M", MILLION, rate, ", time given", with_time_given),
            uniform("10M", 10 * MILLION, rate, ", time given", with_time_given),
        ]
    });
    numbers.chain([strings]).collect()
}

/// The floor of one key: the table of recovered keys may be small enough for the cache.
pub(super) fn and_floor(mut contestants: Vec<Contestant<u64>>) -> Vec<Contestant<u64>> {
    contestants.push(floors::clock_and_compare_exchange());
    contestants
}

fn with_time_given(task: Task) -> Vec<Contestant<u64>> {
    time_given(task).into_iter().chain([floors::compare_exchange()]).collect()
}

fn uniform(count: &str, keys: usize, rate: u32, time: &str, who: Who<u64>) -> Workload {
    Workload::contest(format!("{count} recovered keys, {rate}/s{time}"), move |effort: Effort| {
        among(keys, CHECKS, rate, effort, |number| number, who)
    })
}

type Who<K> = fn(Task) -> Vec<Contestant<K>>;

/// Uniform keys, other ones in each turn. Each was checked once before the measurement.
fn among<K: AnyKey>(
    keys: usize,
    checks: usize,
    rate: u32,
    effort: Effort,
    key: fn(u64) -> K,
    who: Who<K>,
) -> Contest<K> {
    let (keys, checks) = (effort.keys(keys), effort.checks_of_recovered(checks));
    let draw = move |turn| keys::uniform_in(turn, keys, checks).into_iter().map(key).collect();
    Contest {
        warm_up: (0..keys as u64).map(key).collect(),
        turn_keys: TurnKeys::Other(Box::new(draw)),
        turns: 1,
        expected: Expected::Allowed,
        contestants: who(Task::new(Limit::per_second(rate), keys)),
    }
}
