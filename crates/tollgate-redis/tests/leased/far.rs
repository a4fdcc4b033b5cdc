//! One home for several data centres: nodes far from the store, with long leases.

use std::time::{Duration, Instant};

use tollgate::{Rate, TokenBucket};
use tollgate_redis::{DecidedBy, Mode, Redis};
use tollgate_testing::stores::Proxy;

use crate::bound::{Load, assert_bound};
use crate::on_each_store;

/// A trip from a far centre to the store.
const TRIP: Duration = Duration::from_millis(80);

/// At least 8 trips.
const TTL: Duration = Duration::from_secs(1);

const RATE: u64 = 400;
const BURST: u64 = 1_200;

/// A flood of six seconds at nodes that are so far from the store. Holds what they admit together
/// to the bound; returns the part of the limit that was used, and each node's part of it.
async fn flood(port: u16, trips: [Duration; 3]) -> (f64, [f64; 3]) {
    let quota = TokenBucket::new(Rate::per_second(RATE)).burst(BURST);
    let (mut proxies, mut nodes) = (Vec::new(), Vec::new());
    for trip in trips {
        let proxy = Proxy::to(port);
        let redis = Redis::builder(proxy.url()).deadline(TTL).build().await.unwrap();
        proxy.delay(trip, Duration::ZERO);
        proxies.push(proxy);
        let limiter = redis.limiter("api", [quota]).mode(Mode::Leased { ttl: TTL, nodes: 3 });
        nodes.push(limiter.deny_cache(100).build().unwrap());
    }
    let start = Instant::now();
    let loads: Vec<_> = nodes.iter().map(|node| Load::start(node, "alice", 8, start)).collect();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let (mut admitted, mut parts) = (Vec::new(), Vec::new());
    for load in loads {
        let met = load.stop().await;
        parts.push(met.admitted.len() as f64);
        admitted.extend(met.admitted);
    }
    let most = BURST as f64 + RATE as f64 * start.elapsed().as_secs_f64();
    let (used, all) = (admitted.len() as f64 / most, admitted.len() as f64);
    let by_lease: u64 = nodes.iter().map(|node| node.counts().decided(DecidedBy::Lease).allowed).sum();
    let parts = [0, 1, 2].map(|node| parts[node] / all);
    println!("{used:.2} of the limit used; by node {parts:.2?}; {by_lease} of {all} without a trip");
    assert_bound(&admitted, |length| BURST as f64 + RATE as f64 * (length + TTL.as_secs_f64()));
    (used, parts)
}

#[test]
fn far_centres_share_one_home_within_the_bound() {
    on_each_store(|server| async move {
        let (used, parts) = flood(server.port(), [TRIP; 3]).await;
        assert!(used > 0.6, "{used:.2} of the limit");
        assert!(parts.iter().all(|part| *part > 0.15), "a third each, when all are as far: {parts:.2?}");
    });
}

/// A node beside the store asks a thousand times in the time of a far node's trip.
#[test]
fn a_flood_beside_the_home_keeps_the_bound() {
    on_each_store(|server| async move {
        let (used, _) = flood(server.port(), [Duration::ZERO, TRIP, TRIP]).await;
        assert!(used > 0.6, "{used:.2} of the limit");
    });
}
