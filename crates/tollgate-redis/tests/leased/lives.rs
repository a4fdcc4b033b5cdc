//! The life of a lease: taken, spent, given back.

use std::time::Duration;

use tollgate::{Rate, TokenBucket};
use tollgate_redis::{DecidedBy, FailureKind, Mode, OnFailure, Redis};
use tollgate_testing::stores::{Proxy, Server, Store};

use crate::{PATIENT, node, on_each_store, strict, until, until_leased};

/// Nothing comes back by time alone while a test runs.
fn slow() -> TokenBucket {
    TokenBucket::new(Rate::per_day(1)).burst(10_000)
}

const TTL: Duration = Duration::from_millis(200);

/// Long enough for a loaded machine to spend permits in.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn permits_not_spent_go_back_once() {
    on_each_store(|server| async move {
        let direct = strict(server.url(), slow()).await;
        let limiter = node(server.url(), slow(), TTL, 1).await;
        let (_, admitted) = until_leased(&limiter, "alice").await;
        // All that no request has spent is there again, and no more.
        until(async || direct.peek("alice", 0).await.unwrap().remaining() == 10_000 - admitted).await;
        until(async || {
            let leases = limiter.counts().leases;
            leases.taken == leases.spent + leases.returned + leases.lapsed
        })
        .await;
        let (counts, leases) = (limiter.counts(), limiter.counts().leases);
        let by = [DecidedBy::Lease, DecidedBy::Store].map(|by| counts.decided(by).allowed);
        assert_eq!((leases.spent, by[0] + by[1], leases.lapsed), (by[0], admitted, 0), "{leases:?}");
        assert!(leases.returned > 0);
        tokio::time::sleep(2 * TTL).await;
        assert_eq!(direct.peek("alice", 0).await.unwrap().remaining(), 10_000 - admitted, "once");
    });
}

/// The process stops between taking and spending, and the store cannot be reached when it goes on:
/// only old permits could admit a request.
#[test]
fn a_paused_node_spends_nothing_old() {
    for store in Store::ALL {
        let Some(server) = Server::start(store) else { continue };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let proxy = Proxy::to(server.port());
            let limiter = node(proxy.url(), slow(), TTL, 1).await;
            let (_, admitted) = until_leased(&limiter, "alice").await;
            proxy.down(true);
            // On the only thread, so no task ends the lease before the next check.
            std::thread::sleep(2 * TTL);
            let held = limiter.counts().leases;
            assert!(held.taken > held.spent + held.returned + held.lapsed, "{held:?}");
            let answer = limiter.check("alice").await;
            assert!(answer.is_err(), "{answer:?}");
            // The rest has lapsed, or goes back.
            proxy.down(false);
            until(async || {
                let leases = limiter.counts().leases;
                leases.taken == leases.spent + leases.returned + leases.lapsed
            })
            .await;
            assert!(limiter.counts().leases.spent <= admitted);
        });
    }
}

/// 700 ms away, a ttl of a second leaves 300 ms to spend permits in.
#[test]
fn permits_end_a_ttl_after_their_request_was_sent() {
    on_each_store(|server| async move {
        let proxy = Proxy::to(server.port());
        let limiter = node(proxy.url(), slow(), Duration::from_secs(1), 1).await;
        let _ = until_leased(&limiter, "alice").await;
        let leases = async || limiter.counts().leases;
        until(async || leases().await.returned > 0).await;
        let taken = leases().await.taken;
        proxy.delay(Duration::from_millis(700), Duration::ZERO);
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        assert!(leases().await.taken > taken + 1, "it has taken permits ahead");
        proxy.down(true);
        tokio::time::sleep(Duration::from_millis(400)).await;
        // At least 1.1 s after the request was sent.
        let answer = limiter.check("alice").await;
        assert!(answer.is_err(), "{answer:?}");
    });
}

#[test]
fn a_refunded_permit_is_spent_again_or_goes_back() {
    on_each_store(|server| async move {
        let direct = strict(server.url(), slow()).await;
        let limiter = node(server.url(), slow(), TTL, 1).await;
        let (answer, admitted) = until_leased(&limiter, "alice").await;
        let came_back = limiter.refund(answer.into_receipt().unwrap()).await.unwrap();
        let left = 10_000 - admitted + came_back;
        until(async || direct.peek("alice", 0).await.unwrap().remaining() == left).await;
        // After its end, nothing comes back.
        let (answer, more) = until_leased(&limiter, "alice").await;
        tokio::time::sleep(2 * TTL).await;
        assert_eq!(limiter.refund(answer.into_receipt().unwrap()).await, Ok(0));
        until(async || direct.peek("alice", 0).await.unwrap().remaining() == left - more).await;
    });
}

