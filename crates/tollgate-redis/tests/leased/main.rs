//! Limiters in leased mode, on real stores: no key passes `burst + rate * (W + ttl)`, counted over
//! every interval, when nodes and the network fail.

#[allow(dead_code, reason = "each test binary uses a part")]
#[path = "../faults/bound.rs"]
mod bound;
mod crashes;
mod far;
mod figures;
mod histories;
mod lives;
mod processes;
#[allow(dead_code, reason = "each test binary uses a part")]
mod settings;

use std::time::Duration;

use tollgate::Quota;
use tollgate_redis::{Answer, DecidedBy, Limiter, Mode, Redis};
use tollgate_testing::stores::{Server, Store};

/// A deadline that a loaded machine keeps.
const PATIENT: Duration = Duration::from_secs(10);

/// Runs a test on each store that can be had.
fn on_each_store<T: Future<Output = ()>>(test: impl Fn(Server) -> T) {
    for store in Store::ALL {
        let Some(server) = Server::start(store) else { continue };
        println!("{store:?}");
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all().build().expect("a runtime").block_on(test(server));
    }
}

/// A limiter in leased mode, on a connection of its own: a node.
async fn node(url: String, quota: impl Into<Quota>, ttl: Duration, nodes: u32) -> Limiter {
    let redis = Redis::builder(url).deadline(PATIENT).build().await.expect("a store's address");
    let limiter = redis.limiter("api", [quota.into()]).mode(Mode::Leased { ttl, nodes }).build();
    let limiter = limiter.expect("a limiter");
    until(async || !limiter.counts().breaker.is_open).await;
    limiter
}

/// A limiter that decides each request in the store.
async fn strict(url: String, quota: impl Into<Quota>) -> Limiter {
    let redis = Redis::builder(url).deadline(PATIENT).build().await.expect("a store's address");
    redis.limiter("api", [quota.into()]).build().expect("a limiter")
}

/// Waits for what comes by itself.
async fn until(is: impl AsyncFn() -> bool) {
    for _ in 0..3_000 {
        if is().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come");
}

/// Checks a key until this node holds permits of it; returns the answer of the first permit and how
/// many requests were admitted.
async fn until_leased(limiter: &Limiter, key: &str) -> (Answer, u64) {
    for admitted in 1..=1_000 {
        let answer = limiter.check(key).await.expect("the store answers");
        assert!(answer.is_allowed());
        // More than one trip brings at least 16: half are left.
        if answer.decided_by() == DecidedBy::Lease && limiter.counts().leases.taken >= 30 {
            return (answer, admitted);
        }
    }
    panic!("no permits are taken ahead");
}
