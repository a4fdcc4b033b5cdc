//! Whose limit a request counts against.

mod buffer;

use std::fmt;
use std::sync::Arc;

use http::HeaderName;

pub use buffer::KeyBuf;

use crate::{ClientAddress, Head};

// By reference: four references that are handed on by value are copied each time, and waited for.
type Write = dyn Fn(&Head<'_>, &mut KeyBuf) + Send + Sync;

/// How the key of a request is found: requests of one key share a limit.
///
/// A request without a key (no such header, an empty one, no address) is the rule's [`Missing`](crate::Missing) case.
///
/// Keys are what clients send, so the engine names them by a hash with a secret: nobody can look for two that share a
/// limit. Keys of up to 7 bytes never do, longer ones by chance with probability `n^2 / 2^65` among `n`.
///
/// | key | of |
/// |---|---|
/// | [`KeyBy::client`] | the client's address, also behind proxies |
/// | [`KeyBy::header`], [`KeyBy::cookie`] | an API key, a session |
/// | [`KeyBy::method`], [`KeyBy::path`] | what is asked for |
/// | [`KeyBy::extension`] | what another layer attached: axum's `MatchedPath`, a user, a tenant |
/// | [`KeyBy::request`] | anything, by closure |
/// | [`KeyBy::everyone`] | one limit for all |
/// | [`and`](Self::and) | any of these together |
///
/// # Examples
///
/// ```
/// use http::HeaderName;
/// use tollgate_tower::KeyBy;
///
/// let by_key_and_method = KeyBy::header(HeaderName::from_static("x-api-key")).and(KeyBy::method());
/// ```
#[derive(Clone)]
pub struct KeyBy(Arc<Write>);

impl KeyBy {
    /// The client's address, IPv6 by its prefix.
    #[must_use]
    pub fn client(address: ClientAddress) -> Self {
        Self(Arc::new(move |head, key| address.write(head, key)))
    }

    /// The first value of a header, byte by byte. Anybody can send anything: limit what is *not* a known key too.
    #[must_use]
    pub fn header(name: HeaderName) -> Self {
        Self::request(move |head, key| key.push(head.header(&name).unwrap_or_default()))
    }

    /// The first cookie of this name, as it was sent.
    ///
    /// A client can send two of one name. Where the application reads the last, as `axum-extra`'s `CookieJar` does, it can put
    /// another one before it in each request and never meet its limit: key by the session that was looked up instead, by
    /// [`extension`](Self::extension).
    #[must_use]
    pub fn cookie(name: impl Into<String>) -> Self {
        let name = name.into();
        Self::request(move |head, key| key.push(cookie(head, name.as_bytes()).unwrap_or_default()))
    }

    /// The method.
    #[must_use]
    pub fn method() -> Self {
        Self::request(|head, key| key.push(head.method().as_str()))
    }

    /// The path as the client wrote it; `CONNECT` has none. `/a` and `/%61` are two: where that matters use the route that
    /// matched, by [`extension`](Self::extension).
    #[must_use]
    pub fn path() -> Self {
        Self::request(|head, key| key.push(head.path()))
    }

    /// What `write` makes of an extension of the request. Nothing written is no key.
    ///
    /// # Examples
    ///
    /// Each route of an axum server by itself:
    ///
    /// ```
    /// use axum::extract::MatchedPath;
    /// use tollgate_tower::KeyBy;
    ///
    /// let route = KeyBy::extension(|route: &MatchedPath, key| key.push(route.as_str()));
    /// let method_and_route = KeyBy::method().and(route);
    /// ```
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(
        write: impl Fn(&T, &mut KeyBuf) + Send + Sync + 'static,
    ) -> Self {
        Self::request(move |head, key| {
            if let Some(extension) = head.extension::<T>() {
                write(extension, key);
            }
        })
    }

    /// What `write` makes of the request. Nothing written is no key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_tower::{Head, KeyBuf, KeyBy};
    ///
    /// // The first part of the path is the tenant.
    /// let tenant = KeyBy::request(|head: Head<'_>, key: &mut KeyBuf| {
    ///     key.push(head.path().split('/').nth(1).unwrap_or_default());
    /// });
    /// ```
    #[must_use]
    pub fn request(write: impl Fn(Head<'_>, &mut KeyBuf) + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |head, key| write(*head, key)))
    }

    /// One key for all requests.
    #[must_use]
    pub fn everyone() -> Self {
        Self::request(|_, key| key.push(b"*"))
    }

    /// This key and another one together: two requests share a limit when they agree in both. Without either there is
    /// no key.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(Arc::new(move |head, key| {
            let whole = key.part(|key| self.0(head, key)) && key.part(|key| other.0(head, key));
            if !whole {
                key.clear();
            }
        }))
    }

    /// The key of a request; empty when it has none.
    #[must_use]
    pub fn of(&self, head: Head<'_>) -> KeyBuf {
        let mut key = KeyBuf::new();
        self.write(&head, &mut key);
        key
    }

    #[inline]
    pub(crate) fn write(&self, head: &Head<'_>, key: &mut KeyBuf) {
        self.0(head, key);
    }
}

