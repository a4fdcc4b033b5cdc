//! Calls that are decided by the counts of a store.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::ManualClock;
use tollgate_rules::StoreFailure;
use tollgate_rules_file::{
    EnvoyAnswer, EnvoyAsk, EnvoyCharge, EnvoyCode, EnvoyCount, EnvoyHandle, EnvoySet, EnvoyStatus, EnvoyUnit,
};

use crate::model::{calls, tree, yaml};
use crate::{Call, call, config, domain, hits, set};
use EnvoyCode::{Ok as Admitted, OverLimit};

/// A store that counts by unit, key and window, and nothing beyond the most.
#[derive(Default)]
struct Naive {
    counts: BTreeMap<(EnvoyUnit, Box<[u8]>, u128), u64>,
    unix: u128,
}

impl Naive {
    fn count(&mut self, ask: &EnvoyAsk, adds: bool) -> Option<EnvoyCount> {
        let length = u128::from(ask.unit.seconds()) * 1_000_000_000;
        let known = self.counts.entry((ask.unit, ask.key.clone(), self.unix / length)).or_default();
        let is_beyond = *known + ask.hits > EnvoyCount::MOST;
        let hits = if is_beyond { *known } else { *known + ask.hits };
        if adds {
            *known = hits;
        }
        let left = Duration::from_nanos((length - self.unix % length) as u64);
        Some(EnvoyCount { hits, is_beyond, until_reset: if hits > 0 { left } else { Duration::ZERO } })
    }

    /// Decides a call as a server with a store does.
    fn decide(
        &mut self,
        handle: &mut EnvoyHandle<ManualClock>,
        (descriptors, addend): (&[Call], u32),
        answer: &mut EnvoyAnswer,
    ) -> EnvoyCode {
        handle.find("d", descriptors, addend, answer).unwrap();
        let said: Vec<_> = handle.looks(answer).iter().map(|ask| self.count(ask, false)).collect();
        handle.looked(answer, &said, StoreFailure::Refuse);
        let asks = handle.charges(answer);
        let said: Vec<_> = asks.iter().map(|ask| self.count(ask, true)).collect();
        let (code, back) = handle.charged(answer, &said, StoreFailure::Refuse);
        for ask in back.into_iter().map(|position| &asks[position]) {
            let length = u128::from(ask.unit.seconds()) * 1_000_000_000;
            *self.counts.get_mut(&(ask.unit, ask.key.clone(), self.unix / length)).unwrap() -= ask.hits;
        }
        code
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Two limits that shared a key of the store would decide otherwise.
    #[test]
    fn a_store_decides_as_this_process_does(
        nodes in tree(),
        together: bool,
        start in 0..4_000_000_000_000_000_000_u64,
        actions in prop::collection::vec(
            (calls(), 0..3_u32, select(vec![0, 0, 1, 400_000_000, 20_000_000_000, 90_000_000_000_000])),
            1..40,
        ),
    ) {
        let config = config(&domain("").replace("descriptors:\n", &format!("descriptors: [{}]\n", yaml(&nodes))));
        let charge = if together { EnvoyCharge::Together } else { EnvoyCharge::Each };
        let clock = ManualClock::starting_at(Duration::from_nanos(start));
        let new = || EnvoySet::new(config.clone(), charge, 4_096, clock.clone()).unwrap();
        let (own, stored) = (new(), new());
        let (mut own, mut stored) = (own.handle(), stored.handle());
        let mut store = Naive { unix: start.into(), ..Naive::default() };
        let [mut by_own, mut by_store] = [(); 2].map(|()| EnvoyAnswer::default());
        for (mut call, addend, wait) in actions {
            // What fills a word of a window of a second stops there, and not in a store. Of hits
            // that no word counts, either tells in its own way how near the limit they are.
            for call in call.iter_mut().filter(|call| call.hits >= Some(u32::MAX.into())) {
                call.hits = Some(30);
            }
            clock.advance(Duration::from_nanos(wait));
            store.unix += u128::from(wait);
            let expected = own.decide("d", &call, addend, &mut by_own).unwrap();
            let code = store.decide(&mut stored, (&call, addend), &mut by_store);
            prop_assert_eq!(by_store.statuses(), by_own.statuses(), "{:?}", call);
            prop_assert_eq!(code, expected);
            for limit in own.config().limits() {
                prop_assert_eq!(stored.hits(limit.index), own.hits(limit.index));
            }
        }
    }
}

#[test]
fn a_refused_call_gives_back_what_the_store_was_charged() {
    let (set, _) = set(LIMITS, EnvoyCharge::Together);
    let (mut handle, mut store, mut answer) = (set.handle(), Naive::default(), EnvoyAnswer::default());
    let mut decide = |call: &[Call]| store.decide(&mut handle, (call, 1), &mut answer);
    let (ten, four) = (|units| hits(&[("ten", "x")], units), |units| hits(&[("four", "x")], units));
    // By a look at each alone they would pass.
    assert_eq!(decide(&[ten(5), four(3), four(3)]), OverLimit);
    // What refuses counts its units, as Envoy does.
    assert_eq!((decide(&[four(2)]), decide(&[ten(10)])), (OverLimit, Admitted));
    assert_eq!(decide(&[ten(1)]), OverLimit);
}

const LIMITS: &str = "
  - { key: ten, rate_limit: { unit: day, requests_per_unit: 10 } }
  - { key: four, rate_limit: { unit: day, requests_per_unit: 4 } }
  - { key: none, rate_limit: { unit: day, requests_per_unit: 0 } }
  - { key: dark, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 3 } }
