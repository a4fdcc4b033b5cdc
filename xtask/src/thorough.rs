//! `--thorough`: all usual steps, and longer ones.

use crate::step::{Plan, Step};
use crate::test;

/// The random cases of each test.
const CASES: &str = "20000";

/// The seconds for which each test records histories of threads.
const SECONDS: &str = "60";

/// The verbs that each store decides as the model does, in each of two tests.
const VERBS: &str = "100000";

/// How often each test of parked requests kills a proxy, or Redis.
const KILLS: &str = "100";

/// The number of runs of the stress tests.
const ROUNDS: usize = 5;

/// Returns all usual steps, then the long ones.
pub(crate) fn everything() -> Vec<Plan> {
    let mut plans = test::everything();
    let drawn = "cargo test --release --test model --test behaviour -- against_model:: change:: save::";
    plans.push(Plan::Run(Step::new("more cases", drawn).with("PROPTEST_CASES", CASES)));
    let crossings = Step::new("crossings", "cargo test --release --test crossings");
    plans.push(Plan::Run(crossings.with("PROPTEST_CASES", CASES)));
    let histories = Step::new("histories", "cargo test --release --test threads linearizable::");
    plans.push(Plan::Run(histories.with("LINEARIZABLE_SECONDS", SECONDS)));
    let stress = |_| Plan::Run(Step::new("stress", "cargo test --release --test threads stress::"));
    plans.extend((0..ROUNDS).map(stress));
    plans.push(Plan::Run(Step::new("soak", "cargo xtask soak --seconds 20")));
    plans.push(Plan::Run(Step::new("soak over sockets", "cargo xtask soak --serve")));
    plans.push(Plan::Run(Step::new("soak of the proxy", "cargo xtask soak --proxy")));
    plans.push(Plan::Run(Step::new("honest clients beside attackers", "cargo xtask soak --fairness")));
    let verbs = "cargo test --package tollgate-redis --test strict histories:: -- --show-output";
    plans.push(Plan::Run(Step::new("verbs of the stores", verbs).with("TOLLGATE_REDIS_VERBS", VERBS)));
    let loops = "cargo test --package tollgate-redis --test strict loops:: -- --show-output";
    plans.push(Plan::Run(Step::new("loops of the stores", loops).with("TOLLGATE_REDIS_LOOPS", "full")));
    plans.push(Plan::Run(Step::new("soak of the store", "cargo xtask soak --redis")));
    let processes = "cargo test --package tollgate-redis --test leased three_processes -- --show-output";
    plans.push(Plan::Run(Step::new("killed processes", processes).with("TOLLGATE_PROCESSES_SECONDS", "30")));
    let parked = "cargo test --package tollgate-cli --all-features --test serve -- park::what_was_answered_202_survives \
                  park_redis::another_proxy_sends park_redis::kills_of_redis --nocapture";
    plans.push(Plan::Run(Step::new("kills of parked requests", parked).with("TOLLGATE_KILLS", KILLS)));
    let protocol = "cargo run --release --package tollgate-protocol -- --thorough";
    plans.push(Plan::Run(Step::new("protocol", protocol)));
    plans.push(loom());
    plans
}

/// Returns the loom models with one more preemption, each for at most five minutes.
pub(crate) fn loom() -> Plan {
    // The output tells which models were stopped.
    let step = test::loom_step("loom, longer", "-- --show-output");
    Plan::Run(step.with("LOOM_MORE_PREEMPTIONS", "1").with("LOOM_MAX_SECONDS", "300"))
}
