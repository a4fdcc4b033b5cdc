//! Splits blocks of text into lines.

use memchr::memchr_iter;

use crate::batch::Batch;
use crate::malformed::Refusal;

/// The lines of a text without `\n` or `\r\n`. The last line needs no line feed.
pub(crate) fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    let unended = (!text.is_empty() && text.last() != Some(&b'\n')).then_some(text.len());
    memchr_iter(b'\n', text).chain(unended).map(move |end| {
        let line = &text[start..end];
        start = end + 1;
        line.strip_suffix(b"\r").unwrap_or(line)
    })
}

/// Whether a line has only white space.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    // The first byte decides for nearly every line.
    line.first().is_none_or(|b| b.is_ascii_whitespace() && line.trim_ascii().is_empty())
}

/// Gives every line that is not blank to `parse`, and counts all of them.
pub(crate) fn parse_each(
    text: &[u8],
    batch: &mut Batch,
    mut parse: impl FnMut(&[u8], &mut Batch) -> Result<(), Refusal>,
) {
    for line in split(text) {
        batch.lines += 1;
        if is_blank(line) {
            continue;
        }
        if let Err(reason) = parse(line, batch) {
            batch.refuse(line, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<&str> {
        split(text.as_bytes()).map(|line| std::str::from_utf8(line).expect("the text is a text")).collect()
    }

    #[test]
    fn a_line_ends_with_lf_or_crlf_or_the_text() {
        assert_eq!(lines("a\nb\r\n\n\r\nc"), ["a", "b", "", "", "c"]);
        assert_eq!(lines("a\n"), ["a"]);
        assert_eq!(lines("\n"), [""]);
        assert_eq!(lines(""), [""; 0]);
    }

    #[test]
    fn blank_lines_are_skipped_but_counted() {
        let mut batch = Batch::default();
        let mut seen = Vec::new();
        parse_each(b"a\n\n \t\r\nb\n", &mut batch, |line, batch| {
            seen.push((batch.lines, line.to_vec()));
            Ok(())
        });
        assert_eq!(seen, [(1, b"a".to_vec()), (4, b"b".to_vec())]);
        assert_eq!(batch.lines, 4);
    }
}
