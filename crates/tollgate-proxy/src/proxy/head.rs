//! Which heads are passed on, and headers that concern one connection only.

use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, MAX_FORWARDS, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use tollgate_rules::{is_host, is_misspelled};

use super::forwarded::{Origin, distrust, is_of_proxies, reads_as, tell};
use super::marks::Marks;

const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// What a head says that is passed on.
#[derive(Debug)]
pub(super) struct Judged {
    /// The protocol to which the client asks to switch.
    pub(super) upgrade: Option<HeaderValue>,
    /// The headers that the head had.
    pub(super) had: Marks,
}

/// Judges the head of a request, and takes the headers of its connection out of it.
///
/// The rules see what is left, which is what the upstream gets: a client cannot show a header to
/// one of both only. An error says why the request is not passed on: it could mean one thing to the
/// rules, and another to the upstream.
///
/// `length` is the body's, if it is known. `own_host` is that of a request that names none. Headers
/// with `_` in their names go on only if `keeps_underscores`: many upstreams read it as `-`.
pub(super) fn judge(
    head: &mut Parts,
    length: Option<u64>,
    own_host: &HeaderValue,
    client_header: &str,
    keeps_underscores: bool,
) -> Result<Judged, &'static str> {
    if head.method == Method::CONNECT {
        return Err("CONNECT is not served");
    }
    if !head.uri.path_and_query().is_some_and(|target| target.as_str().starts_with('/')) {
        return Err("the target is not a path");
    }
    let had = Marks::of(&head.headers);
    let is_chunked = had.has(Marks::TRANSFER_ENCODING);
    if is_chunked && is_coded(&head.headers) {
        return Err("the only transfer coding that is read is chunked");
    }
    if had.has(Marks::MISSPELLED) {
        if head.headers.keys().any(ends_body) {
            return Err("a header reads as the length or the coding of the body");
        }
        if !keeps_underscores {
            drop_underscores(&mut head.headers);
        }
    }
    // An upstream of HTTP/1 would not see the blanks. hyper takes them off in HTTP/1.
    if head.version == Version::HTTP_2 && head.headers.values().any(has_blanks) {
        return Err("a header's value begins or ends with a blank");
    }
    let host = host(head)?;
    let upgrade = if had.has(Marks::UPGRADE) { upgrade(head) } else { None };
    strip(&mut head.headers, had, client_header);
    let says_length =
        had.has(Marks::CONTENT_LENGTH) && head.headers.remove(CONTENT_LENGTH).is_some() && !is_chunked;
    if let Some(length) = length.filter(|_| says_length) {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    // The header says the same as the target, if there are both.
    match host {
        Host::InHeader => {}
        Host::InTarget(authority) => {
            let host = HeaderValue::from_str(authority.as_str());
            head.headers.insert(HOST, host.map_err(|_| "the host is none")?);
        }
        Host::Unnamed => {
            head.headers.insert(HOST, own_host.clone());
        }
    }
    if head.version == Version::HTTP_2 {
        join_cookies(&mut head.headers);
    }
    if let Some(protocol) = &upgrade {
        switch(&mut head.headers, protocol.clone());
    }
    Ok(Judged { upgrade, had })
}

/// Takes one from how often an OPTIONS or TRACE may be passed on (RFC 9110, section 7.6.2).
/// `false`: no more.
pub(super) fn goes_further(head: &mut Parts) -> bool {
    if !matches!(head.method, Method::OPTIONS | Method::TRACE) {
        return true;
    }
    let said = head.headers.get(MAX_FORWARDS).and_then(|most| most.to_str().ok());
    let Some(most) = said.and_then(|most| most.trim().parse::<u64>().ok()) else { return true };
    head.headers.insert(MAX_FORWARDS, most.saturating_sub(1).into());
    most > 0
}

/// Whether servers that take a character for `-` see in a header where the body ends, and others do
/// not.
fn ends_body(name: &HeaderName) -> bool {
    [CONTENT_LENGTH, TRANSFER_ENCODING].iter().any(|other| is_misspelled(name.as_str(), other.as_str()))
}

fn drop_underscores(headers: &mut HeaderMap) {
    let has_one = |name: &&HeaderName| name.as_str().contains('_');
    for name in headers.keys().filter(has_one).cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
}

fn has_blanks(value: &HeaderValue) -> bool {
    value.as_bytes().trim_ascii().len() != value.len()
}

/// Whether a body has another coding than chunks, which only one of both ends may read.
pub(super) fn is_coded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).into_iter();
    codings.next().is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
        || codings.next().is_some()
}

