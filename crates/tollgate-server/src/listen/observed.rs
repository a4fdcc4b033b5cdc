//! A stream that shows what arrives.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that shows `observe` the bytes that arrive, before they are read.
pub(crate) struct Observed<S, O> {
    stream: S,
    observe: O,
    /// What arrived before.
    unread: Bytes,
}

impl<S, O: FnMut(&[u8])> Observed<S, O> {
    pub(crate) fn new(stream: S, observe: O) -> Self {
        Self::after(Bytes::new(), stream, observe)
    }

    /// A stream of which these bytes have arrived already. They are read first.
    pub(crate) fn after(unread: Bytes, stream: S, observe: O) -> Self {
        Self { stream, observe, unread }
    }
}

impl<S: AsyncRead + Unpin, O: FnMut(&[u8]) + Unpin> AsyncRead for Observed<S, O> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match self.unread.is_empty() {
            true => ready!(Pin::new(&mut self.stream).poll_read(context, buffer)),
            false => {
                let count = self.unread.len().min(buffer.remaining());
                buffer.put_slice(&self.unread.split_to(count));
                Ok(())
            }
        };
        if buffer.filled().len() > before {
            (self.observe)(&buffer.filled()[before..]);
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin, O: Unpin> AsyncWrite for Observed<S, O> {
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
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
