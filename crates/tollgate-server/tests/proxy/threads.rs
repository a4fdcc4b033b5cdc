//! What each thread that serves connections has of its own.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tollgate_server::Settings;
use tollgate_testing::servers::{Running, loopback};
use tollgate_testing::upstream::by_hand;
use tollgate_testing::wait::LONG;

use super::support::start_with;

pub(crate) const ANY: &str = "rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";

/// Answers any request, and counts its connections.
pub(crate) async fn counting() -> (String, Arc<AtomicUsize>) {
    let upstream = by_hand(answers).await;
    (upstream.address.to_string(), upstream.accepted)
}

pub(crate) async fn answers(stream: TcpStream) {
    let answer = |_: Request<Incoming>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
    };
    let builder = Builder::new(TokioExecutor::new());
    let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

#[tokio::test]
async fn each_thread_has_its_own_connection_to_an_upstream() {
    for scheme in ["http", "h2c"] {
        let (address, accepted) = counting().await;
        let three = |settings: &mut Settings| settings.threads = NonZeroUsize::new(3).unwrap();
        let proxy = start_with(ANY, &[format!("{scheme}://{address}")], three).await;
        let mut clients = Vec::new();
        for _ in 0..6 {
            clients.push(proxy.connect().await);
        }
        for _ in 0..5 {
            for client in &mut clients {
                client.write_all(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").await.unwrap();
                let mut answer = Vec::new();
                while !answer.ends_with(b"\r\n\r\n") {
                    answer.push(client.read_u8().await.unwrap());
                }
                assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
            }
        }
        // Each serves two clients, one after the other.
        assert_eq!(accepted.load(Relaxed), 3, "{scheme}");
    }
}

#[tokio::test]
async fn an_end_that_is_dropped_ends_the_server() {
    let (upstream, _) = counting().await;
    let Running { server, addresses, folder: _folder } = Running::start(ANY, |settings, _| {
        settings.proxy.push(loopback());
        settings.forward.upstreams.push(format!("http://{upstream}").parse().unwrap());
        settings.drain_delay = LONG;
    })
    .await;
    let address = addresses.proxy();
    assert!(timeout(Duration::from_millis(50), server.end()).await.is_err(), "it waits");
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(LONG, refused).await.is_ok(), "it still serves");
}
