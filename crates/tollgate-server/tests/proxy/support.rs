//! A proxy of its own for a test, upstreams, and clients.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tollgate_server::{ListenAddress, Server, Settings};

/// Longer than anything may take on a machine with other work.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// A proxy with its rules, which ends with the test.
pub(crate) struct Proxy {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    pub(crate) rules: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
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
    let file = path("rules.toml");
    std::fs::write(&file, format!("version = 1\n{rules}")).unwrap();
    let mut settings = Settings::new(&file);
    settings.proxy.push("127.0.0.1:0".parse().unwrap());
    settings.forward.upstreams = upstreams.iter().map(|upstream| upstream.parse().unwrap()).collect();
    settings.threads = NonZeroUsize::MIN;
    set(&mut settings);
    let server = Server::start(settings).await.unwrap();
    let Some(ListenAddress::Tcp(address)) = server.addresses().last() else { panic!("no TCP listener") };
    Proxy { address: *address, server, rules: file }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.rules);
    }
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
        call(self.address, method, path, headers, body).await
    }

    pub(crate) async fn status(&self, path: &str) -> u16 {
        self.get(path, &[]).await.status.as_u16()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and reads what comes until the connection ends.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // A connection that is reset has been answered before.
        let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("the connection ends");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A client of HTTP/2.
    pub(crate) async fn http2<B>(&self) -> hyper::client::conn::http2::SendRequest<B>
    where
        B: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
            + Unpin
            + Send
            + 'static,
    {
        let stream = TokioIo::new(self.connect().await);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender
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
    let mut request = Request::builder().method(method).uri(path).header("host", "a.test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    whole(timeout(LONG, sender.send_request(request)).await.unwrap().unwrap()).await
}

pub(crate) async fn whole(answer: Response<Incoming>) -> Answer {
    let (parts, body) = answer.into_parts();
    let body = timeout(LONG, body.collect()).await.unwrap().unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}

pub(crate) fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

/// An upstream of HTTP/1 and HTTP/2 with this handler. Returns its address.
pub(crate) async fn upstream<F>(
    handler: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) -> SocketAddr
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    upstream_at("127.0.0.1:0".parse().unwrap(), handler).await
}

/// The same at an address.
pub(crate) async fn upstream_at<F>(
    address: SocketAddr,
    handler: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) -> SocketAddr
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let handler = handler.clone();
            let service = hyper::service::service_fn(move |request| {
                let answer = handler(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            tokio::spawn(async move {
                let builder = Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// An upstream that answers with what it was asked: its head as text. The path `/status/401` is
/// answered with that status, and the header `x-cost` is repeated.
pub(crate) async fn echo() -> String {
    let address = upstream(|request: Request<Incoming>| async move {
        let mut said = format!("{} {} {:?}\n", request.method(), request.uri(), request.version());
        for (name, value) in request.headers() {
            said += &format!("{name}: {}\n", value.to_str().unwrap());
        }
        let status = request.uri().path().strip_prefix("/status/").map_or("200", |status| status);
        let mut response = Response::builder().status(status);
        if let Some(cost) = request.headers().get("x-cost") {
            response = response.header("x-cost", cost);
        }
        let body = request.into_body().collect().await;
        said += &body.map_or("broken".into(), |body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        response.body(full(said)).unwrap()
    });
    format!("http://{}", address.await)
}

/// An upstream that answers each request only when it is told, and counts those that have arrived.
pub(crate) struct Gate {
    pub(crate) url: String,
    pub(crate) arrived: Arc<AtomicUsize>,
    open: tokio::sync::watch::Sender<bool>,
}

impl Gate {
    pub(crate) async fn new() -> Self {
        let (open, opened) = tokio::sync::watch::channel(false);
        let arrived = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&arrived);
        let address = upstream(move |request: Request<Incoming>| {
            let (mut opened, counted) = (opened.clone(), Arc::clone(&counted));
            async move {
                counted.fetch_add(1, Relaxed);
                if request.uri().path() != "/free" {
                    let _ = opened.wait_for(|open| *open).await;
                }
                Response::new(full("done"))
            }
        });
        Self { url: format!("http://{}", address.await), arrived, open }
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(crate) fn close(&self) {
        self.open.send_replace(false);
    }

    pub(crate) async fn arrivals(&self, count: usize) {
        eventually(|| self.arrived.load(Relaxed) >= count).await;
    }
}

/// An upstream that records the bytes of each connection, and answers each head with these bytes.
pub(crate) async fn recorder(answer: &'static [u8]) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let record = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&record);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let recorded = Arc::clone(&recorded);
            tokio::spawn(async move {
                let (mut own, mut buffer) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    recorded.lock().unwrap().extend_from_slice(&buffer[..read]);
                    own.extend_from_slice(&buffer[..read]);
                    let whole = String::from_utf8_lossy(&own).into_owned();
                    let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
                    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
                    let length = length.map_or(0, |length| length.parse().unwrap());
                    let is_whole = match head.contains("transfer-encoding: chunked") {
                        true => body.ends_with("\r\n\r\n") && format!("\r\n{body}").contains("\r\n0\r\n"),
                        false => body.len() >= length,
                    };
                    if is_whole {
                        own.clear();
                        let _ = stream.write_all(answer).await;
                    }
                }
            });
        }
    });
    (url, record)
}

/// Waits until something is so.
pub(crate) async fn eventually(is_so: impl Fn() -> bool) {
    timeout(LONG, async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it becomes so");
}

/// A body that the test writes: it ends with its sender, and breaks off where there is no data.
pub(crate) struct Written(tokio::sync::mpsc::Receiver<Option<Bytes>>);

#[derive(Debug)]
pub(crate) struct BrokenOff;

impl Written {
    pub(crate) fn new() -> (tokio::sync::mpsc::Sender<Option<Bytes>>, Self) {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        (sender, Self(receiver))
    }
}

impl hyper::body::Body for Written {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, BrokenOff>>> {
        let frame = |data: Option<Bytes>| data.map(hyper::body::Frame::data).ok_or(BrokenOff);
        self.0.poll_recv(context).map(|data| data.map(frame))
    }
}

impl std::fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it breaks off")
    }
}

impl std::error::Error for BrokenOff {}

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