impl fmt::Debug for KeyBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBy(..)")
    }
}

fn cookie<'r>(head: Head<'r>, name: &[u8]) -> Option<&'r [u8]> {
    let lines = head.headers().get_all(http::header::COOKIE).into_iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b';'));
    pairs.map(<[u8]>::trim_ascii).find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn key_of(by: &KeyBy, headers: &[(&str, &str)]) -> Vec<u8> {
        let request = headers
            .iter()
            .fold(Request::builder().uri("/a/b?c"), |request, (name, value)| request.header(*name, *value));
        by.of(Head::of(&request.body(()).unwrap())).as_bytes().to_vec()
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let by = KeyBy::cookie("sid");
        assert_eq!(key_of(&by, &[("cookie", "xsid=1; sid2=2; sid=three=3 ; sid=4")]), b"three=3");
        assert_eq!(key_of(&by, &[("cookie", "a=b"), ("cookie", "sid=5")]), b"5");
        assert_eq!(key_of(&by, &[("cookie", "sid; sid=")]), b"");
        assert_eq!(key_of(&by, &[]), b"");
    }

    #[test]
    fn parts_of_a_key_do_not_run_into_one_another() {
        let by = KeyBy::header(HeaderName::from_static("a")).and(KeyBy::header(HeaderName::from_static("b")));
        let keys: Vec<_> = [("xy", "z"), ("x", "yz"), ("x,", "z"), ("x", "z")]
            .map(|(a, b)| key_of(&by, &[("a", a), ("b", b)]))
            .into();
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{keys:?}");
        }
        for missing in [[("a", "x")], [("b", "x")], [("a", "")]] {
            assert_eq!(key_of(&by, &missing), b"", "half a key is none");
        }
        let three = by.clone().and(KeyBy::path());
        assert_eq!(key_of(&three, &[("a", "x")]), b"");
        assert!(!key_of(&three, &[("a", "x"), ("b", "y")]).is_empty());
    }

    #[test]
    fn method_and_everyone_have_always_a_key_and_a_path_has_all_but_connect() {
        assert_eq!(key_of(&KeyBy::method(), &[]), b"GET");
        assert_eq!(key_of(&KeyBy::path(), &[]), b"/a/b");
        assert_eq!(key_of(&KeyBy::everyone(), &[]), b"*");
        let connect = Request::builder().method("CONNECT").uri("example.com:443").body(()).unwrap();
        assert!(KeyBy::path().of(Head::of(&connect)).is_empty());
        assert_eq!(key_of(&KeyBy::extension(|n: &u8, key| key.push([*n])), &[]), b"");
    }
}
