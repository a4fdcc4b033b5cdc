//! Addresses of stores. No message repeats one: it may have a password.

use tollgate_rules::{AddressError, StoreAddress};

use super::name::name;
use super::wrong::Wrong;
use crate::file::problem::Code;

/// How an address is written.
pub(in crate::file) const HINT: &str =
    "redis://[user:password@]host[:port][/database], rediss://..., redis+unix:///path";

/// A store of the file by its name, or an address.
pub(super) fn or_name(text: &str) -> Result<(), Wrong> {
    if is_address(text) { address(text).map(drop) } else { name(text) }
}

/// Whether the text is to be an address, and not the name of a store.
pub(in crate::file) fn is_address(text: &str) -> bool {
    text.contains("://") || text.contains('@')
}

/// The address of a store.
pub(in crate::file) fn address(text: &str) -> Result<StoreAddress, Wrong> {
    StoreAddress::parse(text).map_err(|error| {
        // What the JSON Schema finds, too.
        let code = if error == AddressError::NoScheme { Code::BadText } else { Code::BadValue };
        Wrong::all(text, code, error.to_string(), HINT)
    })
}

/// A prefix of keys.
pub(super) fn prefix(text: &str) -> Result<(), Wrong> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(is_part) {
        return Ok(());
    }
    Err(Wrong::bad(text, "the prefix is none", "1 to 64 of A-Z, a-z, 0-9, - _ ."))
}
