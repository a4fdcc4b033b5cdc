//! What does a check cost when everything is in the cache: one key, or none?

use crate::contest::{Asks, Contest, Contestant};
use crate::floors;
use crate::limit::{Answer, HOT, Limit, SPENT};
use crate::peers::{
    Task, coarse, coarse_peer, governor_alone, keyed, leased, prepared, throttlecrab, time_given, tollgate,
    trusted, unkeyed,
};
use crate::workloads::{Effort, Workload};

/// Checks a turn, and turns a pass.
pub(super) const ASKS: usize = 50_000;
pub(super) const TURNS: usize = 5;

/// Room for so many keys, of which one is asked.
const ROOM: usize = 1_000;

pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        hot("hot key, allow", Answer::Allow, |task| with_floors(keyed(task))),
        hot("hot key, deny", Answer::Deny, |task| with_floors(keyed(task))),
        hot("hot key, prepared", Answer::Allow, |task| {
            vec![prepared(task), governor_alone(task), floors::clock_and_swap()]
        }),
        hot("hot key, lease", Answer::Allow, |task| vec![leased(task), tollgate(task), floors::clock()]),
        hot("hot key, time given, allow", Answer::Allow, |task| vec![time_given(task), floors::swap()]),
        hot("hot key, time given, deny", Answer::Deny, |task| vec![time_given(task), floors::swap()]),
        hot("hot key, coarse clock, allow", Answer::Allow, |task| {
            vec![coarse(task), coarse_peer(task), floors::swap()]
        }),
        hot("hot key, weighted cost", Answer::Allow, |task| keyed(Task { cost: 10, ..task })),
        text(16),
        text(40),
        no_key("unkeyed, allow", Answer::Allow),
        no_key("unkeyed, deny", Answer::Deny),
    ]
}

/// The limit that gives this answer on one key.
fn limit(answer: Answer) -> Limit {
    if answer == Answer::Deny { SPENT } else { HOT }
}

fn with_floors(mut contestants: Vec<Contestant<u64>>) -> Vec<Contestant<u64>> {
    contestants.extend([floors::clock(), floors::swap(), floors::clock_and_swap()]);
    contestants
}

fn hot(name: &str, answer: Answer, who: fn(Task) -> Vec<Contestant<u64>>) -> Workload {
    Workload::contest(name, move |effort: Effort| Contest {
        known: vec![7],
        asks: Asks::Same(vec![7; effort.asks(ASKS)]),
        turns: TURNS,
        answer,
        contestants: who(Task::new(limit(answer), ROOM)),
    })
}

/// What does a name cost that has to be hashed?
fn text(length: usize) -> Workload {
    Workload::contest(format!("string key of {length} bytes, hot"), move |effort: Effort| {
        let task = Task::new(HOT, ROOM);
        let mut contestants = keyed(task);
        contestants.extend([trusted(task), throttlecrab(task)]);
        let keys = vec![crate::keys::text(7, length); effort.asks(ASKS / 2)];
        Contest { known: vec![], asks: Asks::Same(keys), turns: TURNS, answer: Answer::Allow, contestants }
    })
}

fn no_key(name: &str, answer: Answer) -> Workload {
    Workload::contest(name, move |effort: Effort| {
        let mut contestants = unkeyed(limit(answer));
        contestants.extend([floors::clock(), floors::swap(), floors::clock_and_swap()]);
        Contest {
            known: vec![()],
            asks: Asks::Same(vec![(); effort.asks(ASKS)]),
            turns: TURNS,
            answer,
            contestants,
        }
    })
}
