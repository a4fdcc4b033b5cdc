//! Whose request it is: the client's address, through the proxies that are trusted and no further.
//!
//! ```text
//!   X-Forwarded-For:  6.6.6.6 ,   203.0.113.9 ,   10.0.0.7        connection: 10.0.0.2
//!                     written by  written by      written by      known
//!                     the client  10.0.0.7        10.0.0.2
//!                        ^            ^               ^               |
//!                     not read     the client      trusted  <---  trusted
//! ```
//!
//! Each proxy appends the address that it was called from. So an entry is as good as whoever wrote it, and the walk goes
//! from right to left as long as it stands on a trusted proxy. What it cannot read ends it there: the last address that
//! is certain is the key, never one that lies beyond.

mod address;
mod chain;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::{Extensions, HeaderName};
use ipnet::IpNet;

pub(crate) use address::Address;
use chain::Syntax;

use crate::meter::Unread;
use crate::{BuildError, Head, KeyBuf};

/// Finds the address of the connection among what the server attached to the request.
type Peer = Arc<dyn Fn(&Extensions) -> Option<Address> + Send + Sync>;

/// How the client's address is found: from the connection, or from a header that trusted proxies write.
///
/// IPv4-mapped IPv6 addresses (`::ffff:192.0.2.1`) and those of the NAT64 prefix `64:ff9b::/96` count as the IPv4
/// address that they hold, unless NAT64 could not have translated it: a private one. As a key, an IPv6 address counts by
/// its first 64 bits: see [`ipv6_prefix`](Self::ipv6_prefix).
///
/// One header is read: the last that is named. Name the one that your proxies write; any other they may pass on as the
/// client wrote it.
///
/// Where the connection's address stands is the server's business, so a closure says where:
///
/// | server | closure |
/// |---|---|
/// | axum | `\|info: &ConnectInfo<SocketAddr>\| Some(info.0.ip())`, served `into_make_service_with_connect_info::<SocketAddr>()` |
/// | tonic | `\|info: &TcpConnectInfo\| Some(info.remote_addr()?.ip())` |
/// | hyper | `\|peer: &SocketAddr\| Some(peer.ip())`, attached to each request as an extension |
///
/// # Examples
///
/// ```
/// use std::net::{IpAddr, SocketAddr};
/// use http::Request;
/// use tollgate_tower::{ClientAddress, Head};
///
/// let client = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip())).x_forwarded_for(["10.0.0.0/8"])?;
///
/// // From a trusted proxy: the rightmost entry that is no proxy of ours. What the client wrote before it is not read.
/// let request = Request::builder()
///     .header("x-forwarded-for", "6.6.6.6, 203.0.113.9, 10.0.0.7")
///     .extension("10.0.0.2:4711".parse::<SocketAddr>().unwrap());
/// let address = client.of(Head::of(&request.body(()).unwrap()));
/// assert_eq!(address, Some(IpAddr::from([203, 0, 113, 9])));
///
/// // From anybody else: the header says nothing.
/// let request = Request::builder()
///     .header("x-forwarded-for", "6.6.6.6")
///     .extension("198.51.100.1:4711".parse::<SocketAddr>().unwrap());
/// let address = client.of(Head::of(&request.body(()).unwrap()));
/// assert_eq!(address, Some(IpAddr::from([198, 51, 100, 1])));
/// # Ok::<(), tollgate_tower::BuildError>(())
/// ```
#[derive(Clone)]
pub struct ClientAddress {
    peer: Peer,
    proxies: Option<Proxies>,
    unread: Unread,
    ipv6_prefix: u8,
}

/// Who may write the client's address, and where.
#[derive(Clone, Debug)]
struct Proxies {
    header: HeaderName,
    syntax: Syntax,
    trusted: Arc<[IpNet]>,
}

