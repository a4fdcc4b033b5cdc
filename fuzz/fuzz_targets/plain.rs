//! What the server reads without hyper is what hyper reads: requests of clients, and answers of
//! upstreams.

#![no_main]

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use libfuzzer_sys::fuzz_target;
use tollgate_net::web::PlainRequestProbe;
use tollgate_proxy::proxy::PlainAnswerProbe;

/// How often a future without timers and sockets is polled at most.
const POLLS: usize = 100;

fuzz_target!(|bytes: &[u8]| {
    if let Some(request) = PlainRequestProbe::read(bytes) {
        let (head, body) = request.into_parts();
        let (other, other_body) = request_by_hyper(bytes).expect("hyper reads no request");
        assert_eq!((&head.method, &head.uri, head.version), (&other.method, &other.uri, other.version));
        assert_same(&head.headers, &other.headers);
        assert_eq!(other_body, Some(body));
    }
    if let Some((answer, is_whole)) = PlainAnswerProbe::read(bytes) {
        let (other, other_body) = answer_by_hyper(bytes).expect("hyper reads no answer");
        assert_eq!((answer.status(), answer.version()), (other.status, other.version));
        assert_same(answer.headers(), &other.headers);
        assert_eq!(other_body, is_whole.then(|| answer.into_body()));
    }
});

fn assert_same(own: &HeaderMap, other: &HeaderMap) {
    assert!(own.iter().eq(other), "{own:?} beside {other:?}");
}

/// The first request of these bytes. `None` in place of a body: it breaks off.
fn request_by_hyper(bytes: &[u8]) -> Option<(http::request::Parts, Option<Bytes>)> {
    let first = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&first);
    let service = service_fn(move |request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.ok().map(|body| body.to_bytes());
            seen.borrow_mut().get_or_insert((head, body));
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let stream = Given { bytes: bytes.to_vec(), read: 0, is_asked: true };
    let mut builder = hyper::server::conn::http1::Builder::new();
    // A client that sends no more still waits for its answer.
    builder.half_close(true).header_read_timeout(None).max_headers(100);
    let connection = builder.serve_connection(stream, service);
    // An error: what comes after the first request is none.
    let _ = done(connection);
    first.take()
}

/// The answer of these bytes to a GET. `None` in place of a body: it breaks off.
fn answer_by_hyper(bytes: &[u8]) -> Option<(http::response::Parts, Option<Bytes>)> {
    let stream = Given { bytes: bytes.to_vec(), read: 0, is_asked: false };
    let (mut sender, connection) = done(hyper::client::conn::http1::handshake(stream))?.ok()?;
    let mut connection = pin!(connection);
    let mut has_ended = false;
    let asked = async move {
        let request = Request::get("/").body(Empty::<Bytes>::new()).expect("it is a request");
        let (head, body) = sender.send_request(request).await.ok()?.into_parts();
        Some((head, body.collect().await.ok().map(|body| body.to_bytes())))
    };
    let mut asked = pin!(asked);
    done(std::future::poll_fn(move |context| {
        if !has_ended {
            has_ended = connection.as_mut().poll(context).is_ready();
        }
        asked.as_mut().poll(context)
    }))?
}

/// What a future leads to; `None`: it waits for ever.
fn done<F: Future>(future: F) -> Option<F::Output> {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    (0..POLLS).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// A stream that has these bytes, for a server or, once it has asked, for a client.
struct Given {
    bytes: Vec<u8>,
    read: usize,
    is_asked: bool,
}

impl Read for Given {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_asked {
            return Poll::Pending;
        }
        let count = buffer.remaining().min(self.bytes.len() - self.read);
        buffer.put_slice(&self.bytes[self.read..][..count]);
        self.read += count;
        Poll::Ready(Ok(()))
    }
}

impl Write for Given {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
