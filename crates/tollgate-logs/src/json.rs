//! JSON lines: one object a line, of which only the wanted fields are read.
//!
//! A name with a point is the name of a field (`id.orig_h`) or, if there is none, the path to a
//! nested field (`request.client_ip`). The text of a number is kept as written: a float would lose
//! digits of a time.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_core::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::batch::Batch;
use crate::error::Problem;
use crate::fields::{self, Fields, Parts};
use crate::lines;
use crate::malformed::Refusal;
use crate::options::Options;
use crate::parts::{self, PartsOfFile};

/// How many lines are searched for the names of fields.
const SAMPLE: usize = 100;

/// Reads the lines of a JSON log.
#[derive(Debug)]
pub(crate) struct Parser {
    names: Parts<String>,
    /// The fields of the wanted parts, in groups that are looked for at once.
    parts: Vec<[Option<String>; GROUP]>,
    file: Arc<PartsOfFile>,
    fields: Fields,
}

/// How many wanted parts are looked for in one pass over a line.
const GROUP: usize = 12;

impl Parser {
    /// A field that an option names need not be in the sample: it may be rare.
    pub(crate) fn new(file: &str, options: &Options, sample: &[u8]) -> Result<Self, Problem> {
        let known = names(sample);
        let names = fields::choose(file, options, &known)?;
        let wanted = fields::choose_parts(options, &known);
        let group = |names: &[Option<String>]| std::array::from_fn(|at| names.get(at).cloned().flatten());
        let parts = wanted.chunks(GROUP).map(group).collect();
        let time = names[fields::TIME].as_deref().unwrap_or_default();
        let fields = Fields::new(options, time);
        let times = fields::request_times(options, &known, time, &wanted);
        let file_parts = PartsOfFile::without_durations(wanted.iter().map(|_| true).collect());
        let mut parser = Self { names, parts, file: file_parts, fields };
        let lines = lines::split(sample);
        let push = |line: &[u8], batch: &mut Batch| parser.push_parts(line, batch);
        parser.file = parts::of_file(file, &options.wanted, times, lines, push)?;
        Ok(parser)
    }

    /// Reads a block of whole lines.
    pub(crate) fn block(&self, text: &[u8], batch: &mut Batch) {
        let [_, _, _, cost] = &self.names;
        let names = self.names.each_ref().map(Option::as_deref);
        batch.begin_parts(&self.file);
        lines::parse_each(text, batch, |line, batch| {
            let texts = texts(line, names)?;
            // Before the record: a line whose parts cannot be read is none.
            self.push_parts(line, batch)?;
            self.fields.record(&texts, cost.is_some(), batch)
        });
    }
}

impl Parser {
    /// Appends the texts of the wanted parts.
    fn push_parts(&self, line: &[u8], batch: &mut Batch) -> Result<(), Refusal> {
        let mut left = self.file.found.len();
        for names in &self.parts {
            let values = values(line, names.each_ref().map(Option::as_deref))?;
            for value in &values[..left.min(GROUP)] {
                batch.push_part(&value.map(part_of).unwrap_or_default());
            }
            left = left.saturating_sub(GROUP);
        }
        Ok(())
    }
}

/// A value as a part of a request: a text, a number, or several texts with line feeds between them,
/// as Caddy writes headers. Empty for anything else.
fn part_of(value: &RawValue) -> Cow<'_, [u8]> {
    match value.get().as_bytes() {
        [b'[', ..] => {
            let texts = serde_json::from_str::<Vec<String>>(value.get()).unwrap_or_default();
            Cow::Owned(texts.join("\n").into_bytes())
        }
        _ => text_of(value).ok().flatten().unwrap_or_default(),
    }
}

/// The names of the fields in the first objects of a text, nested ones by their path.
fn names(sample: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for line in lines::split(sample).take(SAMPLE) {
        let Ok(object) = serde_json::from_slice::<serde_json::Map<_, _>>(line) else { continue };
        for (name, value) in object {
            match value {
                serde_json::Value::Object(inner) => inner.keys().for_each(|key| add(format!("{name}.{key}"))),
                _ => add(name),
            }
        }
    }
    names
}

