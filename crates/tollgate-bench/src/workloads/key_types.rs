//! The cost of a check with a million keys that are strings or addresses.

use crate::contest::{Contest, TurnKeys};
use crate::keys;
use crate::limit::{Expected, MANY};
use crate::peers::{AnyKey, Task, keyed, throttlecrab};
use crate::workloads::{Effort, Workload};

/// The keys, and twice the checks in a pass.
const MILLION: usize = 1_000_000;

pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        Workload::contest("1M string keys of 16 bytes, allow", |effort: Effort| {
            let mut contest = uniform(effort, |number| keys::text(number, 16));
            contest.contestants.push(throttlecrab(Task::new(MANY, effort.keys(MILLION))));
            contest
        }),
        Workload::contest("1M IPv4 keys, allow", |effort: Effort| uniform(effort, keys::v4)),
        Workload::contest("1M IPv6 keys, allow", |effort: Effort| uniform(effort, keys::v6)),
    ]
}

fn uniform<K: AnyKey>(effort: Effort, key: impl Fn(u64) -> K) -> Contest<K> {
    let keys = effort.keys(MILLION);
    Contest {
        warm_up: (0..keys as u64).map(&key).collect(),
        turn_keys: TurnKeys::Same(
            keys::uniform(keys, effort.checks(MILLION / 2)).into_iter().map(&key).collect(),
        ),
        turns: 1,
        expected: Expected::Allowed,
        contestants: keyed(Task::new(MANY, keys)),
    }
}
