//! What calls are answered.

use std::time::Duration;

use allocation_counter::measure;
use tollgate::{BuildError, ManualClock};
use tollgate_rules::SetError;
use tollgate_rules_file::{
    EnvoyAnswer, EnvoyCallError, EnvoyCharge, EnvoyCode, EnvoyConfig, EnvoySet, EnvoyUnit, Memory, SameDomain,
};

use crate::walk::BASIC;
use crate::{Asker, Call, call, config, domain, hits, set};
use EnvoyCode::{Ok as Admitted, OverLimit};

/// The case 23 of the design: the configuration of the reference's tests.
#[test]
fn each_descriptor_is_told_the_limit_it_has() {
    let (set, _) = set(BASIC, EnvoyCharge::Each);
    let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
    let calls = [
        call(&[("key1", "value1")]),
        call(&[("key1", "value1"), ("subkey1", "x")]),
        call(&[("key2", "foo")]),
        call(&[("key2", "value3")]),
        call(&[("key2", "foo"), ("x", "y")]),
        call(&[("key5", "value5"), ("subkey5", "other")]),
        call(&[("key6", "a")]),
    ];
    assert_eq!(handle.decide("d", &calls, 0, &mut answer), Ok(Admitted));
    let told = answer.statuses().iter().map(|status| (status.current_limit, status.remaining));
    let expected = [
        (None, 0),
        (Some((5, EnvoyUnit::Second)), 4),
        (Some((20, EnvoyUnit::Minute)), 19),
        (None, 0),
        (None, 0),
        (None, 0),
        (None, u32::MAX),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(answer.statuses()[0].limit, None);
    let unlimited = answer.statuses()[6].limit.expect("it is a limit of the file");
    assert_eq!(&*handle.config().limits()[unlimited].composite, "d.key6");
}

const TWO: &str = "
  - { key: a, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: b, rate_limit: { unit: minute, requests_per_unit: 100 } }
";

#[test]
fn by_itself_each_descriptor_is_charged() {
    let (set, _) = set(TWO, EnvoyCharge::Each);
    let mut asker = Asker::of(&set);
    let both = [call(&[("a", "x")]), call(&[("b", "x")])];
    assert_eq!(asker.ask(&both), (Admitted, vec![(Admitted, 0), (Admitted, 99)]));
    assert_eq!(asker.ask(&both), (OverLimit, vec![(OverLimit, 0), (Admitted, 98)]));
    assert_eq!(asker.one(hits(&[("b", "x")], 0)), (Admitted, 98));
}

#[test]
fn hits_are_the_descriptors_or_else_the_calls() {
    let (set, _) = set(TWO, EnvoyCharge::Each);
    let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
    let mut remaining = |hits: Option<u64>, addend: u32| {
        let call = Call { hits, ..call(&[("b", "x")]) };
        handle.decide("d", &[call], addend, &mut answer).unwrap();
        answer.statuses()[0].remaining
    };
    assert_eq!(remaining(None, 0), 99, "at least 1");
    assert_eq!(remaining(None, 10), 89);
    assert_eq!(remaining(Some(5), 10), 84);
    assert_eq!(remaining(Some(0), 10), 84, "a look");
    assert_eq!(remaining(Some(1), 10), 83);
}

/// Envoy's flow for language models: look first, charge at the end of the answer.
#[test]
fn a_look_is_refused_once_hits_went_beyond() {
    let (set, clock) = set(TWO, EnvoyCharge::Each);
    let mut asker = Asker::of(&set);
    let b = [("b", "x")];
    assert_eq!(asker.one(hits(&b, 100)), (Admitted, 0));
    assert_eq!(asker.one(hits(&b, 0)), (Admitted, 0), "not more than the limit");
    assert_eq!(asker.one(hits(&b, 1)), (OverLimit, 0));
    assert_eq!(asker.one(hits(&b, 0)), (OverLimit, 0), "refused hits are counted");
    clock.advance(Duration::from_secs(60));
    assert_eq!(asker.one(hits(&b, 0)), (Admitted, 100));
    assert_eq!(asker.one(hits(&b, 1_000)), (OverLimit, 0), "more than the limit at once");
    assert_eq!(asker.one(hits(&b, 0)), (OverLimit, 0), "is counted, too");
}

#[test]
fn counts_too_large_for_words_stay_over() {
    let text = format!(
        "  - {{ key: s, rate_limit: {{ unit: second, requests_per_unit: {0} }} }}
  - {{ key: y, rate_limit: {{ unit: year, requests_per_unit: {0} }} }}
  - {{ key: less, rate_limit: {{ unit: second, requests_per_unit: 3000000000 }} }}\n",
        u32::MAX
    );
    let (set, clock) = set(&text, EnvoyCharge::Each);
    let mut asker = Asker::of(&set);
    for key in ["s", "y"] {
        let own = [(key, "x")];
        assert_eq!(asker.one(hits(&own, u32::MAX.into())), (Admitted, 0), "{key}");
        assert_eq!(asker.one(hits(&own, 1)), (OverLimit, 0), "{key}");
        assert_eq!(asker.one(hits(&own, 0)), (OverLimit, 0), "{key}");
        for _ in 0..3 {
            assert_eq!(asker.one(hits(&own, u64::MAX)), (OverLimit, 0), "{key}");
            assert_eq!(asker.one(hits(&own, 0)), (OverLimit, 0), "{key}");
        }
        assert_eq!(asker.one(hits(&[(key, "y")], u64::MAX)), (OverLimit, 0), "{key}");
    }
    // Neither is above the limit; both together are more than a word holds.
    let own = [("less", "x")];
    assert_eq!(asker.one(hits(&own, 2_900_000_000)), (Admitted, 100_000_000));
    assert_eq!(asker.one(hits(&own, 2_900_000_000)), (OverLimit, 0));
    assert_eq!(asker.one(hits(&own, 0)), (OverLimit, 0), "it is counted");
    clock.advance(Duration::from_secs(31_536_000));
    assert_eq!(asker.one(hits(&[("s", "x")], 0)), (Admitted, u32::MAX));
    assert_eq!(asker.one(hits(&[("y", "x")], 0)), (Admitted, u32::MAX));
}

#[test]
fn windows_end_where_unix_time_says() {
    let start = Duration::new(1_700_000_000, 300);
    let clock = ManualClock::starting_at(start);
    let units = ["second", "minute", "hour", "day", "week", "month", "year"];
    let limit =
        |unit| format!("  - {{ key: {unit}, rate_limit: {{ unit: {unit}, requests_per_unit: 1 }} }}\n");
    let text = domain(&units.map(limit).concat());
    let set = EnvoySet::new(config(&text), EnvoyCharge::Each, 10, clock.clone()).unwrap();
    let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
    clock.advance(Duration::from_nanos(41));
    let unix = (start + Duration::from_nanos(41)).as_nanos();
    for unit in units {
        // The look of a key that has no hits, a hit, and one above the limit.
        for n in [0, 1, 1] {
            handle.decide("d", &[hits(&[(unit, "x")], n)], 0, &mut answer).unwrap();
            let status = answer.statuses()[0];
            let length = u128::from(status.current_limit.unwrap().1.seconds()) * 1_000_000_000;
            assert_eq!(status.until_reset.as_nanos(), length - unix % length, "{unit}");
        }
    }
}

#[test]
fn a_limit_of_zero_refuses_all() {
    let (set, _) =
        set("  - { key: a, rate_limit: { unit: day, requests_per_unit: 0 } }\n", EnvoyCharge::Each);
    let mut asker = Asker::of(&set);
    for n in [0, 1, 5, 0] {
        assert_eq!(asker.one(hits(&[("a", "x")], n)), (OverLimit, 0));
    }
}

#[test]
fn a_shadow_limit_counts_and_refuses_nothing() {
    let text = "  - { key: a, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 1 } }\n";
    let (set, _) = set(text, EnvoyCharge::Each);
    let mut asker = Asker::of(&set);
    for is_over in [false, true, true] {
        assert_eq!(asker.ask(&[call(&[("a", "x")])]), (Admitted, vec![(Admitted, 0)]));
        assert_eq!(asker.1.statuses()[0].is_over, is_over);
    }
}

#[test]
fn a_replaced_limit_is_not_asked() {
    let limit = |name: &str, more: &str| {
        format!(
            "  - {{ key: {name}, rate_limit: {{ name: {name}, unit: day, requests_per_unit: 2{more} }} }}\n"
        )
    };
    let text = limit("a", ", replaces: [{ name: b }]")
        + &limit("b", ", replaces: [{ name: c }]")
        + &limit("c", "")
        + "  - { key: u, rate_limit: { name: u, unlimited: true, replaces: [{ name: c }] } }
  - { key: v, rate_limit: { unit: day, requests_per_unit: 2, replaces: [{ name: u }] } }\n";
    let (set, _) = set(&text, EnvoyCharge::Each);
    let mut asker = Asker::of(&set);
    let [a, b, c, u, v] = ["a", "b", "c", "u", "v"].map(|key| call(&[(key, "x")]));
    assert_eq!(asker.ask(&[b.clone(), a.clone()]).1, [(Admitted, 0), (Admitted, 1)]);
    assert_eq!(asker.1.statuses()[0].current_limit, None);
    // A replaced one replaces all the same.
    assert_eq!(asker.ask(&[a, b.clone(), c.clone()]).1, [(Admitted, 0), (Admitted, 0), (Admitted, 0)]);
    assert_eq!(asker.1.statuses()[2].current_limit, None);
    // An unlimited one replaces, and none replaces it.
    assert_eq!(asker.ask(&[c.clone(), u, v]).1, [(Admitted, 0), (Admitted, u32::MAX), (Admitted, 1)]);
    assert_eq!(asker.one(c), (Admitted, 1), "it was never counted");
    assert_eq!(asker.one(b), (Admitted, 1));
}

#[test]
fn a_limit_that_the_call_brings_is_asked_instead() {
    let text = "  - { key: a, shadow_mode: true, rate_limit: { name: a, unit: day, requests_per_unit: 9, replaces: [{ name: b }] } }
  - { key: b, rate_limit: { name: b, unit: day, requests_per_unit: 9 } }\n";
    let (set, _) = set(text, EnvoyCharge::Each);
    let mut asker = Asker::of(&set);
    let bring =
        |entries: &[(&str, &str)], count, unit| Call { limit: Some((count, Some(unit))), ..call(entries) };
    let day = |count| bring(&[("a", "x")], count, EnvoyUnit::Day);
    assert_eq!(asker.ask(&[day(2), call(&[("b", "x")])]).1, [(Admitted, 1), (Admitted, 8)], "replaces none");
    assert_eq!(
        (asker.1.statuses()[0].limit, asker.1.statuses()[0].current_limit),
        (None, Some((2, EnvoyUnit::Day)))
    );
    assert_eq!(asker.one(day(1)), (OverLimit, 0), "no shadow, whatever the file says");
    assert_eq!(asker.one(day(4)), (Admitted, 1), "the count stays where the number is another");
    assert_eq!(asker.one(call(&[("a", "x")])), (Admitted, 8), "the file's count is another");
    assert_eq!(
        asker.one(bring(&[("a", "x")], 2, EnvoyUnit::Hour)),
        (Admitted, 1),
        "that of each unit is another"
    );
    assert_eq!(asker.one(bring(&[("a", "y")], 2, EnvoyUnit::Day)), (Admitted, 1), "that of each value");
    assert_eq!(asker.one(bring(&[("no", "limit")], 2, EnvoyUnit::Day)), (Admitted, 1), "where none is found");
    assert_eq!(asker.one(bring(&[("a", "x"), ("b", "")], 2, EnvoyUnit::Day)), (Admitted, 1));
    assert_eq!(asker.one(bring(&[("a", "xb")], 2, EnvoyUnit::Day)), (Admitted, 1), "nothing is glued");
    let (handle, answer) = (&mut asker.0, &mut asker.1);
    assert_eq!(handle.decide("other", &[day(0)], 0, answer), Ok(Admitted), "the domain must be there");
    assert_eq!(answer.statuses()[0].current_limit, None);
}

#[test]
fn a_flood_of_brought_limits_refuses_and_never_admits() {
    let clock = ManualClock::new();
    let set = EnvoySet::new(config(&domain(TWO)), EnvoyCharge::Each, 8, clock).unwrap();
    let mut asker = Asker::of(&set);
    let bring =
        |value: usize| Call { limit: Some((3, Some(EnvoyUnit::Day))), ..call(&[("k", &value.to_string())]) };
    let mut admitted = [0; 500];
    for _ in 0..10 {
        for (value, admitted) in admitted.iter_mut().enumerate() {
            *admitted += u32::from(asker.one(bring(value)).0 == Admitted);
        }
    }
    assert!(admitted.iter().all(|admitted| *admitted <= 3), "{admitted:?}");
    assert!(admitted.iter().sum::<u32>() < 500, "most find no room: {admitted:?}");
}

#[test]
fn a_call_that_means_nothing_is_an_error() {
    let (set, _) = set(TWO, EnvoyCharge::Each);
    let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
    let b = call(&[("b", "x")]);
    let unknown = Call { limit: Some((1, None)), ..b.clone() };
    handle.decide("d", std::slice::from_ref(&b), 0, &mut answer).unwrap();
    for (domain, call, error) in [
        ("", vec![b.clone()], EnvoyCallError::NoDomain),
        ("d", vec![], EnvoyCallError::NoDescriptors),
        ("d", vec![b.clone(), unknown], EnvoyCallError::UnknownUnit { descriptor: 1 }),
    ] {
        assert_eq!(handle.decide(domain, &call, 0, &mut answer), Err(error));
        assert!(answer.statuses().is_empty());
    }
    handle.decide("d", &[b], 0, &mut answer).unwrap();
    assert_eq!(answer.statuses()[0].remaining, 98, "nothing was counted");
}

#[test]
fn a_set_that_cannot_be_built_is_an_error() {
    let set = EnvoySet::new(config(&domain(TWO)), EnvoyCharge::Each, 0, ManualClock::new());
    let Err(SetError::Limit { rule, error: BuildError::OutOfRange { .. }, .. }) = set else {
        panic!("{set:?}");
    };
    assert_eq!(&*rule, "d.a");
}

#[test]
fn no_call_allocates_once_the_buffers_have_grown() {
    let source = Memory::new("d.yaml", domain(&(BASIC.to_owned() + TWO)));
    let config = EnvoyConfig::read(&["d.yaml"], SameDomain::Refuse, &source).into_rules().unwrap();
    let set = EnvoySet::new(config, EnvoyCharge::Together, 1_000, ManualClock::new()).unwrap();
    let calls = [
        call(&[("key1", "value1"), ("subkey1", "x")]),
        call(&[("b", &"x".repeat(300))]),
        call(&[("key6", "a")]),
        Call { limit: Some((50, Some(EnvoyUnit::Day))), ..call(&[("b", "x")]) },
        // Two descriptors of one count: the second is refused after the look.
        hits(&[("key2", "x")], 11),
        hits(&[("key2", "x")], 11),
    ];
    let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
    handle.decide("d", &calls, 0, &mut answer).unwrap();
    let allocated = measure(|| {
        for _ in 0..100 {
            let _ = handle.decide("d", &calls, 0, &mut answer);
        }
    });
    assert_eq!(allocated.count_total, 0, "{allocated:?}");
}

/// As in the reference: its own example has such limits.
#[test]
fn limits_of_quota_mode_refuse_only_together() {
    let text = "
  - { key: a, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: b, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: c, rate_limit: { unit: day, requests_per_unit: 3 } }
  - { key: d, quota_mode: true, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 0 } }
";
    let (first, second, plain) = (call(&[("a", "")]), call(&[("b", "")]), call(&[("c", "")]));
    for charge in [EnvoyCharge::Each, EnvoyCharge::Together] {
        let (set, _) = set(text, charge);
        let mut asker = Asker::of(&set);
        let all = [first.clone(), second.clone(), plain.clone()];
        assert_eq!(asker.ask(&all), (Admitted, vec![(Admitted, 0), (Admitted, 1), (Admitted, 2)]));
        assert_eq!(asker.ask(&all), (Admitted, vec![(OverLimit, 0), (Admitted, 0), (Admitted, 1)]));
        // All of this mode are over: the third is refused, and with `Together` not charged.
        let left = if charge == EnvoyCharge::Each { 0 } else { 1 };
        assert_eq!(asker.ask(&all), (OverLimit, vec![(OverLimit, 0), (OverLimit, 0), (Admitted, left)]));
        assert_eq!(asker.one(first.clone()), (OverLimit, 0), "alone it is all of them");
        // A shadow is of this mode, and never over.
        let shadowed = [first.clone(), call(&[("d", "")])];
        assert_eq!(asker.ask(&shadowed), (Admitted, vec![(OverLimit, 0), (Admitted, 0)]));
        // A plain limit refuses by itself.
        let last = [call(&[("d", "")]), hits(&[("c", "")], 9)];
        assert_eq!(asker.ask(&last), (OverLimit, vec![(Admitted, 0), (OverLimit, 0)]));
    }
}

