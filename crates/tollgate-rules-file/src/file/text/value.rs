//! The values of conditions.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Text;
use super::name::{LONGEST_VALUE, longest, name};
use super::wrong::{Wrong, quoted};
use tollgate_rules::{Attribute, canonical_network};

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
        Text::Path => Ok(Attribute::Path.check_value(text)?),
        Text::Method => Ok(Attribute::Method.check_value(text)?),
        Text::Host if digest(text)?.is_some() => Ok(()),
        Text::Host => Ok(Attribute::Host.check_value(text)?),
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

/// The names of a path pattern's `{name}`.
pub(in crate::file) fn captures(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// An address in the form in which clients are compared.
pub(in crate::file) fn address(text: &str) -> Result<IpAddr, Wrong> {
    let wrong =
        |_| Wrong::all(text, Code::BadValue, format!("{} is no address", quoted(text)), "such as 192.0.2.7");
    let address: IpAddr = text.parse().map_err(wrong)?;
    Ok(canonical_network(address.into()).addr())
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
/// use tollgate_rules_file::read_network;
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
