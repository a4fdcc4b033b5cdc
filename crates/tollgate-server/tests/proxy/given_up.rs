//! Connections to an upstream of HTTP/2 that are given up, while several threads serve, clients
//! leave, and the rules are exchanged.

use std::collections::HashMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollgate_server::Settings;
use tollgate_testing::wait::{LONG, eventually};

use super::silent::SETTINGS;
use super::support::{Proxy, start_with};

const THREADS: usize = 3;

/// How long a connection may be silent.
const PATIENCE: Duration = Duration::from_millis(150);

/// An upstream whose connections fail, until it is told to be well.
#[derive(Default)]
struct Upstream {
    /// How often each request came.
    came: Mutex<HashMap<String, u64>>,
    /// The connections that end each way.
    ended: [AtomicUsize; 4],
    open: AtomicUsize,
    is_well: AtomicBool,
}

impl Upstream {
    async fn serve(self: Arc<Self>, listener: TcpListener) {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            self.open.fetch_add(1, Relaxed);
            let upstream = Arc::clone(&self);
            tokio::spawn(async move {
                upstream.connection(stream, number % 4).await;
                upstream.open.fetch_sub(1, Relaxed);
            });
        }
    }

    /// Waits for as long as the clients take, which may be long on a busy machine.
    async fn well(&self) {
        while !self.is_well.load(Relaxed) {
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn connection(self: &Arc<Self>, mut stream: TcpStream, way: usize) {
        let served = Arc::new(AtomicUsize::new(0));
        let answer = |request: Request<Incoming>| {
            let (upstream, served) = (Arc::clone(self), Arc::clone(&served));
            async move {
                let path = request.uri().path().to_owned();
                *upstream.came.lock().unwrap().entry(path.clone()).or_default() += 1;
                let number = served.fetch_add(1, Relaxed);
                if path.starts_with("/never") {
                    std::future::pending::<()>().await;
                }
                sleep(Duration::from_millis(number as u64 % 4)).await;
                let body = request.into_body().collect().await.map(|body| body.to_bytes());
                Ok::<_, Infallible>(Response::new(Full::new(body.unwrap_or_default())))
            }
        };
        let ends = async {
            while served.load(Relaxed) < 8 || self.is_well.load(Relaxed) {
                sleep(Duration::from_millis(1)).await;
            }
            self.ended[way].fetch_add(1, Relaxed);
        };
        if way == 0 && !self.is_well.load(Relaxed) {
            // It answers nothing from the beginning on.
            let _ = stream.write_all(SETTINGS).await;
            self.ended[way].fetch_add(1, Relaxed);
            self.well().await;
            while let Ok(1..) = stream.read(&mut [0; 4096]).await {}
            return;
        }
        let builder = http2::Builder::new(TokioExecutor::new());
        let mut serving = pin!(builder.serve_connection(TokioIo::new(&mut stream), service_fn(answer)));
        tokio::select! {
            _ = serving.as_mut() => return,
            () = ends => {}
        }
        match way {
            // It says GOAWAY, and ends what it has begun.
            1 => {
                serving.as_mut().graceful_shutdown();
                let _ = serving.await;
            }
            // It falls silent.
            2 => {
                self.well().await;
                let _ = serving.await;
            }
            // It is gone.
            _ => {}
        }
    }
}

fn rules(turn: u64) -> String {
    let (at_once, rate, name) = (5 + turn % 3, 300 + 100 * (turn % 4), ["each", "one"][turn as usize % 2]);
    format!(
        "version = 1
        rule = [
            {{ name = 'at-once', key = 'everyone', limits = 'in-flight:{at_once}' }},
            {{ name = '{name}', key = 'header.x-key', limits = '{rate}/s,burst=50' }},
        ]"
    )
}

/// Asks again and again, by connections of its own, and leaves some. Returns the paths that were
/// answered by each status.
async fn client(proxy: Arc<Proxy>, client: u64) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    for number in 0..60 {
        let kind = if number % 10 == 9 { "never" } else { "now" };
        let path = format!("/{kind}/{client}-{number}");
        let key = (number % 3).to_string();
        let patience = if (number + client).is_multiple_of(4) { PATIENCE / 5 } else { LONG };
        let headers = [("x-key", &*key)];
        let asked = proxy.call("POST", &path, &headers, "body");
        if let Ok(answer) = timeout(patience, asked).await {
            let status = answer.status.as_u16();
            assert!(status != 200 || answer.body == "body", "{path}: {:?}", answer.body);
            answers.push((status, path));
        }
        sleep(Duration::from_millis(number % 7)).await;
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_given_up_under_reloads_lose_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("h2c://{}", listener.local_addr().unwrap());
    let upstream = Arc::new(Upstream::default());
    tokio::spawn(Arc::clone(&upstream).serve(listener));
    let set = |settings: &mut Settings| {
        settings.threads = NonZeroUsize::new(THREADS).unwrap();
        settings.forward.head_timeout = PATIENCE;
    };
    let proxy = Arc::new(start_with("", &[url], set).await);
    let reload = |rules: String| {
        std::fs::write(proxy.rules(), rules).unwrap();
        proxy.server.reload().unwrap();
    };
    let mut clients = JoinSet::new();
    (0..6).for_each(|number| drop(clients.spawn(client(Arc::clone(&proxy), number))));
    let clients = tokio::spawn(clients.join_all());
    for turn in 0.. {
        if clients.is_finished() {
            break;
        }
        reload(rules(turn));
        sleep(Duration::from_millis(turn % 20)).await;
    }
    let answers: Vec<_> = clients.await.unwrap().into_iter().flatten().collect();
    upstream.is_well.store(true, Relaxed);
    // One request at a time: if one that was given up were in flight still, none would be admitted.
    reload("version = 1\nrule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]".into());
    let all_well = async {
        let mut in_a_row = 0;
        while in_a_row < 4 * THREADS {
            in_a_row = if proxy.status("/last").await == 200 { in_a_row + 1 } else { 0 };
        }
    };
    assert!(timeout(LONG, all_well).await.is_ok(), "a thread keeps a connection that is given up");
    eventually(|| upstream.open.load(Relaxed) <= THREADS).await;
    let mut came = upstream.came.lock().unwrap().clone();
    came.remove("/last");
    let mut statuses = HashMap::<u16, usize>::new();
    for (status, path) in &answers {
        *statuses.entry(*status).or_default() += 1;
        let times = came.get(path).copied().unwrap_or_default();
        assert!(times == 1 || times == 0 && *status != 200, "{path}: {status}, it came {times} times");
        assert!(times == 0 || *status != 429, "{path} was refused, and came");
    }
    let twice: Vec<_> = came.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let ended = [0, 1, 2, 3].map(|way: usize| upstream.ended[way].load(Relaxed));
    eprintln!("{statuses:?}, connections {ended:?}");
    assert!(ended.iter().all(|ended| *ended > 0), "{ended:?}");
}
