//! What the log says of an upstream that fails, and of files that are wrong; checks of health.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tollgate_server::{Server, Settings};
use tollgate_testing::certificates::Authority;
use tollgate_testing::folder::Folder;
use tollgate_testing::upstream::{Gate, by_hand, echo};
use tollgate_testing::wait::{LONG, eventually};
use tracing_subscriber::filter::LevelFilter;

use super::logged::Logged;
use super::support::{Proxy, start_with};

const ANY: &str = "rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";

/// The first warning that names this upstream.
async fn warning(upstream: &str) -> String {
    let warned = Logged::of_process(LevelFilter::WARN);
    let found = || {
        let text = warned.text();
        text.lines().find(|line| line.contains(&format!("upstream={upstream} "))).map(str::to_owned)
    };
    eventually(|| found().is_some()).await;
    found().unwrap()
}

/// An upstream over TLS whose certificate has this name. Returns its port.
async fn over_tls(authority: &Authority, name: &str) -> u16 {
    let acceptor = authority.acceptor(name, &[]);
    let serve = move |stream| {
        let accepting = acceptor.accept(stream);
        async { drop(accepting.await) }
    };
    by_hand(serve).await.address.port()
}

#[tokio::test]
async fn the_log_says_why_an_upstream_fails() {
    Logged::of_process(LevelFilter::WARN);
    let (known, folder) = (Authority::new(), Folder::new());
    let unknown = over_tls(&Authority::new(), "localhost").await;
    let other = over_tls(&known, "other.test").await;
    let known_file = folder.write("ca.pem", known.pem());
    let plain = echo().await.rsplit(':').next().unwrap().to_owned();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("https://{}", silent.local_addr().unwrap());
    for (url, kind, reason) in [
        (silent_url.clone(), "connect_timeout", "no connection within 100ms"),
        (format!("http://localhost:{closed}"), "connect", "Connection refused (os error 111)"),
        (format!("https://localhost:{unknown}"), "tls", "TLS: invalid peer certificate: UnknownIssuer"),
        (format!("https://localhost:{other}"), "tls", "TLS: invalid peer certificate: certificate not valid"),
        (format!("https://localhost:{plain}"), "tls", "TLS: received corrupt message of type "),
    ] {
        let is_silent = url == silent_url;
        let set = |settings: &mut Settings| {
            settings.forward.upstream_ca = Some(known_file.clone());
            settings.forward.connect_timeout = if is_silent { Duration::from_millis(100) } else { LONG };
        };
        let proxy = start_with(ANY, std::slice::from_ref(&url), set).await;
        assert_eq!(proxy.status("/").await, if is_silent { 504 } else { 502 }, "{url}");
        let warned = warning(&url).await;
        let said = format!("kind=\"upstream_{kind}\" reason=\"{reason}");
        assert!(warned.contains("an upstream fails") && warned.contains(&said), "{url}: {warned}");
    }
}

/// A proxy that asks this upstream for its health, at a path and in a time.
async fn asking(url: &str, path: &str, timeout: Duration) -> Proxy {
    let set = |settings: &mut Settings| {
        settings.forward.health_path = Some(path.parse().unwrap());
        settings.forward.health_interval = Duration::from_millis(20);
        settings.forward.connect_timeout = timeout;
    };
    start_with(ANY, &[url.to_owned()], set).await
}

#[tokio::test]
async fn the_log_says_why_an_upstream_is_not_well() {
    Logged::of_process(LevelFilter::WARN);
    let (there, gate) = (echo().await, Gate::new().await);
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (url, path, reason) in [
        (there, "/status/503", "status=503"),
        (gate.url.clone(), "/held", "reason=\"it took too long\""),
        (format!("http://{closed}"), "/", "reason=\"Connection refused (os error 111)\""),
    ] {
        let _proxy = asking(&url, path, Duration::from_millis(500)).await;
        let warned = warning(&url).await;
        assert!(warned.contains("an upstream is not well") && warned.contains(reason), "{url}: {warned}");
    }
}

/// Reads a head; `false` if the connection has ended.
async fn is_asked(stream: &mut TcpStream) -> bool {
    let mut head = [0; 4096];
    matches!(stream.read(&mut head).await, Ok(1..))
}

/// The page comes later than its head, as from a server that writes them one after the other.
#[tokio::test]
async fn a_health_page_is_read_to_its_end() {
    const LENGTH: usize = 40_000;
    for (head, end) in [
        (format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n"), ""),
        (format!("HTTP/1.1 503 Gone\r\ntransfer-encoding: chunked\r\n\r\n{LENGTH:x}\r\n"), "\r\n0\r\n\r\n"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answered = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&answered);
        let only = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            while is_asked(&mut stream).await {
                stream.write_all(head.as_bytes()).await.unwrap();
                sleep(Duration::from_millis(20)).await;
                stream.write_all(&[b'.'; LENGTH]).await.unwrap();
                stream.write_all(end.as_bytes()).await.unwrap();
                counted.fetch_add(1, Relaxed);
            }
        });
        let _proxy = asking(&url, "/health", LONG).await;
        eventually(|| answered.load(Relaxed) >= 3 || only.is_finished()).await;
        assert!(!only.is_finished(), "all checks go by one connection");
    }
}

#[tokio::test]
async fn a_health_page_without_end_is_left() {
    let upstream = by_hand(|mut stream| async move {
        assert!(is_asked(&mut stream).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        while stream.write_all(&[b'.'; 4096]).await.is_ok() {}
    })
    .await;
    // The number of bytes ends the check, long before its time.
    let _proxy = asking(&upstream.url(), "/health", 10 * LONG).await;
    eventually(|| upstream.ended.load(Relaxed) >= 2).await;
}

#[tokio::test]
async fn swapped_tls_files_are_named_by_their_option() {
    let folder = Folder::new();
    let files = Authority::new().write(folder.path(), "localhost", None);
    let (certificate, key) = files.split_once(',').unwrap();
    let mut settings = Settings::new(folder.write("rules.toml", format!("version = 1\n{ANY}")));
    settings.proxy.push("127.0.0.1:0".parse().unwrap());
    settings.forward.upstreams = vec!["http://127.0.0.1:1".parse().unwrap()];
    settings.proxy_tls = Some(format!("{key},{certificate}").parse().unwrap());
    let error = Server::start(settings).await.unwrap_err().to_string();
    let expected = format!("--listen-tls: the certificate {key}: it has no certificate");
    assert_eq!(error, expected);
}
