//! What the log says of a store that is up and refuses requests.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tollgate::{Rate, TokenBucket};
use tollgate_redis::Redis;
use tollgate_testing::stores::{Server, Store};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::PATIENT;

/// Keeps the events of this crate, each as a line of its level and its fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tollgate_redis") && *metadata.level() <= tracing::Level::INFO
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Runs a test on one thread, and returns what this crate logs there.
fn logged(test: impl Future<Output = ()>) -> Vec<String> {
    // With one subscriber alone, an event that another test's thread meets first would be disabled
    // for good, as that thread has none.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Log::default()));
    LazyLock::force(&SECOND);
    let log = Log::default();
    let subscribed = tracing::subscriber::set_default(log.clone());
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    drop(subscribed);
    let lines = log.0.lock().unwrap().clone();
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
