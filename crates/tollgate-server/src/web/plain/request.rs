//! A plain request, out of bytes.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use httparse::Status;

use super::super::body::RequestBody;
use super::super::serve::HEADERS;

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

/// Room for a short head, and for what a proxy adds to it.
const ROOM: usize = 6;

/// HTTP/1.1, as `httparse` says it.
const HTTP_11: Option<u8> = Some(1);

/// The first request in these bytes, and how many of them it has. `None`: it is not plain, not
/// whole, or broken, which hyper finds as well.
pub(super) fn read(bytes: &Bytes) -> Option<(Request<RequestBody>, usize)> {
    let mut room = [const { MaybeUninit::uninit() }; HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let Ok(Status::Complete(head)) = parsed.parse_with_uninit_headers(bytes, &mut room) else { return None };
    let method = Method::from_bytes(parsed.method?.as_bytes()).ok()?;
    // Answers to these methods have no body.
    if parsed.version != HTTP_11 || matches!(method, Method::HEAD | Method::CONNECT) {
        return None;
    }
    let uri = Uri::from_maybe_shared(bytes.slice_ref(parsed.path?.as_bytes())).ok()?;
    let mut headers = HeaderMap::with_capacity(parsed.headers.len().max(ROOM));
    let mut length = None;
    for header in &*parsed.headers {
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
    let end = head.checked_add(length.unwrap_or(0)).filter(|end| *end <= bytes.len())?;
    let mut request = Request::new(RequestBody::whole(bytes.slice(head..end)));
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
    Some((request, end))
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
