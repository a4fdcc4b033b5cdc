//! What random histories rarely meet.

use std::rc::Rc;
use std::time::Duration;

use tollgate::{FixedWindow, LeakyBucket, Outcome, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};
use tollgate_redis::{Answer, Limiter, Receipt, Redis};
use tollgate_rules::{Backend, StoreReply};
use tollgate_testing::stores::{Server, Store};

use crate::{Clock, run};

pub(crate) const NOW: u64 = 1_795_362_634_437_800;
pub(crate) const SECOND: u64 = 1_000_000;

/// Runs a test on each store, at a time that the test chooses.
pub(crate) fn on_each_store<T: Future<Output = ()>>(test: impl Fn(Rc<Server>, Redis, Clock) -> T) {
    for store in Store::ALL {
        let Some(server) = Server::start(store).map(Rc::new) else { continue };
        run(async {
            let clock = Clock::default();
            clock.set(NOW);
            let redis = clock.connect(&server).await;
            test(Rc::clone(&server), redis, clock).await;
        });
    }
}

/// A quota of each kind that admits 10 at once.
fn each_kind() -> [Quota; 6] {
    let rate = Rate::per_minute(10);
    [
        TokenBucket::new(rate).into(),
        LeakyBucket::meter(rate).capacity(10).into(),
        LeakyBucket::queue(rate).capacity(10).into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).into(),
        SlidingLog::new(rate).into(),
    ]
}

pub(crate) async fn admitted(limiter: &Limiter, key: &str, cost: u64) -> Receipt {
    let answer: Answer = limiter.check_n(key, cost).await.expect("the store answers");
    answer.into_receipt().expect("there is room")
}

async fn outcome(limiter: &Limiter, key: impl AsRef<[u8]>, cost: u64) -> Outcome {
    limiter.check_n(key, cost).await.expect("the store answers").outcome()
}

/// Two versions of a deployment, of which one counts by the second and the other by the minute.
#[test]
fn windows_of_two_widths_each_keep_their_limit() {
    on_each_store(|_, redis, clock| async move {
        fn of(kind: usize, rate: Rate) -> Quota {
            match kind {
                0 => FixedWindow::new(rate).into(),
                1 => SlidingWindow::new(rate).into(),
                _ => SlidingLog::new(rate).into(),
            }
        }
        for kind in 0..3 {
            let limiter = |rate| redis.limiter("l", [of(kind, rate)]).build().unwrap();
            let (narrow, wide) = (limiter(Rate::per_second(5)), limiter(Rate::per_minute(5)));
            let key = format!("key {kind}");
            clock.set(NOW);
            drop((admitted(&narrow, &key, 1).await, admitted(&wide, &key, 5).await));
            // The minute of `NOW` ends in 25 seconds.
            for second in (0..24).step_by(2) {
                clock.set(NOW + second * SECOND);
                let refused = wide.check(&key).await.expect("the store answers");
                assert_eq!(refused.outcome(), Outcome::Denied, "{kind}, second {second}");
                let wait = refused.retry_after().expect("it is refused for a time");
                assert!(wait <= Duration::from_secs(120), "{kind}: {wait:?}");
                assert_eq!(outcome(&narrow, &key, 4).await, Outcome::Allowed, "{kind}, second {second}");
            }
        }
    });
}

#[test]
fn a_mark_outlives_the_receipts_before_it() {
    on_each_store(|server, redis, _| async move {
        let quota = TokenBucket::new(Rate::per_second(1)).burst(100);
        let limiter = redis.limiter("l", [quota]).build().unwrap();
        let (first, second) = (admitted(&limiter, "k", 60).await, admitted(&limiter, "k", 40).await);
        assert_eq!(limiter.refund(first).await, Ok(60));
        // 40 seconds of debt are left. The second receipt is worth something for 100.
        let left: u64 = server.ask(&["PTTL", "tg1:{k:k}:l:b"]);
        assert!(left > 3_600_000 + 70_000, "{left} ms");
        assert_eq!(limiter.refund(second).await, Ok(40));
    });
}

