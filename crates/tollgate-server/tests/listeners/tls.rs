//! Certificates of servers and clients, and the protocol that is agreed on.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_server::{ListenAddress, TlsFiles};

use super::proto::Code;
use tollgate_testing::certificates::Authority;
use tollgate_testing::client::{ask, connect};

use super::support::{Grpc, request, start};

const RULES: &str = "rule = [{ name = 'each', key = 'everyone', limits = 'fixed-window:100/d' }]";

/// A client that offers these protocols.
fn offering(client: &TlsConnector, protocols: &[&[u8]]) -> TlsConnector {
    let mut config = (**client.config()).clone();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

async fn shake_hands(client: &TlsConnector, address: SocketAddr) -> TlsStream<TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    client.connect(name, connect(address).await).await.unwrap()
}

#[tokio::test]
async fn envoy_calls_over_tls_with_a_certificate_of_its_own() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let server = start(RULES, |settings, folder| {
        settings.grpc_tls = Some(servers.write(folder, "localhost", Some(&clients)).parse().unwrap());
    })
    .await;
    let address = server.addresses.grpc();
    let client = offering(&servers.client(Some(&clients.sign("envoy"))), &[b"h2"]);
    let stream = shake_hands(&client, address).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let answer = Grpc::over(stream).await.call("d", &[("k", "v")]).await.unwrap();
    assert_eq!((answer.overall_code(), answer.statuses[0].limit_remaining), (Code::Ok, 99));
    // A client without a certificate is not told before its first call, and gets no answer.
    let stranger = shake_hands(&offering(&servers.client(None), &[b"h2"]), address).await;
    let answer = tollgate_testing::client::talk(stranger, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(answer.is_empty(), "{answer:?}");
}

#[tokio::test]
async fn clients_of_http_choose_their_protocol_over_tls() {
    let authority = Authority::new();
    let server = start(RULES, |settings, folder| {
        let files: TlsFiles = authority.write(folder, "localhost", None).parse().unwrap();
        (settings.http_tls, settings.proxy_tls) = (Some(files.clone()), Some(files));
    })
    .await;
    let addresses = server.addresses;
    let plain = authority.client(None);
    for (address, method, path, status) in
        [(addresses.http(), "POST", "/v1/check", 200), (addresses.proxy(), "GET", "/", 502)]
    {
        let both = offering(&plain, &[b"h2", b"http/1.1"]);
        let stream = shake_hands(&both, address).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let stream = hyper_util::rt::TokioIo::new(stream);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, stream).await.unwrap();
        tokio::spawn(connection);
        let asked = http::Request::builder().method(method).uri(format!("https://localhost{path}"));
        let body = http_body_util::Full::<bytes::Bytes>::from(if method == "POST" { "{}" } else { "" });
        let answer = sender.send_request(asked.body(body).unwrap()).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{path}");

        for (client, agreed) in
            [(offering(&plain, &[b"http/1.1"]), Some(&b"http/1.1"[..])), (plain.clone(), None)]
        {
            let mut stream = shake_hands(&client, address).await;
            assert_eq!(stream.get_ref().1.alpn_protocol(), agreed);
            let body = if method == "POST" { "{}" } else { "" };
            let answer = ask(&mut stream, &request(method, path, "", body)).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_listener_that_asks_for_certificates_may_be_open() {
    let authority = Authority::new();
    let server = start(RULES, |settings, folder| {
        let files: TlsFiles = authority.write(folder, "localhost", Some(&authority)).parse().unwrap();
        let everywhere: ListenAddress = "0.0.0.0:0".parse().unwrap();
        for listener in [&mut settings.http, &mut settings.admin, &mut settings.grpc, &mut settings.resp] {
            *listener = vec![everywhere.clone()];
        }
        for tls in
            [&mut settings.http_tls, &mut settings.admin_tls, &mut settings.grpc_tls, &mut settings.resp_tls]
        {
            *tls = Some(files.clone());
        }
    })
    .await;
    assert!(server.addresses.grpc().ip().is_unspecified());
}
