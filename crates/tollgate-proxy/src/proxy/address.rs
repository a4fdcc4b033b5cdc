//! How a request names the host that it is for, and the end of its body, in each version of HTTP.

use http::header::{HOST, TRANSFER_ENCODING};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Request, Uri};

use crate::Upstream;

/// Says where the body of a request ends, of which `length` is known or not; with HTTP/2, names the
/// host that the client asked for in the target.
pub(super) fn address<B>(request: &mut Request<B>, length: Option<u64>, upstream: &Upstream) {
    if !upstream.is_http2 {
        // hyper takes a GET of unknown length for one without a body.
        if length.is_none() {
            request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        return;
    }
    // It is there if an upstream of HTTP/1 was not reached.
    request.headers_mut().remove(TRANSFER_ENCODING);
    let host = request.headers_mut().remove(HOST);
    let authority = host.and_then(|host| host.as_bytes().try_into().ok());
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(if upstream.is_tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(authority.unwrap_or_else(|| upstream.authority.clone()));
    parts.path_and_query.get_or_insert_with(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another upstream was not reached before.
    #[test]
    fn each_version_is_addressed_in_its_own_way() {
        let upstream = |url: &str| url.parse::<Upstream>().unwrap();
        let mut request = Request::post("/x").header(HOST, "a.test").body(()).unwrap();
        address(&mut request, None, &upstream("http://127.0.0.1:1"));
        assert_eq!(request.headers()[TRANSFER_ENCODING], "chunked");
        assert_eq!(
            (request.uri().to_string(), &request.headers()[HOST]),
            ("/x".into(), &"a.test".parse().unwrap())
        );
        address(&mut request, None, &upstream("h2c://127.0.0.1:1"));
        assert!(request.headers().is_empty(), "{:?}", request.headers());
        assert_eq!(*request.uri(), "http://a.test/x");
    }
}
