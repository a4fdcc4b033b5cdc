//! Plain requests to an upstream of HTTP/1, and plain answers, without hyper.
//!
//! A request is plain if it is short and here as a whole. An answer is plain if its head came in
//! one read and says the length of a short body. hyper reads all other answers, from their first
//! byte on.

use std::future::poll_fn;
use std::io;
use std::mem::{MaybeUninit, take};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use httparse::{ParserConfig, Status};
use hyper::body::Frame;
use tokio::io::AsyncWrite;
use tokio::task::coop::unconstrained;
use tollgate_net::web::plain::headers::{self, HEADERS, HTTP_11};
use tollgate_net::web::plain::{LONGEST, poll_bytes};

use super::dial::Dialled;
use super::failed::Ended;
use super::upload::Upload;

/// The most bytes that are read at a time, so of a plain head; and of the body of a plain request,
/// which so fits into the buffer of a socket.
const MOST: usize = 8192;

/// Room for the head of a request.
const HEAD: usize = 1024;

/// What became of a request.
pub(super) enum Asked {
    Answered(Response<Rest>),
    /// It is not plain, and was not sent.
    NotSent,
    /// Its answer is not plain: the first bytes of that.
    Sent(Bytes),
}

/// The body of a plain answer: the bytes that have come, and how many are still to come.
pub(super) struct Rest {
    read: Bytes,
    left: usize,
}

/// Sends a request, and reads the head of its answer. After an error the request stays.
pub(super) async fn ask(stream: &mut Dialled, request: &mut Option<Request<Upload>>) -> Result<Asked, Ended> {
    // A task that has spent its budget would see no connection that is closed.
    if !unconstrained(poll_fn(|context| Poll::Ready(is_idle(stream, context)))).await {
        return Err(Ended::Unsent);
    }
    let Some(sent) = write(request.as_ref().ok_or(Ended::Broken)?) else { return Ok(Asked::NotSent) };
    let read = match exchange(stream, &sent).await {
        Ok(read) if !read.is_empty() => read,
        ended => {
            tracing::debug!(error = ?ended.err(), "a connection to an upstream ended");
            return Err(Ended::Unanswered);
        }
    };
    let Some(answer) = self::read(&read) else { return Ok(Asked::Sent(read)) };
    request.take().ok_or(Ended::Broken)?.body().was_sent();
    Ok(Asked::Answered(answer))
}

/// Whether a connection without a request is open, and nothing has come that was not asked for.
pub(super) fn is_idle(stream: &mut Dialled, context: &mut Context<'_>) -> bool {
    poll_bytes(stream, context, 1).is_pending()
}

/// The bytes of a request.
pub(super) fn write(request: &Request<Upload>) -> Option<Vec<u8>> {
    // Answers to these methods have no body, although they may say a length.
    if matches!(*request.method(), Method::HEAD | Method::CONNECT) {
        return None;
    }
    let body = request.body().at_hand().filter(|body| body.len() <= MOST)?;
    let mut out = Vec::with_capacity(HEAD + body.len());
    for part in [request.method().as_str(), " ", request.uri().path_and_query()?.as_str(), " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(body.len()).as_bytes();
    let has = headers::write(request.headers(), digits, &mut out)?;
    if !has.length && request.body().is_some() {
        headers::line("content-length", digits, &mut out);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
    Some(out)
}

/// Sends these bytes, and then reads the first that come: they are few, so that the upstream cannot
/// wait for its answer to be read before.
async fn exchange(stream: &mut Dialled, mut unsent: &[u8]) -> io::Result<Bytes> {
    poll_fn(|context| {
        while !unsent.is_empty() {
            match ready!(Pin::new(&mut *stream).poll_write(context, unsent))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => unsent = &unsent[count..],
            }
        }
        poll_answer(stream, context, MOST)
    })
    .await
}

/// Reads once of an answer.
fn poll_answer(stream: &mut Dialled, context: &mut Context<'_>, most: usize) -> Poll<io::Result<Bytes>> {
    let read = poll_bytes(stream, context, most);
    // TLS may hold some of the request, or what it has to say itself.
    if read.is_pending()
        && let Poll::Ready(flushed) = Pin::new(stream).poll_flush(context)
    {
        flushed?;
    }
    read
}

/// The answer that begins these bytes. `None`: it is not plain, or broken, which hyper finds as
/// well.
pub(super) fn read(bytes: &Bytes) -> Option<Response<Rest>> {
    let mut room = [const { MaybeUninit::uninit() }; HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let status = ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, bytes, &mut room);
    let Ok(Status::Complete(head)) = status else { return None };
    let status = StatusCode::from_u16(parsed.code?).ok()?;
    let is_bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if parsed.version != HTTP_11 || status.is_informational() || is_bodiless {
        return None;
    }
    // hyper keeps the words of others.
    if parsed.reason != status.canonical_reason() {
        return None;
    }
    let (headers, length) = headers::read(parsed.headers, bytes)?;
    let length = length.filter(|length| *length as u64 <= LONGEST)?;
    // More than was asked for: the connection is not used again.
    let left = length.checked_sub(bytes.len() - head)?;
    let mut answer = Response::new(Rest { read: bytes.slice(head..), left });
    (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
    Some(answer)
}

impl Rest {
    /// Whether all has come, so that the connection may serve another request.
    pub(super) fn has_come(&self) -> bool {
        self.left == 0
    }

    /// The bytes that have come, and that its reader has not taken.
    pub(super) fn into_read(self) -> Bytes {
        self.read
    }

    /// How many bytes its reader has not taken yet.
    pub(super) fn len(&self) -> usize {
        self.read.len() + self.left
    }

    /// The next part.
    pub(super) fn poll_frame(
        &mut self,
        stream: &mut Dialled,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.read.is_empty() && self.left > 0 {
            // No byte more: what comes after the answer was not asked for.
            self.read = ready!(poll_answer(stream, context, self.left))?;
            if self.read.is_empty() {
                return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
            }
            self.left -= self.read.len();
        }
        let part = Some(take(&mut self.read)).filter(|part| !part.is_empty());
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }
}
