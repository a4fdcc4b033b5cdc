//! Addresses of clients in one form: mapped and NAT64 addresses are the IPv4 address in them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

/// The NAT64 prefix (RFC 6052): the last 32 bits hold an IPv4 address.
const NAT64: u128 = 0x0064_ff9b << 96;
const LAST_32_BITS: u128 = u32::MAX as u128;

/// Returns an address in canonical form, as `ClientAddress` of `tollgate-http` does.
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

/// Returns the network of the canonical forms of a network's addresses.
pub(crate) fn canonical_network(network: IpNet) -> IpNet {
    match network {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match canonical(IpAddr::V6(v6.addr())) {
            IpAddr::V4(v4) => Ipv4Net::new(v4, v6.prefix_len() - 96).map_or(network, IpNet::V4).trunc(),
            IpAddr::V6(_) => network.trunc(),
        },
        _ => network.trunc(),
    }
}

/// Appends the key of a canonical address: a byte for the kind, and the network's bytes.
pub(crate) fn write_key(address: IpAddr, ipv6_prefix: u8, key: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            key.push(4);
            key.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix)).unwrap_or(0);
            let group = Ipv6Addr::from_bits(v6.to_bits() & mask).octets();
            key.push(6);
            key.extend_from_slice(if ipv6_prefix <= 64 { &group[..8] } else { &group });
        }
    }
}
