//! A replica becomes the master: by Sentinel, with a lag, or while the old master lives on.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{Rate, TokenBucket};
use tollgate_redis::{DecidedBy, FailureKind, Limiter, Redis};
use tollgate_testing::stores::{Proxy, Server, wait_for};

use crate::bound::{Load, assert_bound};
use crate::{PATIENT, connect, on_each_store, until_breaker};

const RATE: u64 = 10;
const BURST: u64 = 100;

fn quota() -> TokenBucket {
    TokenBucket::new(Rate::per_second(RATE)).burst(BURST)
}

/// A replica of the master at this port, once it has all data.
fn replica(master: &Server, port: u16) -> Option<Server> {
    let replica = Server::start_with(master.store(), &[&format!("--replicaof 127.0.0.1 {port}")])?;
    wait_for(&replica, &["INFO", "replication"], "master_link_status:up");
    Some(replica)
}

/// A sentinel that knows the master and its replica.
fn sentinel(master: &Server) -> Option<Server> {
    let sentinel = Server::start_sentinel(master.store())?;
    sentinel.ask::<()>(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &master.port().to_string(), "1"]);
    sentinel.ask::<()>(&["SENTINEL", "SET", "main", "down-after-milliseconds", "1000"]);
    wait_for(&sentinel, &["INFO", "sentinel"], "slaves=1");
    Some(sentinel)
}

async fn through(sentinel: &Server) -> Limiter {
    let redis = Redis::builder("redis://main").sentinel([sentinel.url()]).deadline(PATIENT);
    let limiter = redis.build().await.unwrap().limiter("api", [quota()]).build().unwrap();
    until_breaker(&limiter, false).await;
    limiter
}

/// Waits until the store has refused so often more.
async fn until_refused(limiter: &Limiter) {
    let denied = || limiter.counts().decided(DecidedBy::Store).denied;
    let (before, begun) = (denied(), Instant::now());
    while denied() < before + 5 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the store refuses nothing");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The link between master and replica is cut first, so the replica misses all that follows.
#[test]
fn a_promotion_admits_again_what_the_replica_missed() {
    on_each_store(|mut master| async move {
        let link = Proxy::to(master.port());
        let Some(replica) = replica(&master, link.port()) else { return };
        let Some(sentinel) = sentinel(&master) else { return };
        let limiter = through(&sentinel).await;
        let start = Instant::now();
        link.down(true);
        let cut = start.elapsed();
        let load = Load::start(&limiter, "alice", 4, start);
        until_refused(&limiter).await;
        let killed = start.elapsed();
        master.kill();
        until_breaker(&limiter, true).await;
        wait_for(&replica, &["INFO", "replication"], "role:master");
        until_breaker(&limiter, false).await;
        until_refused(&limiter).await;
        let met = load.stop().await;
        let missed = met.admitted.iter().filter(|a| a.answered >= cut && a.sent <= killed).count();
        println!("{missed} charged in L, {} admitted, {:?} in all", met.admitted.len(), start.elapsed());
        assert!(missed as u64 >= BURST, "{missed}: the burst was charged after the cut");
        assert_bound(&met.admitted, |seconds| (BURST as usize + missed) as f64 + RATE as f64 * seconds);
        assert!(met.admitted.len() as u64 >= 2 * BURST, "and the replica knows nothing of it");
        assert!(met.failures(FailureKind::BreakerOpen) > 0);
        assert_eq!(limiter.counts().breaker.opened, limiter.counts().breaker.closed);
    });
}

/// Nothing fails but for the change of the master: the old one becomes a replica.
#[test]
fn sentinel_moves_the_limit_to_the_new_master() {
    on_each_store(|master| async move {
        let Some(replica) = replica(&master, master.port()) else { return };
        let Some(sentinel) = sentinel(&master) else { return };
        let limiter = through(&sentinel).await;
        let start = Instant::now();
        let load = Load::start(&limiter, "alice", 4, start);
        until_refused(&limiter).await;
        sentinel.ask::<()>(&["SENTINEL", "FAILOVER", "main"]);
        wait_for(&replica, &["INFO", "replication"], "role:master");
        wait_for(&master, &["INFO", "replication"], "role:slave");
        let begun = Instant::now();
        let decided = |server: &Server| server.ask::<String>(&["INFO", "commandstats"]).contains("evalsha");
        while !decided(&replica) || limiter.counts().breaker.is_open {
            assert!(begun.elapsed() < Duration::from_secs(60), "the new master decides nothing");
            sleep(Duration::from_millis(20)).await;
        }
        until_refused(&limiter).await;
        let met = load.stop().await;
        let kinds = [FailureKind::ReadOnly, FailureKind::Connection, FailureKind::BreakerOpen];
        assert!(met.failed.iter().all(|(failed, _)| kinds.contains(&failed.kind)), "{:?}", met.failed);
        // The replica had all but the last moments, whose length is not known: at most one burst.
        assert_bound(&met.admitted, |seconds| (2 * BURST) as f64 + RATE as f64 * seconds);
    });
}

#[test]
fn a_master_left_behind_adds_one_limit() {
    on_each_store(|master| async move {
        let Some(replica) = replica(&master, master.port()) else { return };
        let start = Instant::now();
        let mut loads = Vec::new();
        for server in [&master, &replica] {
            let limiter = connect(server.url(), PATIENT).await.limiter("api", [quota()]).build().unwrap();
            if server.port() == replica.port() {
                replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
                until_breaker(&limiter, false).await;
            }
            loads.push((Load::start(&limiter, "alice", 3, start), limiter));
        }
        for (_, limiter) in &loads {
            until_refused(limiter).await;
        }
        let mut admitted = Vec::new();
        for (load, _) in loads {
            admitted.extend(load.stop().await.admitted);
        }
        assert!(admitted.len() as u64 > BURST, "{}", admitted.len());
        assert_bound(&admitted, |seconds| 2.0 * (BURST as f64 + RATE as f64 * seconds));
    });
}
