//! The values of conditions.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Text;
use super::name::{LONGEST_VALUE, longest, name};
use super::wrong::{Wrong, quoted};
use crate::address::{canonical, canonical_network};
use crate::file::problem::Code;

/// What a digest begins with.
const DIGEST: &str = "sha256:";

/// A value that stands in a rule: `@list`, or what `check` takes.
pub(super) fn or_list(text: &str, check: impl Fn(&str) -> Result<(), Wrong>) -> Result<(), Wrong> {
    match text.strip_prefix('@') {
        Some(list) => name(list).map_err(|wrong| Wrong {
            span: wrong.span.start + 1..wrong.span.end + 1,
            hint: Some("`@NAME` means a list; a value that begins with `@` can stand in one".into()),
            ..wrong
        }),
        None => check(text),
    }
}

/// A value of a condition of this kind, in a rule or a list.
pub(in crate::file) fn check(kind: Text, text: &str) -> Result<(), Wrong> {
    longest(text, LONGEST_VALUE)?;
    match kind {
        Text::Client if text == "*" => Ok(()),
        Text::Client => network(text).map(drop),
        Text::Path => path(text),
        Text::Method => method(text),
        Text::Host => digest(text).and_then(|found| if found.is_some() { Ok(()) } else { host(text) }),
        _ => digest(text).map(drop),
    }
}

/// The digest of a secret: `sha256:` and 64 hexadecimal digits; `None` of another text.
pub(in crate::file) fn digest(text: &str) -> Result<Option<[u8; 32]>, Wrong> {
    let Some(hex) = text.strip_prefix(DIGEST) else { return Ok(None) };
    let wrong = || {
        let message =
            format!("`{DIGEST}` is followed by 64 hexadecimal digits, here by {}", hex.chars().count());
        Wrong::bad(text, message, "echo -n SECRET | sha256sum")
    };
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_| wrong())?;
    }
    Ok(Some(bytes))
}

fn method(text: &str) -> Result<(), Wrong> {
    let wrong = text.is_empty() || !text.chars().all(super::attribute::is_token);
    let message = || format!("{} is no method", quoted(text));
    if wrong { Err(Wrong::bad(text, message(), "such as POST")) } else { Ok(()) }
}

fn host(text: &str) -> Result<(), Wrong> {
    let is_v6 = text.starts_with('[') && text.find(']') == Some(text.len() - 1);
    if text.is_empty() {
        return Err(Wrong::bad(text, "the host is empty", "such as api.example.com"));
    }
    // No request's host has these, so that the rule would concern nothing.
    if !text.is_ascii() {
        return Err(Wrong::all(text, Code::BadValue, "a host is ASCII", "its form with xn--"));
    }
    if text.ends_with('.') {
        return Err(Wrong::all(
            text,
            Code::BadValue,
            "a host is compared without its last dot",
            "take it off",
        ));
    }
    match text.find([':', '/']) {
        Some(at) if !is_v6 => Err(Wrong {
            span: at..text.len(),
            code: Code::BadText,
            message: "a host has no port, scheme or path".into(),
            hint: Some("such as api.example.com or *.example.com".into()),
        }),
        _ => Ok(()),
    }
}

/// A pattern of paths: `/users/{id}`, `/users/*`, `/static/**`, or `*` for any path.
fn path(text: &str) -> Result<(), Wrong> {
    if text == "*" {
        return Ok(());
    }
    let wrong = |span: std::ops::Range<usize>, message: &str, hint: &str| {
        Err(Wrong { span, code: Code::BadText, message: message.into(), hint: Some(hint.into()) })
    };
    let Some(rest) = text.strip_prefix('/') else {
        return wrong(0..text.len(), "a path begins with `/`", "such as /users/{id}");
    };
    if let Some(at) = text.find(['?', '#']) {
        return wrong(at..text.len(), "a path has no query", "use a condition on query.NAME");
    }
    let mut at = 1;
    let mut names = Vec::new();
    for segment in rest.split('/') {
        let span = at..at + segment.len();
        at = span.end + 1;
        let is_last = span.end == text.len();
        if segment == "**" && !is_last {
            return wrong(span, "`**` stands before the end", "`**` is the last part, for any rest");
        }
        if let "*" | "**" = segment {
            continue;
        }
        if let Some((part, hint)) = unmatched(segment, is_last) {
            let span = span.start + part.start..span.start + part.end;
            let message = "no request's path has this: paths are compared in their normal form".into();
            return Err(Wrong { span, code: Code::BadValue, message, hint: Some(hint) });
        }
        let Some(inner) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            if segment.contains(['*', '{', '}']) {
                return wrong(
                    span,
                    "a part is a text, `*`, or `{name}`",
                    "such as /files/{name} or /files/**",
                );
            }
            continue;
        };
        let is_start = inner.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !is_start || !inner.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
            return wrong(span, "the name in `{}` is wrong", "a letter, then letters, digits, _ and -");
        }
        if names.contains(&inner) {
            let hint = Some("each `{name}` once".into());
            return Err(Wrong {
                span,
                code: Code::BadValue,
                message: format!("`{{{inner}}}` is there twice"),
                hint,
            });
        }
        names.push(inner);
    }
    Ok(())
}

