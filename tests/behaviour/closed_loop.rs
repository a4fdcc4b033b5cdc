//! Clients that each wait for their answer before they ask again, while requests come back in any
//! order.
//!
//! What comes back must not add up to a lock-out. And the requests that stay charged must be
//! requests that a fresh limiter admits, one by one, at their arrivals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tollgate::{LeakyBucket, Limiter, ManualClock, Quota, Rate, Receipt, SlidingLog, Timestamp, TokenBucket};
use tollgate_testing::random::Random;

/// What the clients of one key do.
struct Loop {
    quota: Quota,
    clients: usize,
    /// What a request is charged when it arrives.
    cost: u64,
    /// What stays charged of one in so many requests, and of the others.
    settled: (u64, u64),
    one_in: u32,
    /// How long a request takes.
    lasts: Duration,
    /// How long a client waits that was refused.
    retry: Duration,
    /// For how long clients ask.
    until: Duration,
    /// While one request of theirs comes back, so many pairs of requests of other keys do, each out
    /// of order.
    others: u32,
}

/// What became of it.
#[derive(Debug)]
struct Outcome {
    admitted: u64,
    refused: u64,
    /// Units that the limiter says may be lost.
    short: u64,
}

enum Event {
    Ask,
    /// The request of this number ends.
    End(Receipt, usize),
}

impl Loop {
    fn run(&self) -> Outcome {
        let clock = ManualClock::new();
        let builder = Limiter::builder(self.quota).per::<u64>().max_keys(2 * KEYS as usize);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        let mut random = Random::with_seed(7);
        let (mut events, mut queue, mut outcome) =
            (Vec::new(), BinaryHeap::new(), Outcome { admitted: 0, refused: 0, short: 0 });
        let mut charged = Vec::new();
        let push = |queue: &mut BinaryHeap<_>, events: &mut Vec<_>, at: u64, event| {
            queue.push(Reverse((at, events.len())));
            events.push(Some(event));
        };
        for _ in 0..self.clients {
            push(&mut queue, &mut events, random.u64(..self.lasts.as_nanos() as u64), Event::Ask);
        }
        while let Some(Reverse((now, number))) = queue.pop() {
            if now > self.until.as_nanos() as u64 {
                break;
            }
            clock.set(Timestamp::from_nanos(now));
            match events[number].take().expect("an event happens once") {
                Event::Ask => {
                    let decision = limiter.check_n(1, self.cost);
                    // Some five in a hundred more or less.
                    let jittered = |random: &mut Random, lasts: u64| lasts / 20 * random.u64(19..=21);
                    if decision.is_allowed() {
                        outcome.admitted += 1;
                        let end = now + jittered(&mut random, self.lasts.as_nanos() as u64);
                        charged.push((now, self.cost));
                        let event = Event::End(decision.receipt(), charged.len() - 1);
                        push(&mut queue, &mut events, end, event);
                    } else {
                        outcome.refused += 1;
                        let again = now + jittered(&mut random, self.retry.as_nanos() as u64);
                        push(&mut queue, &mut events, again, Event::Ask);
                    }
                }
                Event::End(mut receipt, charge) => {
                    for _ in 0..self.others {
                        let key = random.u64(2..KEYS);
                        let (first, second) = (limiter.check(key), limiter.check(key));
                        limiter.refund(first);
                        limiter.refund(second);
                    }
                    let stays = if random.u32(..self.one_in) == 0 { self.settled.0 } else { self.settled.1 };
                    limiter.refund_part(&mut receipt, self.cost - stays);
                    charged[charge].1 = stays;
                    push(&mut queue, &mut events, now, Event::Ask);
                }
            }
        }
        self.is_within_the_limit(&charged);
        outcome.short = limiter.stats().refunds_short;
        outcome
    }

    /// Whether a fresh limiter admits all that stayed charged, each at its arrival.
    fn is_within_the_limit(&self, charged: &[(u64, u64)]) {
        let clock = ManualClock::new();
        let fresh = Limiter::builder(self.quota).per::<u64>().clock(clock.clone()).build().unwrap();
        for &(at, units) in charged.iter().filter(|(_, units)| *units > 0) {
            clock.set(Timestamp::from_nanos(at));
            assert!(fresh.check_n(1, units).is_allowed(), "{units} units too many at {at} ns");
        }
    }
}

