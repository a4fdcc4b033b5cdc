//! Heads on their way through the proxy: what the rules match is what the upstream gets, with one
//! framing, one host, and no header of another connection; a client that is not trusted says
//! nothing of where it comes from.
//!
//! The first line has a digit of flags, the method and the target. Each other line is a header.

#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Version};
use libfuzzer_sys::fuzz_target;
use tollgate_proxy::proxy::HeadProbe;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Where the rules read the client's address.
const CLIENT_HEADER: &str = "cf-connecting-ip";

/// What the proxy itself says of the client.
const TOLD: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// Where it adds its own name.
const LOOP: &str = "cdn-loop";

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, head)) = read(bytes) else { return };
    let (is_trusted, is_http2) = (flags & 1 != 0, flags & 2 != 0);
    let length = (flags & 4 != 0).then_some(7);
    let upstream = if is_http2 { "h2c://up.test:80" } else { "http://up.test:80" };
    let passed = HeadProbe::pass(head.clone(), length, (CLIENT, is_trusted), CLIENT_HEADER, upstream);
    let Ok(HeadProbe { seen, sent, upgrade }) = passed else { return };
    assert_same(&head, &seen, &sent);
    assert_one_host(&head, &seen, &sent, is_http2);
    assert_one_framing(&sent, length, is_http2);
    assert_no_hop_by_hop(head.headers(), sent.headers(), upgrade.as_ref());
    assert_told(sent.headers(), is_trusted);
    // A proxy behind this one passes the head on as it is.
    if !is_http2 {
        let trusted = (CLIENT, true);
        let again = HeadProbe::pass(sent.clone(), length, trusted, CLIENT_HEADER, upstream);
        let again = again.expect("it was passed on once");
        assert_eq!((again.sent.method(), again.sent.uri()), (sent.method(), sent.uri()));
    }
});

fn read(bytes: &[u8]) -> Option<(u8, Request<()>)> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut first = lines.next()?.splitn(3, |byte| *byte == b' ');
    let flags = *first.next()?.first()?;
    let version = [Version::HTTP_11, Version::HTTP_2, Version::HTTP_10][usize::from(flags >> 3) % 3];
    let request = Request::builder().version(version).method(first.next()?).uri(first.next()?);
    let mut request = request.body(()).ok()?;
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (line[..colon].try_into().ok()?, &line[colon + 1..]);
        let value = if version == Version::HTTP_2 { value } else { value.trim_ascii() };
        request.headers_mut().append::<HeaderName>(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some((flags, request))
}

