//! The cost of each algorithm, and of several limits together, on one hot key.

use crate::contest::{Contest, Contestant, TurnKeys};
use crate::limit::Expected;
use crate::peers::{algorithms, of_several_limits};
use crate::workloads::hot::{CHECKS, TURNS};
use crate::workloads::{Effort, Workload};

pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        hot("algorithms, hot key, allow", algorithms),
        hot("several limits, hot key, allow", of_several_limits),
    ]
}

fn hot(name: &str, contestants: impl Fn() -> Vec<Contestant<u64>> + 'static) -> Workload {
    Workload::contest(name, move |effort: Effort| Contest {
        warm_up: vec![7],
        turn_keys: TurnKeys::Same(vec![7; effort.checks(CHECKS)]),
        turns: TURNS,
        expected: Expected::Allowed,
        contestants: contestants(),
    })
}
