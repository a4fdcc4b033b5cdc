//! What the log says of a store that is up and refuses requests.

use std::time::Duration;

use tollgate::{Rate, TokenBucket};
use tollgate_redis::{FailureKind, Redis};
use tollgate_testing::logs::{self, Level};
use tollgate_testing::stores::{Server, Store};

use crate::PATIENT;

/// Runs a test on one thread, and returns what this crate logs there.
fn logged(test: impl Future<Output = ()>) -> Vec<String> {
    let log = logs::capture(Level::INFO);
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    let lines = log.lines();
    lines.iter().for_each(|line| println!("{line}"));
    lines
}

#[test]
fn a_missing_password_is_logged_at_the_first_check() {
    for store in Store::ALL {
        let Some(server) = Server::start_with(store, &["--requirepass sesam"]) else { continue };
        for password in ["", ":guess@"] {
            let lines = logged(async {
                let url = format!("redis://{password}127.0.0.1:{}", server.port());
                let redis = Redis::builder(url).deadline(PATIENT).open().unwrap();
                let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(9))]).build().unwrap();
                limiter.check("alice").await.unwrap_err();
                limiter.check("alice").await.unwrap_err();
                // Pings, and attempts to connect.
                tokio::time::sleep(Duration::from_millis(1_500)).await;
            });
            let [line] = &lines[..] else { panic!("one line, not {lines:?}") };
            assert!(line.starts_with("WARN") && line.contains("kind=\"auth\""), "{line}");
            assert!(line.contains("check the password and the right to EVALSHA"), "{line}");
            assert!(!line.contains("guess") && !line.contains("alice"), "{line}");
        }
    }
}

/// The connection ends, and no other is accepted.
#[test]
fn a_rotated_password_is_counted_and_logged() {
    for store in Store::ALL {
        let Some(server) = Server::start_with(store, &["--requirepass sesam"]) else { continue };
        let lines = logged(async {
            let url = format!("redis://:sesam@127.0.0.1:{}", server.port());
            let redis = Redis::builder(url.clone()).deadline(PATIENT).build().await.unwrap();
            let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(9))]).build().unwrap();
            assert!(limiter.check("alice").await.unwrap().is_allowed());
            let mut operator = redis::Client::open(url).unwrap().get_connection().unwrap();
            for command in ["CONFIG SET requirepass rotated", "CLIENT KILL TYPE normal SKIPME yes"] {
                let mut words = command.split(' ');
                let mut command = redis::cmd(words.next().unwrap());
                words.for_each(|word| _ = command.arg(word));
                command.query::<redis::Value>(&mut operator).unwrap();
            }
            let begun = std::time::Instant::now();
            let is_told = |counts: tollgate_redis::Counts| {
                counts.breaker.is_open && counts.failed(FailureKind::Auth) > 2
            };
            while !is_told(limiter.counts()) {
                assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", limiter.counts());
                limiter.check("alice").await.unwrap_err();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let is_told = |line: &String| {
            line.contains("kind=\"auth\"") && line.contains("check the password and the right")
        };
        assert!(lines.iter().any(is_told), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("sesam") || line.contains("alice")), "{lines:?}");
    }
}

#[test]
fn a_fault_of_one_key_is_logged_beside_successes() {
    for store in Store::ALL {
        let Some(server) = Server::start(store) else { continue };
        let lines = logged(async {
            let redis = Redis::builder(server.url()).deadline(PATIENT).build().await.unwrap();
            let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(9))]).build().unwrap();
            assert!(limiter.check("alice").await.unwrap().is_allowed());
            let names: Vec<String> = server.ask(&["KEYS", "*alice*"]);
            for name in names {
                server.ask::<()>(&["DEL", &name]);
                server.ask::<()>(&["LPUSH", &name, "1"]);
            }
            for _ in 0..3 {
                limiter.check("alice").await.unwrap_err();
                assert!(limiter.check("bob").await.unwrap().is_allowed());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        });
        assert!(lines.iter().any(|line| line.contains("connected to the store")), "{lines:?}");
        let warned: Vec<_> =
            lines.iter().filter(|line| line.contains("the store failed a request")).collect();
        let [line] = warned[..] else { panic!("one line, not {warned:?}") };
        assert!(line.contains("WRONGTYPE") && line.contains("its own `prefix`"), "{line}");
        assert!(!line.contains("alice"), "{line}");
    }
}
