//! Access logs of Apache and nginx: common log format and combined, with anything after the known
//! fields.
//!
//! ```text
//!   192.0.2.7 - ann lee [20/Feb/2016:00:00:45 -0500] "GET /a HTTP/1.1" 200 187 "-" "Mozilla/5.0" x
//!   client    | user    time                          request          |   |   |   agent     extra
//!             ident                                               status bytes referer
//! ```
//!
//! The parser first finds the time: 26 bytes of fixed shape between brackets. When the ident is
//! `-`, as nearly always, the user's name may hold spaces. Otherwise a fourth word before the time
//! is a prefix (a virtual host, a syslog header), and the line is refused rather than counted under
//! the wrong client. The request may hold anything; it ends at the first quote before a status.

use std::sync::Arc;

use memchr::{memchr, memchr_iter};

use crate::batch::{Batch, Op};
use crate::durations::{RequestTimes, TimeIs};
use crate::error::Problem;
use crate::extra::{self, Extra};
use crate::fields;
use crate::key::{KeyBy, KeyWriter};
use crate::lines;
use crate::malformed::Refusal;
use crate::options::Options;
use crate::parts::{self, Part, PartsOfFile, Wanted};
use crate::time::{self, ClfTimes, Unit};

/// The length of `20/Feb/2016:00:00:45 -0500`.
const TIME: usize = 26;

/// A named field of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Client,
    Ident,
    User,
    Request,
    Method,
    Target,
    Protocol,
    Status,
    Bytes,
    Referer,
    Agent,
    /// A text behind them.
    Extra(Extra),
}

/// The fields by the names that `--key field:NAME`, `--cost-field NAME` and `--map` use. What
/// follows them is `extra.1` or `extra.NAME`.
static FIELDS: [(&str, Field); 11] = [
    ("client", Field::Client),
    ("ident", Field::Ident),
    ("user", Field::User),
    ("request", Field::Request),
    ("method", Field::Method),
    ("path", Field::Target),
    ("protocol", Field::Protocol),
    ("status", Field::Status),
    ("bytes", Field::Bytes),
    ("referer", Field::Referer),
    ("agent", Field::Agent),
];

/// Reads the lines of an access log.
#[derive(Debug)]
pub(crate) struct Parser {
    key_writer: KeyWriter,
    key: Field,
    cost: Option<Field>,
    /// The fields of the wanted parts.
    parts: Vec<Option<Field>>,
    file: Arc<PartsOfFile>,
    /// Whether referer and user agent must be there.
    combined: bool,
}

