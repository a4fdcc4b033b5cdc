//! A connection's bytes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::Presence;

/// An accepted connection.
pub struct Connection {
    /// Its bytes.
    pub stream: Stream,
    /// Who made it.
    pub peer: Peer,
    /// What it does, for its listener.
    pub presence: Arc<Presence>,
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A client of TCP.
    Tcp(SocketAddr),
    /// A client of a Unix socket.
    Unix,
}

impl Peer {
    /// The address of a client.
    pub fn address(self) -> IpAddr {
        match self {
            Self::Tcp(address) => address.ip().to_canonical(),
            // The permissions of the socket say who may connect: processes of this machine.
            Self::Unix => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

/// The bytes of a connection.
pub enum Stream {
    /// TCP in plain text.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

/// What tells that its other end has broken it.
pub(crate) trait Resets {
    /// Waits for that, and reads nothing: what has come stays.
    fn reset(&self) -> impl Future<Output = ()> + Send;
}

impl Resets for Stream {
    async fn reset(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.ready(Interest::ERROR).await,
            Self::Unix(stream) => stream.ready(Interest::ERROR).await,
            Self::Tls(stream) => stream.get_ref().0.ready(Interest::ERROR).await,
        };
    }
}

macro_rules! each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream.get_mut() {
            Stream::Tcp($inner) => $call,
            Stream::Unix($inner) => $call,
            Stream::Tls($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
