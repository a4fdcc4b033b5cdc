//! Where to listen, as text.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where to listen: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` (the first of these), `:8080`
/// (all addresses of this machine, of IPv6 and IPv4), `unix:/run/tollgate.sock`,
/// `unix:/run/tollgate.sock,mode=0660`, or `fd:http`.
///
/// # Examples
///
/// ```
/// use tollgate_net::listen::ListenAddress;
///
/// let address: ListenAddress = "unix:/run/tollgate.sock,mode=0660".parse()?;
/// assert!(matches!(address, ListenAddress::Unix { mode: Some(0o660), .. }));
/// assert!("8080".parse::<ListenAddress>().is_err());
/// # Ok::<(), tollgate_net::listen::BadAddress>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenAddress {
    /// An address and a port; port 0 lets the operating system choose.
    Tcp(SocketAddr),
    /// A Unix socket. A socket that is left there by another process that has ended is replaced.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Its permissions; `None`: what the process's umask leaves.
        mode: Option<u32>,
    },
    /// A socket that systemd has bound, by its `FileDescriptorName`. Of several with one name, each
    /// mention takes one.
    Inherited(String),
}

/// Text that names no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress {
    text: String,
    why: &'static str,
}

impl ListenAddress {
    /// Whether only this machine can reach it: loopback, or a Unix socket. An inherited socket is
    /// not, before it has been taken and its address is known.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix { .. } => true,
            Self::Inherited(_) => false,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why| BadAddress { text: text.into(), why };
        if let Some(name) = text.strip_prefix("fd:") {
            let is_name = !name.is_empty() && !name.contains(':');
            return if is_name { Ok(Self::Inherited(name.into())) } else { Err(bad("write fd:name")) };
        }
        let Some(unix) = text.strip_prefix("unix:") else {
            return tcp(text)
                .map(Self::Tcp)
                .ok_or_else(|| bad("write 127.0.0.1:8080, :8080 for all addresses, unix:/path or fd:name"));
        };
        let (path, mode) = match unix.split_once(",mode=") {
            None => (unix, None),
            Some((path, mode)) => {
                let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o777);
                (path, Some(mode.ok_or_else(|| bad("the mode is octal, up to 0777"))?))
            }
        };
        if !path.starts_with('/') {
            return Err(bad("the path of a Unix socket begins with /"));
        }
        Ok(Self::Unix { path: path.into(), mode })
    }
}

/// An address with a port; a port alone is that of all addresses.
fn tcp(text: &str) -> Option<SocketAddr> {
    let short = |host: &str, address: IpAddr| {
        let port = text.strip_prefix(host)?.strip_prefix(':')?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        Some(SocketAddr::from((address, port.parse().ok().filter(|_| is_number)?)))
    };
    let full = text.parse().ok();
    full.or_else(|| short("localhost", Ipv4Addr::LOCALHOST.into()))
        .or_else(|| short("", Ipv6Addr::UNSPECIFIED.into()))
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
            Self::Inherited(name) => write!(f, "fd:{name}"),
        }
    }
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no address to listen on: {}", self.text, self.why)
    }
}

impl std::error::Error for BadAddress {}