impl ClientAddress {
    /// The address of the connection, which `peer` reads out of an extension of the request.
    ///
    /// A request without that extension, or for which `peer` returns `None`, has no address: no header is believed then,
    /// and the rule's [`Missing`](crate::Missing) says what happens. For a Unix socket that only a proxy of one's own
    /// can open, return an address that is trusted, such as 127.0.0.1.
    ///
    /// Behind a proxy that is not named here, all of its clients have its address and share one limit. With the feature
    /// `tracing`, the first request that brings `X-Forwarded-For` or `Forwarded` warns of that.
    pub fn connection<T: Clone + Send + Sync + 'static>(
        peer: impl Fn(&T) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        let peer = move |extensions: &Extensions| Some(peer(extensions.get()?)?.into());
        Self { peer: Arc::new(peer), proxies: None, unread: Unread::default(), ipv6_prefix: 64 }
    }

    /// Reads `X-Forwarded-For` when the connection comes from one of these networks: `10.0.0.0/8`, `fd00::/8`, or a
    /// single address.
    ///
    /// Trust what only your own proxies have: a client whose own address is trusted can write any other.
    ///
    /// # Errors
    ///
    /// [`BuildError::Network`] and [`BuildError::TrustsEveryone`] name the network.
    pub fn x_forwarded_for(
        self,
        trusted: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, BuildError> {
        self.header(HeaderName::from_static("x-forwarded-for"), trusted)
    }

    /// Reads `Forwarded` (RFC 7239) when the connection comes from one of these networks.
    ///
    /// # Errors
    ///
    /// As [`x_forwarded_for`](Self::x_forwarded_for).
    pub fn forwarded(self, trusted: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, BuildError> {
        self.behind(http::header::FORWARDED, Syntax::Forwarded, trusted)
    }

    /// Reads a header of this name when the connection comes from one of these networks: `cf-connecting-ip`,
    /// `x-real-ip`, `fly-client-ip`. It may hold a list, which is read as `X-Forwarded-For` is.
    ///
    /// # Errors
    ///
    /// As [`x_forwarded_for`](Self::x_forwarded_for).
    pub fn header(
        self,
        name: HeaderName,
        trusted: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, BuildError> {
        self.behind(name, Syntax::Addresses, trusted)
    }

    fn behind(
        mut self,
        header: HeaderName,
        syntax: Syntax,
        trusted: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, BuildError> {
        let trusted =
            trusted.into_iter().map(|text| address::network(text.as_ref())).collect::<Result<_, _>>()?;
        self.proxies = Some(Proxies { header, syntax, trusted });
        Ok(self)
    }

    /// How many leading bits of an IPv6 address make the key, from 1 to 128; by default 64, the smallest network that
    /// is usually given to one customer. Many get a /56 or a /48.
    ///
    /// # Errors
    ///
    /// [`BuildError::Ipv6Prefix`].
    pub fn ipv6_prefix(mut self, bits: u8) -> Result<Self, BuildError> {
        if !(1..=128).contains(&bits) {
            return Err(BuildError::Ipv6Prefix { given: bits });
        }
        self.ipv6_prefix = bits;
        Ok(self)
    }

    /// The client's address, normalised but not grouped. `None` when the connection's is not known.
    ///
    /// **Cost.** Allocates nothing. Reads as many entries of the header as there are trusted proxies, and one more.
    #[must_use]
    pub fn of(&self, head: Head<'_>) -> Option<IpAddr> {
        self.find(&head).map(IpAddr::from)
    }

    // By force, as what calls it: each is a few instructions, to which a call of its own adds half as many.
    #[inline(always)]
    fn find(&self, head: &Head<'_>) -> Option<Address> {
        let peer = (self.peer)(head.extensions());
        match (peer, &self.proxies) {
            (Some(peer), Some(proxies)) => Some(proxies.client(peer, head)),
            (peer, Some(_)) => peer,
            (peer, None) => {
                self.unread.look(head);
                peer
            }
        }
    }

    /// The key of the clients of this address, as [`KeyBy::client`](crate::KeyBy::client) writes it: for
    /// [`Rule::for_key`](crate::Rule::for_key).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use tollgate::{Rate, TokenBucket};
    /// use tollgate_tower::{ClientAddress, KeyBy, Rule};
    ///
    /// let client = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
    /// let office = client.key_of([192, 0, 2, 1].into());
    /// let rule = Rule::new("api", [TokenBucket::new(Rate::per_second(10))])
    ///     .key(KeyBy::client(client))
    ///     .for_key(office, [TokenBucket::new(Rate::per_second(1_000))]);
    /// ```
    #[must_use]
    pub fn key_of(&self, address: IpAddr) -> KeyBuf {
        let mut key = KeyBuf::new();
        Address::from(address).write(self.ipv6_prefix, &mut key);
        key
    }

    #[inline(always)]
    pub(crate) fn write(&self, head: &Head<'_>, key: &mut KeyBuf) {
        if let Some(address) = self.find(head) {
            address.write(self.ipv6_prefix, key);
        }
    }
}

impl Proxies {
    fn client(&self, peer: Address, head: &Head<'_>) -> Address {
        let mut certain = peer;
        let lines = head.headers().get_all(&self.header).into_iter().rev();
        let mut entries = lines.flat_map(|line| chain::from_the_right(line.as_bytes(), self.syntax));
        while self.trusts(certain) {
            match entries.next() {
                Some(Some(address)) => certain = address.into(),
                Some(None) | None => break,
            }
        }
        certain
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
