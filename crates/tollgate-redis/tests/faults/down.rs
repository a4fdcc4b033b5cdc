//! The store is gone: killed, restarted empty, never there.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{Outcome, Rate, TokenBucket};
use tollgate_redis::{Charged, DecidedBy, FailureKind, OnFailure, Redis};

use crate::bound::{Load, assert_bound};
use crate::{DEADLINE, PATIENT, connect, on_each_store, until_breaker, until_store_fails};

#[test]
fn a_killed_store_costs_one_burst_and_comes_back() {
    on_each_store(|mut server| async move {
        let redis = connect(server.url(), PATIENT).await;
        let quota = TokenBucket::new(Rate::per_second(100)).burst(50);
        let limiter = redis.limiter("api", [quota]).build().unwrap();
        let load = Load::start(&limiter, "alice", 4, Instant::now());
        const RESTARTS: u32 = 2;
        for _ in 0..RESTARTS {
            sleep(Duration::from_millis(700)).await;
            server.kill();
            until_breaker(&limiter, true).await;
            sleep(Duration::from_millis(200)).await;
            server.restart();
            until_breaker(&limiter, false).await;
        }
        sleep(Duration::from_millis(300)).await;
        let met = load.stop().await;
        let bursts = f64::from(50 * (1 + RESTARTS));
        assert_bound(&met.admitted, |seconds| bursts + 100.0 * seconds);
        assert!(met.admitted.len() > 150, "each restart admits a burst: {}", met.admitted.len());
        assert!(met.failures(FailureKind::Connection) > 0);
        assert!(met.failures(FailureKind::BreakerOpen) > met.failures(FailureKind::Connection));
        assert_eq!(
            met.failed.len(),
            met.failures(FailureKind::Connection) + met.failures(FailureKind::BreakerOpen)
        );
        let breaker = limiter.counts().breaker;
        assert_eq!((breaker.opened, breaker.closed), (2, 2), "one transition for each");
    });
}

/// redis-rs alone takes 129 ms to say so.
#[test]
fn a_check_fails_by_its_deadline_after_a_kill() {
    on_each_store(|mut server| async move {
        let mut times = Vec::new();
        for _ in 0..9 {
            let redis = connect(server.url(), DEADLINE).await;
            let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(100))]).build().unwrap();
            until_breaker(&limiter, false).await;
            let _ = limiter.check("alice").await;
            server.kill();
            let start = Instant::now();
            let failed = limiter.check("alice").await.unwrap_err();
            times.push(start.elapsed());
            assert!(matches!(failed.kind, FailureKind::Connection | FailureKind::Timeout), "{failed}");
            server.restart();
        }
        times.sort();
        assert!(times[4] < 4 * DEADLINE, "half of them, on a loaded machine: {times:?}");
    });
}

#[test]
fn an_open_breaker_fails_without_a_timer() {
    on_each_store(|mut server| async move {
        let redis = connect(server.url(), DEADLINE).await;
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(100))]).build().unwrap();
        server.kill();
        while limiter.check("alice").await.unwrap_err().kind != FailureKind::BreakerOpen {}
        let mut fastest = Duration::MAX;
        for _ in 0..10_000 {
            let start = Instant::now();
            let failed = limiter.check("alice").await.unwrap_err();
            fastest = fastest.min(start.elapsed());
            assert_eq!((failed.kind, failed.charged), (FailureKind::BreakerOpen, Charged::No));
        }
        println!("the fastest check at an open breaker: {fastest:?}");
        assert!(fastest < Duration::from_micros(20), "unoptimized: {fastest:?}");
    });
}

#[test]
fn a_missing_store_keeps_no_service_from_starting() {
    on_each_store(|mut server| async move {
        server.kill();
        let redis = Redis::builder(server.url()).build().await.unwrap();
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(100))]).build().unwrap();
        assert_eq!(limiter.check("alice").await.unwrap_err().kind, FailureKind::BreakerOpen);
        server.restart();
        until_breaker(&limiter, false).await;
    });
}

