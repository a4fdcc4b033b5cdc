//! Connections to an upstream of HTTP/2 that die without a word, or take no more requests.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tollgate_server::Settings;
use tollgate_testing::upstream::{by_hand, full, upstream};
use tollgate_testing::wait::{LONG, eventually};

use super::support::{Proxy, start, start_with};
use super::threads::{ANY, answers};

const SHORT: Duration = Duration::from_secs(1);

/// The settings of an upstream of HTTP/2, by which a connection is open.
pub(crate) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// An upstream whose first connection stays silent, and how many it has.
async fn first_silent() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("h2c://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        let (mut silent, _) = listener.accept().await.unwrap();
        // The time of the first request has begun when it has the connection.
        sleep(SHORT / 10).await;
        silent.write_all(SETTINGS).await.unwrap();
        counted.fetch_add(1, Relaxed);
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Relaxed);
            tokio::spawn(answers(stream));
        }
    });
    (url, accepted)
}

#[tokio::test]
async fn a_silent_connection_of_http2_costs_one_request() {
    let (url, accepted) = first_silent().await;
    let proxy = start_with(ANY, &[url], |settings| settings.forward.head_timeout = SHORT).await;
    assert_eq!(proxy.status("/").await, 504);
    for _ in 0..3 {
        assert_eq!(proxy.status("/").await, 200);
    }
    assert_eq!(accepted.load(Relaxed), 2);
}

/// Asks until an answer is 200.
async fn comes_back(proxy: &Proxy) {
    let back = async {
        while timeout(SHORT, proxy.status("/")).await != Ok(200) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(LONG, back).await.is_ok(), "the connection is kept");
}

#[tokio::test]
async fn clients_that_leave_keep_no_silent_connection() {
    let (url, _) = first_silent().await;
    let proxy = start_with(ANY, &[url], |settings| settings.forward.head_timeout = 2 * SHORT).await;
    assert!(timeout(SHORT, proxy.status("/")).await.is_err());
    comes_back(&proxy).await;
}

#[tokio::test]
async fn a_total_timeout_keeps_no_silent_connection() {
    let (url, _) = first_silent().await;
    let set = |settings: &mut Settings| {
        settings.forward.head_timeout = SHORT;
        settings.forward.total_timeout = Some(SHORT / 2);
    };
    let proxy = start_with(ANY, &[url], set).await;
    assert_eq!(proxy.status("/").await, 504);
    comes_back(&proxy).await;
}

#[tokio::test]
async fn a_silent_connection_ends_no_upstreams_health() {
    let (url, accepted) = first_silent().await;
    let set = |settings: &mut Settings| {
        settings.forward.health_path = Some("/health".parse().unwrap());
        settings.forward.health_interval = SHORT / 2;
        settings.forward.connect_timeout = SHORT;
    };
    let proxy = start_with(ANY, &[url], set).await;
    // The first connection is that of the questions after its health.
    proxy.until("/", 503).await;
    proxy.until("/", 200).await;
    assert!(accepted.load(Relaxed) >= 2);
}

/// Answers all but `/never`, which it counts, until it is told to leave.
async fn answers_all_but_one(stream: TcpStream, leaves: Option<Arc<Notify>>, held: Arc<AtomicUsize>) {
    let answer = |request: Request<Incoming>| {
        let held = Arc::clone(&held);
        async move {
            if request.uri().path() == "/never" {
                held.fetch_add(1, Relaxed);
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }
    };
    let builder = http2::Builder::new(TokioExecutor::new());
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service_fn(answer)));
    if let Some(leaves) = leaves {
        tokio::select! {
            _ = serving.as_mut() => return,
            () = leaves.notified() => serving.as_mut().graceful_shutdown(),
        }
    }
    let _ = serving.await;
}

