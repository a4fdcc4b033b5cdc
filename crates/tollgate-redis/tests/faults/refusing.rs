//! The store answers, and refuses to serve: a replica, out of memory, a wrong password.

use tollgate::{Outcome, Quota, Rate, SlidingLog, TokenBucket};
use tollgate_redis::{BuildError, Charged, FailureKind, Redis};
use tollgate_testing::folder::free_port;
use tollgate_testing::stores::{Cluster, Server, Store};

use crate::{PATIENT, connect, on_each_store, run, until_breaker};

#[test]
fn a_replica_is_a_read_only_failure() {
    for store in Store::ALL {
        let replica_of = format!("--replicaof 127.0.0.1 {}", free_port());
        let Some(server) = Server::start_with(store, &[&replica_of]) else { continue };
        run(async {
            let redis = connect(server.url(), PATIENT).await;
            let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(9))]).build().unwrap();
            until_breaker(&limiter, false).await;
            let failed = limiter.check("alice").await.unwrap_err();
            assert_eq!((failed.kind, failed.charged), (FailureKind::ReadOnly, Charged::No), "{failed}");
            let peeked = limiter.peek("alice", 1).await.unwrap();
            assert_eq!(peeked.outcome(), Outcome::Allowed);
        });
    }
}

#[test]
fn a_full_store_fails_admissions_and_still_refuses() {
    on_each_store(|server| async move {
        let redis = connect(server.url(), PATIENT).await;
        let quota = TokenBucket::new(Rate::per_hour(1)).burst(1);
        let limiter = redis.limiter("api", [quota]).build().unwrap();
        until_breaker(&limiter, false).await;
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        server.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        let failed = limiter.check("bob").await.unwrap_err();
        assert_eq!((failed.kind, failed.charged), (FailureKind::Memory, Charged::No), "{failed}");
        assert_eq!(limiter.check("alice").await.unwrap().outcome(), Outcome::Denied);
        // Five in a row open the breaker, and it stays open: its probes write.
        while limiter.check("bob").await.unwrap_err().kind != FailureKind::BreakerOpen {}
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        assert!(limiter.counts().breaker.is_open, "a server without memory is not back");
        server.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        until_breaker(&limiter, false).await;
        let left = limiter.peek("bob", 1).await.unwrap();
        assert!(left.is_allowed(), "a failure that charged nothing left nothing");
    });
}

/// A server that several teams share.
#[test]
fn a_user_of_one_prefix_needs_no_other_keys() {
    on_each_store(|server| async move {
        server.ask::<()>(&["ACL", "SETUSER", "mine", "on", ">secret", "~mine:*", "+@all"]);
        let url = format!("redis://mine:secret@127.0.0.1:{}", server.port());
        let redis = Redis::builder(url).prefix("mine").deadline(PATIENT).build().await.unwrap();
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(9))]).build().unwrap();
        let receipt = limiter.check("alice").await.unwrap().into_receipt().unwrap();
        assert_eq!(limiter.refund(receipt).await, Ok(1));
    });
}

/// The bucket's part of a request is charged before the log's fails.
#[test]
fn a_missing_right_to_a_later_command_may_have_charged() {
    on_each_store(|server| async move {
        server.ask::<()>(&["ACL", "SETUSER", "mine", "on", ">secret", "~*", "+@all", "-zadd"]);
        let url = format!("redis://mine:secret@127.0.0.1:{}", server.port());
        let redis = Redis::builder(url).deadline(PATIENT).build().await.unwrap();
        let rate = Rate::per_hour(9);
        let quotas: [Quota; 2] = [TokenBucket::new(rate).into(), SlidingLog::new(rate).into()];
        let limiter = redis.limiter("api", quotas).build().unwrap();
        let failed = limiter.check("alice").await.unwrap_err();
        // Redis 7.0 does not say that it is a right that is missing.
        assert!(matches!(failed.kind, FailureKind::Auth | FailureKind::Script), "{failed}");
        assert_eq!(failed.charged, Charged::Perhaps, "{failed}");
        assert_eq!(limiter.peek("alice", 0).await.unwrap().remaining(), 8);
    });
}

#[test]
fn a_wrong_password_is_an_error_of_build() {
    for store in Store::ALL {
        let Some(server) = Server::start_with(store, &["--requirepass right"]) else { continue };
        run(async {
            let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", server.port());
            let build = async |url: String| Redis::builder(url).deadline(PATIENT).build().await;
            for wrong in [url("wrong"), server.url()] {
                match build(wrong).await {
                    Err(BuildError::Refused(failed)) => {
                        assert_eq!(failed.kind, FailureKind::Auth, "{failed}")
                    }
                    other => panic!("refused, not {other:?}"),
                }
            }
            let redis = build(url("right")).await.unwrap();
            let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(9))]).build().unwrap();
            assert!(limiter.check("alice").await.unwrap().is_allowed());
        });
    }
}

#[test]
fn a_server_without_a_cluster_is_an_error_of_build() {
    on_each_store(|server| async move {
        let redis = Redis::builder(server.url()).cluster([server.url()]).deadline(PATIENT);
        let told = redis.build().await.unwrap_err().to_string();
        assert!(told.contains("cluster support disabled"), "{told}");
    });
}

/// Of a single server and of a cluster, also with a wrong password there.
#[test]
fn a_user_without_scripts_is_an_error_of_build() {
    for store in Store::ALL {
        let Some(cluster) = Cluster::start(store, 2) else { continue };
        let Some(server) = Server::start(store) else { continue };
        for server in cluster.masters.iter().chain([&server]) {
            server.ask::<()>(&["ACL", "SETUSER", "app", "on", ">right", "~*", "+@all", "-@scripting"]);
        }
        run(async {
            let url = |server: &Server, user: &str| format!("redis://{user}@127.0.0.1:{}", server.port());
            for user in ["app:right", "app:wrong"] {
                let one = Redis::builder(url(&server, user)).deadline(PATIENT).build().await;
                let [first, second] = [0, 1].map(|place| url(&cluster.masters[place], user));
                let many = Redis::builder(first).cluster([second]).deadline(PATIENT).build().await;
                for result in [one, many] {
                    match result {
                        Err(BuildError::Refused(failed)) => {
                            assert_eq!(failed.kind, FailureKind::Auth, "{failed}")
                        }
                        other => panic!("refused, not {other:?}"),
                    }
                }
            }
        });
    }
}
