//! A cluster of three masters: one of them fails, is replaced, or gives a slot away.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};
use tollgate_redis::{Charged, FailureKind, Limiter, Redis};
use tollgate_testing::stores::{Cluster, Store, wait_for, wait_for_replica};

use crate::bound::{Load, assert_bound};
use crate::{PATIENT, run, until_breaker};

const KEYS: usize = 30;

/// Runs a test on a cluster of each store that can be had.
fn on_each_cluster<T: Future<Output = ()>>(test: impl Fn(Cluster, Store) -> T) {
    for store in Store::ALL {
        let Some(cluster) = Cluster::start(store, 3) else { continue };
        println!("{store:?}");
        run(test(cluster, store));
    }
}

async fn connect(cluster: &Cluster, deadline: Duration) -> Redis {
    let urls = cluster.urls();
    let builder = Redis::builder(&urls[0]).cluster(&urls[1..]).deadline(deadline);
    builder.build().await.unwrap()
}

fn key(number: usize) -> String {
    format!("k{number}")
}

/// Checks each key, and asserts that exactly those of one master fail, and how.
async fn only_fails(limiter: &Limiter, owners: &[usize], lost: usize, kinds: &[FailureKind]) -> usize {
    let mut at_once = 0;
    for (number, &owner) in owners.iter().enumerate() {
        match limiter.check(key(number)).await {
            Ok(_) => assert_ne!(owner, lost, "{}: its master is down", key(number)),
            Err(failed) => {
                assert_eq!(owner, lost, "{}: its master is up: {failed}", key(number));
                assert!(kinds.contains(&failed.kind), "{failed}");
                at_once += usize::from(failed.kind == FailureKind::BreakerOpen);
            }
        }
    }
    at_once
}

#[test]
fn a_dead_master_fails_only_its_own_keys() {
    on_each_cluster(|mut cluster, _| async move {
        let redis = connect(&cluster, PATIENT).await;
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_hour(9_000))]).build().unwrap();
        let owners: Vec<usize> = (0..KEYS).map(|number| cluster.owner(&key(number))).collect();
        let lost = 1;
        let its = owners.iter().filter(|&&owner| owner == lost).count();
        assert!((1..KEYS - 1).contains(&its), "{owners:?}");
        for number in 0..KEYS {
            assert!(limiter.check(key(number)).await.unwrap().is_allowed());
        }
        cluster.masters[lost].kill();
        let kinds = [FailureKind::Connection, FailureKind::BreakerOpen];
        let mut at_once = 0;
        for _ in 0..20 {
            at_once += only_fails(&limiter, &owners, lost, &kinds).await;
            sleep(Duration::from_millis(20)).await;
        }
        assert!(at_once >= 20 * its - 2, "{at_once}: a broken connection opens the breaker");
        let breaker = limiter.counts().breaker;
        assert_eq!((breaker.is_open, breaker.opened, breaker.closed), (true, 1, 0));
        cluster.masters[lost].restart();
        let breaker = until_breaker(&limiter, false).await;
        assert_eq!((breaker.opened, breaker.closed), (1, 1));
        for number in 0..KEYS {
            assert!(limiter.check(key(number)).await.unwrap().is_allowed());
        }
    });
}

#[test]
fn a_hanging_master_fails_only_its_own_keys() {
    on_each_cluster(|cluster, _| async move {
        let redis = connect(&cluster, Duration::from_millis(400)).await;
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_hour(9_000))]).build().unwrap();
        let owners: Vec<usize> = (0..KEYS).map(|number| cluster.owner(&key(number))).collect();
        let lost = 2;
        cluster.masters[lost].freeze();
        let kinds = [FailureKind::Timeout, FailureKind::Connection, FailureKind::BreakerOpen];
        for _ in 0..10 {
            only_fails(&limiter, &owners, lost, &kinds).await;
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(limiter.counts().breaker.opened, 1);
        cluster.masters[lost].thaw();
        until_breaker(&limiter, false).await;
        assert!(only_fails(&limiter, &owners, usize::MAX, &[]).await == 0);
    });
}

/// The open breaker of a master that is gone must not refuse the keys of the next one.
#[test]
fn a_promoted_master_begins_with_a_closed_breaker() {
    on_each_cluster(|mut cluster, store| async move {
        let Some(replica) = cluster.add(store) else { return };
        let lost = 1;
        let id: String = cluster.masters[lost].ask(&["CLUSTER", "MYID"]);
        replica.ask::<()>(&["CLUSTER", "REPLICATE", &id]);
        wait_for(&replica, &["INFO", "replication"], "master_link_status:up");
        let redis = connect(&cluster, PATIENT).await;
        let quota = TokenBucket::new(Rate::per_day(1)).burst(1);
        let limiter = redis.limiter("api", [quota]).build().unwrap();
        let its = (0..).map(key).find(|key| cluster.owner(key) == lost).unwrap();
        assert!(limiter.check(&its).await.unwrap().is_allowed());
        wait_for_replica(&replica, &cluster.masters[lost]);
        cluster.masters[lost].kill();
        while limiter.check(&its).await.unwrap_err().kind != FailureKind::BreakerOpen {}
        replica.ask::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
        let breaker = until_breaker(&limiter, false).await;
        assert_eq!((breaker.opened, breaker.closed), (1, 1), "it ended with its master");
        let begun = Instant::now();
        // The promoted server serves once the others know of it.
        let answer = loop {
            match limiter.check(&its).await {
                Ok(answer) => break answer,
                Err(failed) => assert!(begun.elapsed() < Duration::from_secs(60), "{failed}"),
            }
            sleep(Duration::from_millis(20)).await;
        };
        assert!(!answer.is_allowed(), "the replica had the charge");
    });
}