#[test]
fn held_permits_outlive_the_store_until_their_ttl() {
    on_each_store(|mut server| async move {
        let redis = Redis::builder(server.url()).deadline(PATIENT).build().await.unwrap();
        let ttl = Duration::from_secs(2);
        let builder = redis.limiter("api", [slow()]).mode(Mode::Leased { ttl, nodes: 1 });
        let limiter = builder.on_failure(OnFailure::Refuse).build().unwrap();
        until(async || !limiter.counts().breaker.is_open).await;
        let _ = until_leased(&limiter, "alice").await;
        server.kill();
        until(async || limiter.counts().breaker.is_open || limiter.peek("bob", 1).await.is_err()).await;
        let by_lease = limiter.check("alice").await.unwrap();
        // On a machine that has been busy for 2 s, the permits are gone already.
        assert!([DecidedBy::Lease, DecidedBy::OnFailure].contains(&by_lease.decided_by()));
        tokio::time::sleep(2 * ttl).await;
        let answer = limiter.check("alice").await.unwrap();
        assert_eq!((answer.decided_by(), answer.is_allowed()), (DecidedBy::OnFailure, false));
        let held = limiter.counts().leases;
        assert_eq!(held.taken, held.spent + held.returned + held.lapsed, "{held:?}");
        assert!(held.lapsed > 0, "the store could not take them back");
    });
}

#[test]
fn a_reset_makes_this_nodes_permits_void() {
    on_each_store(|server| async move {
        let limiter = node(server.url(), slow(), LONG, 1).await;
        let (answer, _) = until_leased(&limiter, "alice").await;
        limiter.reset("alice").await.unwrap();
        let full = limiter.peek("alice", 0).await.unwrap().remaining();
        assert_eq!(full, 10_000);
        assert_eq!(limiter.refund(answer.into_receipt().unwrap()).await, Ok(0), "its lease has ended");
        let by = limiter.counts().decided(DecidedBy::Lease).allowed;
        let taken = limiter.counts().leases.taken;
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        let (after, counts) = (limiter.counts().leases.taken, limiter.counts());
        assert!(after > taken || counts.decided(DecidedBy::Lease).allowed == by, "nothing old is spent");
        assert!(limiter.peek("alice", 0).await.unwrap().remaining() < full);
    });
}

#[test]
fn a_dropped_reset_makes_this_nodes_permits_void() {
    on_each_store(|server| async move {
        let limiter = node(server.url(), slow(), LONG, 1).await;
        let _ = until_leased(&limiter, "alice").await;
        let by = limiter.counts().decided(DecidedBy::Lease).allowed;
        // Polled once, and dropped.
        let _ = tokio::time::timeout(Duration::ZERO, limiter.reset("alice")).await;
        let taken = limiter.counts().leases.taken;
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        let after = limiter.counts();
        let is_old = after.leases.taken == taken && after.decided(DecidedBy::Lease).allowed > by;
        assert!(!is_old, "nothing old is spent");
        until(async || limiter.peek("alice", 0).await.unwrap().remaining() >= 9_900).await;
    });
}

/// Another node's reset: what this node holds is admitted on top, once.
#[test]
fn a_reset_adds_what_other_nodes_hold() {
    on_each_store(|server| async move {
        let quota = TokenBucket::new(Rate::per_day(1)).burst(1_000);
        let direct = strict(server.url(), quota).await;
        let limiter = node(server.url(), quota, LONG, 1).await;
        let _ = until_leased(&limiter, "alice").await;
        let taken = limiter.counts().leases.taken;
        direct.reset("alice").await.unwrap();
        let mut admitted = 0;
        while limiter.check("alice").await.unwrap().is_allowed() {
            admitted += 1;
        }
        assert!((1_000..=1_000 + taken).contains(&admitted), "{admitted}, of {taken} taken before");
    });
}

