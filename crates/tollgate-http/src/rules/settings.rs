//! Settings of the file as those of this crate.

use http::HeaderName;
use tollgate_rules::Clients;
use tollgate_rules::HeaderStyle as InFile;

use crate::{ClientAddress, HeaderStyle, HeaderStyles};

/// Returns how clients are found: the connection's address, read on through trusted proxies.
pub(super) fn client(peer: &ClientAddress, clients: &Clients) -> ClientAddress {
    let trusted = || clients.trusted_proxies.iter().map(ToString::to_string);
    let client = match HeaderName::from_bytes(clients.header.as_bytes()) {
        _ if clients.trusted_proxies.is_empty() => Ok(peer.clone()),
        Ok(http::header::FORWARDED) => peer.clone().forwarded(trusted()),
        Ok(header) => peer.clone().header(header, trusted()),
        Err(_) => Ok(peer.clone()),
    };
    // The reader of the file refuses networks that make the whole internet. If one passed it, no
    // header would be believed.
    client.unwrap_or_else(|_| peer.clone())
}

/// Returns styles of the file as those of responses.
pub(super) fn styles(styles: Option<&[InFile]>) -> HeaderStyles {
    let style = |style: &InFile| match style {
        InFile::Ietf => HeaderStyle::Ietf,
        InFile::XRateLimit => HeaderStyle::XRateLimit,
        InFile::XRateLimitEpoch => HeaderStyle::XRateLimitEpoch,
        InFile::XRateLimitRetryAfter => HeaderStyle::XRateLimitRetryAfter,
        InFile::Trio => HeaderStyle::RateLimitTrio,
    };
    styles.unwrap_or(&[InFile::Ietf]).iter().map(style).collect()
}
