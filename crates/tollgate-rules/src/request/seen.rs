//! The parts of a request that are read once, in the form in which conditions compare them.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Range;

use tollgate::spelling::{Spelling, credentials, decode, decode_form, respell, unquote};

use super::host;
use super::path::{self, Form, Forms, PathReading};
use super::{Field, MAX_VALUE, Request};
use crate::address::canonical;

/// An attribute, as the matcher looks for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A method, host, query parameter, cookie, or credentials of conditions: read once, by its
    /// number in `Names`.
    Read(u32),
    Path,
    Client,
    Header(Box<str>),
    Label(Box<str>),
    Domain,
    Entry(Box<str>),
    Route,
    Capture(Box<str>),
}

pub(crate) const METHOD: u32 = 0;
pub(crate) const HOST: u32 = 1;
/// The header `Authorization`, as conditions compare it.
pub(crate) const AUTHORIZATION: u32 = 2;
/// Its name.
pub(crate) const CREDENTIALS: &str = "authorization";

/// How a value that rules see stands to what the request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All servers read it so.
    Only,
    /// Some servers read another value, or none. It relaxes nothing.
    First,
    /// The value before, as some servers read it. No key has it.
    Further,
}

/// The query parameters and cookies that rules name, by number, and which other parts of a request
/// they look at. What no rule looks at is not read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    method: bool,
    host: bool,
    path: bool,
    authorization: bool,
    queries: HashMap<Box<[u8]>, u32, ahash::RandomState>,
    cookies: HashMap<Box<[u8]>, u32, ahash::RandomState>,
    headers: BTreeSet<Box<str>>,
}

impl Names {
    /// Has requests read for a source that rules look at.
    pub(crate) fn want(&mut self, source: &Source) {
        match source {
            Source::Read(METHOD) => self.method = true,
            Source::Read(HOST) => self.host = true,
            Source::Read(AUTHORIZATION) => {
                self.authorization = true;
                self.headers.insert(CREDENTIALS.into());
            }
            Source::Path | Source::Route | Source::Capture(_) => self.path = true,
            Source::Header(name) => drop(self.headers.insert(name.clone())),
            Source::Read(_) | Source::Client | Source::Label(_) => {}
            Source::Domain | Source::Entry(_) => {}
        }
    }

    /// The headers that rules look at, in lower case.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &str> {
        let cookie = (!self.cookies.is_empty()).then_some("cookie");
        self.headers.iter().map(|name| &**name).chain(cookie)
    }

    pub(crate) fn query(&mut self, name: &str) -> u32 {
        let next = self.next();
        *self.queries.entry(name.as_bytes().into()).or_insert(next)
    }

    pub(crate) fn cookie(&mut self, name: &str) -> u32 {
        let next = self.next();
        *self.cookies.entry(name.as_bytes().into()).or_insert(next)
    }

    fn next(&self) -> u32 {
        AUTHORIZATION + 1 + (self.queries.len() + self.cookies.len()) as u32
    }
}

/// A value that was read: of which name, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    name: u32,
    begin: usize,
    end: usize,
    reading: Reading,
}

/// The buffers of a request, used again for the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    bytes: Vec<u8>,
    forms: Forms,
    readings: Vec<PathReading>,
    /// Whether the path may have readings that are not among these.
    has_more_readings: bool,
    /// Whether the request names a host that servers read each in its own way.
    has_any_host: bool,
    items: Vec<Item>,
}

/// A buffer that grew beyond this for one request is given back, in bytes.
const KEPT: usize = 1 << 16;

