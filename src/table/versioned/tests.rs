//! The versions of a rule: where the time of each ends, and what each reads the others' words as.

use std::time::Duration;

use super::*;
use crate::algorithm::{
    AnyRule, Compile, FixedWindow, Inherit, LeakyBucket, Quota, Ranged, SlidingLog, SlidingWindow,
    TokenBucket, Transition,
};
use crate::rate::Rate;

const SECOND: u64 = 1_000_000_000;

/// A rule and its validity.
#[derive(Debug)]
struct Version {
    rule: AnyRule,
    validity: Validity,
}

impl Version {
    fn by_ref(&self) -> VersionedRef<'_, AnyRule> {
        VersionedRef { pure: &self.rule, validity: &self.validity }
    }

    /// The payload after `cost` was admitted at `now`.
    fn charged(&self, payload: Stored, now: u64, cost: u64) -> Stored {
        let (rule, at) = (self.by_ref(), self.by_ref().moment(at(now)));
        match rule.decide(rule.read(payload), Ring::NONE, at, cost) {
            Verdict::Allow(payload) => payload.stored(),
            verdict => panic!("{self:?}: {verdict:?}"),
        }
    }

    fn remaining(&self, payload: Stored, now: u64) -> u64 {
        crate::algorithm::Numbers::remaining(&self.rule, self.by_ref().read(payload), Ring::NONE, at(now))
    }

    /// Changes the quota, seals this version, and returns the new one.
    fn changed(&self, quota: impl Into<Quota>, inherit: Inherit, since: u64) -> Self {
        let until = self.validity.extend(since);
        let change = Transition { inherits: &[inherit], since, until };
        let rules = Quota::recompile(&[quota.into()], 0, &[self.rule], change).expect("there is room");
        let olds = [(self.rule, self.validity.past().cloned())];
        let rules = Past::remember(&olds, &rules, change).expect("it is the first change");
        assert!(self.validity.horizon().expect("it can be changed").seal(until, 1, since));
        version(Validity::all(rules, since))
    }
}

const UNSEEN: Stored = Payload::UNSEEN.stored();

