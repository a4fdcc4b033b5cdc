//! Does any algorithm cost more than the token bucket, and how much do several limits cost together, on one hot key?

use crate::contest::{Asks, Contest, Contestant};
use crate::limit::Answer;
use crate::peers::{algorithms, of_several_limits};
use crate::workloads::hot::{ASKS, TURNS};
use crate::workloads::{Effort, Workload};

pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        hot("algorithms, hot key, allow", algorithms),
        hot("several limits, hot key, allow", of_several_limits),
    ]
}

fn hot(name: &str, contestants: impl Fn() -> Vec<Contestant<u64>> + 'static) -> Workload {
    Workload::contest(name, move |effort: Effort| Contest {
        known: vec![7],
        asks: Asks::Same(vec![7; effort.asks(ASKS)]),
        turns: TURNS,
        answer: Answer::Allow,
        contestants: contestants(),
    })
}
