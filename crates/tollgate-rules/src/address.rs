//! Addresses of clients in the form in which rules compare them: an IPv6 address that stands for an
//! IPv4 address is that IPv4 address.
//!
//! `ClientAddress` of `tollgate-http` has the same arithmetic on its own integers, not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

/// The NAT64 prefix (RFC 6052): the last 32 bits hold an IPv4 address.
const NAT64: u128 = 0x0064_ff9b << 96;
const LAST_32_BITS: u128 = u32::MAX as u128;

/// Returns an address in canonical form: mapped (RFC 4291) and NAT64 addresses as IPv4.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else { return address.to_canonical() };
    let low = Ipv4Addr::from_bits(v6.to_bits() as u32);
    if v6.to_bits() & !LAST_32_BITS == NAT64 && is_translated(low) { IpAddr::V4(low) } else { IpAddr::V6(v6) }
}

/// Returns whether a NAT64 translator may have written this address. A client may forge a private
/// one to pass for a trusted network.
fn is_translated(v4: Ipv4Addr) -> bool {
    let is_shared = matches!(v4.octets(), [100, 64..=127, ..]);
    !(v4.is_private() || v4.is_loopback() || v4.is_link_local() || is_shared)
}

/// Returns a network in the form in which rules compare clients: one of IPv6 addresses that stand
/// for IPv4 addresses, mapped (RFC 4291) or translated (RFC 6052), is that IPv4 network.
///
/// # Examples
///
/// ```
/// let network = tollgate_rules::canonical_network("::ffff:192.0.2.0/120".parse()?);
/// assert_eq!(network.to_string(), "192.0.2.0/24");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn canonical_network(network: IpNet) -> IpNet {
    match (network, canonical(network.addr())) {
        (IpNet::V6(v6), IpAddr::V4(v4)) if v6.prefix_len() >= 96 => {
            Ipv4Net::new(v4, v6.prefix_len() - 96).map_or(network, IpNet::V4).trunc()
        }
        _ => network.trunc(),
    }
}

/// Appends the key of a canonical address: a byte for the kind, then 4 bytes of IPv4, 8 of IPv6 up
/// to a /64, 16 of longer prefixes.
pub(crate) fn write_key(address: IpAddr, ipv6_prefix: u8, key: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            key.extend_from_slice(&[4, a, b, c, d]);
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix)).unwrap_or(0);
            let group = Ipv6Addr::from_bits(v6.to_bits() & mask).octets();
            key.push(6);
            key.extend_from_slice(if ipv6_prefix <= 64 { &group[..8] } else { &group });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn key(text: &str, ipv6_prefix: u8) -> Vec<u8> {
        let mut key = Vec::new();
        write_key(canonical(address(text)), ipv6_prefix, &mut key);
        key
    }

    #[test]
    fn mapped_and_translated_addresses_are_ipv4() {
        for same in ["203.0.113.9", "::ffff:203.0.113.9", "64:ff9b::203.0.113.9"] {
            assert_eq!(canonical(address(same)), address("203.0.113.9"), "{same}");
        }
        for other in ["64:ff9b::10.0.0.1", "64:ff9b::100.64.0.1", "64:ff9b:1::1.2.3.4", "::203.0.113.9"] {
            assert_eq!(canonical(address(other)), address(other), "{other}");
        }
    }

    #[test]
    fn networks_of_mapped_addresses_are_ipv4() {
        for (network, canonical) in [
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("64:ff9b::192.0.2.0/120", "192.0.2.0/24"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:0:0/95", "::fffe:0:0/95"),
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("2001:db8::1/32", "2001:db8::/32"),
        ] {
            let network: IpNet = network.parse().unwrap();
            assert_eq!(canonical_network(network).to_string(), canonical);
        }
    }

    #[test]
    fn keys_group_ipv6_by_prefix() {
        assert_eq!(key("2001:db8::1", 64), key("2001:db8::ffff", 64));
        assert_ne!(key("2001:db8::1", 65), key("2001:db8::8000:0:0:1", 65));
        assert_ne!(key("2001:db8:0:1::", 64), key("2001:db8::", 64));
        assert_eq!(key("2001:db8::1", 128).len(), 17);
        assert_eq!(key("2001:db8:ff::1", 40), key("2001:db8::1", 40));
        assert_ne!(key("0.0.0.0", 64), key("::", 64));
        assert_eq!(key("::ffff:203.0.113.9", 64), key("203.0.113.9", 64));
    }
}
