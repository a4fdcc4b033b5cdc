//! What buckets give back, held to the debt of the requests that remain, each at its arrival.

use std::time::Duration;

use tollgate::{Outcome, Rate, TokenBucket};
use tollgate_redis::{Limiter, Receipt};
use tollgate_testing::marked::{Charged, Counterfactual, MARKS, MarkedBucket};
use tollgate_testing::random::Random;
use tollgate_testing::stores::{Server, Store};

use crate::directed::{NOW, SECOND, admitted, on_each_store};
use crate::{Clock, run};

const KEY: &str = "tg1:{k:k}:l:b";

/// The steps in the tail of the key's value.
fn steps(server: &Server) -> Vec<String> {
    server.ask::<String>(&["GET", KEY]).split(';').skip(1).map(str::to_owned).collect()
}

/// The time of the last refund out of order.
fn mark(server: &Server) -> u64 {
    let value: String = server.ask(&["GET", KEY]);
    value.split([' ', ';']).nth(3).map_or(0, |mark| mark.parse().expect("a time"))
}

/// Charges and gives back out of order until the key has this many steps.
async fn with_steps(limiter: &Limiter, server: &Server, clock: &Clock, count: usize) -> Receipt {
    let first = admitted(limiter, "k", 1).await;
    let mut now = NOW;
    while steps(server).len() < count {
        let (early, _late) = (admitted(limiter, "k", 1).await, admitted(limiter, "k", 1).await);
        now += 1_000;
        clock.set(now);
        assert_eq!(limiter.refund(early).await, Ok(1));
    }
    first
}

/// A bucket in the store, one of the same rule here, and the requests that remain.
struct Held<'a> {
    limiter: &'a Limiter,
    clock: &'a Clock,
    key: String,
    now: u64,
    bucket: MarkedBucket,
    truth: Counterfactual,
    requests: Vec<Request>,
}

struct Request {
    receipt: Receipt,
    charged: Charged,
    number: usize,
}

impl Held<'_> {
    async fn charge(&mut self, cost: u64) {
        self.clock.set(self.now);
        let answer = self.limiter.check_n(&self.key, cost).await.expect("the store answers");
        let fits = self.bucket.debt(self.now) + i128::from(cost) <= 12;
        assert_eq!(answer.is_allowed(), fits);
        if let Some(receipt) = answer.into_receipt() {
            let charged = self.bucket.charge(self.now, cost.into());
            let number = self.truth.charge(self.now, cost.into());
            self.requests.push(Request { receipt, charged, number });
        }
    }

    async fn refund(&mut self, place: usize, units: u64) {
        self.clock.set(self.now);
        let Request { receipt, charged, number } = &mut self.requests[place];
        let back = self.limiter.refund_part(receipt, units).await.expect("the store answers");
        assert_eq!(i128::from(back), self.bucket.refund(charged, self.now, units.into(), 12));
        self.truth.give_back(*number, units.into());
    }

    /// Compares the debts; returns by how much the store's is above the truth.
    async fn excess(&self) -> i128 {
        self.clock.set(self.now);
        let answer = self.limiter.peek(&self.key, 0).await.expect("the store answers");
        let debt = answer.reset_after().as_micros() as i128;
        assert_eq!(debt, self.bucket.debt(self.now), "{} at {}", self.key, self.now);
        let excess = debt - self.truth.debt(self.now);
        assert!(excess >= 0, "{excess} below the requests that remain: {} at {}", self.key, self.now);
        excess
    }
}

