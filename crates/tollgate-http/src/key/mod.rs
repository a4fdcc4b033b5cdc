//! The key of a request, which decides whose limit is charged.

mod buffer;
pub(crate) mod first_byte;

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use http::header::AUTHORIZATION;
use tollgate::spelling::{self, Spelling, credentials};

pub use buffer::KeyBuf;

use crate::{ClientAddress, RequestHead};
use first_byte::{IPV4, IPV6};

// The head is passed by reference: a copy of its four references at each call would stall.
type WriteKey = dyn Fn(&RequestHead<'_>, &mut KeyBuf) + Send + Sync;

/// The first byte of the number that marks a later alternative of [`KeyBy::or`].
const NUMBER: u8 = 0;
/// Before a first alternative that begins with a byte of another meaning.
const ESCAPE: u8 = 1;

/// How the key of a request is found. Requests with the same key share a limit.
///
/// A request without a key (no such header, an empty header, no address) has the empty key. The
/// caller decides what that means: `tollgate-tower` calls it `MissingKey`.
///
/// Clients choose their keys, so the engine hashes keys with a secret: a client cannot search for a
/// key that shares another key's limit. Keys of up to 7 bytes never share a limit; among `n` longer
/// keys, two share one by chance with probability `n^2 / 2^65`.
///
/// | constructor | key |
/// |---|---|
/// | [`KeyBy::client`] | the client's address, also behind proxies |
/// | [`KeyBy::header`], [`KeyBy::cookie`] | an API key, a session |
/// | [`KeyBy::method`], [`KeyBy::path`] | the method, the path |
/// | [`KeyBy::extension`] | an extension of the request: axum's `MatchedPath`, a user, a tenant |
/// | [`KeyBy::request`] | any bytes that a closure writes |
/// | [`KeyBy::everyone`] | the same key for all requests |
/// | [`and`](Self::and) | two keys combined |
/// | [`or`](Self::or) | the first key that the request has: an API key, else the address |
///
/// The key of an address begins with a byte that no header, path or method can begin with. So a
/// header of four bytes never shares the limit of an address, not even in a closure that writes one
/// or the other, if it takes the address from [`ClientAddress::key_of`]. A cookie can begin with it
/// by an escape: [`or`](Self::or) keeps the two apart.
///
/// # Examples
///
/// ```
/// use http::HeaderName;
/// use tollgate_http::KeyBy;
///
/// let api_key = KeyBy::header(HeaderName::from_static("x-api-key"));
/// let api_key_and_method = api_key.and(KeyBy::method());
/// ```
#[derive(Clone)]
pub struct KeyBy {
    write: Arc<WriteKey>,
    addresses: Addresses,
    /// The number of alternatives; 1 without [`or`](Self::or).
    alternatives: u32,
}

/// Which keys are client addresses, told by their first byte. The bytes of a closure are none, even
/// if they look like one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Addresses {
    None,
    Some,
    All,
}

