//! What the client of a connection has not taken yet of its answers.
//!
//! A client says how many bytes it takes: by the windows of HTTP/2, and by those of TCP. One that
//! takes none would hold its answers and its connection for ever.
//!
//! ```text
//!   the answer's body --> hyper asks for a part --> the part is sent
//!   \______________________________/\_______________________________/
//!     untaken, unless the body itself     untaken
//!     has nothing yet
//! ```

use std::collections::BTreeMap;
use std::mem::take;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

/// The most bytes of a part: all the time that it has is for so many.
const PART: usize = 64 << 10;

/// Since when each part waits for the client.
#[derive(Clone, Default)]
pub(crate) struct Untaken(Arc<Mutex<Waits>>);

#[derive(Default)]
struct Waits {
    /// The number of the next part.
    next: u64,
    /// By numbers, so the oldest is the first.
    since: BTreeMap<u64, Instant>,
}

/// A wait for the client, which ends when this is dropped.
struct Wait {
    of: Untaken,
    number: u64,
}

/// A part of an answer. It is dropped when all its bytes are sent.
pub(crate) struct Part {
    bytes: Bytes,
    _wait: Wait,
}

/// A body whose client must take it, part by part. It keeps `H` until its last part is asked for.
pub(crate) struct UntakenBody<B, H> {
    body: B,
    /// The rest of a frame that is longer than a part.
    rest: Bytes,
    untaken: Untaken,
    wait: Option<Wait>,
    _held: H,
}

impl Untaken {
    /// Watches over the body of an answer.
    pub(crate) fn body<B, H>(&self, body: B, held: H) -> UntakenBody<B, H> {
        let wait = Some(self.wait());
        UntakenBody { body, rest: Bytes::new(), untaken: self.clone(), wait, _held: held }
    }

    /// Whether the client has left a part for so long.
    pub(crate) fn is_overdue(&self, time: Duration) -> bool {
        self.waits().since.first_key_value().is_some_and(|(_, since)| since.elapsed() >= time)
    }

    fn wait(&self) -> Wait {
        let mut waits = self.waits();
        let number = waits.next;
        waits.next += 1;
        waits.since.insert(number, Instant::now());
        drop(waits);
        Wait { of: self.clone(), number }
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.of.waits().since.remove(&self.number);
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
        let Self { body, rest, untaken, wait, .. } = &mut *self;
        // The client has room, so from here on the wait is for the body.
        *wait = None;
        let frame = match rest.is_empty() {
            true => match ready!(Pin::new(body).poll_frame(context)) {
                Some(frame) => frame?,
                None => return Poll::Ready(None),
            },
            false => Frame::data(take(rest)),
        };
        let frame = frame.map_data(|mut bytes| {
            *rest = bytes.split_off(bytes.len().min(PART));
            Part { bytes, _wait: untaken.wait() }
        });
        if !self.is_end_stream() {
            self.wait = Some(self.untaken.wait());
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
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
