//! Plain requests of HTTP/1 are served without hyper.
//!
//! They are most, and hyper, which serves all that HTTP allows, takes more instructions for one
//! than the rules do to decide it.
//!
//! A request is plain if it came with its body in one read, and asks for an answer and for nothing
//! else. An answer is plain if it is short and its length is known. hyper serves all
//! other requests, and from the first of them on the rest of their connection:
//!
//! ```text
//!   bytes --> request --> handler --> answer --> bytes
//!               |                       |
//!               | not plain             | not plain
//!               v                       v
//!             hyper                   hyper reads the request again, and sends this answer
//! ```
//!
//! | file | what |
//! |------|------|
//! | `request` | a plain request, out of bytes |
//! | `answer` | the head of a plain answer, as bytes |
//! | `headers` | the headers of both, and of those that a proxy exchanges with its upstream |

mod answer;
pub mod headers;
pub(super) mod request;

use std::future::poll_fn;
use std::io;
use std::mem::{MaybeUninit, take};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;

use super::body::RequestBody;
use super::idle::Activity;
use super::untaken::Untaken;
use crate::counts::ListenerCounts;
use crate::listen::{Resets, close};
pub use answer::LONGEST;
pub use headers::HEADERS;

/// The bytes that are read at a time, so the longest plain request.
const READ: usize = 8192;

/// The room for an answer that a connection without a request keeps.
const KEPT: usize = 4096;

/// Why plain requests are not served any longer.
pub(super) enum Left<B> {
    /// The connection has ended.
    Ended,
    /// A request is not plain, or the answer to it: the bytes from this request on, and the answer
    /// if its handler has run. After a plain request the connection stays one of HTTP/1.
    Other { read: Bytes, answer: Option<Response<B>>, is_http1: bool },
}

/// What comes first while an answer is awaited.
enum Read<A> {
    Answer(A),
    /// Bytes of later requests.
    More,
    /// The client has left.
    End,
}

/// A connection, as long as its requests are plain.
pub(super) struct Plain<'c, S> {
    stream: &'c mut S,
    activity: &'c Arc<Activity>,
    untaken: &'c Untaken,
    /// The bytes of the current request, and of those that came with it.
    read: Bytes,
    /// Later bytes.
    next: Bytes,
    /// The bytes of the answer.
    out: Vec<u8>,
}

impl<'c, S: AsyncRead + AsyncWrite + Resets + Unpin> Plain<'c, S> {
    pub(super) fn new(stream: &'c mut S, activity: &'c Arc<Activity>, untaken: &'c Untaken) -> Self {
        Self { stream, activity, untaken, read: Bytes::new(), next: Bytes::new(), out: Vec::new() }
    }

    /// Serves plain requests.
    pub(super) async fn serve<F, B>(
        mut self,
        counts: &ListenerCounts,
        handler: &impl Fn(Request<RequestBody>) -> F,
    ) -> Left<B>
    where
        F: Future<Output = Response<B>>,
        B: Body<Data = Bytes> + Unpin,
    {
        let mut is_http1 = false;
        loop {
            if self.read.is_empty() && !self.read_more().await {
                close(self.stream, self.activity.is_ending()).await;
                return Left::Ended;
            }
            let Some((request, length)) = request::read(&self.read) else {
                return Left::Other { read: self.read, answer: None, is_http1 };
            };
            is_http1 = true;
            let busy = self.activity.begin(Version::HTTP_11);
            let began = Instant::now();
            // Boxed: a connection without a request would have room for it.
            let answer = Box::pin(handler(request));
            let is_last = self.read.len() == length;
            let Some(mut answer) = self.unless_left(is_last, answer).await else { return Left::Ended };
            counts.took(began.elapsed());
            let ends = self.activity.is_ending();
            let Some(body_length) = answer::write_head(&answer, ends, &mut self.out) else {
                if ends && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                    // hyper is told of the end only after it has sent this head.
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                return Left::Other { read: self.all_read(), answer: Some(answer), is_http1 };
            };
            let _ = self.read.split_to(length);
            let is_whole = self.add(answer.into_body(), body_length).await;
            drop(busy);
            if self.write().await.is_err() || !is_whole || ends {
                close(self.stream, ends).await;
                return Left::Ended;
            }
        }
    }

    /// Waits for the next bytes. `false`: there will be none. What has arrived when the server ends
    /// is answered first.
    async fn read_more(&mut self) -> bool {
        let mut has_looked = false;
        while self.next.is_empty() {
            let has_more = poll_fn(|context| match self.poll_read(context) {
                Poll::Pending if self.activity.is_ending() => Poll::Ready(None),
                polled => polled.map(Some),
            });
            match has_more.await {
                Some(true) => {}
                Some(false) => return false,
                None if has_looked => return false,
                // The runtime looks at the sockets, and gives a busy connection another budget.
                None => {
                    has_looked = true;
                    yield_now().await;
                }
            }
        }
        self.activity.connection_begins();
        self.read = take(&mut self.next);
        true
    }

