//! Redis clients over TLS and over a Unix socket.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::clients::prints;
use super::{Client, Running, tools};

/// A folder that is removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tollgate-resp-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn redis_clients_ask_over_tls() {
    let folder = Folder::new("tls");
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let [cert, private] = ["cert.pem", "key.pem"].map(|name| folder.file(name));
    std::fs::write(&cert, certificate.pem()).unwrap();
    std::fs::write(&private, key.serialize_pem()).unwrap();
    let files = format!("{cert},{private}").parse().unwrap();
    let running = Running::new(|settings| settings.resp_tls = Some(files)).await;

    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap();
    let mut client = Client { stream };
    client.hears("PING", "+PONG\r\n").await;
    client.throttles("a 15 30 60", [0, 16, 15, -1, 2]).await;
    // More than a record of TLS, in one go.
    client.say("CL.THROTTLE b 4999 1 1\r\n".repeat(5_000)).await;
    client.say("PING\r\n").await;
    let heard = client.until_pong().await;
    assert_eq!((heard.matches("*5\r\n:0\r\n").count(), heard.matches("*5\r\n").count()), (5_000, 5_000));

    // A client without TLS learns nothing, and is charged nothing.
    let mut plain = running.connect().await;
    plain.say("CL.THROTTLE a 15 30 60\r\n").await;
    let heard = plain.rest().await;
    assert!(!heard.contains("*5"), "{heard:?}");

    let Some(cli) = tools::find("redis-cli") else { return };
    let port = running.address.port().to_string();
    let connect = ["-h", "localhost", "-p", &port, "--tls", "--cacert", &cert];
    let asks = [&connect[..], &["CL.THROTTLE", "a", "15", "30", "60"]].concat();
    assert_eq!(prints(cli, &asks).await, "0\n16\n14\n-1\n4\n");
}

#[tokio::test]
async fn redis_clients_ask_over_a_unix_socket() {
    let folder = Folder::new("unix");
    let path = folder.file("tollgate.sock");
    let address = format!("unix:{path}").parse().unwrap();
    let running = Running::new(|settings| settings.resp.push(address)).await;
    let mut client = Client { stream: UnixStream::connect(&path).await.unwrap() };
    client.throttles("a 15 30 60", [0, 16, 15, -1, 2]).await;
    // Both listeners have the same keys.
    running.connect().await.throttles("a 15 30 60", [0, 16, 14, -1, 4]).await;
    if let Some(cli) = tools::find("redis-cli") {
        let asks = ["-s", &path, "CL.THROTTLE", "a", "15", "30", "60"];
        assert_eq!(prints(cli, &asks).await, "0\n16\n13\n-1\n6\n");
    }
    drop(client);
    running.end().await;
    assert!(UnixStream::connect(&path).await.is_err(), "nothing listens any more");
}
