//! Clients that take nothing, over sockets.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::super::body::RequestBody;
use super::super::serve::{STREAMS, serve};
use super::*;
use crate::Limits;
use crate::counts::ListenerCounts;
use crate::listen::{Connection, Peer, Presence, Stream as Socket};

const LONG: Duration = Duration::from_secs(30);

/// The bytes that all [`Endless`] bodies gave, how many there were, and how many there are.
#[derive(Default)]
struct Counts {
    bytes: AtomicUsize,
    begun: AtomicUsize,
    bodies: AtomicUsize,
}

struct Endless(Arc<Counts>);

impl Endless {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.bodies.fetch_add(1, SeqCst);
        counts.begun.fetch_add(1, SeqCst);
        Self(Arc::clone(counts))
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.bodies.fetch_sub(1, SeqCst);
    }
}

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.bytes.fetch_add(PART, SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; PART])))))
    }
}

/// An endless body, or one of a few bytes.
struct Given(BoxBody<Bytes, Infallible>);

impl From<Full<Bytes>> for Given {
    fn from(body: Full<Bytes>) -> Self {
        Self(body.boxed())
    }
}

impl Body for Given {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// A connection, and the end of its server. `/small` is answered with four bytes, `/never` is not
/// answered, and all else is without end.
async fn connect(counts: &Arc<Counts>) -> (TcpStream, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let counts = Arc::clone(counts);
    let served = tokio::spawn(async move {
        let idle_timeout = Duration::from_millis(400);
        let limits = Limits { idle_timeout, read_timeout: idle_timeout, ..Limits::default() };
        let answer = move |request: Request<RequestBody>| {
            let body = match request.uri().path() {
                "/small" => Given::from(Full::from("done")),
                _ => Given(Endless::new(&counts).boxed()),
            };
            async move {
                if request.uri().path() == "/never" {
                    std::future::pending::<()>().await;
                }
                Response::new(body)
            }
        };
        let counts = Arc::new(ListenerCounts::new("http"));
        let (stream, peer, presence) = (Socket::Tcp(stream), Peer::Unix, Presence::alone());
        serve(Connection { stream, peer, presence }, &limits, counts, answer).await;
    });
    (client, served)
}

#[tokio::test]
async fn stalled_streams_hold_two_parts_each_and_are_reset() {
    const WINDOW: usize = (1 << 16) - 1;
    let counts = Arc::<Counts>::default();
    let (client, served) = connect(&counts).await;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(WINDOW as u32).initial_connection_window_size(1 << 30);
    let (mut sender, connection) = builder.handshake(TokioIo::new(client)).await.unwrap();
    tokio::spawn(connection);
    let get = |path: &str| Request::get(format!("http://a.test{path}")).body(Empty::<Bytes>::new()).unwrap();
    let mut unread = Vec::new();
    for _ in 0..STREAMS + 50 {
        let asked = sender.send_request(get("/"));
        unread.push(tokio::spawn(asked));
    }
    let mut most = 0;
    let watched = async {
        while counts.bodies.load(SeqCst) > 0 || counts.begun.load(SeqCst) < unread.len() {
            most = most.max(counts.bodies.load(SeqCst));
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONG, watched).await.expect("the streams are reset");
    assert_eq!(most, STREAMS as usize);
    let asked = counts.bytes.load(SeqCst);
    assert!(asked <= unread.len() * (WINDOW + 2 * PART), "{} for {}", asked, unread.len());
    for answer in unread {
        let mut body = timeout(LONG, answer).await.unwrap().unwrap().unwrap().into_body();
        let error = loop {
            if let Err(error) = body.frame().await.expect("it is not whole") {
                break format!("{error:?}");
            }
        };
        assert!(error.contains("CANCEL"), "{error}");
    }
    let answer = timeout(LONG, sender.send_request(get("/small"))).await.unwrap().unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
    assert!(!served.is_finished());
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u16, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0][..], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn a_connection_that_takes_nothing_is_closed() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let settings = |window: u32| frame(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
    let most = i32::MAX.unsigned_abs();
    // `GET /`, and the same with paths that the table of names does not have.
    let get = b"\x82\x86\x84\x41\x01a";
    let (never, small) = (b"\x82\x86\x04\x06/never\x41\x01a", b"\x82\x86\x04\x06/small\x41\x01a");
    let widest = frame(8, 0, 0, &(most - 65_535).to_be_bytes());
    for (what, begins, asks) in [
        ("HTTP/1", b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n".to_vec(), None),
        (
            "HTTP/2, and its windows are not full",
            // A connection with a request is not idle.
            [&*preface, &settings(most), &widest, &frame(1, 5, 1, never), &frame(1, 5, 3, get)].concat(),
            None,
        ),
        (
            "HTTP/2, and its first window was larger",
            [&*preface, &settings(65_535), &settings(1)].concat(),
            Some(small),
        ),
    ] {
        let (mut client, served) = connect(&Arc::default()).await;
        client.write_all(&begins).await.unwrap();
        let (began, mut stream) = (Instant::now(), 1);
        // Nor is a client that asks on.
        while !served.is_finished() {
            assert!(began.elapsed() < LONG, "{what}: it is not closed");
            if let Some(asked) = asks {
                // The connection may be closed.
                let _ = client.write_all(&frame(1, 5, stream, asked)).await;
                stream += 2;
            }
            sleep(Duration::from_millis(50)).await;
        }
        assert!(began.elapsed() > Duration::from_millis(400), "{what}");
    }
}
