//! Clients, and how they share what there is once.

use std::net::IpAddr;

use super::Peer;

/// How many times as much as is free a client may have.
const SHARE: usize = 8;

/// Whose something is: an IPv4 address, a network of IPv6 of 64 bits, of which a client may choose
/// the rest, or, for all clients of sockets of this machine, one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client(u64);

/// Whether a client that has so much of something may have more, where so much is free. So one
/// client alone fills eight ninths of it, and the next one finds room.
pub fn may_have_more(has: usize, free: usize) -> bool {
    has < free.saturating_mul(SHARE)
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            // Beside the networks that IPv6 gives to clients.
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        })
    }
}

impl From<Peer> for Client {
    fn from(peer: Peer) -> Self {
        match peer {
            Peer::Unix => Self::default(),
            Peer::Tcp(address) => address.ip().into(),
        }
    }
}

impl Client {
    /// A number that no other client has.
    pub const fn number(self) -> u64 {
        self.0
    }

    #[cfg(test)]
    pub(crate) const fn numbered(number: u64) -> Self {
        Self(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_address_or_a_network() {
        let of = |address: &str| Client::from(address.parse::<IpAddr>().unwrap());
        for (first, second, is_one) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ] {
            assert_eq!(of(first) == of(second), is_one, "{first} {second}");
        }
    }

    #[test]
    fn one_client_leaves_a_ninth_to_others() {
        let mut has = 0;
        while may_have_more(has, 900 - has) {
            has += 1;
        }
        assert_eq!(has, 800);
        assert!(may_have_more(0, 100) && !may_have_more(0, 0) && may_have_more(7, usize::MAX));
    }
}
