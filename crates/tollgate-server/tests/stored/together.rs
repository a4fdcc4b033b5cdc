//! Requests that come together ask their stores together.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Running, start};
use tollgate_testing::stores::{Server, Store};

const STORES: usize = 10;

/// How long a slow store takes to answer.
const SLOW: Duration = Duration::from_millis(300);

/// Stands before a store, and brings what it says later, however much that is.
fn slow(port: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let store = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), store.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
            let ((mut store, mut client), (sender, said)) =
                ((store, client), channel::<(Instant, Vec<u8>)>());
            std::thread::spawn(move || {
                let mut bytes = [0; 1 << 16];
                while let Ok(length @ 1..) = store.read(&mut bytes) {
                    sender.send((Instant::now() + SLOW, bytes[..length].into())).unwrap();
                }
            });
            std::thread::spawn(move || {
                for (at, bytes) in said {
                    std::thread::sleep(at.saturating_duration_since(Instant::now()));
                    let _ = client.write_all(&bytes);
                }
            });
        }
    });
    url
}

/// The answer to a body, and how long it took.
async fn timed(server: &Running, path: &str, body: &Value) -> (Value, Duration) {
    let began = Instant::now();
    (server.ask(path, body).await, began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_slow_stores_take_the_time_of_one() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let stores: String = (0..STORES)
        .map(|store| {
            let url = slow(redis.port());
            format!("stores.s{store} = {{ url = '{url}', prefix = 's{store}', deadline = '20s' }}\n")
        })
        .collect();
    let rules = (0..STORES).map(|store| {
        format!(
            "{{ name = 'r{store}', key = 'label.k{store}', missing = 'pass', store = 's{store}', \
             limits = '4/52w,burst=4' }}"
        )
    });
    let all = format!("{stores}rule = [{}]", rules.collect::<Vec<_>>().join(", "));
    let server = start(&all).await;
    let labels = |store: usize| json!({ "labels": { format!("k{store}"): "x" } });
    let requests: Vec<_> = (0..STORES).map(labels).collect();
    let batch = |together: bool| json!({ "requests": requests, "together": together });
    // Connections are made, and scripts are loaded.
    let (said, _) = timed(&server, "/v1/check", &batch(false)).await;
    assert_eq!(said["admitted"], true, "{said}");
    for together in [false, true] {
        let (said, took) = timed(&server, "/v1/check", &batch(together)).await;
        assert_eq!(said["admitted"], true, "{said}");
        assert!(took >= SLOW && took < SLOW * 3, "together {together}: {took:?}");
    }
    let remaining = |said: &Value, outcome: &str| {
        let results = said["results"].as_array().unwrap();
        assert!(results.iter().all(|one| one["outcome"] == outcome), "{said}");
        results.iter().map(|one| one["remaining"].as_u64().unwrap_or_default()).collect::<Vec<_>>()
    };
    let (said, _) = timed(&server, "/v1/check", &batch(false)).await;
    assert_eq!(remaining(&said, "admitted"), [0; STORES], "each was charged once");
    let (said, _) = timed(&server, "/v1/check", &batch(false)).await;
    remaining(&said, "refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_asks_ten_slow_stores_together() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let url = slow(redis.port());
    let rules = (0..STORES).map(|rule| {
        format!(
            "{{ name = 'r{rule}', key = 'entry.k{rule}', missing = 'pass', store = 'redis', \
             limits = '3/52w,burst=3' }}"
        )
    });
    let all = format!(
        "stores.redis = {{ url = '{url}', deadline = '20s' }}\nrule = [{}]",
        rules.collect::<Vec<_>>().join(", ")
    );
    let server = start(&all).await;
    let entries = |key: usize| json!({ "entries": [{ "key": format!("k{key}"), "value": "x" }] });
    let call = |descriptors: Vec<Value>| json!({ "domain": "d", "descriptors": descriptors });
    let whole = call((0..STORES).map(entries).collect());
    timed(&server, "/json", &whole).await;
    let (said, took) = timed(&server, "/json", &whole).await;
    assert_eq!(said["overallCode"], "OK", "{said}");
    assert!(took >= SLOW && took < SLOW * 2, "{took:?}");
    // One is used up: none is charged.
    let last = call(vec![entries(STORES - 1)]);
    assert_eq!(timed(&server, "/json", &last).await.0["overallCode"], "OK");
    let (said, took) = timed(&server, "/json", &whole).await;
    assert_eq!(said["overallCode"], "OVER_LIMIT", "{said}");
    assert!(took < SLOW * 4, "{took:?}");
    let first = call(vec![entries(0)]);
    for code in ["OK", "OVER_LIMIT"] {
        assert_eq!(timed(&server, "/json", &first).await.0["overallCode"], code);
    }
}
