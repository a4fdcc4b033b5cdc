//! What does a check cost among many keys: known ones, new ones, and new ones where there is no more room?

use crate::contest::{Asks, Contest, Contestant};
use crate::floors;
use crate::keys;
use crate::limit::{Answer, Limit, MANY, SKEWED, SPENT};
use crate::peers::{Task, batches, exact, governor_alone, keyed};
use crate::workloads::{Effort, Workload};

const THOUSAND: usize = 1_000;
const MILLION: usize = 1_000_000;
/// Checks a pass.
const ASKS: usize = MILLION;
/// New keys a pass where there is no more room.
const FLOOD: usize = 200_000;
/// Of the skew of web requests.
const EXPONENT: f64 = 0.99;

pub(crate) fn workloads() -> Vec<Workload> {
    let everybody = |task: Task| {
        let mut contestants = keyed(task);
        contestants.push(floors::line(task.keys));
        contestants
    };
    let mut workloads = vec![
        uniform("1k keys uniform, allow", THOUSAND, Answer::Allow, everybody),
        uniform("1k keys uniform, deny", THOUSAND, Answer::Deny, everybody),
        uniform("1M keys uniform, allow", MILLION, Answer::Allow, everybody),
        uniform("1M keys uniform, deny", MILLION, Answer::Deny, everybody),
        zipf("1M keys Zipf 0.99, allow", Answer::Allow, everybody),
        zipf("1M keys Zipf 0.99, deny", Answer::Deny, everybody),
    ];
    workloads.extend([8, 32, 128].map(|size| in_batches("1M", MILLION, size)));
    workloads.push(Workload::contest("1M new keys", |effort: Effort| {
        let keys = effort.keys(MILLION);
        Contest {
            known: vec![],
            asks: Asks::Fresh(Box::new(move |turn| keys::unique(turn, keys))),
            turns: 1,
            answer: Answer::Allow,
            contestants: exact(Task::new(MANY, keys)),
        }
    }));
    workloads.push(Workload::contest("flood of new keys at 1M", |effort: Effort| {
        let keys = effort.keys(MILLION);
        Contest {
            known: (0..keys as u64).collect(),
            asks: Asks::Other(Box::new(move |turn| keys::unique(turn, effort.asks(FLOOD)))),
            turns: 1,
            answer: Answer::Either,
            contestants: exact(Task::new(MANY, keys)),
        }
    }));
    workloads.push(uniform("10M keys uniform, allow", 10 * MILLION, Answer::Allow, everybody));
    workloads.push(in_batches("10M", 10 * MILLION, 32));
    workloads
}

type Who = fn(Task) -> Vec<Contestant<u64>>;

fn uniform(name: &str, keys: usize, answer: Answer, who: Who) -> Workload {
    Workload::contest(name, move |effort: Effort| {
        let keys = effort.keys(keys);
        among(keys, uniformly(keys, effort), MANY, answer, who)
    })
}

fn zipf(name: &str, answer: Answer, who: Who) -> Workload {
    Workload::contest(name, move |effort: Effort| {
        let keys = effort.keys(MILLION);
        let asks = Asks::Same(keys::zipf(keys, effort.asks(ASKS), EXPONENT));
        among(keys, asks, SKEWED, answer, who)
    })
}

/// governor and the floor are asked one by one: neither has a batch.
fn in_batches(many: &str, keys: usize, size: usize) -> Workload {
    Workload::contest(format!("{many} keys, batches of {size}"), move |effort: Effort| {
        let keys = effort.keys(keys);
        let task = Task::new(MANY, keys);
        let mut contest = among(keys, uniformly(keys, effort), MANY, Answer::Allow, |_| vec![]);
        contest.contestants = vec![batches(task, size), governor_alone(task), floors::line(keys)];
        contest
    })
}

/// Others in each pass, since a pass may ask for a few of all keys only.
fn uniformly(keys: usize, effort: Effort) -> Asks<u64> {
    Asks::Other(Box::new(move |turn| keys::uniform_in(turn, keys, effort.asks(ASKS))))
}

/// All keys are known, and those of a slow limit owe something until the end.
fn among(keys: usize, asks: Asks<u64>, slow: Limit, answer: Answer, who: Who) -> Contest<u64> {
    let limit = if answer == Answer::Deny { SPENT } else { slow };
    let known = (0..keys as u64).collect();
    Contest { known, asks, turns: 1, answer, contestants: who(Task::new(limit, keys)) }
}
