//! CSV and TSV: a header line names the columns.
//!
//! CSV cells may be quoted (RFC 4180) within one line; TSV cells are never quoted. A Zeek log is
//! TSV; its `#fields` line is the header and its other `#` lines are comments. Options name a
//! column by its name or its number, from 1. A line that repeats the header and has no time is
//! skipped, so joined files can be read, and with numbered columns also files without a header.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memchr;

use crate::batch::Batch;
use crate::error::Problem;
use crate::fields::{self, Fields, Parts};
use crate::lines;
use crate::malformed::Refusal;
use crate::options::Options;
use crate::parts::{self, PartsOfFile};

const ZEEK_NAMES: &[u8] = b"#fields\t";

/// The byte between two cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delimiter {
    /// Cells may be quoted.
    Comma,
    Tab,
}

/// Reads the lines of a CSV or TSV file.
#[derive(Debug)]
pub(crate) struct Parser {
    delimiter: Delimiter,
    /// The line that names the columns.
    header: Vec<u8>,
    is_zeek: bool,
    width: usize,
    columns: Parts<usize>,
    /// The columns of the wanted parts.
    parts: Vec<Option<usize>>,
    file: Arc<PartsOfFile>,
    fields: Fields,
}

impl Parser {
    pub(crate) fn new(
        file: &str,
        options: &Options,
        delimiter: Delimiter,
        sample: &[u8],
    ) -> Result<Self, Problem> {
        let mut lines = lines::split(sample).filter(|line| !lines::is_blank(line));
        let first = lines.next().unwrap_or_default();
        let is_zeek = delimiter == Delimiter::Tab && is_zeek(first);
        let header = match is_zeek {
            true => std::iter::once(first)
                .chain(lines)
                .find(|line| line.starts_with(ZEEK_NAMES))
                .unwrap_or_default(),
            false => first,
        };
        let names = names(header, delimiter);
        let chosen = fields::choose(file, options, &names)?;
        let columns = fields::columns(file, &chosen, &names)?;
        let part = |name: &Option<String>| {
            name.as_ref().map(|name| fields::one_column(file, "--map", name, &names)).transpose()
        };
        let parts = fields::choose_parts(options, &names).iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let time = columns[fields::TIME].map_or("", |at| &names[at]);
        let fields = Fields::new(options, time);
        // By the names in the header, where an option has numbers.
        let chosen: Vec<_> = parts.iter().map(|part| part.map(|at| names[at].clone())).collect();
        let times = fields::request_times(options, &names, time, &chosen);
        let (header, width) = (header.to_owned(), names.len());
        let mut parser =
            Self { delimiter, header, is_zeek, width, columns, parts, file: Arc::default(), fields };
        let is_data = |line: &&[u8]| **line != *parser.header && !(is_zeek && line.starts_with(b"#"));
        let lines = lines::split(sample).filter(is_data);
        let push = |line: &[u8], batch: &mut Batch| parser.push_parts(line, batch);
        parser.file = parts::of_file(file, &options.wanted, times, lines, push)?;
        Ok(parser)
    }

    /// Reads a block of whole lines.
    pub(crate) fn block(&self, text: &[u8], batch: &mut Batch) {
        batch.begin_parts(&self.file);
        lines::parse_each(text, batch, |line, batch| self.line(line, batch));
    }

    fn line(&self, line: &[u8], batch: &mut Batch) -> Result<(), Refusal> {
        if self.is_zeek && line.starts_with(b"#") {
            let changed = line.starts_with(ZEEK_NAMES) && line != self.header;
            return if changed { Err("other columns than before begin here") } else { Ok(()) };
        }
        let [_, _, _, cost] = self.columns;
        let read = self.texts(line).and_then(|texts| {
            self.fields.record(&texts, cost.is_some(), batch)?;
            // Never an error: the same cells were just read.
            self.push_parts(line, batch)
        });
        read.or_else(|reason| if line == self.header { Ok(()) } else { Err(reason) })
    }