impl Buffers {
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.forms.shrink_to(KEPT);
        self.readings.clear();
        self.has_more_readings = false;
        self.has_any_host = false;
        self.items.clear();
        self.items.shrink_to(KEPT / size_of::<Item>());
    }

    fn item(&mut self, name: u32, begin: usize, reading: Reading) {
        self.items.push(Item { name, begin, end: self.bytes.len(), reading });
    }

    /// Reads a request.
    pub(crate) fn read(&mut self, request: &dyn Request, names: &Names) {
        self.clear();
        if names.method {
            request.values(Field::Method, &mut |method| {
                let begin = self.bytes.len();
                self.bytes.extend(method.iter().take(MAX_VALUE + 1).map(u8::to_ascii_uppercase));
                let is_exact = self.bytes[begin..] == *method;
                self.item(METHOD, begin, if is_exact { Reading::Only } else { Reading::First });
            });
        }
        if names.host {
            request.values(Field::Host, &mut |host| self.read_host(host));
        }
        // A target may name the host, too.
        if names.path || names.host || !names.queries.is_empty() {
            self.read_target(request, names);
        }
        if names.authorization {
            request.values(Field::Header(CREDENTIALS), &mut |value| self.read_credentials(value));
        }
        if !names.cookies.is_empty() {
            request.values(Field::Header("cookie"), &mut |line| self.read_cookies(line, names));
        }
    }

    fn read_target(&mut self, request: &dyn Request, names: &Names) {
        let mut has_target = false;
        request.values(Field::Target, &mut |target| {
            if std::mem::replace(&mut has_target, true) {
                return;
            }
            if names.path {
                let Self { bytes, forms, readings, .. } = &mut *self;
                self.has_more_readings = !path::read(target, bytes, forms, readings);
            }
            if names.host
                && let (_, Some(authority)) = path::parts_of(target)
            {
                self.read_host(authority);
            }
            if !names.queries.is_empty() {
                self.read_query(target, names);
            }
        });
    }

    fn read_host(&mut self, host: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend(host::name_of(host).iter().take(MAX_VALUE + 1).map(u8::to_ascii_lowercase));
        // One without bytes is none, which some clients send.
        let is_odd = !host.is_empty() && !host::is_host(host);
        self.has_any_host |= is_odd;
        self.item(HOST, begin, if is_odd { Reading::First } else { Reading::Only });
    }

    /// Reads credentials in the one spelling of theirs; for digests, also as they were sent and
    /// with their scheme in small letters.
    fn read_credentials(&mut self, value: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(value);
        respell(&mut self.bytes, begin, credentials);
        self.item(AUTHORIZATION, begin, Reading::Only);
        let end = self.bytes.len();
        if self.bytes[begin..] != *value {
            self.bytes.extend_from_slice(value);
            self.item(AUTHORIZATION, end, Reading::Further);
        }
        if let Some(scheme) = self.bytes[begin..end].iter().position(|&byte| byte == b' ') {
            let small = self.bytes.len();
            self.bytes.extend_from_within(begin..end);
            self.bytes[small..small + scheme].make_ascii_lowercase();
            self.item(AUTHORIZATION, small, Reading::Further);
        }
    }

    fn read_query(&mut self, target: &[u8], names: &Names) {
        let end = target.iter().position(|&byte| byte == b'#').unwrap_or(target.len());
        let Some(mark) = target[..end].iter().position(|&byte| byte == b'?') else { return };
        for pair in target[mark + 1..end].split(|&byte| byte == b'&') {
            let equals = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
            let begin = self.bytes.len();
            self.bytes.extend_from_slice(&pair[..equals]);
            respell(&mut self.bytes, begin, decode_form);
            let name = names.queries.get(&self.bytes[begin..]).copied();
            self.bytes.truncate(begin);
            if let Some(name) = name {
                self.bytes.extend_from_slice(pair.get(equals + 1..).unwrap_or_default());
                respell(&mut self.bytes, begin, decode_form);
                self.item(name, begin, Reading::Only);
            }
        }
    }

    fn read_cookies(&mut self, line: &[u8], names: &Names) {
        for pair in line.split(|&byte| byte == b';').map(<[u8]>::trim_ascii) {
            let Some(equals) = pair.iter().position(|&byte| byte == b'=') else { continue };
            if let Some(&name) = names.cookies.get(pair[..equals].trim_ascii_end()) {
                self.read_cookie(name, pair[equals + 1..].trim_ascii_start());
            }
        }
    }

    /// Reads a cookie as it was sent, and as servers read it that unquote or decode it.
    fn read_cookie(&mut self, name: u32, value: &[u8]) {
        // Only Rack reads a `+` as a blank. It is in many a token, which frees as it was sent.
        const READINGS: [(&[Spelling], Reading); 4] = [
            (&[unquote], Reading::First),
            (&[decode], Reading::First),
            (&[unquote, decode], Reading::First),
            (&[decode_form], Reading::Only),
        ];
        let (begin, first) = (self.bytes.len(), self.items.len());
        let is_plain = value.first() != Some(&b'"') && !value.iter().any(|byte| b"%+".contains(byte));
        // Decoded, a long one may be short.
        let most = if is_plain { MAX_VALUE + 1 } else { value.len() };
        self.bytes.extend_from_slice(&value[..value.len().min(most)]);
        self.item(name, begin, Reading::Only);
        for (spellings, sent) in READINGS.iter().filter(|_| !is_plain) {
            let begin = self.bytes.len();
            self.bytes.extend_from_slice(value);
            spellings.iter().for_each(|spelling| respell(&mut self.bytes, begin, *spelling));
            let is_this = |item: &Item| self.bytes[item.begin..item.end] == self.bytes[begin..];
            if self.items[first..].iter().any(is_this) {
                self.bytes.truncate(begin);
                continue;
            }
            self.item(name, begin, Reading::Further);
            if *sent == Reading::First {
                self.items[first].reading = Reading::First;
            }
        }
    }
}

