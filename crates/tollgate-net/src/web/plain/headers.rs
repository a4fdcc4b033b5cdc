//! The headers of plain requests and answers.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, EXPECT, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};
use httparse::Header;

/// Names by which proxies tell of their clients, as they mostly write them. `http` does not know
/// them, and would allocate each.
static OF_PROXIES: [([&[u8]; 2], HeaderName); 6] = [
    ([b"X-Forwarded-For", b"x-forwarded-for"], HeaderName::from_static("x-forwarded-for")),
    ([b"X-Forwarded-Host", b"x-forwarded-host"], HeaderName::from_static("x-forwarded-host")),
    ([b"X-Forwarded-Method", b"x-forwarded-method"], HeaderName::from_static("x-forwarded-method")),
    ([b"X-Forwarded-Proto", b"x-forwarded-proto"], HeaderName::from_static("x-forwarded-proto")),
    ([b"X-Forwarded-Uri", b"x-forwarded-uri"], HeaderName::from_static("x-forwarded-uri")),
    ([b"X-Real-IP", b"x-real-ip"], HeaderName::from_static("x-real-ip")),
];

/// The most headers of a head.
pub const HEADERS: usize = 100;

/// HTTP/1.1, as `httparse` says it.
pub const HTTP_11: Option<u8> = Some(1);

/// Room for a short head, and for what a proxy adds to it.
const ROOM: usize = 6;

/// Which headers a head has.
#[derive(Clone, Copy, Default)]
pub struct Has {
    /// How long the body is.
    pub length: bool,
    pub(crate) date: bool,
}

/// The headers of a head in these bytes, and the length of its body, if one of them says it.
/// `None`: they are not plain, as they say more of the body or of the connection.
pub fn read(parsed: &[Header<'_>], bytes: &Bytes) -> Option<(HeaderMap, Option<usize>)> {
    let mut headers = HeaderMap::with_capacity(parsed.len().max(ROOM));
    let mut length = None;
    for header in parsed {
        let name = name(header.name.as_bytes())?;
        match name {
            TRANSFER_ENCODING | EXPECT | UPGRADE => return None,
            CONNECTION if !header.value.eq_ignore_ascii_case(b"keep-alive") => return None,
            CONTENT_LENGTH if length.is_some() => return None,
            CONTENT_LENGTH => length = Some(number(header.value)?),
            _ => {}
        }
        headers.append(name, HeaderValue::from_maybe_shared(bytes.slice_ref(header.value)).ok()?);
    }
    Some((headers, length))
}

fn name(text: &[u8]) -> Option<HeaderName> {
    if let [b'x' | b'X', b'-', ..] = text
        && let Some((_, known)) = OF_PROXIES.iter().find(|(known, _)| known.contains(&text))
    {
        return Some(known.clone());
    }
    HeaderName::from_bytes(text).ok()
}

/// A number of digits and nothing else.
fn number(text: &[u8]) -> Option<usize> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// Appends the headers of a head whose body has the length of these digits. `None`: they say how
/// the body ends in other ways, or which end the connection; some may be there already.
pub fn write(headers: &HeaderMap, length: &[u8], out: &mut Vec<u8>) -> Option<Has> {
    let mut has = Has::default();
    for (name, value) in headers {
        match *name {
            TRANSFER_ENCODING | CONNECTION => return None,
            CONTENT_LENGTH if has.length || value.as_bytes() != length => return None,
            CONTENT_LENGTH => has.length = true,
            DATE => has.date = true,
            _ => {}
        }
        line(name.as_str(), value.as_bytes(), out);
    }
    Some(has)
}

/// Appends one header.
pub fn line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}