    /// Appends the cells of the wanted parts.
    fn push_parts(&self, line: &[u8], batch: &mut Batch) -> Result<(), Refusal> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let mut cells = Vec::with_capacity(self.width);
        let mut rest = Some(line);
        while let Some(text) = rest {
            let (cell, after) = cell(text, self.delimiter)?;
            cells.push(cell);
            rest = after;
        }
        for column in &self.parts {
            batch.push_part(column.and_then(|at| cells.get(at)).map_or(b"", |cell| cell));
        }
        Ok(())
    }

    /// The texts of the wanted cells.
    fn texts<'a>(&self, line: &'a [u8]) -> Result<Parts<Cow<'a, [u8]>>, Refusal> {
        let mut texts = [const { None }; 4];
        let mut rest = Some(line);
        let mut at = 0;
        while let Some(text) = rest {
            let (cell, after) = cell(text, self.delimiter)?;
            for (text, column) in texts.iter_mut().zip(self.columns) {
                if column == Some(at) {
                    *text = Some(cell.clone());
                }
            }
            rest = after;
            at += 1;
        }
        if at == self.width { Ok(texts) } else { Err("not as many columns as the header has") }
    }
}

/// Whether a file that begins with this line is a Zeek log.
pub(crate) fn is_zeek(line: &[u8]) -> bool {
    line.starts_with(b"#separator ") || line.starts_with(ZEEK_NAMES)
}

/// The column names in a header.
pub(crate) fn names(header: &[u8], delimiter: Delimiter) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = Some(header.strip_prefix(ZEEK_NAMES).unwrap_or(header));
    while let Some(text) = rest {
        // After a broken quote the rest of the header is the last name; an error that lists the
        // names shows it.
        let (cell, after) = cell(text, delimiter).unwrap_or((Cow::Borrowed(text), None));
        names.push(String::from_utf8_lossy(cell.trim_ascii()).into_owned());
        rest = after;
    }
    names
}

/// The first cell of a line, and the text after its delimiter if there is one.
type Cell<'a> = (Cow<'a, [u8]>, Option<&'a [u8]>);

fn cell(text: &[u8], delimiter: Delimiter) -> Result<Cell<'_>, Refusal> {
    let byte = match (delimiter, text) {
        (Delimiter::Comma, [b'"', quoted @ ..]) => return quoted_cell(quoted),
        (Delimiter::Comma, _) => b',',
        (Delimiter::Tab, _) => b'\t',
    };
    Ok(match memchr(byte, text) {
        Some(end) => (Cow::Borrowed(&text[..end]), Some(&text[end + 1..])),
        None => (Cow::Borrowed(text), None),
    })
}

