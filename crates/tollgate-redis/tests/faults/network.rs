//! The network between a node and the store: slow, uneven, cut.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{Rate, TokenBucket};
use tollgate_redis::{Charged, FailureKind};
use tollgate_testing::stores::Proxy;

use crate::bound::{Load, assert_bound};
use crate::{DEADLINE, PATIENT, connect, on_each_store, until_breaker};

#[test]
fn no_key_passes_its_limit_through_a_bad_network() {
    on_each_store(|server| async move {
        let start = Instant::now();
        let quota = TokenBucket::new(Rate::per_second(100)).burst(20);
        let (mut loads, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let proxy = Proxy::to(server.port());
            let redis = connect(proxy.url(), 3 * DEADLINE).await;
            let limiter = redis.limiter("api", [quota]).deny_cache(100).build().unwrap();
            loads.push((Load::start(&limiter, "alice", 4, start), limiter));
            proxies.push(proxy);
        }
        let direct = connect(server.url(), PATIENT).await.limiter("api", [quota]).build().unwrap();
        loads.push((Load::start(&direct, "alice", 1, start), direct));
        for round in 0..6 {
            let bad = &proxies[round % 2];
            bad.delay(Duration::from_millis(round as u64), Duration::from_millis(20));
            bad.bytewise(round % 3 == 0);
            sleep(Duration::from_millis(150)).await;
            bad.cut_mid_answer();
            sleep(Duration::from_millis(100)).await;
            bad.half_open(true);
            sleep(Duration::from_millis(100)).await;
            bad.half_open(false);
            bad.cut();
            sleep(Duration::from_millis(250)).await;
        }
        let mut admitted = Vec::new();
        let mut failed = 0;
        for (load, _) in loads {
            let met = load.stop().await;
            failed += met.failed.len();
            admitted.extend(met.admitted);
        }
        assert!(failed > 0 && admitted.len() > 50, "{failed} failed, {} admitted", admitted.len());
        assert_bound(&admitted, |seconds| 20.0 + 100.0 * seconds);
    });
}

/// Each key has been charged another cost, so that an answer tells whose it is.
#[test]
fn no_answer_reaches_another_request() {
    on_each_store(|server| async move {
        const KEYS: u64 = 40;
        let quota = TokenBucket::new(Rate::per_day(100)).burst(100);
        let direct = connect(server.url(), PATIENT).await.limiter("api", [quota]).build().unwrap();
        until_breaker(&direct, false).await;
        for key in 0..KEYS {
            assert!(direct.check_n(key.to_le_bytes(), 10 + key).await.unwrap().is_allowed());
        }
        let proxy = Proxy::to(server.port());
        let redis = connect(proxy.url(), 3 * DEADLINE).await;
        let limiter = redis.limiter("api", [quota]).build().unwrap();
        let (mut answered, mut failed) = (0, 0);
        proxy.delay(Duration::from_millis(10), Duration::from_millis(30));
        for round in 0..20_u64 {
            proxy.bytewise(round % 2 == 0);
            if round % 5 == 4 {
                proxy.cut_mid_answer();
            }
            let tasks: Vec<_> = (0..KEYS)
                .map(|key| {
                    let limiter = limiter.clone();
                    tokio::spawn(async move { (key, limiter.peek(key.to_le_bytes(), 1).await) })
                })
                .collect();
            for task in tasks {
                let (key, answer) = task.await.unwrap();
                match answer {
                    Ok(answer) => {
                        assert_eq!(answer.remaining(), 100 - 10 - key - 1, "key {key}");
                        answered += 1;
                    }
                    Err(_) => failed += 1,
                }
            }
            proxy.delay(Duration::ZERO, Duration::ZERO);
            until_breaker(&limiter, false).await;
            proxy.delay(Duration::from_millis(round), Duration::from_millis(20));
        }
        println!("{answered} answered, {failed} failed");
        assert!(answered > 0 && failed > 0);
    });
}

#[test]
fn an_answer_slower_than_the_deadline_is_a_timeout() {
    on_each_store(|server| async move {
        let proxy = Proxy::to(server.port());
        let redis = connect(proxy.url(), DEADLINE).await;
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(100))]).build().unwrap();
        until_breaker(&limiter, false).await;
        proxy.delay(Duration::from_millis(50), Duration::ZERO);
        let mut times = Vec::new();
        loop {
            let start = Instant::now();
            let failed = limiter.check("alice").await.unwrap_err();
            times.push(start.elapsed());
            match failed.kind {
                FailureKind::Timeout => assert_eq!(failed.charged, Charged::Perhaps),
                // Few are sent to a store that answers few in time.
                FailureKind::Busy => assert_eq!(failed.charged, Charged::No),
                FailureKind::BreakerOpen => break,
                _ => panic!("{failed}"),
            }
        }
        times.sort();
        assert!(times[times.len() / 2] < 4 * DEADLINE, "half of them, on a loaded machine: {times:?}");
        // 50 ms away, it is not back: a probe must be as fast as a check.
        sleep(Duration::from_millis(1_000)).await;
        assert!(limiter.counts().breaker.is_open);
        proxy.delay(Duration::ZERO, Duration::ZERO);
        until_breaker(&limiter, false).await;
    });
}

#[test]
fn a_refund_happens_once() {
    on_each_store(|server| async move {
        let quota = TokenBucket::new(Rate::per_day(100)).burst(100);
        let direct = connect(server.url(), PATIENT).await.limiter("api", [quota]).build().unwrap();
        let proxy = Proxy::to(server.port());
        let redis = connect(proxy.url(), PATIENT).await;
        let limiter = redis.limiter("api", [quota]).build().unwrap();
        until_breaker(&limiter, false).await;
        // The server must know the script, or the answer that is cut is that it does not.
        let charged = limiter.check("bob").await.unwrap();
        assert_eq!(limiter.refund(charged.into_receipt().unwrap()).await, Ok(1));
        for _ in 0..5 {
            until_breaker(&limiter, false).await;
            let charged = limiter.check_n("alice", 10).await.unwrap();
            let before = direct.peek("alice", 0).await.unwrap().remaining();
            proxy.cut_mid_answer();
            // Its answer is lost: whether it happened is not known, and it is not sent again.
            let failed = limiter.refund(charged.into_receipt().unwrap()).await.unwrap_err();
            assert_eq!(
                (failed.kind, failed.charged),
                (FailureKind::Connection, Charged::Perhaps),
                "{failed}"
            );
            let after = direct.peek("alice", 0).await.unwrap().remaining();
            assert_eq!(after, before + 10, "the store gave it back once");
        }
    });
}