impl Parser {
    pub(crate) fn new(file: &str, options: &Options, combined: bool, sample: &[u8]) -> Result<Self, Problem> {
        if options.time_field.is_some() {
            let (option, format) = ("--time-field", "an access log, which has its time in brackets");
            return Err(Problem::DoesNotApply { file: file.to_owned(), option, format });
        }
        let field = |option, name: &str| {
            let known = FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| field.clone());
            known.or_else(|| Extra::parse(name).map(Field::Extra)).ok_or_else(|| {
                let extra = ["extra.1", "extra.NAME"];
                let known = FIELDS.iter().map(|(known, _)| *known).chain(extra);
                let found = known.map(str::to_owned).collect();
                Problem::UnknownField { file: file.to_owned(), option, name: name.to_owned(), found }
            })
        };
        let key = match (&options.key, &options.key_field) {
            (KeyBy::Field(name), _) => field("--key", name)?,
            (KeyBy::Global, _) => Field::Client,
            (_, Some(name)) => field("--key-field", name)?,
            (KeyBy::Client, None) => Field::Client,
            (KeyBy::User, None) => Field::User,
            (KeyBy::Path | KeyBy::MethodPath, None) => Field::Target,
        };
        let cost = options.cost_field.as_ref().map(|name| field("--cost-field", name)).transpose()?;
        let durations = durations(sample);
        let parts = options.wanted.iter().map(|wanted| match &wanted.field {
            Some(name) => field("--map", name).map(Some),
            None if wanted.part == Part::Duration => {
                Ok(durations.as_ref().map(|(extra, ..)| Field::Extra(extra.clone())))
            }
            None => Ok(usual_field(&wanted.part)),
        });
        let parts = parts.collect::<Result<Vec<Option<Field>>, _>>()?;
        let times = request_times(&options.wanted, &parts, durations, sample);
        let file_parts = PartsOfFile::without_durations(parts.iter().map(|_| true).collect());
        let mut parser =
            Self { key_writer: options.key_writer(), key, cost, parts, file: file_parts, combined };
        let push = |line: &[u8], batch: &mut Batch| {
            parser.push_parts(&Line::split(line)?, batch);
            Ok(())
        };
        parser.file = parts::of_file(file, &options.wanted, times, lines::split(sample), push)?;
        Ok(parser)
    }

    /// Reads a block of whole lines.
    pub(crate) fn block(&self, text: &[u8], batch: &mut Batch) {
        batch.begin_parts(&self.file);
        let mut times = ClfTimes::default();
        lines::parse_each(text, batch, |line, batch| self.line(line, &mut times, batch));
    }

    fn line(&self, line: &[u8], times: &mut ClfTimes, batch: &mut Batch) -> Result<(), Refusal> {
        let line = Line::split(line)?;
        if self.combined && line.quoted().is_none() {
            return Err("no quoted referer and user agent after the size (--format clf needs none)");
        }
        let t_ns = times.read(line.time)?;
        let cost = match &self.cost {
            None => 1,
            // A response without a body has the size `-`.
            Some(Field::Bytes) if line.bytes == b"-" => 0,
            Some(field) => fields::cost(line.field(field))?,
        };
        let method = if self.key_writer.by == KeyBy::MethodPath { line.field(&Field::Method) } else { b"" };
        let has_key = self.key_writer.write(&mut batch.keys, line.field(&self.key), method);
        batch.without_key += u64::from(!has_key);
        self.push_parts(&line, batch);
        batch.push(t_ns, cost, Op::Check);
        Ok(())
    }

    /// Appends the texts of the wanted parts.
    fn push_parts(&self, line: &Line<'_>, batch: &mut Batch) {
        for part in &self.parts {
            batch.push_part(part.as_ref().map_or(b"", |field| line.field(field)));
        }
    }
}

/// The field of a part.
fn usual_field(part: &Part) -> Option<Field> {
    match part {
        Part::Client => Some(Field::Client),
        Part::Method => Some(Field::Method),
        Part::Target => Some(Field::Target),
        Part::Status => Some(Field::Status),
        Part::Header(name) if name == "referer" => Some(Field::Referer),
        Part::Header(name) if name == "user-agent" => Some(Field::Agent),
        Part::Header(_) | Part::Host | Part::Label(_) | Part::Domain | Part::Entry(_) => None,
        Part::Duration | Part::Settles => None,
    }
}

/// How many lines are searched for durations.
const SAMPLE: usize = 100;

/// The durations in the lines of a sample.
fn durations(sample: &[u8]) -> Option<(Extra, Option<Unit>, TimeIs)> {
    let lines = lines::split(sample).filter_map(|line| Line::split(line).ok());
    extra::durations(lines.take(SAMPLE).map(|line| line.extra().collect()))
}