/// One unit a microsecond, so that a reset tells the debt.
#[test]
fn no_refund_gives_back_what_a_remaining_request_owes() {
    on_each_store(|_, redis, clock| async move {
        let quota = TokenBucket::new(Rate::per_second(1_000_000)).burst(12);
        let limiter = redis.limiter("l", [quota]).build().unwrap();
        let (mut refunds, mut whole) = (0, 0);
        for seed in 0..150 {
            let mut random = Random::with_seed(seed);
            let mut held = Held {
                limiter: &limiter,
                clock: &clock,
                key: format!("key {seed}"),
                now: NOW,
                bucket: MarkedBucket::new(1, MARKS),
                truth: Counterfactual::new(1),
                requests: Vec::new(),
            };
            for _ in 0..60 {
                match random.u64(..10) {
                    0..=2 => held.now += 1,
                    3..=5 => held.charge(random.u64(1..=3)).await,
                    _ if held.requests.is_empty() => {}
                    _ => {
                        let last = held.requests.len() - 1;
                        let place = match random.bool() {
                            true => last.saturating_sub(random.usize(..4)),
                            false => random.usize(..=last),
                        };
                        let left = held.requests[place].receipt.cost();
                        if left > 0 {
                            held.refund(place, random.u64(1..=left)).await;
                            refunds += 1;
                            whole += u64::from(held.excess().await == 0);
                        }
                    }
                }
            }
        }
        println!("{refunds} refunds, after {whole} of which the debt was that of the requests that remain");
        assert!(refunds > 2_000 && whole * 2 > refunds, "{whole} of {refunds}");
    });
}

/// Of 60 a minute, 40 were charged at once. What is lost is what time won back meanwhile.
#[test]
fn requests_charged_at_once_come_back_oldest_first() {
    on_each_store(|_, redis, clock| async move {
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_minute(60))]).build().unwrap();
        let mut receipts = Vec::new();
        for _ in 0..40 {
            receipts.push(admitted(&limiter, "k", 1).await);
        }
        clock.set(NOW + 2 * SECOND);
        for receipt in receipts {
            let _ = limiter.refund(receipt).await.expect("the store answers");
        }
        assert_eq!(limiter.peek("k", 0).await.unwrap().remaining(), 60);
    });
}

#[test]
fn a_charge_keeps_what_refunds_noted() {
    on_each_store(|server, redis, clock| async move {
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_minute(100))]).build().unwrap();
        let first = with_steps(&limiter, &server, &clock, 3).await;
        let noted = (steps(&server), mark(&server));
        let other = redis.limiter("l", [TokenBucket::new(Rate::per_minute(100))]).build().unwrap();
        let _ = admitted(&other, "k", 2).await;
        assert_eq!((steps(&server), mark(&server)), noted, "a check");
        let _ = limiter.take("k", 2).await.unwrap();
        assert_eq!((steps(&server), mark(&server)), noted, "a take");
        assert_eq!(limiter.refund(first).await, Ok(1));
    });
}

#[test]
fn a_key_remembers_fifteen_refunds_in_700_bytes() {
    on_each_store(|server, redis, clock| async move {
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_minute(100))]).build().unwrap();
        let _ = with_steps(&limiter, &server, &clock, MARKS).await;
        let mut longest = 0;
        for seed in 0..40 {
            let mut random = Random::with_seed(seed);
            let (early, _late) = (admitted(&limiter, "k", 1).await, admitted(&limiter, "k", 1).await);
            clock.set(NOW + SECOND * (1 + seed) + random.u64(..SECOND));
            let _ = limiter.refund(early).await.unwrap();
            assert!(steps(&server).len() <= MARKS);
            longest = longest.max(server.ask::<usize>(&["STRLEN", KEY]));
        }
        println!("at most {longest} bytes");
        assert!((200..=700).contains(&longest), "{longest} bytes");
    });
}

#[test]
fn a_check_after_refunds_is_one_script() {
    on_each_store(|server, redis, clock| async move {
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_minute(100))]).build().unwrap();
        let _ = with_steps(&limiter, &server, &clock, 2).await;
        let calls = |command: &str| -> u64 {
            let stats: String = server.ask(&["INFO", "commandstats"]);
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
            line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
        };
        let before = ["evalsha", "get", "set"].map(calls);
        for _ in 0..10 {
            let _ = admitted(&limiter, "k", 1).await;
        }
        let after = ["evalsha", "get", "set"].map(calls);
        assert_eq!([0, 1, 2].map(|of| after[of] - before[of]), [10, 10, 10]);
    });
}

