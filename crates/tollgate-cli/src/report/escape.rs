//! Escapes text from a log for the page.
//!
//! A client may send any bytes as a key. The page has keys only in element text and in quoted
//! attributes, never in a script or a style. Both are safe once the five characters with a meaning
//! are entities. Characters that would hide or reorder others (controls, bidirectional overrides,
//! zero-width characters) are shown as in Rust: `\u{202e}`.

use std::fmt;

/// A longer key is elided in the middle.
const MAX_SHOWN: usize = 56;
/// How many characters of an elided key are shown at its beginning and at its end. Similar keys
/// often differ only at the end.
const HEAD: usize = 34;
const TAIL: usize = 18;

/// Text for element content and quoted attributes.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(pub &'a str);

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

/// A key as an element, isolated from the direction of the text around it. A long key is elided,
/// and its `title` has all of it.
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

/// The two ends of a key that is too long to show; `None` when it can be shown whole.
fn elided(key: &str) -> Option<(&str, &str)> {
    key.char_indices().nth(MAX_SHOWN)?;
    let (head, _) = key.char_indices().nth(HEAD)?;
    let (tail, _) = key.char_indices().nth_back(TAIL - 1)?;
    Some((&key[..head], &key[tail..]))
}

/// Whether a character would hide or reorder the text around it.
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
    fn a_long_key_is_elided_and_whole_in_its_title() {
        let key = format!("/begin\"{}end", "é".repeat(500));
        let shown = KeyName(&key).to_string();
        assert!(shown.contains(&format!(r#"title="{}""#, Text(&key))));
        let visible = shown.split_once('>').unwrap().1;
        assert!(visible.starts_with("/begin&quot;é") && visible.ends_with("éend</bdi>"));
        assert!(visible.contains('…'));
        assert_eq!(elided(&key).map(|(head, tail)| head.chars().count() + tail.chars().count()), Some(52));
    }

    #[test]
    fn a_short_key_is_whole_and_an_empty_one_named() {
        let key = "k".repeat(MAX_SHOWN);
        assert_eq!(KeyName(&key).to_string(), format!("<bdi>{key}</bdi>"));
        assert!(KeyName("").to_string().contains("(empty)"));
    }
}
