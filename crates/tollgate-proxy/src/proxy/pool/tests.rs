//! Requests over sockets, by plain connections and by those that hyper drives.

mod random;

use std::collections::VecDeque;
use std::sync::MutexGuard;

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tollgate_net::web::plain::LONGEST;

use super::*;
use crate::{ProxySettings, Upstream};

const LONG: Duration = Duration::from_secs(20);

/// What an upstream sends for a request.
#[derive(Clone, Debug, Default)]
struct Plan {
    /// It sends these one after the other.
    parts: Vec<Vec<u8>>,
    /// Whether it closes the connection then.
    closes: bool,
}

impl Plan {
    fn of(bytes: &[u8]) -> Self {
        Self { parts: vec![bytes.to_vec()], closes: false }
    }

    fn last(bytes: &[u8]) -> Self {
        Self { closes: true, ..Self::of(bytes) }
    }
}

/// What an upstream does, and what it has read: by which connection, and the bytes of a request.
#[derive(Default)]
struct Script {
    plans: VecDeque<Plan>,
    read: Vec<(usize, Vec<u8>)>,
}

/// An upstream, and the connections to it.
struct Server {
    pool: Pool,
    script: Arc<Mutex<Script>>,
}

/// What a request led to.
#[derive(Debug, PartialEq)]
enum Outcome {
    Answer(StatusCode, Vec<(String, Vec<u8>)>, Option<Bytes>),
    Failure(Failure),
}

/// The connections of one worker.
fn pool(url: &str) -> Pool {
    let upstream: Arc<Upstream> = Arc::new(url.parse().unwrap());
    let dial = Dial::new(&upstream, &ProxySettings::default()).unwrap();
    Pool::new(dial, Duration::from_secs(4), 1, &Arc::new(UpstreamCounts::new(url.into())))
}

impl Server {
    async fn new(plans: &[Plan]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = pool(&format!("http://{}", listener.local_addr().unwrap()));
        let plans = plans.iter().cloned().collect();
        let script = Arc::new(Mutex::new(Script { plans, read: Vec::new() }));
        let shared = Arc::clone(&script);
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(serve(stream, number, Arc::clone(&shared)));
            }
        });
        Self { pool, script }
    }

    /// One to which there is a connection that hyper drives from its first request on.
    async fn by_hyper(plans: &[Plan]) -> Self {
        let server = Self::new(plans).await;
        let stream = server.pool.dial.clone().connect().await.unwrap();
        let link = ByHyper::new(stream, Bytes::new()).await.unwrap();
        server.pool.idle.here().lock().push((Instant::now(), Link::ByHyper(link)));
        server
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    async fn send(&self, request: Request<Upload>) -> Result<Response<AnswerBody>, Failed> {
        timeout(LONG, self.pool.send(&mut Some(request), &AtomicBool::new(false))).await.unwrap()
    }

    async fn ask(&self, request: Request<Upload>) -> Outcome {
        let answer = match self.send(request).await {
            Ok(answer) => answer,
            Err(failed) => return Outcome::Failure(failed.failure),
        };
        let (head, body) = answer.into_parts();
        let header = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.as_str().to_owned(), value.as_bytes().to_vec())
        };
        let headers = head.headers.iter().map(header).collect();
        let body = timeout(LONG, body.collect()).await.unwrap();
        Outcome::Answer(head.status, headers, body.ok().map(|body| body.to_bytes()))
    }

    /// Waits until it is seen that the upstream has closed its connection.
    async fn closed(&self) {
        let seen = async {
            while self.idle().0 > 0 {
                self.pool.sweep();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LONG, seen).await.unwrap();
    }

    /// The connections that serve no request, and of them those without hyper.
    fn idle(&self) -> (usize, usize) {
        let idle = self.pool.idle.here().lock();
        (idle.len(), idle.iter().filter(|(_, link)| matches!(link, Link::Plain(_))).count())
    }
}

/// Serves the requests of a connection by the plans.
async fn serve(mut stream: TcpStream, number: usize, script: Arc<Mutex<Script>>) {
    while let Some(request) = read(&mut stream).await {
        let plan = {
            let mut script = script.lock().unwrap();
            script.read.push((number, request));
            script.plans.pop_front().unwrap_or_default()
        };
        for part in &plan.parts {
            // The other end may have closed the connection.
            let _ = stream.write_all(part).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if plan.closes {
            return;
        }
    }
}

/// A request as it came. `None`: the connection has ended.
async fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    let ends = |read: &[u8]| read.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4);
    loop {
        if let Some(head) = ends(&read) {
            let text = String::from_utf8_lossy(&read[..head]).to_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let is_chunked = text.contains("\r\ntransfer-encoding: chunked\r\n");
            if is_chunked && read.ends_with(b"0\r\n\r\n")
                || !is_chunked && read.len() >= head + length.unwrap_or(0)
            {
                return Some(read);
            }
        }
        match stream.read_buf(&mut read).await {
            Ok(count) if count > 0 => {}
            _ => return None,
        }
    }
}

