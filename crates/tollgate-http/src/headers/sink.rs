//! Where the headers of limits are written: into a response, or into the JSON of an answer.

use std::borrow::Cow;
use std::ops::Range;

use bytes::BytesMut;
use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::value_buffers::write_value;

/// Takes headers: the [`HeaderMap`] of a response, [`HeaderJson`], or both as a pair.
///
/// Sealed: a [`ValueText`] is written in this crate only.
pub trait HeaderSink: sealed::Sealed {
    /// Returns whether there is a header of this name.
    fn has(&self, name: &HeaderName) -> bool;

    /// Adds a header whose value `write` writes. Returns whether it was added: not if there is one
    /// of this name, nor without a value.
    fn add(&mut self, name: HeaderName, write: impl Fn(&mut ValueText<'_>)) -> bool;

    /// Adds a header unless there is one of this name. Returns whether it was added.
    fn add_value(&mut self, name: HeaderName, value: HeaderValue) -> bool;

    /// Adds a header in place of one of the same name.
    fn set_value(&mut self, name: HeaderName, value: HeaderValue);

    /// Removes a header. The last one takes its place.
    fn remove(&mut self, name: &HeaderName);

    /// Returns the names of headers that were there before any was added, as far as `is_meant`
    /// holds of them.
    fn names(&self, is_meant: fn(&HeaderName) -> bool) -> Vec<HeaderName>;

    /// Calls `see` with each value of a header that was there before any was added.
    fn read(&self, name: &HeaderName, see: &mut dyn FnMut(&[u8]));
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for HeaderMap {}
impl sealed::Sealed for HeaderJson {}
impl sealed::Sealed for (&mut HeaderMap, &mut HeaderJson) {}

/// The value of a header, while it is written: as that of a header, as a text of JSON, where quotes
/// are escaped, or as both.
pub struct ValueText<'t> {
    header: Option<&'t mut BytesMut>,
    json: Option<&'t mut BytesMut>,
}

/// The value of a header that is written again and again.
#[derive(Debug, Default)]
pub(crate) struct KnownText {
    header: BytesMut,
    json: BytesMut,
}

/// Headers as the members of a JSON object: names with texts.
///
/// # Examples
///
/// ```
/// use http::HeaderValue;
/// use http::header::RETRY_AFTER;
/// use tollgate_http::{HeaderJson, HeaderSink};
///
/// let mut headers = HeaderJson::default();
/// headers.add_value(RETRY_AFTER, HeaderValue::from_static("3"));
/// let mut object = Vec::new();
/// headers.write_object(&mut object);
/// assert_eq!(object, br#"{"retry-after":"3"}"#);
/// ```
#[derive(Debug, Default)]
pub struct HeaderJson {
    /// The members, each complete.
    text: BytesMut,
    members: Vec<(HeaderName, Range<usize>)>,
}

impl<'t> ValueText<'t> {
    /// The text of a header.
    pub(super) fn of_header(header: &'t mut BytesMut) -> Self {
        Self { header: Some(header), json: None }
    }

    /// The text of a header in JSON.
    fn of_json(json: &'t mut BytesMut) -> Self {
        Self { header: None, json: Some(json) }
    }

    /// Both texts.
    fn of_both(header: &'t mut BytesMut, json: &'t mut BytesMut) -> Self {
        Self { header: Some(header), json: Some(json) }
    }

    #[inline]
    fn push(&mut self, header: &[u8], json: &[u8]) {
        if let Some(text) = &mut self.header {
            text.extend_from_slice(header);
        }
        if let Some(text) = &mut self.json {
            text.extend_from_slice(json);
        }
    }

    /// Writes text without quotes, backslashes and control characters.
    #[inline]
    pub(super) fn plain(&mut self, text: &[u8]) {
        self.push(text, text);
    }

    /// Writes such text between quotes.
    #[inline]
    pub(super) fn quoted(&mut self, text: &[u8]) {
        self.push(b"\"", b"\\\"");
        self.plain(text);
        self.push(b"\"", b"\\\"");
    }

    /// Writes a text that is known.
    #[inline]
    pub(super) fn known(&mut self, text: &KnownText) {
        self.push(&text.header, &text.json);
    }

    /// Writes a list.
    #[inline]
    pub(super) fn list<T>(&mut self, items: impl Iterator<Item = T>, write: impl Fn(T, &mut Self)) {
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.plain(b", ");
            }
            write(item, self);
        }
    }

    /// Writes a number.
    #[inline]
    pub(super) fn number(&mut self, number: u64) {
        self.plain(itoa::Buffer::new().format(number).as_bytes());
    }
}

