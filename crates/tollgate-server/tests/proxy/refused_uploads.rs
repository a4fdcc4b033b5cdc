//! Clients that write all of a request before they read why it is refused.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use tollgate_testing::upstream::echo;
use tollgate_testing::wait::LONG;

use super::support::{Proxy, start_with};

const ONE: &str =
    "rule = [{ name = 'one', match.method = 'POST', key = 'everyone', limits = 'fixed-window:1/d' }]";

/// A proxy that refuses each POST.
async fn refusing() -> Proxy {
    let hasty = |settings: &mut tollgate_server::Settings| {
        settings.limits.read_timeout = Duration::from_secs(1);
    };
    let proxy = start_with(ONE, &[echo().await], hasty).await;
    assert_eq!(proxy.call("POST", "/", &[], "").await.status, 200);
    proxy
}

fn post(headers: &str, length: usize) -> String {
    format!("POST / HTTP/1.1\r\nhost: a.test\r\n{headers}content-length: {length}\r\n\r\n")
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    timeout(LONG, stream.read_to_end(&mut said)).await.expect("the connection ends").unwrap();
    String::from_utf8_lossy(&said).into_owned()
}

/// Longer than a head may take, and than nothing may come.
#[tokio::test]
async fn a_slow_upload_hears_that_it_is_refused() {
    let proxy = refusing().await;
    let mut stream = proxy.connect().await;
    stream.write_all(post("", 70 * 1000).as_bytes()).await.unwrap();
    for _ in 0..70 {
        sleep(Duration::from_millis(100)).await;
        stream.write_all(&[b'x'; 1000]).await.expect("it is read");
    }
    // The connection goes on.
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n").await.unwrap();
    let said = rest(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 429 ") && said.contains("HTTP/1.1 200 "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_upload_hears_that_it_is_refused() {
    let proxy = refusing().await;
    let body = vec![b'x'; 20 << 20];
    // A head that is no request is answered, too, and its connection ends at once.
    for (headers, status) in [("", 429), ("connection: close\r\n", 429), ("host: b.test\r\n", 400)] {
        for _ in 0..3 {
            let mut stream = proxy.connect().await;
            stream.write_all(post(headers, body.len()).as_bytes()).await.unwrap();
            stream.write_all(&body).await.expect("it is read");
            stream.shutdown().await.unwrap();
            let said = rest(&mut stream).await;
            assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{headers:?}: {said}");
        }
    }
}
