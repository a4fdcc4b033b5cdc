//! Bodies of requests of HTTP/2 that are not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;
use tollgate_testing::upstream::{Written, full, upstream};
use tollgate_testing::wait::{LONG, eventually};

use super::support::start;

/// The streams of a connection, and the bytes that each may send unread.
const STREAMS: usize = 200;
const WINDOW: usize = 64 << 10;

const PART: usize = 16 << 10;

/// The first passes, and all others wait for hours.
const HOURLY: &str = "rule = [{ name = 'paced', match.path = '/slow', key = 'everyone',
    limits = 'leaky-bucket:1/h,capacity=500,mode=queue' }]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_uploads_leave_another_its_window() {
    let address = upstream(|request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::new(full(body.len().to_string()))
    })
    .await;
    let proxy = start(HOURLY, &[format!("http://{address}")]).await;
    assert_eq!(proxy.status("/slow").await, 200);
    let mut sender = proxy.http2::<Written>().await;
    let sent = Arc::new(AtomicUsize::new(0));
    for _ in 0..STREAMS - 1 {
        let (upload, body) = Written::new();
        tokio::spawn(sender.send_request(Request::post("http://a.test/slow").body(body).unwrap()));
        let sent = Arc::clone(&sent);
        tokio::spawn(async move {
            while upload.send(Some(Bytes::from_static(&[b'x'; PART]))).await.is_ok() {
                sent.fetch_add(PART, Relaxed);
            }
        });
    }
    eventually(|| sent.load(Relaxed) > (STREAMS - 1) * WINDOW).await;
    let (upload, body) = Written::new();
    tokio::spawn(async move {
        for _ in 0..512 {
            upload.send(Some(Bytes::from_static(&[b'y'; PART]))).await.unwrap();
        }
    });
    let answer = sender.send_request(Request::post("http://a.test/").body(body).unwrap());
    let answer = timeout(LONG, answer).await.expect("it goes on").unwrap();
    let length = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(length, (512 * PART).to_string());
}
