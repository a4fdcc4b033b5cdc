//! Requests that several proxies keep for later in one Redis.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_testing::servers::{Running, loopback};

use super::park::{Journal, Kept, Parking, stored};
use super::support::call;
use tollgate_testing::stores::Cluster;
use tollgate_testing::stores::Proxy as Way;
use tollgate_testing::stores::{Server, Store};
use tollgate_testing::upstream::{Gate, full, upstream};
use tollgate_testing::wait::{LONG, eventually};

/// The fields of a rule that a process decides itself while the store does not answer.
fn local(server: &Server, fields: &str) -> String {
    stored(&server.url(), &format!("key = 'header.x-key', on_failure = {{ local = 1 }}, {fields}"))
}

/// Two proxies that share a server.
async fn two(kept: &Kept, rule: &str) -> [Parking; 2] {
    let first = Parking::over(kept, rule, Journal::default()).await;
    [first, Parking::over(kept, rule, Journal::default()).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_proxies_share_a_queue_in_order() {
    let Some(server) = Kept::redis() else { return };
    let kept = Kept::Redis(Arc::new(server));
    // What has arrived, and the keys whose requests are not answered yet.
    let (got, busy) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(HashSet::new())));
    let (noted, sharing) = (Arc::clone(&got), Arc::clone(&busy));
    let address = upstream(move |request: Request<Incoming>| {
        let (noted, sharing) = (Arc::clone(&noted), Arc::clone(&sharing));
        async move {
            let path = request.uri().path().to_owned();
            let key = path.split('/').nth(1).unwrap().to_owned();
            let is_alone = sharing.lock().unwrap().insert(key.clone());
            noted.lock().unwrap().push((path, is_alone));
            sleep(Duration::from_millis(150)).await;
            sharing.lock().unwrap().remove(&key);
            Response::new(full("done"))
        }
    });
    let (url, rule) = (format!("http://{}", address.await), "key = 'header.x-key', limits = '5/s,burst=1'");
    let proxies = Arc::new([
        Parking::before(&kept, rule, &url, Journal::default()).await,
        Parking::before(&kept, rule, &url, Journal::default()).await,
    ]);
    let mut clients = JoinSet::new();
    for (client, key) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        let proxies = Arc::clone(&proxies);
        clients.spawn(async move {
            let (mut said, mut parked) = (Vec::new(), 0);
            for number in 0..20 {
                let path = format!("/{key}/{number}");
                let answer = proxies[(client + number) % 2].post(&path, key).await;
                assert!([200, 202].contains(&answer.status.as_u16()), "{path}: {:?}", answer.body);
                parked += u64::from(answer.status == 202);
                said.push(path);
            }
            (said, parked)
        });
    }
    let said = clients.join_all().await;
    eventually(|| got.lock().unwrap().len() >= 120).await;
    let got = got.lock().unwrap().clone();
    assert_eq!(got.len(), 120, "one was sent twice");
    for (said, _) in &said {
        let is_of_key = |path: &str| path[..3] == said[0][..3];
        let of_key: Vec<_> = got.iter().map(|(path, _)| path).filter(|path| is_of_key(path)).collect();
        assert_eq!(of_key, said.iter().collect::<Vec<_>>());
    }
    let passed: Vec<_> = got.iter().filter(|(_, is_alone)| !is_alone).collect();
    assert!(passed.is_empty(), "sent while one of their key was on its way: {passed:?}");
    // How many each of them sends is not promised.
    let parked: u64 = said.iter().map(|(_, parked)| parked).sum();
    let (mut drained, begun) = (0, Instant::now());
    while drained < parked && begun.elapsed() < LONG {
        sleep(Duration::from_millis(50)).await;
        drained = 0;
        for proxy in &*proxies {
            drained += proxy.metric("event=\"drained\"").await;
        }
    }
    assert_eq!(drained, parked, "each is counted by the proxy that sent it");
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_are_exact_over_two_proxies() {
    for (bounds, keys, fit) in [
        ("requests = 13", 8, 13..=13),
        ("requests_per_key = 3", 5, 15..=15),
        // A request takes between 100 and 150.
        ("bytes = 1000", 8, 6..=9),
        ("bytes_per_key = 400", 5, 10..=15),
    ] {
        let Some(server) = Kept::redis() else { return };
        let kept = Kept::Redis(Arc::new(server));
        let rule = format!("key = 'header.x-key', limits = '1/h', park = {{ {bounds} }}");
        let proxies = Arc::new(two(&kept, &rule).await);
        for key in 0..keys {
            assert_eq!(proxies[0].post("/", &key.to_string()).await.status, 200);
        }
        let mut clients = JoinSet::new();
        for client in 0..64 {
            let proxies = Arc::clone(&proxies);
            clients.spawn(async move {
                let answer = proxies[client % 2].post("/", &(client % keys).to_string()).await;
                answer.status.as_u16()
            });
        }
        let statuses = clients.join_all().await;
        let parked = statuses.iter().filter(|status| **status == 202).count();
        assert!(statuses.iter().all(|status| [202, 429].contains(status)), "{statuses:?}");
        assert!(fit.contains(&parked), "{bounds}: {parked}");
    }
}

