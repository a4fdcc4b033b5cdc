//! A server with all listeners, and clients over any stream.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpSocket;
use tollgate_server::Settings;
use tollgate_testing::client::ask;
use tollgate_testing::servers::{Running, loopback};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::proto::{Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};

pub(crate) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Starts a server with all listeners. Each rule is as `[[rule]]` writes them inline.
pub(crate) async fn start(rules: &str, edit: impl FnOnce(&mut Settings, &Path)) -> Running {
    // Bound, so that no other test gets the port, and nothing listens there.
    static NOWHERE: OnceLock<TcpSocket> = OnceLock::new();
    let nowhere = NOWHERE.get_or_init(|| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket
    });
    let closed = nowhere.local_addr().unwrap();
    let settings = |settings: &mut Settings, folder: &Path| {
        for listener in [
            &mut settings.http,
            &mut settings.admin,
            &mut settings.grpc,
            &mut settings.resp,
            &mut settings.proxy,
        ] {
            listener.push(loopback());
        }
        settings.forward.upstreams.push(format!("http://{closed}").parse().unwrap());
        edit(settings, folder);
    };
    Running::start(rules, settings).await
}

/// A request of HTTP/1.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
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