impl KeyBy {
    /// The client's address. IPv6 clients are grouped by a prefix.
    #[must_use]
    pub fn client(address: ClientAddress) -> Self {
        let write = Arc::new(move |head: &RequestHead<'_>, key: &mut KeyBuf| address.write(head, key));
        Self { write, addresses: Addresses::All, alternatives: 1 }
    }

    /// The first value of a header. Clients can send any value, so limit requests with an *unknown*
    /// value too.
    ///
    /// A credential in `Authorization` has many spellings and one limit. Its key is written as
    /// `Bearer t`, with one blank and this case of the scheme: see
    /// [`tollgate::spelling::credentials`]. Any other header is the key byte for byte, and
    /// [`request`](Self::request) makes a key of `Authorization` as it was sent.
    ///
    /// `X_Api_Key` is another header than `X-Api-Key`. In front of WSGI, PHP or Puma, which take it
    /// for the same, drop headers with a `_` first.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, header::AUTHORIZATION};
    /// use tollgate_http::{KeyBy, RequestHead};
    ///
    /// let request = Request::builder().header("authorization", "bEARER   t").body(()).unwrap();
    /// let head = RequestHead::of(&request);
    /// assert_eq!(KeyBy::header(AUTHORIZATION).of(head).as_bytes(), b"Bearer t");
    ///
    /// let as_sent = KeyBy::request(|head, key| {
    ///     key.push(head.header("authorization").unwrap_or_default());
    /// });
    /// assert_eq!(as_sent.of(head).as_bytes(), b"bEARER   t");
    /// ```
    #[must_use]
    pub fn header(name: HeaderName) -> Self {
        let spelling = (name == AUTHORIZATION).then_some(credentials as Spelling);
        Self::request(move |head, key| {
            let begin = key.as_bytes().len();
            key.push(head.header(&name).unwrap_or_default());
            if let Some(spelling) = spelling {
                key.respell(begin, spelling);
            }
        })
    }

    /// The value of the first cookie of this name. It is written without quotes and escapes, as
    /// servers read it ([`tollgate::spelling::cookie`]): `abc`, `"abc"` and `%61bc` share a limit.
    /// [`RequestHead::cookie`] is the value as it was sent, for [`request`](Self::request).
    ///
    /// A client can send two cookies of the same name. If the application reads the last one, as
    /// `axum-extra`'s `CookieJar` does, the client can evade its limit by a different first cookie
    /// in each request. Then use the session that the application found as the key, by
    /// [`extension`](Self::extension).
    #[must_use]
    pub fn cookie(name: impl Into<String>) -> Self {
        let name = name.into();
        Self::request(move |head, key| {
            let begin = key.as_bytes().len();
            key.push(head.cookie(&name).unwrap_or_default());
            key.respell(begin, spelling::cookie);
        })
    }

    /// The method.
    #[must_use]
    pub fn method() -> Self {
        Self::request(|head, key| key.push(head.method().as_str()))
    }

    /// The path as the client wrote it; `CONNECT` has none. `/a` and `/%61` are different keys:
    /// where that matters, use the matched route, by [`extension`](Self::extension).
    #[must_use]
    pub fn path() -> Self {
        Self::request(|head, key| key.push(head.path()))
    }

    /// The bytes that `write` writes for an extension of the request. If it writes none, the
    /// request has no key.
    ///
    /// # Examples
    ///
    /// One limit for each route of an axum server:
    ///
    /// ```
    /// use tollgate_http::KeyBy;
    ///
    /// # #[derive(Clone)]
    /// # struct MatchedPath(String);
    /// # impl MatchedPath { fn as_str(&self) -> &str { &self.0 } }
    /// // With `use axum::extract::MatchedPath`:
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

    /// The bytes that `write` writes for a request. If it writes none, the request has no key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_http::{RequestHead, KeyBuf, KeyBy};
    ///
    /// // The first part of the path is the tenant.
    /// let tenant = KeyBy::request(|head: RequestHead<'_>, key: &mut KeyBuf| {
    ///     key.push(head.path().split('/').nth(1).unwrap_or_default());
    /// });
    /// ```
    #[must_use]
    pub fn request(write: impl Fn(RequestHead<'_>, &mut KeyBuf) + Send + Sync + 'static) -> Self {
        Self::of_bytes(move |head, key| write(*head, key))
    }

    /// The same key for all requests.
    #[must_use]
    pub fn everyone() -> Self {
        Self::request(|_, key| key.push(b"*"))
    }

    /// This key combined with another one: two requests share a limit if both parts are equal. If a
    /// part is missing, the request has no key.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::of_bytes(move |head, key| {
            let begin = key.as_bytes().len();
            let complete =
                key.push_part(|key| self.write(head, key)) && key.push_part(|key| other.write(head, key));
            if !complete {
                key.truncate(begin);
            }
        })
    }

    /// This key, or another one if the request lacks this one. The two alternatives never share a
    /// limit: a client cannot choose its bytes so that they do.
    ///
    /// The key is written as without `or`, so that `for_key` and the like find it, if it is the
    /// first alternative or the first [client address](Self::client) among them. Any other
    /// alternative follows its number: [`of`](Self::of) returns the whole key. (A first alternative
    /// whose bytes, from a closure or an escape, begin like an address or a number follows one more
    /// byte.)
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use http::HeaderName;
    /// use tollgate_http::{ClientAddress, KeyBy};
    ///
    /// let address = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
    /// let api_key = KeyBy::header(HeaderName::from_static("x-api-key"));
    /// let client = api_key.or(KeyBy::client(address));
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let has_address = self.addresses != Addresses::None;
        let is_numbered = has_address || other.addresses != Addresses::All;
        let addresses = if has_address || !is_numbered { Addresses::Some } else { Addresses::None };
        let number = self.alternatives;
        let alternatives = number.saturating_add(other.alternatives);
        let write = move |head: &RequestHead<'_>, key: &mut KeyBuf| {
            let begin = key.as_bytes().len();
            self.write(head, key);
            match key.as_bytes().get(begin) {
                Some(&(NUMBER | ESCAPE)) if number == 1 => key.insert(begin, ESCAPE),
                Some(&(IPV4 | IPV6)) if !has_address => key.insert(begin, ESCAPE),
                Some(_) => {}
                None if !is_numbered => other.write(head, key),
                None => {
                    key.push(number.to_be_bytes());
                    let numbered = key.as_bytes().len();
                    other.write(head, key);
                    if key.as_bytes().len() == numbered {
                        key.truncate(begin);
                    }
                }
            }
        };
        Self { write: Arc::new(write), addresses, alternatives }
    }

    fn of_bytes(write: impl Fn(&RequestHead<'_>, &mut KeyBuf) + Send + Sync + 'static) -> Self {
        Self { write: Arc::new(write), addresses: Addresses::None, alternatives: 1 }
    }

    /// Returns the key of a request; empty if it has none.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{HeaderName, Request};
    /// use tollgate_http::{KeyBy, RequestHead};
    ///
    /// let api_key = KeyBy::header(HeaderName::from_static("x-api-key"));
    /// let request = Request::builder().header("x-api-key", "k1").body(()).unwrap();
    /// assert_eq!(api_key.of(RequestHead::of(&request)).as_bytes(), b"k1");
    /// ```
    #[must_use]
    pub fn of(&self, head: RequestHead<'_>) -> KeyBuf {
        let mut key = KeyBuf::new();
        self.write(&head, &mut key);
        key
    }

    /// Appends the key of a request to `key`; nothing if it has none.
    ///
    /// **Cost.** As [`of`](Self::of), without a new buffer for each request.
    #[inline]
    pub fn write(&self, head: &RequestHead<'_>, key: &mut KeyBuf) {
        (self.write)(head, key);
    }
}