/// The upstream gets the method, the target and the headers that the rules saw.
fn assert_same(head: &Request<()>, seen: &Request<()>, sent: &Request<()>) {
    assert_eq!((head.method(), seen.method()), (seen.method(), sent.method()));
    let target = |request: &Request<()>| request.uri().path_and_query().map(ToString::to_string);
    assert!(target(head).is_some_and(|target| target.starts_with('/')));
    assert_eq!(target(head), target(seen));
    assert_eq!(target(seen), target(sent));
    let shown = |headers: &HeaderMap| {
        let mut headers = headers.clone();
        for name in TOLD.into_iter().chain([LOOP, "host", "transfer-encoding"]) {
            headers.remove(name);
        }
        headers
    };
    assert_eq!(shown(seen.headers()), shown(sent.headers()));
    let passed = |request: &Request<()>| {
        let lines = request.headers().get_all(LOOP).iter();
        let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        names.map(|name| name.trim_ascii().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(passed(sent), [passed(seen), vec![b"tollgate".to_vec()]].concat());
    for value in sent.headers().values().map(HeaderValue::as_bytes) {
        assert_eq!(value, value.trim_ascii(), "an upstream of HTTP/1 reads another value");
    }
}

/// Both are told the one host that the client names.
fn assert_one_host(head: &Request<()>, seen: &Request<()>, sent: &Request<()>, is_http2: bool) {
    let hosts: Vec<_> = seen.headers().get_all(HOST).iter().collect();
    let [host] = hosts[..] else { panic!("{hosts:?}") };
    assert!(!host.is_empty() && !host.as_bytes().contains(&b'@'), "{host:?}");
    for named in head.headers().get_all(HOST).iter().filter(|named| !named.is_empty()) {
        assert!(named.as_bytes().eq_ignore_ascii_case(host.as_bytes()), "{named:?} {host:?}");
    }
    let authority = head.uri().authority().map(|authority| authority.as_str().as_bytes());
    assert!(authority.is_none_or(|authority| authority.eq_ignore_ascii_case(host.as_bytes())), "{host:?}");
    let told = sent.uri().authority().map(|authority| authority.as_str().as_bytes());
    if is_http2 {
        assert_eq!((told, sent.headers().get(HOST)), (Some(host.as_bytes()), None));
    } else {
        assert_eq!(sent.headers().get_all(HOST).iter().collect::<Vec<_>>(), [host]);
    }
}

/// The body ends where it is known to end, and the head says so once at most.
fn assert_one_framing(sent: &Request<()>, length: Option<u64>, is_http2: bool) {
    let all = |name| sent.headers().get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>();
    let (lengths, codings) = (all(CONTENT_LENGTH), all(TRANSFER_ENCODING));
    assert!(lengths.len() + codings.len() <= 1, "{lengths:?} {codings:?}");
    assert!(lengths.is_empty() || length == Some(7) && lengths == [b"7"], "{lengths:?}");
    let is_chunked = !is_http2 && length.is_none();
    assert_eq!(codings, Vec::from_iter(is_chunked.then_some(b"chunked")));
}

fn assert_no_hop_by_hop(client: &HeaderMap, sent: &HeaderMap, upgrade: Option<&HeaderValue>) {
    for name in
        ["keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "http2-settings"]
    {
        assert!(!sent.contains_key(name), "{name}");
    }
    let all = |name| sent.get_all(name).iter().collect::<Vec<_>>();
    assert_eq!(all(UPGRADE), Vec::from_iter(upgrade));
    let switches = HeaderValue::from_static("upgrade");
    assert_eq!(all(CONNECTION), Vec::from_iter(upgrade.map(|_| &switches)));
    assert!(all(TE).iter().all(|te| *te == "trailers") && all(TE).len() < 2);
    assert!(all(COOKIE).len() <= client.get_all(COOKIE).iter().count());
    // The client's `Connection` may list any header but those that an upstream must be told.
    for line in client.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok()) {
        for name in line.split(',').filter_map(|name| name.trim().parse::<HeaderName>().ok()) {
            let is_kept = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, TE, UPGRADE, CONNECTION].contains(&name)
                || name == LOOP
                || HeadProbe::tells_of_clients(&name, CLIENT_HEADER);
            assert!(is_kept || !sent.contains_key(&name), "{name}");
        }
    }
}

/// The last that is told is the address of the connection; the only one, of a client that is not
/// trusted.
fn assert_told(sent: &HeaderMap, is_trusted: bool) {
    let chain = sent.get_all("x-forwarded-for").iter().collect::<Vec<_>>();
    let [chain] = chain[..] else { panic!("{chain:?}") };
    let last = chain.as_bytes().rsplit(|byte| *byte == b' ').next();
    assert_eq!(last, Some(CLIENT.to_string().as_bytes()), "{chain:?}");
    if !is_trusted {
        assert_eq!(chain, &CLIENT.to_string());
        assert_eq!(sent["x-forwarded-proto"], "http");
        let host = sent.get("x-forwarded-host").expect("it is told");
        let forwarded = format!("for={CLIENT};host=\"{}\";proto=http", host.to_str().expect("a host"));
        assert_eq!(sent["forwarded"], forwarded);
        for name in sent.keys().filter(|name| HeadProbe::tells_of_clients(name, CLIENT_HEADER)) {
            assert!(TOLD.contains(&name.as_str()), "{name}");
        }
    }
}
