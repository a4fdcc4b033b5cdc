//! What leases save, and what they use of the limit.
//!
//! `cargo test --release -p tollgate-redis --test leased figures -- --nocapture --test-threads 1`

use std::time::{Duration, Instant};

use tollgate::{Rate, TokenBucket};
use tollgate_redis::{DecidedBy, Mode, Redis};
use tollgate_testing::stores::{Proxy, Server};

use crate::bound::Load;
use crate::{PATIENT, node, on_each_store, until};

/// The scripts that the server has executed.
fn scripts(server: &Server) -> u64 {
    let stats: String = server.ask(&["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[cfg_attr(debug_assertions, ignore = "measures optimized code")]
#[test]
fn two_threads_make_five_million_decisions_a_second() {
    on_each_store(|server| async move {
        const CHECKS: u64 = 2_000_000;
        let quota = TokenBucket::new(Rate::per_second(100_000_000)).burst(10_000_000);
        let limiter = node(server.url(), quota, Duration::from_millis(50), 1).await;
        let (mut best, mut trips) = (0.0_f64, 0.0_f64);
        for _ in 0..5 {
            let (before, start) = (scripts(&server), Instant::now());
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (limiter, runtime) = (limiter.clone(), tokio::runtime::Handle::current());
                    std::thread::spawn(move || {
                        runtime.block_on(async {
                            for _ in 0..CHECKS {
                                assert!(limiter.check("alice").await.unwrap().is_allowed());
                            }
                        });
                    })
                })
                .collect();
            for thread in threads {
                tokio::task::block_in_place(|| thread.join().unwrap());
            }
            let took = start.elapsed().as_secs_f64();
            best = best.max(2.0 * CHECKS as f64 / took / 1e6);
            trips = trips.max((scripts(&server) - before) as f64 * 1_000.0 / (2 * CHECKS) as f64);
        }
        println!("a hot key, two threads: {best:.1} M decisions/s, {trips:.4} trips in 1,000");
        assert!(best >= 5.0, "{best:.2} M decisions/s");
        assert!(trips <= 1.0, "{trips:.3} trips in 1,000");
    });
}

#[cfg_attr(debug_assertions, ignore = "measures optimized code")]
#[test]
fn a_flood_uses_the_limit_and_each_node_its_share() {
    on_each_store(|server| async move {
        const NODES: usize = 3;
        let (rate, burst) = (2_000_u64, 400_u64);
        let quota = TokenBucket::new(Rate::per_second(rate)).burst(burst);
        let proxies: Vec<_> = (0..NODES).map(|_| Proxy::to(server.port())).collect();
        // The longest of many round trips.
        let mut trip = Duration::ZERO;
        let first = node(proxies[0].url(), quota, Duration::from_millis(50), 1).await;
        proxies.iter().for_each(|proxy| proxy.delay(Duration::from_millis(1), Duration::from_millis(1)));
        for _ in 0..100 {
            let start = Instant::now();
            let _ = first.peek("bob", 1).await.unwrap();
            trip = trip.max(start.elapsed());
        }
        let ttl = 8 * trip;
        let mut nodes = Vec::new();
        for proxy in &proxies {
            let redis = Redis::builder(proxy.url()).deadline(PATIENT).build().await.unwrap();
            let mode = Mode::Leased { ttl, nodes: NODES as u32 };
            let limiter = redis.limiter("api", [quota]).mode(mode).deny_cache(100).build().unwrap();
            until(async || !limiter.counts().breaker.is_open).await;
            nodes.push(limiter);
        }
        let start = Instant::now();
        let loads: Vec<_> = nodes.iter().map(|node| Load::start(node, "alice", 16, start)).collect();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (mut admitted, mut requests) = (Vec::new(), 0);
        for load in loads {
            let met = load.stop().await;
            requests += met.admitted.len() as u64 + met.refused;
            admitted.push(met.admitted.len() as u64);
        }
        let all: u64 = admitted.iter().sum();
        let used = all as f64 / (burst as f64 + rate as f64 * start.elapsed().as_secs_f64());
        let poorest = *admitted.iter().min().unwrap() as f64 * NODES as f64 / all as f64;
        let leased: u64 = nodes.iter().map(|node| node.counts().decided(DecidedBy::Lease).allowed).sum();
        println!(
            "ttl {ttl:?}: {used:.3} of the limit used, the poorest node has {poorest:.3} of its share; {leased} of {all} by leases, {requests} requests"
        );
        assert!(used >= 0.85 && poorest >= 0.75, "{used:.3}, {poorest:.3}");
    });
}
