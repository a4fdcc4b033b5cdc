//! The properties of every rule that the table relies on.

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
    quotas.push(TokenBucket::new(rate).initial(3).by_intervals().into());
    for count in [CountPolicy::Allowed, CountPolicy::All] {
        quotas.push(FixedWindow::new(rate).count(count).into());
        quotas.push(FixedWindow::new(rate).count(count).from_first_hit().into());
        quotas.push(SlidingWindow::new(rate).count(count).into());
        quotas.push(SlidingWindow::new(rate).subwindows(4).count(count).into());
    }
    quotas.iter().map(rule).collect()
}

fn rule(quota: &Quota) -> AnyRule {
    Quota::compile(&[*quota], 0).expect("ten a second").remove(0)
}

/// Whether a refund or a reset may have the debt of a key end earlier.
fn is_bucket(rule: &AnyRule) -> bool {
    matches!(rule, AnyRule::Gcra(_))
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// The payload after `cost` was admitted at `now`.
fn charged(rule: &AnyRule, payload: Payload, now: u64, cost: u64) -> Payload {
    match rule.decide(payload, Ring::NONE, rule.moment(at(now)), cost) {
        Verdict::Allow(payload) => payload,
        verdict => panic!("{rule:?}: {verdict:?}"),
    }
}

#[test]
fn a_bumped_payload_is_larger_by_at_most_one_step() {
    for rule in rules() {
        let payload = charged(&rule, Payload(0), SECOND, 3);
        let (now, bumped) = (at(SECOND), rule.bump(payload));
        assert!(bumped > payload, "{rule:?}");
        let (left, less) =
            (rule.remaining(payload, Ring::NONE, now), rule.remaining(bumped, Ring::NONE, now));
        assert!(less <= left && less + 1 >= left, "{rule:?}: {left} and {less}");
    }
    let log = rule(&SlidingLog::new(ten()).into());
    let (mut newest, mut payload) = (Payload(0), Payload(0));
    for _ in 0..3 {
        payload = log.bump(payload);
        assert!(payload > newest);
        newest = payload;
    }
}

#[test]
fn a_forgiven_key_equals_a_key_never_seen() {
    for rule in rules() {
        let now = at(SECOND);
        let never_seen = rule.remaining(Payload(0), Ring::NONE, now);
        let payload = charged(&rule, Payload(0), SECOND, 10);
        let forgiven = rule.forgive(payload, rule.moment(now));
        assert_eq!(rule.remaining(forgiven, Ring::NONE, now), never_seen, "{rule:?}");
        assert!(!rule.is_in_debt(forgiven, rule.moment(now)), "{rule:?}");
        // A clock that stepped back still finds the window that the key has seen.
        let back = rule.forgive(payload, rule.moment(at(0)));
        // No key starts from a payload that an earlier owner of its slot began with: a charge in
        // flight would hit it.
        assert!(is_bucket(&rule) || back >= forgiven && forgiven > Payload(0), "{rule:?}");
    }
    let log = rule(&SlidingLog::new(ten()).into());
    let reset = log.forgive(Payload(3), log.moment(at(0)));
    assert_eq!(
        reset,
        log.bump(Payload(3)),
        "the head stays and the word rises, or a charge in flight would hit it"
    );
}

/// Also of a key that got back what it took, and under the quota of another tier.
#[test]
fn the_wait_for_a_slot_ends_when_it_is_vacant() {
    let tiers = [10, 0].map(|tokens| Quota::from(TokenBucket::new(ten()).initial(tokens)));
    let tiers = Quota::compile(&tiers, 0).expect("two tiers");
    let log = rule(&SlidingLog::new(ten()).into());
    let pairs = rules().into_iter().chain([log]).map(|rule| (rule, rule));
    let pairs: Vec<_> = pairs.chain([(tiers[0], tiers[1])]).collect();
    // In the first window and in another one.
    for ((owner, other), then) in
        pairs.into_iter().flat_map(|pair| [SECOND / 10, 3 * SECOND / 2].map(|then| (pair, then)))
    {
        let moment = owner.moment(at(then));
        let full = charged(&owner, Payload(0), then, 3);
        let refund = |cost| {
            owner.refund(full, Taken { charged: full, since: moment, cost }, moment, RefundOrder::Kept)
        };
        let lowered = [refund(1), refund(3)].into_iter().flatten().map(|refund| refund.payload);
        for payload in lowered.chain([full, owner.forgive(full, moment)]) {
            for now in [then, then + SECOND / 30, then + 3 * SECOND] {
                let is_vacant = |when| other.expired(payload, other.moment(at(when)));
                if is_vacant(now) {
                    continue;
                }
                let wait = other.vacant_after(payload, Ring::NONE, at(now));
                let ends = (is_vacant(now + wait - 1), is_vacant(now + wait));
                assert_eq!(ends, (false, true), "{other:?}: {payload:?} after {wait} at {now}");
            }
        }
    }
}

#[test]
fn a_slot_is_evictable_up_to_half_the_smallest_limit() {
    for quota in [
        [Quota::from(TokenBucket::new(ten())), TokenBucket::new(ten()).burst(100).into()],
        [LeakyBucket::meter(ten()).into(), LeakyBucket::meter(ten()).capacity(100).into()],
        [FixedWindow::new(ten()).into(), FixedWindow::new(Rate::per_second(100)).into()],
    ] {
        for rule in Quota::compile(&quota, 0).expect("two tiers") {
            let half = rule.inheritable(rule.moment(at(SECOND))).expect("payloads can be compared");
            let left = rule.remaining(half, Ring::NONE, at(SECOND));
            assert_eq!(left, rule.limit() - 5, "{rule:?}");
            assert!(
                charged(&rule, Payload(0), SECOND, 5) <= half && charged(&rule, Payload(0), SECOND, 6) > half
            );
        }
    }
    for quota in [
        Quota::from(SlidingWindow::new(ten())),
        SlidingLog::new(ten()).into(),
        FixedWindow::new(ten()).from_first_hit().into(),
    ] {
        let rule = rule(&quota);
        assert_eq!(rule.inheritable(rule.moment(at(SECOND))), None, "{rule:?}");
    }
}

#[test]
fn a_refused_lease_is_not_counted() {
    for quota in [
        Quota::from(FixedWindow::new(ten()).count(CountPolicy::All)),
        FixedWindow::new(ten()).count(CountPolicy::All).from_first_hit().into(),
        SlidingWindow::new(ten()).count(CountPolicy::All).into(),
        SlidingWindow::new(ten()).subwindows(4).count(CountPolicy::All).into(),
    ] {
        let rule = rule(&quota);
        let (payload, moment) = (charged(&rule, Payload(0), SECOND, 10), rule.moment(at(SECOND)));
        assert!(matches!(rule.decide(payload, Ring::NONE, moment, 1), Verdict::DenyAndCount(_)));
        let ahead = rule.ahead().expect("no queue");
        assert_eq!(ahead.decide(payload, Ring::NONE, moment, 1), Verdict::Deny(payload));
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
        let mut payload = charged(&rule, Payload(0), SECOND, 10);
        if let Quota::FixedWindow(_) = quota {
            // The field is too wide to count through.
            payload.0 += rule.resolution().ceiling - 35;
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
        let charged = charged(&rule, Payload(0), SECOND, 3);
        let taken = Taken { charged, since: rule.moment(at(SECOND)), cost: 3 };
        for later in [3, 20] {
            let refund = rule.refund(charged, taken, rule.moment(at(later * SECOND)), RefundOrder::Kept);
            assert_eq!(refund, None, "{rule:?}");
        }
        let refund = rule.refund(charged, taken, rule.moment(at(SECOND)), RefundOrder::Kept);
        assert_eq!(refund.map(|refund| refund.units), Some(3), "{rule:?}");
    }
}

/// The reset forgave the charge. The later debt belongs to another request.
#[test]
fn a_refund_after_a_reset_gives_back_nothing() {
    let rule = rule(&TokenBucket::new(ten()).into());
    let moment = rule.moment(at(SECOND));
    let first = charged(&rule, Payload(0), SECOND, 5);
    let second = charged(&rule, rule.forgive(first, moment), SECOND, 2);
    let taken = Taken { charged: first, since: moment, cost: 5 };
    assert_eq!(rule.refund(second, taken, moment, RefundOrder::Kept), None);
}

#[test]
fn a_quota_tells_its_limit_and_whether_it_queues() {
    let told = |quota: Quota| (quota.limit(), quota.is_queue());
    assert_eq!(told(TokenBucket::new(ten()).burst(30).into()), (30, false));
    assert_eq!(told(LeakyBucket::meter(ten()).capacity(20).into()), (20, false));
    assert_eq!(told(LeakyBucket::queue(ten()).into()), (10, true));
    assert_eq!(told(SlidingLog::new(ten()).into()), (10, false));
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
                assert_eq!(rule.carry(0, &rule, shift), Payload(0), "{rule:?} {shift:?}");
            }
        }
    }
}

#[test]
fn only_token_buckets_and_meters_need_the_refund_order() {
    for rule in rules() {
        let (first, moment) = (charged(&rule, Payload(0), SECOND, 3), rule.moment(at(SECOND)));
        let (second, taken) =
            (charged(&rule, first, SECOND, 2), Taken { charged: first, since: moment, cost: 3 });
        let needs = is_bucket(&rule) && !rule.is_queue();
        assert_eq!(rule.needs_order(), needs, "{rule:?}");
        if !needs {
            let [kept, lost, booked] =
                [RefundOrder::Kept, RefundOrder::Lost { least: 0 }, RefundOrder::LostAndBooked]
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
    let resumed = saved.resuming(&saved, restart);
    let payload = resumed.carry(charged(&saved, Payload(0), SECOND, 5).0, &saved, restart);
    for (payload, left) in [(Payload(0), 10), (payload, 5)] {
        assert_eq!(resumed.remaining(payload, Ring::NONE, at(0)), left);
        assert_eq!(resumed.expired(payload, resumed.moment(at(0))), left == 10);
    }
}