#[test]
fn a_lost_answer_keeps_its_charge_and_brings_nothing() {
    on_each_store(|server| async move {
        let direct = strict(server.url(), slow()).await;
        let proxy = Proxy::to(server.port());
        let limiter = node(proxy.url(), slow(), LONG, 1).await;
        let (_, _) = until_leased(&limiter, "alice").await;
        let mut failed = 0;
        for _ in 0..200 {
            proxy.cut_mid_answer();
            match limiter.check("alice").await {
                Ok(answer) => assert!(answer.is_allowed()),
                Err(error) => {
                    // Open, if the lost trip was one that asked ahead.
                    let kinds = [FailureKind::Connection, FailureKind::BreakerOpen];
                    assert!(kinds.contains(&error.kind), "{error}");
                    failed += 1;
                    break;
                }
            }
        }
        assert_eq!(failed, 1, "the permits end, and the next trip is lost");
        until(async || !limiter.counts().breaker.is_open).await;
        let counts = limiter.counts();
        let decided = [DecidedBy::Lease, DecidedBy::Store].map(|by| counts.decided(by).allowed);
        let charged = 10_000 - direct.peek("alice", 0).await.unwrap().remaining();
        assert!(charged > decided[0] + decided[1], "the lost trip stays charged: {charged}");
        assert!(limiter.check("alice").await.unwrap().is_allowed());
    });
}

#[test]
fn checks_that_wait_for_a_key_share_a_trip() {
    on_each_store(|server| async move {
        let proxy = Proxy::to(server.port());
        let limiter = node(proxy.url(), slow(), LONG, 1).await;
        let (_, _) = until_leased(&limiter, "alice").await;
        // 100 ms away, all of these come while the first one's trip is under way.
        proxy.delay(Duration::from_millis(100), Duration::ZERO);
        let calls = |server: &Server| -> u64 {
            let stats: String = server.ask(&["INFO", "commandstats"]);
            let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
            calls.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
        };
        let before = calls(&server);
        let checks: Vec<_> = (0..100)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.check("alice").await.unwrap().is_allowed() })
            })
            .collect();
        for check in checks {
            assert!(check.await.unwrap());
        }
        let trips = calls(&server) - before;
        assert!(trips < 70, "{trips} trips for 100 checks");
    });
}

/// A return is a refund by a key that is set once: the network may send it twice.
#[test]
fn a_return_that_arrives_twice_happens_once() {
    const UNDO: &str = concat!(
        include_str!("../../src/script/head.lua"),
        "do\n",
        include_str!("../../src/script/bucket_state.lua"),
        include_str!("../../src/script/bucket_undo.lua"),
        "end\n",
        include_str!("../../src/script/undo.lua")
    );
    on_each_store(|server| async move {
        let direct = strict(server.url(), slow()).await;
        let limiter = node(server.url(), slow(), TTL, 1).await;
        // What the server executes, as it is sent.
        let mut monitor = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        redis::cmd("MONITOR").exec(&mut monitor).unwrap();
        let (_, admitted) = until_leased(&limiter, "alice").await;
        until(async || limiter.counts().leases.returned > 0).await;
        until(async || direct.peek("alice", 0).await.unwrap().remaining() == 10_000 - admitted).await;
        let mut again = 0;
        while again == 0 {
            let line = monitor.recv_response().unwrap();
            let line: String = redis::from_redis_value(line).unwrap();
            if !line.contains("\"refund\"") || line.contains("lua]") {
                continue;
            }
            let words: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            let command = [&["EVAL", UNDO], &words[2..]].concat();
            // The time, and that it had happened.
            let answer: Vec<u8> = server.ask(&command);
            assert_eq!(answer[8..], 0.0_f64.to_le_bytes(), "it had happened");
            again += 1;
        }
        assert_eq!(direct.peek("alice", 0).await.unwrap().remaining(), 10_000 - admitted);
    });
}

/// The trip for permits is a task of the runtime in which the limiter was built.
#[test]
fn a_check_ends_when_the_limiters_runtime_does_not_run() {
    for (store, has_ended) in Store::ALL.into_iter().flat_map(|store| [(store, true), (store, false)]) {
        let Some(server) = Server::start(store) else { continue };
        let build = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let first = build();
        let limiter = first.block_on(async {
            let redis = Redis::builder(server.url()).deadline(Duration::from_secs(1)).build().await.unwrap();
            let leased = Mode::Leased { ttl: LONG, nodes: 1 };
            let limiter = redis.limiter("api", [slow()]).mode(leased).build().unwrap();
            let _ = until_leased(&limiter, "alice").await;
            limiter
        });
        let _standing = if has_ended {
            drop(first);
            None
        } else {
            Some(first)
        };
        build().block_on(async {
            // Some are admitted by the permits that are left.
            for _ in 0..100 {
                let check = tokio::time::timeout(LONG, limiter.check("alice")).await;
                if let Err(failed) = check.expect("each check ends") {
                    // Nothing is waited for that has ended.
                    assert_eq!(failed.kind == FailureKind::Timeout, !has_ended, "{failed}");
                    return;
                }
            }
            panic!("nothing asks the store");
        });
    }
}
