//! Clocks that are wrong: the server's steps by an hour, and callers' that differ.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::sleep;
use tollgate::{Outcome, Rate, TokenBucket};
use tollgate_redis::{Redis, Time};
use tollgate_testing::stores::{Proxy, Server, Store, wait_for, wait_for_replica};

use crate::bound::{Load, assert_bound};
use crate::{PATIENT, connect, on_each_store, run, until_breaker};

const RATE: u64 = 100;
const BURST: u64 = 50;

fn quota() -> TokenBucket {
    TokenBucket::new(Rate::per_second(RATE)).burst(BURST)
}

/// Runs a test on each store whose clock can be set.
fn on_each_faked_store<T: Future<Output = ()>>(test: impl Fn(Server) -> T) {
    for store in Store::ALL {
        let Some(server) = Server::start_faked(store) else { continue };
        println!("{store:?}");
        run(test(server));
    }
}

#[test]
fn a_clock_that_steps_forward_adds_one_burst() {
    on_each_faked_store(|server| async move {
        let redis = connect(server.url(), PATIENT).await;
        let limiter = redis.limiter("api", [quota()]).build().unwrap();
        let load = Load::start(&limiter, "alice", 4, Instant::now());
        sleep(Duration::from_millis(800)).await;
        server.step_clock("+1h");
        sleep(Duration::from_millis(800)).await;
        let met = load.stop().await;
        assert!(met.failed.is_empty(), "{:?}", met.failed);
        println!("{} admitted", met.admitted.len());
        assert_bound(&met.admitted, |seconds| (2 * BURST) as f64 + RATE as f64 * seconds);
        let last = limiter.peek("alice", 1).await.unwrap().reset_after();
        assert!(last < Duration::from_secs(60), "the debt is one of the new time: {last:?}");
    });
}

#[test]
fn a_clock_that_steps_back_refuses_and_says_how_long() {
    on_each_faked_store(|server| async move {
        let redis = connect(server.url(), PATIENT).await;
        let limiter = redis.limiter("api", [quota()]).build().unwrap();
        let load = Load::start(&limiter, "alice", 4, Instant::now());
        sleep(Duration::from_millis(800)).await;
        server.step_clock("-1h");
        sleep(Duration::from_millis(100)).await;
        for _ in 0..100 {
            let refused = limiter.check("alice").await.unwrap();
            assert_eq!(refused.outcome(), Outcome::Denied);
            let wait = refused.retry_after().unwrap();
            assert!(wait > Duration::from_secs(3_500) && wait < Duration::from_secs(3_700), "{wait:?}");
        }
        assert!(limiter.check("new").await.unwrap().is_allowed(), "a new key knows no later time");
        server.step_clock("+0");
        sleep(Duration::from_millis(300)).await;
        let met = load.stop().await;
        assert!(met.failed.is_empty(), "{:?}", met.failed);
        assert!(limiter.check_n("alice", BURST).await.unwrap().retry_after() < Some(Duration::from_secs(60)));
        // There and back: the way back is a step forward.
        assert_bound(&met.admitted, |seconds| (2 * BURST) as f64 + RATE as f64 * seconds);
    });
}

/// The address of the store moves to a replica whose clock is an hour behind.
#[test]
fn a_failover_to_a_clock_behind_tells_the_wait() {
    on_each_faked_store(|mut master| async move {
        let replica = ["--replicaof 127.0.0.1", &master.port().to_string()].join(" ");
        let Some(replica) = Server::start_faked_with(master.store(), &[&replica]) else { return };
        wait_for(&replica, &["INFO", "replication"], "master_link_status:up");
        let address = Proxy::to(master.port());
        let redis = connect(address.url(), PATIENT).await;
        let limiter = redis.limiter("api", [quota()]).build().unwrap();
        until_breaker(&limiter, false).await;
        let load = Load::start(&limiter, "alice", 4, Instant::now());
        sleep(Duration::from_millis(800)).await;
        replica.step_clock("-1h");
        wait_for_replica(&replica, &master);
        master.kill();
        replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
        address.lead_to(replica.port());
        until_breaker(&limiter, false).await;
        let refused = loop {
            // The load may find the broken connection later than this check.
            match limiter.check("alice").await {
                Ok(answer) => break answer,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        };
        let wait = refused.retry_after().unwrap();
        assert!(wait > Duration::from_secs(3_500) && wait < Duration::from_secs(3_700), "{wait:?}");
        assert!(limiter.check("new").await.unwrap().is_allowed(), "a new key knows no later time");
        let met = load.stop().await;
        println!("{} admitted, {} failed", met.admitted.len(), met.failed.len());
        assert!(met.admitted.len() as u64 > BURST);
        assert_bound(&met.admitted, |seconds| BURST as f64 + RATE as f64 * seconds);
    });
}

/// The clocks of two nodes differ by 2 s, and requests come to both by turns.
#[test]
fn callers_clocks_that_differ_refill_nothing() {
    const SKEW: Duration = Duration::from_secs(1);
    on_each_store(|server| async move {
        let start = Instant::now();
        let mut loads = Vec::new();
        for is_ahead in [true, false] {
            let clock = move || {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                if is_ahead { now + SKEW } else { now - SKEW }
            };
            let builder = Redis::builder(server.url()).deadline(PATIENT).slack(Duration::from_secs(5));
            let redis = builder.time(Time::Caller(Arc::new(clock))).build().await.unwrap();
            let limiter = redis.limiter("api", [quota()]).build().unwrap();
            until_breaker(&limiter, false).await;
            loads.push(Load::start(&limiter, "alice", 3, start));
        }
        sleep(Duration::from_millis(2_500)).await;
        let mut admitted = Vec::new();
        for load in loads {
            let met = load.stop().await;
            assert!(met.failed.is_empty(), "{:?}", met.failed);
            admitted.extend(met.admitted);
        }
        println!("{} admitted", admitted.len());
        let skew = 2.0 * SKEW.as_secs_f64();
        assert_bound(&admitted, |seconds| BURST as f64 + RATE as f64 * (seconds + skew));
    });
}
