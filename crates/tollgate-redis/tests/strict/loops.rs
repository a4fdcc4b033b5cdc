//! Clients that ask again as soon as they are answered, and give back what is not charged.
//!
//! Time is the test's. What the store admits is compared with a limiter that knows every outcome,
//! and the requests that stayed charged are decided once more, each at its arrival.
//!
//! `TOLLGATE_REDIS_LOOPS=full` runs each case for its whole time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate::{Rate, TokenBucket};
use tollgate_redis::{Limiter, Receipt};
use tollgate_testing::marked::Counterfactual;
use tollgate_testing::random::Random;

use crate::Clock;
use crate::directed::{NOW, SECOND, on_each_store};

/// A closed loop.
#[derive(Clone, Copy)]
struct Case {
    quota: TokenBucket,
    /// What a token and a microsecond are in grains.
    grains: (u64, u64),
    burst: u64,
    clients: usize,
    seconds: u64,
    /// What each request costs at first, and what of it a request that stays charged costs.
    costs: (u64, u64),
    /// Of 100 requests, how many stay charged.
    charged: u64,
    /// Microseconds that a request lasts, that a client thinks, and that it waits when refused. It
    /// thinks for one at least: a charge in the very microsecond of a refund counts as before it.
    times: (u64, u64, u64),
}

/// What came of it.
#[derive(Debug, Default, PartialEq)]
struct Came {
    admitted: u64,
    refused: u64,
    /// The times and costs of the requests that stayed charged.
    charged: Vec<(u64, u64)>,
}

/// Who decides.
enum Judge<'a> {
    Store(&'a Limiter, &'a Clock),
    Exact(Counterfactual),
}

enum Admitted {
    Receipt(Receipt),
    Number(usize),
}

impl Judge<'_> {
    async fn check(&mut self, case: &Case, now: u64) -> Option<Admitted> {
        let (token, _) = case.grains;
        match self {
            Self::Store(limiter, clock) => {
                clock.set(now);
                let answer = limiter.check_n("k", case.costs.0).await.expect("the store answers");
                answer.into_receipt().map(Admitted::Receipt)
            }
            Self::Exact(truth) => {
                let need = i128::from(case.costs.0 * token);
                let fits = truth.debt(now) + need <= i128::from(case.burst * token);
                fits.then(|| Admitted::Number(truth.charge(now, need)))
            }
        }
    }

    async fn end(&mut self, case: &Case, now: u64, admitted: Admitted, back: u64) {
        match (self, admitted) {
            (Self::Store(limiter, clock), Admitted::Receipt(mut receipt)) => {
                clock.set(now);
                let _ = limiter.refund_part(&mut receipt, back).await.expect("the store answers");
            }
            (Self::Exact(truth), Admitted::Number(number)) => {
                truth.give_back(number, i128::from(back * case.grains.0));
                truth.settle(number);
            }
            _ => unreachable!("each judge has its own"),
        }
    }
}

/// By a fifth more or less.
fn about(random: &mut Random, micros: u64) -> u64 {
    random.u64(micros - micros / 5..=micros + micros / 5)
}

impl Case {
    async fn run(&self, mut judge: Judge<'_>) -> Came {
        let (lasts, thinks, waits) = self.times;
        let mut randoms: Vec<_> = (0..self.clients as u64).map(Random::with_seed).collect();
        let mut events = BinaryHeap::new();
        for (client, random) in randoms.iter_mut().enumerate() {
            events.push(Reverse((NOW + random.u64(..=lasts), client)));
        }
        let mut under_way: Vec<Option<(Admitted, usize)>> = (0..self.clients).map(|_| None).collect();
        let mut came = Came::default();
        while let Some(Reverse((now, client))) = events.pop() {
            if now > NOW + self.seconds * SECOND {
                break;
            }
            let random = &mut randoms[client];
            let pause = if let Some((admitted, number)) = under_way[client].take() {
                let stays = if random.u64(..100) < self.charged { self.costs.1 } else { 0 };
                judge.end(self, now, admitted, self.costs.0 - stays).await;
                came.charged[number].1 = stays;
                about(random, thinks)
            } else if let Some(admitted) = judge.check(self, now).await {
                under_way[client] = Some((admitted, came.charged.len()));
                came.charged.push((now, self.costs.0));
                came.admitted += 1;
                about(random, lasts)
            } else {
                came.refused += 1;
                about(random, waits)
            };
            events.push(Reverse((now + pause, client)));
        }
        came.charged.retain(|&(_, cost)| cost > 0);
        came
    }
}

