//! Finds the parser that a file needs, from its first lines and its name.
//!
//! Contents count first: a line that begins with `{` is JSON, a line that parses as an access log
//! is one, `#fields` is Zeek. The file's extension counts next, and last a header that names a
//! time.

use crate::batch::Batch;
use crate::delimited::{self, Delimiter};
use crate::error::Problem;
use crate::fields::names_a_time;
use crate::options::{Format, Options};
use crate::{clf, json, lines, trace};

/// How many lines are tried: the first ones may be incomplete, or a program's greeting.
const SAMPLE: usize = 20;

/// The parser of one file.
#[derive(Debug)]
pub(crate) enum Parser {
    AccessLog(clf::Parser),
    Json(json::Parser),
    Trace(trace::Parser),
    Delimited(delimited::Parser),
}

impl Parser {
    /// The parser for a file that begins with these whole lines.
    pub(crate) fn new(file: &str, options: &Options, sample: &[u8]) -> Result<Self, Problem> {
        let format = match options.format {
            Format::Auto => guess(file, sample).ok_or(Problem::UnknownFormat { file: file.to_owned() })?,
            format => format,
        };
        Ok(match format {
            Format::Combined => Self::AccessLog(clf::Parser::new(file, options, true, sample)?),
            Format::Json => Self::Json(json::Parser::new(file, options, sample)?),
            Format::Csv => Self::Delimited(delimited::Parser::new(file, options, Delimiter::Comma, sample)?),
            Format::Tsv => Self::Delimited(delimited::Parser::new(file, options, Delimiter::Tab, sample)?),
            Format::Trace => Self::Trace(trace::Parser::new(file, options)?),
            Format::Clf | Format::Auto => Self::AccessLog(clf::Parser::new(file, options, false, sample)?),
        })
    }

    /// Reads a block of whole lines.
    pub(crate) fn block(&self, text: &[u8], batch: &mut Batch) {
        match self {
            Self::AccessLog(parser) => parser.block(text, batch),
            Self::Json(parser) => parser.block(text, batch),
            Self::Trace(parser) => parser.block(text, batch),
            Self::Delimited(parser) => parser.block(text, batch),
        }
    }
}

/// Whether these whole lines determine the format: one is neither blank nor a comment.
pub(crate) fn is_enough(sample: &[u8]) -> bool {
    lines::split(sample).any(|line| !lines::is_blank(line) && !line.starts_with(b"#"))
}

/// An access log is always [`Format::Clf`], which reads the combined format too.
fn guess(file: &str, sample: &[u8]) -> Option<Format> {
    let mut lines = lines::split(sample).filter(|line| !lines::is_blank(line)).take(SAMPLE).peekable();
    let first = *lines.peek()?;
    lines.find_map(by_content).or_else(|| by_extension(file)).or_else(|| by_header(first))
}

fn by_content(line: &[u8]) -> Option<Format> {
    match line.trim_ascii_start() {
        [b'{', ..] if trace::recognises(line) => Some(Format::Trace),
        [b'{', ..] => Some(Format::Json),
        _ if delimited::is_zeek(line) => Some(Format::Tsv),
        _ if clf::recognises(line) => Some(Format::Clf),
        _ => None,
    }
}

fn by_extension(file: &str) -> Option<Format> {
    let file = file.strip_suffix(".gz").unwrap_or(file);
    match file.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "csv" => Some(Format::Csv),
        "tsv" | "tab" => Some(Format::Tsv),
        "json" | "jsonl" | "ndjson" => Some(Format::Json),
        "trace" => Some(Format::Trace),
        _ => None,
    }
}

