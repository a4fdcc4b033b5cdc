//! The bytes of one connection: in, answered, and out.
//!
//! ```text
//!   read --> input --> answer --> output --> write
//!    ^                   |                     |
//!    |  all whole commands are answered        |
//!    +---- and the client leaves less than UNREAD_BYTES unread
//! ```

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};
use tollgate_net::listen::{Held, NoRoom, Stream, close};

use super::session::UNREAD_BYTES;

/// The bytes of a buffer at first, and of one that is read into while it is empty.
const SMALL: usize = 4 << 10;

/// The bytes that an empty buffer keeps at most: of many idle connections this is what counts. A
/// larger one is held against the listener's bound.
const KEPT: usize = 16 << 10;

/// The bytes up to which a buffer grows to read more at once.
const LARGE: usize = 64 << 10;

/// How long a client may leave too much unread.
pub(super) const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// More bytes, or room for answers if too many are unread.
    Input,
    /// Room for answers: commands wait.
    Room,
    /// All answers sent.
    Sent,
}

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Done,
    /// The client sends no more.
    End,
    /// A command did not come in time, or answers were not read in time.
    TooSlow(&'static str),
    /// A part of a command fills its buffer, and a larger one is more than the connection may hold.
    NoRoom,
}

/// A connection with its buffers.
pub(super) struct Wire {
    stream: Stream,
    input: Vec<u8>,
    /// The whole of `input`, if it is large.
    held: Held,
    /// How much of `input` was answered.
    used: usize,
    pub(super) output: Vec<u8>,
    /// How much of `output` was sent.
    sent: usize,
    /// When the command that has begun must be complete.
    command_by: Option<Instant>,
    /// When the client must have read enough.
    read_by: Option<Instant>,
    /// When the client must have authenticated.
    known_by: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    pub(super) fn new(stream: Stream, held: Held) -> Self {
        Self {
            stream,
            input: Vec::new(),
            held,
            used: 0,
            output: Vec::new(),
            sent: 0,
            command_by: None,
            read_by: None,
            known_by: None,
            timer: None,
        }
    }

    /// The bytes that are not answered yet, and where answers are written: behind those that the
    /// client has not read.
    pub(super) fn buffers(&mut self) -> (&[u8], &mut Vec<u8>) {
        // What is left counts against `UNREAD_BYTES`; what was sent must not.
        self.output.drain(..std::mem::take(&mut self.sent));
        (&self.input[self.used..], &mut self.output)
    }

    /// Notes whether the client has authenticated, if it must. It has `timeout` for that, and
    /// other commands do not prolong it.
    pub(super) fn authenticated(&mut self, is_known: bool, timeout: Duration) {
        if is_known {
            self.known_by = None;
        } else if self.known_by.is_none() {
            self.known_by = Some(Instant::now() + timeout);
        }
    }

    /// Notes that so many bytes were answered. The rest is a part of a command if
    /// `is_partial`, which must then be complete within `timeout`.
    pub(super) fn answered(&mut self, bytes: usize, is_partial: bool, timeout: Duration) {
        self.used += bytes;
        if self.used == self.input.len() {
            self.used = 0;
            empty(&mut self.input);
            self.held.release();
            self.command_by = None;
        } else if !is_partial {
            self.command_by = None;
        } else if bytes > 0 || self.command_by.is_none() {
            self.command_by = Some(Instant::now() + timeout);
        }
    }

    /// Whether all that has come was answered.
    pub(super) fn is_between_commands(&self) -> bool {
        self.used == self.input.len()
    }

    /// Sends what there is to send, and reads meanwhile if it may.
    pub(super) async fn wait(&mut self, wait: Wait) -> io::Result<Waited> {
        poll_fn(|context| self.poll(wait, context)).await
    }

