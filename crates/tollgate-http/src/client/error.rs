//! The error of an invalid setting of a client address.

use std::error::Error;
use std::fmt;

/// An invalid setting of a [`ClientAddress`](crate::ClientAddress).
///
/// # Examples
///
/// ```
/// use std::net::SocketAddr;
/// use tollgate_http::{AddressError, ClientAddress};
///
/// let client = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
/// let error = client.x_forwarded_for(["0.0.0.0/0"]).unwrap_err();
/// assert_eq!(error, AddressError::TrustsEveryone { given: "0.0.0.0/0".into() });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// A trusted proxy is neither an address nor a network such as `10.0.0.0/8`.
    InvalidNetwork {
        /// The text given.
        given: String,
    },
    /// The trusted proxies contain every address of IPv4 or of IPv6, so any client could choose its
    /// address.
    TrustsEveryone {
        /// The network given, or the networks that contain every address together.
        given: String,
    },
    /// The prefix that groups IPv6 clients has 1 to 128 bits.
    Ipv6Prefix {
        /// The bits given.
        given: u8,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidNetwork { given } => {
                write!(f, "{given:?} is neither an address nor a network such as 10.0.0.0/8 or fd00::/8")
            }
            Self::TrustsEveryone { given } => {
                write!(f, "{given:?} trusts every address: any client could choose its own")
            }
            Self::Ipv6Prefix { given } => {
                write!(f, "ipv6_prefix is {given}, but must be between 1 and 128 bits")
            }
        }
    }
}

impl Error for AddressError {}