#[cfg(feature = "rules")]
impl KnownText {
    /// What `write` writes.
    pub(crate) fn new(write: impl Fn(&mut ValueText<'_>)) -> Self {
        let mut known = Self::default();
        write(&mut ValueText::of_header(&mut known.header));
        write(&mut ValueText::of_json(&mut known.json));
        known
    }
}

impl HeaderSink for HeaderMap {
    fn has(&self, name: &HeaderName) -> bool {
        self.contains_key(name)
    }

    fn add(&mut self, name: HeaderName, write: impl Fn(&mut ValueText<'_>)) -> bool {
        let value = write_value(|text| write(&mut ValueText::of_header(text)));
        value.is_some_and(|value| self.add_value(name, value))
    }

    fn add_value(&mut self, name: HeaderName, value: HeaderValue) -> bool {
        // Both fail if the inner service has used up all 32,768 headers. Then it is left out.
        match self.try_entry(name) {
            Ok(Entry::Vacant(vacant)) => vacant.try_insert(value).is_ok(),
            _ => false,
        }
    }

    fn set_value(&mut self, name: HeaderName, value: HeaderValue) {
        self.insert(name, value);
    }

    fn remove(&mut self, name: &HeaderName) {
        Self::remove(self, name);
    }

    fn names(&self, is_meant: fn(&HeaderName) -> bool) -> Vec<HeaderName> {
        // Allocates nothing if there is none.
        self.keys().filter(|name| is_meant(name)).cloned().collect()
    }

    fn read(&self, name: &HeaderName, see: &mut dyn FnMut(&[u8])) {
        self.get_all(name).iter().for_each(|value| see(value.as_bytes()));
    }
}

impl HeaderJson {
    /// Removes all headers, and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.members.clear();
    }

    /// Appends the object.
    pub fn write_object(&self, json: &mut Vec<u8>) {
        json.push(b'{');
        for (index, (_, member)) in self.members.iter().enumerate() {
            if index > 0 {
                json.push(b',');
            }
            json.extend_from_slice(&self.text[member.clone()]);
        }
        json.push(b'}');
    }

    fn position(&self, name: &HeaderName) -> Option<usize> {
        self.members.iter().position(|(own, _)| own == name)
    }

    /// Writes a member.
    fn member(&mut self, name: &HeaderName, write: impl FnOnce(&mut BytesMut)) -> Range<usize> {
        let begin = self.text.len();
        // Names are lower-case tokens: nothing of them is escaped.
        self.text.extend_from_slice(b"\"");
        self.text.extend_from_slice(name.as_str().as_bytes());
        self.text.extend_from_slice(b"\":\"");
        write(&mut self.text);
        self.text.extend_from_slice(b"\"");
        begin..self.text.len()
    }
}

impl HeaderSink for HeaderJson {
    fn has(&self, name: &HeaderName) -> bool {
        self.position(name).is_some()
    }

    fn add(&mut self, name: HeaderName, write: impl Fn(&mut ValueText<'_>)) -> bool {
        if self.has(&name) {
            return false;
        }
        let mut is_empty = false;
        let member = self.member(&name, |text| {
            let begin = text.len();
            write(&mut ValueText::of_json(text));
            is_empty = text.len() == begin;
        });
        if !is_empty {
            self.members.push((name, member));
        }
        !is_empty
    }

    fn add_value(&mut self, name: HeaderName, value: HeaderValue) -> bool {
        let is_new = !self.has(&name);
        if is_new {
            self.set_value(name, value);
        }
        is_new
    }

    fn set_value(&mut self, name: HeaderName, value: HeaderValue) {
        let member = self.member(&name, |text| push_escaped(text, value.as_bytes()));
        match self.position(&name) {
            Some(place) => self.members[place].1 = member,
            None => self.members.push((name, member)),
        }
    }

    fn remove(&mut self, name: &HeaderName) {
        if let Some(place) = self.position(name) {
            self.members.swap_remove(place);
        }
    }

    fn names(&self, _: fn(&HeaderName) -> bool) -> Vec<HeaderName> {
        Vec::new()
    }

    fn read(&self, _: &HeaderName, _: &mut dyn FnMut(&[u8])) {}
}

/// Adds each header to both.
impl HeaderSink for (&mut HeaderMap, &mut HeaderJson) {
    fn has(&self, name: &HeaderName) -> bool {
        HeaderSink::has(self.0, name)
    }

