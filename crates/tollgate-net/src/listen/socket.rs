//! A bound socket.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use tokio::net::{TcpListener, UnixListener};

use super::inherited::{self, Bound};
use super::{ListenAddress, Peer, Stream};

/// How many connections may wait to be accepted, if the operating system allows as many: more than
/// the 128 of `bind`, since they come to one thread, which may be busy.
const BACKLOG: i32 = 4_096;

/// A socket that takes connections, of no runtime.
pub(super) enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// It, while a runtime waits for connections.
pub(super) enum Waiting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socket {
    /// Binds an address. Returns the socket with the address that it has got.
    pub(super) fn bind(address: &ListenAddress) -> io::Result<(Self, ListenAddress)> {
        match address {
            ListenAddress::Tcp(address) => {
                let listener = bind_tcp(*address)?;
                socket2::SockRef::from(&listener).listen(BACKLOG)?;
                Self::tcp(listener)
            }
            ListenAddress::Unix { path, mode } => {
                remove_left_socket(path)?;
                let listener = std::os::unix::net::UnixListener::bind(path)?;
                socket2::SockRef::from(&listener).listen(BACKLOG)?;
                if let Some(mode) = mode {
                    std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode))?;
                }
                listener.set_nonblocking(true)?;
                Ok((Self::Unix(listener), address.clone()))
            }
            ListenAddress::Inherited(name) => match inherited::take(name)? {
                Bound::Tcp(listener) => Self::tcp(listener),
                Bound::Unix(listener) => {
                    listener.set_nonblocking(true)?;
                    let path = listener.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
                    let bound = ListenAddress::Unix { path, mode: None };
                    Ok((Self::Unix(listener), bound))
                }
            },
        }
    }

    fn tcp(listener: std::net::TcpListener) -> io::Result<(Self, ListenAddress)> {
        listener.set_nonblocking(true)?;
        let bound = ListenAddress::Tcp(listener.local_addr()?);
        Ok((Self::Tcp(listener), bound))
    }

    /// Lets this runtime wait for connections.
    pub(super) fn wait(&self) -> io::Result<Waiting> {
        match self {
            Self::Tcp(listener) => TcpListener::from_std(listener.try_clone()?).map(Waiting::Tcp),
            Self::Unix(listener) => UnixListener::from_std(listener.try_clone()?).map(Waiting::Unix),
        }
    }
}

impl Waiting {
    pub(super) async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // An answer is one write: it must not wait for an acknowledgement of the one
                // before. An error means that the client has gone, which its connection finds out.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer::Tcp(peer)))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), Peer::Unix))
            }
        }
    }
}

/// Binds an address. All addresses of a machine without IPv6 are those of IPv4.
fn bind_tcp(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let bound = std::net::TcpListener::bind(address);
    let has_none = |error: &io::Error| {
        error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
            && address.ip() == Ipv6Addr::UNSPECIFIED
    };
    match bound {
        Err(error) if has_none(&error) => {
            std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        }
        bound => bound,
    }
}

/// Removes a socket at which no process listens any more. Anything else stays.
fn remove_left_socket(path: &Path) -> io::Result<()> {
    let Ok(file) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !file.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file is there that is no socket"));
    }
    if std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