";

/// What a call is answered while the store answers nothing.
fn without_store(
    handle: &mut EnvoyHandle<ManualClock>,
    descriptors: &[Call],
    on_failure: StoreFailure,
) -> (EnvoyCode, Vec<EnvoyStatus>) {
    let mut answer = EnvoyAnswer::default();
    handle.find("d", descriptors, 0, &mut answer).unwrap();
    let looks = handle.looks(&answer);
    handle.looked(&mut answer, &vec![None; looks.len()], on_failure);
    let charges = handle.charges(&answer);
    assert!(looks.iter().all(|ask| !charges.contains(ask)), "it is asked once");
    let (code, back) = handle.charged(&mut answer, &vec![None; charges.len()], on_failure);
    assert!(back.is_empty(), "nothing was charged");
    (code, answer.statuses().to_vec())
}

#[test]
fn a_store_that_fails_refuses_unless_it_is_said() {
    let (set, _) = set(LIMITS, EnvoyCharge::Together);
    let mut handle = set.handle();
    let all = [call(&[("ten", "x")]), call(&[("four", "x")]), call(&[("dark", "x")]), call(&[("free", "x")])];
    let (code, statuses) = without_store(&mut handle, &all, StoreFailure::Refuse);
    assert_eq!(code, OverLimit);
    assert_eq!(statuses.iter().map(|status| status.code).collect::<Vec<_>>(), {
        // A shadow limit refuses nothing.
        [OverLimit, OverLimit, Admitted, Admitted]
    });
    assert_eq!(statuses[0].until_reset, Duration::from_secs(1));
    let unavailable: Vec<_> = statuses.iter().map(|status| status.is_unavailable).collect();
    assert_eq!(unavailable, [true, true, true, false]);
    let hits = handle.hits(0);
    assert_eq!((hits.total, hits.within, hits.over), (1, 0, 0));
}

#[test]
fn a_store_that_fails_lets_pass_if_it_is_said() {
    let (set, _) = set(LIMITS, EnvoyCharge::Together);
    let mut handle = set.handle();
    let both = [call(&[("ten", "x")]), hits(&[("four", "x")], 4)];
    for _ in 0..20 {
        let (code, statuses) = without_store(&mut handle, &both, StoreFailure::Allow);
        assert_eq!((code, statuses[0].remaining, statuses[0].is_unavailable), (Admitted, 0, true));
    }
    // No count makes room for these.
    for call in [hits(&[("four", "x")], 5), call(&[("none", "x")])] {
        let (code, _) = without_store(&mut handle, &[call], StoreFailure::Allow);
        assert_eq!(code, OverLimit);
    }
}