#[test]
fn a_charge_comes_back_in_parts() {
    on_each_store(|_, redis, clock| async move {
        for (number, quota) in each_kind().into_iter().enumerate() {
            clock.set(NOW);
            let limiter = redis.limiter(format!("l{number}"), [quota]).build().unwrap();
            let mut receipt = admitted(&limiter, "k", 6).await;
            assert_eq!(limiter.refund_part(&mut receipt, 4).await, Ok(4), "{quota}");
            assert_eq!((receipt.cost(), limiter.peek("k", 0).await.unwrap().remaining()), (2, 8), "{quota}");
            // The unit that another request took meanwhile is not this one's.
            let _ = admitted(&limiter, "k", 4).await;
            let rest = if quota.is_queue() { 0 } else { 2 };
            assert_eq!(limiter.refund_part(&mut receipt, 9).await, Ok(rest), "{quota}");
            assert_eq!(limiter.peek("k", 0).await.unwrap().remaining(), 4 + rest, "{quota}");
            assert_eq!(limiter.refund(receipt).await, Ok(0), "{quota}");
        }
    });
}

#[test]
fn a_rest_that_time_won_back_takes_no_other_charge() {
    on_each_store(|_, redis, clock| async move {
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_second(1)).burst(10)]).build().unwrap();
        let mut receipt = admitted(&limiter, "k", 10).await;
        assert_eq!(limiter.refund_part(&mut receipt, 6).await, Ok(6));
        clock.set(NOW + 3 * SECOND);
        let _ = admitted(&limiter, "k", 5).await;
        clock.set(NOW + 4 * SECOND);
        // The four that were left are won back; a unit of the other request is not.
        assert_eq!(limiter.refund(receipt).await, Ok(0));
        assert_eq!(limiter.peek("k", 0).await.unwrap().remaining(), 5);
    });
}

/// A clock that goes back finds the units again that had left the window at a refusal.
#[test]
fn a_refusal_by_a_log_forgets_nothing() {
    on_each_store(|_, redis, clock| async move {
        let limiter = redis.limiter("l", [SlidingLog::new(Rate::per_minute(3))]).build().unwrap();
        for second in [0, 30] {
            clock.set(NOW + second * SECOND);
            let _ = admitted(&limiter, "k", 1).await;
        }
        for cost in [3, 4, 0] {
            clock.set(NOW + 61 * SECOND);
            let answer = limiter.check_n("k", cost).await.unwrap();
            assert_eq!((answer.is_allowed(), answer.remaining()), (cost == 0, 2), "{cost}");
            clock.set(NOW + 45 * SECOND);
            assert_eq!(limiter.peek("k", 0).await.unwrap().remaining(), 1, "after {cost}");
        }
    });
}

/// Each limit gets back what it still has of the excess, and no more is charged.
#[test]
fn a_part_that_time_won_back_does_not_come_back() {
    on_each_store(|_, redis, clock| async move {
        let quotas = [Rate::per_second(10), Rate::per_day(10)].map(TokenBucket::new);
        let limiter = redis.limiter("l", quotas).build().unwrap();
        let mut receipt = admitted(&limiter, "k", 10).await;
        clock.set(NOW + 2 * SECOND);
        assert_eq!(limiter.refund_part(&mut receipt, 6).await, Ok(0));
        let left = limiter.peek("k", 0).await.unwrap();
        assert_eq!([0, 1].map(|limit| left.limits()[limit].remaining), [10, 6]);
    });
}