impl fmt::Debug for KeyBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBy(..)")
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn key_of(by: &KeyBy, headers: &[(&str, &str)]) -> Vec<u8> {
        let request = headers
            .iter()
            .fold(Request::builder().uri("/a/b?c"), |request, (name, value)| request.header(*name, *value));
        by.of(RequestHead::of(&request.body(()).unwrap())).as_bytes().to_vec()
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let by = KeyBy::cookie("sid");
        assert_eq!(key_of(&by, &[("cookie", "xsid=1; sid2=2; sid=three=3 ; sid=4")]), b"three=3");
        assert_eq!(key_of(&by, &[("cookie", "a=b"), ("cookie", "sid=5")]), b"5");
        assert_eq!(key_of(&by, &[("cookie", "sid; sid=")]), b"");
        assert_eq!(key_of(&by, &[]), b"");
    }

    /// The values of a header that make a key, and those that make another one.
    fn assert_one_key(by: &KeyBy, header: &str, same: &[&str], others: &[&str]) {
        let key = |value: &str| key_of(by, &[(header, value)]);
        let first = key(same[0]);
        assert!(!first.is_empty(), "{header}: {}", same[0]);
        for value in same {
            assert_eq!(key(value), first, "{header}: {value}");
        }
        for value in others {
            assert_ne!(key(value), first, "{header}: {value}");
        }
    }

    #[test]
    fn credentials_have_one_key_however_they_are_spelled() {
        let by = KeyBy::header(AUTHORIZATION);
        // Every case of the scheme, and up to 21 blanks behind it.
        let cased = (0..64_u32).map(|bits| {
            let case = |(at, c): (usize, char)| if bits >> at & 1 == 1 { c.to_ascii_uppercase() } else { c };
            "bearer".chars().enumerate().map(case).collect::<String>() + " t"
        });
        let spaced = (2..=21).map(|blanks| format!("Bearer{}t", " ".repeat(blanks)));
        let all: Vec<String> = cased.chain(spaced).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_one_key(&by, "authorization", &all, &["Bearer T", "Bearer", "Basic t", "t"]);
        let users = ["Basic dTpwMQ==", "basic  dTpwMQ", "BASIC dTpwMR==junk"];
        assert_one_key(&by, "authorization", &users, &["Basic dTpwMg=="]);
        // Any other header, and a part of a longer key.
        let other = KeyBy::header(HeaderName::from_static("x-api-key"));
        assert_one_key(&other, "x-api-key", &["Bearer t"], &["bearer t", "Bearer  t"]);
        let both = KeyBy::method().and(by.clone());
        assert_one_key(&both, "authorization", &["Bearer t", "bearer   t"], &["Bearer T"]);
    }

    #[test]
    fn a_cookie_has_one_key_however_it_is_escaped() {
        let by = KeyBy::cookie("s");
        let bytes = b"abcdef";
        // Each byte plain or escaped, as `%` and as an octal within quotes.
        let escaped = |bits: usize, escape: fn(u8) -> String| -> String {
            let spelled = |(at, &byte): (usize, &u8)| {
                if bits >> at & 1 == 1 { escape(byte) } else { char::from(byte).to_string() }
            };
            bytes.iter().enumerate().map(spelled).collect()
        };
        let percents = (0..64).map(|bits| format!("s={}", escaped(bits, |byte| format!("%{byte:02X}"))));
        let octals = (0..64).map(|bits| format!("s=\"{}\"", escaped(bits, |byte| format!("\\{byte:03o}"))));
        let all: Vec<String> =
            percents.chain(octals).chain(["x=1; s = \"%61bcdef\" ;s=2".to_owned()]).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_one_key(&by, "cookie", &all, &["s=abcdeF", "s=abcdef2", "s=\"abcdef", "s=", "s=\"\""]);
        assert_eq!(key_of(&by, &[("cookie", "s=\"\"")]), b"", "nothing is no key");
        let as_sent = KeyBy::request(|head, key| key.push(head.cookie("s").unwrap_or_default()));
        assert_eq!(key_of(&as_sent, &[("cookie", "s=\"%61b\"")]), b"\"%61b\"");
        let long = format!("s={}", "%61".repeat(200));
        assert_eq!(key_of(&by, &[("cookie", &long)]), b"a".repeat(200));
    }

    #[test]
    fn an_escaped_cookie_never_has_the_key_of_an_address() {
        let address = ClientAddress::connection(|peer: &std::net::SocketAddr| Some(peer.ip()));
        for by in [
            KeyBy::cookie("s").or(KeyBy::client(address.clone())),
            KeyBy::client(address.clone()).or(KeyBy::cookie("s")),
        ] {
            let of_address = address.key_of([97, 98, 99, 100].into());
            assert_ne!(key_of(&by, &[("cookie", "s=%04abcd")]), of_address.as_bytes());
            assert!(!key_of(&by, &[("cookie", "s=%04abcd")]).is_empty());
        }
    }

    #[test]
    fn combined_keys_with_equal_bytes_stay_distinct() {
        let by = KeyBy::header(HeaderName::from_static("a")).and(KeyBy::header(HeaderName::from_static("b")));
        let keys: Vec<_> = [("xy", "z"), ("x", "yz"), ("x,", "z"), ("x", "z")]
            .map(|(a, b)| key_of(&by, &[("a", a), ("b", b)]))
            .into();
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{keys:?}");
        }
        for missing in [[("a", "x")], [("b", "x")], [("a", "")]] {
            assert_eq!(key_of(&by, &missing), b"", "a part is missing");
        }
        let three = by.clone().and(KeyBy::path());
        assert_eq!(key_of(&three, &[("a", "x")]), b"");
        assert!(!key_of(&three, &[("a", "x"), ("b", "y")]).is_empty());
    }

    #[test]
    fn alternatives_never_share_a_key() {
        let named = |name| KeyBy::header(HeaderName::from_static(name));
        let bytes = || KeyBy::extension(|bytes: &Vec<u8>, key| key.push(bytes));
        let address =
            || KeyBy::client(ClientAddress::connection(|peer: &std::net::SocketAddr| Some(peer.ip())));
        let chains = [
            named("a").or(address()).or(named("b")).or(bytes()),
            bytes().or(named("a")).or(named("b")).or(address()),
            bytes().or(named("a").or(named("b"))).or(address()),
            address().or(bytes()).or(named("a").or(named("b"))),
            bytes().or(address().or(named("a"))).or(address()).or(named("b")),
        ];
        for by in &chains {
            let mut seen = std::collections::HashMap::new();
            for alternative in ["a", "b", "bytes", "address"] {
                for text in [
                    &b"abcd"[..],
                    b"\x04abcd",
                    b"\x00",
                    b"\x01",
                    b"\x00abcd",
                    b"\x01\x04abcd",
                    b"\x01\x00abcd",
                ] {
                    let request = Request::builder();
                    let request = match alternative {
                        "bytes" => request.extension(text.to_vec()),
                        "address" => request.extension(std::net::SocketAddr::from((*b"abcd", 1))),
                        name => request.header(name, text),
                    };
                    let Ok(request) = request.body(()) else { continue };
                    let key = by.of(RequestHead::of(&request)).as_bytes().to_vec();
                    assert!(!key.is_empty());
                    let told = if alternative == "address" { &b""[..] } else { text };
                    let first = *seen.entry(key).or_insert((alternative, told));
                    assert_eq!(first, (alternative, told), "two alternatives, one key");
                }
            }
            assert!(by.of(RequestHead::of(&Request::new(()))).is_empty());
        }
    }

    #[test]
    fn the_first_alternative_and_an_address_keep_their_keys() {
        let client = ClientAddress::connection(|peer: &std::net::SocketAddr| Some(peer.ip()));
        let api_key = KeyBy::header(HeaderName::from_static("x-api-key"));
        let by = api_key.or(KeyBy::cookie("sid")).or(KeyBy::client(client.clone())).or(KeyBy::path());
        assert_eq!(key_of(&by, &[("x-api-key", "k1"), ("cookie", "sid=1")]), b"k1");
        assert_eq!(key_of(&by, &[("cookie", "sid=k1")]), b"\0\0\0\x01k1");
        let request = Request::builder().extension(std::net::SocketAddr::from(([192, 0, 2, 1], 80)));
        let key = by.of(RequestHead::of(&request.body(()).unwrap()));
        assert_eq!(key.as_bytes(), client.key_of([192, 0, 2, 1].into()).as_bytes());
        assert_eq!(key_of(&by, &[]), b"\0\0\0\x03/a/b");
    }

    #[test]
    fn only_connect_requests_have_no_path() {
        assert_eq!(key_of(&KeyBy::method(), &[]), b"GET");
        assert_eq!(key_of(&KeyBy::path(), &[]), b"/a/b");
        assert_eq!(key_of(&KeyBy::everyone(), &[]), b"*");
        let connect = Request::builder().method("CONNECT").uri("example.com:443").body(()).unwrap();
        assert!(KeyBy::path().of(RequestHead::of(&connect)).is_empty());
        assert_eq!(key_of(&KeyBy::extension(|n: &u8, key| key.push([*n])), &[]), b"");
    }
}