/// A slot goes to another master and back, again and again, while its keys are asked for.
#[test]
fn a_moving_slot_forgets_nothing() {
    on_each_cluster(|cluster, _| async move {
        let start = Instant::now();
        let (rate, burst) = (100, 20);
        let redis = connect(&cluster, PATIENT).await;
        let one =
            redis.limiter("one", [TokenBucket::new(Rate::per_second(rate)).burst(burst)]).build().unwrap();
        let quotas: [Quota; 2] = [
            TokenBucket::new(Rate::per_second(rate)).burst(burst).into(),
            SlidingLog::new(Rate::per_second(rate)).into(),
        ];
        let two = redis.limiter("two", quotas).build().unwrap();
        let loads = [Load::start(&one, "alice", 4, start), Load::start(&two, "alice", 4, start)];
        let (slot, home) = (cluster.slot("alice"), cluster.owner("alice"));
        let (mut from, mut to) = (home, (home + 1) % 3);
        for _ in 0..4 {
            let moving = cluster.begin_move(slot, from, to);
            sleep(Duration::from_millis(100)).await;
            // Those without debt are gone: a busy machine may charge nothing for that long.
            let mut names: Vec<String> = Vec::new();
            for _ in 0..100 {
                names = moving.names(moving.source);
                if names.len() >= 3 {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
            assert!(names.len() >= 3, "the keys are there: {names:?}");
            for name in names {
                moving.migrate(&name);
                sleep(Duration::from_millis(60)).await;
            }
            moving.end();
            sleep(Duration::from_millis(150)).await;
            std::mem::swap(&mut from, &mut to);
        }
        let [one_met, two_met] = loads.map(Load::stop);
        let (one_met, two_met) = (one_met.await, two_met.await);
        assert!(one_met.failed.is_empty(), "MOVED and ASK are followed: {:?}", one_met.failed);
        let split = two_met.failures(FailureKind::Moved);
        assert!(split > 0 && split == two_met.failed.len(), "TRYAGAIN: {:?}", two_met.failed);
        assert!(two_met.failed.iter().all(|(failed, _)| failed.charged == Charged::No));
        assert_eq!(one.counts().breaker.opened, 0, "a redirection is no failure");
        for met in [one_met, two_met] {
            println!("{} admitted, {} refused", met.admitted.len(), met.refused);
            assert_bound(&met.admitted, |seconds| burst as f64 + rate as f64 * seconds);
        }
    });
}

/// A slot goes to another master: each key that a limiter writes goes there with its end and its
/// debt.
#[test]
fn a_moved_key_keeps_its_ttl_and_its_debt() {
    on_each_cluster(|cluster, _| async move {
        let redis = connect(&cluster, PATIENT).await;
        let rate = Rate::per_hour(7);
        let quotas: [(&str, Quota); 5] = [
            ("bucket", TokenBucket::new(rate).burst(3).into()),
            ("queue", LeakyBucket::queue(rate).capacity(3).into()),
            ("fixed", FixedWindow::new(rate).into()),
            ("sliding", SlidingWindow::new(rate).into()),
            ("log", SlidingLog::new(rate).into()),
        ];
        let mut limiters = Vec::new();
        for (name, quota) in quotas {
            let limiter = redis.limiter(name, [quota]).build().unwrap();
            let receipt = limiter.check_n("alice", 2).await.unwrap().into_receipt().unwrap();
            // A refund leaves a key of its own: it must happen once.
            limiter.refund_part(&mut { receipt }, 1).await.unwrap();
            limiters.push((limiter, name));
        }
        let remaining = async || {
            let peeks = limiters.iter().map(|(limiter, _)| limiter.peek("alice", 0));
            let peeks = futures_util::future::join_all(peeks).await.into_iter();
            peeks.map(|answer| answer.unwrap().remaining()).collect::<Vec<_>>()
        };
        let before = remaining().await;
        let (slot, from) = (cluster.slot("alice"), cluster.owner("alice"));
        let moving = cluster.begin_move(slot, from, (from + 1) % 3);
        let names = moving.names(moving.source);
        assert!(names.len() >= 2 * limiters.len(), "limits and refunds: {names:?}");
        let begun = Instant::now();
        let lefts: Vec<i64> = names.iter().map(|name| moving.source.ask(&["PTTL", name])).collect();
        names.iter().for_each(|name| moving.migrate(name));
        moving.end();
        for (name, left) in names.iter().zip(lefts) {
            let moved: i64 = moving.target.ask(&["PTTL", name]);
            let passed = i64::try_from(begun.elapsed().as_millis()).unwrap() + 2;
            assert!(left > 0 && (left - passed..=left).contains(&moved), "{name}: {left} ms, then {moved}");
        }
        assert_eq!(remaining().await, before, "the debt moves along");
        for (limiter, name) in &limiters {
            assert!(limiter.check("alice").await.unwrap().is_allowed(), "{name}");
        }
        let names = moving.names(moving.target);
        let ends = names.iter().map(|name| moving.target.ask::<i64>(&["PTTL", name]));
        assert!(ends.into_iter().all(|left| left > 0), "a key without an end stays: {names:?}");
    });
}
