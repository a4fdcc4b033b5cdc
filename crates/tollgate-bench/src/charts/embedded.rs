//! The front page's picture once more, as text: a Markdown reference that holds the whole picture.
//!
//! docs/engine.md is the front page of the crate's documentation, where a file beside it is out of
//! reach: docs.rs keeps none. There the reference comes first, and of two that have one name
//! Markdown takes the first.

/// The picture of the front page, and the file that holds it as text.
pub(super) const PICTURE: &str = "headline.svg";
pub(super) const TEXT: &str = "headline.uri";

/// A reference called `headline` to a URI that is the picture itself.
pub(super) fn reference(picture: &str) -> String {
    let mut reference = String::from("[headline]: <data:image/svg+xml,");
    for byte in picture.bytes() {
        match byte {
            // Safe in a URI, in Markdown and between angle brackets.
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b' '
            | b'.'
            | b','
            | b':'
            | b';'
            | b'='
            | b'/'
            | b'-' => {
                reference.push(byte.into());
            }
            _ => reference.push_str(&format!("%{byte:02X}")),
        }
    }
    reference.push_str(">\n");
    reference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_the_reference_is_escaped() {
        assert_eq!(
            reference("<svg a=\"1 %\">\n#&\\</svg>"),
            "[headline]: <data:image/svg+xml,%3Csvg a=%221 %25%22%3E%0A%23%26%5C%3C/svg%3E>\n"
        );
    }

    #[test]
    fn the_documentation_has_the_picture_of_the_readme() {
        let charts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/charts");
        let read = |name: &str| std::fs::read_to_string(charts.join(name)).expect(name);
        assert!(read(TEXT) == reference(&read(PICTURE)), "{TEXT} is not {PICTURE}: draw the charts again");
    }
}
