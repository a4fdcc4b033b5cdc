//! What do a million keys cost that are not numbers: strings and addresses?

use crate::contest::{Asks, Contest};
use crate::keys;
use crate::limit::{Answer, MANY};
use crate::peers::{AnyKey, Task, keyed, throttlecrab};
use crate::workloads::{Effort, Workload};

/// Keys, and checks a pass.
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

fn uniform<K: AnyKey>(effort: Effort, name: impl Fn(u64) -> K) -> Contest<K> {
    let keys = effort.keys(MILLION);
    Contest {
        known: (0..keys as u64).map(&name).collect(),
        asks: Asks::Same(keys::uniform(keys, effort.asks(MILLION / 2)).into_iter().map(&name).collect()),
        turns: 1,
        answer: Answer::Allow,
        contestants: keyed(Task::new(MANY, keys)),
    }
}
