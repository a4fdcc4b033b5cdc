//! The properties of every rule that the table relies on.

use std::borrow::Cow;
use std::slice;
use std::time::Duration;

use super::*;
use crate::rate::Rate;
use crate::time::{Reading, Shift};

const SECOND: u64 = 1_000_000_000;

fn ten() -> Rate {
    Rate::per_second(10)
}

/// All rules that decide without a ring.
fn rules() -> Vec<AnyRule> {
    let (mut quotas, rate): (Vec<Quota>, _) = (Vec::new(), ten());
    quotas.push(TokenBucket::new(rate).into());
    quotas.push(TokenBucket::new(rate).initial(3).into());
    quotas.push(LeakyBucket::queue(rate).into());
    for count in [CountPolicy::Allowed, CountPolicy::All] {
        quotas.push(FixedWindow::new(rate).count(count).into());
        quotas.push(SlidingWindow::new(rate).count(count).into());
        quotas.push(SlidingWindow::new(rate).subwindows(4).count(count).into());
    }
    quotas.iter().map(rule).collect()
}

fn rule(quota: &Quota) -> AnyRule {
    Quota::compile(&[*quota], 0).expect("ten a second").remove(0)
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// The payload after `cost` was admitted at `now`.
fn charged(rule: &AnyRule, payload: u64, now: u64, cost: u64) -> u64 {
    match rule.decide(payload, Ring::NONE, rule.moment(at(now)), cost) {
        Verdict::Allow(payload) => payload,
        verdict => panic!("{rule:?}: {verdict:?}"),
    }
}

#[test]
fn a_bumped_payload_is_larger_by_at_most_one_step() {
    for rule in rules() {
        let payload = charged(&rule, 0, SECOND, 3);
        let (now, bumped) = (at(SECOND), rule.bump(payload));
        assert!(bumped > payload, "{rule:?}");
        let (left, less) =
            (rule.remaining(payload, Ring::NONE, now), rule.remaining(bumped, Ring::NONE, now));
        assert!(less <= left && less + 1 >= left, "{rule:?}: {left} and {less}");
    }
    let log = rule(&SlidingLog::new(ten()).into());
    let (mut newest, mut payload) = (0, 0);
    for _ in 0..3 {
        payload = log.bump(payload);
        assert!(payload > newest);
        newest = payload;
    }
}

#[test]
fn quick_decisions_equal_slow_ones() {
    for rule in rules() {
        for (charge, now) in
            [(0, 0), (SECOND, SECOND), (SECOND, 3 * SECOND / 2), (SECOND, 5 * SECOND), (SECOND, 0)]
        {
            let payload = charged(&rule, 0, charge, 3);
            let moment = rule.moment(at(now));
            assert!(rule.quick_moment(at(now)).is_none_or(|quick| quick == moment), "{rule:?}");
            for payload in [0, payload] {
                for cost in [1, 7, 8, 10] {
                    let quick = rule.quick_decide(payload, Ring::NONE, moment, cost);
                    let slow = rule.decide(payload, Ring::NONE, moment, cost);
                    assert!(
                        quick.is_none_or(|quick| quick == slow),
                        "{rule:?} at {now}: {quick:?}, {slow:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_forgiven_key_equals_a_key_never_seen() {
    for rule in rules() {
        let now = at(SECOND);
        let never_seen = rule.remaining(0, Ring::NONE, now);
        let payload = charged(&rule, 0, SECOND, 10);
        let forgiven = rule.forgive(payload, rule.moment(now));
        assert_eq!(rule.remaining(forgiven, Ring::NONE, now), never_seen, "{rule:?}");
        assert!(!rule.is_in_debt(forgiven, rule.moment(now)), "{rule:?}");
        // A clock that stepped back still finds the window that the key has seen.
        let back = rule.forgive(payload, rule.moment(at(0)));
        // No key starts from a payload that an earlier owner of its slot began with: a charge in
        // flight would hit it.
        assert!(rule.half(rule.moment(now)).is_some() || back >= forgiven && forgiven > 0, "{rule:?}");
    }
    let log = rule(&SlidingLog::new(ten()).into());
    let payload = log.bump(3);
    assert_eq!(
        log.forgive(payload, log.moment(at(0))),
        3,
        "the head stays, or a charge in flight would hit it"
    );
}

#[test]
fn a_slot_is_evictable_up_to_half_the_smallest_limit() {
    for quota in [
        [Quota::from(TokenBucket::new(ten())), TokenBucket::new(ten()).burst(100).into()],
        [LeakyBucket::meter(ten()).into(), LeakyBucket::meter(ten()).capacity(100).into()],
        [FixedWindow::new(ten()).into(), FixedWindow::new(Rate::per_second(100)).into()],
    ] {
        for rule in Quota::compile(&quota, 0).expect("two tiers") {
            let half = rule.half(rule.moment(at(SECOND))).expect("payloads can be compared");
            let left = rule.remaining(half, Ring::NONE, at(SECOND));
            assert_eq!(left, rule.limit() - 5, "{rule:?}");
            assert!(charged(&rule, 0, SECOND, 5) <= half && charged(&rule, 0, SECOND, 6) > half);
        }
    }
    for quota in [Quota::from(SlidingWindow::new(ten())), SlidingLog::new(ten()).into()] {
        let rule = rule(&quota);
        assert_eq!(rule.half(rule.moment(at(SECOND))), None, "{rule:?}");
    }
}

#[test]
fn a_lease_borrows_the_rule_instead_of_copying_it() {
    let quotas: [Quota; 3] =
        [TokenBucket::new(ten()).into(), LeakyBucket::meter(ten()).into(), FixedWindow::new(ten()).into()];
    for quota in quotas {
        let rule = rule(&quota);
        assert!(matches!(rule.ahead(), Some(Cow::Borrowed(own)) if std::ptr::eq(own, &rule)), "{quota}");
    }
}

#[test]
fn a_refused_lease_is_not_counted() {
    for quota in [
        Quota::from(FixedWindow::new(ten()).count(CountPolicy::All)),
        SlidingWindow::new(ten()).count(CountPolicy::All).into(),
        SlidingWindow::new(ten()).subwindows(4).count(CountPolicy::All).into(),
    ] {
        let rule = rule(&quota);
        let (payload, moment) = (charged(&rule, 0, SECOND, 10), rule.moment(at(SECOND)));
        assert!(matches!(rule.decide(payload, Ring::NONE, moment, 1), Verdict::DenyAndCount(_)));
        let ahead = rule.ahead().expect("no queue");
        assert_eq!(ahead.decide(payload, Ring::NONE, moment, 1), Verdict::Deny);
    }
    assert!(rule(&LeakyBucket::queue(ten()).into()).ahead().is_none());
    assert!(rule(&LeakyBucket::meter(ten()).into()).ahead().is_some());
}

/// The count stops at the end of its field. From there on a refusal writes nothing.
#[test]
fn a_count_that_has_stopped_is_not_written_again() {
    for quota in [
        Quota::from(FixedWindow::new(ten()).count(CountPolicy::All)),
        SlidingWindow::new(ten()).count(CountPolicy::All).into(),
    ] {
        let rule = rule(&quota);
        let moment = rule.moment(at(SECOND));
        let mut payload = charged(&rule, 0, SECOND, 10);
        if let Quota::FixedWindow(_) = quota {
            // The field is too wide to count through.
            payload += rule.resolution().ceiling - 35;
        }
        let mut counted = 0_u32;
        while let Verdict::DenyAndCount(next) = rule.decide(payload, Ring::NONE, moment, 10) {
            assert!(next > payload);
            payload = next;
            counted += 1;
        }
        assert!(counted > 1);
    }
}

#[test]
fn a_refund_of_nothing_is_none() {
    for rule in rules() {
        let charged = charged(&rule, 0, SECOND, 3);
        let taken = Taken { charged, since: rule.moment(at(SECOND)), cost: 3 };
        for later in [3, 20] {
            let refund = rule.refund(charged, taken, rule.moment(at(later * SECOND)), Order::Kept);
            assert_eq!(refund, None, "{rule:?}");
        }
        let refund = rule.refund(charged, taken, rule.moment(at(SECOND)), Order::Kept);
        assert_eq!(refund.map(|refund| refund.units), Some(3), "{rule:?}");
    }
}

#[test]
fn a_version_is_timely_up_to_its_cached_horizon() {
    for quota in [Quota::from(TokenBucket::new(ten())), FixedWindow::new(ten()).into()] {
        let rule = rule(&quota);
        rule.moment(at(SECOND));
        let until = rule.term().expect("it can be changed").cached_horizon();
        assert!(rule.is_timely(at(SECOND)) && rule.is_timely(at(until)), "{rule:?}");
        assert!(!rule.is_timely(at(until + 1)), "{rule:?}");
        assert_eq!(rule.quick_moment(at(until + 1)), None, "{rule:?}");
    }
}

/// A version takes payloads within its horizon for its own, and larger ones for a later version's.
#[test]
fn a_later_versions_payload_is_recognized_by_its_size() {
    for quota in [Quota::from(TokenBucket::new(ten())), FixedWindow::new(ten()).into()] {
        let rule = rule(&quota);
        let now = rule.term().expect("it can be changed").horizon().until();
        let payload = charged(&rule, 0, SECOND, 10);
        assert!(!rule.is_later(payload), "{rule:?}: reaches to {now}");
        let later = rule.moment(at(1 << 50)).tick;
        assert!(later > 0 && !rule.is_later(charged(&rule, payload, 1 << 50, 10)), "{rule:?}");
        assert!(rule.is_later(u64::MAX >> 2), "{rule:?}");
    }
}

#[test]
fn a_version_extends_its_horizon_to_a_restored_payload() {
    for quota in [Quota::from(TokenBucket::new(ten())), FixedWindow::new(ten()).into()] {
        let (before, after) = (rule(&quota), rule(&quota));
        let payload = charged(&before, 0, 1_000 * SECOND, 10);
        assert!(after.is_later(payload), "{after:?}");
        after.extend(payload);
        assert!(!after.is_later(payload), "{after:?}");
    }
}

/// The reset forgave the charge. The later debt belongs to another request.
#[test]
fn a_refund_after_a_reset_gives_back_nothing() {
    let rule = rule(&TokenBucket::new(ten()).into());
    let moment = rule.moment(at(SECOND));
    let first = charged(&rule, 0, SECOND, 5);
    let second = charged(&rule, rule.forgive(first, moment), SECOND, 2);
    let taken = Taken { charged: first, since: moment, cost: 5 };
    assert_eq!(rule.refund(second, taken, moment, Order::Kept), None);
}

#[test]
fn a_quota_tells_its_limit_and_whether_it_queues() {
    let told = |quota: Quota| (quota.limit(), quota.is_queue());
    assert_eq!(told(TokenBucket::new(ten()).burst(30).into()), (30, false));
    assert_eq!(told(LeakyBucket::meter(ten()).capacity(20).into()), (20, false));
    assert_eq!(told(LeakyBucket::queue(ten()).into()), (10, true));
    assert_eq!(told(SlidingLog::new(ten()).into()), (10, false));
}

/// Changes the quota of `old`, seals `old`, and returns the new rule.
fn changed(old: &AnyRule, quota: &Quota, inherit: Inherit, since: u64) -> AnyRule {
    let term = old.term().expect("versions of it can be told apart");
    let until = term.extend(since - term.since());
    let change = Change { inherits: &[inherit], since, until };
    let new = Quota::recompile(&[*quota], 0, slice::from_ref(old), change).expect("there is room").remove(0);
    assert!(term.horizon().seal(until, 1, 0));
    new
}

/// A thread that was stopped inside a check during a change resumes with the older rule.
#[test]
fn an_older_version_admits_nothing_after_a_later_ones_payload() {
    let fixed = |count, period| FixedWindow::new(Rate::new(count, Duration::from_nanos(period)));
    for (quota, next) in [
        (Quota::from(TokenBucket::new(ten())), Quota::from(TokenBucket::new(Rate::per_second(7)))),
        (fixed(10, SECOND).into(), fixed(20, SECOND).into()),
        (fixed(10, SECOND).into(), fixed(20, 60 * SECOND).into()),
        (fixed(10, 60 * SECOND).into(), fixed(20, SECOND).into()),
    ] {
        let (since, old) = (5 * SECOND / 2, rule(&quota));
        let mine = charged(&old, 0, since, 1);
        let new = changed(&old, &next, Inherit::Reset, since);
        assert!(!old.is_later(mine) && new.current(mine) <= new.forgive(0, new.moment(at(since))), "{new:?}");
        let first = charged(&new, 0, since, 1);
        for later in [first, charged(&new, first, 70 * SECOND, 1), new.forgive(mine, new.moment(at(since)))] {
            assert!(old.is_later(later) && !new.is_later(later), "{old:?}, then {new:?}");
            assert_eq!(new.current(later), later, "{new:?}");
            for now in [0, since, since + SECOND, 1_000 * SECOND] {
                let moment = old.moment(at(now));
                assert_eq!(old.decide(later, Ring::NONE, moment, 1), Verdict::Deny, "{old:?} at {now}");
                assert_eq!(old.remaining(later, Ring::NONE, at(now)), 0, "{old:?} at {now}");
                let taken = Taken { charged: mine, since: moment, cost: 1 };
                assert_eq!(old.refund(later, taken, moment, Order::Kept), None, "{old:?} at {now}");
                assert!(!old.expired(later, moment), "{old:?} at {now}");
            }
        }
    }
}

/// The largest payload of a version at its horizon: a full bucket, or a window whose count fills
/// its field.
#[test]
fn a_version_reads_its_largest_payload_as_its_own() {
    for quota in [Quota::from(TokenBucket::new(ten())), FixedWindow::new(ten()).into()] {
        let rule = rule(&quota);
        let until = rule.term().expect("it can be changed").horizon().until();
        let more = if matches!(quota, Quota::FixedWindow(_)) { rule.resolution().ceiling - 10 } else { 0 };
        let top = charged(&rule, 0, until, 10) + more;
        assert!(!rule.is_later(top) && rule.is_later(top + 1), "{rule:?}");
    }
}

#[test]
fn carrying_over_keeps_an_unseen_key_unseen() {
    let mut rules = rules();
    rules.push(rule(&SlidingLog::new(ten()).into()));
    for rule in rules {
        for later in [0, 5 * SECOND] {
            let reading = |at| Reading { at, unix: 100 * SECOND };
            for shift in [
                Shift::between(reading(later), reading(SECOND)),
                Shift::between(reading(SECOND), reading(later)),
            ] {
                assert_eq!(rule.carry(0, &rule, shift), 0, "{rule:?} {shift:?}");
            }
        }
    }
}

/// In the window of a change, a key that was never seen may have a count.
#[test]
fn a_window_with_an_unseen_keys_count_is_expired() {
    let old = rule(&FixedWindow::new(ten()).into());
    let (before, since) = (charged(&old, 0, SECOND, 4), 5 * SECOND / 2);
    let (idle, owing) = (charged(&old, 0, since, 1), charged(&old, before, since, 4));
    let idle = old.refund(
        idle,
        Taken { charged: idle, since: old.moment(at(since)), cost: 1 },
        old.moment(at(since)),
        Order::Kept,
    );
    let idle = idle.expect("it is the same window").payload;
    let new = changed(&old, &FixedWindow::new(Rate::per_second(25)).into(), Inherit::AsIs, since);
    let moment = new.moment(at(since));
    for (payload, left) in [(0, 10), (before, 10), (idle, 10), (owing, 6)] {
        assert_eq!(new.remaining(payload, Ring::NONE, at(since)), left);
        assert_eq!(
            (new.expired(payload, moment), new.is_in_debt(payload, moment)),
            (left == 10, left < 10),
            "{payload}"
        );
        assert!(new.expired(payload, new.moment(at(since + SECOND))));
    }
}

/// Their payloads mean the same under every quota that they can change to.
#[test]
fn sliding_windows_and_logs_have_no_later_version() {
    for quota in [Quota::from(SlidingWindow::new(ten())), SlidingLog::new(ten()).into()] {
        let rule = rule(&quota);
        assert!(rule.term().is_none() && rule.is_timely(at(u64::MAX)), "{rule:?}");
        assert!(!rule.is_later(u64::MAX >> 2) && rule.current(7) == 7, "{rule:?}");
    }
}

#[test]
fn only_token_buckets_and_meters_need_the_refund_order() {
    for rule in rules() {
        let (first, moment) = (charged(&rule, 0, SECOND, 3), rule.moment(at(SECOND)));
        let (second, taken) =
            (charged(&rule, first, SECOND, 2), Taken { charged: first, since: moment, cost: 3 });
        let needs = matches!(&rule, AnyRule::Gcra(bucket) if !bucket.queue);
        assert_eq!((rule.reorders(first, taken), rule.reorders(second, taken)), (false, needs), "{rule:?}");
        if !needs {
            let [kept, lost, booked] = [Order::Kept, Order::Lost, Order::LostAndBooked]
                .map(|order| rule.refund(second, taken, moment, order));
            assert!(kept == lost && lost == booked, "{rule:?}");
        }
    }
}

/// A bucket that starts with a debt does so once, not at every restart.
#[test]
fn a_restored_bucket_keeps_its_debt_without_the_initial_one() {
    let saved = rule(&TokenBucket::new(ten()).initial(3).into());
    let reading = |at| Reading { at, unix: 100 * SECOND };
    let restart = Shift::between(reading(SECOND), reading(0));
    let resumed = saved.clone().resuming(&saved, restart);
    let payload = resumed.carry(charged(&saved, 0, SECOND, 5), &saved, restart);
    for (payload, left) in [(0, 10), (payload, 5)] {
        assert_eq!(resumed.remaining(payload, Ring::NONE, at(0)), left);
        assert_eq!(resumed.expired(payload, resumed.moment(at(0))), left == 10);
    }
}

/// One compare-exchange seals all horizons, at the earliest end of a word.
#[test]
fn limits_decided_together_end_together() {
    let quotas: [Quota; 3] =
        [TokenBucket::new(ten()).into(), FixedWindow::new(ten()).into(), SlidingLog::new(ten()).into()];
    let rules = Each::compile(&quotas.map(Each), 0).expect("ten a second");
    let terms: Vec<&Term> = rules.iter().filter_map(Rule::term).collect();
    assert_eq!(terms.len(), 2);
    assert!(terms[0].horizon().seal(terms[0].horizon().until(), 7, 0));
    assert_eq!(terms[1].horizon().next(), Some(7));
    let alone = quotas.iter().map(rule).filter_map(|rule| rule.term().map(Term::last)).min();
    assert_eq!((Some(terms[0].last()), Some(terms[1].last())), (alone, alone));
}