/// The keys from 2 on are others'.
const KEYS: u64 = 10_000;

const SECOND: Duration = Duration::from_secs(1);

const HUNDRED_A_MINUTE: TokenBucket = TokenBucket::new(Rate::per_minute(100));

/// Requests of 50 ms for 200 seconds, of which nothing stays charged.
fn all_come_back(quota: impl Into<Quota>, clients: usize) -> Loop {
    let (lasts, until) = (Duration::from_millis(50), Duration::from_secs(200));
    let (quota, retry) = (quota.into(), SECOND);
    Loop { quota, clients, cost: 1, settled: (0, 0), one_in: 1, lasts, retry, until, others: 0 }
}

#[test]
fn requests_that_all_come_back_lock_no_one_out() {
    for quota in [Quota::from(HUNDRED_A_MINUTE), LeakyBucket::meter(Rate::per_minute(100)).into()] {
        for clients in [1, 2, 5, 20, 50] {
            let outcome = all_come_back(quota, clients).run();
            assert_eq!(outcome.refused, 0, "{clients} clients: {outcome:?}");
            assert!(outcome.admitted > clients as u64 * 3_900, "{clients} clients: {outcome:?}");
        }
    }
}

/// Keys share a mark, which remembers few of them. Those of an attacker make it forget the ones
/// that are idle, and not a key whose requests come back all the time.
#[test]
fn other_keys_refunds_lock_no_one_out() {
    let outcome = Loop { until: 20 * SECOND, others: 100, ..all_come_back(HUNDRED_A_MINUTE, 20) }.run();
    assert_eq!(outcome.refused, 0, "{outcome:?}");
    assert!(outcome.admitted > 20 * 390, "{outcome:?}");
}

/// As many requests at once as the bucket holds: the exact rule admits some 400,000.
#[test]
fn a_full_bucket_of_requests_that_come_back_admits_most() {
    let outcome = all_come_back(HUNDRED_A_MINUTE, 100).run();
    assert!(outcome.admitted >= 320_000, "{outcome:?}");
}

/// Sixty thousand tokens a minute; requests estimated at four thousand that use five hundred. The
/// exact rule admits 3,031.
#[test]
fn token_budgets_get_back_what_was_not_used() {
    let quota = TokenBucket::new(Rate::per_minute(60_000));
    let (lasts, until) = (Duration::from_secs(10), Duration::from_secs(1_800));
    let (settled, retry) = ((500, 500), 2 * SECOND);
    let outcome = Loop { cost: 4_000, settled, lasts, retry, until, ..all_come_back(quota, 20) }.run();
    assert!(outcome.admitted >= 2_800, "{outcome:?}");
}

/// Ten a second, requests of two seconds of which one in five stays charged.
#[test]
fn long_requests_keep_the_rate() {
    let quota = TokenBucket::new(Rate::per_second(10));
    let (lasts, until) = (Duration::from_secs(2), Duration::from_secs(600));
    let outcome = Loop { settled: (1, 0), one_in: 5, lasts, until, ..all_come_back(quota, 20) }.run();
    assert!(outcome.admitted >= 5_990, "{outcome:?}");
}

/// One in ten stays charged, so that the limit is reached: all that refunds do not give back is
/// known.
#[test]
fn what_refunds_may_lose_is_counted() {
    let run = |quota: Quota| {
        Loop { settled: (1, 0), one_in: 10, until: 20 * SECOND, ..all_come_back(quota, 20) }.run()
    };
    assert_eq!(all_come_back(HUNDRED_A_MINUTE, 1).run().short, 0);
    let log = run(SlidingLog::new(Rate::per_minute(100)).into());
    assert!(log.short >= log.refused / 20, "a log gives back the newest only: {log:?}");
    let bucket = run(HUNDRED_A_MINUTE.into());
    assert!(bucket.short < log.short, "{bucket:?} {log:?}");
}
