//! Lines that cannot be read, each with a short reason and an excerpt that is safe to print.

/// Why a line is refused, for a person to read.
pub(crate) type Refusal = &'static str;

/// How many refused lines of a run are kept.
pub(crate) const SAMPLES: usize = 5;

/// How many bytes of a refused line are shown.
const EXCERPT: usize = 100;

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Index of the file in the list of sources.
    pub file: usize,
    /// Line number in that file; the first line is 1.
    pub line: u64,
    /// Why it is refused.
    pub reason: Refusal,
    /// Its beginning, printable.
    pub excerpt: String,
}

/// The beginning of a line, with control characters and invalid bytes escaped.
pub(crate) fn excerpt(line: &[u8]) -> String {
    let shown = &line[..line.len().min(EXCERPT)];
    let mut text = String::with_capacity(EXCERPT + 3);
    for chunk in shown.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
        text.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    if shown.len() < line.len() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_printable_and_short() {
        assert_eq!(excerpt(b"caf\xc3\xa9 \x1b[31m\xff\t"), "café \\u{1b}[31m\\xff\\t");
        assert_eq!(excerpt(&[b'a'; 5000]), format!("{}...", "a".repeat(EXCERPT)));
    }
}
