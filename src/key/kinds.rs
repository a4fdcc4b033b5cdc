//! The standard library's types as keys.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

use crate::key::{Key, KeyHasher};

macro_rules! short {
    ($($integer:ty),*) => {$(
        impl Key for $integer {
            #[inline]
            fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
                hasher.short(*self as u64)
            }
        }
    )*};
}
short!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, bool, char);

macro_rules! long {
    ($($integer:ty),*) => {$(
        impl Key for $integer {
            #[inline]
            fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
                hasher.long(&self.to_le_bytes())
            }
        }
    )*};
}
long!(u128, i128);

/// A text, or bytes: every form names the same key.
macro_rules! bytes {
    ($($kind:ty: $($bytes:ty),*;)*) => {$($(
        impl Key<$kind> for $bytes {
            #[inline]
            fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
                hasher.bytes(self.as_ref())
            }
        }
    )*)*};
}
bytes! {
    str: str, String;
    String: str, String;
    [u8]: [u8], Vec<u8>, str, String;
    Vec<u8>: [u8], Vec<u8>;
}

impl<const N: usize> Key<[u8]> for [u8; N] {
    #[inline]
    fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
        hasher.bytes(self)
    }
}

/// The only key of a limit for everything.
impl Key for () {
    #[inline(always)]
    fn fingerprint(&self, _: &KeyHasher) -> u64 {
        0
    }
}

impl<const N: usize> Key for [u8; N] {
    #[inline]
    fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
        if N > 8 {
            return hasher.long(self);
        }
        let mut short = [0; 8];
        short[..N].copy_from_slice(self);
        hasher.short(u64::from_le_bytes(short))
    }
}

impl Key for Ipv4Addr {
    #[inline]
    fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
        hasher.short(self.to_bits().into())
    }
}

/// The whole address. Clients usually hold a /64 or more: see [`Ipv6Prefix`].
impl Key for Ipv6Addr {
    #[inline]
    fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
        hasher.long(&self.octets())
    }
}

/// The whole address; `1.2.3.4` and `::ffff:1.2.3.4` are two keys. For IPv6 clients see
/// [`Ipv6Prefix`].
impl Key for IpAddr {
    #[inline]
    fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
        match self {
            Self::V4(address) => address.fingerprint(hasher),
            Self::V6(address) => address.fingerprint(hasher),
        }
    }
}

macro_rules! held {
    ($($held:ty),*) => {$(
        impl<K: ?Sized, Q: Key<K> + ?Sized> Key<K> for $held {
            #[inline]
            fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
                (**self).fingerprint(hasher)
            }
        }
    )*};
}
held!(&Q, &mut Q, Box<Q>, Arc<Q>, Rc<Q>);

impl<K: ?Sized, Q: Key<K> + ToOwned + ?Sized> Key<K> for Cow<'_, Q> {
    #[inline]
    fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
        (**self).fingerprint(hasher)
    }
}

macro_rules! tuple {
    ($($part:ident of $kind:ident),*; $last:ident of $last_kind:ident) => {
        /// Each part is hashed as 8 bytes, so the parts of two tuples cannot run
        /// together.
        impl<$($kind, $part: Key<$kind>,)* $last_kind: ?Sized, $last: Key<$last_kind>>
            Key<($($kind,)* $last_kind)> for ($($part,)* $last)
        {
            #[inline]
            fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
                #[allow(non_snake_case)]
                let ($($part,)* $last) = self;
                let parts = [$($part.fingerprint(hasher).to_le_bytes(),)* $last.fingerprint(hasher).to_le_bytes()];
                hasher.long(parts.as_flattened())
            }
        }
    };
}
tuple!(QA of A; QB of B);
tuple!(QA of A, QB of B; QC of C);
tuple!(QA of A, QB of B, QC of C; QD of D);

/// The first 64 bits of an IPv6 address: the smallest network that is usually given to one
/// customer.
///
/// # Examples
///
/// ```
/// use std::net::Ipv6Addr;
/// use tollgate::Ipv6Prefix;
///
/// let one: Ipv6Addr = "2001:db8:1:2::1".parse().unwrap();
/// let other: Ipv6Addr = "2001:db8:1:2:ffff::1".parse().unwrap();
/// assert_eq!(Ipv6Prefix::from(one), Ipv6Prefix::from(other));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Prefix(u64);

impl From<Ipv6Addr> for Ipv6Prefix {
    fn from(address: Ipv6Addr) -> Self {
        Self((address.to_bits() >> 64) as u64)
    }
}

impl Key for Ipv6Prefix {
    #[inline]
    fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
        hasher.short(self.0)
    }
}

/// A client's address as a key: an IPv4 address whole, of an IPv6 address the first 64 bits, which
/// are the smallest network that is usually given to one customer. The key to use for limits by
/// address: by whole IPv6 addresses, one customer has 2^64 of them.
///
/// `::ffff:1.2.3.4`, as a socket for both kinds shows an IPv4 client, is `1.2.3.4`.
///
/// # Examples
///
/// ```
/// use std::net::{IpAddr, SocketAddr};
/// use tollgate::{ClientIp, Limiter, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_minute(1));
/// let limiter = Limiter::builder(quota).per::<ClientIp>().build()?;
/// let peer: SocketAddr = "[2001:db8:1:2::1]:5000".parse()?;
/// assert!(limiter.check(peer.ip()).is_allowed());
/// let other: IpAddr = "2001:db8:1:2:ffff::1".parse()?;
/// assert!(!limiter.check(other).is_allowed(), "the same customer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientIp(u64);

impl ClientIp {
    /// Before an IPv4 address. As IPv6 it would be a multicast address, which is no client's.
    const IPV4: u64 = 0xffff << 48;
}

impl From<IpAddr> for ClientIp {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64),
        }
    }
}

impl From<Ipv4Addr> for ClientIp {
    fn from(address: Ipv4Addr) -> Self {
        Self(Self::IPV4 | u64::from(address.to_bits()))
    }
}

impl From<Ipv6Addr> for ClientIp {
    fn from(address: Ipv6Addr) -> Self {
        IpAddr::V6(address).into()
    }
}

impl Key for ClientIp {
    #[inline]
    fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
        hasher.short(self.0)
    }
}

impl Key<ClientIp> for IpAddr {
    #[inline]
    fn fingerprint(&self, hasher: &KeyHasher) -> u64 {
        ClientIp::from(*self).fingerprint(hasher)
    }
}
