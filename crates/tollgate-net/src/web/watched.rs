//! A stream for hyper that fails when the client has reset it, and lingers at its end.
//!
//! Of a client of HTTP/1 that has sent its next request hyper reads no more before the answer, so
//! it does not see the client leave. But it flushes whenever it is polled: after each look at the
//! connection, that tells whether the client has reset it.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::idle::Activity;
use crate::listen::{Linger, Resets, Stream};

/// A stream that looks for a reset when its connection is looked at.
pub(super) struct Watched {
    stream: Stream,
    activity: Arc<Activity>,
    /// Our side has ended.
    linger: Option<Box<Linger>>,
}

impl Watched {
    pub(super) fn new(stream: Stream, activity: Arc<Activity>) -> Self {
        Self { stream, activity, linger: None }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.activity.was_looked_at() && pin!(self.stream.reset()).poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, activity, linger } = &mut *self;
        // What the client of a tunnel still sends is for the other end.
        if activity.is_handed_over() {
            return Pin::new(stream).poll_shutdown(context);
        }
        if linger.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(context))?;
        }
        let linger = linger.get_or_insert_with(|| Box::new(Linger::new(activity.is_ending())));
        linger.poll(stream, context).map(Ok)
    }
}