#[test]
fn a_dropped_refund_or_reset_happens_all_the_same() {
    on_each_store(|_, redis, _| async move {
        let limiter =
            redis.limiter("l", [TokenBucket::new(Rate::per_day(10))]).deny_cache(8).build().unwrap();
        let receipt = admitted(&limiter, "k", 10).await;
        let until_admitted = async || {
            while outcome(&limiter, "k", 10).await != Outcome::Allowed {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        assert_eq!(outcome(&limiter, "k", 10).await, Outcome::Denied);
        // Polled once, and dropped.
        let _ = tokio::time::timeout(Duration::ZERO, limiter.refund(receipt)).await;
        // The remembered refusal lasts for a second: this must be shorter.
        let soon = Duration::from_millis(800);
        assert!(tokio::time::timeout(soon, until_admitted()).await.is_ok(), "the refund");
        assert_eq!(outcome(&limiter, "k", 10).await, Outcome::Denied);
        let _ = tokio::time::timeout(Duration::ZERO, limiter.reset("k")).await;
        assert!(tokio::time::timeout(soon, until_admitted()).await.is_ok(), "the reset");
    });
}

#[test]
fn a_key_stays_until_it_is_as_good_as_new() {
    on_each_store(|server, redis, _| async move {
        for (number, quota) in each_kind().into_iter().enumerate() {
            let limiter = redis.limiter(format!("l{number}"), [quota]).build().unwrap();
            let begun = std::time::Instant::now();
            let answer = limiter.check_n("k", 7).await.unwrap();
            let names: Vec<String> = server.ask(&["KEYS", &format!("*:l{number}:*")]);
            let left: u64 = server.ask(&["PTTL", &names[0]]);
            let slack = Duration::from_secs(3_600);
            let least = (answer.reset_after() + slack).saturating_sub(begun.elapsed());
            assert!(names.len() == 1 && u128::from(left) >= least.as_millis(), "{quota}: {left} ms");
            let most = answer.reset_after() + slack + Duration::from_millis(1);
            assert!(u128::from(left) <= most.as_millis(), "{quota}: {left} ms");
        }
    });
}

#[test]
fn a_time_is_stored_with_all_its_digits() {
    on_each_store(|server, redis, _| async move {
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_second(1_000_000))]).build().unwrap();
        let _ = admitted(&limiter, "k", 3).await;
        assert_eq!(server.ask::<String>(&["GET", "tg1:{k:k}:l:b"]), (NOW + 3).to_string());
        let limiter = redis.limiter("l", [SlidingLog::new(Rate::per_second(10))]).build().unwrap();
        let _ = admitted(&limiter, "k", 1).await;
        let entries: Vec<String> = server.ask(&["ZRANGE", "tg1:{k:k}:l:l1000000", "0", "-1", "WITHSCORES"]);
        assert_eq!(entries[1].parse::<f64>(), Ok(NOW as f64));
    });
}

#[test]
fn a_bucket_of_2_to_the_53_grains_is_exact() {
    on_each_store(|_, redis, clock| async move {
        // A token is 1e9 grains, and 1,000,000,007 of them come in a microsecond.
        let rate = Rate::new(1_000_000_007, Duration::from_secs(1_000));
        let most = ((1 << 53) - 2 * 1_000_000_007) / 1_000_000_000;
        let limiter = redis.limiter("l", [TokenBucket::new(rate).burst(most)]).exact().build().unwrap();
        let _ = admitted(&limiter, "k", most).await;
        let refused = limiter.check_n("k", most).await.unwrap();
        let wait = u64::try_from(refused.retry_after().unwrap().as_micros()).unwrap();
        assert_eq!(wait, (most * 1_000_000_000).div_ceil(1_000_000_007));
        for (at, expected) in [(wait - 1, Outcome::Denied), (wait, Outcome::Allowed)] {
            clock.set(NOW + at);
            assert_eq!(outcome(&limiter, "k", most).await, expected);
        }
        let one_more = redis.limiter("l", [TokenBucket::new(rate).burst(most + 1)]).exact().build();
        assert!(one_more.is_err_and(|error| error.to_string().contains(&most.to_string())));
    });
}