/// Runs a case by each store and by the limiter that knows every outcome, and hands both to the
/// test: the store's first.
fn compare(case: Case, test: impl Fn(&Came, &Came)) {
    on_each_store(|_, redis, clock| {
        let test = &test;
        async move {
            let limiter = redis.limiter("l", [case.quota]).build().unwrap();
            let store = case.run(Judge::Store(&limiter, &clock)).await;
            let exact = case.run(Judge::Exact(Counterfactual::new(case.grains.1))).await;
            println!(
                "{} clients: {} admitted and {} refused, {} stay charged; knowing all: {} and {}, {}",
                case.clients,
                store.admitted,
                store.refused,
                store.charged.len(),
                exact.admitted,
                exact.refused,
                exact.charged.len()
            );
            let again = redis.limiter("again", [case.quota]).build().unwrap();
            for &(at, cost) in &store.charged {
                clock.set(at);
                let answer = again.check_n("k", cost).await.expect("the store answers");
                assert!(answer.is_allowed(), "above the limit by arrivals at {at}");
            }
            test(&store, &exact);
        }
    });
}

/// The seconds of a case, or fewer.
fn seconds(full: u64, fewer: u64) -> u64 {
    if std::env::var("TOLLGATE_REDIS_LOOPS").is_ok_and(|loops| loops == "full") { full } else { fewer }
}

fn all_succeed(clients: usize, seconds: u64) -> Case {
    Case {
        quota: TokenBucket::new(Rate::per_minute(100)),
        grains: (600_000, 1),
        burst: 100,
        clients,
        seconds,
        costs: (1, 1),
        charged: 0,
        times: (50_000, 1, SECOND),
    }
}

/// 100 a minute of which none stays charged, 50 ms each.
#[test]
fn requests_that_are_given_back_lock_nobody_out() {
    compare(all_succeed(20, seconds(200, 20)), |store, exact| {
        assert_eq!(store, exact);
        assert!(store.refused == 0 && store.admitted >= 400 * seconds(200, 20) * 99 / 100, "{store:?}");
    });
}

#[test]
fn as_many_clients_as_the_burst_keep_most_of_it() {
    compare(all_succeed(100, seconds(200, 5)), |store, exact| {
        assert!(store.admitted * 100 >= exact.admitted * 80, "{} of {}", store.admitted, exact.admitted);
    });
}

/// 60,000 tokens a minute; each answer was estimated at 4,000 and has 500.
#[test]
fn estimates_of_tokens_come_back() {
    let case = Case {
        quota: TokenBucket::new(Rate::per_minute(60_000)),
        grains: (1_000, 1),
        burst: 60_000,
        clients: 20,
        seconds: 1_800,
        costs: (4_000, 500),
        charged: 100,
        times: (10 * SECOND, 1, 2 * SECOND),
    };
    compare(case, |store, exact| {
        assert!(store.admitted >= 2_800, "{} of {}", store.admitted, exact.admitted);
    });
}

/// 10 a second that last 2 seconds, of which one in five stays charged.
#[test]
fn long_requests_use_the_whole_rate() {
    let case = Case {
        quota: TokenBucket::new(Rate::per_second(10)),
        grains: (100_000, 1),
        burst: 10,
        clients: 20,
        seconds: 600,
        costs: (1, 1),
        charged: 20,
        times: (2 * SECOND, 1, SECOND),
    };
    compare(case, |store, exact| {
        assert!(store.admitted >= 5_990, "{} of {}", store.admitted, exact.admitted);
    });
}

/// 100 a minute, of which those that fail reach the limit.
#[test]
fn failures_reach_the_limit_and_never_pass_it() {
    let case = Case { charged: 10, times: (50_000, 200_000, SECOND), ..all_succeed(20, 200) };
    compare(case, |store, exact| {
        let [charged, most] = [store, exact].map(|came| came.charged.len());
        assert!(charged * 100 >= most * 95 && charged <= 100 + 100 * 200 / 60, "{charged} of {most}");
    });
}

/// 60 a minute that last 30 seconds, of which half stay charged.
#[test]
fn very_long_requests_never_pass_the_limit() {
    let case = Case {
        quota: TokenBucket::new(Rate::per_minute(60)),
        grains: (SECOND, 1),
        burst: 60,
        clients: 60,
        seconds: 1_800,
        costs: (1, 1),
        charged: 50,
        times: (30 * SECOND, 1, 2 * SECOND),
    };
    compare(case, |store, exact| {
        assert!(store.admitted * 100 >= exact.admitted * 95, "{} of {}", store.admitted, exact.admitted);
    });
}
