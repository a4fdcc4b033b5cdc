//! The cost of a check in the cache: one key, or no key.

use crate::contest::{Contest, Contestant, TurnKeys};
use crate::floors;
use crate::limit::{Expected, HOT, Limit, SPENT};
use crate::peers::{
    Task, coarse, governors, keyed, leased, prepared, throttlecrab, time_given, tollgate, trusted, unkeyed,
};
use crate::workloads::{Effort, Workload};

/// The checks in a turn.
pub(super) const CHECKS: usize = 50_000;
/// The turns in a pass.
pub(super) const TURNS: usize = 5;

/// The capacity of the limiters; one key is checked.
const CAPACITY: usize = 1_000;

pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        hot("hot key, allow", Expected::Allowed, |task| with_floors(keyed(task))),
        hot("hot key, deny", Expected::Denied, |task| with_floors(keyed(task))),
        hot("hot key, prepared", Expected::Allowed, |task| {
            let floor = floors::clock_and_compare_exchange();
            [prepared(task)].into_iter().chain(governors(task)).chain([floor]).collect()
        }),
        hot("hot key, lease", Expected::Allowed, |task| vec![leased(task), tollgate(task), floors::clock()]),
        hot("hot key, time given, allow", Expected::Allowed, with_time_given),
        hot("hot key, time given, deny", Expected::Denied, with_time_given),
        hot("hot key, coarse clock, allow", Expected::Allowed, |task| {
            coarse(task).into_iter().chain([floors::compare_exchange()]).collect()
        }),
        hot("hot key, weighted cost", Expected::Allowed, |task| keyed(Task { cost: 10, ..task })),
        string_key(16),
        string_key(40),
        no_key("unkeyed, allow", Expected::Allowed),
        no_key("unkeyed, deny", Expected::Denied),
    ]
}

/// Returns the limit that gives the expected answers for one key.
fn limit(expected: Expected) -> Limit {
    if expected == Expected::Denied { SPENT } else { HOT }
}

fn with_floors(mut contestants: Vec<Contestant<u64>>) -> Vec<Contestant<u64>> {
    contestants.extend([floors::clock(), floors::compare_exchange(), floors::clock_and_compare_exchange()]);
    contestants
}

fn with_time_given(task: Task) -> Vec<Contestant<u64>> {
    time_given(task).into_iter().chain([floors::compare_exchange()]).collect()
}

fn hot(name: &str, expected: Expected, who: fn(Task) -> Vec<Contestant<u64>>) -> Workload {
    Workload::contest(name, move |effort: Effort| Contest {
        warm_up: vec![7],
        turn_keys: TurnKeys::Same(vec![7; effort.checks(CHECKS)]),
        turns: TURNS,
        expected,
        contestants: who(Task::new(limit(expected), CAPACITY)),
    })
}

/// A string key, which has to be hashed.
fn string_key(length: usize) -> Workload {
    Workload::contest(format!("string key of {length} bytes, hot"), move |effort: Effort| {
        let task = Task::new(HOT, CAPACITY);
        let mut contestants = keyed(task);
        contestants.extend([trusted(task), throttlecrab(task)]);
        let keys = vec![crate::keys::text(7, length); effort.checks(CHECKS / 2)];
        Contest {
            warm_up: vec![],
            turn_keys: TurnKeys::Same(keys),
            turns: TURNS,
            expected: Expected::Allowed,
            contestants,
        }
    })
}

fn no_key(name: &str, expected: Expected) -> Workload {
    Workload::contest(name, move |effort: Effort| {
        let mut contestants = unkeyed(limit(expected));
        contestants.extend([
            floors::clock(),
            floors::compare_exchange(),
            floors::clock_and_compare_exchange(),
        ]);
        Contest {
            warm_up: vec![()],
            turn_keys: TurnKeys::Same(vec![(); effort.checks(CHECKS)]),
            turns: TURNS,
            expected,
            contestants,
        }
    })
}
