//! Texts of a rules file.

/// A text in quotes. The escapes of JSON are those of TOML, except that TOML has DEL escaped, too.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A list of texts.
pub(super) fn list(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

/// A text in a comment: in one line, and without control characters.
pub(super) fn comment(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_its_quotes_and_ends_no_comment() {
        let text = "a\"b\\c\n\r\t\u{8}\u{c}\u{0}\u{1f}\u{7f}\u{85}é\u{2028}'";
        let read: toml::Table =
            toml::from_str(&format!("a = {} # {}\n", quote(text), comment(text))).unwrap();
        assert_eq!(read["a"].as_str(), Some(text));
    }
}