/// The texts of the named fields of the object in a line.
pub(crate) fn texts<'a, const N: usize>(
    line: &'a [u8],
    names: [Option<&str>; N],
) -> Result<[Option<Cow<'a, [u8]>>; N], Refusal> {
    let mut texts = [const { None }; N];
    for (text, value) in texts.iter_mut().zip(values(line, names)?) {
        *text = value.map(text_of).transpose()?.flatten();
    }
    Ok(texts)
}

fn values<'a, const N: usize>(
    line: &'a [u8],
    names: [Option<&str>; N],
) -> Result<[Option<&'a RawValue>; N], Refusal> {
    let mut input = serde_json::Deserializer::from_slice(line);
    let mut found = Wanted { names }.deserialize(&mut input).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => "not a JSON object, or not in UTF-8",
        serde_json::error::Category::Eof => "the JSON object ends early",
        _ => "not a JSON object",
    })?;
    input.end().map_err(|_| "more than one JSON value in the line")?;

    for (at, name) in names.iter().enumerate() {
        let (None, Some(outer)) = (found.whole[at], found.outer[at]) else { continue };
        let inner = name.and_then(|name| name.split_once('.')).map(|(_, inner)| inner);
        let mut names = [None; N];
        names[at] = inner;
        if outer.get().starts_with('{') {
            found.whole[at] = values(outer.get().as_bytes(), names)?[at];
        }
    }
    Ok(found.whole)
}

/// A value as the text of a key, a time or a cost; `None` for `null`.
fn text_of(value: &RawValue) -> Result<Option<Cow<'_, [u8]>>, Refusal> {
    let text = value.get();
    match text.as_bytes() {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => Ok(Some(Cow::Borrowed(inner))),
        [b'"', ..] => match serde_json::from_str::<String>(text) {
            Ok(unescaped) => Ok(Some(Cow::Owned(unescaped.into_bytes()))),
            Err(_) => Err("a string with a broken escape"),
        },
        [b'{' | b'[', ..] => Err("a field that should hold a text or a number holds more"),
        b"null" => Ok(None),
        plain => Ok(Some(Cow::Borrowed(plain))),
    }
}

/// Reads an object and keeps the values of some fields; the others are skipped without building
/// them.
struct Wanted<'n, const N: usize> {
    names: [Option<&'n str>; N],
}