/// A request that was read.
pub(crate) struct Seen<'r> {
    request: &'r dyn Request,
    buffers: &'r Buffers,
    /// The client's address, once a rule looks at it: many rules do not.
    client: OnceCell<Option<IpAddr>>,
    /// The form of paths that conditions see which restrict.
    pub(crate) form: Form,
    /// The bits of an IPv6 address that make one client.
    pub(crate) ipv6_prefix: u8,
}

impl<'r> Seen<'r> {
    pub(crate) fn new(request: &'r dyn Request, buffers: &'r Buffers, form: Form, ipv6_prefix: u8) -> Self {
        Self { request, buffers, client: OnceCell::new(), form, ipv6_prefix }
    }

    /// The client's address in canonical form.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        *self.client.get_or_init(|| self.request.client().map(canonical))
    }

    /// Returns the readings of the path; none of a request without one.
    pub(crate) fn readings(&self) -> &'r [PathReading] {
        &self.buffers.readings
    }

    /// Returns whether the path may have other readings: any pattern that restricts fits.
    pub(crate) fn has_more_readings(&self) -> bool {
        self.buffers.has_more_readings
    }

    /// Returns whether a source may have other values: any condition that restricts fits.
    pub(crate) fn may_be_any(&self, source: &Source) -> bool {
        *source == Source::Read(HOST) && self.buffers.has_any_host
    }

    /// Returns the bytes at a place of a reading.
    pub(crate) fn bytes(&self, range: &Range<usize>) -> &'r [u8] {
        &self.buffers.bytes[range.clone()]
    }

    /// Returns the path of a reading as conditions compare it that restrict, without its first
    /// slash.
    pub(crate) fn path(&self, reading: &PathReading) -> &'r [u8] {
        let path = self.bytes(if self.form == Form::Folded { &reading.lower } else { &reading.exact });
        path.strip_prefix(b"/").unwrap_or(path)
    }

    /// Calls `see` with each value of a source. Paths, clients, routes and captures are asked
    /// otherwise.
    pub(crate) fn values(&self, source: &Source, see: &mut dyn FnMut(&[u8], Reading)) {
        let field = match source {
            Source::Read(name) => {
                let items = self.buffers.items.iter().filter(|item| item.name == *name);
                return items.for_each(|item| see(&self.buffers.bytes[item.begin..item.end], item.reading));
            }
            Source::Header(name) => {
                // Few names can be misspelled.
                if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    self.request.values(Field::Misspelled(name), &mut |value| see(value, Reading::First));
                }
                Field::Header(name)
            }
            Source::Label(name) => Field::Label(name),
            Source::Entry(name) => Field::Entry(name),
            Source::Domain => Field::Domain,
            Source::Path | Source::Client | Source::Route | Source::Capture(_) => return,
        };
        self.request.values(field, &mut |value| see(value, Reading::Only));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlainRequest;

    /// Returns the values of a source. A star stands behind those that relax nothing, a wave behind
    /// those that no key has.
    fn values(request: &PlainRequest, names: &Names, source: Source) -> Vec<String> {
        let (mut buffers, mut names) = (Buffers::default(), names.clone());
        names.want(&source);
        buffers.read(request, &names);
        let mut values = Vec::new();
        Seen::new(request, &buffers, Form::Folded, 64).values(&source, &mut |value, reading| {
            let mark = match reading {
                Reading::Only => "",
                Reading::First => "*",
                Reading::Further => "~",
            };
            values.push(String::from_utf8_lossy(value).into_owned() + mark);
        });
        values
    }

    #[test]
    fn parameters_are_decoded_and_counted() {
        let mut names = Names::default();
        let (q, r, plus) = (names.query("q"), names.query("r"), names.query("a b"));
        assert_eq!(names.query("q"), q, "one number for a name");
        let request = PlainRequest {
            target: Some(b"/x?q=%41+b&r&q=&Q=no&%71=%zz&a+b=1&&=#q=no".to_vec()),
            ..PlainRequest::default()
        };
        let values = |number| values(&request, &names, Source::Read(number));
        assert_eq!(values(q), ["A b", "", "%zz"]);
        assert_eq!((values(r), values(plus)), (vec![String::new()], vec!["1".into()]));
        assert!(values(names.queries.len() as u32 + 9).is_empty());
    }

    #[test]
    fn cookies_of_several_lines_are_read() {
        let mut names = Names::default();
        let (a, b) = (names.cookie("a"), names.cookie("b"));
        let line = |text: &str| ("Cookie".to_owned(), text.as_bytes().to_vec());
        let request = PlainRequest {
            headers: vec![line(" a = 1 ; b=x=y;c"), line("a=2; A=3;;=4")],
            ..PlainRequest::default()
        };
        assert_eq!(values(&request, &names, Source::Read(a)), ["1", "2"]);
        assert_eq!(values(&request, &names, Source::Read(b)), ["x=y"]);
    }

    #[test]
    fn hosts_lose_port_dot_and_user() {
        for (host, read) in [
            ("A.test.:80", "a.test"),
            ("[::1]:80", "[::1]"),
            ("u:p@a.test:80", "a.test*"),
            ("[A.test]", "a.test*"),
            (":80", "*"),
            ("", ""),
        ] {
            let request = PlainRequest { host: Some(host.into()), ..PlainRequest::default() };
            assert_eq!(values(&request, &Names::default(), Source::Read(HOST)), [read], "{host}");
        }
        let target = Some(b"https://B.test:1/x".to_vec());
        let request = PlainRequest { host: Some("a.test".into()), target, ..PlainRequest::default() };
        assert_eq!(values(&request, &Names::default(), Source::Read(HOST)), ["a.test", "b.test"]);
    }

    #[test]
    fn what_no_rule_looks_at_is_not_read() {
        let target = Some(b"https://b.test/x?q=1".to_vec());
        let request = PlainRequest { host: Some("a.test".into()), target, ..PlainRequest::default() };
        let mut buffers = Buffers::default();
        buffers.read(&request, &Names::default());
        assert!(buffers.bytes.is_empty() && buffers.readings.is_empty() && buffers.items.is_empty());
        let mut names = Names::default();
        names.want(&Source::Read(HOST));
        buffers.read(&request, &names);
        assert_eq!((buffers.items.len(), buffers.readings.len()), (2, 0), "both hosts and no path");
    }

    #[test]
    fn cookies_are_read_as_servers_read_them() {
        let mut names = Names::default();
        let cookie = names.cookie("s");
        let read = |value: &str| {
            let headers = vec![("cookie".to_owned(), format!("s={value}; t=1").into_bytes())];
            let request = PlainRequest { headers, ..PlainRequest::default() };
            values(&request, &names, Source::Read(cookie))
        };
        assert_eq!(read("abc"), ["abc"]);
        assert_eq!(read("a+b"), ["a+b", "a b~"], "it frees as it was sent");
        assert_eq!(read("%61"), ["%61*", "a~"]);
        assert_eq!(read(r#""%61\142""#), [r#""%61\142"*"#, "%61b~", r#""a\142"~"#, "ab~"]);
        assert_eq!(read("%"), ["%"]);
    }

    #[test]
    fn credentials_are_read_in_one_spelling_and_as_sent() {
        let read = |value: &str| {
            let headers = vec![("Authorization".to_owned(), value.as_bytes().to_vec())];
            let request = PlainRequest { headers, ..PlainRequest::default() };
            values(&request, &Names::default(), Source::Read(AUTHORIZATION))
        };
        assert_eq!(read("Bearer t"), ["Bearer t", "bearer t~"]);
        assert_eq!(read("bEARER  t"), ["Bearer t", "bEARER  t~", "bearer t~"]);
        assert_eq!(read("secret"), ["secret"]);
    }

    #[test]
    fn methods_are_exact_in_upper_case_only() {
        let method = |method: &str| {
            let request = PlainRequest { method: Some(method.into()), ..PlainRequest::default() };
            values(&request, &Names::default(), Source::Read(METHOD)).concat()
        };
        assert_eq!((method("GET"), method("get")), ("GET".into(), "GET*".into()));
    }

    #[test]
    fn buffers_that_grew_for_one_request_are_given_back() {
        let mut names = Names::default();
        names.query("q");
        names.want(&Source::Path);
        let mut target = b"/%41".repeat(100_000);
        target.push(b'?');
        target.extend(b"q=1&".repeat(100_000));
        let long = PlainRequest { target: Some(target), ..PlainRequest::default() };
        let mut buffers = Buffers::default();
        buffers.read(&long, &names);
        assert!(buffers.bytes.capacity() > 2 * KEPT && buffers.items.len() == 100_000);
        buffers.read(&PlainRequest::default(), &names);
        assert!(buffers.bytes.capacity() <= KEPT && buffers.items.capacity() * size_of::<Item>() <= KEPT);
    }
}
