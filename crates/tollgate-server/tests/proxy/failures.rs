//! What the log says of an upstream that fails, and of files that are wrong.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, CertifiedKey, DnType, KeyPair, generate_simple_self_signed};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tollgate_server::{Server, Settings};
use tracing_subscriber::filter::LevelFilter;

use super::logged::Logged;
use super::support::{Gate, LONG, Proxy, echo, eventually, path, start_with};

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

/// An upstream over TLS whose certificate has this name. Returns its port, and the file of the
/// certificate.
async fn over_tls(name: &str) -> (u16, PathBuf) {
    let (file, key) = (path("certificate.pem"), KeyPair::generate().unwrap());
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    // Of issuers with one name, rustls would find a bad signature.
    params.distinguished_name.push(DnType::CommonName, file.to_str().unwrap());
    let certificate = params.self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let key = key.serialize_der().try_into().unwrap();
    let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(acceptor.accept(stream).await);
        }
    });
    std::fs::write(&file, certificate.pem()).unwrap();
    (port, file)
}

#[tokio::test]
async fn the_log_says_why_an_upstream_fails() {
    Logged::of_process(LevelFilter::WARN);
    let (unknown, unknown_file) = over_tls("localhost").await;
    let (other, other_file) = over_tls("other.test").await;
    let plain = echo().await.rsplit(':').next().unwrap().to_owned();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("https://{}", silent.local_addr().unwrap());
    for (url, reason) in [
        (silent_url.clone(), "no connection within 100ms"),
        (format!("http://localhost:{closed}"), "Connection refused (os error 111)"),
        (format!("https://localhost:{unknown}"), "TLS: invalid peer certificate: UnknownIssuer"),
        (format!("https://localhost:{other}"), "TLS: invalid peer certificate: certificate not valid"),
        (format!("https://localhost:{plain}"), "TLS: received corrupt message of type "),
    ] {
        let is_silent = url == silent_url;
        let set = |settings: &mut Settings| {
            settings.forward.upstream_ca = Some(other_file.clone());
            settings.forward.connect_timeout = if is_silent { Duration::from_millis(100) } else { LONG };
        };
        let proxy = start_with(ANY, std::slice::from_ref(&url), set).await;
        assert_eq!(proxy.status("/").await, if is_silent { 504 } else { 502 }, "{url}");
        let warned = warning(&url).await;
        let is_said = warned.contains("an upstream fails") && warned.contains(&format!("reason=\"{reason}"));
        assert!(is_said, "{url}: {warned}");
    }
    for file in [unknown_file, other_file] {
        std::fs::remove_file(file).unwrap();
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

#[tokio::test]
async fn swapped_tls_files_are_named_by_their_option() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key, rules) = (path("cert.pem"), path("key.pem"), path("rules.toml"));
    std::fs::write(&certificate, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    std::fs::write(&rules, format!("version = 1\n{ANY}")).unwrap();
    let mut settings = Settings::new(&rules);
    settings.proxy.push("127.0.0.1:0".parse().unwrap());
    settings.forward.upstreams = vec!["http://127.0.0.1:1".parse().unwrap()];
    let swapped = format!("{},{}", key.display(), certificate.display());
    settings.proxy_tls = Some(swapped.parse().unwrap());
    let error = Server::start(settings).await.unwrap_err().to_string();
    let expected = format!("--listen-tls: the certificate {}: it has no certificate", key.display());
    assert_eq!(error, expected);
    for file in [certificate, key, rules] {
        std::fs::remove_file(file).unwrap();
    }
}
