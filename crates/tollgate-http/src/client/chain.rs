//! Lists of addresses to which proxies append, read from the right: `X-Forwarded-For` and
//! `Forwarded` (RFC 7239).
//!
//! The nearest proxy wrote the rightmost entry; a client may have written entries to the left of
//! it. Parsing from the left is unsafe: a quote that a client leaves open would swallow the entries
//! that proxies appended. From the right, the entries of proxies are complete.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The syntax of a list's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// Addresses with optional ports.
    Addresses,
    /// `Forwarded` elements: `for=` among other parameters.
    Forwarded,
}

/// Returns the entries of a line from right to left. `None` stands for an entry that is not an
/// address: unknown, obfuscated, empty or malformed.
pub(super) fn rightmost_first(line: &[u8], syntax: Syntax) -> impl Iterator<Item = Option<IpAddr>> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let (before, entry) = last_entry(rest?, syntax);
        rest = before;
        Some(match syntax {
            Syntax::Addresses => node(entry),
            Syntax::Forwarded => element(entry),
        })
    })
}

/// Splits a list at its last comma into the rest and the last entry.
fn last_entry(list: &[u8], syntax: Syntax) -> (Option<&[u8]>, &[u8]) {
    let mut quoted = false;
    for at in (0..list.len()).rev() {
        match list[at] {
            b'"' if syntax == Syntax::Forwarded && !is_escaped(list, at) => quoted = !quoted,
            b',' if !quoted => return (Some(&list[..at]), list[at + 1..].trim_ascii()),
            _ => {}
        }
    }
    (None, list.trim_ascii())
}

fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// Parses an element of `Forwarded`: parameters separated by semicolons, with exactly one `for`.
fn element(text: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let (mut quoted, mut escaped) = (false, false);
    let parameters = text.split(|&byte| {
        // An escaped quote does not end a string. Otherwise a client's `host` could contain its own
        // `for` and hide the proxy's.
        let is_text = escaped;
        escaped = quoted && byte == b'\\' && !is_text;
        quoted ^= byte == b'"' && !is_text;
        byte == b';' && !quoted
    });
    for parameter in parameters {
        let parameter = parameter.trim_ascii();
        let equals = parameter.iter().position(|&byte| byte == b'=')?;
        if parameter[..equals].eq_ignore_ascii_case(b"for")
            && found.replace(&parameter[equals + 1..]).is_some()
        {
            return None;
        }
    }
    node(unquoted(found?)?)
}

/// Returns the text of a token or a quoted string. `None` for a string with escapes: no address
/// needs them.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"', inner @ .., b'"'] => (!inner.contains(&b'"') && !inner.contains(&b'\\')).then_some(inner),
        [b'"', ..] | [.., b'"'] => None,
        token => Some(token),
    }
}

/// Parses an address with an optional port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
/// `[2001:db8::1]`, `[2001:db8::1]:80`.
fn node(text: &[u8]) -> Option<IpAddr> {
    // Longer than any of these.
    const MAX_LEN: usize = 64;
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= MAX_LEN)?;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, rest) = bracketed.split_once(']')?;
        let whole = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        return whole.then(|| address.parse::<Ipv6Addr>().ok()).flatten().map(IpAddr::V6);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    let (address, port) = text.split_once(':')?;
    is_port(port).then(|| address.parse::<Ipv4Addr>().ok()).flatten().map(IpAddr::V4)
}

