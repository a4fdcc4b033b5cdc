//! The client's address, read through trusted proxies.
//!
//! ```text
//!   X-Forwarded-For:  6.6.6.6 ,   203.0.113.9 ,   10.0.0.7        connection: 10.0.0.2
//!                     written by  written by      written by      known
//!                     the client  10.0.0.7        10.0.0.2
//!                        ^            ^               ^               |
//!                     not read     the client      trusted  <---  trusted
//! ```
//!
//! Each proxy appends the address of its caller, so an entry is only as trustworthy as the proxy
//! that wrote it. The walk starts at the connection and goes from right to left while the current
//! address is a trusted proxy. An entry that cannot be read ends the walk: the client is then the
//! last known address.

mod address;
mod chain;
mod error;
mod missing_extension;
mod unread_header;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::{Extensions, HeaderName};
use ipnet::IpNet;

use address::Address;
use chain::Syntax;
pub use error::AddressError;
use missing_extension::MissingExtensionWarning;
use unread_header::UnreadHeaderWarning;

use crate::{KeyBuf, RequestHead};

/// Finds the address of the connection in the extensions of a request.
type PeerOf = Arc<dyn Fn(&Extensions) -> Option<Address> + Send + Sync>;

/// How the client's address is found: from the connection, or from a header that trusted proxies
/// write.
///
/// IPv4-mapped IPv6 addresses (`::ffff:192.0.2.1`) and addresses with the NAT64 prefix
/// `64:ff9b::/96` count as the IPv4 address that they contain. The exception is a private IPv4
/// address under the NAT64 prefix, because NAT64 does not translate it. The key of an IPv6 address
/// is its first 64 bits: see [`ipv6_prefix`](Self::ipv6_prefix).
///
/// If several methods name a header, only the last one is read. Name the header that your proxies
/// write: they may pass on any other header as the client wrote it.
///
/// Each server stores the connection's address in its own extension, which a closure reads:
///
/// | server | closure |
/// |---|---|
/// | axum | `\|info: &ConnectInfo<SocketAddr>\| Some(info.0.ip())` |
/// | tonic | `\|info: &TcpConnectInfo\| Some(info.remote_addr()?.ip())` |
/// | hyper | `\|peer: &SocketAddr\| Some(peer.ip())` |
///
/// axum attaches the extension if it is served with
/// `into_make_service_with_connect_info::<SocketAddr>()`, tonic always, and with hyper your code
/// attaches it.
///
/// # Examples
///
/// ```
/// use std::net::{IpAddr, SocketAddr};
/// use http::Request;
/// use tollgate_http::{ClientAddress, RequestHead};
///
/// let connection = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
/// let client = connection.x_forwarded_for(["10.0.0.0/8"])?;
///
/// // From a trusted proxy: the rightmost entry that is not a trusted proxy. The walk does not
/// // reach the entry that the client wrote.
/// let request = Request::builder()
///     .header("x-forwarded-for", "6.6.6.6, 203.0.113.9, 10.0.0.7")
///     .extension("10.0.0.2:4711".parse::<SocketAddr>().unwrap());
/// let address = client.of(RequestHead::of(&request.body(()).unwrap()));
/// assert_eq!(address, Some(IpAddr::from([203, 0, 113, 9])));
///
/// // From any other peer: the header is ignored.
/// let request = Request::builder()
///     .header("x-forwarded-for", "6.6.6.6")
///     .extension("198.51.100.1:4711".parse::<SocketAddr>().unwrap());
/// let address = client.of(RequestHead::of(&request.body(()).unwrap()));
/// assert_eq!(address, Some(IpAddr::from([198, 51, 100, 1])));
/// # Ok::<(), tollgate_http::AddressError>(())
/// ```
#[derive(Clone)]
pub struct ClientAddress {
    peer: PeerOf,
    proxies: Option<Proxies>,
    unread_header: UnreadHeaderWarning,
    ipv6_prefix: u8,
}

/// The proxies that may name the client, and the header in which they do.
#[derive(Clone, Debug)]
struct Proxies {
    header: HeaderName,
    syntax: Syntax,
    trusted: Arc<[IpNet]>,
}

