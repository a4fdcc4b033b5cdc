//! The store fails and returns, again and again, and local limiters decide in between.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{Rate, TokenBucket};
use tollgate_redis::{DecidedBy, FailureKind, Limiter, OnFailure};
use tollgate_testing::stores::Proxy;

use crate::bound::{Load, assert_bound};
use crate::{PATIENT, connect, on_each_store, until_breaker};

/// Two of four nodes lose the store ten times; the others keep it.
#[test]
fn a_flapping_store_adds_only_the_shares() {
    on_each_store(|server| async move {
        let start = Instant::now();
        const NODES: u32 = 4;
        const CUT: usize = 2;
        const ROUNDS: u64 = 10;
        let (rate, burst) = (100, 40);
        let quota = TokenBucket::new(Rate::per_second(rate)).burst(burst);
        let (mut nodes, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..NODES {
            let proxy = Proxy::to(server.port());
            // No timeouts: only the cuts open the breakers, so their transitions can be counted.
            let redis = connect(proxy.url(), PATIENT).await;
            let local = OnFailure::Local { nodes: NODES };
            let limiter = redis.limiter("api", [quota]).on_failure(local).build().unwrap();
            until_breaker(&limiter, false).await;
            nodes.push((Load::start(&limiter, "alice", 2, start), limiter));
            proxies.push(proxy);
        }
        for _ in 0..ROUNDS {
            proxies[..CUT].iter().for_each(|proxy| proxy.down(true));
            for (_, limiter) in &nodes[..CUT] {
                until_breaker(limiter, true).await;
            }
            sleep(Duration::from_millis(150)).await;
            proxies[..CUT].iter().for_each(|proxy| proxy.down(false));
            for (_, limiter) in &nodes[..CUT] {
                until_breaker(limiter, false).await;
            }
        }
        let mut admitted = Vec::new();
        for (number, (load, limiter)) in nodes.into_iter().enumerate() {
            let met = load.stop().await;
            assert!(met.failed.is_empty(), "the local limiters decide: {:?}", met.failed);
            let (counts, cut) = (limiter.counts(), number < CUT);
            let rounds = if cut { ROUNDS } else { 0 };
            assert_eq!((counts.breaker.opened, counts.breaker.closed), (rounds, rounds));
            let by = [DecidedBy::Local, DecidedBy::Store].map(|by| counts.decided(by));
            assert_eq!(by[0].allowed > 0, cut);
            assert_eq!((by[0].allowed + by[1].allowed) as usize, met.admitted.len(), "each is counted");
            assert_eq!(by[0].denied + by[1].denied, met.refused);
            let failures: u64 = FailureKind::ALL.iter().map(|&kind| counts.failed(kind)).sum();
            assert_eq!(by[0].allowed + by[0].denied, failures, "a failure of the store is a local decision");
            admitted.extend(met.admitted);
        }
        let factor = 1.0 + CUT as f64 / f64::from(NODES);
        assert_bound(&admitted, |seconds| factor * (burst as f64 + rate as f64 * seconds));
    });
}

/// Every node is cut off again as soon as it has the store back, a hundred times in all.
#[test]
fn a_hundred_fallbacks_add_only_the_shares() {
    on_each_store(|server| async move {
        let start = Instant::now();
        const NODES: u32 = 8;
        let (rate, burst) = (100, 40);
        let quota = TokenBucket::new(Rate::per_second(rate)).burst(burst);
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            let proxy = Proxy::to(server.port());
            let redis = connect(proxy.url(), PATIENT).await;
            let local = OnFailure::Local { nodes: NODES };
            let limiter = redis.limiter("api", [quota]).on_failure(local).build().unwrap();
            until_breaker(&limiter, false).await;
            nodes.push((Load::start(&limiter, "alice", 1, start), limiter, proxy));
        }
        let begun = Instant::now();
        let opened = |limiter: &Limiter| limiter.counts().breaker.opened;
        while nodes.iter().map(|(_, limiter, _)| opened(limiter)).sum::<u64>() < 100 {
            assert!(begun.elapsed() < Duration::from_secs(120), "the breakers do not open and close");
            for (_, limiter, proxy) in &nodes {
                if !limiter.counts().breaker.is_open {
                    proxy.cut();
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
        println!("100 times in {:?}", begun.elapsed());
        let mut admitted = Vec::new();
        for (load, limiter, _) in nodes {
            until_breaker(&limiter, false).await;
            let met = load.stop().await;
            assert!(met.failed.is_empty(), "the local limiters decide: {:?}", met.failed);
            let counts = limiter.counts();
            assert_eq!(counts.breaker.opened, counts.breaker.closed);
            let by = [DecidedBy::Local, DecidedBy::Store].map(|by| counts.decided(by));
            assert_eq!((by[0].allowed + by[1].allowed) as usize, met.admitted.len(), "each is counted");
            admitted.extend(met.admitted);
        }
        assert_bound(&admitted, |seconds| 2.0 * (burst as f64 + rate as f64 * seconds));
    });
}
