//! The store is there and does not answer: frozen, paused.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{Outcome, Rate, TokenBucket};
use tollgate_redis::{Charged, DecidedBy, FailureKind};

use crate::{DEADLINE, PATIENT, connect, on_each_store, until_breaker};

#[test]
fn a_hanging_store_is_a_timeout_and_keeps_its_charges() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), Duration::from_millis(50)).await;
        let quota = TokenBucket::new(Rate::per_day(1_000)).burst(1_000);
        let limiter = redis.limiter("api", [quota]).build().unwrap();
        until_breaker(&limiter, false).await;
        server.freeze();
        let (mut timeouts, mut times) = (0, Vec::new());
        loop {
            let start = Instant::now();
            let failed = limiter.check("alice").await.unwrap_err();
            if failed.kind == FailureKind::BreakerOpen {
                break;
            }
            times.push(start.elapsed());
            assert_eq!((failed.kind, failed.charged), (FailureKind::Timeout, Charged::Perhaps));
            timeouts += 1;
        }
        assert!((1..=5).contains(&timeouts), "{timeouts}: five deadlines of silence open the breaker");
        times.sort();
        assert!(times[0] >= Duration::from_millis(50) && times[2] < Duration::from_millis(200), "{times:?}");
        let counts = limiter.counts();
        assert_eq!((counts.failed(FailureKind::Timeout), counts.charged_perhaps), (timeouts, timeouts));
        server.thaw();
        until_breaker(&limiter, false).await;
        let patient = connect(server.url(), PATIENT).await;
        let same = patient.limiter("api", [quota]).build().unwrap();
        let left = same.peek("alice", 1).await.unwrap().remaining();
        // Less the peeked unit; no timed-out check is charged twice, and none was given back.
        assert!((994..=999).contains(&left), "{left} are left after 5 timeouts");
    });
}

#[test]
fn remembered_refusals_go_on_while_the_store_is_silent() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), Duration::from_millis(500)).await;
        let quota = TokenBucket::new(Rate::per_hour(1)).burst(1);
        let limiter = redis.limiter("login", [quota]).deny_cache(100).build().unwrap();
        until_breaker(&limiter, false).await;
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        let start = Instant::now();
        let mut trips = 0;
        // The store refuses once; the machine may be slow, so the entry may have ended before.
        loop {
            let refused = limiter.check("alice").await.unwrap();
            assert_eq!(refused.outcome(), Outcome::Denied);
            match refused.decided_by() {
                DecidedBy::Store => trips += 1,
                _ => break,
            }
        }
        let scripts = || server.ask::<String>(&["INFO", "commandstats"]);
        let before = scripts();
        server.ask::<()>(&["CLIENT", "PAUSE", "3000", "WRITE"]);
        let paused = Instant::now();
        while paused.elapsed() < Duration::from_millis(300) && start.elapsed() < Duration::from_millis(900) {
            let refused = limiter.check("alice").await.unwrap();
            assert_eq!((refused.outcome(), refused.decided_by()), (Outcome::Denied, DecidedBy::DenyCache));
            assert_eq!(refused.refused_by(), Some(0));
            let wait = refused.retry_after().unwrap();
            assert!(wait > Duration::from_secs(3_590) && wait <= Duration::from_secs(3_600), "{wait:?}");
        }
        let failed = limiter.check("bob").await.unwrap_err();
        assert_eq!(failed.kind, FailureKind::Timeout);
        server.ask::<()>(&["CLIENT", "UNPAUSE"]);
        let counts = limiter.counts().decided(DecidedBy::DenyCache);
        assert!(counts.denied > 0 && counts.allowed == 0);
        let evals = |info: &str| info.lines().find(|line| line.contains("evalsha")).map(str::to_owned);
        println!("{trips} trips; {:?} then {:?}", evals(&before), evals(&scripts()));
    });
}

/// A paused server answers no client. It executes their commands once the pause ends.
#[test]
fn a_pause_of_all_commands_is_a_timeout_and_ends() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), Duration::from_millis(50)).await;
        let quota = TokenBucket::new(Rate::per_day(1_000)).burst(1_000);
        let limiter = redis.limiter("api", [quota]).build().unwrap();
        until_breaker(&limiter, false).await;
        server.ask::<()>(&["CLIENT", "PAUSE", "2000", "ALL"]);
        let mut timeouts = 0;
        loop {
            let failed = limiter.check("alice").await.unwrap_err();
            if failed.kind == FailureKind::BreakerOpen {
                break;
            }
            assert_eq!((failed.kind, failed.charged), (FailureKind::Timeout, Charged::Perhaps));
            timeouts += 1;
        }
        assert!((1..=5).contains(&timeouts), "{timeouts}: five deadlines of silence open the breaker");
        until_breaker(&limiter, false).await;
        let patient = connect(server.url(), PATIENT).await;
        let same = patient.limiter("api", [quota]).build().unwrap();
        let left = same.peek("alice", 1).await.unwrap().remaining();
        // Less the peeked unit. One check may be lost with a connection that was given up.
        assert!((994..=999).contains(&left), "{left} are left after 5 timeouts");
    });
}

#[test]
fn a_refund_forgets_the_refusal() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), PATIENT).await;
        let quota = TokenBucket::new(Rate::per_hour(1)).burst(1);
        let limiter = redis.limiter("login", [quota]).deny_cache(100).build().unwrap();
        until_breaker(&limiter, false).await;
        let admitted = limiter.check("alice").await.unwrap();
        assert!(!limiter.check("alice").await.unwrap().is_allowed());
        assert_eq!(limiter.refund(admitted.into_receipt().unwrap()).await, Ok(1));
        assert!(limiter.check("alice").await.unwrap().is_allowed(), "the charge came back");
        assert!(!limiter.check("alice").await.unwrap().is_allowed());
        limiter.reset("alice").await.unwrap();
        assert!(limiter.check("alice").await.unwrap().is_allowed(), "the key is as good as new");
    });
}

#[test]
fn flushed_scripts_are_brought_again() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), PATIENT).await;
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(100))]).build().unwrap();
        until_breaker(&limiter, false).await;
        let load = crate::bound::Load::start(&limiter, "alice", 4, Instant::now());
        for _ in 0..50 {
            server.ask::<()>(&["SCRIPT", "FLUSH"]);
            sleep(Duration::from_millis(10)).await;
        }
        let met = load.stop().await;
        assert!(met.failed.is_empty(), "{:?}", met.failed);
        crate::bound::assert_bound(&met.admitted, |seconds| 100.0 + 100.0 * seconds);
    });
}

#[test]
fn a_timeout_takes_no_longer_than_its_deadline() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), DEADLINE).await;
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(100))]).build().unwrap();
        until_breaker(&limiter, false).await;
        server.freeze();
        let start = Instant::now();
        let load = crate::bound::Load::start(&limiter, "alice", 8, start);
        until_breaker(&limiter, true).await;
        let met = load.stop().await;
        server.thaw();
        let median = met.median(FailureKind::Timeout);
        assert!(median < 4 * DEADLINE, "half of them, on a loaded machine: {median:?}");
    });
}
