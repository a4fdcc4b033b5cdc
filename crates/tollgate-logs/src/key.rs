//! Makes the key of a record from a part of the request.
//!
//! An IPv6 client's key is its prefix (`2001:db8:1:2::/64`), because one customer has a whole
//! prefix and can change address at will. Output shows the same key.

use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The key of a record that lacks the part.
pub(crate) const ABSENT: &[u8] = b"-";

/// The one key of `--key global`.
const GLOBAL: &[u8] = b"global";

const NO_KEY: &str = "not one of client, user, path, METHOD+path, field:NAME, global";
const NO_PREFIX: &str = "not a prefix length; give a number from 0 to 128";

/// Which part of a record is its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyBy {
    /// The client's address or host name.
    Client,
    /// The authenticated user.
    User,
    /// The request target without its query.
    Path,
    /// The path with the method before it.
    MethodPath,
    /// The text of the field with this name.
    Field(String),
    /// One key for everything.
    Global,
}

impl FromStr for KeyBy {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text {
            "client" => Ok(Self::Client),
            "user" => Ok(Self::User),
            "path" => Ok(Self::Path),
            "METHOD+path" | "method+path" => Ok(Self::MethodPath),
            "global" => Ok(Self::Global),
            _ => match text.strip_prefix("field:") {
                Some(name) if !name.is_empty() => Ok(Self::Field(name.to_owned())),
                _ => Err(BadValue::new(text, NO_KEY)),
            },
        }
    }
}

impl fmt::Display for KeyBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client => f.write_str("client"),
            Self::User => f.write_str("user"),
            Self::Path => f.write_str("path"),
            Self::MethodPath => f.write_str("METHOD+path"),
            Self::Field(name) => write!(f, "field:{name}"),
            Self::Global => f.write_str("global"),
        }
    }
}

/// A text that is no value of an option.
#[derive(Debug)]
pub struct BadValue {
    text: String,
    why: &'static str,
}

impl BadValue {
    fn new(text: &str, why: &'static str) -> Self {
        Self { text: text.to_owned(), why }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is {}", self.text, self.why)
    }
}

impl std::error::Error for BadValue {}

/// How many leading bits of an IPv6 address are one client: 0 to 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixLen(u8);

impl PrefixLen {
    /// `None` above 128.
    pub fn new(bits: u8) -> Option<Self> {
        (bits <= 128).then_some(Self(bits))
    }

    fn network(self, address: Ipv6Addr) -> Ipv6Addr {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.0)).unwrap_or(0);
        Ipv6Addr::from_bits(address.to_bits() & mask)
    }
}

impl Default for PrefixLen {
    /// The smallest prefix that providers assign to a customer.
    fn default() -> Self {
        Self(64)
    }
}

impl FromStr for PrefixLen {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        text.parse().ok().and_then(Self::new).ok_or_else(|| BadValue::new(text, NO_PREFIX))
    }
}

impl fmt::Display for PrefixLen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes the keys of records.
///
/// # Examples
///
/// ```
/// use tollgate_logs::{KeyBy, KeyWriter, PrefixLen};
///
/// let writer = KeyWriter { by: KeyBy::Client, ipv6_prefix: PrefixLen::default() };
/// let mut keys = Vec::new();
/// assert!(writer.write(&mut keys, b"2001:db8:1:2:3::4", b""));
/// assert_eq!(keys, b"2001:db8:1:2::/64");
/// ```
#[derive(Debug, Clone)]
pub struct KeyWriter {
    /// Which part of a record is its key.
    pub by: KeyBy,
    /// How much of an IPv6 address is one client.
    pub ipv6_prefix: PrefixLen,
}

impl KeyWriter {
    /// Appends the key; `false` when the record has none and `-` was written.
    ///
    /// `part` is the part of the record that `by` names (for METHOD+path the target), and `method`
    /// the request's method if `by` needs it. An empty text and `-` both mean that the part is
    /// absent.
    pub fn write(&self, keys: &mut Vec<u8>, part: &[u8], method: &[u8]) -> bool {
        let absent = |text: &[u8]| matches!(text, [] | [b'-']);
        match self.by {
            KeyBy::Global => keys.extend_from_slice(GLOBAL),
            _ if absent(part) => return write_absent(keys),
            KeyBy::Client => self.write_client(keys, part),
            KeyBy::User | KeyBy::Field(_) => keys.extend_from_slice(part),
            KeyBy::Path => keys.extend_from_slice(without_query(part)),
            KeyBy::MethodPath if absent(method) => return write_absent(keys),
            KeyBy::MethodPath => {
                keys.extend_from_slice(method);
                keys.push(b' ');
                keys.extend_from_slice(without_query(part));
            }
        }
        true
    }

