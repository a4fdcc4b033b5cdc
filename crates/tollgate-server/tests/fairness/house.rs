//! A server with one door, and an upstream of few workers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tollgate_server::Settings;
use tollgate_testing::certificates::Authority;
use tollgate_testing::servers::{Running, loopback};
use tollgate_testing::upstream::{Body, Written, full};

/// The connections of the listener, and those of a client.
const CONNECTIONS: (usize, usize) = (64, 32);

/// The requests that the upstream serves at a time, as a server with a process for each does.
const WORKERS: usize = 2;

/// The streams of a connection to the upstream.
const STREAMS: u32 = 24;

/// How long a request may take to arrive at the proxy. In it, hyper's connections are looked at
/// four times.
const ARRIVAL: Duration = Duration::from_secs(2);

/// An answer that no buffer on the way holds.
static BIG: LazyLock<Bytes> = LazyLock::new(|| vec![b'x'; 20 << 20].into());

/// What listeners hold of requests that are not whole.
const UNFINISHED: usize = 1 << 20;

/// The tickets of each kind that all clients may have, by the memory for the rules.
pub(crate) const TICKETS: usize = (MEMORY << 20) / 16 / 512;
const MEMORY: usize = 16;

/// The requests in flight of all clients of the proxy.
const IN_FLIGHT: usize = 80;

/// The password of Redis clients.
pub(crate) const PASSWORD: &str = "p";

fn rules(door: Door) -> String {
    let in_flight = if door.is_proxy() { IN_FLIGHT } else { 2 * TICKETS };
    format!(
        "memory_budget_mib = {MEMORY}
        rule = [
            {{ name = 'all', key = 'everyone', limits = ['1000000/s', 'in-flight:{in_flight}'] }},
            {{ name = 'refused', match.path = '/refused', key = 'everyone', limits = 'fixed-window:1/d' }},
            {{ name = 'queued', match.path = '/queued', key = 'everyone',
               limits = 'leaky-bucket:1/h,capacity=100,mode=queue' }},
        ]"
    )
}

/// Where clients come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// By HTTP/1, to an upstream of HTTP/1.
    Proxy,
    /// To an upstream of HTTP/2.
    ProxyHttp2,
    /// By HTTP/1 and TLS, to an upstream of HTTP/2.
    ProxyTls,
    /// By one connection of HTTP/2, as a proxy in front makes it for all its clients.
    ProxyShared,
    Http,
    Grpc,
    Resp,
    Admin,
}

/// A server, with what its clients need.
pub(crate) struct House {
    pub(crate) door: Door,
    server: Running,
    tls: Option<TlsConnector>,
    /// The connection of all clients.
    pub(crate) shared: Option<SendRequest<Body>>,
}

/// How a connection of a client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    /// As one with unread bytes does.
    Reset,
}

/// The bytes of a connection.
pub(crate) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

impl Door {
    pub(crate) const ALL: [Self; 8] = [
        Self::Proxy,
        Self::ProxyHttp2,
        Self::ProxyTls,
        Self::ProxyShared,
        Self::Http,
        Self::Grpc,
        Self::Resp,
        Self::Admin,
    ];

    fn is_proxy(self) -> bool {
        matches!(self, Self::Proxy | Self::ProxyHttp2 | Self::ProxyTls | Self::ProxyShared)
    }
}

impl House {
    pub(crate) async fn start(door: Door) -> Self {
        LazyLock::force(&BIG);
        let scheme = if matches!(door, Door::Proxy | Door::ProxyShared) { "http" } else { "h2c" };
        let url = format!("{scheme}://{}", upstream().await);
        let authority = Authority::new();
        let set = |settings: &mut Settings, folder: &std::path::Path| {
            settings.threads = NonZeroUsize::MIN;
            (settings.limits.connections, settings.limits.client_connections) =
                (CONNECTIONS.0, Some(CONNECTIONS.1));
            settings.limits.unfinished_bytes = Some(UNFINISHED);
            settings.resp_password = Some(PASSWORD.to_owned().into());
            match door {
                Door::Proxy | Door::ProxyHttp2 | Door::ProxyTls | Door::ProxyShared => {
                    settings.proxy.push(loopback());
                    settings.forward.upstreams.push(url.parse().unwrap());
                    settings.limits.read_timeout = ARRIVAL;
                }
                Door::Http => settings.http.push(loopback()),
                Door::Grpc => settings.grpc.push(loopback()),
                Door::Resp => settings.resp.push(loopback()),
                Door::Admin => settings.admin.push(loopback()),
            }
            if door == Door::ProxyTls {
                settings.proxy_tls = Some(authority.write(folder, "localhost", None).parse().unwrap());
            }
        };
        let server = Running::start(&rules(door), set).await;
        let tls = (door == Door::ProxyTls).then(|| authority.client(None));
        let mut house = Self { door, server, tls, shared: None };
        if door == Door::ProxyShared {
            house.shared = Some(house.streams([127, 0, 0, 1]).await.expect("it listens"));
        }
        house
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self.door {
            Door::Proxy | Door::ProxyHttp2 | Door::ProxyTls | Door::ProxyShared => self.server.proxy(),
            Door::Http => self.server.http(),
            Door::Grpc => self.server.grpc(),
            Door::Resp => self.server.resp(),
            Door::Admin => self.server.admin(),
        }
    }

    /// A connection of HTTP/2 from this address.
    pub(crate) async fn streams(&self, from: [u8; 4]) -> std::io::Result<SendRequest<Body>> {
        let stream = self.connect(from, End::Closed).await?;
        let made = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// A connection from this address.
    pub(crate) async fn connect(&self, from: [u8; 4], end: End) -> std::io::Result<Box<dyn Io>> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        let stream = socket.connect(self.address()).await?;
        stream.set_nodelay(true)?;
        if end == End::Reset {
            stream.set_zero_linger()?;
        }
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some(tls) => {
                let name = "localhost".try_into().expect("it is a name");
                Ok(Box::new(tls.connect(name, stream).await?))
            }
        }
    }
}

/// Serves a few requests at a time, each from its head until its body has come and its answer is
/// sent. `/big` is long, `/stream` never ends, and `/silent` has no answer: they take no worker.
async fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let workers = Arc::new(Semaphore::new(WORKERS));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("it is a connection");
            let workers = Arc::clone(&workers);
            let service = hyper::service::service_fn(move |request| {
                let workers = Arc::clone(&workers);
                async move { Ok::<_, Infallible>(serve(request, &workers).await) }
            });
            tokio::spawn(async move {
                let mut builder = Builder::new(TokioExecutor::new());
                builder.http2().max_concurrent_streams(STREAMS);
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

async fn serve(request: Request<Incoming>, workers: &Semaphore) -> Response<Body> {
    match request.uri().path() {
        "/big" => Response::new(full(BIG.clone())),
        "/silent" => std::future::pending().await,
        "/stream" => {
            let (sender, body) = Written::new();
            tokio::spawn(async move {
                while sender.send(Some(Bytes::from_static(b"x"))).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
            Response::new(body.map_err(|error| unreachable!("{error:?}")).boxed())
        }
        _ => {
            let _worker = workers.acquire().await.expect("they stay");
            let _ = request.into_body().collect().await;
            Response::new(full("done"))
        }
    }
}