fn ten() -> Rate {
    Rate::per_second(10)
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn version(rules: Vec<(AnyRule, Validity)>) -> Version {
    let (rule, validity) = rules.into_iter().next().expect("there is one rule");
    Version { rule, validity }
}

fn first(quota: impl Into<Quota>) -> Version {
    let rule = Quota::compile(&[quota.into()], 0).expect("ten a second").remove(0);
    Version { rule, validity: Validity::of_first(&rule) }
}

/// Quotas whose versions have ranges of their own.
fn ranged() -> [Version; 3] {
    let window = FixedWindow::new(ten());
    [first(TokenBucket::new(ten())), first(window), first(window.from_first_hit())]
}

#[test]
fn quick_decisions_equal_slow_ones() {
    let (bucket, third) = (TokenBucket::new(ten()), Rate::per_second(17));
    for version in [
        first(bucket),
        first(bucket.initial(3)),
        first(TokenBucket::new(third)),
        first(LeakyBucket::queue(ten())),
        first(FixedWindow::new(ten())),
        first(FixedWindow::new(ten()).from_first_hit()),
        first(SlidingWindow::new(ten())),
        first(bucket).changed(bucket, Inherit::AsIs, SECOND),
        first(FixedWindow::new(ten())).changed(FixedWindow::new(third), Inherit::AsIs, SECOND),
    ] {
        let rule = version.by_ref();
        for (charge, now) in
            [(SECOND, SECOND), (SECOND, 3 * SECOND / 2), (SECOND, 5 * SECOND), (SECOND, 0), (SECOND, 1 << 50)]
        {
            let payload = version.charged(UNSEEN, charge, 3);
            let moment = rule.moment(at(now));
            assert!(rule.quick_moment(at(now)).is_none_or(|quick| quick == moment), "{version:?}");
            for stored in [UNSEEN, payload] {
                for cost in [1, 7, 8, 10] {
                    let quick = rule.decide_own(stored, Ring::NONE, moment, cost);
                    let slow = rule.decide(rule.read(stored), Ring::NONE, moment, cost);
                    let is_deny = |verdict| matches!(verdict, Verdict::Deny(_));
                    let same = |quick| quick == slow || is_deny(quick) && is_deny(slow);
                    assert!(quick.is_none_or(same), "{version:?} at {now}");
                    let own = version.rule.own(stored, moment);
                    assert_eq!(quick.is_some(), own.is_some(), "{version:?} at {now}");
                }
            }
        }
    }
}

#[test]
fn a_version_is_timely_up_to_its_cached_horizon() {
    for version in ranged() {
        let rule = version.by_ref();
        rule.moment(at(SECOND));
        let until = version.validity.until();
        assert!(rule.is_timely(at(SECOND)) && rule.is_timely(at(until)), "{version:?}");
        assert!(!rule.is_timely(at(until + 1)), "{version:?}");
        assert_eq!(rule.quick_moment(at(until + 1)), None, "{version:?}");
    }
}

/// A reader sees the time beyond the horizon, and does not raise it; once sealed it ends there.
#[test]
fn a_reader_raises_no_horizon() {
    for version in ranged() {
        let (until, later) = (version.validity.until(), at(1 << 50));
        let read = version.by_ref().moment_to_read(later);
        assert_eq!(version.validity.until(), until, "{version:?}");
        assert!(!version.by_ref().is_timely(later), "{version:?}");
        assert_eq!(version.by_ref().moment(later), read, "{version:?}");
    }
    for version in ranged() {
        let until = version.validity.until();
        assert!(version.validity.horizon().expect("it can be changed").seal(until, 1, SECOND));
        let end = version.by_ref().moment(at(until));
        assert_eq!(version.by_ref().moment_to_read(at(1 << 50)), end, "{version:?}");
        assert_eq!(version.by_ref().moment(at(1 << 50)), end, "{version:?}");
    }
}

/// A version takes payloads within its horizon for its own, and larger ones for a later version's.
#[test]
fn a_later_versions_payload_is_recognized_by_its_size() {
    for version in ranged() {
        let payload = version.charged(UNSEEN, SECOND, 10);
        assert!(!version.by_ref().is_later(payload), "{version:?}");
        let later = version.charged(payload, 1 << 50, 10);
        assert!(later > payload && !version.by_ref().is_later(later), "{version:?}");
        assert!(version.by_ref().is_later(Stored::new(u64::MAX >> 2)), "{version:?}");
    }
}

#[test]
fn a_version_extends_its_horizon_to_a_restored_payload() {
    for (before, after) in ranged().into_iter().zip(ranged()) {
        let stored = before.charged(UNSEEN, 1_000 * SECOND, 10);
        assert!(after.by_ref().is_later(stored), "{after:?}");
        let payload = Past::read(None, &after.rule, stored);
        assert!(after.by_ref().lasts_for(payload, after.rule.after(0)));
        assert!(!after.by_ref().is_later(stored), "{after:?}");
    }
}

/// A thread that was stopped inside a check during a change resumes with the older rule.
#[test]
fn an_older_version_admits_nothing_after_a_later_ones_payload() {
    let fixed = |count, period| FixedWindow::new(Rate::new(count, Duration::from_nanos(period)));
    let bucket = TokenBucket::new(ten()).burst(20);
    for (quota, next) in [
        (Quota::from(TokenBucket::new(ten())), Quota::from(TokenBucket::new(Rate::per_second(7)))),
        (fixed(10, SECOND).into(), fixed(20, SECOND).into()),
        (fixed(10, SECOND).into(), fixed(20, 60 * SECOND).into()),
        (fixed(10, 60 * SECOND).into(), fixed(20, SECOND).into()),
        (fixed(10, SECOND).from_first_hit().into(), fixed(20, 60 * SECOND).from_first_hit().into()),
        (bucket.by_intervals().into(), bucket.burst(40).by_intervals().into()),
    ] {
        let (since, old) = (5 * SECOND / 2, first(quota));
        let mine = old.charged(UNSEEN, since, 1);
        let new = old.changed(next, Inherit::Reset, since);
        let (before, after) = (old.by_ref(), new.by_ref());
        let start = after.moment(at(since));
        let forgiven = after.forgive(mine, start).stored();
        assert!(!before.is_later(mine) && after.rank(mine) <= forgiven.bits(), "{new:?}");
        let first = new.charged(UNSEEN, since, 1);
        for later in [first, new.charged(first, 70 * SECOND, 1), forgiven] {
            assert!(before.is_later(later) && !after.is_later(later), "{old:?}, then {new:?}");
            assert_eq!(after.current(later).stored(), later, "{new:?}");
            for now in [0, since, since + SECOND, 1_000 * SECOND] {
                let moment = before.moment(at(now));
                let read = before.read(later);
                assert_eq!(
                    before.decide(read, Ring::NONE, moment, 1),
                    Verdict::Deny(read),
                    "{old:?} at {now}"
                );
                // Numbers are of the time that is asked for, also after the version's end.
                let is_over = now > old.validity.until();
                assert!(is_over || old.remaining(later, now) == 0, "{old:?} at {now}");
                let taken = Taken { charged: before.read(mine), since: moment, cost: 1 };
                assert_eq!(before.refund(later, taken, moment, RefundOrder::Kept), None, "{old:?} at {now}");
                assert!(!before.expired(later, moment), "{old:?} at {now}");
            }
        }
    }
}

/// The newer version cannot give back what the older one charged, whose word is still there.
#[test]
fn a_refund_from_an_older_versions_word_gives_back_nothing() {
    let since = 5 * SECOND / 2;
    for (old, quota) in ranged().into_iter().zip([
        Quota::from(TokenBucket::new(Rate::per_second(20))),
        FixedWindow::new(Rate::per_second(20)).into(),
        FixedWindow::new(Rate::per_second(20)).from_first_hit().into(),
    ]) {
        let mine = old.charged(UNSEEN, since, 5);
        let new = old.changed(quota, Inherit::Additive, since);
        let (rule, at) = (new.by_ref(), new.by_ref().moment(at(since)));
        let taken = Taken { charged: rule.read(mine), since: at, cost: 5 };
        assert_eq!(rule.refund(mine, taken, at, RefundOrder::Kept), None, "{new:?}");
        assert!(rule.refund(rule.read(mine).stored(), taken, at, RefundOrder::Kept).is_some(), "{new:?}");
    }
}

/// The largest payload of a version at its horizon: a full bucket, or a window whose count fills
/// its field.
#[test]
fn a_version_reads_its_largest_payload_as_its_own() {
    for version in ranged() {
        let until = version.validity.until();
        let is_window = !matches!(version.rule, AnyRule::Gcra(_));
        let more = if is_window { version.rule.resolution().ceiling - 10 } else { 0 };
        let top = version.charged(UNSEEN, until, 10).bits() + more;
        assert!(!version.by_ref().is_later(Stored::new(top)), "{version:?}");
        assert!(version.by_ref().is_later(Stored::new(top + 1)), "{version:?}");
    }
}

/// In the window of a change, a key that was never seen may have a count.
#[test]
fn a_window_with_an_unseen_keys_count_is_expired() {
    let old = first(FixedWindow::new(ten()));
    let (before, since) = (old.charged(UNSEEN, SECOND, 4), 5 * SECOND / 2);
    let (idle, owing) = (old.charged(UNSEEN, since, 1), old.charged(before, since, 4));
    let moment = old.by_ref().moment(at(since));
    let taken = Taken { charged: old.by_ref().read(idle), since: moment, cost: 1 };
    let idle =
        old.by_ref().refund(idle, taken, moment, RefundOrder::Kept).expect("it is the same window").payload;
    let new = old.changed(FixedWindow::new(Rate::per_second(25)), Inherit::AsIs, since);
    let moment = new.by_ref().moment(at(since));
    for (payload, left) in [(UNSEEN, 10), (before, 10), (idle.stored(), 10), (owing, 6)] {
        assert_eq!(new.remaining(payload, since), left);
        let rule = new.by_ref();
        assert_eq!(
            (rule.expired(payload, moment), rule.is_in_debt(payload, moment)),
            (left == 10, left < 10),
            "{payload:?}"
        );
        assert!(rule.expired(payload, rule.moment(at(since + SECOND))));
    }
}

/// Their payloads mean the same under every quota that they can change to.
#[test]
fn sliding_windows_and_logs_have_no_later_version() {
    for version in [first(SlidingWindow::new(ten())), first(SlidingLog::new(ten()))] {
        let (rule, stored) = (version.by_ref(), Stored::new(7));
        assert!(version.validity.horizon().is_none() && rule.is_timely(at(u64::MAX)), "{version:?}");
        assert_eq!(rule.moment(at(u64::MAX)), version.rule.moment(at(u64::MAX)), "{version:?}");
        assert!(!rule.is_later(Stored::new(u64::MAX >> 2)), "{version:?}");
        assert_eq!(rule.current(stored).stored(), stored, "{version:?}");
    }
}

/// One compare-exchange seals all horizons, at the earliest end of a word.
#[test]
fn limits_decided_together_end_together() {
    let quotas: [Quota; 3] =
        [TokenBucket::new(ten()).into(), FixedWindow::new(ten()).into(), SlidingLog::new(ten()).into()];
    let rules: Vec<AnyRule> =
        quotas.iter().flat_map(|quota| Quota::compile(&[*quota], 0).expect("ten a second")).collect();
    let last = rules.iter().filter(|rule| rule.is_ranged()).map(Ranged::last).min();
    let validities = Validity::all(rules.into_iter().map(|rule| (rule, None)).collect(), 0);
    let horizons: Vec<_> = validities.iter().filter_map(|(_, validity)| validity.horizon()).collect();
    assert_eq!(horizons.len(), 2);
    assert!(horizons[0].seal(horizons[0].until(), 7, 0));
    assert_eq!(horizons[1].next(), Some(7));
    let ends: Vec<_> = validities.iter().map(|(_, validity)| validity.last()).take(2).map(Some).collect();
    assert_eq!(ends, [last, last]);
}
