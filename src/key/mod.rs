//! What can be a key, and how it becomes the 64-bit name by which the table knows it.

mod identity;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use identity::KeyHasher;
pub(crate) use identity::Secret;

/// A type whose values can be limited one by one.
///
/// A key is known to the table by a 64-bit name, so how it is hashed is part of what the limiter promises:
///
/// * keys of at most 8 bytes go through a keyed bijection: **two of them never share a limit**;
/// * longer ones through keyed SipHash-1-3: among `n` keys, two share a limit with probability `n^2 / 2^65`
///   (3e-6 for ten million), and nobody without the limiter's secret key can look for such a pair.
///
/// The secret key is drawn at random for each limiter.
///
/// # Examples
///
/// A key of one's own names itself by the parts that make it:
///
/// ```
/// use tollgate::{KeyHasher, Key, Limiter, Rate, TokenBucket};
///
/// struct Tenant { shard: u16, number: u32 }
///
/// impl Key for Tenant {
///     fn name(&self, identity: &KeyHasher) -> u64 {
///         identity.short(u64::from(self.shard) << 32 | u64::from(self.number))
///     }
/// }
///
/// let limiter = Limiter::<Tenant>::builder(TokenBucket::new(Rate::per_second(1))).build()?;
/// assert!(limiter.check(&Tenant { shard: 1, number: 7 }).is_allowed());
/// assert!(limiter.check(&Tenant { shard: 2, number: 7 }).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub trait Key {
    /// The key's name under `identity`: call exactly one of its methods, once.
    fn name(&self, identity: &KeyHasher) -> u64;
}

macro_rules! short {
    ($($integer:ty),*) => {$(
        impl Key for $integer {
            #[inline]
            fn name(&self, identity: &KeyHasher) -> u64 {
                identity.short(*self as u64)
            }
        }
    )*};
}
short!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, bool, char);

macro_rules! bytes {
    ($($bytes:ty),*) => {$(
        impl Key for $bytes {
            #[inline]
            fn name(&self, identity: &KeyHasher) -> u64 {
                identity.bytes(self.as_ref())
            }
        }
    )*};
}
bytes!(str, String, [u8], Vec<u8>);

impl Key for u128 {
    #[inline]
    fn name(&self, identity: &KeyHasher) -> u64 {
        identity.long(&self.to_le_bytes())
    }
}

impl<const N: usize> Key for [u8; N] {
    #[inline]
    fn name(&self, identity: &KeyHasher) -> u64 {
        if N > 8 {
            return identity.long(self);
        }
        let mut short = [0; 8];
        short[..N].copy_from_slice(self);
        identity.short(u64::from_le_bytes(short))
    }
}

impl Key for Ipv4Addr {
    #[inline]
    fn name(&self, identity: &KeyHasher) -> u64 {
        identity.short(self.to_bits().into())
    }
}

/// The whole address. Clients usually hold a /64 or more: see [`Ipv6Prefix`].
impl Key for Ipv6Addr {
    #[inline]
    fn name(&self, identity: &KeyHasher) -> u64 {
        identity.long(&self.octets())
    }
}

/// The whole address. For IPv6 clients see [`Ipv6Prefix`].
impl Key for IpAddr {
    #[inline]
    fn name(&self, identity: &KeyHasher) -> u64 {
        match self {
            Self::V4(address) => address.name(identity),
            Self::V6(address) => address.name(identity),
        }
    }
}

impl<K: Key + ?Sized> Key for &K {
    #[inline]
    fn name(&self, identity: &KeyHasher) -> u64 {
        (**self).name(identity)
    }
}

/// The first 64 bits of an IPv6 address: the smallest network that is usually given to one customer.
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
    fn name(&self, identity: &KeyHasher) -> u64 {
        identity.short(self.0)
    }
}
