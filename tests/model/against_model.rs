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
mod promises;
mod script;
mod several;
mod shared;

use contest::contest;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use script::{Case, Said};
use several::{SeveralCase, contest_of_several};
use shared::Shared;
use tollgate_testing::limits::Kind;

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
    agrees(draw::case(Kind::Bucket));
}

#[test]
fn a_leaky_meter_decides_as_the_model_does() {
    agrees(draw::case(Kind::Meter));
}

#[test]
fn a_leaky_queue_decides_as_the_model_does() {
    agrees(draw::case(Kind::Queue));
}

#[test]
fn a_fixed_window_decides_as_the_model_does() {
    agrees(draw::case(Kind::Fixed));
}

#[test]
fn a_bucket_by_intervals_decides_as_the_model_does() {
    agrees(draw::case(Kind::Intervals));
}

#[test]
fn a_first_hit_window_decides_as_the_model_does() {
    agrees(draw::case(Kind::FirstHitWindow));
}

#[test]
fn a_sliding_window_decides_as_the_model_does() {
    agrees(draw::case(Kind::Sliding));
}

#[test]
fn sub_windows_decide_as_the_model_does() {
    agrees(draw::case(Kind::SubWindows));
}

#[test]
fn a_sliding_log_decides_as_the_model_does() {
    agrees(draw::case(Kind::Log));
}

#[test]
fn a_token_bucket_refunds_and_reserves_like_the_model() {
    agrees(draw::with_all_verbs(Kind::Bucket));
}

#[test]
fn a_leaky_meter_refunds_and_reserves_like_the_model() {
    agrees(draw::with_all_verbs(Kind::Meter));
}

#[test]
fn a_leaky_queue_refunds_and_reserves_like_the_model() {
    agrees(draw::with_all_verbs(Kind::Queue));
}

#[test]
fn a_fixed_window_gives_back_as_the_model_does() {
    agrees(draw::with_all_verbs(Kind::Fixed));
}

#[test]
fn a_bucket_by_intervals_refunds_and_reserves_like_the_model() {
    agrees(draw::with_all_verbs(Kind::Intervals));
}

#[test]
fn a_first_hit_window_gives_back_like_the_model() {
    agrees(draw::with_all_verbs(Kind::FirstHitWindow));
}

#[test]
fn a_sliding_window_gives_back_as_the_model_does() {
    agrees(draw::with_all_verbs(Kind::Sliding));
}

#[test]
fn sub_windows_give_back_as_the_model_does() {
    agrees(draw::with_all_verbs(Kind::SubWindows));
}

#[test]
fn a_sliding_log_gives_back_as_the_model_does() {
    agrees(draw::with_all_verbs(Kind::Log));
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
    for kind in Kind::ALL {
        let mut runner = TestRunner::deterministic();
        let strategy = draw::case(kind);
        let accepted = (0..300).filter(|_| {
            let case = strategy.new_tree(&mut runner).unwrap().current();
            case.script().is_some()
        });
        let accepted = accepted.count();
        assert!(accepted >= 150, "{kind:?}: only {accepted} of 300");
    }
}

#[test]
fn some_generated_limits_are_coarse() {
    let mut runner = TestRunner::deterministic();
    let mut coarse = |kind, is_coarse: fn(&script::Script) -> bool| {
        let strategy = draw::case(kind);
        let scripts = (0..300).filter_map(|_| strategy.new_tree(&mut runner).unwrap().current().script());
        scripts.filter(is_coarse).count()
    };
    assert!(coarse(Kind::Bucket, |script| script.resolution.grains.is_some()) >= 30);
    assert!(coarse(Kind::Sliding, |script| script.resolution.granule > 1) >= 3);
}

/// Many scripts have refunds, and most of these are compared exactly.
#[test]
fn most_refunds_are_compared_exactly() {
    for kind in Kind::ALL {
        let mut runner = TestRunner::deterministic();
        let strategy = draw::with_all_verbs(kind);
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
        let books = matches!(kind, Kind::Bucket | Kind::Meter | Kind::Queue | Kind::Intervals);
        assert!(back >= 100, "{kind:?}: only {back} of {all} give anything back");
        assert!(!books || ahead >= 100, "{kind:?}: only {ahead} depart later");
        assert!(exact * 3 >= all * 2, "{kind:?}: only {exact} of {all} exactly");
    }
}