/// A part of a pattern's segment that no normal path has (RFC 3986, section 6), and what to write.
/// A rule with it would concern nothing, and so limit nothing.
fn unmatched(segment: &str, is_last: bool) -> Option<(std::ops::Range<usize>, String)> {
    if let "." | ".." = segment {
        return Some((0..segment.len(), "the path without dots".into()));
    }
    if segment.is_empty() && !is_last {
        return Some((0..0, "each `/` once".into()));
    }
    for (at, c) in segment.char_indices() {
        let rest = &segment[at..];
        if !c.is_ascii_graphic() {
            let bytes = rest[..c.len_utf8()].bytes();
            return Some((at..at + c.len_utf8(), bytes.map(|byte| format!("%{byte:02X}")).collect()));
        }
        let code = rest.strip_prefix('%').and_then(|hex| u8::from_str_radix(hex.get(..2)?, 16).ok());
        let plain = code.map(char::from).filter(|c| c.is_ascii_alphanumeric() || "-._~".contains(*c));
        if let Some(plain) = plain {
            return Some((at..at + 3, format!("{plain}")));
        }
    }
    None
}

/// The names of a path pattern's `{name}`.
pub(in crate::file) fn captures(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// An address in the form in which clients are compared.
pub(in crate::file) fn address(text: &str) -> Result<IpAddr, Wrong> {
    let wrong =
        |_| Wrong::all(text, Code::BadValue, format!("{} is no address", quoted(text)), "such as 192.0.2.7");
    let address: IpAddr = text.parse().map_err(wrong)?;
    Ok(canonical(address))
}

/// Reads a network as rules files write it: `192.0.2.0/24`, `2001:db8::/32`, or an address, which
/// is a network of one. An IPv6 network of IPv4 addresses is returned as one of IPv4.
///
/// # Errors
///
/// The text is no network, or has bits beyond its length, as `192.0.2.7/24` does: then it is not
/// certain which one was meant. The message names the text and says what to write.
///
/// # Examples
///
/// ```
/// use tollgate_rules::read_network;
///
/// assert_eq!(read_network("192.0.2.7")?.to_string(), "192.0.2.7/32");
/// let wrong = read_network("192.0.2.7/24").unwrap_err();
/// assert!(wrong.contains("192.0.2.0/24, or 192.0.2.7 for one address"));
/// # Ok::<(), String>(())
/// ```
pub fn read_network(text: &str) -> Result<IpNet, String> {
    network(text).map_err(|Wrong { message, hint, .. }| match hint {
        Some(hint) => format!("{message}: {hint}"),
        None => message,
    })
}

/// A network in the form in which clients are compared. An address is a network of one.
pub(in crate::file) fn network(text: &str) -> Result<IpNet, Wrong> {
    let Some((_, _)) = text.split_once('/') else {
        let hint = "such as 192.0.2.7 or 2001:db8::/32";
        return Ok(address(text).map_err(|wrong| Wrong { hint: Some(hint.into()), ..wrong })?.into());
    };
    let wrong = |_| {
        let hint = "such as 192.0.2.0/24 or 2001:db8::/32";
        Wrong::all(text, Code::BadValue, format!("{} is no network", quoted(text)), hint)
    };
    let network: IpNet = text.parse().map_err(wrong)?;
    if network.trunc() != network {
        let hint = format!("{}, or {} for one address", network.trunc(), network.addr());
        let message = format!("{} is an address inside of a network", quoted(text));
        return Err(Wrong::all(text, Code::BadValue, message, hint));
    }
    Ok(canonical_network(network))
}