/// What a sample says of when requests arrive and end. Of durations that `--map` names the unit is
/// known by their shape: nginx writes three decimals.
fn request_times(
    wanted: &[Wanted],
    parts: &[Option<Field>],
    found: Option<(Extra, Option<Unit>, TimeIs)>,
    sample: &[u8],
) -> RequestTimes {
    let duration = wanted.iter().position(|wanted| wanted.part == Part::Duration);
    let Some((at, field)) = duration.and_then(|at| Some((at, parts[at].as_ref()?))) else {
        return RequestTimes::default();
    };
    let (unit, time_is) = match (found, field) {
        (Some((extra, unit, time_is)), Field::Extra(field)) if extra == *field => (unit, time_is),
        _ => {
            let lines = lines::split(sample).filter_map(|line| Line::split(line).ok()).take(SAMPLE);
            let is_nginx = lines
                .map(|line| extra::is_nginx(line.field(field)))
                .fold(None, |all, is| Some(all.unwrap_or(true) && is));
            if is_nginx == Some(true) { (Some(Unit::Seconds), TimeIs::End) } else { (None, TimeIs::Start) }
        }
    };
    let name = |field: &Field| match field {
        Field::Extra(extra) => extra.name(),
        field => FIELDS.iter().find(|(_, known)| known == field).map_or("", |(name, _)| name).to_owned(),
    };
    RequestTimes { time_is, field: Some(name(field)), unit: wanted[at].unit.or(unit), without_unit: None }
}

/// Whether a line is one of an access log.
pub(crate) fn recognises(line: &[u8]) -> bool {
    Line::split(line).is_ok_and(|line| time::clf(line.time).is_ok())
}

/// A line split into its fields.
struct Line<'a> {
    client: &'a [u8],
    ident: &'a [u8],
    user: &'a [u8],
    time: &'a [u8; TIME],
    request: &'a [u8],
    status: &'a [u8],
    bytes: &'a [u8],
    /// What follows the size.
    rest: &'a [u8],
}

impl<'a> Line<'a> {
    fn split(line: &'a [u8]) -> Result<Self, Refusal> {
        let (before, time, after) = at_time(line).ok_or("no [day/month/year:time offset] in it")?;

        let mut words = before.splitn(3, |&b| b == b' ');
        let (client, ident, user) = (words.next(), words.next(), words.next());
        let (Some(client @ [_, ..]), Some(ident), Some(user)) = (client, ident, user) else {
            return Err("not three words (client, ident, user) before the time");
        };
        if ident != b"-" && user.contains(&b' ') {
            return Err("more than three words (client, ident, user) before the time");
        }

        let request = after.strip_prefix(b" \"").ok_or("no quoted request after the time")?;
        for end in memchr_iter(b'"', request) {
            if let Some((status, bytes, rest)) = status_and_size(&request[end + 1..]) {
                return Ok(Self { client, ident, user, time, request: &request[..end], status, bytes, rest });
            }
        }
        Err("no status and size after the request")
    }

    fn field(&self, field: &Field) -> &'a [u8] {
        match field {
            Field::Client => self.client,
            Field::Ident => self.ident,
            Field::User => self.user,
            Field::Request => self.request,
            Field::Method => self.request_words().map_or(b"", |words| words.0),
            Field::Target => self.request_words().map_or(b"", |words| words.1),
            Field::Protocol => self.request_words().map_or(b"", |words| words.2),
            Field::Status => self.status,
            Field::Bytes => self.bytes,
            Field::Referer => self.quoted().map_or(b"", |quoted| quoted.0),
            Field::Agent => self.quoted().map_or(b"", |quoted| quoted.1),
            Field::Extra(extra) => extra.of(self.extra()),
        }
    }

    /// Method, target and protocol; `None` when the request is no HTTP (`-`, TLS bytes, noise).
    fn request_words(&self) -> Option<(&'a [u8], &'a [u8], &'a [u8])> {
        let mut words = self.request.split(|&b| b == b' ');
        let (method, target) = (words.next()?, words.next()?);
        let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"-_".contains(b);
        let is_method = !method.is_empty() && method.iter().all(is_token);
        is_method.then(|| (method, target, words.next_back().unwrap_or_default()))
    }

    /// Referer, user agent and what follows them.
    fn quoted(&self) -> Option<(&'a [u8], &'a [u8], &'a [u8])> {
        let (referer, rest) = quoted(self.rest)?;
        let (agent, rest) = quoted(rest)?;
        Some((referer, agent, rest))
    }

    /// The texts behind the known fields.
    fn extra(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        extra::texts(self.quoted().map_or(self.rest, |quoted| quoted.2))
    }
}