    /// Reads once. `false`: the client has ended the connection, or broken it.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        self.next = ready!(poll_bytes(self.stream, context, READ)).unwrap_or_default();
        Poll::Ready(!self.next.is_empty())
    }

    /// Waits for an answer, or for a part of its body. `None`: the client has left. Of a client
    /// that has sent more no more is read before the answer is sent: it is seen to leave if it
    /// resets the connection, and not if it only ends its sending side.
    async fn unless_left<F: Future + Unpin>(&mut self, is_last: bool, mut answer: F) -> Option<F::Output> {
        let read = poll_fn(|context| {
            if let Poll::Ready(answer) = Pin::new(&mut answer).poll(context) {
                return Poll::Ready(Read::Answer(answer));
            }
            if !is_last || !self.next.is_empty() {
                return Poll::Ready(Read::More);
            }
            self.poll_read(context).map(|has_more| if has_more { Read::More } else { Read::End })
        });
        match read.await {
            Read::Answer(answer) => return Some(answer),
            Read::End => return None,
            Read::More => {}
        }
        // Boxed, as it is rare: each connection would have room for it.
        let mut reset = Box::pin(self.stream.reset());
        poll_fn(|context| match Pin::new(&mut answer).poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => reset.as_mut().poll(context).map(|()| None),
        })
        .await
    }

    /// Adds a body to the answer. Returns whether it had this length. If not, the connection must
    /// end after the answer: its client would wait for the rest.
    async fn add<B: Body<Data = Bytes> + Unpin>(&mut self, mut body: B, length: u64) -> bool {
        let mut left = length;
        while !body.is_end_stream() {
            let Some(Ok(frame)) = self.next_frame(&mut body).await else { break };
            if let Ok(data) = frame.into_data() {
                let Some(rest) = left.checked_sub(data.len() as u64) else { return false };
                left = rest;
                self.out.extend_from_slice(&data);
            }
        }
        left == 0
    }

    /// Waits for a part of a body, and sends all before it meanwhile. `None`: there is none, or the
    /// client has left.
    async fn next_frame<B: Body + Unpin>(
        &mut self,
        body: &mut B,
    ) -> Option<Result<Frame<B::Data>, B::Error>> {
        let mut frame = body.frame();
        match poll_fn(|context| Poll::Ready(Pin::new(&mut frame).poll(context))).await {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                self.write().await.ok()?;
                self.unless_left(self.read.is_empty(), frame).await?
            }
        }
    }

    /// Sends the bytes of the answer.
    async fn write(&mut self) -> io::Result<()> {
        let (mut written, mut wait) = (0, None);
        poll_fn(|context| {
            let sent = self.poll_send(context, &mut written);
            if sent.is_pending() {
                wait.get_or_insert_with(|| self.untaken.wait(None));
            }
            sent
        })
        .await?;
        self.out.clear();
        self.out.shrink_to(KEPT);
        Ok(())
    }

    /// Sends the bytes that are not `written` yet, and those that TLS has taken and not sent. Of a
    /// client that takes nothing TLS takes a whole answer.
    fn poll_send(&mut self, context: &mut Context<'_>, written: &mut usize) -> Poll<io::Result<()>> {
        while *written < self.out.len() {
            match ready!(Pin::new(&mut *self.stream).poll_write(context, &self.out[*written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *written += count,
            }
        }
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    /// The bytes of all requests without an answer.
    fn all_read(&mut self) -> Bytes {
        match self.next.is_empty() {
            true => take(&mut self.read),
            false => [&self.read[..], &self.next].concat().into(),
        }
    }
}

/// Reads once, at most so many bytes and at most 8 KiB. Nothing: the other end has ended the
/// connection.
pub fn poll_bytes<S: AsyncRead + Unpin>(
    stream: &mut S,
    context: &mut Context<'_>,
    most: usize,
) -> Poll<io::Result<Bytes>> {
    // A connection that waits has no buffer: most wait, and they are many.
    let mut room = [const { MaybeUninit::uninit() }; READ];
    let mut read = ReadBuf::uninit(&mut room[..most.min(READ)]);
    ready!(Pin::new(stream).poll_read(context, &mut read))?;
    Poll::Ready(Ok(Bytes::copy_from_slice(read.filled())))
}

#[cfg(test)]
mod tests;
