//! How deeply a file is nested, before it is parsed.
//!
//! `toml` bounds brackets and the dots of each key, and not their product: a document of 80 inline
//! tables with keys of 80 parts would overflow the stack when it is dropped.

use toml_parser::Source;
use toml_parser::lexer::TokenKind;

/// The deepest nesting: brackets, and the dots of the keys that lead to them.
const DEEPEST: usize = 160;

/// Returns the offset of the first token that is nested too deeply.
///
/// In a broken file a bracket that is not closed counts on: that errs by refusing.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    // Each open bracket, and the dots in the key that stands in it.
    let mut open: Vec<(TokenKind, usize)> = Vec::new();
    let (mut dots, mut depth) = (0, 0);
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => {
                dots += 1;
                depth += 1;
            }
            TokenKind::Comma => depth -= std::mem::take(&mut dots),
            TokenKind::Newline if open.is_empty() => depth -= std::mem::take(&mut dots),
            opening @ (TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket) => {
                open.push((opening, std::mem::take(&mut dots)));
                depth += 1;
            }
            closing @ (TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket) => {
                let is_square =
                    |kind| matches!(kind, TokenKind::LeftSquareBracket | TokenKind::RightSquareBracket);
                if let Some((_, before)) =
                    open.pop_if(|(opening, _)| is_square(*opening) == is_square(closing))
                {
                    depth -= 1 + std::mem::replace(&mut dots, before);
                }
            }
            _ => {}
        }
        if depth > DEEPEST {
            return Some(token.span().start());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_dots_of_keys_count_together() {
        let nested = |dots: usize, tables: usize| {
            format!("a = {}", format!("{{{}a = ", "a.".repeat(dots)).repeat(tables))
        };
        assert!(too_deep(&nested(15, 10)).is_none());
        assert!(too_deep(&nested(15, 11)).is_some());
        let siblings = format!("a = {{{}}}\n", "a.b.c = 1, ".repeat(100)).repeat(100);
        assert!(too_deep(&siblings).is_none());
        assert!(too_deep(&"a.b.c = 1.5\n[a.b]\n".repeat(100)).is_none());
        assert!(too_deep(&format!("a = \"{}\" # {}", "[".repeat(999), "[".repeat(999))).is_none());
    }
}