impl ClientAddress {
    /// Uses the address of the connection, which `peer` reads from an extension of the request.
    ///
    /// A request without that extension, or for which `peer` returns `None`, has no address.
    /// Headers are ignored then, and the request has no key. For a Unix socket that only your own
    /// proxy can open, return a trusted address, such as 127.0.0.1.
    ///
    /// The first request without the extension is an error of the server's set-up, and is said so,
    /// once for each call of this function: with the feature `tracing` as an event, and on standard
    /// error if that feature is off or the process has no subscriber.
    ///
    /// All clients behind a proxy that is not trusted have the proxy's address and share one limit.
    /// With the feature `tracing`, a warning is logged at the first request with `X-Forwarded-For`
    /// or `Forwarded` if no header is read.
    pub fn connection<T: Clone + Send + Sync + 'static>(
        peer: impl Fn(&T) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        let missing = MissingExtensionWarning::default();
        let peer = move |extensions: &Extensions| match extensions.get::<T>() {
            Some(extension) => peer(extension).map(Address::from),
            None => {
                missing.warn::<T>();
                None
            }
        };
        Self {
            peer: Arc::new(peer),
            proxies: None,
            unread_header: UnreadHeaderWarning::default(),
            ipv6_prefix: 64,
        }
    }

    /// Reads `X-Forwarded-For` if the connection comes from one of these networks: `10.0.0.0/8`,
    /// `fd00::/8`, or a single address.
    ///
    /// Trust only addresses of your own proxies: a client with a trusted address can claim any
    /// other.
    ///
    /// # Errors
    ///
    /// [`AddressError::InvalidNetwork`] and [`AddressError::TrustsEveryone`] name the network.
    pub fn x_forwarded_for(
        self,
        trusted: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, AddressError> {
        self.header(HeaderName::from_static("x-forwarded-for"), trusted)
    }

    /// Reads `Forwarded` (RFC 7239) if the connection comes from one of these networks.
    ///
    /// # Errors
    ///
    /// As [`x_forwarded_for`](Self::x_forwarded_for).
    pub fn forwarded(self, trusted: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, AddressError> {
        self.behind(http::header::FORWARDED, Syntax::Forwarded, trusted)
    }

    /// Reads a header such as `cf-connecting-ip`, `x-real-ip` or `fly-client-ip` if the connection
    /// comes from one of these networks. The header may contain a list, which is read like
    /// `X-Forwarded-For`.
    ///
    /// # Errors
    ///
    /// As [`x_forwarded_for`](Self::x_forwarded_for).
    pub fn header(
        self,
        name: HeaderName,
        trusted: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, AddressError> {
        self.behind(name, Syntax::Addresses, trusted)
    }

    fn behind(
        mut self,
        header: HeaderName,
        syntax: Syntax,
        trusted: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, AddressError> {
        let trusted = address::trusted_networks(trusted)?.into();
        self.proxies = Some(Proxies { header, syntax, trusted });
        Ok(self)
    }

    /// Sets how many leading bits of an IPv6 address make the key, 1 to 128. The default is 64, the
    /// smallest network that a provider usually assigns to a customer. Many customers get a /56 or
    /// a /48.
    ///
    /// # Errors
    ///
    /// [`AddressError::Ipv6Prefix`].
    pub fn ipv6_prefix(mut self, bits: u8) -> Result<Self, AddressError> {
        if !(1..=128).contains(&bits) {
            return Err(AddressError::Ipv6Prefix { given: bits });
        }
        self.ipv6_prefix = bits;
        Ok(self)
    }

    /// Returns the client's address in canonical form, not cut to a prefix. `None` if the address
    /// of the connection is unknown.
    ///
    /// **Cost.** No allocation. It reads one entry of the header for each trusted proxy, and one
    /// more.
    #[must_use]
    pub fn of(&self, head: RequestHead<'_>) -> Option<IpAddr> {
        self.find(&head).map(IpAddr::from)
    }

    /// As [`of`](Self::of), for a server that knows the address of the connection without an
    /// extension of the request.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::{IpAddr, SocketAddr};
    /// use http::Request;
    /// use tollgate_http::{ClientAddress, RequestHead};
    ///
    /// let client = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
    /// let client = client.x_forwarded_for(["10.0.0.0/8"])?;
    /// let request = Request::builder().header("x-forwarded-for", "203.0.113.9").body(()).unwrap();
    /// let address = client.of_peer([10, 0, 0, 2].into(), RequestHead::of(&request));
    /// assert_eq!(address, IpAddr::from([203, 0, 113, 9]));
    /// # Ok::<(), tollgate_http::AddressError>(())
    /// ```
    #[must_use]
    pub fn of_peer(&self, peer: IpAddr, head: RequestHead<'_>) -> IpAddr {
        let peer = Address::from(peer);
        self.proxies.as_ref().map_or(peer, |proxies| proxies.client(peer, &head)).into()
    }

    /// Returns a predicate that is true for clients in these networks: `10.0.0.0/8`, `fd00::/8`, or
    /// a single address. It is false for a request whose address is not known.
    ///
    /// As the `skip` of a rule it is an allow list; as its `when`, a rule for these networks only.
    ///
    /// # Errors
    ///
    /// [`AddressError::InvalidNetwork`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use http::Request;
    /// use tollgate_http::{ClientAddress, RequestHead};
    ///
    /// let client = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
    /// let is_internal = client.within(["10.0.0.0/8", "fd00::/8"])?;
    /// let request = Request::builder().extension("10.0.0.2:4711".parse::<SocketAddr>().unwrap());
    /// assert!(is_internal(RequestHead::of(&request.body(()).unwrap())));
    /// assert!(!is_internal(RequestHead::of(&Request::new(()))));
    /// # Ok::<(), tollgate_http::AddressError>(())
    /// ```
    #[expect(clippy::type_complexity, reason = "an alias would hide that it is a closure")]
    pub fn within(
        &self,
        networks: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Box<dyn Fn(RequestHead<'_>) -> bool + Send + Sync>, AddressError> {
        let networks = networks.into_iter().map(|text| address::network(text.as_ref()));
        let networks = networks.collect::<Result<Box<[_]>, _>>()?;
        let client = self.clone();
        Ok(Box::new(move |head| {
            let address = client.of(head);
            address.is_some_and(|address| networks.iter().any(|network| network.contains(&address)))
        }))
    }

    // `always`, here and in the callers: each is a few instructions, and a call would add half as
    // many.
    #[inline(always)]
    fn find(&self, head: &RequestHead<'_>) -> Option<Address> {
        let peer = (self.peer)(head.extensions());
        match (peer, &self.proxies) {
            (Some(peer), Some(proxies)) => Some(proxies.client(peer, head)),
            (peer, Some(_)) => peer,
            (peer, None) => {
                self.unread_header.check(head);
                peer
            }
        }
    }

    /// Returns the key of an address as [`KeyBy::client`](crate::KeyBy::client) writes it: a byte
    /// for the kind, 4 or 6, and the 4 bytes of an IPv4 address or 8 or 16 of an IPv6 address.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use tollgate_http::ClientAddress;
    ///
    /// let client = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
    /// assert_eq!(client.key_of([192, 0, 2, 1].into()).as_bytes(), [4, 192, 0, 2, 1]);
    /// ```
    #[must_use]
    pub fn key_of(&self, address: IpAddr) -> KeyBuf {
        let mut key = KeyBuf::new();
        Address::from(address).write(self.ipv6_prefix, &mut key);
        key
    }

    #[inline(always)]
    pub(crate) fn write(&self, head: &RequestHead<'_>, key: &mut KeyBuf) {
        if let Some(address) = self.find(head) {
            address.write(self.ipv6_prefix, key);
        }
    }
}

impl Proxies {
    /// Walks from the connection's address to the first that is not a trusted proxy.
    fn client(&self, peer: Address, head: &RequestHead<'_>) -> Address {
        let mut client = peer;
        let lines = head.headers().get_all(&self.header).into_iter().rev();
        let mut entries = lines.flat_map(|line| chain::rightmost_first(line.as_bytes(), self.syntax));
        while self.trusts(client) {
            match entries.next() {
                Some(Some(address)) => client = address.into(),
                Some(None) | None => break,
            }
        }
        client
    }

    fn trusts(&self, address: Address) -> bool {
        let address = IpAddr::from(address);
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

impl fmt::Debug for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAddress")
            .field("proxies", &self.proxies)
            .field("ipv6_prefix", &self.ipv6_prefix)
            .finish_non_exhaustive()
    }
}
