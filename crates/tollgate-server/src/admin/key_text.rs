//! A key as a text for people.

use std::net::{Ipv4Addr, Ipv6Addr};

use tollgate_rules::{Attribute, Key, Rule};

/// A refused key as a text: its parts if it may be shown, else 12 hex digits of its keyed hash.
pub(super) fn shown(rule: &Rule, hash: u64, key: Option<&[u8]>) -> String {
    key.map_or_else(|| format!("{:012x}", hash >> 16), |key| parts(rule, key).join(", "))
}

/// The parts of a key. Of one part, a key is the part's bytes; of several, each stands after its
/// length in 16 bits. An empty key is that of all requests, or of those that lack a part.
fn parts(rule: &Rule, key: &[u8]) -> Vec<String> {
    let attributes: &[Attribute] = match &rule.key {
        Key::Everyone => return vec!["everyone".into()],
        Key::Attributes(_) if key.is_empty() => return vec!["(without a key)".into()],
        Key::Attributes(attributes) => attributes,
    };
    let mut rest = key;
    let mut next = || match attributes {
        [_] => Some(rest),
        _ => {
            let (length, after) = rest.split_first_chunk::<2>()?;
            let (part, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
            rest = after;
            Some(part)
        }
    };
    let text = |attribute: &Attribute| Some(part(attribute, next()?));
    attributes.iter().map_while(text).collect()
}

/// One part. A client is a byte for the kind of the address, and its bytes or those of its network.
fn part(attribute: &Attribute, part: &[u8]) -> String {
    match (attribute, part) {
        (Attribute::Client, [4, a, b, c, d]) => Ipv4Addr::new(*a, *b, *c, *d).to_string(),
        (Attribute::Client, [6, network @ ..]) if network.len() <= 16 => {
            let mut octets = [0; 16];
            octets[..network.len()].copy_from_slice(network);
            let address = Ipv6Addr::from(octets);
            if network.len() == 16 { address.to_string() } else { format!("{address}/{}", network.len() * 8) }
        }
        _ => String::from_utf8_lossy(part).into_owned(),
    }
}