#[test]
fn each_limit_tells_the_hits_that_it_had() {
    let limits = "  - { key: a, rate_limit: { unit: day, requests_per_unit: 10 } }
  - { key: dark, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 2 } }
";
    let (set, _) = set(limits, EnvoyCharge::Each);
    let mut asker = Asker::of(&set);
    let told = |index: usize| {
        let hits = set.handle().hits(index);
        (hits.total, hits.within, hits.over, hits.near)
    };
    asker.ask(&[hits(&[("a", "x")], 9), hits(&[("dark", "x")], 5)]);
    asker.ask(&[hits(&[("a", "y")], 12), call(&[("unknown", "x")])]);
    assert_eq!(told(0), (21, 9, 2, 1 + 2), "each key has a window of its own");
    assert_eq!(told(1), (5, 0, 3, 1), "a shadow limit refuses none, and tells all");

    let generation = set.generation();
    set.reload(config(&domain(&limits.replace("requests_per_unit: 10", "requests_per_unit: 20")))).unwrap();
    assert_eq!(set.generation(), generation + 1);
    assert_eq!(told(0).0, 21, "a limit that stays keeps its hits");
    set.reload(config(&domain(&limits.replace("shadow_mode: true, ", "")))).unwrap();
    assert_eq!(told(1), (0, 0, 0, 0), "those of a shadow limit were not refused: it begins anew");
}

#[test]
fn hits_that_another_limit_refuses_are_within_this_one() {
    let limits = "  - { key: one, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: ten, rate_limit: { unit: day, requests_per_unit: 10 } }
";
    let (set, _) = set(limits, EnvoyCharge::Together);
    let mut asker = Asker::of(&set);
    for _ in 0..3 {
        asker.ask(&[call(&[("one", "x")]), call(&[("ten", "x")])]);
    }
    let told = |index: usize| (set.handle().hits(index).total, set.handle().hits(index).over);
    assert_eq!((told(0), told(1)), ((3, 2), (3, 0)));
}
