//! A stream that shows what arrives, and may be ended by who looks at it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Who looks at what arrives.
pub trait Observer {
    /// Bytes have arrived.
    fn arrived(&mut self, bytes: &[u8]);

    /// Bytes with which the stream ends, once it is to end: no more is read, and these are written
    /// behind all else.
    fn farewell(&self) -> Option<&'static [u8]> {
        None
    }
}

impl<F: FnMut(&[u8])> Observer for F {
    fn arrived(&mut self, bytes: &[u8]) {
        self(bytes);
    }
}

/// A stream that shows its observer the bytes that arrive, before they are read.
pub struct Observed<S, O> {
    stream: S,
    observer: O,
    /// What arrived before.
    unread: Bytes,
    /// How much of the farewell was written.
    said: usize,
}

impl<S, O: Observer> Observed<S, O> {
    /// Shows `observer` what arrives by a stream.
    pub fn new(stream: S, observer: O) -> Self {
        Self::after(Bytes::new(), stream, observer)
    }

    /// A stream of which these bytes have arrived already. They are read first.
    pub(crate) fn after(unread: Bytes, stream: S, observer: O) -> Self {
        Self { stream, observer, unread, said: 0 }
    }

    /// Once the stream is to end, a client that takes nothing is not waited for.
    fn or_ended<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match written {
            Poll::Pending if self.observer.farewell().is_some() => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            written => written,
        }
    }
}

impl<S: AsyncRead + Unpin, O: Observer + Unpin> AsyncRead for Observed<S, O> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.observer.farewell().is_some() {
            return Poll::Ready(Ok(()));
        }
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
            self.observer.arrived(&buffer.filled()[before..]);
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin, O: Observer + Unpin> AsyncWrite for Observed<S, O> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.or_ended(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.or_ended(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.or_ended(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let farewell = self.observer.farewell().unwrap_or_default();
        while self.said < farewell.len() {
            let rest = &farewell[self.said..];
            let written = Pin::new(&mut self.stream).poll_write(context, rest);
            match ready!(self.or_ended(written))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.said += count,
            }
        }
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.or_ended(ended)
    }
}