/// Makes one length of those of a response, which may be the same several times (RFC 9110, section
/// 8.6). Returns `false` if they are not one length.
pub(super) fn join_lengths(headers: &mut HeaderMap) -> bool {
    let is_length = |text: &[u8]| (1..20).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let lines = || headers.get_all(CONTENT_LENGTH).into_iter().map(HeaderValue::as_bytes);
    if lines().nth(1).is_none() && lines().all(is_length) {
        return true;
    }
    let mut lengths = lines().flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let Some(length) = lengths.next().filter(|length| is_length(length)) else { return false };
    let Ok(one) = HeaderValue::from_bytes(length) else { return false };
    let are_one = lengths.all(|other| other == length);
    headers.insert(CONTENT_LENGTH, one);
    are_one
}

/// Makes one line of those into which a client of HTTP/2 may split a cookie (RFC 9113, section
/// 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let lines = headers.get_all(COOKIE).into_iter().map(HeaderValue::as_bytes);
    let pairs: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    if headers.get_all(COOKIE).iter().nth(1).is_some()
        && let Ok(joined) = HeaderValue::from_bytes(&pairs.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

/// Where a client names its host.
enum Host {
    InHeader,
    /// The header is empty, or is none.
    InTarget(Authority),
    /// Nowhere, as HTTP/1.0 may.
    Unnamed,
}

/// Finds the host that the client names, once.
fn host(head: &Parts) -> Result<Host, &'static str> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err("there are two hosts");
    }
    let target = head.uri.authority();
    if host.is_none() && target.is_none() && head.version != Version::HTTP_10 {
        return Err("there is no host");
    }
    let named = host.map(HeaderValue::as_bytes).filter(|host| !host.is_empty());
    let in_target = target.map(|target| target.as_str().as_bytes());
    if let Some(odd) = named.into_iter().chain(in_target).find(|host| !is_host(host)) {
        return Err(if odd.contains(&b'@') { "the host has a user" } else { "the host is none" });
    }
    if let (Some(named), Some(target)) = (named, in_target)
        && !named.eq_ignore_ascii_case(target)
    {
        return Err("the target has another host than the header Host");
    }
    Ok(match (named, target) {
        (Some(_), _) => Host::InHeader,
        (None, Some(target)) => Host::InTarget(target.clone()),
        (None, None) => Host::Unnamed,
    })
}

/// Returns the protocol to which a client of HTTP/1.1 asks to switch. Those to another HTTP are
/// not: its requests would pass without the rules.
fn upgrade(head: &Parts) -> Option<HeaderValue> {
    let mut protocols = head.headers.get_all(UPGRADE).iter();
    let protocol = protocols.next().filter(|_| head.version == Version::HTTP_11)?;
    let asks = listed(&head.headers).any(|name| name.eq_ignore_ascii_case("upgrade"));
    let name = protocol.to_str().ok()?.to_ascii_lowercase();
    let is_http = name.starts_with("h2") || name.starts_with("http") || name.starts_with("tls");
    (asks && protocols.next().is_none() && !name.contains(',') && !is_http).then(|| protocol.clone())
}

/// The names that `Connection` lists.
fn listed(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(CONNECTION).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|name| !name.is_empty())
}

/// Whether `Connection` is on one line and lists no header, as in most heads that have it.
fn lists_none(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(CONNECTION).into_iter().map(HeaderValue::as_bytes);
    let line = lines.next_back().unwrap_or_default();
    lines.next().is_none()
        && (line.eq_ignore_ascii_case(b"keep-alive") || line.eq_ignore_ascii_case(b"close"))
}

/// Takes out the headers of one connection, of those that the head `has`. Those that say who the
/// client is stay, although `Connection` lists them: else a client could hide what a trusted proxy
/// says of it.
pub(super) fn strip(headers: &mut HeaderMap, has: Marks, client_header: &str) {
    let wants_trailers = has.has(Marks::TE) && {
        let mut te = headers.get_all(TE).into_iter().filter_map(|line| line.to_str().ok());
        te.any(|line| line.split(',').any(|one| one.trim().eq_ignore_ascii_case("trailers")))
    };
    if has.has(Marks::CONNECTION) && !lists_none(headers) {
        let names: Vec<HeaderName> = listed(headers).filter_map(|name| name.parse().ok()).collect();
        let is_kept = |name: &HeaderName| {
            *name == HOST || *name == CONTENT_LENGTH || is_of_proxies(name, client_header)
        };
        for name in names.iter().filter(|name| !is_kept(name)) {
            headers.remove(name);
        }
    }
    for name in has.hop_by_hop() {
        headers.remove(name);
    }
    if wants_trailers {
        headers.insert(TE, TRAILERS);
    }
}