#[test]
fn without_its_store_a_process_keeps_its_share() {
    for charge in [EnvoyCharge::Each, EnvoyCharge::Together] {
        let (set, _) = set(LIMITS, charge);
        let mut handle = set.handle();
        let local = StoreFailure::Local { nodes: 3 };
        let mut ask = |call: &[Call]| {
            let (code, statuses) = without_store(&mut handle, call, local);
            (code, statuses.iter().map(|status| status.remaining).collect::<Vec<_>>())
        };
        let ten = || call(&[("ten", "x")]);
        assert_eq!(ask(&[ten()]), (Admitted, vec![2]), "of ten a third");
        // The share of four is one, and what refuses leaves the other alone if it is together.
        let both = [ten(), call(&[("four", "x")])];
        assert_eq!(ask(&both), (Admitted, vec![1, 0]));
        let left = u32::from(charge == EnvoyCharge::Together);
        assert_eq!(ask(&both), (OverLimit, vec![left, 0]));
        assert_eq!(ask(&[call(&[("none", "x")])]).0, OverLimit);
        // Two of one count, which each would pass.
        let twice = [hits(&[("ten", "y")], 2), hits(&[("ten", "y")], 3)];
        assert_eq!(ask(&twice), (OverLimit, vec![if charge == EnvoyCharge::Each { 1 } else { 3 }, 0]));
    }
}

#[test]
fn different_descriptors_never_share_a_key() {
    let day = "rate_limit: { unit: day, requests_per_unit: 5 }";
    let text = format!(
        "domain: d\ndescriptors:\n  - {{ key: a, {day}, descriptors: [{{ key: b, {day} }}, {{ key: b, value: x, \
         {day} }}] }}\n  - {{ key: a, value: x, {day}, descriptors: [{{ key: b, {day} }}] }}\n  - {{ key: ab, {day} \
         }}\n  - {{ key: s, value: 's*', share_threshold: true, {day} }}\n"
    );
    let set = EnvoySet::new(config(&text), EnvoyCharge::Each, 1_000, ManualClock::new()).unwrap();
    let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
    let mut key = |entries: &[(&str, &str)], limit| {
        let call = Call { limit, ..call(entries) };
        handle.find("d", &[call], 0, &mut answer).unwrap();
        handle.charges(&answer).remove(0).key
    };
    let values = ["", "x", "y", "xb", "\0", "\u{1}", "\0\0\0\0\0\0\0\0", "x\u{1}\0\0\0\0\0\0\0x"];
    let mut keys = HashSet::new();
    for brought in [None, Some((5, Some(EnvoyUnit::Day)))] {
        for first in values {
            assert!(keys.insert(key(&[("a", first)], brought)), "a {first:?}");
            assert!(keys.insert(key(&[("ab", first)], brought)), "ab {first:?}");
            for second in values {
                assert!(keys.insert(key(&[("a", first), ("b", second)], brought)), "{first:?} {second:?}");
            }
        }
    }
    assert_eq!(key(&[("s", "s1")], None), key(&[("s", "s2")], None), "they share a count");
}

#[test]
fn a_reload_leaves_the_keys_of_a_store() {
    let limit = |more: &str, count: u32| {
        domain(&format!("  - {{ key: k{more}, rate_limit: {{ unit: day, requests_per_unit: {count} }} }}\n"))
    };
    let set = EnvoySet::new(config(&limit("", 5)), EnvoyCharge::Each, 1_000, ManualClock::new()).unwrap();
    let (mut handle, mut answer, mut store) = (set.handle(), EnvoyAnswer::default(), Naive::default());
    let mut ask = |store: &mut Naive| {
        let code = store.decide(&mut handle, (&[call(&[("k", "v")])], 3), &mut answer);
        (code, answer.statuses()[0].remaining)
    };
    assert_eq!(ask(&mut store), (Admitted, 2));
    set.reload(config(&limit(", shadow_mode: true", 5))).unwrap();
    assert_eq!(ask(&mut store), (Admitted, 0));
    set.reload(config(&limit("", 100))).unwrap();
    assert_eq!(ask(&mut store), (Admitted, 91));
}
