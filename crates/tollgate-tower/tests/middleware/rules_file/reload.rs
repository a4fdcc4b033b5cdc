//! A file that changes while the layer serves.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use tollgate_tower::{ReloadError, RulesError, RulesLayer};

use super::{File, X, send, serve_by, status, statuses};
use crate::support::{Echo, HttpClient, header, request, serve};

type Told = Receiver<Result<u64, String>>;

fn rules(limits: &str) -> String {
    format!("rule = [{{ name = 'each', key = 'client', limits = '{limits}' }}]")
}

/// A layer with these rules, and the reports of its reloads.
fn watched(file: &File) -> (RulesLayer, Told) {
    let (send, told) = channel();
    let layer = file.layer().on_reload(move |reloaded| {
        let _ = send.send(reloaded.map_err(ToString::to_string));
    });
    (layer.build().unwrap(), told)
}

/// The next report. Within a second, and some for a machine that is busy.
async fn next(told: &Told) -> Result<u64, String> {
    for _ in 0..500 {
        if let Ok(reloaded) = told.try_recv() {
            return reloaded;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing is told")
}

#[tokio::test]
async fn a_changed_limit_is_in_force_while_requests_run() {
    let file = File::new(&rules("10/d"));
    let (layer, told) = watched(&file);
    assert_eq!(statuses(&layer, 8, "/", &[X]).await, [200; 8]);
    file.write(&rules("20/d"));
    assert_eq!(next(&told).await, Ok(2));
    let response = send(&layer, "/", &[X]).await;
    assert_eq!(header(&response, "ratelimit-policy"), Some("\"each\";q=20;w=86400"));
    assert!(header(&response, "ratelimit").unwrap().starts_with("\"each\";r=11"), "eight stay charged");
    assert_eq!(layer.status().generation, 2);
}

#[tokio::test]
async fn a_broken_file_leaves_the_old_rules_and_is_told() {
    let file = File::new(&rules("2/d"));
    let (layer, told) = watched(&file);
    assert_eq!(status(&layer, "/", &[X]).await, 200);
    for (text, error) in [
        ("rule = [{ name = 'each', kye = 'client', limits = '9/d' }]", "did you mean `key`?"),
        ("rule = [{ name = 'each', key = 'client', limits = 'sliding-log:9/d' }]", "1 key owes"),
    ] {
        file.write(text);
        let told = next(&told).await.unwrap_err();
        assert!(told.contains(error), "{told}");
        let last = layer.last_error().unwrap().to_string();
        assert_eq!((layer.status().generation, last), (1, told));
    }
    assert_eq!(statuses(&layer, 2, "/", &[X]).await, [200, 429]);
    file.write(&rules("3/d"));
    assert_eq!(next(&told).await, Ok(2));
    assert_eq!(statuses(&layer, 2, "/", &[X]).await, [200, 429]);
    assert!(layer.last_error().is_none());
}

#[tokio::test]
async fn proxies_and_answers_change_with_the_file() {
    let file = File::new(&rules("1/d"));
    let (layer, told) = watched(&file);
    let proxied = [("peer", "10.0.0.2"), ("x-forwarded-for", "203.0.113.9")];
    assert_eq!(statuses(&layer, 2, "/", &proxied).await, [200, 429]);
    file.write(&format!(
        "clients.trusted_proxies = ['10.0.0.2']\nanswer = {{ status = 503, styles = [] }}\n{}",
        rules("1/d")
    ));
    assert_eq!(next(&told).await, Ok(2));
    assert_eq!(status(&layer, "/", &proxied).await, 200, "the client has its own limit");
    let refused = send(&layer, "/", &[X]).await;
    assert_eq!((refused.status().as_u16(), header(&refused, "ratelimit")), (503, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_limit_comes_into_force_over_real_connections() {
    let file = File::new(&rules("1000000/s"));
    let peer = |info: &ConnectInfo<SocketAddr>| Some(info.0.ip());
    let layer = RulesLayer::watch(&file.0, peer).unwrap();
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer.clone());
    let client = HttpClient::to(serve(app).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (client, is_over) = (client.clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                while !is_over.load(Relaxed) {
                    let status = client.status("/", &[]).await;
                    assert!(matches!(status, 200 | 429), "{status}");
                }
            })
        })
        .collect();
    for (number, limits) in ["2/d", "1000000/s", "1/d"].into_iter().enumerate() {
        let changed = Instant::now();
        file.write(&rules(limits));
        let expected = if limits == "1000000/s" { 200 } else { 429 };
        while client.status("/", &[]).await != expected {
            assert!(changed.elapsed() < Duration::from_secs(5), "{limits} is not in force");
        }
        assert_eq!(layer.status().generation, number as u64 + 2);
    }
    is_over.store(true, Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn no_request_mixes_the_proxies_of_two_generations() {
    // Each file admits the client that it sees, and blocks the one that the other would see.
    let blocks = |client| {
        format!("rule = [{{ name = 'b', match.client = '{client}', key = 'everyone', limits = 'block' }}]")
    };
    let file = File::new(&blocks("203.0.113.9"));
    let (layer, is_due) = (Arc::new(OnceLock::<RulesLayer>::new()), Arc::new(AtomicBool::new(false)));
    let (reloads, once) = (Arc::clone(&layer), Arc::clone(&is_due));
    let peer = move |peer: &SocketAddr| {
        // The rules change while the request is decided.
        if once.swap(false, Relaxed) {
            assert_eq!(reloads.get().unwrap().reload().unwrap(), 2);
        }
        Some(peer.ip())
    };
    let built = RulesLayer::builder(&file.0, peer).on_reload(|_| {}).build().unwrap();
    let layer = layer.get_or_init(|| built);
    let proxied = [("peer", "10.0.0.2"), ("x-forwarded-for", "203.0.113.9")];
    assert_eq!(status(layer, "/", &proxied).await, 200);
    file.write(&format!("clients.trusted_proxies = ['10.0.0.2']\n{}", blocks("10.0.0.2")));
    is_due.store(true, Relaxed);
    assert_eq!(serve_by(layer, Echo, request("/", &proxied)).await.status(), 200);
    assert_eq!(layer.status().generation, 2);
}

#[cfg(feature = "metrics")]
#[test]
fn decisions_and_reloads_are_counted() {
    let (series, file) = (crate::series::Series::default(), File::new(&rules("1/d")));
    metrics::with_local_recorder(&series, || {
        let layer = file.layer().on_reload(|_| {}).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(statuses(&layer, 2, "/", &[X])), [200, 429]);
        file.write("");
        assert_eq!(layer.reload().unwrap(), 2);
        assert_eq!(runtime.block_on(statuses(&layer, 3, "/", &[X])), [200; 3]);
        file.write("rule = 7");
        assert!(layer.reload().is_err());
    });
    let requests = series.named("tollgate_requests_total");
    assert_eq!((requests["each enforced allowed"], requests["each enforced limited"]), (1.0, 1.0));
    assert_eq!(series.named("tollgate_unmatched_total")[""], 3.0);
    let reloads = series.named("tollgate_rules_reloads_total");
    assert_eq!((reloads["success"], reloads["failure"]), (1.0, 1.0));
}

#[test]
fn a_layer_with_a_broken_file_is_not_built() {
    let file = File::new("rule = [{ name = 'each', key = 'client', limits = '10/month' }]");
    let error = file.layer().build().unwrap_err();
    assert!(matches!(error, RulesError::Rules(ReloadError::File(_))));
    let shown = format!("{error:?}");
    assert!(shown.contains("rules.toml:2:") && shown.contains("expected 30d"), "{shown}");
    let wrong = "rule = [{ name = 'a', key = 'everyone', limits = '1/d' }]
        [[test]]
        name = 'two'
        steps = [{ send = 'GET /', times = 2, expect = 'admitted' }]";
    let error = File::new(wrong).layer().build().unwrap_err();
    assert!(matches!(error, RulesError::Rules(ReloadError::Tests(_))), "{error}");
}

#[test]
fn the_watching_thread_ends_with_the_last_service() {
    let file = File::new(&rules("1/d"));
    let (layer, told) = watched(&file);
    let service = tower::Layer::layer(&layer, crate::support::Echo);
    drop(layer);
    assert!(matches!(told.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)), "the service needs it");
    drop(service);
    assert!(matches!(told.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected)));
}
