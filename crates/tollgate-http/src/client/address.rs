//! Client addresses in canonical form, their keys, and networks of trusted proxies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

use super::AddressError;
use crate::KeyBuf;
use crate::key::first_byte::{IPV4, IPV6};

/// The NAT64 prefix (RFC 6052): the last 32 bits hold an IPv4 address.
const NAT64: u128 = 0x0064_ff9b << 96;
const LAST_32_BITS: u128 = u32::MAX as u128;

/// The prefix of IPv4-mapped IPv6 addresses (RFC 4291): the last 32 bits hold the IPv4 address.
const MAPPED: u128 = 0xffff << 32;

/// A client's address in canonical form: an IPv6 address that stands for an IPv4 address is that
/// IPv4 address. IPv4 addresses are stored IPv4-mapped.
// One integer, because it is written and read in whole words. Reading words back from single octets
// would stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(u128);

impl From<IpAddr> for Address {
    #[inline]
    fn from(address: IpAddr) -> Self {
        let bits = match address {
            IpAddr::V4(v4) => return Self::v4(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        if bits & !LAST_32_BITS == NAT64 && is_translated(bits as u32) {
            Self::v4(bits as u32)
        } else {
            Self(bits)
        }
    }
}

impl From<Address> for IpAddr {
    fn from(Address(bits): Address) -> Self {
        Self::V6(Ipv6Addr::from_bits(bits)).to_canonical()
    }
}

impl Address {
    #[inline]
    fn v4(bits: u32) -> Self {
        Self(MAPPED | u128::from(bits))
    }

    /// Writes the key: a byte for the kind, then 4 bytes for IPv4, 8 bytes for IPv6 up to a /64,
    /// and 16 bytes for longer prefixes.
    #[inline(always)]
    pub(super) fn write(self, ipv6_prefix: u8, key: &mut KeyBuf) {
        if self.0 & !LAST_32_BITS == MAPPED {
            let [a, b, c, d] = (self.0 as u32).to_be_bytes();
            key.push([IPV4, a, b, c, d]);
        } else {
            let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix)).unwrap_or(0);
            let group = (self.0 & mask).to_be_bytes();
            key.push([IPV6]);
            key.push(if ipv6_prefix <= 64 { &group[..8] } else { &group[..] });
        }
    }
}

/// Returns whether a NAT64 translator may have written this IPv4 address. A translator writes
/// neither private addresses nor the shared addresses of carriers and clouds (RFC 6052, section
/// 3.1; RFC 6598). A client may forge such an address to pass for a trusted proxy.
fn is_translated(bits: u32) -> bool {
    let v4 = Ipv4Addr::from_bits(bits);
    let is_shared = matches!(v4.octets(), [100, 64..=127, ..]);
    !(v4.is_private() || v4.is_loopback() || v4.is_link_local() || is_shared)
}