#[test]
fn a_receipt_from_before_a_reset_gives_nothing_back() {
    on_each_store(|_, redis, clock| async move {
        for (number, quota) in each_kind().into_iter().enumerate() {
            let limiter = redis.limiter(format!("l{number}"), [quota]).build().unwrap();
            let before = admitted(&limiter, "k", 4).await;
            limiter.reset("k").await.unwrap();
            // The whole burst is there again, in the same microsecond.
            let after = admitted(&limiter, "k", 10).await;
            assert_eq!(limiter.refund(before).await, Ok(0), "{quota}");
            assert_eq!(outcome(&limiter, "k", 1).await, Outcome::Denied, "{quota}");
            assert_eq!(limiter.refund(after).await, Ok(10), "{quota}");
            assert_eq!(limiter.peek("k", 0).await.unwrap().remaining(), 10, "{quota}");
            clock.set(NOW + number as u64);
        }
    });
}

#[test]
fn a_refund_that_arrives_twice_happens_once() {
    const UNDO: &str = concat!(
        include_str!("../../src/script/head.lua"),
        include_str!("../../src/script/bucket_state.lua"),
        include_str!("../../src/script/bucket_undo.lua"),
        include_str!("../../src/script/undo.lua")
    );
    on_each_store(|server, redis, _| async move {
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_minute(10))]).build().unwrap();
        let _ = (admitted(&limiter, "k", 3).await, admitted(&limiter, "k", 4).await);
        // The second charge, after which 42 s of debt are left.
        let (now, after) = (NOW.to_string(), (NOW + 42 * SECOND).to_string());
        let refund = ["EVAL", UNDO, "2", "tg1:{k:k}:l:b", "once", "refund", &now, "1000", "1", "id", &now];
        let refund = [&refund[..], &["4", "b", "1", "6000000", "10", &after, "0", "0"]].concat();
        let row =
            |numbers: &[f64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(server.ask::<Vec<u8>>(&refund), row(&[NOW as f64, 1.0, 4.0]));
        assert_eq!(server.ask::<Vec<u8>>(&refund), row(&[NOW as f64, 0.0]));
        assert_eq!(limiter.peek("k", 0).await.unwrap().remaining(), 7);
    });
}

#[test]
fn a_receipt_of_another_limiter_gives_nothing_back() {
    on_each_store(|_, redis, _| async move {
        let quota = TokenBucket::new(Rate::per_minute(10));
        let [one, other] = [(); 2].map(|()| redis.limiter("l", [quota]).build().unwrap());
        let receipt = admitted(&one, "k", 4).await;
        assert_eq!(other.refund(receipt).await, Ok(0));
    });
}

#[test]
fn any_bytes_are_a_key_of_their_own() {
    on_each_store(|server, redis, _| async move {
        let quotas: [Quota; 2] =
            [TokenBucket::new(Rate::per_hour(1)).into(), FixedWindow::new(Rate::per_day(1)).into()];
        let limiter = redis.limiter("l", quotas).build().unwrap();
        let long = [b'a'; 5_000];
        let keys: [&[u8]; 11] =
            [b"", b"a", b"{", b"}", b"{}", b"a}:l:0b", b"\0", b"\xff\xfe", b"\r\n", b"#", &long];
        for key in keys {
            let answer = limiter.check(key).await.expect("the store answers");
            assert!(answer.is_allowed(), "{key:?} has the state of another key");
            assert_eq!(outcome(&limiter, key, 1).await, Outcome::Denied);
            assert_eq!(limiter.refund(answer.into_receipt().unwrap()).await, Ok(1));
            assert_eq!(outcome(&limiter, key, 1).await, Outcome::Allowed);
        }
        // Two limits and the mark of a refund for each key.
        assert_eq!(server.ask::<usize>(&["DBSIZE"]), 3 * keys.len());
    });
}