fn get() -> Request<Upload> {
    Request::get("/a?b").header("host", "a.test").body(Upload::default()).unwrap()
}

fn post(body: &'static str) -> Request<Upload> {
    let request = Request::post("/a").header("host", "a.test").header("content-length", body.len());
    request.body(Upload::whole(body.into())).unwrap()
}

fn put() -> Request<Upload> {
    let mut request = post("body");
    *request.method_mut() = http::Method::PUT;
    request
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[test]
fn answers_that_are_not_plain_are_left_to_hyper() {
    let read = |bytes: &[u8]| plain::read(&Bytes::copy_from_slice(bytes)).map(|answer| answer.body().len());
    let with = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\nbody").into_bytes();
    assert_eq!(read(OK), Some(2));
    assert_eq!(read(&with("content-length: 4\r\nconnection: keep-alive")), Some(4));
    assert_eq!(read(&with("content-length: 9")), Some(9));
    assert_eq!(read(&with(&format!("content-length: {LONGEST}"))), Some(LONGEST as usize));
    for lines in [
        "x-a: b",
        "content-length: 3",
        "content-length: 4\r\ncontent-length: 4",
        "content-length: +4",
        "content-length: 4, 4",
        "content-length:",
        "content-length : 4",
        "content-length: 99999999999999999999",
        &format!("content-length: {}", LONGEST + 1),
        "transfer-encoding: chunked",
        "content-length: 4\r\ntransfer-encoding: chunked",
        "content-length: 4\r\nconnection: close",
        "content-length: 4\r\nupgrade: h2c",
        "content-length: 4\r\nx-a: 1\r\n folded: 2",
        "content-length: 4\r\nx-a: \u{0}",
    ] {
        assert_eq!(read(&with(lines)), None, "{lines:?}");
    }
    for line in [
        "HTTP/1.0 200 OK",
        "HTTP/1.1 100 Continue",
        "HTTP/1.1 101 Switching Protocols",
        "HTTP/1.1 204 No Content",
        "HTTP/1.1 304 Not Modified",
        "HTTP/1.1 200 Fine",
        "HTTP/1.1 200",
        "HTTP/1.1 099 Odd",
        "ICY 200 OK",
    ] {
        assert_eq!(read(format!("{line}\r\ncontent-length: 0\r\n\r\n").as_bytes()), None, "{line}");
    }
    assert_eq!(read(&OK[..OK.len() - 4]), None, "half a head");
}

#[test]
fn requests_that_are_not_plain_are_left_to_hyper() {
    let text =
        |request: &Request<Upload>| plain::write(request).map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(text(&get()).unwrap(), "GET /a?b HTTP/1.1\r\nhost: a.test\r\n\r\n");
    assert!(text(&post("abc")).unwrap().ends_with("host: a.test\r\ncontent-length: 3\r\n\r\nabc"));
    let mut unsaid = post("abc");
    unsaid.headers_mut().remove(CONTENT_LENGTH);
    assert!(text(&unsaid).unwrap().ends_with("host: a.test\r\ncontent-length: 3\r\n\r\nabc"));
    for (name, value) in [
        (TRANSFER_ENCODING, "chunked"),
        (CONNECTION, "upgrade"),
        (CONTENT_LENGTH, "4"),
        (CONTENT_LENGTH, "03"),
    ] {
        let mut request = post("abc");
        request.headers_mut().insert(&name, HeaderValue::from_static(value));
        assert_eq!(text(&request), None, "{name}: {value}");
    }
    let mut head = get();
    *head.method_mut() = http::Method::HEAD;
    assert_eq!(text(&head), None);
    // Its upstream may answer before it has read all of it.
    for (length, is_plain) in [(8 << 10, true), ((8 << 10) + 1, false)] {
        let long = Upload::whole(vec![b'x'; length].into());
        assert_eq!(text(&get().map(|_| long)).is_some(), is_plain, "{length}");
    }
    // Some of the body was read.
    let mut begun = unsaid;
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(begun.body_mut()).poll_frame(&mut context).is_ready());
    assert_eq!(text(&begun), None);
}