/// The values of each wanted name.
struct Found<'a, const N: usize> {
    /// The field with this very name.
    whole: [Option<&'a RawValue>; N],
    /// The field with the part of the name before the first point.
    outer: [Option<&'a RawValue>; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Wanted<'_, N> {
    type Value = Found<'de, N>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Wanted<'_, N> {
    type Value = Found<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Found { whole: [None; N], outer: [None; N] };
        while let Some(matches) = map.next_key_seed(Name { wanted: self.names })? {
            if matches == [Match::No; N] {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<&'de RawValue>()?;
            for (at, how) in matches.into_iter().enumerate() {
                match how {
                    Match::Whole => found.whole[at] = Some(value),
                    Match::Outer => found.outer[at] = Some(value),
                    Match::No => {}
                }
            }
        }
        Ok(found)
    }
}

/// How a field's name matches a wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    No,
    Whole,
    Outer,
}

/// Compares a field's name with the wanted ones without copying it.
struct Name<'n, const N: usize> {
    wanted: [Option<&'n str>; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Name<'_, N> {
    type Value = [Match; N];

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<[Match; N], D::Error> {
        input.deserialize_str(self)
    }
}

impl<const N: usize> Visitor<'_> for Name<'_, N> {
    type Value = [Match; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<[Match; N], E> {
        Ok(self.wanted.map(|wanted| match wanted.and_then(|wanted| wanted.strip_prefix(name)) {
            Some("") => Match::Whole,
            Some(rest) if rest.starts_with('.') => Match::Outer,
            _ => Match::No,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{keys_of, options, outcome};
    use crate::{KeyBy, Malformed};

    fn named(time: &str, key: &str) -> Options {
        Options { time_field: Some(time.to_owned()), key_field: Some(key.to_owned()), ..options() }
    }

    fn parse(options: &Options, text: &str) -> Batch {
        let mut batch = Batch::default();
        Parser::new("f.json", options, text.as_bytes()).expect("fields").block(text.as_bytes(), &mut batch);
        batch
    }

    fn refusal(line: &str) -> Option<Refusal> {
        parse(&named("ts", "ip"), line).samples.first().map(|sample: &Malformed| sample.reason)
    }

    #[test]
    fn a_line_whose_parts_cannot_be_read_is_no_record() {
        let wanted = vec![parts::Wanted { part: parts::Part::Method, field: None, unit: None }];
        let mut batch = Batch::default();
        let sample = br#"{"ts":1,"ip":"a","method":"GET"}"#;
        let parser = Parser::new("f.json", &Options { wanted, ..options() }, sample).expect("fields");
        parser.block(
            b"{\"ts\":1,\"ip\":\"a\",\"method\":\"\xff\"}\n{\"ts\":2,\"ip\":\"b\",\"method\":\"PUT\"}\n",
            &mut batch,
        );
        assert_eq!((batch.len(), batch.malformed), (1, 1));
        assert_eq!((keys_of(&batch), batch.parts(0).get(0)), (vec!["b".to_owned()], &b"PUT"[..]));
    }

    #[test]
    fn times_keep_the_digits_that_a_float_would_lose() {
        let text = r#"{"ts":1761019822.123456789,"ip":"a"}"#;
        let records = outcome(|batch| *batch = parse(&options(), text));
        assert_eq!(records[0].t_ns, 1_761_019_822_123_456_789);
    }

    #[test]
    fn a_field_is_found_by_name_or_by_path() {
        let text = r#"{"request":{"client_ip":"2001:db8::1","tls":{"sni":"x"}},"id.orig_h":"b","id":{"orig_h":"c"},"ts":1}"#;
        assert_eq!(keys_of(&parse(&named("ts", "request.client_ip"), text)), ["2001:db8::/64"]);
        assert_eq!(keys_of(&parse(&named("ts", "request.tls.sni"), text)), ["x"]);
        assert_eq!(
            keys_of(&parse(&named("ts", "id.orig_h"), text)),
            ["b"],
            "the field with this very name wins"
        );
        assert_eq!(keys_of(&parse(&named("ts", "request.absent"), text)), ["-"]);
        assert_eq!(keys_of(&parse(&named("ts", "ts.absent"), text)), ["-"]);
    }

    #[test]
    fn guesses_see_nested_fields_and_later_lines() {
        let text = "{\"ts\":1,\"msg\":\"starting\"}\n{\"ts\":2,\"request\":{\"remote_ip\":\"192.0.2.7\"}}\n";
        assert_eq!(keys_of(&parse(&options(), text)), ["-", "192.0.2.7"]);
        assert_eq!(parse(&options(), text).without_key, 1);
    }

    #[test]
    fn any_plain_value_is_a_key_and_escapes_are_undone() {
        for (value, key) in [
            (r#""a\"b""#, "a\"b"),
            (r#""\u00e9""#, "é"),
            ("17", "17"),
            ("true", "true"),
            ("null", "-"),
            (r#""""#, "-"),
        ] {
            let options = Options { key: KeyBy::Field("k".to_owned()), ..options() };
            let text = format!(r#"{{"k":{value},"t":1}}"#);
            assert_eq!(keys_of(&parse(&options, &text)), [key], "{value}");
        }
    }

    #[test]
    fn two_parts_may_share_a_field() {
        let options = Options { cost_field: Some("n".to_owned()), ..named("n", "n") };
        let records = outcome(|batch| *batch = parse(&options, r#"{"n":"7"}"#));
        assert_eq!((records[0].t_ns, records[0].key.as_str(), records[0].cost), (7_000_000_000, "7", 7));
    }

    #[test]
    fn a_broken_object_is_refused_with_its_reason() {
        for (line, reason) in [
            (r#"{"ts":1,"ip":"a""#, "the JSON object ends early"),
            (r#"{"ts":1,"ip":"a"} x"#, "more than one JSON value in the line"),
            (r#"caddy | {"ts":1}"#, "not a JSON object"),
            (r#"[1]"#, "not a JSON object, or not in UTF-8"),
            (r#"{"ip":"a"}"#, "the time is missing"),
            (r#"{"ts":1,"ip":["a"]}"#, "a field that should hold a text or a number holds more"),
            (r#"{"ts":1,"ip":"\ud800"}"#, "a string with a broken escape"),
        ] {
            assert_eq!(refusal(line), Some(reason), "{line}");
        }
        assert_eq!(refusal(r#"{"ts":1,"ip":"a"} "#), None);
    }
}
