//! What another configuration takes over.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tollgate::ManualClock;
use tollgate::RestoreError;
use tollgate::saved::{Format, Reader, Writer};
use tollgate_rules_file::{EnvoyCharge, EnvoyCode, EnvoySet, EnvoyUnit};

use crate::{Asker, Call, call, config, domain, hits, set};
use EnvoyCode::{Ok as Admitted, OverLimit};

const KEYS: usize = 1_000;

fn limit(key: &str, unit: &str, count: u32, more: &str) -> String {
    format!("  - {{ key: {key}, rate_limit: {{ unit: {unit}, requests_per_unit: {count} }}{more} }}\n")
}

fn reload(set: &EnvoySet<ManualClock>, descriptors: &str) {
    set.reload(config(&domain(descriptors))).unwrap();
}

#[test]
fn a_reload_forgets_no_count() {
    let (set, clock) = set(&limit("a", "day", 5, ""), EnvoyCharge::Each);
    let (mut asker, a) = (Asker::of(&set), [("a", "x")]);
    let brought = Call { limit: Some((9, Some(EnvoyUnit::Day))), ..call(&a) };
    assert_eq!(asker.one(hits(&a, 4)), (Admitted, 1));
    assert_eq!(asker.one(brought.clone()), (Admitted, 8));

    reload(&set, &(limit("b", "day", 1, "") + &limit("a", "day", 10, "")));
    assert_eq!(asker.one(call(&a)), (Admitted, 5), "another number, another place in the file");
    reload(&set, &limit("a", "day", 3, ", shadow_mode: true"));
    assert_eq!(asker.one(hits(&a, 0)), (Admitted, 0));
    assert!(asker.1.statuses()[0].is_over, "5 hits");
    reload(&set, "  - { key: a, rate_limit: { unlimited: true } }\n");
    assert_eq!(asker.one(call(&a)), (Admitted, u32::MAX));
    reload(&set, &limit("a", "day", 0, ""));
    assert_eq!(asker.one(call(&a)), (OverLimit, 0));
    reload(&set, &limit("a", "day", 7, ""));
    assert_eq!(asker.one(hits(&a, 0)), (Admitted, 1));
    assert_eq!(asker.one(brought), (Admitted, 7), "those of limits that calls bring stay, too");

    reload(&set, &limit("a", "hour", 7, ""));
    assert_eq!(asker.one(hits(&a, 0)), (Admitted, 7), "another unit begins at 0");
    clock.advance(Duration::from_secs(1));
    reload(&set, "  - { key: other }\n");
    reload(&set, &limit("a", "hour", 7, ""));
    assert_eq!(asker.one(call(&a)), (Admitted, 6), "a limit that is gone is forgotten");
}

/// It was an hour fast: the day ends so much later, of the configuration's limits and of others.
#[test]
fn windows_follow_a_clock_that_was_set() {
    let clock = ManualClock::starting_at(Duration::from_secs(1_000 * 86_400 + 36_000));
    let config = || config(&domain(&limit("a", "day", 5, "")));
    let set = EnvoySet::new(config(), EnvoyCharge::Each, KEYS, clock).unwrap();
    let (mut asker, a) = (Asker::of(&set), [("a", "x")]);
    let brought = Call { limit: Some((9, Some(EnvoyUnit::Day))), ..call(&[("b", "y")]) };
    assert_eq!(asker.one(hits(&a, 4)), (Admitted, 1));
    assert_eq!(asker.one(brought.clone()), (Admitted, 8));
    set.realign(Duration::from_secs(1_000 * 86_400 + 32_400)).unwrap();
    for other in [hits(&a, 0), hits(&[("a", "z")], 0), hits(&[("a", "z")], 1), brought] {
        let _ = asker.one(other.clone());
        assert_eq!(asker.1.statuses()[0].until_reset, Duration::from_secs(15 * 3_600), "{other:?}");
    }
    assert_eq!(asker.one(hits(&a, 2)), (OverLimit, 0), "the hits of before count");
    let mut saved = Vec::new();
    set.save(&mut saved).unwrap();
    // Ten hours later, by the right time.
    let clock = ManualClock::starting_at(Duration::from_secs(1_000 * 86_400 + 68_400));
    let (next, _) = EnvoySet::restore(config(), EnvoyCharge::Each, KEYS, clock, &saved[..]).unwrap();
    let mut asker = Asker::of(&next);
    assert_eq!(asker.one(hits(&a, 0)), (OverLimit, 0));
    assert_eq!(asker.1.statuses()[0].until_reset, Duration::from_secs(5 * 3_600));
}

