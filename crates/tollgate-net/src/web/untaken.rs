//! What the client of a connection has not taken yet of its answers.
//!
//! A client says how many bytes it takes: by the windows of HTTP/2, and by those of TCP. One that
//! takes none would hold its answers and its connection for ever. A stream of HTTP/2 that stands
//! still so is reset alone; a connection that does is closed.
//!
//! ```text
//!   the answer's body --> hyper asks for a part --> the part is sent
//!   \______________________________/\_______________________________/
//!     untaken, unless the body itself     untaken
//!     has nothing yet
//! ```

use std::collections::VecDeque;
use std::mem::take;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};

use super::streams::{Opening, Stream, UnsentPart};

/// The most bytes of a part: all the time that it has is for so many.
const PART: usize = 64 << 10;

/// Since when each part waits for the client.
#[derive(Clone, Default)]
pub struct Untaken {
    waits: Arc<Mutex<Waits>>,
    /// How many bytes a client of HTTP/2 surely takes of each answer.
    window: Arc<AtomicU32>,
}

#[derive(Default)]
struct Waits {
    /// The number of the next part.
    next: u64,
    /// By their numbers, so the oldest is the first. They are few: two for each stream at most.
    since: VecDeque<Since>,
}

struct Since {
    number: u64,
    began: Instant,
    stream: Option<Arc<Stream>>,
}

/// A wait for the client, which ends when this is dropped.
pub(super) struct Wait {
    of: Untaken,
    number: u64,
}

/// A part of an answer. It is dropped when all its bytes are sent.
pub struct Part {
    bytes: Bytes,
    _wait: Wait,
    _unsent: Option<UnsentPart>,
}

/// A body whose client must take it, part by part. It keeps `H` until its last part is asked for.
pub struct UntakenBody<B, H> {
    body: B,
    /// The rest of a frame that is longer than a part.
    rest: Bytes,
    untaken: Untaken,
    stream: Option<Arc<Stream>>,
    is_success: bool,
    /// The bytes that were asked for.
    asked: u64,
    /// The end, or the trailers, until all before is sent. Boxed, as it is rare, and an answer is
    /// moved often.
    end: Option<Box<Option<Frame<Bytes>>>>,
    wait: Option<Wait>,
    _held: H,
}

impl Untaken {
    /// Watches over the body of an answer.
    pub fn answer<B, H>(&self, answer: Response<B>, held: H) -> Response<UntakenBody<B, H>> {
        let stream = Stream::current();
        let wait = Some(self.wait(stream.clone()));
        let is_success = answer.status() < StatusCode::BAD_REQUEST;
        answer.map(|body| {
            let (rest, untaken) = (Bytes::new(), self.clone());
            UntakenBody { body, rest, untaken, stream, is_success, asked: 0, end: None, wait, _held: held }
        })
    }

    /// Reads how a connection of HTTP/2 begins.
    pub fn opening(&self) -> Opening {
        Opening::new(Arc::clone(&self.window))
    }

    /// Resets the streams of which the client has left a part for so long. Returns whether it has
    /// left one that this does not help: the connection is HTTP/1, or takes nothing at all.
    pub fn is_overdue(&self, time: Duration) -> bool {
        let mut stalled = Vec::new();
        for wait in self.waits().since.iter().take_while(|wait| wait.began.elapsed() >= time) {
            let Some(stream) = &wait.stream else { return true };
            stalled.push(Arc::clone(stream));
        }
        // Without the lock: a task that ends drops its waits.
        !stalled.into_iter().all(|stream| stream.reset())
    }

    /// A wait for the client, which ends when it is dropped.
    pub(super) fn wait(&self, stream: Option<Arc<Stream>>) -> Wait {
        let mut waits = self.waits();
        let number = waits.next;
        waits.next += 1;
        waits.since.push_back(Since { number, began: Instant::now(), stream });
        drop(waits);
        Wait { of: self.clone(), number }
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B, H> UntakenBody<B, H> {
    /// The stream of an answer of which the client may not take all.
    fn may_stall(&self) -> Option<&Arc<Stream>> {
        self.stream.as_ref().filter(|_| self.asked > u64::from(self.untaken.window.load(Relaxed)))
    }

    /// hyper gets the end of the answer now: it is not the client that ends its stream.
    fn tell_end(&self) {
        if let Some(stream) = &self.stream {
            stream.end(self.is_success);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waits = self.of.waits();
        if let Ok(at) = waits.since.binary_search_by_key(&self.number, |since| since.number) {
            waits.since.remove(at);
        }
    }
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
    }
}

impl<B: Body<Data = Bytes> + Unpin, H: Unpin> Body for UntakenBody<B, H> {
    type Data = Part;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, B::Error>>> {
        // The client has room, so from here on the wait is for the body.
        self.wait = None;
        let next = if let Some(end) = self.end.take() {
            *end
        } else if self.rest.is_empty() {
            let next = ready!(Pin::new(&mut self.body).poll_frame(context)).transpose();
            next.inspect_err(|_| self.tell_end())?
        } else {
            Some(Frame::data(take(&mut self.rest)))
        };
        if !next.as_ref().is_some_and(Frame::is_data)
            && self.may_stall().is_some_and(|stream| stream.poll_sent(context).is_pending())
        {
            self.end = Some(Box::new(next));
            return Poll::Pending;
        }
        let Some(frame) = next else {
            self.tell_end();
            return Poll::Ready(None);
        };
        if frame.is_trailers() {
            self.tell_end();
        }
        let frame = frame.map_data(|mut bytes| {
            self.rest = bytes.split_off(bytes.len().min(PART));
            self.asked += bytes.len() as u64;
            let is_last = self.rest.is_empty() && self.body.is_end_stream();
            let stream = if is_last { self.may_stall() } else { self.stream.as_ref() };
            let unsent = stream.map(Stream::part);
            Part { bytes, _wait: self.untaken.wait(self.stream.clone()), _unsent: unsent }
        });
        if !self.is_end_stream() {
            self.wait = Some(self.untaken.wait(self.stream.clone()));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        let has_ended = self.rest.is_empty()
            && self.end.is_none()
            && self.body.is_end_stream()
            && self.may_stall().is_none_or(|stream| stream.is_sent());
        if has_ended {
            self.tell_end();
        }
        has_ended
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        match hint.exact() {
            Some(exact) => hint.set_exact(exact + rest),
            None => hint.set_lower(hint.lower() + rest),
        }
        hint
    }
}

#[cfg(test)]
pub(super) mod tests;