/// Parses networks of trusted proxies. An error if together they trust every address of IPv4 or
/// IPv6, also in parts.
pub(super) fn trusted_networks(
    given: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Vec<IpNet>, AddressError> {
    let mut networks = Vec::new();
    let mut texts = Vec::new();
    for text in given {
        networks.push(network(text.as_ref())?);
        texts.push(text.as_ref().trim().to_owned());
    }
    let Some(everyone) = IpNet::aggregate(&networks).into_iter().find(|network| network.prefix_len() == 0)
    else {
        return Ok(networks);
    };
    let alone = networks.iter().position(|network| network.prefix_len() == 0);
    let in_parts = || {
        let parts = networks.iter().zip(&texts).filter(|(network, _)| everyone.contains(*network));
        parts.map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ")
    };
    Err(AddressError::TrustsEveryone { given: alone.map_or_else(in_parts, |alone| texts[alone].clone()) })
}

/// Parses a network into the canonical form of [`Address`].
pub(super) fn network(text: &str) -> Result<IpNet, AddressError> {
    let text = text.trim();
    let network: IpNet = text
        .parse()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| AddressError::InvalidNetwork { given: text.to_owned() })?;
    Ok(match network {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match Address::from(IpAddr::V6(v6.addr())).into() {
            IpAddr::V4(v4) => Ipv4Net::new(v4, v6.prefix_len() - 96).map_or(network, IpNet::V4),
            IpAddr::V6(_) => network,
        },
        _ => network,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(address: &str, prefix: u8) -> Vec<u8> {
        let mut key = KeyBuf::new();
        Address::from(address.parse::<IpAddr>().unwrap()).write(prefix, &mut key);
        key.as_bytes().to_vec()
    }

    #[test]
    fn an_ipv4_address_has_one_key_in_every_notation() {
        for same in ["::ffff:1.2.3.4", "::ffff:102:304", "64:ff9b::1.2.3.4", "1.2.3.4"] {
            assert_eq!(grouped(same, 64), [4, 1, 2, 3, 4], "{same}");
        }
        assert_eq!(grouped("64:ff9b:1::1.2.3.4", 64).len(), 9, "another prefix is not NAT64");
    }

    #[test]
    fn a_private_address_under_the_nat64_prefix_stays_ipv6() {
        for forged in [
            "64:ff9b::10.0.0.2",
            "64:ff9b::127.0.0.1",
            "64:ff9b::192.168.1.1",
            "64:ff9b::169.254.0.1",
            "64:ff9b::100.64.0.1",
            "64:ff9b::100.127.255.255",
        ] {
            let address = IpAddr::from(Address::from(forged.parse::<IpAddr>().unwrap()));
            assert!(address.is_ipv6(), "{forged} is {address}");
        }
        for global in [[100, 63, 255, 255], [100, 128, 0, 0]] {
            let [a, b, c, d] = global;
            assert_eq!(grouped(&format!("64:ff9b::{a}.{b}.{c}.{d}"), 64), [4, a, b, c, d]);
        }
        assert_eq!(
            trusted_networks(["64:ff9b::/96"]),
            Err(AddressError::TrustsEveryone { given: "64:ff9b::/96".into() })
        );
    }

    #[test]
    fn ipv6_clients_are_grouped_by_their_prefix() {
        assert_eq!(grouped("2001:db8:1:2::1", 64), grouped("2001:db8:1:2:ffff::9", 64));
        assert_ne!(grouped("2001:db8:1:2::1", 64), grouped("2001:db8:1:3::1", 64));
        assert_eq!(grouped("2001:db8:1:200::1", 56), grouped("2001:db8:1:2ff::1", 56));
        assert_ne!(grouped("2001:db8:1:200::1", 56), grouped("2001:db8:1:300::1", 56));
        assert_ne!(grouped("2001:db8:1:2::1", 128), grouped("2001:db8:1:2::2", 128));
        assert_eq!(grouped("8000::", 1), grouped("ffff::", 1));
        assert_ne!(grouped("102:304::", 32), grouped("1.2.3.4", 32), "a short prefix is not an IPv4 address");
    }

    #[test]
    fn a_network_is_an_address_or_a_cidr_block() {
        assert!(network("::ffff:10.0.0.0/104").unwrap().contains(&IpAddr::from([10, 1, 2, 3])));
        assert!(network(" 10.1.2.3/8 ").unwrap().contains(&IpAddr::from([10, 9, 9, 9])));
        assert!(!network("10.1.2.3").unwrap().contains(&IpAddr::from([10, 1, 2, 4])));
        for wrong in ["", "10.0.0.0/33", "example.com", "10.0.0", "fe80::1%eth0"] {
            assert_eq!(network(wrong), Err(AddressError::InvalidNetwork { given: wrong.into() }));
        }
    }

    #[test]
    fn all_addresses_are_never_trusted_even_in_parts() {
        let everyone = |given: &str| Err(AddressError::TrustsEveryone { given: given.into() });
        for one in ["0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96"] {
            assert_eq!(trusted_networks([one, "10.0.0.0/8"]), everyone(one));
        }
        assert_eq!(trusted_networks(["128.0.0.0/1", "0.0.0.0/1"]), everyone("128.0.0.0/1, 0.0.0.0/1"));
        assert_eq!(trusted_networks(["::/1", "10.0.0.0/8", "8000::/1"]), everyone("::/1, 8000::/1"));
        let quarters = ["0.0.0.0/2", "64.0.0.0/2", "::ffff:128.0.0.0/98", "192.0.0.0/2"];
        assert_eq!(trusted_networks(quarters), everyone(&quarters.join(", ")));
        assert!(trusted_networks(["0.0.0.0/1", "8000::/1", "128.0.0.0/2"]).is_ok());
    }
}
