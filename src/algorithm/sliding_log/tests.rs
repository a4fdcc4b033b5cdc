//! The log: stalled proposals, the expiry of its word, and the times that a save writes.

use std::time::Duration;

use super::*;
use crate::sync::AtomicU64;

const PERIOD: u64 = 1_000;

fn log(limit: u64, period: u64, count: CountPolicy) -> Result<LogRule, BuildError> {
    let quota = SlidingLog::new(Rate::new(limit, Duration::from_nanos(period))).count(count);
    Ok(SlidingLog::compile(&[quota], 0)?.remove(0))
}

/// At most two in any thousand nanoseconds, and a ring.
fn two(count: CountPolicy) -> (LogRule, [AtomicU64; 2]) {
    (log(2, PERIOD, count).unwrap(), [AtomicU64::new(0), AtomicU64::new(0)])
}

fn at(tick: u64) -> Moment {
    Moment { tick, elapsed: 0 }
}

/// Proposes a request of cost 1. Returns the word that it would leave if it won.
fn proposed(rule: &LogRule, payload: Payload, ring: Ring<'_>, now: u64) -> Option<Payload> {
    let Verdict::Allow(charged) = rule.decide(payload, ring, at(now), 1) else { return None };
    assert!(rule.stage(payload.stored(), ring, at(now), 1, || true));
    Some(charged)
}

#[test]
fn a_request_over_a_proposal_counts_at_its_time() {
    let (rule, entries) = two(CountPolicy::Allowed);
    let ring = Ring::new(&entries);
    let full = (0..2).fold(Payload(0), |payload, _| proposed(&rule, payload, ring, 500).unwrap());
    assert_eq!(proposed(&rule, full, ring, 500 + PERIOD - 1), None);
    // A thread proposes after the times have left, and stalls. Another thread, whose clock is
    // earlier, finds the proposal.
    let later = 500 + 3 * PERIOD;
    proposed(&rule, full, ring, later).unwrap();
    let charged = proposed(&rule, full, ring, 500 + PERIOD - 1).unwrap();
    assert!(
        !rule.expired(charged, at(later + PERIOD - 1)),
        "its time is in the ring, so the slot is the key's"
    );
    assert!(rule.expired(charged, at(later + 2 * PERIOD)));
}

#[test]
fn a_time_won_during_a_reset_counts() {
    let (rule, entries) = two(CountPolicy::Allowed);
    let ring = Ring::new(&entries);
    let seen = proposed(&rule, Payload(0), ring, 500).unwrap();
    // An insertion that is about to win the slot has proposed a time when a reset clears the last
    // owner.
    let won = proposed(&rule, seen, ring, 700).unwrap();
    assert!(rule.erase(seen.stored(), ring, || true));
    let full = proposed(&rule, won, ring, 701).expect("what was before is forgiven");
    assert_eq!(proposed(&rule, full, ring, 702), None, "what was won is not");
}

/// A refused request that counts is proposed over a time that is still inside: it only needs the
/// place.
#[test]
fn a_proposal_tells_whether_the_entry_below_had_left() {
    for (now, had_left) in [(500 + PERIOD - 1, false), (500 + PERIOD, true)] {
        let (rule, entries) = two(CountPolicy::All);
        let ring = Ring::new(&entries);
        let full = (0..2).fold(Payload(0), |payload, _| proposed(&rule, payload, ring, 500).unwrap());
        // Two threads propose, and stall before they win. The second raises the time of the first.
        assert!(
            rule.stage(full.stored(), ring, at(now), 1, || true)
                && rule.stage(full.stored(), ring, at(now + 1), 1, || true)
        );
        let admitted = matches!(rule.decide(full, ring, at(now + 1), 1), Verdict::Allow(_));
        assert_eq!(admitted, had_left, "at {now}");
    }
}

/// A thread that read the word a lap or a reset ago must not win the slot by what it saw then.
#[test]
fn a_log_that_comes_round_has_another_word() {
    let (rule, entries) = two(CountPolicy::All);
    let (ring, now) = (Ring::new(&entries), at(500));
    let mut payload = Payload(0);
    let mut words = std::collections::HashSet::new();
    for epoch in 0..100 {
        let earlier = words.clone();
        for _ in 0..=epoch % 11 {
            assert!(words.insert(payload.bits()), "{payload:?} comes back");
            let (Verdict::Allow(next) | Verdict::DenyAndCount(next)) = rule.decide(payload, ring, now, 1)
            else {
                panic!("every request is logged")
            };
            assert!(rule.stage(payload.stored(), ring, now, 1, || true));
            assert_eq!(rule.head.get(rule.less(next, 1).0), rule.head.get(payload.0));
            payload = next;
        }
        words.insert(payload.bits());
        // A credit brings a word back, but none from before the last reset.
        if let Some(given) = rule.credit(payload, ring, now, 1) {
            assert!(!earlier.contains(&given.payload.bits()), "{payload:?} comes back by a credit");
            payload = given.payload;
        }
        payload = rule.forgive(payload, now);
        assert!(rule.expired(payload, now) && rule.erase(payload.stored(), ring, || true));
    }
}

#[test]
fn only_won_times_inside_the_window_are_saved() {
    let (rule, entries) = two(CountPolicy::Allowed);
    let ring = Ring::new(&entries);
    let full =
        [500, 900].into_iter().fold(Payload(0), |payload, now| proposed(&rule, payload, ring, now).unwrap());
    let times = |now| {
        let mut times = Vec::new();
        rule.times(full.stored(), ring, at(now), &mut times);
        times
    };
    assert_eq!(times(500 + PERIOD - 1), [900, 500]);
    assert_eq!(times(500 + PERIOD), [900]);
    proposed(&rule, full, ring, 500 + PERIOD).unwrap();
    assert_eq!(times(500 + PERIOD), [900], "a proposal over the other time has not won yet");
    assert!(times(900 + PERIOD).is_empty());
}