    fn poll(&mut self, wait: Wait, context: &mut Context<'_>) -> Poll<io::Result<Waited>> {
        // A stranger that always has more to say waits for no timer.
        if self.known_by.is_some_and(|by| by <= Instant::now()) {
            return Poll::Ready(Ok(Waited::TooSlow("unauthenticated")));
        }
        let is_sent = self.poll_send(context)?.is_ready();
        match wait {
            Wait::Sent if is_sent => return Poll::Ready(Ok(Waited::Done)),
            Wait::Room if self.has_room() => return Poll::Ready(Ok(Waited::Done)),
            Wait::Input if self.has_room() => {
                if self.make_room().is_err() {
                    return Poll::Ready(Ok(Waited::NoRoom));
                }
                if let Poll::Ready(bytes) = self.poll_read(context)? {
                    return Poll::Ready(Ok(if bytes > 0 { Waited::Done } else { Waited::End }));
                }
            }
            _ => {}
        }
        let is_unread = wait == Wait::Sent || !self.has_room();
        if !is_unread {
            self.read_by = None;
        } else if self.read_by.is_none() {
            self.read_by = Some(Instant::now() + UNREAD_TIMEOUT);
        }
        // While answers are not read, no command can come.
        let late = if is_unread { (self.read_by, "unread") } else { (self.command_by, "slow") };
        let ends = [late, (self.known_by, "unauthenticated")];
        let first = ends.into_iter().filter_map(|(by, kind)| Some((by?, kind))).min();
        let Some((by, kind)) = first else { return Poll::Pending };
        ready!(self.poll_timer(by, context));
        Poll::Ready(Ok(Waited::TooSlow(kind)))
    }

    fn has_room(&self) -> bool {
        self.output.len() - self.sent < UNREAD_BYTES
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.output.len() {
            let unsent = &self.output[self.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, unsent))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                bytes => self.sent += bytes,
            }
        }
        if self.sent > 0 {
            self.sent = 0;
            empty(&mut self.output);
            // TLS may hold something back.
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once: how many bytes, 0 at the end.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        pin!(self.stream.read_buf(&mut self.input)).poll(context)
    }

    /// Makes room to read into: a full buffer was too small. It is an error if a part of a command
    /// fills it, and the connection may not hold a larger one.
    fn make_room(&mut self) -> Result<(), NoRoom> {
        if self.input.is_empty() {
            self.input.reserve(SMALL);
        } else if self.input.len() == self.input.capacity() {
            self.input.drain(..self.used);
            self.used = 0;
            let (len, capacity) = (self.input.len(), self.input.capacity());
            if len > capacity / 2 || capacity < LARGE {
                match self.hold(2 * capacity) {
                    Ok(()) => self.input.reserve_exact(2 * capacity - len),
                    Err(no_room) if len == capacity => return Err(no_room),
                    // It reads less at once.
                    Err(NoRoom) => {}
                }
            }
        }
        Ok(())
    }

    /// Holds a buffer of so many bytes, if it is large.
    fn hold(&mut self, capacity: usize) -> Result<(), NoRoom> {
        if capacity > KEPT { self.held.hold(capacity) } else { Ok(()) }
    }

    fn poll_timer(&mut self, by: Instant, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(by)));
        if timer.deadline() != by {
            timer.as_mut().reset(by);
        }
        timer.as_mut().poll(context)
    }

    /// Ends the connection: answers arrive. `is_end`: the server ends.
    pub(super) async fn close(mut self, is_end: bool) {
        close(&mut self.stream, is_end).await;
    }
}

/// Empties a buffer, and frees it if it is large.
fn empty(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT { *buffer = Vec::new() } else { buffer.clear() }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use super::*;
    use tollgate_net::listen::Presence;

    /// There is always more to read, so no timer is asked.
    #[tokio::test]
    async fn a_stranger_that_always_speaks_is_late_too() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(Stream::Unix(server), Held::new(&Presence::alone(), 0));
        client.write_all(&[b'x'; 64 << 10]).await.unwrap();
        wire.authenticated(false, Duration::from_secs(3_600));
        assert_eq!(wire.wait(Wait::Input).await.unwrap(), Waited::Done);
        wire.authenticated(true, Duration::ZERO);
        wire.authenticated(false, Duration::ZERO);
        assert_eq!(wire.wait(Wait::Input).await.unwrap(), Waited::TooSlow("unauthenticated"));
    }
}
