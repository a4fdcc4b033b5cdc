//! A proxy of its own for a test, and clients that may leave it.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tollgate_server::Settings;
use tollgate_testing::client;
use tollgate_testing::http::Answer;
use tollgate_testing::servers::{Running, loopback};
use tollgate_testing::upstream::Written;
use tollgate_testing::wait::{LONG, eventually};

/// A proxy with its rules, which ends with the test.
pub(crate) struct Proxy(Running);

impl Deref for Proxy {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.0
    }
}

/// A path that no other test has.
pub(crate) fn path(name: &str) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("tollgate-proxy-{}-{number}-{name}", std::process::id()))
}

pub(crate) async fn start(rules: &str, upstreams: &[String]) -> Proxy {
    start_with(rules, upstreams, |_| {}).await
}

/// Starts a proxy in front of these upstreams. All clients are on one thread, so that each request
/// may find the connection to an upstream that the one before has left.
pub(crate) async fn start_with(rules: &str, upstreams: &[String], set: impl FnOnce(&mut Settings)) -> Proxy {
    let settings = |settings: &mut Settings, _: &_| {
        settings.proxy.push(loopback());
        settings.forward.upstreams = upstreams.iter().map(|upstream| upstream.parse().unwrap()).collect();
        settings.threads = NonZeroUsize::MIN;
        set(settings);
    };
    Proxy(Running::start(rules, settings).await)
}

/// Bodies go on as they come.
pub(crate) fn unbuffered(settings: &mut Settings) {
    settings.forward.buffer_requests = 0;
}

impl Proxy {
    /// A request by a connection of its own.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.call("GET", path, headers, "").await
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> Answer {
        call(self.proxy(), method, path, headers, body).await
    }

    pub(crate) async fn status(&self, path: &str) -> u16 {
        self.get(path, &[]).await.status.as_u16()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        client::connect(self.proxy()).await
    }

    /// Sends bytes, and reads what comes until the connection ends.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(&client::talk(self.connect().await, bytes).await).into_owned()
    }

    /// A client of HTTP/2.
    pub(crate) async fn http2<B>(&self) -> hyper::client::conn::http2::SendRequest<B>
    where
        B: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
            + Unpin
            + Send
            + 'static,
    {
        client::http2(self.proxy()).await
    }

    /// Two requests of this status, one after the other: the first is in flight no more. Each ends
    /// its connection to the upstream, which counts them.
    pub(crate) async fn twice(&self, status: u16, ended: &AtomicUsize) {
        for request in 1..=2 {
            assert_eq!(self.status("/").await, status, "request {request}");
            eventually(|| ended.load(Relaxed) == request).await;
        }
    }

    /// Asks until the status is this one: what a client gave back is there soon.
    pub(crate) async fn until(&self, path: &str, status: u16) -> Answer {
        timeout(LONG, async {
            loop {
                let answer = self.get(path, &[]).await;
                if answer.status == status {
                    return answer;
                }
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{path} does not become {status}"))
    }
}

/// A request by a connection of its own.
pub(crate) async fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &'static str,
) -> Answer {
    client::call(address, method, path, &[&[("host", "a.test")], headers].concat(), body).await
}

impl Proxy {
    /// Begins a request of HTTP/1 or HTTP/2, and reads its answer in a task.
    pub(crate) async fn begin(&self, is_http2: bool, request: Request<Written>) -> Call {
        let io = TokioIo::new(self.connect().await);
        let frames = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&frames);
        let read = async move |answer: Response<Incoming>| {
            let mut body = answer.into_body();
            while let Some(Ok(_)) = body.frame().await {
                counted.fetch_add(1, Relaxed);
            }
        };
        if is_http2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            let connection = tokio::spawn(async { drop(connection.await) });
            let call = async move {
                if let Ok(answer) = sender.send_request(request).await {
                    read(answer).await;
                }
                // The connection stays: only the stream ends.
                std::future::pending::<()>().await;
            };
            Call { frames, is_http2, connection, call: tokio::spawn(call) }
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            let connection = tokio::spawn(async { drop(connection.await) });
            let call = async move {
                if let Ok(answer) = sender.send_request(request).await {
                    read(answer).await;
                }
            };
            Call { frames, is_http2, connection, call: tokio::spawn(call) }
        }
    }
}

/// A request that its client may leave.
pub(crate) struct Call {
    /// The parts of the answer's body that have come.
    pub(crate) frames: Arc<AtomicUsize>,
    is_http2: bool,
    connection: tokio::task::JoinHandle<()>,
    call: tokio::task::JoinHandle<()>,
}

impl Call {
    /// The client leaves: it ends the stream of HTTP/2, and the connection of HTTP/1.
    pub(crate) fn leave(&self) {
        self.call.abort();
        if !self.is_http2 {
            self.connection.abort();
        }
    }

    /// Ends everything of the client.
    pub(crate) fn end(self) {
        self.call.abort();
        self.connection.abort();
    }
}
