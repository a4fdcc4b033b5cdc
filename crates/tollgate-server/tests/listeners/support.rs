//! A server with all listeners, and clients over any stream.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tollgate_server::{ListenAddress, Server, Settings};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::proto::{Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};

/// Longer than anything may take on a machine with other work.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A server with all listeners, on ports that were free. Nothing listens where its proxy sends
/// requests to.
pub(crate) struct Running {
    pub(crate) server: Option<Server>,
    pub(crate) folder: PathBuf,
    /// Where the proxy sends requests to: bound, so that no other test gets the port.
    _nowhere: TcpSocket,
}

/// Where the listeners are.
#[derive(Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) resp: SocketAddr,
    pub(crate) proxy: SocketAddr,
}

impl Running {
    /// Each rule as `[[rule]]` writes them inline. `edit` gets the settings, and a folder for
    /// further files.
    pub(crate) async fn start(rules: &str, edit: impl FnOnce(&mut Settings, &PathBuf)) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("tollgate-listeners-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("rules.toml"), format!("version = 1\n{rules}")).unwrap();
        let mut settings = Settings::new(folder.join("rules.toml"));
        for listener in [
            &mut settings.http,
            &mut settings.admin,
            &mut settings.grpc,
            &mut settings.resp,
            &mut settings.proxy,
        ] {
            listener.push("127.0.0.1:0".parse().unwrap());
        }
        let nowhere = TcpSocket::new_v4().unwrap();
        nowhere.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let closed = nowhere.local_addr().unwrap();
        settings.forward.upstreams.push(format!("http://{closed}").parse().unwrap());
        edit(&mut settings, &folder);
        Self { server: Some(Server::start(settings).await.unwrap()), folder, _nowhere: nowhere }
    }

    pub(crate) fn addresses(&self) -> Addresses {
        let all = self.server.as_ref().unwrap().addresses().map(|address| match address {
            ListenAddress::Tcp(address) => *address,
            other => panic!("{other}"),
        });
        let [http, admin, grpc, resp, proxy] = all.collect::<Vec<_>>().try_into().unwrap();
        Addresses { http, admin, grpc, resp, proxy }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// A request of HTTP/1.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

/// The answer to a request, on a connection that stays open.
pub(crate) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let read = timeout(LONG, stream.read_buf(&mut answer)).await.expect("it answers").unwrap();
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text.into_owned();
            }
        }
        assert!(read > 0, "{request:?}: {text:?}, and no more");
    }
}

/// Sends these bytes, and returns the answer until the connection ends.
pub(crate) async fn talk<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, said: &[u8]) -> Vec<u8> {
    // A connection that is reset has been answered before.
    let _ = stream.write_all(said).await;
    let mut answer = Vec::new();
    let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("the connection ends");
    answer
}

/// The page of `/metrics`.
pub(crate) async fn metrics(admin: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    ask(admin, &request("GET", "/metrics", "", "")).await
}

/// Hands out one connection that is there.
struct Once<S>(Option<S>);

impl<S> tower_service::Service<Uri> for Once<S> {
    type Response = TokioIo<S>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<TokioIo<S>>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(self.0.take().map(TokioIo::new).ok_or(io::ErrorKind::NotConnected.into()))
    }
}

/// A client for calls over a connection.
pub(crate) struct Grpc(tonic::client::Grpc<Channel>);

impl Grpc {
    pub(crate) async fn over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) -> Self {
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = endpoint.connect_with_connector(Once(Some(stream))).await.unwrap();
        Self(tonic::client::Grpc::new(channel))
    }

    /// A call with one descriptor of these entries.
    pub(crate) async fn call(
        &mut self,
        domain: &str,
        entries: &[(&str, &str)],
    ) -> Result<RateLimitResponse, Status> {
        let entry = |&(key, value): &(&str, &str)| Entry { key: key.into(), value: value.into() };
        let descriptor =
            RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() };
        let call = RateLimitRequest { domain: domain.into(), descriptors: vec![descriptor], hits_addend: 0 };
        self.0.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let codec = tonic_prost::ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let path = PathAndQuery::from_static(METHOD);
        Ok(self.0.unary(Request::new(call), path, codec).await?.into_inner())
    }
}
