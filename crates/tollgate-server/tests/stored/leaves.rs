//! Callers that leave while a store is asked.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Value, json};

use crate::check::rules;
use crate::support::{Running, start};
use tollgate_testing::client::call;
use tollgate_testing::stores::{Server, Store};

/// Stands before a store, and lets so many scripts more through. The others wait.
fn gate(port: u16) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let places = Arc::new(AtomicUsize::new(usize::MAX));
    let left = Arc::clone(&places);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (mut store, left) = (TcpStream::connect(("127.0.0.1", port)).unwrap(), Arc::clone(&left));
            let (mut answers, mut back) = (store.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            std::thread::spawn(move || {
                let (mut client, mut bytes) = (client, [0; 1 << 16]);
                while let Ok(length @ 1..) = client.read(&mut bytes) {
                    let is_script = bytes[..length].windows(4).any(|word| word == b"EVAL");
                    let takes = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
                    while is_script && takes().is_err() {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    store.write_all(&bytes[..length]).unwrap();
                }
            });
        }
    });
    (url, places)
}

/// What the rule of this process has left.
async fn local(server: &Running) -> u64 {
    server.ask("/v1/peek", &json!({ "client": "203.0.113.9", "cost": 0 })).await["remaining"]
        .as_u64()
        .unwrap()
}

async fn becomes(server: &Running, units: u64) {
    for _ in 0..3_000 {
        if local(server).await == units {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{units} expected, {} left", local(server).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_a_batch_pays_nothing() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let (url, places) = gate(redis.port());
    let rule = |name: &str, key: &str, more: &str| {
        format!("{{ name = '{name}', key = '{key}', missing = 'pass', limits = '9/52w,burst=9'{more} }}")
    };
    let store = ", store = 'redis'";
    let all =
        [rule("local", "client", ""), rule("label", "label.user", store), rule("entry", "entry.user", store)];
    let server = start(&rules(&url, &all.join(", "))).await;
    let each = json!([{ "client": "203.0.113.9" }, { "labels": { "user": "x" } }]);
    let batch = |together: bool| json!({ "requests": each, "together": together });
    let entries = |key: &str, value: &str| json!({ "entries": [{ "key": key, "value": value }] });
    let descriptors = [entries("remote_address", "203.0.113.9"), entries("user", "x")];
    let envoy = json!({ "domain": "d", "descriptors": descriptors });
    let check = "/v1/check";
    // What is all or nothing is charged here when all stores have answered.
    for (path, body, charged) in [(check, batch(true), 0), (check, batch(false), 1), ("/json", envoy, 0)] {
        let body = Value::to_string(&body);
        let before = local(&server).await;
        assert_eq!(server.post(path, body.clone()).await.status, 200);
        assert_eq!(local(&server).await, before - 1);
        places.store(0, Relaxed);
        let address = server.http();
        let asking = tokio::spawn(async move { call(address, "POST", path, &[], body).await.status });
        becomes(&server, before - 1 - charged).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!((local(&server).await, asking.is_finished()), (before - 1 - charged, false));
        asking.abort();
        becomes(&server, before - 1).await;
        places.store(usize::MAX, Relaxed);
    }
}