/// Their composite keys are the same.
#[test]
fn limits_that_read_alike_keep_their_own_counts() {
    let glued = limit("a.b", "day", 9, "");
    let nested =
        "  - { key: a, descriptors: [{ key: b, rate_limit: { unit: day, requests_per_unit: 9 } }] }\n";
    let (set, _) = set(&(glued.clone() + nested), EnvoyCharge::Each);
    let (mut asker, own) = (Asker::of(&set), [("a", "x"), ("b", "x")]);
    assert_eq!(asker.one(hits(&[("a.b", "x")], 2)), (Admitted, 7));
    assert_eq!(asker.one(hits(&own, 4)), (Admitted, 5));
    reload(&set, nested);
    assert_eq!(asker.one(hits(&own, 0)), (Admitted, 5));
    reload(&set, &(nested.to_owned() + &glued));
    assert_eq!(asker.one(hits(&own, 0)), (Admitted, 5));
}

#[test]
fn a_value_shared_from_now_on_begins_at_0() {
    let text = |share: bool| limit("a", "day", 9, &format!(", value: 'x*', share_threshold: {share}"));
    let (set, _) = set(&text(false), EnvoyCharge::Each);
    let mut asker = Asker::of(&set);
    assert_eq!(asker.one(hits(&[("a", "x1")], 2)), (Admitted, 7));
    reload(&set, &text(true));
    assert_eq!(asker.one(hits(&[("a", "x1")], 4)), (Admitted, 5));
    assert_eq!(asker.one(hits(&[("a", "x2")], 1)), (Admitted, 4));
}

