//! Calls whose descriptors are charged together.

use std::sync::Barrier;

use tollgate_rules_file::{EnvoyCharge, EnvoyCode};

use crate::{Asker, call, hits, set};
use EnvoyCode::{Ok as Admitted, OverLimit};

const TWO: &str = "
  - { key: a, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: b, rate_limit: { unit: minute, requests_per_unit: 100 } }
  - { key: c, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
";

/// The case 24 of the design.
#[test]
fn a_refused_call_leaves_the_other_limits_alone() {
    let (set, _) = set(TWO, EnvoyCharge::Together);
    let mut asker = Asker::of(&set);
    let both = [call(&[("a", "x")]), call(&[("b", "x")])];
    assert_eq!(asker.ask(&both), (Admitted, vec![(Admitted, 0), (Admitted, 99)]));
    assert_eq!(asker.ask(&both), (OverLimit, vec![(OverLimit, 0), (Admitted, 99)]));
    assert_eq!(asker.one(hits(&[("b", "x")], 0)), (Admitted, 99));
    // What refuses counts its refusals.
    assert_eq!(asker.one(hits(&[("a", "x")], 0)), (OverLimit, 0));
}

#[test]
fn a_shadow_limit_is_charged_whatever_others_say() {
    let (set, _) = set(TWO, EnvoyCharge::Together);
    let mut asker = Asker::of(&set);
    let call = [call(&[("a", "x")]), call(&[("b", "x")]), call(&[("c", "x")])];
    for shadow in [1, 0, 0] {
        assert_eq!(asker.ask(&call).1[2], (Admitted, shadow));
    }
    assert_eq!(asker.one(hits(&[("b", "x")], 0)), (Admitted, 99), "it refuses none of them");
}

#[test]
fn two_descriptors_of_one_count_are_charged_together() {
    let (set, _) = set(TWO, EnvoyCharge::Together);
    let mut asker = Asker::of(&set);
    // Each would pass alone.
    let call = [hits(&[("b", "x")], 60), hits(&[("b", "y")], 7), hits(&[("b", "x")], 50)];
    assert_eq!(asker.ask(&call), (OverLimit, vec![(Admitted, 100), (Admitted, 100), (OverLimit, 0)]));
    // The refusal remains.
    assert_eq!(asker.one(hits(&[("b", "x")], 0)), (Admitted, 50));
    assert_eq!(asker.one(hits(&[("b", "y")], 0)), (Admitted, 100));
}

#[test]
fn threads_are_never_admitted_more_than_a_limit() {
    const THREADS: u64 = 4;
    const CALLS: u64 = 2_000;
    for charge in [EnvoyCharge::Each, EnvoyCharge::Together] {
        let limit = |key, count| {
            format!("  - {{ key: {key}, rate_limit: {{ unit: day, requests_per_unit: {count} }} }}\n")
        };
        let (set, _) = set(&(limit("own", 700) + &limit("all", 3_000)), charge);
        let start = Barrier::new(THREADS as usize);
        let one = |thread: u64| {
            let (mut asker, own) = (Asker::of(&set), (thread % 2).to_string());
            let descriptors = [call(&[("own", &own)]), call(&[("all", "")])];
            start.wait();
            (0..CALLS).filter(|_| asker.ask(&descriptors).0 == Admitted).count() as u64
        };
        let one = &one;
        let admitted: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || one(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let own = [admitted[0] + admitted[2], admitted[1] + admitted[3]];
        let mut asker = Asker::of(&set);
        let all = asker.one(hits(&[("all", "")], 0));
        match charge {
            // What one limit refuses uses up the other.
            EnvoyCharge::Each => {
                assert!(own.iter().all(|own| *own <= 700), "{own:?}");
                assert_eq!(all, (OverLimit, 0));
            }
            // Only admitted hits are counted there.
            EnvoyCharge::Together => {
                assert_eq!(own, [700, 700]);
                assert_eq!(all, (Admitted, 3_000 - 1_400));
            }
        }
    }
}