/// Returns whether a port is a number, or a name after an underscore (RFC 7239, section 6).
fn is_port(text: &str) -> bool {
    let is_obfuscated = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    text.strip_prefix('_').map_or_else(
        || text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok(),
        is_obfuscated,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, syntax: Syntax) -> Vec<Option<IpAddr>> {
        rightmost_first(line.as_bytes(), syntax).collect()
    }

    fn is(address: &str) -> Option<IpAddr> {
        Some(address.parse().unwrap())
    }

    #[test]
    fn addresses_are_read_from_the_right_with_or_without_ports() {
        let line = "6.6.6.6, 203.0.113.9:4711 ,[2001:db8::1]:80,2001:db8::2,[2001:db8::3]";
        let expected =
            [is("2001:db8::3"), is("2001:db8::2"), is("2001:db8::1"), is("203.0.113.9"), is("6.6.6.6")];
        assert_eq!(read(line, Syntax::Addresses), expected);
    }

    #[test]
    fn an_entry_that_is_no_address_is_none() {
        for wrong in [
            "",
            " ",
            "unknown",
            "1.2.3",
            "1.2.3.4:",
            "1.2.3.4:99999",
            "1.2.3.4:8x",
            "1.2.3.4.5",
            "01.2.3.4",
            "[::1",
            "[::1]x",
            "[1.2.3.4]",
            "::1]",
            "fe80::1%eth0",
            "1.2.3.4 5.6.7.8",
            "\"1.2.3.4\"",
            "::ffff:999.1.1.1",
            "_hidden",
            "1.2.3.4:+80",
        ] {
            assert_eq!(read(wrong, Syntax::Addresses), [None], "{wrong:?}");
        }
        assert_eq!(read("1.1.1.1,,2.2.2.2,", Syntax::Addresses), [None, is("2.2.2.2"), None, is("1.1.1.1")]);
        assert_eq!(rightmost_first(b"1.1.1.1\xff", Syntax::Addresses).collect::<Vec<_>>(), [None]);
        assert_eq!(read(&"1".repeat(100_000), Syntax::Addresses), [None]);
    }

    #[test]
    fn forwarded_reads_the_examples_of_rfc_7239() {
        for (line, expected) in [
            ("for=\"_gazonk\"", vec![None]),
            ("For=\"[2001:db8:cafe::17]:4711\"", vec![is("2001:db8:cafe::17")]),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", vec![is("192.0.2.60")]),
            ("for=192.0.2.43, for=198.51.100.17", vec![is("198.51.100.17"), is("192.0.2.43")]),
            ("for=192.0.2.43, for=\"[2001:db8:cafe::17]\"", vec![is("2001:db8:cafe::17"), is("192.0.2.43")]),
            ("for=unknown", vec![None]),
            ("for=_hidden, for=_SEVKISEK", vec![None, None]),
            ("for=\"192.0.2.43:47011\"", vec![is("192.0.2.43")]),
            ("for=\"192.0.2.43:_port\"", vec![is("192.0.2.43")]),
            ("by=203.0.113.43;FOR=192.0.2.1;host=\"a,b;for=9.9.9.9\"", vec![is("192.0.2.1")]),
        ] {
            assert_eq!(read(line, Syntax::Forwarded), expected, "{line}");
        }
    }

    #[test]
    fn an_ambiguous_forwarded_element_is_none() {
        for wrong in [
            "for=1.2.3.4;for=5.6.7.8",
            "for=\"1.2.3.4",
            "for=1.2.3.4\"",
            "for=",
            "host=a",
            "for",
            "for =1.2.3.4",
            "for=1.2.3.4;junk",
            "for=\"1.2.3\\.4\"",
            "for=\"\"",
            "for=\"",
            "for=1.2.3.4;",
            "for=\"1.2.3.4\"\"",
        ] {
            assert_eq!(read(wrong, Syntax::Forwarded), [None], "{wrong:?}");
        }
    }

    #[test]
    fn a_quoted_string_with_escapes_contains_no_parameter() {
        // A client's Host header, as a proxy repeats it before its own `for`.
        for host in [r#"a\";for=9.9.9.9;x=\"\""#, r#"\";for=9.9.9.9;\""#, r#"\\\";for=9.9.9.9"#, r"\\"] {
            let line = format!("proto=http;host=\"{host}\";for=1.2.3.4");
            assert_eq!(read(&line, Syntax::Forwarded), [is("1.2.3.4")], "{line}");
        }
    }

    #[test]
    fn an_open_quote_hides_no_entry_to_its_right() {
        for evil in ["for=\"1.2.3.4", "for=\"", "\"", "host=\"\\", "for=\"1.2.3.4\\", "for=\"x\\\""] {
            let line = format!("{evil}, for=\"[2001:db8::9]:1\", for=203.0.113.9;proto=https");
            let mut entries = rightmost_first(line.as_bytes(), Syntax::Forwarded);
            assert_eq!(entries.next(), Some(is("203.0.113.9")), "{line}");
            assert_eq!(entries.next(), Some(is("2001:db8::9")), "{line}");
        }
    }
}
