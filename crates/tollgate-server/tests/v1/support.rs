//! A server of its own for a test, and a client.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tollgate_server::{ListenAddress, Server, Settings};

pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    pub(crate) rules: PathBuf,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A path that no other test has.
pub(crate) fn path(name: &str) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("tollgate-v1-{}-{number}-{name}", std::process::id()))
}

pub(crate) async fn start(rules: &str) -> Running {
    start_with(rules, |_| {}).await
}

/// Starts a server with these rules, each as `[[rule]]` writes them inline.
pub(crate) async fn start_with(rules: &str, set: impl FnOnce(&mut Settings)) -> Running {
    let file = path("rules.toml");
    std::fs::write(&file, format!("version = 1\n{rules}")).unwrap();
    let mut settings = Settings::new(&file);
    settings.http.push("127.0.0.1:0".parse().unwrap());
    set(&mut settings);
    let server = Server::start(settings).await.unwrap();
    let Some(ListenAddress::Tcp(address)) = server.addresses().next() else { panic!("no TCP listener") };
    Running { address: *address, server, rules: file }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.rules);
    }
}

impl Running {
    pub(crate) async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.call("POST", path, &[], body).await
    }

    /// The JSON of an answer.
    pub(crate) async fn ask(&self, path: &str, body: &Value) -> Value {
        self.post(path, body.to_string()).await.json()
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        call(self.address, method, path, headers, body).await
    }
}

/// Calls a server by a connection of its own.
pub(crate) async fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}
