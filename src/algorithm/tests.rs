//! What the table may rely on, of every rule.

use super::*;
use crate::rate::Rate;

const SECOND: u64 = 1_000_000_000;

fn ten() -> Rate {
    Rate::per_second(10)
}

/// All rules that a payload can be put to without a ring.
fn rules() -> Vec<AnyRule> {
    let (mut quotas, rate): (Vec<Quota>, _) = (Vec::new(), ten());
    quotas.push(TokenBucket::new(rate).into());
    quotas.push(TokenBucket::new(rate).initial(3).into());
    quotas.push(LeakyBucket::queue(rate).into());
    for count in [Count::Allowed, Count::All] {
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

/// The payload once `cost` was admitted at `now`.
fn charged(rule: &AnyRule, payload: u64, now: u64, cost: u64) -> u64 {
    match rule.decide(payload, Ring::NONE, rule.moment(at(now)), cost) {
        Verdict::Allow(payload) => payload,
        verdict => panic!("{rule:?}: {verdict:?}"),
    }
}

#[test]
fn a_bumped_payload_is_larger_and_worth_the_same_to_within_one_step() {
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
fn what_is_quick_decides_the_same() {
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
fn a_forgiven_key_has_what_one_has_that_was_never_seen() {
    for rule in rules() {
        let now = at(SECOND);
        let never_seen = rule.remaining(0, Ring::NONE, now);
        let payload = charged(&rule, 0, SECOND, 10);
        let forgiven = rule.forgive(payload, rule.moment(now));
        assert_eq!(rule.remaining(forgiven, Ring::NONE, now), never_seen, "{rule:?}");
        assert!(!rule.owes(forgiven, rule.moment(now)), "{rule:?}");
        // A clock that has stepped back still finds the window that the key has seen.
        let back = rule.forgive(payload, rule.moment(at(0)));
        assert!(rule.half(rule.moment(now)).is_some() || back >= forgiven, "{rule:?}");
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
fn a_slot_is_handed_over_up_to_half_of_the_smallest_limit() {
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
fn what_is_taken_ahead_is_refused_without_being_counted() {
    for quota in [
        Quota::from(FixedWindow::new(ten()).count(Count::All)),
        SlidingWindow::new(ten()).count(Count::All).into(),
        SlidingWindow::new(ten()).subwindows(4).count(Count::All).into(),
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

/// The count stops at the end of its field: from there on a refusal writes nothing.
#[test]
fn a_count_that_has_stopped_is_not_written_again() {
    for quota in [
        Quota::from(FixedWindow::new(ten()).count(Count::All)),
        SlidingWindow::new(ten()).count(Count::All).into(),
    ] {
        let rule = rule(&quota);
        let moment = rule.moment(at(SECOND));
        let mut payload = charged(&rule, 0, SECOND, 10);
        let mut counted = 0_u32;
        while let Verdict::DenyAndCount(next) = rule.decide(payload, Ring::NONE, moment, 10) {
            assert!(next > payload);
            payload = next;
            counted += 1;
            // A count has some twenty bits here; past that it only has to be seen to go on.
            if counted == 1 << 20 {
                break;
            }
        }
        assert!(counted > 1);
    }
}

#[test]
fn nothing_is_given_back_as_nothing_and_not_as_an_empty_refund() {
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
fn a_version_is_timely_as_far_as_its_reach_is_known() {
    for quota in [Quota::from(TokenBucket::new(ten())), FixedWindow::new(ten()).into()] {
        let rule = rule(&quota);
        rule.moment(at(SECOND));
        let until = rule.term().expect("it can be changed").near_until();
        assert!(rule.is_timely(at(SECOND)) && rule.is_timely(at(until)), "{rule:?}");
        assert!(!rule.is_timely(at(until + 1)), "{rule:?}");
        assert_eq!(rule.quick_moment(at(until + 1)), None, "{rule:?}");
    }
}

/// Payloads that a version may write within its reach are not a later one's; the next larger one is.
#[test]
fn a_later_versions_payload_is_told_by_its_size() {
    for quota in [Quota::from(TokenBucket::new(ten())), FixedWindow::new(ten()).into()] {
        let rule = rule(&quota);
        let now = rule.term().expect("it can be changed").reach().until();
        let payload = charged(&rule, 0, SECOND, 10);
        assert!(!rule.is_later(payload), "{rule:?}: reaches to {now}");
        let later = rule.moment(at(1 << 50)).tick;
        assert!(later > 0 && !rule.is_later(charged(&rule, payload, 1 << 50, 10)), "{rule:?}");
        assert!(rule.is_later(u64::MAX >> 2), "{rule:?}");
    }
}

#[test]
fn a_restored_payload_is_one_that_the_version_reaches_to() {
    for quota in [Quota::from(TokenBucket::new(ten())), FixedWindow::new(ten()).into()] {
        let (before, after) = (rule(&quota), rule(&quota));
        let payload = charged(&before, 0, 1_000 * SECOND, 10);
        assert!(after.is_later(payload), "{after:?}");
        after.stretch(payload);
        assert!(!after.is_later(payload), "{after:?}");
    }
}

/// A reset forgave it, and what was charged since is another's.
#[test]
fn a_refund_after_a_reset_gives_back_nothing_of_what_came_since() {
    let rule = rule(&TokenBucket::new(ten()).into());
    let moment = rule.moment(at(SECOND));
    let first = charged(&rule, 0, SECOND, 5);
    let second = charged(&rule, rule.forgive(first, moment), SECOND, 2);
    let taken = Taken { charged: first, since: moment, cost: 5 };
    assert_eq!(rule.refund(second, taken, moment, Order::Kept), None);
}

#[test]
fn a_quota_tells_its_largest_cost_and_whether_it_is_a_queue() {
    let told = |quota: Quota| (quota.limit(), quota.is_queue());
    assert_eq!(told(TokenBucket::new(ten()).burst(30).into()), (30, false));
    assert_eq!(told(LeakyBucket::meter(ten()).capacity(20).into()), (20, false));
    assert_eq!(told(LeakyBucket::queue(ten()).into()), (10, true));
    assert_eq!(told(SlidingLog::new(ten()).into()), (10, false));
}
