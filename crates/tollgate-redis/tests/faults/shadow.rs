//! A limiter in shadow mode: no request notices what the store does.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{Rate, TokenBucket};
use tollgate_redis::{DecidedBy, FailureKind, Limiter};

use crate::{PATIENT, connect, on_each_store, until_breaker};

/// Waits until each check has been decided, has failed or was dropped.
async fn until_counted(limiter: &Limiter) {
    for _ in 0..3_000 {
        let counts = limiter.counts();
        let store = counts.decided(DecidedBy::Store);
        let failed: u64 = FailureKind::ALL.iter().map(|&kind| counts.failed(kind)).sum();
        let ended = store.allowed + store.denied + failed + counts.shadow_dropped;
        if ended == counts.decided(DecidedBy::Shadow).allowed {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("checks are lost: {:?}", limiter.counts());
}

#[test]
fn a_shadow_counts_and_never_refuses() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), PATIENT).await;
        let quota = TokenBucket::new(Rate::per_day(3)).burst(3);
        let limiter = redis.limiter("api", [quota]).shadow(1_000).build().unwrap();
        until_breaker(&limiter, false).await;
        for _ in 0..10 {
            let answer = limiter.check("alice").await.unwrap();
            assert!(answer.is_allowed() && answer.decided_by() == DecidedBy::Shadow);
        }
        until_counted(&limiter).await;
        let store = limiter.counts().decided(DecidedBy::Store);
        assert_eq!((store.allowed, store.denied), (3, 7), "what it would have been answered");
    });
}

#[test]
fn a_hanging_store_slows_no_request_in_shadow() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), Duration::from_secs(1)).await;
        let quota = TokenBucket::new(Rate::per_day(3)).burst(3);
        let limiter = redis.limiter("api", [quota]).shadow(4).build().unwrap();
        until_breaker(&limiter, false).await;
        server.freeze();
        let mut times = Vec::new();
        for _ in 0..1_000 {
            let start = Instant::now();
            assert!(limiter.check("alice").await.unwrap().is_allowed());
            times.push(start.elapsed());
        }
        times.sort();
        assert!(times[500] < Duration::from_millis(5), "half of them, unoptimized: {:?}", times[500]);
        assert!(limiter.counts().shadow_dropped > 0, "four at once, then they are dropped");
        until_counted(&limiter).await;
        server.thaw();
    });
}