#[test]
fn each_policy_decides_what_the_store_does_not() {
    on_each_store(|mut server| async move {
        let redis = connect(server.url(), DEADLINE).await;
        server.kill();
        let quota = TokenBucket::new(Rate::per_day(9)).burst(9);
        let limiter = |policy| redis.limiter("api", [quota]).on_failure(policy).build().unwrap();
        let decided = |limiter: tollgate_redis::Limiter, cost| async move {
            let answer = limiter.check_n("alice", cost).await.unwrap();
            (answer.outcome(), answer.decided_by(), answer.retry_after().is_some())
        };
        let allow = limiter(OnFailure::Allow);
        for _ in 0..20 {
            let answer = (Outcome::Allowed, DecidedBy::OnFailure, false);
            assert_eq!(decided(allow.clone(), 9).await, answer);
        }
        assert_eq!(decided(allow, 10).await.0, Outcome::Never);
        let refused = (Outcome::Denied, DecidedBy::OnFailure, true);
        assert_eq!(decided(limiter(OnFailure::Refuse), 1).await, refused);
        let local = limiter(OnFailure::Local { nodes: 3 });
        for outcome in [Outcome::Allowed, Outcome::Allowed, Outcome::Allowed, Outcome::Denied] {
            assert_eq!(
                decided(local.clone(), 1).await,
                (outcome, DecidedBy::Local, outcome == Outcome::Denied)
            );
        }
        assert_eq!(
            decided(local.clone(), 5).await,
            (Outcome::Denied, DecidedBy::Local, true),
            "above the share"
        );
        assert_eq!(decided(local.clone(), 10).await.0, Outcome::Never);
        let counts = local.counts().decided(DecidedBy::Local);
        assert_eq!((counts.allowed, counts.denied, counts.never), (3, 2, 1));
        assert!(limiter(OnFailure::Error).check("alice").await.is_err());
    });
}

#[test]
fn a_local_charge_is_given_back_locally() {
    on_each_store(|mut server| async move {
        let redis = connect(server.url(), DEADLINE).await;
        server.kill();
        let quota = TokenBucket::new(Rate::per_day(9)).burst(9);
        let limiter =
            redis.limiter("api", [quota]).on_failure(OnFailure::Local { nodes: 3 }).build().unwrap();
        let answer = limiter.check_n("alice", 3).await.unwrap();
        assert!(!limiter.check("alice").await.unwrap().is_allowed());
        assert_eq!(limiter.refund(answer.into_receipt().unwrap()).await, Ok(3));
        assert!(limiter.check_n("alice", 3).await.unwrap().is_allowed());
    });
}

/// The charge is lost with the store, and its receipt is used at the new one.
#[test]
fn a_refund_of_a_lost_charge_mints_nothing() {
    on_each_store(|mut server| async move {
        const BURST: u64 = 10;
        let redis = connect(server.url(), PATIENT).await;
        let quota = TokenBucket::new(Rate::per_day(1)).burst(BURST);
        let limiter = redis.limiter("api", [quota]).build().unwrap();
        until_breaker(&limiter, false).await;
        let lost = limiter.check_n("alice", 8).await.unwrap().into_receipt().unwrap();
        server.kill();
        until_store_fails(&limiter).await;
        server.restart();
        until_breaker(&limiter, false).await;
        let mut spent = 0;
        for (number, receipt) in [(3, Some(lost)), (2 * BURST, None)] {
            for _ in 0..number {
                spent += u64::from(limiter.check("alice").await.unwrap().is_allowed());
            }
            if let Some(receipt) = receipt {
                assert!(limiter.refund(receipt).await.unwrap() <= 3, "no more than the new store charged");
            }
        }
        // The first burst's 8 were not spent.
        assert!((BURST..=2 * BURST).contains(&spent), "{spent}");
    });
}

/// As a load balancer does, or a server with a `timeout`.
#[test]
fn a_connection_closed_in_a_quiet_time_fails_no_check() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), PATIENT).await;
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_hour(10))]).build().unwrap();
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        let _: u64 = server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        sleep(Duration::from_secs(3)).await;
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        assert_eq!(limiter.counts().breaker.opened, 0);
    });
}
