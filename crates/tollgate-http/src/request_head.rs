//! The head of a request.

use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri, Version};

/// A request without its body. Keys, rules, costs and hooks read it.
///
/// It is `Copy`: four references and the version.
///
/// # Examples
///
/// ```
/// use http::Request;
/// use tollgate_http::RequestHead;
///
/// let request = Request::builder().uri("/search?q=rust").header("x-api-key", "k1");
/// let request = request.body(()).unwrap();
/// let head = RequestHead::of(&request);
/// assert_eq!((head.path(), head.header("x-api-key")), ("/search", Some(&b"k1"[..])));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    version: Version,
}

impl<'r> RequestHead<'r> {
    /// Borrows the head of a request.
    #[must_use]
    #[inline]
    pub fn of<B>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
            version: request.version(),
        }
    }

    /// Borrows the head of a request that was taken apart.
    #[must_use]
    #[inline]
    pub fn of_parts(parts: &'r Parts) -> Self {
        let Parts { method, uri, headers, extensions, version, .. } = parts;
        Self { method, uri, headers, extensions, version: *version }
    }

    /// Replaces the request target: by the one before a router or a middleware rewrote it.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Uri};
    /// use tollgate_http::RequestHead;
    ///
    /// let original = Uri::from_static("/api/search");
    /// let request = Request::builder().uri("/search").body(()).unwrap();
    /// assert_eq!(RequestHead::of(&request).with_uri(&original).path(), "/api/search");
    /// ```
    #[must_use]
    #[inline]
    pub fn with_uri(self, uri: &'r Uri) -> Self {
        Self { uri, ..self }
    }

    /// Returns the value of the first cookie of this name, as it was sent: with its quotes and
    /// escapes.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_http::RequestHead;
    ///
    /// let request = Request::builder().header("cookie", "a=1; sid=%61bc").body(()).unwrap();
    /// assert_eq!(RequestHead::of(&request).cookie("sid"), Some(&b"%61bc"[..]));
    /// ```
    #[must_use]
    pub fn cookie(self, name: &str) -> Option<&'r [u8]> {
        let lines = self.headers.get_all(http::header::COOKIE).into_iter();
        let pairs = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b';'));
        pairs.map(<[u8]>::trim_ascii).find_map(|pair| {
            let rest = pair.strip_prefix(name.as_bytes())?.trim_ascii_start();
            rest.strip_prefix(b"=").map(<[u8]>::trim_ascii_start)
        })
    }

    /// Returns the method.
    #[must_use]
    #[inline]
    pub fn method(self) -> &'r Method {
        self.method
    }

    /// Returns the version of HTTP.
    #[must_use]
    #[inline]
    pub fn version(self) -> Version {
        self.version
    }

    /// Returns the request target as the client wrote it, unless a router or a middleware before
    /// rewrote it: see [`with_uri`](Self::with_uri).
    #[must_use]
    #[inline]
    pub fn uri(self) -> &'r Uri {
        self.uri
    }

    /// Returns the path without the query, as the client wrote it: neither decoded nor normalised.
    #[must_use]
    #[inline]
    pub fn path(self) -> &'r str {
        self.uri.path()
    }

    /// Returns all headers.
    #[must_use]
    #[inline]
    pub fn headers(self) -> &'r HeaderMap {
        self.headers
    }

    /// Returns the first value of a header. `None` if the header is missing or that value is empty.
    #[must_use]
    #[inline]
    pub fn header(self, name: impl http::header::AsHeaderName) -> Option<&'r [u8]> {
        self.headers.get(name).map(http::HeaderValue::as_bytes).filter(|value| !value.is_empty())
    }

    /// Returns an extension that the server or another middleware attached: axum's `MatchedPath`, a
    /// session, a tenant.
    #[must_use]
    #[inline]
    pub fn extension<T: Clone + Send + Sync + 'static>(self) -> Option<&'r T> {
        self.extensions.get()
    }

    /// Returns all extensions.
    #[must_use]
    #[inline]
    pub fn extensions(self) -> &'r Extensions {
        self.extensions
    }
}
