//! Addresses and networks: one spelling for each, and the part of one that makes a key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

use crate::{BuildError, KeyBuf};

/// The NAT64 prefix (RFC 6052), in whose last 32 bits an IPv4 address stands.
const NAT64: u128 = 0x0064_ff9b << 96;
const LAST_32_BITS: u128 = u32::MAX as u128;

/// One address for each client: IPv4 that is written as IPv6 becomes IPv4, by its bits and not by its notation.
pub(crate) fn normalise(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if v6.to_bits() & !LAST_32_BITS == NAT64 => {
            IpAddr::V4(Ipv4Addr::from_bits((v6.to_bits() & LAST_32_BITS) as u32))
        }
        canonical => canonical,
    }
}

/// A network of trusted proxies, in the spelling in which [`normalise`] leaves its addresses.
pub(crate) fn network(text: &str) -> Result<IpNet, BuildError> {
    let text = text.trim();
    let network: IpNet = text
        .parse()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| BuildError::Network { given: text.to_owned() })?;
    let network = match network {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match normalise(v6.addr().into()) {
            IpAddr::V4(v4) => Ipv4Net::new(v4, v6.prefix_len() - 96).map_or(network, IpNet::V4),
            IpAddr::V6(_) => network,
        },
        _ => network,
    };
    if network.prefix_len() == 0 {
        return Err(BuildError::TrustsEveryone { given: text.to_owned() });
    }
    Ok(network)
}

/// Writes what makes the key: 4 bytes of IPv4, 8 of IPv6 up to a /64, and 16 beyond, so that no two kinds meet.
pub(crate) fn write_grouped(address: IpAddr, ipv6_prefix: u8, key: &mut KeyBuf) {
    match address {
        IpAddr::V4(v4) => key.push(v4.octets()),
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix)).unwrap_or(0);
            let group = Ipv6Addr::from_bits(v6.to_bits() & mask).octets();
            key.push(if ipv6_prefix <= 64 { &group[..8] } else { &group[..] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(address: &str, prefix: u8) -> Vec<u8> {
        let mut key = KeyBuf::new();
        write_grouped(normalise(address.parse().unwrap()), prefix, &mut key);
        key.as_bytes().to_vec()
    }

    #[test]
    fn ipv4_is_one_address_however_it_is_written() {
        for same in ["::ffff:1.2.3.4", "::ffff:102:304", "64:ff9b::1.2.3.4", "1.2.3.4"] {
            assert_eq!(grouped(same, 64), [1, 2, 3, 4], "{same}");
        }
        assert_eq!(grouped("64:ff9b:1::1.2.3.4", 64).len(), 8, "another network's prefix is no NAT64");
    }

    #[test]
    fn ipv6_clients_are_told_apart_by_their_prefix_and_no_further() {
        assert_eq!(grouped("2001:db8:1:2::1", 64), grouped("2001:db8:1:2:ffff::9", 64));
        assert_ne!(grouped("2001:db8:1:2::1", 64), grouped("2001:db8:1:3::1", 64));
        assert_eq!(grouped("2001:db8:1:200::1", 56), grouped("2001:db8:1:2ff::1", 56));
        assert_ne!(grouped("2001:db8:1:200::1", 56), grouped("2001:db8:1:300::1", 56));
        assert_ne!(grouped("2001:db8:1:2::1", 128), grouped("2001:db8:1:2::2", 128));
        assert_eq!(grouped("8000::", 1), grouped("ffff::", 1));
        assert_ne!(grouped("102:304::", 32), grouped("1.2.3.4", 32), "a short prefix is no IPv4 address");
    }

    #[test]
    fn networks_are_addresses_or_cidrs_and_hold_somebody_else() {
        assert!(network("::ffff:10.0.0.0/104").unwrap().contains(&IpAddr::from([10, 1, 2, 3])));
        assert!(network(" 10.1.2.3/8 ").unwrap().contains(&IpAddr::from([10, 9, 9, 9])));
        assert!(!network("10.1.2.3").unwrap().contains(&IpAddr::from([10, 1, 2, 4])));
        for everyone in ["0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96"] {
            assert_eq!(network(everyone), Err(BuildError::TrustsEveryone { given: everyone.into() }));
        }
        for wrong in ["", "10.0.0.0/33", "example.com", "10.0.0", "fe80::1%eth0"] {
            assert_eq!(network(wrong), Err(BuildError::Network { given: wrong.into() }));
        }
    }
}
