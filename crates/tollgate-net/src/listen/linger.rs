//! The end of a connection, after which the client still gets the last answer.
//!
//! If a socket is closed while bytes of the client are unread, the operating system resets the
//! connection, and withdraws what the client has not read yet. A client that writes all of its
//! request before it reads would never see why it is refused. So our side ends first, and what the
//! client still sends is read and dropped, for a time.

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a client may go on to send, and when the server ends.
const MOST: Duration = Duration::from_secs(30);
const MOST_AT_THE_END: Duration = Duration::from_secs(1);

/// How long the first bytes are waited for, and more of them.
const FIRST: Duration = Duration::from_millis(500);
const NEXT: Duration = Duration::from_secs(5);

/// The most bytes that are dropped.
const DROPPED: usize = 64 << 20;

/// The bytes that are read at once.
const READ: usize = 4096;

/// A client that may still send, after our side has ended.
pub(crate) struct Linger {
    until: Instant,
    left: usize,
    timer: Pin<Box<Sleep>>,
}

impl Linger {
    /// `is_end`: the server ends.
    pub(crate) fn new(is_end: bool) -> Self {
        let now = Instant::now();
        let until = now + if is_end { MOST_AT_THE_END } else { MOST };
        Self { until, left: DROPPED, timer: Box::pin(sleep_until(now + FIRST)) }
    }

    /// Reads and drops. Is ready when the client has ended its side too, or for too long has not.
    pub(crate) fn poll<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            let mut room = [const { MaybeUninit::uninit() }; READ];
            let mut buffer = ReadBuf::uninit(&mut room);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let Some(left) = self.left.checked_sub(buffer.filled().len()) else {
                        return Poll::Ready(());
                    };
                    self.left = left;
                    self.timer.as_mut().reset(self.until.min(Instant::now() + NEXT));
                }
                // The client has ended its side, or is gone.
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.timer.as_mut().poll(context),
            }
        }
    }
}

/// Ends our side, and lingers. `is_end`: the server ends.
pub async fn close<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, is_end: bool) {
    // An error: the client has closed it already.
    if stream.shutdown().await.is_ok() {
        let mut linger = Linger::new(is_end);
        poll_fn(|context| linger.poll(stream, context)).await;
    }
}
