//! Draws a problem with an excerpt of the file, as rustc does.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use annotate_snippets::{
    Annotation, AnnotationKind, Group, Level, Message, Origin, Renderer, Snippet, Title,
};

use super::problem::{Problem, ProblemPart};

/// The most bytes of a line in an excerpt, before and behind the wrong part.
const SIDE: usize = 80;

/// The line with a problem, as far as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    text: Box<str>,
    /// The wrong part, in bytes of `text`.
    part: Range<usize>,
    /// Whether the line's beginning was left out.
    late: bool,
}

impl Excerpt {
    /// Of a long line it keeps the text around `part`, so that drawing takes bounded time.
    pub(super) fn new(line: &str, part: Range<usize>) -> Self {
        let line = &*without_passwords(line);
        let whole = line.len() <= 4 * SIDE;
        let start = if whole { 0 } else { floor(line, part.start.saturating_sub(SIDE)) };
        let most = if whole { line.len() } else { part.start + 2 * SIDE };
        let end = floor(line, most.min(line.len()));
        let part = part.start - start..floor(line, part.end.min(end)).max(part.start) - start;
        let before = if start == 0 { "" } else { "..." };
        let behind = if end == line.len() { "" } else { "..." };
        let text = format!("{before}{}{behind}", &line[start..end]).into();
        Self { text, part: part.start + before.len()..part.end + before.len(), late: start > 0 }
    }
}

/// The line with `*` in place of what may be the address of a store, which may have a password:
/// errors are logged and shown to operators. A file with errors may have one anywhere, written in
/// any way, so rather too much is hidden: all behind a `://` that is not of the web; and up to the
/// last `@` all behind such a one or the first `:` of the line, or else of its value.
fn without_passwords(line: &str) -> Cow<'_, str> {
    let scheme = line.find("://");
    let is_web = scheme.is_some_and(|at| ["http", "https"].iter().any(|web| line[..at].ends_with(web)));
    let value = line.find('=').map_or(0, |equals| equals + 1);
    let begins = |c: char| !" \t\"'[".contains(c);
    let value = line[value..].find(begins).map_or(line.len(), |blanks| value + blanks);
    let from = scheme.map(|at| at + 3).or_else(|| line.find(':').map(|colon| colon + 1));
    let hidden = match (from, line.rfind('@')) {
        (Some(from), _) if scheme.is_some() && !is_web => from..line.len(),
        (from, Some(at)) => from.filter(|from| *from < at).unwrap_or(value.min(at))..at,
        (_, None) => return line.into(),
    };
    let mut bytes = line.as_bytes().to_vec();
    bytes[hidden].fill(b'*');
    // Whole characters were replaced.
    String::from_utf8(bytes).map_or_else(|_| "".into(), Cow::Owned)
}

/// The last boundary of a character that is not behind `at`.
fn floor(line: &str, at: usize) -> usize {
    (0..=at.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0)
}

impl Problem {
    /// Draws the problem with an excerpt of the file, in colours (ANSI escapes) if asked to. The
    /// text ends without a line break. Control characters of the file are made visible.
    ///
    /// # Cost
    ///
    /// Of a long line only the text around the problem is drawn.
    #[must_use]
    pub fn draw(&self, colours: bool) -> String {
        let level = if self.is_warning() { Level::WARNING } else { Level::ERROR };
        let message = annotate_snippets::normalize_untrusted_str(&self.message);
        let file = annotate_snippets::normalize_untrusted_str(&self.file);
        let hint = self.hint.as_deref().map(annotate_snippets::normalize_untrusted_str);
        let title: Title<'_> = level.primary_title(message);
        let title = if self.is_warning() { title.id(self.code.as_str()) } else { title };
        let origin = Origin::path(file.clone());
        let origin = if self.line > 0 { origin.line(self.line).char_column(self.column) } else { origin };
        let mut group = Group::with_title(title);
        let also: Vec<_> = self.also.iter().filter_map(ProblemPart::snippet).collect();
        match &self.excerpt {
            Some(Excerpt { text, part, late }) => {
                let annotation = AnnotationKind::Primary.span(part.clone()).label(hint);
                let snippet = Snippet::source(&**text).line_start(self.line).annotation(annotation);
                // A snippet counts columns from its own beginning.
                group = if *late {
                    group.element(origin).element(snippet)
                } else {
                    group.element(snippet.path(file))
                };
            }
            None => {
                let help = |hint| -> Message<'_> { Level::HELP.message(hint) };
                if !self.file.is_empty() {
                    group = group.element(origin);
                }
                group = group.elements(hint.map(help));
            }
        }
        group = group.elements(also);
        let renderer = if colours { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

impl ProblemPart {
    /// The line, where its file may be shown.
    fn snippet(&self) -> Option<Snippet<'_, Annotation<'_>>> {
        let Excerpt { text, part, .. } = self.excerpt.as_ref()?;
        let annotation = AnnotationKind::Context.span(part.clone());
        let snippet = Snippet::source(&**text).line_start(self.line).annotation(annotation);
        Some(snippet.path(annotate_snippets::normalize_untrusted_str(&self.file)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.draw(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_shows_no_password() {
        for (line, shown) in [
            ("store = \"redis://:secret@host\"", "store = \"redis://*************"),
            ("url = 'redis://u:p@ss@host' # @", "url = 'redis://****************"),
            ("store = \"redis:secret@host\"", "store = \"redis:******@host\""),
            ("match.label.user = \"@staff\"", "match.label.user = \"@staff\""),
            ("store = \"redis://app:secret", "store = \"redis://**********"),
            ("store = \"redis:app:se\\\"'cr@et@host\"", "store = \"redis:**************@host\""),
            ("store = \"unix:///s?pass=secret\"", "store = \"unix://***************"),
            ("url = \"http://app:secret@host\"", "url = \"http://**********@host\""),
            ("refuse.type = \"https://a.test/limits\"", "refuse.type = \"https://a.test/limits\""),
            ("  secret@host\"\"\"", "  ******@host\"\"\""),
            ("store = 'secret@host'", "store = '******@host'"),
            ("limits = \"in-flight:2\"", "limits = \"in-flight:2\""),
        ] {
            assert_eq!(without_passwords(line), shown);
        }
        let line = "x = \"redis://:geheim\u{e9}@h\" # \u{e9}";
        let Excerpt { text, part, .. } = Excerpt::new(line, 4..5);
        assert!(!text.contains("geheim") && part == (4..5), "{text}");
    }

    #[test]
    fn a_long_line_is_cut_around_its_problem() {
        let line = format!("{}x{}", "é".repeat(100_000), "ü".repeat(100_000));
        let Excerpt { text, part, .. } = Excerpt::new(&line, 200_000..200_001);
        assert_eq!(&text[part], "x");
        assert!(text.len() < 4 * SIDE && text.starts_with("...é") && text.ends_with("ü..."));
        let Excerpt { text, part, .. } = Excerpt::new(&line, 0..line.len());
        assert!(part.start == 0 && part.end <= text.len() && text.len() < 4 * SIDE);
    }
}