#[tokio::test]
async fn plain_requests_share_a_connection() {
    let server = Server::new(&[Plan::of(OK), Plan::of(OK), Plan::of(OK)]).await;
    for request in [get(), post("abc"), get()] {
        let body = request.body().clone();
        assert!(matches!(server.ask(request).await, Outcome::Answer(StatusCode::OK, _, Some(_))));
        assert!(body.is_end_stream() && body.failure().is_none(), "all of it was sent");
        assert_eq!(server.idle(), (1, 1));
    }
    assert!(server.script().read.iter().all(|(number, _)| *number == 0));
}

#[tokio::test]
async fn a_request_is_sent_once_although_hyper_reads_its_answer() {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let server = Server::new(&[Plan::of(OK), Plan::of(chunked), Plan::of(OK)]).await;
    for (request, plain) in [(post("one"), 1), (post("two"), 0), (post("three"), 0)] {
        let outcome = server.ask(request).await;
        assert!(matches!(&outcome, Outcome::Answer(_, _, Some(body)) if body == "ok"), "{outcome:?}");
        assert_eq!(server.idle(), (1, plain));
    }
    let read = &server.script().read;
    let ends: Vec<_> = read
        .iter()
        .map(|(number, bytes)| (*number, bytes.rsplit(|byte| *byte == b'\n').next().unwrap()))
        .collect();
    assert_eq!(ends, [(0, &b"one"[..]), (0, b"two"), (0, b"three")]);
}

#[tokio::test]
async fn an_upgrade_passes_by_a_connection_that_was_plain() {
    let switched = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhello";
    let server = Server::new(&[Plan::of(OK), Plan::of(switched)]).await;
    server.ask(get()).await;
    let mut request = get();
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    request.headers_mut().insert(UPGRADE, HeaderValue::from_static("x"));
    let mut answer = server.send(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    let upgraded = hyper::upgrade::on(&mut answer);
    answer.body_mut().detach();
    let mut stream = hyper_util::rt::TokioIo::new(timeout(LONG, upgraded).await.unwrap().unwrap());
    let mut word = [0; 5];
    timeout(LONG, stream.read_exact(&mut word)).await.unwrap().unwrap();
    assert_eq!((&word, server.script().read[1].0), (b"hello", 0));
}

#[tokio::test]
async fn a_request_that_may_have_been_read_goes_out_once() {
    let nothing = Plan { parts: Vec::new(), closes: true };
    for by_hyper in [false, true] {
        let plans = [Plan::of(OK), nothing.clone(), Plan::of(OK)];
        let server = if by_hyper { Server::by_hyper(&plans).await } else { Server::new(&plans).await };
        server.ask(post("one")).await;
        assert_eq!(server.idle(), (1, usize::from(!by_hyper)));
        let mut request = Some(post("two"));
        let failed = timeout(LONG, server.pool.send(&mut request, &AtomicBool::new(false))).await.unwrap();
        assert!(matches!(failed, Err(Failed { failure: Failure::Closed, .. })) && request.is_none());
        assert_eq!(server.script().read.len(), 2);
    }
}

/// The upstream closes the connection when the request has come. By hyper, some of the body has
/// been read by then.
#[tokio::test]
async fn a_request_that_may_be_repeated_goes_out_whole_again() {
    let nothing = Plan { parts: Vec::new(), closes: true };
    for by_hyper in [false, true] {
        for request in [get, put] {
            let plans = [Plan::of(OK), nothing.clone(), Plan::of(OK)];
            let server = if by_hyper { Server::by_hyper(&plans).await } else { Server::new(&plans).await };
            server.ask(post("one")).await;
            let outcome = server.ask(request()).await;
            assert!(matches!(outcome, Outcome::Answer(StatusCode::OK, ..)), "{outcome:?} {by_hyper}");
            let script = server.script();
            assert_eq!(script.read.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 0, 1]);
            assert_eq!(script.read[1].1, script.read[2].1, "{by_hyper}");
        }
    }
}

#[tokio::test]
async fn a_request_is_repeated_once_and_by_a_new_connection() {
    let nothing = Plan { parts: Vec::new(), closes: true };
    for (last, is_answered) in [(Plan::of(OK), true), (nothing.clone(), false)] {
        let server = Server::new(&[Plan::of(OK), Plan::of(OK), nothing.clone(), last, Plan::of(OK)]).await;
        let both = (server.send(get()).await.unwrap(), server.send(get()).await.unwrap());
        drop(both);
        assert_eq!(server.idle(), (2, 2));
        assert_eq!(matches!(server.ask(get()).await, Outcome::Answer(..)), is_answered);
        let script = server.script();
        assert_eq!(script.read.iter().map(|(number, _)| *number).max(), Some(2), "{is_answered}");
        assert_eq!((script.read.len(), script.read[3].0), (4, 2), "{is_answered}");
    }
}