/// Takes out of the trailers of a request what its head may say only, after it was judged.
/// `read` are the headers that rules read.
pub(super) fn strip_trailers(trailers: &mut HeaderMap, client_header: &str, read: &[Box<str>]) {
    strip(trailers, Marks::of(trailers), client_header);
    distrust(trailers, client_header);
    let is_read = |name: &&HeaderName| read.iter().any(|read| reads_as(name, read));
    for name in trailers.keys().filter(is_read).cloned().collect::<Vec<_>>() {
        trailers.remove(name);
    }
    for name in [HOST, CONTENT_LENGTH, TE] {
        trailers.remove(name);
    }
}

/// Asks to switch to a protocol, or agrees to it.
pub(super) fn switch(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Makes of a request that the rules have seen the one that goes to an upstream.
pub(super) fn depart<B>(request: &mut Request<B>, origin: &Origin) {
    tell(request.headers_mut(), origin);
    // The origin form has neither scheme nor host: those of the header count.
    if request.uri().authority().is_some() {
        let target = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
    }
    *request.version_mut() = Version::HTTP_11;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(request: http::request::Builder) -> Result<(Option<HeaderValue>, HeaderMap), &'static str> {
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        let own = HeaderValue::from_static("own.test");
        judge(&mut head, None, &own, "x-client", false).map(|judged| (judged.upgrade, head.headers))
    }

    fn get(target: &str) -> http::request::Builder {
        Request::get(target)
    }

    #[test]
    fn headers_of_one_connection_are_taken_out() {
        let request = get("/")
            .header("host", "a.test")
            .header("connection", "close, X-Mine")
            .header("connection", "x-forwarded-for,host, te")
            .header("keep-alive", "1")
            .header("proxy-connection", "1")
            .header("te", "gzip, Trailers")
            .header("transfer-encoding", "chunked")
            .header("upgrade", "websocket")
            .header("x-mine", "1")
            .header("x-forwarded-for", "192.0.2.1")
            .header("x_other", "1")
            .header("x-other", "1");
        let (upgrade, headers) = judged(request).unwrap();
        assert_eq!(upgrade, None, "`Connection` does not list it");
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["host", "te", "x-forwarded-for", "x-other"]);
        assert_eq!(headers["te"], "trailers");
    }

    #[test]
    fn a_request_with_two_meanings_is_not_passed_on() {
        let host = |target: &str| get(target).header("host", "a.test");
        for (request, why) in [
            (host("/").header("host", "b.test"), "there are two hosts"),
            (get("/").header("host", "[a.test]"), "the host is none"),
            (get("/").header("host", "[::1]x"), "the host is none"),
            (get("/").header("host", ":80"), "the host is none"),
            (get("/").header("host", "a.test:x"), "the host is none"),
            (get("http://a.test:x/"), "the host is none"),
            (
                host("/").header("transfer_encoding", "chunked"),
                "a header reads as the length or the coding of the body",
            ),
            (
                host("/").version(Version::HTTP_2).header("x-key", "a "),
                "a header's value begins or ends with a blank",
            ),
            (host("http://b.test/"), "the target has another host than the header Host"),
            (get("/"), "there is no host"),
            (get("/").header("host", "a b"), "the host is none"),
            (get("/").header("host", "u@a.test"), "the host has a user"),
            (host("*"), "the target is not a path"),
            (host("/").method("CONNECT"), "CONNECT is not served"),
            (
                host("/").header("transfer-encoding", "gzip, chunked"),
                "the only transfer coding that is read is chunked",
            ),
            (
                host("/").header("transfer-encoding", "chunked").header("transfer-encoding", "chunked"),
                "the only transfer coding that is read is chunked",
            ),
        ] {
            assert_eq!(judged(request).unwrap_err(), why);
        }
        assert!(judged(get("http://A.test/").header("host", "a.test")).is_ok());
        assert!(judged(get("/").version(Version::HTTP_10)).is_ok());
    }

    #[test]
    fn a_switch_to_another_http_is_not_asked() {
        let ask = |protocol: &str| {
            let request = get("/").header("host", "a.test").header("connection", "Upgrade");
            judged(request.header("upgrade", protocol)).unwrap().0
        };
        assert_eq!(ask("websocket").unwrap(), "websocket");
        for http in ["h2c", "H2C", "HTTP/2.0", "TLS/1.0", "websocket, h2c"] {
            assert_eq!(ask(http), None, "{http}");
        }
    }
}
