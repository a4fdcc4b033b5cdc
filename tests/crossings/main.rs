//! All verbs together: random programs in which they cross on the same keys.

mod clock;
mod crowd;
mod engine;
mod limits;
mod play;
mod program;
mod specification;
mod table;
mod world;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// `cases` of them, unless `PROPTEST_CASES` asks for others.
fn config(cases: u32) -> ProptestConfig {
    let asked = |what| std::env::var(what).ok().and_then(|number| number.parse().ok());
    ProptestConfig {
        cases: asked("PROPTEST_CASES").unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: asked("PROPTEST_MAX_SHRINK_ITERS").unwrap_or(20_000),
        ..ProptestConfig::default()
    }
}

#[test]
fn programs_of_all_verbs_keep_every_limit() {
    let played = TestRunner::new(config(2_000))
        .run(&program::program(), |program| play::play(&program).map(|_| ()).map_err(TestCaseError::fail));
    if let Err(contradiction) = played {
        panic!("{contradiction}");
    }
}

/// Rounds of threads. `PROPTEST_CASES` of them when that is more.
const ROUNDS: u64 = 300;

#[test]
fn threads_of_all_verbs_spend_no_more_than_each_burst() {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    for number in 0..asked.unwrap_or(ROUNDS).max(ROUNDS) {
        if let Err(why) = crowd::round(crowd::Plan::number(number)) {
            panic!("round {number}: {why}");
        }
    }
}
