//! A connection to an upstream that hyper drives.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::dial::Dialled;
use super::failed::Ended;
use super::upload::Upload;

/// A connection without a task of its own: that of the request which it serves drives it.
pub(super) struct ByHyper {
    sender: SendRequest<Upload>,
    /// `None` once it has ended.
    driver: Option<Pin<Box<Driver>>>,
    /// Whether a byte has come since the last request was sent.
    has_heard: Arc<AtomicBool>,
}

type Driver = dyn Future<Output = hyper::Result<()>> + Send;

impl ByHyper {
    /// `answered` is what has come of the answer to the next request, which was sent already:
    /// hyper's bytes of it are not.
    pub(super) async fn new(stream: Dialled, answered: Bytes) -> Result<Box<Self>, Ended> {
        let stream = Answered::new(stream, answered);
        let has_heard = Arc::clone(&stream.has_heard);
        let (sender, driver) = handshake(TokioIo::new(stream)).await.map_err(|_| Ended::Unsent)?;
        Ok(Box::new(Self { sender, driver: Some(Box::pin(driver.with_upgrades())), has_heard }))
    }

    /// Sends a request, and reads the head of its answer. After an error the request stays if
    /// nothing of it was sent.
    pub(super) async fn ask(
        &mut self,
        request: &mut Option<Request<Upload>>,
    ) -> Result<Response<Incoming>, Ended> {
        self.has_heard.store(false, Relaxed);
        let mut answer = pin!(self.sender.try_send_request(request.take().ok_or(Ended::Broken)?));
        let answered = poll_fn(|context| {
            drive(&mut self.driver, context);
            answer.as_mut().poll(context)
        });
        answered.await.map_err(|mut error| {
            *request = error.take_message();
            match self.has_heard.load(Relaxed) {
                _ if request.is_some() => Ended::Unsent,
                true => Ended::Broken,
                false => Ended::Unanswered,
            }
        })
    }

    /// Reads and writes what there is.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        drive(&mut self.driver, context);
    }

    /// Whether it is idle, and not closed by the upstream.
    pub(super) fn is_open(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Whether it may serve another request: it has ended the last one.
    pub(super) fn is_ready(&mut self) -> bool {
        self.sender.is_ready() || self.is_open()
    }

    /// Drives it in a task of its own, for one request more.
    pub(super) fn detach(self) {
        if let Some(driver) = self.driver {
            tokio::spawn(driver);
        }
    }
}

fn drive(driver: &mut Option<Pin<Box<Driver>>>, context: &mut Context<'_>) {
    if let Some(running) = driver
        && let Poll::Ready(ended) = running.as_mut().poll(context)
    {
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection to an upstream ended");
        }
        *driver = None;
    }
}

/// A stream whose next request was sent before hyper got it. The request that hyper writes goes
/// nowhere, and hyper reads the first bytes of the answer from here.
struct Answered<S> {
    stream: S,
    /// The first bytes of the answer. Empty: bytes pass both ways.
    answer: Bytes,
    /// Whether hyper has written its request. It takes an answer before for one to no request.
    is_asked: bool,
    /// Wakes hyper, which waits for the answer.
    waker: Option<Waker>,
    /// Set when hyper reads a byte.
    has_heard: Arc<AtomicBool>,
}

impl<S> Answered<S> {
    fn new(stream: S, answer: Bytes) -> Self {
        Self { stream, answer, is_asked: false, waker: None, has_heard: Arc::default() }
    }

    /// Takes what hyper writes of the request.
    fn swallow(&mut self, count: usize) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Answered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.answer.is_empty() {
            let before = buffer.filled().len();
            let read = Pin::new(&mut self.stream).poll_read(context, buffer);
            if buffer.filled().len() > before {
                self.has_heard.store(true, Relaxed);
            }
            return read;
        }
        if !self.is_asked {
            self.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = self.answer.len().min(buffer.remaining());
        buffer.put_slice(&self.answer[..count]);
        self.answer.advance(count);
        self.has_heard.store(true, Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Answered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.answer.is_empty() {
            true => Pin::new(&mut self.stream).poll_write(context, bytes),
            false => self.swallow(bytes.len()),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.answer.is_empty() {
            true => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
            false => self.swallow(slices.iter().map(|slice| slice.len()).sum()),
        }
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
