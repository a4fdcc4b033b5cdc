//! A plain request, out of bytes.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{Method, Request, Uri};
use httparse::Status;

use super::super::body::RequestBody;
use super::headers::{self, HEADERS, HTTP_11};

/// The first request in these bytes, and how many of them it has. `None`: it is not plain, not
/// whole, or broken, which hyper finds as well.
pub(in crate::web) fn read(bytes: &Bytes) -> Option<(Request<RequestBody>, usize)> {
    let mut room = [const { MaybeUninit::uninit() }; HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let Ok(Status::Complete(head)) = parsed.parse_with_uninit_headers(bytes, &mut room) else { return None };
    let method = Method::from_bytes(parsed.method?.as_bytes()).ok()?;
    // Answers to these methods have no body.
    if parsed.version != HTTP_11 || matches!(method, Method::HEAD | Method::CONNECT) {
        return None;
    }
    let uri = Uri::from_maybe_shared(bytes.slice_ref(parsed.path?.as_bytes())).ok()?;
    let (headers, length) = headers::read(parsed.headers, bytes)?;
    let end = head.checked_add(length.unwrap_or(0)).filter(|end| *end <= bytes.len())?;
    let mut request = Request::new(RequestBody::whole(bytes.slice(head..end)));
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
    Some((request, end))
}