/// The slot of parked requests goes to another master while requests wait, are added and are sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_slot_moves_loses_no_parked_request() {
    let Some(cluster) = Cluster::start(Store::Redis, 3) else { return };
    for master in &cluster.masters {
        master.ask::<()>(&["CONFIG", "SET", "appendonly", "yes", "appendfsync", "always"]);
    }
    let urls = cluster.urls();
    let rules = format!(
        "stores.shared = {{ url = '{}', cluster = {:?}, deadline = '10s' }}
        rule = [{{ name = 'later', on_refusal = 'park', store = 'shared', key = 'header.x-key', \
                   limits = '3/s,burst=1', on_failure = 'refuse' }}]",
        urls[0],
        &urls[1..]
    );
    let (upstream, got) = (Journal::default(), Journal::default());
    let proxies = Arc::new([
        Parking::over(&Kept::File, &rules, upstream.clone()).await,
        Parking::over(&Kept::File, &rules, got.clone()).await,
    ]);
    let (ends, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for (client, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let (proxies, ends, counted) = (Arc::clone(&proxies), Arc::clone(&ends), Arc::clone(&count));
        clients.spawn(async move {
            let mut kept = Vec::new();
            for number in 0.. {
                if ends.load(Relaxed) {
                    break;
                }
                let path = format!("/{key}/{number}");
                if proxies[(client + number) % 2].post(&path, key).await.status == 202 {
                    kept.push(path);
                    counted.fetch_add(1, Relaxed);
                }
                sleep(Duration::from_millis(60)).await;
            }
            kept
        });
    }
    eventually(|| count.load(Relaxed) > 20).await;
    let slot: usize = cluster.masters[0].ask(&["CLUSTER", "KEYSLOT", "tg1:{park}:due"]);
    let has_some =
        |server: &Server| server.ask::<u64>(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]) > 0;
    let from = cluster.masters.iter().position(has_some).expect("some are parked");
    let moving = cluster.begin_move(slot, from, (from + 1) % 3);
    loop {
        let names = moving.names(moving.source);
        if names.is_empty() {
            break;
        }
        for name in names {
            moving.migrate(&name);
            sleep(Duration::from_millis(50)).await;
        }
    }
    moving.end();
    let before = count.load(Relaxed);
    eventually(|| count.load(Relaxed) > before + 20).await;
    ends.store(true, Relaxed);
    let kept = clients.join_all().await;
    let all_paths = || [upstream.paths(), got.paths()].concat();
    let began = Instant::now();
    while !kept.iter().flatten().all(|path| all_paths().contains(path)) {
        assert!(began.elapsed() < 4 * LONG, "not all of {kept:?} came: {:?}", all_paths());
        sleep(Duration::from_millis(50)).await;
    }
    let paths = all_paths();
    for path in kept.iter().flatten() {
        assert_eq!(paths.iter().filter(|sent| *sent == path).count(), 1, "{path}");
    }
    assert!(!has_some(moving.source) && has_some(moving.target));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_down_parks_nothing() {
    let Some(mut server) = Kept::redis() else { return };
    let rule = local(&server, "limits = '1/h'");
    let parking = Parking::over(&Kept::File, &rule, Journal::default()).await;
    assert_eq!(parking.post("/", "a").await.status, 200);
    let id = parking.parked("/kept", "a").await;
    server.kill();
    // Of each key, the process alone admits one.
    let mut refused = 0;
    for _ in 0..20 {
        let status = parking.post("/", "b").await.status.as_u16();
        assert!([200, 429].contains(&status), "{status}");
        refused += usize::from(status == 429);
    }
    assert!(refused >= 19, "{refused} of 20");
    let path = format!("/.well-known/tollgate/parked/{id}");
    assert_eq!(parking.proxy.status(&path).await, 503);
    let list = parking.json("GET", "/admin/parked").await;
    assert_eq!(list["unread"].as_array().unwrap().len(), 1, "{list}");
    server.restart();
    parking.becomes(&id, "parked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_without_memory_parks_nothing_and_drains() {
    let Some(server) = Kept::redis() else { return };
    let upstream = Journal::default();
    let rule = local(&server, "limits = '1/s,burst=1'");
    let parking = Parking::over(&Kept::File, &rule, upstream.clone()).await;
    assert_eq!(parking.post("/0", "a").await.status, 200);
    let id = parking.parked("/1", "a").await;
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(parking.post("/2", "b").await.status.as_u16());
    }
    assert!(!statuses.contains(&202), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(parking.becomes(&id, "sent").await["tries"], 1);
    assert_eq!(upstream.paths().iter().filter(|path| **path == "/1").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_keeps_nothing_parks_nothing() {
    let Some(server) = Server::start(Store::Redis) else { return };
    let kept = Kept::Redis(Arc::new(server));
    let rule = "key = 'client', limits = '1/h'";
    let parking = Parking::over(&kept, rule, Journal::default()).await;
    assert_eq!(parking.post("/", "").await.status, 200);
    assert_eq!(parking.post("/", "").await.status, 429);
    let Kept::Redis(server) = &kept else { unreachable!() };
    server.ask::<()>(&["CONFIG", "SET", "appendonly", "yes"]);
    // What the server says holds for ten seconds.
    eventually_status(&parking, 202).await;
}

async fn eventually_status(parking: &Parking, status: u16) {
    for _ in 0..300 {
        if parking.post("/", "").await.status == status {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("no request is answered {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_parks_nothing() {
    let Some(server) = Server::start_with(
        Store::Redis,
        &["--appendonly yes", "--appendfsync always", "--requirepass right"],
    ) else {
        return;
    };
    let right = format!("redis://:right@127.0.0.1:{}", server.port());
    let rule = |url: &str| stored(url, "key = 'client', on_failure = { local = 1 }, limits = '1/h'");
    let wrong = rule(&right.replace("right", "wrong"));
    let parking = Parking::over(&Kept::File, &wrong, Journal::default()).await;
    assert_eq!(parking.post("/", "").await.status, 200);
    assert_eq!(parking.post("/", "").await.status, 429);
    std::fs::write(parking.proxy.rules(), format!("version = 1\n{}", rule(&right))).unwrap();
    parking.proxy.server.reload().unwrap();
    eventually_status(&parking, 202).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_being_sent_is_not_cancelled() {
    let Some(server) = Kept::redis() else { return };
    let (kept, gate) = (Kept::Redis(Arc::new(server)), Gate::new().await);
    let rule = "key = 'client', limits = '1/s,burst=1'";
    let parking = Parking::before(&kept, rule, &gate.url, Journal::default()).await;
    assert_eq!(parking.post("/free", "").await.status, 200);
    let [first, second] = [parking.parked("/1", "").await, parking.parked("/2", "").await];
    gate.arrivals(2).await;
    let refused = parking.ask("DELETE", &format!("/admin/parked/{first}")).await;
    assert_eq!(refused.status, 409);
    assert!(String::from_utf8_lossy(&refused.body).contains("is being sent now"), "{refused:?}");
    // Longer than a process has a request for itself without saying so.
    sleep(Duration::from_secs(11)).await;
    assert_eq!(parking.ask("DELETE", &format!("/admin/parked/{first}")).await.status, 409);
    assert_eq!(parking.json("DELETE", &format!("/admin/parked/{second}")).await["state"], "cancelled");
    gate.open();
    assert_eq!(parking.becomes(&first, "sent").await["tries"], 1);
    let left: Vec<Value> =
        parking.json("GET", "/admin/parked?state=parked").await["parked"].as_array().unwrap().clone();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_sent_while_redis_is_away_is_sent_once() {
    let Some(mut server) = Kept::redis() else { return };
    let gate = Gate::new().await;
    let rule = local(&server, "limits = '1/s,burst=1'");
    let parking = Parking::before(&Kept::File, &rule, &gate.url, Journal::default()).await;
    assert_eq!(parking.post("/free", "a").await.status, 200);
    let id = parking.parked("/1", "a").await;
    gate.arrivals(2).await;
    server.kill();
    gate.open();
    sleep(Duration::from_secs(1)).await;
    server.restart();
    parking.becomes(&id, "sent").await;
    assert_eq!(gate.arrived.load(Relaxed), 2);
    assert_eq!(parking.metric("event=\"drained\"").await, 1);
}

/// What became of a sent request cannot be noted: the end does not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_ends_while_redis_is_away() {
    let Some(mut store) = Kept::redis() else { return };
    let gate = Gate::new().await;
    let rules = local(&store, "limits = '1/s,burst=1'");
    let Running { server, addresses, folder: _folder } = Running::start(&rules, |settings, _| {
        settings.proxy.push(loopback());
        settings.forward.upstreams.push(gate.url.parse().unwrap());
        settings.drain_timeout = Duration::from_secs(1);
    })
    .await;
    let address = addresses.proxy();
    let post = async |path: &'static str| call(address, "POST", path, &[("x-key", "a")], "").await.status;
    assert_eq!(post("/free").await, 200);
    assert_eq!(post("/1").await, 202);
    gate.arrivals(2).await;
    store.kill();
    gate.open();
    sleep(Duration::from_secs(1)).await;
    tokio::time::timeout(LONG, server.end()).await.expect("the server ends").unwrap();
}

/// The request was the only one of its queue, so that the queue is gone when the proxy asks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_about_a_sent_request_is_found_out() {
    let Some(server) = Kept::redis() else { return };
    let gate = Gate::new().await;
    let way = Way::to(server.port());
    let rule = stored(&way.url(), "key = 'header.x-key', on_failure = { local = 1 }, limits = '1/s,burst=1'");
    let parking = Parking::before(&Kept::File, &rule, &gate.url, Journal::default()).await;
    assert_eq!(parking.post("/free", "a").await.status, 200);
    let id = parking.parked("/1", "a").await;
    gate.arrivals(2).await;
    way.half_open(true);
    gate.open();
    let noted = || {
        let entry: Option<String> = server.ask(&["HGET", "tg1:{park}:entries", &id]);
        entry.is_some_and(|entry| entry.starts_with('-'))
    };
    eventually(noted).await;
    // The answer that the store has sent never comes.
    way.cut();
    way.half_open(false);
    let begun = Instant::now();
    while parking.metric("event=\"drained\"").await != 1 {
        assert!(begun.elapsed() < LONG, "the proxy does not know that it was sent");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(gate.arrived.load(Relaxed), 2);
}