    fn add(&mut self, name: HeaderName, write: impl Fn(&mut ValueText<'_>)) -> bool {
        if self.has(&name) {
            return false;
        }
        let (map, json) = self;
        let begin = json.text.len();
        // Once for both: to work out the numbers' digits takes longer than to copy them.
        let mut member = begin..begin;
        let value = write_value(|header| {
            member = json.member(&name, |json| write(&mut ValueText::of_both(header, json)));
        });
        let is_added = value.is_some_and(|value| map.add_value(name.clone(), value));
        if is_added {
            json.members.push((name, member));
        }
        is_added
    }

    fn add_value(&mut self, name: HeaderName, value: HeaderValue) -> bool {
        self.0.add_value(name.clone(), value.clone()) && self.1.add_value(name, value)
    }

    fn set_value(&mut self, name: HeaderName, value: HeaderValue) {
        self.0.set_value(name.clone(), value.clone());
        self.1.set_value(name, value);
    }

    fn remove(&mut self, name: &HeaderName) {
        self.0.remove(name);
        self.1.remove(name);
    }

    fn names(&self, is_meant: fn(&HeaderName) -> bool) -> Vec<HeaderName> {
        self.0.names(is_meant)
    }

    fn read(&self, name: &HeaderName, see: &mut dyn FnMut(&[u8])) {
        self.0.read(name, see);
    }
}

/// Which bytes of a value are escaped.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    (escaped[b'"' as usize], escaped[b'\\' as usize], escaped[b'\t' as usize]) = (true, true, true);
    escaped
};

/// Appends a value as JSON writes it.
fn push_escaped(text: &mut BytesMut, value: &[u8]) {
    let value = if value.is_ascii() { Cow::Borrowed(value) } else { lossy(value) };
    let mut rest = &*value;
    // A value has no control character but the tab.
    while let Some(place) = rest.iter().position(|byte| ESCAPED[usize::from(*byte)]) {
        let (plain, special) = rest.split_at(place);
        text.extend_from_slice(plain);
        text.extend_from_slice(b"\\");
        text.extend_from_slice(if special[0] == b'\t' { b"t" } else { &special[..1] });
        rest = &special[1..];
    }
    text.extend_from_slice(rest);
}

#[cold]
fn lossy(value: &[u8]) -> Cow<'_, [u8]> {
    match String::from_utf8_lossy(value) {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use http::header::{AGE, ALLOW, DATE};

    use super::*;

    fn object(headers: &HeaderJson) -> String {
        let mut json = Vec::new();
        headers.write_object(&mut json);
        String::from_utf8(json).unwrap()
    }

    /// The members of a map, in its order, with their values as they are.
    fn members(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
    }

    #[test]
    fn json_takes_headers_as_a_map_does() {
        fn write(headers: &mut impl HeaderSink) -> [bool; 6] {
            let value = HeaderValue::from_static;
            headers.set_value(ALLOW, value("b"));
            let added = [
                headers.add_value(DATE, value("d")),
                headers.add_value(DATE, value("e")),
                headers.add(AGE, |text| text.number(7)),
                headers.add(AGE, |text| text.number(8)),
                headers.add(RATE, |text| text.quoted(b"x")),
                headers.add(NONE, |_| {}),
            ];
            headers.set_value(DATE, value(""));
            headers.remove(&ALLOW);
            added
        }
        const RATE: HeaderName = HeaderName::from_static("ratelimit");
        const NONE: HeaderName = HeaderName::from_static("x-none");
        let (mut json, mut map) = (HeaderJson::default(), HeaderMap::new());
        assert_eq!(write(&mut (&mut map, &mut json)), [true, false, true, false, true, false]);
        assert_eq!(members(&map), [("ratelimit", &b"\"x\""[..]), ("date", b""), ("age", b"7")]);
        assert_eq!(object(&json), r#"{"ratelimit":"\"x\"","date":"","age":"7"}"#);
        let mut alone = HeaderJson::default();
        assert_eq!(write(&mut alone), write(&mut HeaderMap::new()));
        assert_eq!(object(&alone), object(&json));
    }

    #[test]
    fn values_are_escaped_as_json_writes_them() {
        for (value, text) in [
            (&b"\"a\" \\ b\tc"[..], r#"\"a\" \\ b\tc"#),
            (b"\\\"", r#"\\\""#),
            ("\u{e9}\"".as_bytes(), "\u{e9}\\\""),
            (b"a\xff\"", "a\u{fffd}\\\""),
        ] {
            let mut json = HeaderJson::default();
            json.add_value(ALLOW, HeaderValue::from_bytes(value).unwrap());
            assert_eq!(object(&json), format!("{{\"allow\":\"{text}\"}}"));
        }
    }
}
