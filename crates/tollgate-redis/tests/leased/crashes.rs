//! Nodes under load that are killed, cut off and slowed down while they hold permits.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{Rate, TokenBucket};
use tollgate_redis::{Answer, DecidedBy, Mode, Redis};
use tollgate_testing::stores::Proxy;

use crate::bound::{Load, assert_bound};
use crate::{PATIENT, node, on_each_store, strict, until, until_leased};

const TTL: Duration = Duration::from_millis(50);

/// Three nodes in leased mode and a strict one; the network of two of them loses, delays and splits
/// answers.
#[test]
fn leases_admit_the_burst_and_the_rate_of_the_ttl() {
    on_each_store(|server| async move {
        let start = Instant::now();
        let (rate, burst) = (1_000, 240);
        let quota = TokenBucket::new(Rate::per_second(rate)).burst(burst);
        let (mut loads, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let proxy = Proxy::to(server.port());
            let limiter = node(proxy.url(), quota, TTL, 4).await;
            loads.push((Load::start(&limiter, "alice", 3, start), limiter));
            proxies.push(proxy);
        }
        let direct = strict(server.url(), quota).await;
        loads.push((Load::start(&direct, "alice", 2, start), direct));
        for round in 0..8 {
            let bad = &proxies[round % 2];
            bad.delay(Duration::from_millis(round as u64), Duration::from_millis(10));
            sleep(Duration::from_millis(100)).await;
            bad.cut_mid_answer();
            sleep(Duration::from_millis(50)).await;
            bad.bytewise(round % 3 == 0);
            bad.cut();
            sleep(Duration::from_millis(150)).await;
            bad.delay(Duration::ZERO, Duration::ZERO);
        }
        let (mut admitted, mut by_lease) = (Vec::new(), 0);
        for (load, limiter) in loads {
            admitted.extend(load.stop().await.admitted);
            by_lease += limiter.counts().decided(DecidedBy::Lease).allowed;
        }
        assert!(by_lease > 10 && admitted.len() > 200, "{by_lease} of {} by leases", admitted.len());
        let ttl = TTL.as_secs_f64();
        assert_bound(&admitted, |seconds| burst as f64 + rate as f64 * (seconds + ttl));
    });
}

/// A process that is killed takes its permits along, and no other is refused for longer than the
/// limit itself refuses.
#[test]
fn others_get_all_that_a_killed_node_does_not_hold() {
    on_each_store(|server| async move {
        let quota = TokenBucket::new(Rate::per_day(1)).burst(10_000);
        let direct = strict(server.url(), quota).await;
        // The node's own runtime: when it ends, so does all that the node would have given back.
        let url = server.url();
        let killed = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let limiter = node(url, quota, PATIENT, 1).await;
                let (_, admitted) = until_leased(&limiter, "alice").await;
                (admitted, limiter.counts().leases)
            })
        });
        let (admitted, leases) = killed.join().unwrap();
        let held = leases.taken + 1 - leases.spent;
        let left = direct.peek("alice", 0).await.unwrap().remaining();
        assert!(left < 10_000 - admitted && left >= 10_000 - admitted - held, "{left} left, {held} held");
        // Permits that it asked for and did not spend come back a second later: it is refused
        // meanwhile.
        let other = node(server.url(), quota, Duration::from_secs(1), 2).await;
        let got = Cell::new(0);
        until(async || {
            while other.check("alice").await.unwrap().is_allowed() {
                got.set(got.get() + 1);
            }
            direct.peek("alice", 0).await.unwrap().remaining() == 0 && got.get() * 10 >= left * 9
        })
        .await;
        assert!(got.get() <= left, "{} of {left}", got.get());
    });
}

/// A node whose task stalls between taking and spending, beside another one that takes all there
/// is.
#[test]
fn stalled_nodes_keep_the_bound() {
    on_each_store(|server| async move {
        let start = Instant::now();
        let (rate, burst) = (2_000, 400);
        let quota = TokenBucket::new(Rate::per_second(rate)).burst(burst);
        let url = server.url();
        // Its only thread sleeps for more than a ttl, again and again.
        let stalls = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let limiter = node(url, quota, TTL, 2).await;
                let load = Load::start(&limiter, "alice", 8, start);
                for _ in 0..12 {
                    sleep(Duration::from_millis(60)).await;
                    std::thread::sleep(2 * TTL);
                }
                load.stop().await.admitted
            })
        });
        let limiter = node(server.url(), quota, TTL, 2).await;
        let load = Load::start(&limiter, "alice", 4, start);
        let mut admitted = tokio::task::spawn_blocking(|| stalls.join().unwrap()).await.unwrap();
        admitted.extend(load.stop().await.admitted);
        assert!(admitted.len() > 200, "{} admitted", admitted.len());
        let ttl = TTL.as_secs_f64();
        assert_bound(&admitted, |seconds| burst as f64 + rate as f64 * (seconds + ttl));
    });
}

/// Keys beyond the table are decided in the store, by the same limit.
#[test]
fn keys_beyond_the_table_are_decided_strictly() {
    on_each_store(|server| async move {
        let quota = TokenBucket::new(Rate::per_day(1)).burst(40);
        let redis = Redis::builder(server.url()).deadline(PATIENT).build().await.unwrap();
        // No slot becomes idle while the test runs.
        let mode = Mode::Leased { ttl: Duration::from_secs(60), nodes: 1 };
        let limiter = redis.limiter("api", [quota]).mode(mode).build().unwrap();
        until(async || !limiter.counts().breaker.is_open).await;
        for round in 0..2 {
            for keys in (0..6_000_u32).collect::<Vec<_>>().chunks(200) {
                let checks = keys.iter().map(|key| limiter.check(key.to_le_bytes()));
                let answers: Vec<Result<Answer, _>> = futures_util::future::join_all(checks).await;
                assert!(answers.iter().all(|answer| answer.as_ref().unwrap().is_allowed()), "{round}");
            }
        }
        let mut admitted = 2;
        while limiter.check(5_999_u32.to_le_bytes()).await.unwrap().is_allowed() {
            admitted += 1;
        }
        assert_eq!(admitted, 40);
    });
}
