//! What a request says before its body.

use http::{Extensions, HeaderMap, Method, Request, Uri};

/// The part of a request that keys, rules, costs and hooks are made of: everything but the body.
///
/// Borrowed and `Copy`: four references.
///
/// # Examples
///
/// ```
/// use http::Request;
/// use tollgate_tower::Head;
///
/// let request = Request::builder().uri("/search?q=rust").header("x-api-key", "k1").body(()).unwrap();
/// let head = Head::of(&request);
/// assert_eq!((head.path(), head.header("x-api-key")), ("/search", Some(&b"k1"[..])));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Head<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

impl<'r> Head<'r> {
    /// The head of a request.
    #[must_use]
    pub fn of<B>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The method.
    #[must_use]
    pub fn method(self) -> &'r Method {
        self.method
    }

    /// The target, as the client wrote it.
    #[must_use]
    pub fn uri(self) -> &'r Uri {
        self.uri
    }

    /// The path, as the client wrote it: neither decoded nor normalised, without the query.
    #[must_use]
    pub fn path(self) -> &'r str {
        self.uri.path()
    }

    /// All headers.
    #[must_use]
    pub fn headers(self) -> &'r HeaderMap {
        self.headers
    }

    /// The first value of this header. `None` when there is none, or it is empty.
    #[must_use]
    pub fn header(self, name: impl http::header::AsHeaderName) -> Option<&'r [u8]> {
        self.headers.get(name).map(http::HeaderValue::as_bytes).filter(|value| !value.is_empty())
    }

    /// What the server or another middleware has attached: axum's `MatchedPath`, a session, a tenant.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(self) -> Option<&'r T> {
        self.extensions.get()
    }

    /// Everything that was attached.
    #[must_use]
    pub fn extensions(self) -> &'r Extensions {
        self.extensions
    }
}