    fn write_client(&self, keys: &mut Vec<u8>, client: &[u8]) {
        let address = client
            .contains(&b':')
            .then(|| std::str::from_utf8(client).ok()?.parse::<Ipv6Addr>().ok())
            .flatten();
        let Some(address) = address else {
            return keys.extend_from_slice(client);
        };
        let written = match address.to_canonical() {
            IpAddr::V4(address) => write!(keys, "{address}"),
            IpAddr::V6(address) if self.ipv6_prefix.0 == 128 => write!(keys, "{address}"),
            IpAddr::V6(address) => write!(keys, "{}/{}", self.ipv6_prefix.network(address), self.ipv6_prefix),
        };
        written.expect("writing to a vector does not fail");
    }
}

fn write_absent(keys: &mut Vec<u8>) -> bool {
    keys.extend_from_slice(ABSENT);
    false
}

fn without_query(target: &[u8]) -> &[u8] {
    target.split(|&b| b == b'?').next().unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(by: KeyBy, bits: u8, part: &str, method: &str) -> String {
        let key_writer = KeyWriter { by, ipv6_prefix: PrefixLen::new(bits).expect("a prefix length") };
        let mut keys = Vec::new();
        key_writer.write(&mut keys, part.as_bytes(), method.as_bytes());
        String::from_utf8(keys).expect("the key of a text is a text")
    }

    #[test]
    fn ipv6_clients_share_the_key_of_their_prefix() {
        assert_eq!(key(KeyBy::Client, 64, "2001:db8:1:2:3::4", ""), "2001:db8:1:2::/64");
        assert_eq!(key(KeyBy::Client, 64, "2001:0DB8:0001:2:ffff::", ""), "2001:db8:1:2::/64");
        assert_eq!(key(KeyBy::Client, 56, "2001:db8:1:2ff::4", ""), "2001:db8:1:200::/56");
        assert_eq!(key(KeyBy::Client, 128, "2001:db8::0:4", ""), "2001:db8::4");
        assert_eq!(key(KeyBy::Client, 0, "2001:db8::4", ""), "::/0");
    }

    #[test]
    fn other_clients_keep_their_text() {
        assert_eq!(key(KeyBy::Client, 64, "::ffff:192.0.2.7", ""), "192.0.2.7");
        assert_eq!(key(KeyBy::Client, 64, "192.0.2.7", ""), "192.0.2.7");
        assert_eq!(key(KeyBy::Client, 64, "piweba3y.prodigy.com", ""), "piweba3y.prodigy.com");
        assert_eq!(key(KeyBy::Client, 64, "example.com:443", ""), "example.com:443");
    }

    #[test]
    fn a_path_is_the_target_without_its_query() {
        assert_eq!(key(KeyBy::Path, 64, "/a/b?c=d?e", ""), "/a/b");
        assert_eq!(key(KeyBy::MethodPath, 64, "/a/b?c", "GET"), "GET /a/b");
    }

    #[test]
    fn an_absent_part_is_a_dash_except_for_global() {
        assert_eq!(key(KeyBy::User, 64, "", ""), "-");
        assert_eq!(key(KeyBy::User, 64, "-", ""), "-");
        assert_eq!(key(KeyBy::MethodPath, 64, "/a", ""), "-");
        assert_eq!(key(KeyBy::Global, 64, "", ""), "global");
    }

    #[test]
    fn keys_and_prefixes_are_read_as_they_are_printed() {
        for text in ["client", "user", "path", "METHOD+path", "field:a b", "global"] {
            assert_eq!(text.parse::<KeyBy>().expect(text).to_string(), text);
        }
        for text in ["", "field:", "Client", "ip"] {
            assert!(text.parse::<KeyBy>().is_err(), "{text}");
        }
        assert_eq!("128".parse::<PrefixLen>().ok(), PrefixLen::new(128));
        for text in ["129", "256", "-1", "", "64 "] {
            assert!(text.parse::<PrefixLen>().is_err(), "{text}");
        }
    }
}