/// A value from before there were steps: of a request of 4 and one of 3, one unit came back.
#[test]
fn a_mark_of_an_old_value_counts() {
    on_each_store(|server, redis, clock| async move {
        // The second one's own debt is 2. The debt after it includes what came back of the first.
        for (m, back) in [(0, 3), (NOW, 2)] {
            let limiter =
                redis.limiter("l", [TokenBucket::new(Rate::per_second(1)).burst(10)]).build().unwrap();
            clock.set(NOW);
            let _ = server.ask::<i64>(&["DEL", KEY]);
            let (_, second) = (admitted(&limiter, "k", 4).await, admitted(&limiter, "k", 3).await);
            let [ends, until] = [6, 8].map(|second| NOW + second * SECOND);
            let _ = server.ask::<String>(&["SET", KEY, &format!("{ends} 0 1 {m} {until} 0 0")]);
            clock.set(NOW + SECOND);
            assert_eq!(limiter.refund(second).await, Ok(back), "{m}");
            assert_eq!((mark(&server), steps(&server).len()), (NOW + SECOND, 1), "{m}");
        }
    });
}

#[test]
fn another_rate_or_a_reservation_forgets_steps_only() {
    on_each_store(|server, redis, clock| async move {
        let quota = TokenBucket::new(Rate::per_minute(100));
        let limiter = redis.limiter("l", [quota]).build().unwrap();
        // 7 grains a microsecond, where the other gains one.
        let other = redis.limiter("l", [TokenBucket::new(Rate::new(7, Duration::from_micros(4_000_001)))]);
        let other = other.build().unwrap();
        for forgets in 0..4 {
            clock.set(NOW);
            let _ = server.ask::<i64>(&["DEL", KEY]);
            let first = with_steps(&limiter, &server, &clock, 3).await;
            let marked = mark(&server);
            match forgets {
                0 => drop(other.take("k", 1).await.expect("the store answers")),
                1 => drop(other.check("k").await.expect("the store answers")),
                2 => drop(limiter.reserve("k", 1, Duration::from_secs(1)).await.expect("a bucket")),
                _ => limiter.reset("k").await.expect("the store answers"),
            }
            assert_eq!(steps(&server), [""; 0], "{forgets}");
            assert_eq!(mark(&server), if forgets == 3 { 0 } else { marked }, "{forgets}");
            // Its own debt, and none where a reservation or a reset followed.
            assert_eq!(limiter.refund(first).await, Ok(if forgets < 2 { 1 } else { 0 }), "{forgets}");
        }
    });
}

/// The store is killed and reads its log again: steps and receipts are as before.
#[test]
fn what_refunds_noted_outlives_the_store() {
    for store in Store::ALL {
        let Some(mut server) = Server::start_with(store, &["--appendonly yes", "--appendfsync always"])
        else {
            continue;
        };
        run(async {
            let clock = Clock::default();
            clock.set(NOW);
            let redis = clock.connect(&server).await;
            let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_minute(100))]).build().unwrap();
            let first = with_steps(&limiter, &server, &clock, 3).await;
            let value: String = server.ask(&["GET", KEY]);
            server.kill();
            server.restart();
            assert_eq!(server.ask::<String>(&["GET", KEY]), value);
            while limiter.peek("k", 0).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(limiter.refund(first).await, Ok(1));
        });
    }
}

/// Each limit of a request keeps its own steps.
#[test]
fn each_of_two_limits_gives_back_its_own() {
    on_each_store(|_, redis, clock| async move {
        let quotas = [Rate::per_minute(100), Rate::per_hour(500)].map(TokenBucket::new);
        let limiter = redis.limiter("l", quotas).build().unwrap();
        let mut receipts = Vec::new();
        for _ in 0..10 {
            receipts.push(admitted(&limiter, "k", 1).await);
        }
        for (number, receipt) in receipts.into_iter().enumerate() {
            clock.set(NOW + 1_000 * number as u64);
            assert_eq!(limiter.refund(receipt).await, Ok(1));
        }
        let left = limiter.peek("k", 0).await.unwrap();
        assert_eq!([0, 1].map(|limit| left.limits()[limit].remaining), [100, 500]);
        assert_eq!(left.outcome(), Outcome::Allowed);
    });
}