#[test]
fn two_versions_of_a_quota_charge_one_debt() {
    on_each_store(|_, redis, clock| async move {
        let old = redis.limiter("l", [TokenBucket::new(Rate::per_second(7)).burst(10)]).build().unwrap();
        let new = redis.limiter("l", [TokenBucket::new(Rate::per_second(3)).burst(5)]).build().unwrap();
        let _ = admitted(&old, "k", 10).await;
        // 10 / 7 s of debt, rounded up since the fraction is of another rate; 5 / 3 s are the
        // burst.
        assert_eq!(outcome(&new, "k", 1).await, Outcome::Denied);
        let wait = new.check("k").await.unwrap().retry_after().unwrap();
        let expected = (10 * SECOND).div_ceil(7) - 4 * SECOND / 3;
        assert_eq!(wait.as_micros(), u128::from(expected));
        clock.set(NOW + expected - 1);
        assert_eq!(outcome(&new, "k", 1).await, Outcome::Denied);
        clock.set(NOW + expected);
        assert_eq!(outcome(&new, "k", 1).await, Outcome::Allowed);
        // Now the debt is the whole burst of the new version, which the old one knows.
        let left = old.peek("k", 0).await.unwrap().remaining();
        assert!(left <= 10 - 7 * 4 / 3, "{left}");
    });
}

#[test]
fn a_check_of_nothing_is_admitted_beyond_reservations() {
    on_each_store(|_, redis, _| async move {
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_minute(10))]).build().unwrap();
        for _ in 0..2 {
            let reserved = limiter.reserve("k", 10, Duration::from_secs(60)).await.unwrap();
            assert!(reserved.is_allowed());
        }
        assert_eq!(outcome(&limiter, "k", 0).await, Outcome::Allowed);
        assert_eq!(outcome(&limiter, "k", 1).await, Outcome::Denied);
    });
}

#[test]
fn a_departed_reservation_gives_nothing_back() {
    on_each_store(|_, redis, clock| async move {
        let limiter = redis.limiter("l", [TokenBucket::new(Rate::per_second(1))]).build().unwrap();
        let _ = admitted(&limiter, "k", 1).await;
        let patience = Duration::from_secs(9);
        let [first, second] = [
            limiter.reserve("k", 1, patience).await.unwrap(),
            limiter.reserve("k", 1, patience).await.unwrap(),
        ];
        assert_eq!([first.delay(), second.delay()].map(|delay| delay.as_secs()), [1, 2]);
        clock.set(NOW + SECOND);
        assert_eq!(limiter.refund(first.into_receipt().unwrap()).await, Ok(0));
        assert_eq!(limiter.refund(second.into_receipt().unwrap()).await, Ok(1));
    });
}

#[test]
fn the_log_gives_back_any_request_in_its_window() {
    on_each_store(|_, redis, clock| async move {
        let limiter = redis.limiter("l", [SlidingLog::new(Rate::per_second(1_500))]).build().unwrap();
        let old = admitted(&limiter, "k", 600).await;
        clock.set(NOW + 10);
        let (first, newest) = (admitted(&limiter, "k", 700).await, admitted(&limiter, "k", 200).await);
        assert_eq!(limiter.refund(first).await, Ok(700));
        assert_eq!(limiter.peek("k", 0).await.unwrap().remaining(), 700);
        clock.set(NOW + SECOND);
        // It has left the window, though it is still an entry.
        assert_eq!(limiter.refund(old).await, Ok(0));
        assert_eq!(limiter.refund(newest).await, Ok(200));
    });
}

#[test]
fn every_part_of_a_logs_charge_comes_back() {
    on_each_store(|_, redis, clock| async move {
        let limiter = redis.limiter("l", [SlidingLog::new(Rate::per_second(1_500))]).build().unwrap();
        let mut receipt = admitted(&limiter, "k", 1_200).await;
        let other = admitted(&limiter, "k", 100).await;
        for (part, left) in [(600, 800), (1, 801), (0, 801), (550, 1_351)] {
            assert_eq!(limiter.refund_part(&mut receipt, part).await, Ok(part));
            assert_eq!(limiter.peek("k", 0).await.unwrap().remaining(), left);
        }
        assert_eq!(receipt.cost(), 49);
        clock.set(NOW + SECOND - 1);
        assert_eq!(limiter.refund(other).await, Ok(100));
        assert_eq!(limiter.refund_part(&mut receipt, 9).await, Ok(9));
        clock.set(NOW + SECOND);
        assert_eq!(limiter.refund(receipt).await, Ok(0), "the rest has left the window");
        assert_eq!(limiter.peek("k", 0).await.unwrap().remaining(), 1_500);
    });
}