/// Splits a line at the first bracketed text with the shape of a time.
fn at_time(line: &[u8]) -> Option<(&[u8], &[u8; TIME], &[u8])> {
    memchr_iter(b'[', line).find_map(|open| {
        let before = line[..open].strip_suffix(b" ")?;
        let (time, after) = line[open + 1..].split_first_chunk::<TIME>()?;
        let after = after.strip_prefix(b"]")?;
        (time[2] == b'/' && time[6] == b'/').then_some((before, time, after))
    })
}

/// Splits ` 200 187` at the start of a text, before a space or the end: status, size, rest.
fn status_and_size(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (status, text) = match text {
        [b' ', a, b, c, b' ', ..] if [a, b, c].iter().all(|b| b.is_ascii_digit()) => {
            (&text[1..4], &text[5..])
        }
        [b' ', b'-', b' ', ..] => (&text[1..2], &text[3..]),
        _ => return None,
    };
    let size = match text {
        [b'-', ..] => 1,
        _ => text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len()),
    };
    let (bytes, rest) = text.split_at(size);
    (size > 0 && matches!(rest, [] | [b' ', ..])).then_some((status, bytes, rest))
}

/// Splits ` "..."` at the start of a text from the rest. A quote before another character than a
/// space, or an escaped one, does not end it.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b" \"")?;
    let mut start = 0;
    loop {
        let end = start + memchr(b'"', &text[start..])?;
        let escaped = text[..end].iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1;
        if !escaped && matches!(text[end + 1..], [] | [b' ', ..]) {
            return Some((&text[..end], &text[end + 1..]));
        }
        start = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{keys_of, options, outcome, told};

    const LINE: &str = r#"192.0.2.7 - ann [20/Feb/2016:00:00:45 -0500] "GET /a?b=c HTTP/1.1" 200 187"#;
    const TAIL: &str = r#" "http://e.example/" "Mozilla/5.0 (x; \"y\")""#;

    fn parser(options: &Options, combined: bool) -> Parser {
        Parser::new("test.log", options, combined, b"").expect("the options fit an access log")
    }

    fn parse(key: KeyBy, text: &str) -> Vec<String> {
        let mut batch = Batch::default();
        parser(&Options { key, ..options() }, false).block(text.as_bytes(), &mut batch);
        keys_of(&batch)
    }

    fn refusal(text: &[u8], combined: bool) -> Option<Refusal> {
        let mut batch = Batch::default();
        parser(&options(), combined).block(text, &mut batch);
        assert_eq!(batch.len() as u64 + batch.malformed, 1, "a line is a record or malformed");
        batch.samples.first().map(|sample| sample.reason)
    }

    #[test]
    fn each_key_is_its_part_of_the_line() {
        let line = format!("{LINE}{TAIL} \"a tenth field\"");
        for (key, text) in [
            ("client", "192.0.2.7"),
            ("user", "ann"),
            ("path", "/a"),
            ("METHOD+path", "GET /a"),
            ("global", "global"),
            ("field:ident", "-"),
            ("field:request", "GET /a?b=c HTTP/1.1"),
            ("field:protocol", "HTTP/1.1"),
            ("field:status", "200"),
            ("field:bytes", "187"),
            ("field:referer", "http://e.example/"),
            ("field:agent", r#"Mozilla/5.0 (x; \"y\")"#),
        ] {
            assert_eq!(parse(key.parse().expect("a key"), &line), [text], "{key}");
        }
    }

    #[test]
    fn the_known_fields_may_hold_anything() {
        for line in [
            r#"2001:db8::7 - - [20/Feb/2016:00:00:45 -0500] "-" 408 - "-" "-""#,
            r#"host.example - ann lee [20/Feb/2016:00:00:45 -0500] "\x16\x03\x01" 400 226"#,
            r#"192.0.2.7 - [x] [20/Feb/2016:00:00:45 -0500] "GET /2014/12/\"December HTTP/1.1" 404 1"#,
            r#"192.0.2.7 - - [20/Feb/2016:00:00:45 -0500] "GET /" quote" HTTP/1.1" 404 1"#,
            r#"192.0.2.7 - - [20/Feb/2016:00:00:45 -0500] "" 400 0"#,
            r#"192.0.2.7 - - [20/Feb/2016:00:00:45 -0500] "GET /\" 400 0"#,
            r#"192.0.2.7 - - [20/Feb/2016:00:00:45 -0500] "GET /" - -"#,
        ] {
            assert_eq!(refusal(line.as_bytes(), false), None, "{line}");
        }
        assert_eq!(parse(KeyBy::User, &LINE.replace("ann", "ann lee")), ["ann lee"]);
    }

    #[test]
    fn a_request_that_is_no_http_has_no_path() {
        for request in ["-", "", r"\x16\x03 \x01", "GET"] {
            let line = LINE.replace("GET /a?b=c HTTP/1.1", request);
            assert_eq!(parse(KeyBy::Path, &line), ["-"], "{request}");
            assert_eq!(parse(KeyBy::MethodPath, &line), ["-"], "{request}");
        }
        assert_eq!(parse(KeyBy::Path, &LINE.replace(" HTTP/1.1", "")), ["/a"], "HTTP/0.9 has no protocol");
    }

    #[test]
    fn a_prefix_before_the_client_is_refused() {
        let words = Some("more than three words (client, ident, user) before the time");
        assert_eq!(refusal(format!("www.example.com:443 {LINE}").as_bytes(), false), words);
        assert_eq!(refusal(format!("Mar 24 14:02:50 web1 nginx: {LINE}").as_bytes(), false), words);
    }

    #[test]
    fn a_broken_line_is_refused_with_its_reason() {
        for (line, reason) in [
            (LINE.replace(" - ann", ""), "not three words (client, ident, user) before the time"),
            (LINE.replace("192.0.2.7", ""), "not three words (client, ident, user) before the time"),
            (LINE.replace("20/Feb/2016:", ""), "no [day/month/year:time offset] in it"),
            (LINE.replace("Feb", "Fev"), "the time names no known month"),
            (LINE.replace(" \"GET", " GET"), "no quoted request after the time"),
            (LINE.replace(" 200 187", ""), "no status and size after the request"),
            (LINE.replace(" 187", " 187x"), "no status and size after the request"),
        ] {
            assert_eq!(refusal(line.as_bytes(), false), Some(reason), "{line}");
        }
    }

    #[test]
    fn combined_wants_referer_and_agent_and_clf_does_not() {
        assert_eq!(refusal(format!("{LINE}{TAIL}").as_bytes(), true), None);
        assert_eq!(refusal(format!("{LINE}{TAIL} extra").as_bytes(), true), None);
        assert!(refusal(LINE.as_bytes(), true).is_some());
        assert!(refusal(format!("{LINE} \"-\" \"cut off").as_bytes(), true).is_some());
        assert_eq!(refusal(format!("{LINE} \"-\" \"cut off").as_bytes(), false), None);
    }

    #[test]
    fn the_size_can_be_the_cost_and_may_be_zero() {
        let options = Options { cost_field: Some("bytes".to_owned()), ..options() };
        let text = format!("{LINE}\n{}\n", LINE.replace("187", "-"));
        let records = outcome(|batch| parser(&options, false).block(text.as_bytes(), batch));
        assert_eq!(records.iter().map(|record| record.cost).collect::<Vec<_>>(), [187, 0]);
    }

    #[test]
    fn an_unknown_field_is_an_error_that_lists_the_known() {
        let options = Options { key: KeyBy::Field("id".to_owned()), ..options() };
        let error = told(Parser::new("test.log", &options, false, b"").expect_err("no such field"));
        assert!(error.contains("\"id\"") && error.contains("referer, agent"), "{error}");
    }
}
