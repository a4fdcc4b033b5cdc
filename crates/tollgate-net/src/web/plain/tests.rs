//! Plain requests over sockets.

mod random;

use std::collections::VecDeque;
use std::time::Duration;

use http::HeaderName;
use http::header::DATE;
use http_body_util::Full;
use hyper::body::SizeHint;
use hyper::ext::ReasonPhrase;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::serve::serve;
use super::*;
use crate::Limits;
use crate::listen::{self, Drain, Peer, Presence, Stream};

const LONG: Duration = Duration::from_secs(20);

/// A part of an answer's body: bytes, a wait for the test, or that it breaks off.
enum Part {
    Bytes(Bytes),
    Wait(oneshot::Receiver<()>),
    Break,
}

/// A body that says this length, and comes in parts.
struct Given {
    length: Option<u64>,
    parts: VecDeque<Part>,
}

impl Given {
    fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { length: Some(bytes.len() as u64), parts: [Part::Bytes(bytes)].into() }
    }
}

impl From<Full<Bytes>> for Given {
    fn from(_: Full<Bytes>) -> Self {
        Self::bytes("")
    }
}

impl Body for Given {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(Part::Wait(told)) = self.parts.front_mut() {
            let _ = ready!(Pin::new(told).poll(context));
            self.parts.pop_front();
        }
        Poll::Ready(match self.parts.pop_front() {
            Some(Part::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Part::Break) => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            Some(Part::Wait(_)) | None => None,
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// What a handler has seen of a request.
#[derive(Debug, PartialEq)]
struct Seen {
    line: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Bytes,
}

/// A connection whose answers the test gives.
struct Connection {
    client: TcpStream,
    /// The requests, each with the way to answer it.
    asked: mpsc::UnboundedReceiver<(Seen, oneshot::Sender<Response<Given>>)>,
    drain: Drain,
    served: JoinHandle<()>,
}

impl Connection {
    async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    async fn with(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (asks, asked) = mpsc::unbounded_channel();
        let handler = move |request: Request<RequestBody>| {
            let asks = asks.clone();
            async move {
                let (head, body) = request.into_parts();
                let header = |(name, value): (&HeaderName, &HeaderValue)| {
                    (name.as_str().to_owned(), value.as_bytes().to_vec())
                };
                let headers = head.headers.iter().map(header).collect();
                let line = format!("{} {} {:?}", head.method, head.uri, head.version);
                let body = body.collect().await.unwrap().to_bytes();
                let (answer, answered) = oneshot::channel();
                asks.send((Seen { line, headers, body }, answer)).unwrap();
                answered.await.unwrap()
            }
        };
        let drain = Drain::default();
        let presence = Presence::new(&drain.ends, tokio::time::Instant::now(), &Arc::default());
        let served = tokio::spawn(async move {
            let connection = listen::Connection { stream: Stream::Tcp(stream), peer: Peer::Unix, presence };
            serve(connection, &limits, Arc::new(ListenerCounts::new("http")), handler).await;
        });
        Self { client, asked, drain, served }
    }

    /// The next request, and the way to answer it.
    async fn asked(&mut self) -> (Seen, oneshot::Sender<Response<Given>>) {
        timeout(LONG, self.asked.recv()).await.unwrap().unwrap()
    }

    /// Sends a request, and answers it.
    async fn exchange(&mut self, request: &[u8], answer: Response<Given>) -> (Seen, Heard) {
        self.client.write_all(request).await.unwrap();
        let (seen, way) = self.asked().await;
        assert!(way.send(answer).is_ok());
        (seen, self.hear().await)
    }

    /// The next answer.
    async fn hear(&mut self) -> Heard {
        timeout(LONG, Heard::read(&mut self.client)).await.unwrap()
    }

    /// All that comes until the end.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        timeout(LONG, self.client.read_to_end(&mut rest)).await.unwrap().unwrap();
        rest
    }
}

/// An answer, as its client has it.
#[derive(Debug, PartialEq)]
struct Heard {
    line: String,
    /// In the order of their names. Of the date it is only known that there is one.
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Heard {
    async fn read(client: &mut TcpStream) -> Self {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end_matches("\r\n").split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let mut headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.into(), if name == "date" { "now".into() } else { value.into() }))
            .collect();
        headers.sort();
        let value = |name: &str| headers.iter().find(|(own, _)| own == name).map(|(_, value)| &**value);
        let mut body = Vec::new();
        if value("transfer-encoding").is_some() {
            while !body.ends_with(b"0\r\n\r\n") {
                body.push(client.read_u8().await.unwrap());
            }
        } else if let Some(length) = value("content-length").filter(|_| !line.contains(" 304 ")) {
            body.resize(length.parse().unwrap(), 0);
            client.read_exact(&mut body).await.unwrap();
        }
        Self { line, headers, body }
    }
}

const GET: &[u8] = b"GET /a HTTP/1.1\r\nhost: a.test\r\n\r\n";

#[test]
fn what_is_not_plain_is_left_to_hyper() {
    let read = |bytes: &[u8]| request::read(&Bytes::copy_from_slice(bytes)).map(|(_, length)| length);
    let with = |lines: &str| format!("POST / HTTP/1.1\r\n{lines}\r\n\r\nbody").into_bytes();
    assert_eq!(read(GET), Some(GET.len()));
    assert_eq!(read(&[GET, b"GET /par"].concat()), Some(GET.len()));
    assert_eq!(read(&with("host: a\r\ncontent-length: 4")), Some(with("host: a\r\ncontent-length: 4").len()));
    let kept = with("connection: Keep-Alive\r\ncontent-length: 3");
    assert_eq!(read(&kept), Some(kept.len() - 1));
    for lines in [
        "content-length: 5",
        "content-length: 4\r\ncontent-length: 4",
        "content-length: 4\r\ncontent-length: 0",
        "content-length: +4",
        "content-length: -4",
        "content-length: 4, 4",
        "content-length:",
        "content-length: 0x4",
        "content-length: 99999999999999999999",
        "content-length: 18446744073709551615",
        "content-length : 4",
        "transfer-encoding: chunked",
        "Transfer-Encoding: identity\r\ncontent-length: 4",
        "connection: close",
        "connection: keep-alive, close",
        "connection: upgrade\r\nupgrade: websocket",
        "upgrade: h2c",
        "expect: 100-continue\r\ncontent-length: 4",
        "x-a: 1\r\n x-folded: 1",
        "x\u{e9}: 1",
        "x-a: \u{0}",
        &"x: 1\r\n".repeat(HEADERS + 1),
    ] {
        assert_eq!(read(&with(lines)), None, "{lines:?}");
    }
    for bytes in [
        &b""[..],
        b"G",
        &GET[..GET.len() - 1],
        b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.0\r\nhost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nhost: a\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nhost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ] {
        assert_eq!(read(bytes), None, "{:?}", bytes.escape_ascii().to_string());
    }
}

#[test]
fn answers_that_are_not_plain_are_left_to_hyper() {
    let plain = || Response::builder().body(Given::bytes("four"));
    let with = |name: &str, value: &str| Response::builder().header(name, value).body(Given::bytes("four"));
    let of = |status: u16| Response::builder().status(status).body(Given::bytes(""));
    let length = |answer: Result<Response<Given>, http::Error>| {
        let mut out = b"before".to_vec();
        let length = answer::write_head(&answer.unwrap(), false, &mut out);
        assert!(length.is_some() || out == b"before");
        length
    };
    for answer in [plain(), with("content-length", "4"), with("x-a", "b")] {
        assert_eq!(length(answer), Some(4));
    }
    assert_eq!(length(of(200)), Some(0));
    for answer in [
        with("transfer-encoding", "chunked"),
        with("connection", "close"),
        with("content-length", "5"),
        of(101),
        of(204),
        of(304),
        Response::builder().body(Given { length: None, parts: VecDeque::new() }),
        Response::builder().body(Given::bytes(vec![b'x'; (64 << 10) + 1])),
        Response::builder().extension(ReasonPhrase::from_static(b"Fine")).body(Given::bytes("")),
    ] {
        assert_eq!(length(answer), None);
    }
}

#[tokio::test]
async fn requests_that_came_together_are_answered_in_turn() {
    let mut connection = Connection::new().await;
    let post = b"POST /b HTTP/1.1\r\nhost: a.test\r\ncontent-length: 3\r\n\r\nabc";
    let last = b"HEAD /c HTTP/1.1\r\nhost: a.test\r\n\r\n";
    connection.client.write_all(&[GET, post, GET, last, GET].concat()).await.unwrap();
    for (line, body) in [("GET /a", ""), ("POST /b", "abc"), ("GET /a", ""), ("HEAD /c", ""), ("GET /a", "")]
    {
        let (seen, answer) = connection.asked().await;
        assert!(seen.line.starts_with(line) && seen.body == body, "{seen:?}");
        assert!(connection.asked.try_recv().is_err(), "one at a time");
        let told = if line == "HEAD /c" { "" } else { line };
        assert!(answer.send(Response::new(Given::bytes(told))).is_ok());
        assert_eq!(connection.hear().await.body, told.as_bytes());
    }
}

#[tokio::test]
async fn a_request_is_handled_once_although_hyper_reads_it_again() {
    let mut connection = Connection::new().await;
    let post = b"POST /b HTTP/1.1\r\nhost: a.test\r\ncontent-length: 3\r\n\r\nabc";
    connection.client.write_all(post).await.unwrap();
    let (_, answer) = connection.asked().await;
    // What comes meanwhile is not lost.
    connection.client.write_all(GET).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let parts = [Part::Bytes("of unknown length".into())].into();
    assert!(answer.send(Response::new(Given { length: None, parts })).is_ok());
    let heard = connection.hear().await;
    assert!(heard.body.ends_with(b"of unknown length\r\n0\r\n\r\n"), "{heard:?}");
    let (seen, answer) = connection.asked().await;
    assert!(seen.line.starts_with("GET /a"), "{seen:?}");
    assert!(answer.send(Response::new(Given::bytes("b"))).is_ok());
    assert_eq!(connection.hear().await.body, b"b");
}

#[tokio::test]
async fn a_connection_of_http1_does_not_become_http2() {
    let mut connection = Connection::new().await;
    connection.exchange(GET, Response::new(Given::bytes(""))).await;
    connection.client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let rest = connection.rest().await;
    assert!(rest.starts_with(b"HTTP/1.1 400 "), "{}", rest.escape_ascii());
}

#[tokio::test]
async fn what_there_is_of_an_answer_is_sent() {
    let mut connection = Connection::new().await;
    connection.client.write_all(GET).await.unwrap();
    let (_, answer) = connection.asked().await;
    let (go, goes) = oneshot::channel();
    let parts = [Part::Bytes("ab".into()), Part::Wait(goes), Part::Bytes("cd".into()), Part::Break];
    assert!(answer.send(Response::new(Given { length: Some(9), parts: parts.into() })).is_ok());
    let mut begun = Vec::new();
    while !begun.ends_with(b"\r\n\r\nab") {
        begun.push(timeout(LONG, connection.client.read_u8()).await.unwrap().unwrap());
    }
    go.send(()).unwrap();
    // It breaks off, and so does the connection.
    assert_eq!(connection.rest().await, b"cd");
    for (length, sent) in [(3, ""), (5, "four")] {
        let mut connection = Connection::new().await;
        connection.client.write_all(GET).await.unwrap();
        let (_, answer) = connection.asked().await;
        let parts = [Part::Bytes("four".into())].into();
        assert!(answer.send(Response::new(Given { length: Some(length), parts })).is_ok());
        let rest = connection.rest().await;
        assert!(rest.ends_with(format!("\r\n\r\n{sent}").as_bytes()), "{}", rest.escape_ascii());
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_request() {
    let mut connection = Connection::new().await;
    connection.client.write_all(GET).await.unwrap();
    let (_, mut answer) = connection.asked().await;
    drop(connection.client);
    timeout(LONG, answer.closed()).await.unwrap();
    // Also while the body of its answer is still to come.
    let mut connection = Connection::new().await;
    connection.client.write_all(GET).await.unwrap();
    let (mut waits, goes) = oneshot::channel();
    let (_, answer) = connection.asked().await;
    assert!(answer.send(Response::new(Given { length: Some(1), parts: [Part::Wait(goes)].into() })).is_ok());
    drop(connection.client);
    timeout(LONG, waits.closed()).await.unwrap();
}

#[tokio::test]
async fn a_connection_ends_after_the_request_that_it_serves() {
    let mut idle = Connection::new().await;
    idle.exchange(GET, Response::new(Given::bytes(""))).await;
    let mut busy = Connection::new().await;
    // The second is not served: the answer to the first says that the connection ends.
    busy.client.write_all(&[GET, GET].concat()).await.unwrap();
    let (_, answer) = busy.asked().await;
    // It has sent a request that was not read yet.
    let mut sent = Connection::new().await;
    sent.exchange(GET, Response::new(Given::bytes(""))).await;
    sent.client.write_all(GET).await.unwrap();
    for connection in [&idle, &busy, &sent] {
        connection.drain.ends.cancel();
    }
    assert_eq!(idle.rest().await, b"");
    let (_, late) = sent.asked().await;
    for (connection, answer) in [(&mut busy, answer), (&mut sent, late)] {
        assert!(answer.send(Response::new(Given::bytes("end"))).is_ok());
        let heard = connection.hear().await;
        assert!(heard.headers.contains(&("connection".into(), "close".into())), "{heard:?}");
        assert_eq!((heard.body, connection.rest().await), (b"end".to_vec(), Vec::new()));
        assert!(connection.asked.recv().await.is_none());
    }
}

#[tokio::test]
async fn a_client_that_takes_no_plain_answer_is_closed() {
    let time = Duration::from_millis(400);
    let mut connection =
        Connection::with(Limits { idle_timeout: time, read_timeout: time, ..Limits::default() }).await;
    let long = Bytes::from(vec![b'x'; 60_000]);
    let began = Instant::now();
    // Until its buffers are full. It is not idle then: the last part of an answer is still to come.
    while !connection.served.is_finished() {
        assert!(began.elapsed() < LONG, "it is not closed");
        // The connection may be closed.
        let _ = connection.client.write_all(GET).await;
        let Ok(Some((_, answer))) = timeout(Duration::from_millis(20), connection.asked.recv()).await else {
            continue;
        };
        let (go, goes) = oneshot::channel();
        let parts = [Part::Bytes(long.clone()), Part::Wait(goes), Part::Bytes("x".into())].into();
        let _ = answer.send(Response::new(Given { length: Some(60_001), parts }));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let _ = go.send(());
    }
}

impl Resets for BufWriter<DuplexStream> {
    async fn reset(&self) {
        std::future::pending().await
    }
}

/// As TLS does, the buffer takes the whole answer of a client that takes none.
#[tokio::test]
async fn an_answer_that_is_only_buffered_is_not_taken() {
    let (server, _client) = duplex(64);
    let mut stream = BufWriter::with_capacity(1 << 16, server);
    let (activity, untaken) = (Activity::new(Presence::alone()), Untaken::default());
    let mut plain = Plain::new(&mut stream, &activity, &untaken);
    plain.out = vec![b'x'; 1000];
    let mut write = Box::pin(plain.write());
    assert!(timeout(Duration::from_millis(50), &mut write).await.is_err());
    assert!(untaken.is_overdue(Duration::from_millis(50)));
}

#[tokio::test]
async fn an_answer_left_to_hyper_tells_the_end() {
    let mut connection = Connection::new().await;
    connection.client.write_all(&[GET, GET].concat()).await.unwrap();
    let (_, way) = connection.asked().await;
    connection.drain.ends.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(way.send(Response::new(Given { length: None, ..Given::bytes("long") })).is_ok());
    let heard = connection.hear().await;
    assert!(heard.headers.contains(&("connection".into(), "close".into())), "{heard:?}");
    assert_eq!(connection.rest().await, b"", "the next request is not served");
}

#[test]
fn the_date_is_that_of_the_second() {
    let answer = Response::new(Given::bytes(""));
    let mut out = Vec::new();
    answer::write_head(&answer, false, &mut out).unwrap();
    let head = String::from_utf8(out).unwrap();
    let date = head.lines().find_map(|line| line.strip_prefix(&format!("{DATE}: "))).unwrap();
    let since = httpdate::parse_http_date(date).unwrap().elapsed().unwrap();
    assert!(since < Duration::from_secs(2), "{date}");
}