#[tokio::test]
async fn a_request_whose_answer_has_begun_goes_out_once() {
    for by_hyper in [false, true] {
        let plans = [Plan::of(OK), Plan::last(b"HTTP/1.1 2"), Plan::of(OK)];
        let server = if by_hyper { Server::by_hyper(&plans).await } else { Server::new(&plans).await };
        server.ask(get()).await;
        assert_eq!(server.ask(get()).await, Outcome::Failure(Failure::Broken), "{by_hyper}");
        assert_eq!(server.script().read.len(), 2, "{by_hyper}");
    }
}

/// The upstream is gone when it should be sent once more. It may have acted on the first.
#[tokio::test]
async fn a_repeated_request_without_a_connection_is_tried_nowhere_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = pool(&format!("http://{}", listener.local_addr().unwrap()));
    let plans = [Plan::of(OK), Plan { parts: Vec::new(), closes: true }].into();
    let script = Arc::new(Mutex::new(Script { plans, ..Script::default() }));
    let shared = Arc::clone(&script);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        drop(listener);
        serve(stream, 0, shared).await;
    });
    let is_sent = AtomicBool::new(false);
    drop(timeout(LONG, pool.send(&mut Some(get()), &is_sent)).await.unwrap().unwrap());
    let failed = timeout(LONG, pool.send(&mut Some(get()), &is_sent)).await.unwrap();
    assert!(matches!(failed, Err(Failed { failure: Failure::Closed, .. })));
    assert!(is_sent.load(Relaxed));
    assert_eq!(script.lock().unwrap().read.len(), 2);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_no_request() {
    let unasked = Plan { parts: vec![OK.to_vec(), OK.to_vec()], closes: false };
    for plan in [Plan::last(OK), unasked] {
        for by_hyper in [false, true] {
            let plans = [plan.clone(), Plan::of(OK)];
            let server = if by_hyper { Server::by_hyper(&plans).await } else { Server::new(&plans).await };
            server.ask(post("one")).await;
            // It has come, and no sweep has seen it.
            tokio::time::sleep(Duration::from_millis(30)).await;
            let outcome = server.ask(post("two")).await;
            assert!(
                matches!(outcome, Outcome::Answer(StatusCode::OK, ..)),
                "{outcome:?} {plan:?} {by_hyper}"
            );
            let numbers: Vec<_> = server.script().read.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, [0, 1], "{plan:?} {by_hyper}");
        }
    }
}

/// A task that has spent its budget sees nothing of a socket until it is polled again.
#[tokio::test]
async fn any_number_of_closed_connections_costs_no_request() {
    const CLOSED: usize = 200;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = pool(&format!("http://{}", listener.local_addr().unwrap()));
    for _ in 0..CLOSED {
        let link = Link::connect(pool.dial.clone()).await.unwrap();
        pool.idle.here().lock().push((Instant::now(), link));
        drop(listener.accept().await.unwrap());
    }
    let script = Arc::new(Mutex::new(Script { plans: [Plan::of(OK)].into(), ..Script::default() }));
    tokio::spawn(async move { serve(listener.accept().await.unwrap().0, 0, script).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let answer = timeout(LONG, pool.send(&mut Some(post("body")), &AtomicBool::new(false))).await.unwrap();
    assert_eq!(answer.map(|answer| answer.status()).unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn a_connection_is_closed_when_its_answer_is_dropped() {
    let long = |length: usize, sent: usize| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        Plan::of(&[head.as_bytes(), &vec![b'x'; sent]].concat())
    };
    let server = Server::new(&[long(9, 3), long(9, 9)]).await;
    for (first, idle) in [("xxx", (0, 0)), ("xxxxxxxxx", (1, 1))] {
        let mut answer = server.send(get()).await.unwrap();
        let frame = timeout(LONG, answer.body_mut().frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), first);
        drop(answer);
        assert_eq!(server.idle(), idle);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_whole() {
    for sent in ["", "abc"] {
        let plan = Plan::last(format!("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n{sent}").as_bytes());
        let server = Server::new(&[plan]).await;
        assert!(matches!(server.ask(get()).await, Outcome::Answer(StatusCode::OK, _, None)), "{sent}");
        assert_eq!(server.idle(), (0, 0));
    }
}
