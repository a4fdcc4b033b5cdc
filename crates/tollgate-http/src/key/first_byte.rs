//! The first bytes by which keys of addresses differ from all others.

/// The first byte of the key of an IPv4 address. Headers, cookies, paths and methods begin with
/// none of these bytes: HTTP allows no control character there except the tab.
pub(crate) const IPV4: u8 = 4;
/// The first byte of the key of an IPv6 address.
pub(crate) const IPV6: u8 = 6;
