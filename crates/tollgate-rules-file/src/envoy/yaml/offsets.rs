//! Offsets in bytes of the characters that the YAML parser counts.

use std::ops::Range;

use saphyr_parser::Span;

/// Every so many characters the offset is kept.
const STEP: usize = 64;

/// The offset in bytes of each character of a text.
pub(super) struct Offsets<'t> {
    text: &'t str,
    /// That of every 64th character; empty if each character is one byte.
    marks: Vec<usize>,
}

impl<'t> Offsets<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let marks = if text.is_ascii() {
            Vec::new()
        } else {
            text.char_indices().step_by(STEP).map(|(at, _)| at).collect()
        };
        Self { text, marks }
    }

    /// The offset of a character, by its number; at most the text's length.
    pub(super) fn byte(&self, index: usize) -> usize {
        if self.marks.is_empty() {
            return index.min(self.text.len());
        }
        let Some(mark) = self.marks.get(index / STEP) else { return self.text.len() };
        let mut rest = self.text[*mark..].char_indices();
        rest.nth(index % STEP).map_or(self.text.len(), |(at, _)| mark + at)
    }

    /// The part of the text, without blanks and line breaks at its end.
    pub(super) fn span(&self, span: Span) -> Range<usize> {
        let (start, end) = (self.byte(span.start.index()), self.byte(span.end.index()));
        let part = self.text.get(start..end.max(start)).unwrap_or_default();
        start..start + part.trim_end().len()
    }
}
