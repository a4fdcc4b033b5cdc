//! Values that a condition wants: texts, digests, networks.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sha2::{Digest, Sha256};

/// Texts of which an attribute must have one.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    pub(super) any: bool,
    pub(super) exact: BTreeSet<Box<[u8]>>,
    pub(super) globs: Vec<Box<[u8]>>,
    pub(super) digests: BTreeSet<[u8; 32]>,
    /// Further texts, of which one is enough only for a condition that restricts.
    pub(super) restricting: BTreeSet<Box<[u8]>>,
    /// Whether values begin with a scheme, of which the case means nothing.
    pub(super) has_scheme: bool,
}

impl Texts {
    /// Returns whether no value is one of them.
    pub(super) fn is_empty(&self) -> bool {
        !self.any && self.exact.is_empty() && self.globs.is_empty() && self.digests.is_empty()
    }

    /// Returns whether a value is one of them.
    pub(super) fn contains(&self, value: &[u8]) -> bool {
        let scheme = || value.iter().position(|&byte| byte == b' ').unwrap_or(0);
        let folded = if self.has_scheme { scheme() } else { 0 };
        self.any
            || self.exact.contains(value)
            || self.globs.iter().any(|glob| matches(glob, value, folded))
            || (!self.digests.is_empty() && self.digests.contains(&<[u8; 32]>::from(Sha256::digest(value))))
    }
}

/// Returns whether a text matches a glob, in which `*` stands for any bytes or none. The case of
/// the text's first `folded` bytes means nothing.
fn matches(glob: &[u8], text: &[u8], folded: usize) -> bool {
    let (mut at, mut in_text) = (0, 0);
    // Where to go on if what follows the last star does not fit: behind it, one byte later.
    let mut again = None;
    let is_one =
        |byte: &u8, at: usize| *byte == text[at] || (at < folded && byte.eq_ignore_ascii_case(&text[at]));
    while in_text < text.len() {
        if glob.get(at) == Some(&b'*') {
            again = Some((at + 1, in_text));
            at += 1;
        } else if glob.get(at).is_some_and(|byte| is_one(byte, in_text)) {
            (at, in_text) = (at + 1, in_text + 1);
        } else if let Some((star, from)) = &mut again {
            *from += 1;
            (at, in_text) = (*star, *from);
        } else {
            return false;
        }
    }
    glob[at..].iter().all(|&byte| byte == b'*')
}

/// Networks, each with a value: by the length of their prefix, then by a hash.
#[derive(Clone, Debug)]
pub(super) struct Networks<V> {
    /// The lengths of prefixes that there are.
    lengths: BTreeSet<(bool, u8)>,
    values: HashMap<(bool, u8, u128), V, ahash::RandomState>,
}

impl<V> Default for Networks<V> {
    fn default() -> Self {
        Self { lengths: BTreeSet::new(), values: HashMap::default() }
    }
}

/// Returns whether an address is IPv6, and its bits, the first ones highest.
fn bits(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(v4) => (false, u128::from(v4.to_bits()) << 96),
        IpAddr::V6(v6) => (true, v6.to_bits()),
    }
}

/// Returns the first bits.
fn prefix(bits: u128, length: u8) -> u128 {
    bits & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

impl<V: Default> Networks<V> {
    /// Returns the value of a network in canonical form.
    pub(super) fn entry(&mut self, network: IpNet) -> &mut V {
        let (is_v6, bits) = bits(network.addr());
        let length = network.prefix_len();
        self.lengths.insert((is_v6, length));
        self.values.entry((is_v6, length, prefix(bits, length))).or_default()
    }

    /// Returns the values of the networks that contain an address.
    pub(super) fn containing(&self, address: IpAddr) -> impl Iterator<Item = &V> {
        let (is_v6, bits) = bits(address);
        let lengths = self.lengths.range((is_v6, 0)..=(is_v6, 128));
        lengths.filter_map(move |&(_, length)| self.values.get(&(is_v6, length, prefix(bits, length))))
    }

    /// Returns the networks, sorted.
    pub(super) fn networks(&self) -> Vec<IpNet> {
        let network = |&(is_v6, length, bits): &(bool, u8, u128)| match is_v6 {
            true => Ipv6Net::new(bits.into(), length).ok().map(IpNet::V6),
            false => Ipv4Net::new(((bits >> 96) as u32).into(), length).ok().map(IpNet::V4),
        };
        let mut networks: Vec<_> = self.values.keys().filter_map(network).collect();
        networks.sort();
        networks
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_bytes_or_none() {
        for (glob, text, fits) in [
            ("*", "", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("*ab", "aab", true),
            ("*ab", "aba", false),
            ("a**b", "ab", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
        ] {
            assert_eq!(matches(glob.as_bytes(), text.as_bytes(), 0), fits, "{glob} {text}");
        }
    }

    #[test]
    fn the_case_of_a_scheme_means_nothing() {
        for (glob, fits) in
            [("Bearer *", true), ("b*R T*", true), ("*Tok", true), ("*r TOK", false), ("*tok", false)]
        {
            assert_eq!(matches(glob.as_bytes(), b"BEARER Tok", 6), fits, "{glob}");
        }
    }

    #[test]
    fn networks_of_all_lengths_are_found_by_address() {
        let mut networks = Networks::<Option<u32>>::default();
        let all = ["0.0.0.0/0", "192.0.2.0/24", "192.0.2.7/32", "::/0", "2001:db8::/32", "2001:db8::1/128"];
        for (number, network) in all.iter().enumerate() {
            *networks.entry(network.parse().unwrap()) = Some(number as u32);
        }
        for (address, found) in [
            ("192.0.2.7", vec![0, 1, 2]),
            ("192.0.2.8", vec![0, 1]),
            ("8.8.8.8", vec![0]),
            ("2001:db8::1", vec![3, 4, 5]),
            ("c000:0207::", vec![3]),
        ] {
            let values = networks.containing(address.parse().unwrap()).map(|number| number.unwrap());
            assert_eq!(values.collect::<Vec<_>>(), found, "{address}");
        }
        let shown: Vec<_> = networks.networks().iter().map(ToString::to_string).collect();
        assert_eq!(shown, all);
    }
}