/// The first cell after its opening quote.
fn quoted_cell(text: &[u8]) -> Result<Cell<'_>, Refusal> {
    let mut unescaped = Vec::new();
    let mut rest = text;
    loop {
        let end = memchr(b'"', rest).ok_or("a quote that is not closed in its line")?;
        let (piece, after) = (&rest[..end], &rest[end + 1..]);
        let after_cell = match after {
            [b'"', after @ ..] => {
                unescaped.extend_from_slice(&rest[..=end]);
                rest = after;
                continue;
            }
            [] => None,
            [b',', after @ ..] => Some(after),
            _ => return Err("text after a closing quote"),
        };
        if unescaped.is_empty() {
            return Ok((Cow::Borrowed(piece), after_cell));
        }
        unescaped.extend_from_slice(piece);
        return Ok((Cow::Owned(unescaped), after_cell));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyBy;
    use crate::testing::{keys_of, options, outcome, told};

    fn parse(options: &Options, delimiter: Delimiter, text: &str) -> Batch {
        let parser = Parser::new("f.csv", options, delimiter, text.as_bytes()).expect("columns");
        let mut batch = Batch::default();
        parser.block(text.as_bytes(), &mut batch);
        batch
    }

    fn csv(text: &str) -> Batch {
        parse(&options(), Delimiter::Comma, text)
    }

    #[test]
    fn csv_quotes_are_undone_within_a_line() {
        let batch = csv("\"time\",client\n1,\"a,b\"\n2,\"say \"\"hi\"\"\"\r\n\"3\",\"\"\"\"\n4,\"\"\n");
        assert_eq!(keys_of(&batch), ["a,b", "say \"hi\"", "\"", "-"]);
        assert_eq!(batch.malformed, 0);
    }

    #[test]
    fn broken_csv_lines_are_refused_with_their_reason() {
        let batch = csv("time,client\n1,\"a\n2,\"a\"b\n3\n4,a,b\nsoon,a\n");
        let reasons: Vec<_> = batch.samples.iter().map(|sample| (sample.line, sample.reason)).collect();
        assert_eq!(
            reasons,
            [
                (1, "a quote that is not closed in its line"),
                (2, "text after a closing quote"),
                (3, "not as many columns as the header has"),
                (4, "not as many columns as the header has"),
                (5, "the time is in no known form"),
            ]
        );
        assert_eq!(batch.len(), 0);
    }

    #[test]
    fn tsv_cells_are_not_quoted_and_may_be_empty() {
        let batch = parse(&options(), Delimiter::Tab, "host\tx\ttime\n\"a\t\t807256800\n");
        assert_eq!(keys_of(&batch), ["\"a"]);
    }

    #[test]
    fn zeek_names_its_columns_in_a_comment() {
        let text = "#separator \\x09\n#unset_field\t-\n#fields\tts\tuid\tid.orig_h\n#types\ttime\tstring\taddr\n\
                    1521911720.865716\tC1\t10.47.1.100\n1521911721.5\tC2\t-\n#close\t2024\n";
        let records = outcome(|batch| *batch = parse(&options(), Delimiter::Tab, text));
        let seen: Vec<_> = records.iter().map(|r| (r.line, r.t_ns, r.key.as_str())).collect();
        assert_eq!(
            seen,
            [(5, 1_521_911_720_865_716_000, "10.47.1.100"), (6, 1_521_911_721_500_000_000, "-")]
        );
    }

    #[test]
    fn zeek_columns_that_change_midway_are_reported() {
        let text = "#fields\tts\thost\n1\ta\n#fields\tts\thost\n2\tb\n#fields\thost\tts\n";
        let batch = parse(&options(), Delimiter::Tab, text);
        assert_eq!((batch.len(), batch.malformed), (2, 1));
    }

    #[test]
    fn columns_are_found_by_number_with_and_without_a_header() {
        let numbered = Options {
            time_field: Some("2".to_owned()),
            key_field: Some("1".to_owned()),
            cost_field: Some("3".to_owned()),
            ..options()
        };
        for (text, t_ns) in
            [("who,when,n\na,1,5\n", 1_000_000_000), ("a,1,5\n", 1_000_000_000), ("n,t_ns,\na,1,5\n", 1)]
        {
            let records = outcome(|batch| *batch = parse(&numbered, Delimiter::Comma, text));
            let seen: Vec<_> = records.iter().map(|r| (r.t_ns, r.key.as_str(), r.cost)).collect();
            assert_eq!(seen, [(t_ns, "a", 5)], "{text}");
        }
    }

    #[test]
    fn a_repeated_header_is_no_record() {
        let batch = csv("time,client\n1,a\ntime,client\n2,b\n");
        assert_eq!((keys_of(&batch), batch.malformed), (vec!["a".to_owned(), "b".to_owned()], 0));
    }

    #[test]
    fn an_unknown_column_is_an_error_that_lists_the_known() {
        for name in ["klient", "0", "3"] {
            let options = Options { key: KeyBy::Field(name.to_owned()), ..options() };
            let parser = Parser::new("f.csv", &options, Delimiter::Comma, b"time,client\n");
            let error = told(parser.expect_err(name));
            assert!(error.contains("time, client"), "{error}");
        }
    }
}