#[tokio::test]
async fn an_answer_that_never_comes_costs_others_no_connection() {
    let all = by_hand(|stream| answers_all_but_one(stream, None, Arc::default())).await;
    let url = format!("h2c://{}", all.address);
    // Long enough for an answer in between on a machine with other work.
    let patient = |settings: &mut Settings| settings.forward.head_timeout = Duration::from_secs(2);
    let proxy = Arc::new(start_with(ANY, &[url], patient).await);
    let never = tokio::spawn({
        let proxy = Arc::clone(&proxy);
        async move { tokio::join!(proxy.status("/never"), proxy.status("/never")) }
    });
    while !never.is_finished() {
        assert_eq!(proxy.status("/").await, 200);
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(never.await.unwrap(), (504, 504));
    assert_eq!(proxy.status("/").await, 200);
    assert_eq!(all.accepted.load(Relaxed), 1);
}

#[tokio::test]
async fn a_connection_that_takes_no_more_costs_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("h2c://{}", listener.local_addr().unwrap());
    let leaves = Arc::new(Notify::new());
    let told = Arc::clone(&leaves);
    tokio::spawn(async move {
        let (first, _) = listener.accept().await.unwrap();
        tokio::spawn(answers_all_but_one(first, Some(told), Arc::default()));
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answers_all_but_one(stream, None, Arc::default()));
        }
    });
    let proxy = Arc::new(start(ANY, &[url]).await);
    let kept = tokio::spawn({
        let proxy = Arc::clone(&proxy);
        async move { proxy.status("/never").await }
    });
    assert_eq!(proxy.status("/").await, 200);
    // It says GOAWAY, and stays for the request that it has begun.
    leaves.notify_one();
    for _ in 0..4 {
        sleep(Duration::from_millis(50)).await;
        assert_eq!(proxy.call("POST", "/x", &[], "body").await.status, 200);
    }
    kept.abort();
}

/// It says GOAWAY, and takes no connections any more. The other one may speak another version.
#[tokio::test]
async fn another_upstream_serves_what_a_leaving_one_refuses() {
    for (scheme, expected) in
        [("http", "POST /x?y HTTP/1.1 [\"a.test\"]"), ("h2c", "POST http://a.test/x?y HTTP/2.0 []")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let leaving = format!("h2c://{}", listener.local_addr().unwrap());
        let (leaves, held) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (told, counted) = (Arc::clone(&leaves), Arc::clone(&held));
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            drop(listener);
            answers_all_but_one(stream, Some(told), counted).await;
        });
        let counted = Arc::clone(&held);
        let other = upstream(move |request: Request<Incoming>| {
            let counted = Arc::clone(&counted);
            async move {
                if request.uri().path() == "/never" {
                    counted.fetch_add(1, Relaxed);
                    std::future::pending::<()>().await;
                }
                let hosts: Vec<_> = request.headers().get_all("host").iter().collect();
                let said =
                    format!("{} {} {:?} {hosts:?}", request.method(), request.uri(), request.version());
                let body = request.into_body().collect().await.unwrap().to_bytes();
                Response::new(full([said.as_bytes(), &body].concat()))
            }
        });
        let proxy = Arc::new(start(ANY, &[leaving, format!("{scheme}://{}", other.await)]).await);
        // Each upstream serves one, so both are chosen in turn.
        let never = tokio::spawn({
            let proxy = Arc::clone(&proxy);
            async move { tokio::join!(proxy.status("/never"), proxy.status("/never")) }
        });
        eventually(|| held.load(Relaxed) == 2).await;
        leaves.notify_one();
        for request in 0..4 {
            sleep(Duration::from_millis(50)).await;
            let answer = proxy.call("POST", "/x?y", &[], "body").await;
            // The leaving one may serve some, before it says so.
            let is_served = request < 3 && answer.body.is_empty();
            assert!(
                answer.status == 200 && (is_served || answer.body == format!("{expected}body")),
                "{answer:?}"
            );
        }
        never.abort();
    }
}
