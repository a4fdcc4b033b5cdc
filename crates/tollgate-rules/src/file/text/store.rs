//! Addresses of stores. No message repeats one: it may have a password.

use super::name::name;
use super::wrong::Wrong;
use crate::file::problem::Code;

/// How an address is written.
pub(in crate::file) const HINT: &str =
    "redis://[user:password@]host[:port][/database], rediss://..., redis+unix:///path";

/// A store of the file by its name, or an address.
pub(super) fn or_name(text: &str) -> Result<(), Wrong> {
    if text.contains("://") || text.contains('@') { url(text) } else { name(text) }
}

/// The address of a store.
pub(in crate::file) fn url(text: &str) -> Result<(), Wrong> {
    let wrong = |message: &str| Err(Wrong::all(text, Code::BadValue, message, HINT));
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(Wrong::bad(text, "the store's address has no scheme", HINT));
    };
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return wrong("the store's address has a blank in it");
    }
    match scheme {
        "redis+unix" | "unix" | "valkey+unix" if rest.starts_with('/') && rest.len() > 1 => return Ok(()),
        "redis+unix" | "unix" | "valkey+unix" => return wrong("the store's address has no path"),
        "redis" | "rediss" | "valkey" | "valkeys" => {}
        _ => return wrong("the store's address has another scheme"),
    }
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let (host, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return wrong("the store's address has no host");
    }
    if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return wrong("the port of the store's address is none from 1 to 65535");
    }
    let database = database.split('?').next().unwrap_or_default();
    if !database.is_empty() && database.parse::<u32>().is_err() {
        return wrong("the database of the store's address is no number");
    }
    Ok(())
}

/// A prefix of keys.
pub(super) fn prefix(text: &str) -> Result<(), Wrong> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(is_part) {
        return Ok(());
    }
    Err(Wrong::bad(text, "the prefix is none", "1 to 64 of A-Z, a-z, 0-9, - _ ."))
}