/// Both limits change together: a call that finds the first one's new number finds the second's.
#[test]
fn no_call_is_decided_partly_by_two_configurations() {
    let both = |count| limit("a", "year", count, "") + &limit("b", "year", count, "");
    let (set, _) = set(&both(4_000_000_000), EnvoyCharge::Each);
    let done = AtomicBool::new(false);
    let counted: u64 = std::thread::scope(|scope| {
        let one = || {
            let (mut asker, mut calls) = (Asker::of(&set), 0);
            while !done.load(Relaxed) || calls < 100 {
                asker.ask(&[call(&[("a", "x")]), call(&[("b", "x")])]);
                let limits = [0, 1].map(|at| asker.1.statuses()[at].current_limit.unwrap().0);
                assert_eq!(limits[0], limits[1]);
                calls += 1;
            }
            calls
        };
        let threads = [scope.spawn(one), scope.spawn(one)];
        for number in 1..=200 {
            reload(&set, &both(4_000_000_000 + number));
            let mut asker = Asker::of(&set);
            asker.ask(&[hits(&[("a", "x")], 0)]);
            assert_eq!(asker.1.statuses()[0].current_limit.unwrap().0, 4_000_000_000 + number);
        }
        done.store(true, Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let mut asker = Asker::of(&set);
    let remaining = 4_000_000_200 - u32::try_from(counted).unwrap();
    assert_eq!(asker.one(hits(&[("a", "x")], 0)), (Admitted, remaining), "each call was counted once");
}

/// The next process, which begins so long after the one before.
fn later(set: &EnvoySet<ManualClock>, descriptors: &str, keys: usize, begun: u64) -> Restored {
    let mut saved = Vec::new();
    set.save(&mut saved).unwrap();
    let config = config(&domain(descriptors));
    let clock = ManualClock::starting_at(Duration::from_secs(begun));
    let (set, forgotten) = EnvoySet::restore(config, EnvoyCharge::Each, keys, clock, &saved[..]).unwrap();
    (set, forgotten.iter().map(ToString::to_string).collect())
}

type Restored = (EnvoySet<ManualClock>, Vec<String>);

#[test]
fn a_restart_forgets_no_count() {
    let (set, _) = set(&limit("a", "day", 5, ""), EnvoyCharge::Each);
    let a = [("a", "x")];
    let brought = Call { limit: Some((9, Some(EnvoyUnit::Day))), ..call(&a) };
    Asker::of(&set).one(hits(&a, 4));
    Asker::of(&set).one(brought.clone());
    let two = limit("b", "day", 1, "") + &limit("a", "day", 10, "");
    let (next, forgotten) = later(&set, &two, KEYS, 0);
    assert!(forgotten.is_empty(), "{forgotten:?}");
    assert_eq!(Asker::of(&next).one(hits(&a, 0)), (Admitted, 6), "another number, another place");
    assert_eq!(Asker::of(&next).one(brought), (Admitted, 7), "those that calls bring stay, too");
    let (again, _) = later(&next, &two, KEYS, 86_399);
    assert_eq!(Asker::of(&again).one(hits(&a, 0)), (Admitted, 6));
    let (over, _) = later(&again, &two, KEYS, 86_400);
    assert_eq!(Asker::of(&over).one(hits(&a, 0)), (Admitted, 10), "the window is over");
    let (hourly, forgotten) = later(&set, &limit("a", "hour", 5, ""), KEYS, 0);
    assert_eq!((Asker::of(&hourly).one(hits(&a, 0)), forgotten.len()), ((Admitted, 5), 0), "another unit");
    let (_, forgotten) = later(&set, &two, 2 * KEYS, 0);
    assert!(forgotten.is_empty(), "more room");
}

#[test]
fn damaged_counts_are_never_restored() {
    let (set, _) = set(&limit("a", "day", 5, ""), EnvoyCharge::Each);
    Asker::of(&set).one(hits(&[("a", "x")], 4));
    let mut saved = Vec::new();
    set.save(&mut saved).unwrap();
    let restore = |saved: &[u8]| {
        let config = config(&domain(&limit("a", "day", 5, "")));
        EnvoySet::restore(config, EnvoyCharge::Each, KEYS, ManualClock::new(), saved).map(drop)
    };
    restore(&saved).unwrap();
    for at in 0..saved.len() {
        let cut = restore(&saved[..at]).unwrap_err();
        assert!(matches!(cut, RestoreError::Truncated), "{at} bytes: {cut:?}");
        let mut damaged = saved.clone();
        damaged[at] ^= 1;
        assert!(restore(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn counts_that_are_skipped_leave_the_rest_of_the_file() {
    const MINE: Format = Format { magic: *b"\xA7mine\r\n\x1A", name: "a file of mine" };
    let (set, _) = set(&(limit("a", "day", 5, "") + &limit("b", "hour", 5, "")), EnvoyCharge::Each);
    let brought = Call { limit: Some((9, Some(EnvoyUnit::Day))), ..call(&[("a", "x")]) };
    Asker::of(&set).ask(&[hits(&[("a", "x")], 4), hits(&[("b", "x")], 4), brought]);
    let mut saved = Vec::new();
    let mut out = Writer::begin(&mut saved, MINE).unwrap();
    assert_eq!(set.save_in(&mut out).unwrap(), 3);
    out.byte(7).unwrap();
    out.finish().unwrap();
    let mut input = Reader::begin(&saved[..], MINE).unwrap();
    EnvoySet::<ManualClock>::skip(&mut input).unwrap();
    assert_eq!(input.byte().unwrap(), 7);
    input.finish().unwrap();
}

/// A call that the old configuration decides counts for the new one, too.
#[test]
fn hits_of_all_threads_are_told_across_reloads() {
    let both = |count| limit("a", "year", count, "") + &limit("b", "year", count, "");
    let (set, _) = set(&both(1_000), EnvoyCharge::Together);
    let calls = 500;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut asker = Asker::of(&set);
                (0..calls).for_each(|_| _ = asker.ask(&[call(&[("a", "x")]), call(&[("b", "x")])]));
            });
        }
        (0..50).for_each(|turn| reload(&set, &both(1_000 + turn % 2)));
    });
    reload(&set, &both(1_000));
    let told = [0, 1].map(|index| set.handle().hits(index));
    assert_eq!(told.map(|hits| hits.total), [3 * calls; 2]);
    let refused = told.map(|hits| hits.total - hits.within);
    assert!(refused[0] + refused[1] >= 3 * calls - 1_001, "{told:?}");
}