#[test]
fn a_coarse_counter_never_admits_more() {
    on_each_store(|_, redis, clock| async move {
        // 1e13 an hour: the hour is counted in parts of several microseconds.
        let quota = SlidingWindow::new(Rate::per_hour(10_000_000_000));
        let limiter = redis.limiter("l", [quota]).build().unwrap();
        let step = u64::try_from(limiter.resolution(0).unwrap().step.as_micros()).unwrap();
        assert!(step > 1, "{step}");
        let hour = 3_600 * SECOND;
        clock.set(NOW / hour * hour);
        let _ = admitted(&limiter, "k", 10_000_000_000).await;
        let next = (NOW / hour + 1) * hour;
        for passed in [0, 1, step - 1, step, step + 1, hour / 3, hour / 2 + 1, hour - 1] {
            clock.set(next + passed);
            let left = limiter.peek("k", 0).await.unwrap().remaining();
            let exact = (u128::from(passed) * 10_000_000_000 / u128::from(hour)) as u64;
            let of_a_step = (u128::from(step) * 10_000_000_000).div_ceil(u128::from(hour)) as u64;
            assert!(left <= exact && left + of_a_step >= exact, "{passed}: {left} of {exact}");
        }
    });
}

#[test]
fn the_servers_clock_decides_by_default() {
    for store in Store::ALL {
        let Some(server) = Server::start(store) else { continue };
        run(async {
            let redis = Redis::builder(server.url()).deadline(Duration::from_secs(30)).build().await.unwrap();
            for (number, rate) in [Rate::per_day(1), Rate::per_second(50)].into_iter().enumerate() {
                let quota = LeakyBucket::meter(rate).capacity(1);
                let limiter = redis.limiter(format!("l{number}"), [quota]).build().unwrap();
                assert_eq!(outcome(&limiter, "k", 1).await, Outcome::Allowed);
                let Some(wait) = limiter.check("k").await.unwrap().retry_after() else { continue };
                if number == 1 {
                    tokio::time::sleep(wait).await;
                    assert_eq!(outcome(&limiter, "k", 1).await, Outcome::Allowed);
                }
            }
            let limiter = redis.limiter("l0", [LeakyBucket::meter(Rate::per_day(1)).capacity(1)]);
            assert_eq!(outcome(&limiter.build().unwrap(), "k", 1).await, Outcome::Denied);
        });
    }
}

#[test]
fn a_backend_decides_and_takes_back() {
    on_each_store(|_, redis, _| async move {
        let quotas: [Quota; 2] =
            [TokenBucket::new(Rate::per_minute(10)).into(), FixedWindow::new(Rate::per_day(7)).into()];
        let limiter = redis.limiter("l", quotas).build().unwrap();
        let StoreReply { outcome: first, limit, remaining, receipt, .. } =
            limiter.decide(b"k", 5).await.unwrap();
        assert_eq!((first, limit, remaining), (Outcome::Allowed, 7, 2));
        let refused = limiter.decide(b"k", 5).await.unwrap();
        assert!(refused.outcome == Outcome::Denied && refused.receipt.is_none() && !refused.wait().is_zero());
        assert_eq!(limiter.decide(b"k", 8).await.unwrap().outcome, Outcome::Never);
        Backend::refund(&limiter, receipt.expect("it was charged"));
        while limiter.peek("k", 0).await.unwrap().remaining() < 7 {
            tokio::task::yield_now().await;
        }
    });
}
