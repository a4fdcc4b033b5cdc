//! The host that a request names.

use std::net::Ipv6Addr;

/// Whether a request may name this host (RFC 9112, section 3.2): a name, an address, or one of IPv6
/// in brackets, and perhaps a colon with a port behind it.
///
/// To any other, servers answer 400, or read it each in its own way: `[a.test]` and `a.test:x` are
/// `a.test` to some. Rules take such a host for any that restricts, and for none that relaxes.
///
/// # Examples
///
/// ```
/// use tollgate_rules::is_host;
///
/// for host in ["a.test", "A.test.:80", "192.0.2.7", "[::1]:8443"] {
///     assert!(is_host(host.as_bytes()), "{host}");
/// }
/// for other in ["", ":80", "[a.test]", "a.test:x", "u@a.test"] {
///     assert!(!is_host(other.as_bytes()), "{other}");
/// }
/// ```
#[must_use]
pub fn is_host(host: &[u8]) -> bool {
    let (is_named, port) = match host {
        [b'[', rest @ ..] => match rest.iter().position(|&byte| byte == b']') {
            Some(end) => (is_ipv6(&rest[..end]), &rest[end + 1..]),
            None => return false,
        },
        _ => {
            let (name, port) = cut(host, b":");
            (is_name(name), port)
        }
    };
    is_named && (port.is_empty() || (port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit)))
}

/// Whether this is a name without escapes. Of its labels only one behind the last dot is empty.
fn is_name(name: &[u8]) -> bool {
    let mut before = b'.';
    let mut is_part = |byte: &u8| match std::mem::replace(&mut before, *byte) {
        b'.' if *byte == b'.' => false,
        _ => byte.is_ascii_alphanumeric() || b".-_~!$&'()*+,;=".contains(byte),
    };
    !name.is_empty() && name.iter().all(&mut is_part)
}

fn is_ipv6(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Cuts a text before the first of these bytes.
fn cut<'t>(text: &'t [u8], at: &[u8]) -> (&'t [u8], &'t [u8]) {
    text.split_at(text.iter().position(|byte| at.contains(byte)).unwrap_or(text.len()))
}

/// Returns the host without user, port and the dots at its end, as most servers read it that do not
/// refuse it. nginx takes any text behind a colon for a port, and Caddy takes brackets off any
/// host.
pub(super) fn name_of(host: &[u8]) -> &[u8] {
    let at = host.iter().rposition(|&byte| byte == b'@');
    let host = at.map_or(host, |at| &host[at + 1..]);
    let (inner, rest) = cut(host.strip_prefix(b"[").unwrap_or(host), b"]");
    if host.first() == Some(&b'[') && !rest.is_empty() && is_ipv6(inner) {
        return &host[..inner.len() + 2];
    }
    let (mut name, _) = cut(inner, b":");
    while let Some(less) = name.strip_suffix(b".") {
        name = less;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_cut_to_their_names() {
        for (host, name, is_valid) in [
            ("A.test:80", "A.test", true),
            ("a.test.:80", "a.test", true),
            ("a.test:", "a.test", true),
            ("a_b-c.test", "a_b-c.test", true),
            ("[::1]:80", "[::1]", true),
            ("[2001:db8::7]", "[2001:db8::7]", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("u:p@a.test:80", "a.test", false),
            ("a.test:80:80", "a.test", false),
            ("A.test.:x", "A.test", false),
            ("[::1]:x", "[::1]", false),
            ("[::1]x", "[::1]", false),
            ("[::1", "", false),
            ("[a.test]", "a.test", false),
            ("[a.test]:80", "a.test", false),
            ("[a.test", "a.test", false),
            ("a.test]", "a.test", false),
            (".a.test", ".a.test", false),
            ("a..test", "a..test", false),
            ("a.test..", "a.test", false),
            ("a%2etest", "a%2etest", false),
            ("a test", "a test", false),
            (":80", "", false),
            (".", "", false),
            ("", "", false),
        ] {
            assert_eq!(name_of(host.as_bytes()), name.as_bytes(), "{host}");
            assert_eq!(is_host(host.as_bytes()), is_valid, "{host}");
        }
    }
}
