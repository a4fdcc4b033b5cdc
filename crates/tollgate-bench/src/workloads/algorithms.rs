//! Does any algorithm cost more than the token bucket, on one hot key?

use crate::contest::{Asks, Contest};
use crate::limit::Answer;
use crate::peers::algorithms;
use crate::workloads::hot::{ASKS, TURNS};
use crate::workloads::{Effort, Workload};

pub(crate) fn workloads() -> Vec<Workload> {
    vec![Workload::contest("algorithms, hot key, allow", |effort: Effort| Contest {
        known: vec![7],
        asks: Asks::Same(vec![7; effort.asks(ASKS)]),
        turns: TURNS,
        answer: Answer::Allow,
        contestants: algorithms(),
    })]
}
