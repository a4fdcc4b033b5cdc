//! The engine compared with its model, decision by decision, and with its promises.
//!
//! Limits, costs and clocks are random: tiny and extreme rates, costs around the limit, times
//! around every boundary, clocks that jump years or step back. So are the verbs: admissions are
//! refunded in any order, and reservations are made and cancelled (with clocks that only go ahead).
//! `contest` compares every field of every answer with `tollgate-model`. A failure shrinks to a
//! script:
//!
//! ```text
//! token-bucket:3/s,burst=3, clock zero at Unix time 0ns
//!   1. t=+0ns check alice 3
//!   2. t=+333.333333ms check alice 1
//!   3. t=+0ns refund alice line 1
//! ```
//!
//! `PROPTEST_CASES=20000 cargo test --release --test model against_model::` runs more cases.

mod answers;
mod contest;
mod doors;
mod draw;
mod ledger;
mod limit;
mod promises;
mod script;
mod several;
mod shared;

use contest::contest;
use draw::{SORTS, Sort};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use script::{Case, Said};
use several::{SeveralCase, contest_of_several};
use shared::Shared;

/// Runs `cases` cases, or the number in `PROPTEST_CASES`.
fn config(cases: u32) -> ProptestConfig {
    let asked = |what| std::env::var(what).ok().and_then(|number| number.parse().ok());
    ProptestConfig {
        cases: asked("PROPTEST_CASES").unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: asked("PROPTEST_MAX_SHRINK_ITERS").unwrap_or(20_000),
        ..ProptestConfig::default()
    }
}

fn agrees(cases: impl Strategy<Value = Case>) {
    let played = TestRunner::new(config(400))
        .run(&cases, |case| contest(&case).map(|_| ()).map_err(TestCaseError::fail));
    if let Err(parted) = played {
        panic!("{parted}");
    }
}

#[test]
fn a_token_bucket_decides_as_the_model_does() {
    agrees(draw::case(Sort::TokenBucket));
}

#[test]
fn a_leaky_meter_decides_as_the_model_does() {
    agrees(draw::case(Sort::Meter));
}

#[test]
fn a_leaky_queue_decides_as_the_model_does() {
    agrees(draw::case(Sort::Queue));
}

#[test]
fn a_fixed_window_decides_as_the_model_does() {
    agrees(draw::case(Sort::Fixed));
}

#[test]
fn a_bucket_by_intervals_decides_as_the_model_does() {
    agrees(draw::case(Sort::Intervals));
}

#[test]
fn a_first_hit_bucket_decides_as_the_model_does() {
    agrees(draw::case(Sort::FirstHitBucket));
}

#[test]
fn a_first_hit_window_decides_as_the_model_does() {
    agrees(draw::case(Sort::FirstHitWindow));
}

#[test]
fn a_sliding_window_decides_as_the_model_does() {
    agrees(draw::case(Sort::Sliding));
}

#[test]
fn sub_windows_decide_as_the_model_does() {
    agrees(draw::case(Sort::SubWindows));
}

#[test]
fn a_sliding_log_decides_as_the_model_does() {
    agrees(draw::case(Sort::Log));
}

#[test]
fn a_token_bucket_refunds_and_reserves_like_the_model() {
    agrees(draw::with_all_verbs(Sort::TokenBucket));
}

#[test]
fn a_leaky_meter_refunds_and_reserves_like_the_model() {
    agrees(draw::with_all_verbs(Sort::Meter));
}

#[test]
fn a_leaky_queue_refunds_and_reserves_like_the_model() {
    agrees(draw::with_all_verbs(Sort::Queue));
}

#[test]
fn a_fixed_window_gives_back_as_the_model_does() {
    agrees(draw::with_all_verbs(Sort::Fixed));
}

#[test]
fn a_bucket_by_intervals_refunds_and_reserves_like_the_model() {
    agrees(draw::with_all_verbs(Sort::Intervals));
}

#[test]
fn a_first_hit_bucket_gives_back_like_the_model() {
    agrees(draw::with_all_verbs(Sort::FirstHitBucket));
}

#[test]
fn a_first_hit_window_gives_back_like_the_model() {
    agrees(draw::with_all_verbs(Sort::FirstHitWindow));
}

#[test]
fn a_sliding_window_gives_back_as_the_model_does() {
    agrees(draw::with_all_verbs(Sort::Sliding));
}

#[test]
fn sub_windows_give_back_as_the_model_does() {
    agrees(draw::with_all_verbs(Sort::SubWindows));
}

#[test]
fn a_sliding_log_gives_back_as_the_model_does() {
    agrees(draw::with_all_verbs(Sort::Log));
}

fn several_agree(cases: impl Strategy<Value = SeveralCase>) {
    let contest = |case| contest_of_several(&case).map(|_| ()).map_err(TestCaseError::fail);
    if let Err(parted) = TestRunner::new(config(600)).run(&cases, contest) {
        panic!("{parted}");
    }
}

#[test]
fn several_limits_decide_as_their_model_does() {
    several_agree(draw::several(false));
}

#[test]
fn several_limits_give_back_as_their_model_does() {
    several_agree(draw::several(true));
}

#[test]
fn most_generated_limits_are_valid() {
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
fn some_generated_limits_are_coarse() {
    let mut runner = TestRunner::deterministic();
    let mut coarse = |sort, is_coarse: fn(&script::Script) -> bool| {
        let strategy = draw::case(sort);
        let scripts = (0..300).filter_map(|_| strategy.new_tree(&mut runner).unwrap().current().script());
        scripts.filter(is_coarse).count()
    };
    assert!(coarse(Sort::TokenBucket, |script| script.resolution.grains.is_some()) >= 30);
    assert!(coarse(Sort::Sliding, |script| script.resolution.granule > 1) >= 3);
}

/// Many scripts have refunds, and most of these are compared exactly.
#[test]
fn most_refunds_are_compared_exactly() {
    for sort in SORTS {
        let mut runner = TestRunner::deterministic();
        let strategy = draw::with_all_verbs(sort);
        let (mut back, mut ahead, mut exact, mut all) = (0, 0, 0, 0);
        for _ in 0..300 {
            let case = strategy.new_tree(&mut runner).unwrap().current();
            let Some(script) = case.script() else { continue };
            for (number, line) in script.lines.iter().enumerate() {
                match line.right {
                    Said::Back(units) => {
                        back += u32::from(units > 0);
                        all += 1;
                        let leeway = Shared::NOTHING.leeway(&case.limit, &script, number);
                        // Less than nothing never comes back.
                        exact += u32::from(leeway.is_none_or(|most| most == 0));
                    }
                    Said::Departs(at, _) => ahead += u32::from(at > line.at),
                    _ => {}
                }
            }
        }
        let books = matches!(sort, Sort::TokenBucket | Sort::Meter | Sort::Queue | Sort::Intervals);
        assert!(back >= 100, "{sort:?}: only {back} of {all} give anything back");
        assert!(!books || ahead >= 100, "{sort:?}: only {ahead} depart later");
        assert!(exact * 3 >= all * 2, "{sort:?}: only {exact} of {all} exactly");
    }
}
