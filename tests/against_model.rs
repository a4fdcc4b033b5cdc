//! The engine against its specification, decision by decision, and against its promises.
//!
//! Limits, costs and clocks are random: tiny and extreme rates, costs around the limit, times around every boundary,
//! clocks that jump years or step back. `tollgate-model` says what is right; `contest` compares every field of every
//! answer. A failure shrinks to a script:
//!
//! ```text
//! token-bucket:3/s,burst=3, clock zero at Unix time 0ns
//!   t=+0ns check alice 3
//!   t=+333.333333ms check alice 1
//! ```
//!
//! `PROPTEST_CASES=20000 cargo test --release --test against_model` looks longer.

#[path = "against_model/contest.rs"]
mod contest;
#[path = "against_model/draw.rs"]
mod draw;
#[path = "against_model/limit.rs"]
mod limit;
#[path = "against_model/promises.rs"]
mod promises;
#[path = "against_model/script.rs"]
mod script;

use contest::contest;
use draw::{SORTS, Sort};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// `cases` of them, unless `PROPTEST_CASES` asks for others.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

fn agrees(sort: Sort) {
    let played = TestRunner::new(config(400))
        .run(&draw::case(sort), |case| contest(&case).map(|_| ()).map_err(TestCaseError::fail));
    if let Err(parted) = played {
        panic!("{parted}");
    }
}

#[test]
fn a_token_bucket_decides_as_the_model_does() {
    agrees(Sort::TokenBucket);
}

#[test]
fn a_leaky_meter_decides_as_the_model_does() {
    agrees(Sort::Meter);
}

#[test]
fn a_leaky_queue_decides_as_the_model_does() {
    agrees(Sort::Queue);
}

#[test]
fn a_fixed_window_decides_as_the_model_does() {
    agrees(Sort::Fixed);
}

#[test]
fn a_sliding_window_decides_as_the_model_does() {
    agrees(Sort::Sliding);
}

#[test]
fn sub_windows_decide_as_the_model_does() {
    agrees(Sort::SubWindows);
}

#[test]
fn a_sliding_log_decides_as_the_model_does() {
    agrees(Sort::Log);
}

#[test]
fn most_of_what_is_drawn_is_accepted() {
    for sort in SORTS {
        let mut runner = TestRunner::deterministic();
        let strategy = draw::case(sort);
        let accepted = (0..300).filter(|_| {
            let case = strategy.new_tree(&mut runner).unwrap().current();
            case.script().is_some()
        });
        let accepted = accepted.count();
        assert!(accepted >= 150, "{sort:?}: only {accepted} of 300");
    }
}

#[test]
fn some_of_what_is_drawn_is_coarse() {
    let mut runner = TestRunner::deterministic();
    let mut coarse = |sort, is_coarse: fn(&script::Script) -> bool| {
        let strategy = draw::case(sort);
        let scripts = (0..300).filter_map(|_| strategy.new_tree(&mut runner).unwrap().current().script());
        scripts.filter(is_coarse).count()
    };
    assert!(coarse(Sort::TokenBucket, |script| script.resolution.grains.is_some()) >= 30);
    assert!(coarse(Sort::Sliding, |script| script.resolution.granule > 1) >= 3);
}
