//! Answers of HTTP/2 that their client does not take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::{sleep, timeout};
use tollgate_server::Settings;
use tollgate_testing::upstream::{Written, full, upstream};
use tollgate_testing::wait::{LONG, eventually};

use super::bodies::hasty;
use super::support::{start_with, unbuffered};

/// Other paths pass.
const ONE_HELD: &str =
    "rule = [{ name = 'at-once', match.path = '/held/**', key = 'everyone', limits = 'in-flight:1' }]";

/// Answers without end, of four bytes, and of none.
async fn answers() -> String {
    let address = upstream(|request: Request<Incoming>| async move {
        match request.uri().path() {
            "/held/endless" => {
                let (sender, body) = Written::new();
                tokio::spawn(async move {
                    while sender.send(Some(Bytes::from_static(&[b'x'; 1 << 16]))).await.is_ok() {}
                });
                Response::new(body.map_err(|error| unreachable!("{error}")).boxed())
            }
            "/none" => Response::new(full("")),
            _ => Response::new(full("done")),
        }
    });
    format!("http://{}", address.await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_stream_alone_is_reset() {
    const PAUSE: Duration = Duration::from_millis(20);
    let proxy = start_with(ONE_HELD, &[answers().await], hasty).await;
    for (window, path) in [(0, "endless"), (1, "endless"), (65_535, "endless"), (0, "small"), (1, "small")] {
        let stream = TokioIo::new(proxy.connect().await);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window).initial_connection_window_size(1 << 30);
        let (mut sender, connection) = builder.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let get =
            |path: &str| Request::get(format!("http://a.test{path}")).body(Full::<Bytes>::default()).unwrap();
        // Without a window there can be no body.
        let (other, whole) = if window == 0 { ("/none", "") } else { ("/small", "done") };
        let mut stalled = sender.send_request(get(&format!("/held/{path}"))).await.unwrap();
        let (began, mut exchanged) = (Instant::now(), 0);
        // Another stream goes on, before and after.
        let mut goes_on = async || {
            let answer = timeout(LONG, sender.send_request(get(other))).await;
            let answer = answer.unwrap().unwrap();
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), whole);
            sleep(PAUSE).await;
        };
        while proxy.status("/held/small").await == 429 {
            assert!(began.elapsed() < LONG, "window {window}: {path} is not reset");
            goes_on().await;
            exchanged += 1;
        }
        // A short answer gives its place back as soon as hyper has all of it.
        assert!(exchanged > 3 || path == "small", "{exchanged} in {:?}", began.elapsed());
        for _ in 0..75 {
            goes_on().await;
        }
        let error = loop {
            let frame = timeout(LONG, stalled.body_mut().frame()).await.unwrap();
            if let Err(error) = frame.expect("it is not whole") {
                break format!("{error:?}");
            }
        };
        assert!(error.contains("CANCEL"), "{error}");
        goes_on().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_stream_that_uploads_is_reset() {
    let broken = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&broken);
    // An upstream that answers while it reads.
    let address = upstream(move |request: Request<Incoming>| {
        let noted = Arc::clone(&noted);
        tokio::spawn(async move {
            if request.into_body().collect().await.is_err() {
                noted.fetch_add(1, Relaxed);
            }
        });
        let (sender, body) = Written::new();
        tokio::spawn(async move { while sender.send(Some(Bytes::from_static(b"answer"))).await.is_ok() {} });
        async { Response::new(body.map_err(|error| unreachable!("{error}")).boxed()) }
    })
    .await;
    for (number, scheme) in ["http", "h2c"].into_iter().enumerate() {
        let set = |settings: &mut Settings| {
            hasty(settings);
            unbuffered(settings);
        };
        let proxy = start_with(ONE_HELD, &[format!("{scheme}://{address}")], set).await;
        let stream = TokioIo::new(proxy.connect().await);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let (mut sender, connection) = builder.initial_stream_window_size(0).handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let (upload, body) = Written::new();
        let request = Request::post("http://a.test/").body(body).unwrap();
        let mut stalled = sender.send_request(request).await.unwrap();
        let uploads = async {
            // More each second than `--least-rate`.
            while upload.send(Some(Bytes::from_static(&[b'x'; 1_000]))).await.is_ok() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(LONG, uploads).await.expect("the client is told to stop");
        let end = timeout(LONG, stalled.body_mut().frame()).await.unwrap().unwrap();
        assert!(format!("{end:?}").contains("CANCEL"), "{scheme}: {end:?}");
        eventually(|| broken.load(Relaxed) > number).await;
        assert!(!sender.is_closed());
    }
}
