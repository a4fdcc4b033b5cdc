//! Text from a log, made harmless and visible.
//!
//! A key is whatever a client sent. In the page it stands only in element text and in quoted
//! attributes, never in a script or a style, and both places are safe once the five characters with a
//! meaning are entities. Characters that would hide or reorder their neighbours (controls, bidirectional
//! overrides, zero-width ones) are shown as Rust would write them: `\u{202e}`.

use std::fmt;

/// A name longer than this is elided in the middle.
const LONGEST: usize = 56;
/// What is kept of an elided name: its beginning says what it is, its end tells it from its neighbours.
const HEAD: usize = 34;
const TAIL: usize = 18;

/// Text that may stand in element content and in quoted attributes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a>(pub(super) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if hides(c) => write!(f, "{}", c.escape_default())?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// A key as an element: set apart from the direction of the text around it, elided when long, and then
/// whole in its `title`.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyName<'a>(pub(super) &'a str);

impl fmt::Display for KeyName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.0;
        if key.is_empty() {
            return f.write_str(r#"<em class="empty">(empty)</em>"#);
        }
        match elided(key) {
            None => write!(f, "<bdi>{}</bdi>", Text(key)),
            Some((head, tail)) => {
                write!(f, r#"<bdi title="{}">{}…{}</bdi>"#, Text(key), Text(head), Text(tail))
            }
        }
    }
}

/// The two ends of a name that is too long to show; `None` when it can be shown whole.
fn elided(name: &str) -> Option<(&str, &str)> {
    name.char_indices().nth(LONGEST)?;
    let (head, _) = name.char_indices().nth(HEAD)?;
    let (tail, _) = name.char_indices().nth_back(TAIL - 1)?;
    Some((&name[..head], &name[tail..]))
}

/// Whether a character would hide or reorder what stands around it.
fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_key_is_only_text() {
        let key = r#"</script><img src=x onerror="alert('1')">&amp;"#;
        let shown = Text(key).to_string();
        assert!(!shown.contains(['<', '>', '"', '\'']));
        assert!(shown.starts_with("&lt;/script&gt;"));
        assert!(shown.ends_with("&amp;amp;"));
    }

    #[test]
    fn characters_that_hide_are_shown() {
        assert_eq!(Text("a\n\0\u{1b}[2J\u{202e}b").to_string(), r"a\n\u{0}\u{1b}[2J\u{202e}b");
        assert_eq!(Text("grün 日本").to_string(), "grün 日本");
    }

    #[test]
    fn a_long_key_keeps_both_ends_and_is_whole_in_its_title() {
        let key = format!("/begin\"{}end", "é".repeat(500));
        let shown = KeyName(&key).to_string();
        assert!(shown.contains(&format!(r#"title="{}""#, Text(&key))));
        let visible = shown.split_once('>').unwrap().1;
        assert!(visible.starts_with("/begin&quot;é") && visible.ends_with("éend</bdi>"));
        assert!(visible.contains('…'));
        assert_eq!(elided(&key).map(|(head, tail)| head.chars().count() + tail.chars().count()), Some(52));
    }

    #[test]
    fn a_key_that_fits_is_whole_and_an_empty_one_is_named() {
        let key = "k".repeat(LONGEST);
        assert_eq!(KeyName(&key).to_string(), format!("<bdi>{key}</bdi>"));
        assert!(KeyName("").to_string().contains("(empty)"));
    }
}