/// Twenty years in steps. A step is a nanosecond, and doubles with every bit of the head beyond the
/// first.
#[test]
fn the_shortest_period_of_a_log_is_one_step() {
    for (limit, shortest) in
        [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (10, 16), (17, 32), (LONGEST_RING, 1 << 24)]
    {
        let rule = log(limit, shortest, CountPolicy::Allowed).unwrap();
        assert_eq!(1 << rule.step, shortest, "{limit}");
        assert!(rule.end >= 2 * UPTIME, "{limit}");
        assert!(shortest == 1 || log(limit, shortest - 1, CountPolicy::Allowed).is_err(), "{limit}");
    }
}

#[test]
fn a_log_forgets_nothing_once_its_time_has_ended() {
    for (limit, period) in [(1, 1), (10, 16), (LONGEST_RING, 1 << 24)] {
        let rule = log(limit, period, CountPolicy::Allowed).unwrap();
        let end = rule.moment(Timestamp::from_nanos(u64::MAX));
        let charged = rule.logged(Payload(0), LogState { head: 0, now: end.tick }, 1);
        assert!(!rule.expired(charged, end), "{rule:?}");
    }
}

#[test]
fn a_rewritten_log_expires_after_its_newest_time() {
    let (rule, entries) = (log(10, 1_000, CountPolicy::Allowed).unwrap(), [const { AtomicU64::new(0) }; 10]);
    for newest in [7, 1_234] {
        let payload = rule.log(Payload(0), Ring::new(&entries), &[newest, 3]);
        assert!(!rule.expired(payload, at(newest + PERIOD - 1)));
        assert!(rule.expired(payload, at(newest + PERIOD + (1 << rule.step))));
        assert_eq!(rule.head.get(payload.0), 2);
    }
}

#[test]
fn a_refused_lease_of_a_log_is_not_counted() {
    let (rule, entries) = two(CountPolicy::All);
    let ring = Ring::new(&entries);
    let full = (0..2).fold(Payload(0), |payload, _| proposed(&rule, payload, ring, 500).unwrap());
    assert!(matches!(rule.decide(full, ring, at(501), 1), Verdict::DenyAndCount(_)));
    let ahead = rule.ahead().expect("no queue");
    assert_eq!(ahead.decide(full, ring, at(501), 1), Verdict::Deny(full));
}

/// A request whose units straddle the end of the ring, and are given back in parts: each that is
/// left stays in the window for a whole period.
#[test]
fn what_is_left_of_a_request_over_a_lap_stays() {
    for (limit, period) in [(3, 8), (10, 64), (17, 320)] {
        let rule = log(limit, period, CountPolicy::Allowed).unwrap();
        let entries: Vec<_> = (0..limit).map(|_| AtomicU64::new(0)).collect();
        let (ring, step) = (Ring::new(&entries), 1 << rule.step);
        let log = |payload: Payload, now: u64, cost: u64| {
            let Verdict::Allow(charged) = rule.decide(payload, ring, at(now), cost) else { panic!("{cost}") };
            assert!(rule.stage(payload.stored(), ring, at(now), cost, || true));
            charged
        };
        // All but two units of two laps.
        let first = (0..2 * limit - 2).fold(Payload(0), |payload, nth| log(payload, nth * period, 1));
        let now = (2 * limit * period).next_multiple_of(step) + step - 1;
        for cost in 2..=limit {
            let charged = log(first, now, cost);
            for back in 1..=cost {
                let taken = Taken { charged, since: at(now), cost: back };
                let refunded = rule.refund(charged, taken, at(now), RefundOrder::Kept).unwrap().payload;
                let credited = rule.credit(charged, ring, at(now), back).unwrap().payload;
                assert_eq!(refunded, credited);
                let is_kept = !rule.expired(refunded, at(now + period - 1));
                assert!(back == cost || is_kept, "{back} of {cost} came back, of {limit} in {period}");
                // Nor for much longer: whatever was charged and given back.
                assert!(rule.expired(refunded, at(now + period + 2 * step)));
            }
        }
    }
}

/// Charged and given back at the end of the ring again and again, a log is not held for longer.
#[test]
fn refunds_over_a_lap_hold_no_log_longer() {
    let rule = log(10, 64, CountPolicy::Allowed).unwrap();
    let entries: Vec<_> = (0..10).map(|_| AtomicU64::new(0)).collect();
    let (ring, step) = (Ring::new(&entries), 1 << rule.step);
    let mut payload =
        (0..18).fold(Payload(0), |payload, nth| proposed(&rule, payload, ring, nth * 64).unwrap());
    let now = 18 * 64;
    for _ in 0..100 {
        let Verdict::Allow(charged) = rule.decide(payload, ring, at(now), 5) else { panic!("there is room") };
        assert!(rule.stage(payload.stored(), ring, at(now), 5, || true));
        let taken = |charged, cost| Taken { charged, since: at(now), cost };
        let part = rule.refund(charged, taken(charged, 2), at(now), RefundOrder::Kept).unwrap().payload;
        payload = rule.refund(part, taken(part, 3), at(now), RefundOrder::Kept).unwrap().payload;
        assert_eq!(rule.head.get(payload.0), 18);
    }
    assert!(rule.expired(payload, at(now + 64 + 2 * step)));
}