fn by_header(line: &[u8]) -> Option<Format> {
    let separates = |delimiter| {
        let names = delimited::names(line, delimiter);
        names.len() > 1 && names.iter().any(|name| names_a_time(name))
    };
    match () {
        () if separates(Delimiter::Tab) => Some(Format::Tsv),
        () if separates(Delimiter::Comma) => Some(Format::Csv),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_testing::random::Random;

    use super::*;
    use crate::durations;
    use crate::parts::{Part, Wanted};
    use crate::testing::{LINE, options, told};

    const CLF: &str = r#"192.0.2.7 - - [20/Feb/2016:00:00:45 -0500] "GET / HTTP/1.1" 200 187"#;

    fn guessed(file: &str, sample: &str) -> Option<Format> {
        guess(file, sample.as_bytes())
    }

    #[test]
    fn contents_decide_under_any_name() {
        for file in ["access.log", "standard input", "x.csv", "x.json.gz"] {
            assert_eq!(guessed(file, CLF), Some(Format::Clf), "{file}");
            assert_eq!(guessed(file, "\n\r\n{\"ts\":1,\"ip\":\"a\"}\n"), Some(Format::Json), "{file}");
            assert_eq!(guessed(file, "{\"t_ns\":1,\"key\":\"a\"}\n"), Some(Format::Trace), "{file}");
            assert_eq!(guessed(file, "#separator \\x09\n#fields\tts\n"), Some(Format::Tsv), "{file}");
        }
    }

    #[test]
    fn a_broken_first_line_does_not_hide_the_format() {
        assert_eq!(guessed("x", &format!("zilla/5.0 (cut off)\"\n{CLF}\n")), Some(Format::Clf));
    }

    #[test]
    fn a_header_needs_an_extension_or_a_time_field() {
        assert_eq!(guessed("a.CSV.gz", "when,who\n"), Some(Format::Csv));
        assert_eq!(guessed("a.tsv", "when\twho\n"), Some(Format::Tsv));
        assert_eq!(guessed("a", "TIMESTAMP,who\n"), Some(Format::Csv));
        assert_eq!(guessed("a", "who\ttime\n"), Some(Format::Tsv));
    }

    #[test]
    fn an_unknown_format_is_an_error_that_names_the_option() {
        for sample in ["hello world\n", "a,b\n1,2\n", "time\n1\n", "#Software: IIS\n"] {
            let error = told(Parser::new("x.log", &options(), sample.as_bytes()).expect_err(sample));
            assert!(error.contains("x.log") && error.contains("--format clf"), "{error}");
        }
    }

    /// Removes, doubles, overwrites or inserts a few bytes, often those that have a meaning.
    fn mutate(text: &mut Vec<u8>, random: &mut Random) {
        const MEANINGFUL: &[u8] = b" \"\\[]{}:,.\t\n\r#-+/0919zZ\x00\x7f\x80\xff";
        for _ in 0..random.u64(1..=3) {
            let (from, to) = (random.usize(..=text.len()), random.usize(..=text.len()));
            let byte = MEANINGFUL[random.usize(..MEANINGFUL.len())];
            match random.u64(..5) {
                0 => drop(text.drain(from.min(to)..from.max(to))),
                1 => text.extend_from_within(from.min(to)..from.max(to)),
                2 => text.truncate(from),
                3 => text.insert(from, byte),
                _ if from < text.len() => text[from] = byte,
                _ => {}
            }
            text.truncate(10_000);
        }
    }

    #[test]
    fn every_line_is_a_record_or_malformed_or_ignored() {
        let samples = [
            (Format::Clf, "global", format!("{CLF}\n")),
            (
                Format::Combined,
                "METHOD+path",
                format!("{LINE}\n{}\n", LINE.replace("192.0.2.7", "2001:db8::7")),
            ),
            (Format::Clf, "field:agent", format!("{LINE}\n")),
            (Format::Clf, "field:extra.rt", format!("{LINE} 0.005 \"-\" rt=1.500\n")),
            (Format::Json, "client", "{\"ts\":1,\"ip\":\"a\",\"duration\":\"1m2.5e-1s\"}\n".to_owned()),
            (Format::Json, "client", "{\"ts\":\"2016-02-20T00:00:45.5+01:00\",\"ip\":\"a\\n\"}\n".to_owned()),
            (Format::Json, "field:r.c", "{\"ts\":1761019822.31,\"r\":{\"c\":17,\"d\":[1,{}]}}\n".to_owned()),
            (Format::Trace, "client", "{\"t_ns\":1,\"key\":\"a\",\"cost\":2,\"op\":\"peek\"}\n".to_owned()),
            (Format::Csv, "client", "time,ip\n2016-02-20 00:00:45.5,\"a\"\"b\"\n1455944445,c\n".to_owned()),
            (
                Format::Tsv,
                "client",
                "#fields\tts\thost\n1.5\t2001:db8::7\n20/Feb/2016:00:00:45 -0500\ta\n".to_owned(),
            ),
        ];
        let mut random = Random::with_seed(1);
        for (format, key, text) in samples {
            let (mut records, mut malformed) = (0, 0);
            let wanted = vec![Wanted { part: Part::Duration, field: None, unit: None }];
            let options = Options { format, key: key.parse().expect("a key"), wanted, ..options() };
            let parser = Parser::new("noise", &options, text.as_bytes()).expect("the sample is whole");
            for _ in 0..3_000 {
                let mut text = text.clone().into_bytes();
                mutate(&mut text, &mut random);
                let mut batch = Batch::default();
                parser.block(&text, &mut batch);
                assert_eq!(batch.lines, lines::split(&text).count() as u64);
                assert!(batch.len() as u64 + batch.malformed <= batch.lines);
                assert!(batch.records(0).all(|record| !record.key.is_empty() && record.line <= batch.lines));
                for index in 0..batch.len() {
                    let _ = durations::read(batch.parts(index).get(0), batch.times().unit);
                }
                records += batch.len();
                malformed += batch.malformed;
                // Choosing a parser by such a sample must not panic either.
                let _ = Parser::new("noise", &Options { format: Format::Auto, ..options.clone() }, &text);
                let _ = Parser::new("noise", &options, &text);
            }
            assert!(records > 300 && malformed > 300, "{format:?}: the noise spoils some lines, not all");
        }
    }
}
