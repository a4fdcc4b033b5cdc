//! Which headers a head has of those that a proxy looks for.
//!
//! One pass finds them all. Most heads have one or two of them, and to look each one up costs more
//! than to see that.

use std::ops::BitOr;

use http::header::{CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName};

/// A set of headers, by their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u32);

impl Marks {
    pub(super) const CONNECTION: Self = Self(1);
    pub(super) const TE: Self = Self(1 << 1);
    pub(super) const TRANSFER_ENCODING: Self = Self(1 << 2);
    pub(super) const UPGRADE: Self = Self(1 << 3);
    const KEEP_ALIVE: Self = Self(1 << 4);
    const PROXY_CONNECTION: Self = Self(1 << 5);
    const PROXY_AUTHENTICATE: Self = Self(1 << 6);
    const PROXY_AUTHORIZATION: Self = Self(1 << 7);
    const HTTP2_SETTINGS: Self = Self(1 << 8);
    pub(super) const CONTENT_LENGTH: Self = Self(1 << 9);
    pub(super) const EXPECT: Self = Self(1 << 10);
    /// By which requests that go round in a loop are found.
    pub(super) const LOOP: Self = Self(1 << 11);
    /// Whose name some servers read as another one's, as they take a character for a dash.
    pub(super) const MISSPELLED: Self = Self(1 << 12);

    /// The headers of a head.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        headers.keys().fold(Self::default(), |marks, name| marks | Self::named(name.as_str()))
    }

    /// The header of this name, in lower case.
    fn named(name: &str) -> Self {
        match name {
            "connection" => Self::CONNECTION,
            "te" => Self::TE,
            "transfer-encoding" => Self::TRANSFER_ENCODING,
            "upgrade" => Self::UPGRADE,
            "keep-alive" => Self::KEEP_ALIVE,
            "proxy-connection" => Self::PROXY_CONNECTION,
            "proxy-authenticate" => Self::PROXY_AUTHENTICATE,
            "proxy-authorization" => Self::PROXY_AUTHORIZATION,
            "http2-settings" => Self::HTTP2_SETTINGS,
            "content-length" => Self::CONTENT_LENGTH,
            "expect" => Self::EXPECT,
            "cdn-loop" => Self::LOOP,
            other if !other.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
                Self::MISSPELLED
            }
            _ => Self::default(),
        }
    }

    /// Whether the head has this header.
    pub(super) fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    /// The headers of these that concern one connection only.
    pub(super) fn hop_by_hop(self) -> impl Iterator<Item = &'static HeaderName> {
        HOP_BY_HOP.iter().filter(move |(mark, _)| self.has(*mark)).map(|(_, name)| name)
    }
}

/// The headers of one connection (RFC 9110, section 7.6.1).
static HOP_BY_HOP: [(Marks, HeaderName); 9] = [
    (Marks::CONNECTION, CONNECTION),
    (Marks::KEEP_ALIVE, HeaderName::from_static("keep-alive")),
    (Marks::PROXY_CONNECTION, HeaderName::from_static("proxy-connection")),
    (Marks::PROXY_AUTHENTICATE, PROXY_AUTHENTICATE),
    (Marks::PROXY_AUTHORIZATION, PROXY_AUTHORIZATION),
    (Marks::HTTP2_SETTINGS, HeaderName::from_static("http2-settings")),
    (Marks::TE, TE),
    (Marks::TRANSFER_ENCODING, TRANSFER_ENCODING),
    (Marks::UPGRADE, UPGRADE),
];

impl BitOr for Marks {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{CONTENT_LENGTH, EXPECT};

    use super::*;

    #[test]
    fn each_header_has_its_own_mark() {
        let all = Marks(u32::MAX).hop_by_hop();
        let names: Vec<HeaderName> = all
            .cloned()
            .chain([CONTENT_LENGTH, EXPECT])
            .chain(["cdn-loop", "x_key"].map(HeaderName::from_static))
            .collect();
        let marks: Vec<Marks> = names
            .iter()
            .map(|name| Marks::of(&HeaderMap::from_iter([(name.clone(), HeaderValue::from_static("x"))])))
            .collect();
        let union = marks.iter().fold(Marks::default(), |all, one| all | *one);
        assert_eq!(union.0.count_ones() as usize, names.len(), "{marks:?}");
        for (name, mark) in names.iter().zip(&marks) {
            let hop_by_hop: Vec<&HeaderName> = mark.hop_by_hop().collect();
            assert!(hop_by_hop.is_empty() || hop_by_hop == [name], "{name} gives {hop_by_hop:?}");
        }
        assert_eq!(marks.iter().filter(|mark| mark.hop_by_hop().next().is_some()).count(), 9);
        assert_eq!(Marks::of(&HeaderMap::new()), Marks::default());
    }
}
