//! Where in a JSON text an error is, as a JSON pointer (RFC 6901).

/// An object or an array that is open at the error.
enum Open<'t> {
    Object {
        /// The raw text of the key whose value is read.
        key: Option<&'t [u8]>,
        expects_key: bool,
    },
    Array {
        index: usize,
        /// Whether its element has begun.
        has_begun: bool,
    },
}

/// Returns the pointer to the value of `text` in which the byte at a line and a column is, both
/// from 1, as `serde_json` counts them. The text need not be JSON.
pub(crate) fn pointer_at(text: &[u8], line: usize, column: usize) -> String {
    let lines_before = text.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1));
    let offset = lines_before.map(<[u8]>::len).sum::<usize>().saturating_add(column);
    pointer(&text[..offset.min(text.len())])
}

/// Returns the pointer to the value at the end of a text.
fn pointer(text: &[u8]) -> String {
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if !matches!(byte, b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t')
            && let Some(Open::Array { has_begun, .. }) = open.last_mut()
        {
            *has_begun = true;
        }
        match byte {
            b'"' => {
                let content = &text[at..];
                let length = string_length(content);
                if let Some(Open::Object { key, expects_key: true }) = open.last_mut() {
                    *key = Some(&content[..length]);
                }
                at += length + 1;
            }
            b'{' => open.push(Open::Object { key: None, expects_key: true }),
            b'[' => open.push(Open::Array { index: 0, has_begun: false }),
            b'}' | b']' => {
                open.pop();
            }
            b':' => {
                if let Some(Open::Object { expects_key, .. }) = open.last_mut() {
                    *expects_key = false;
                }
            }
            b',' => match open.last_mut() {
                Some(Open::Array { index, has_begun }) => (*index, *has_begun) = (*index + 1, false),
                Some(Open::Object { key, expects_key }) => (*key, *expects_key) = (None, true),
                None => {}
            },
            _ => {}
        }
    }
    let mut pointer = String::new();
    for one in open {
        match one {
            Open::Object { key: Some(key), .. } => {
                pointer.push('/');
                pointer += &unescaped(key).replace('~', "~0").replace('/', "~1");
            }
            Open::Array { index, has_begun: true } => pointer += &format!("/{index}"),
            Open::Object { key: None, .. } | Open::Array { .. } => {}
        }
    }
    pointer
}

/// Returns the length of a string up to its quote, or to the end.
fn string_length(content: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = content.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    content.len()
}

fn unescaped(key: &[u8]) -> String {
    let quoted = [b"\"", key, b"\""].concat();
    serde_json::from_slice(&quoted).unwrap_or_else(|_| String::from_utf8_lossy(key).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_to_the_value_at_the_end() {
        for (text, expected) in [
            ("", ""),
            ("{\"a\"", "/a"),
            ("{\"a\":1", "/a"),
            ("{\"a\":{", "/a"),
            ("{\"a\":[", "/a"),
            ("{\"a\":[ {\"b", "/a/0/b"),
            ("{\"a\":[1,{\"x\":2},\"]\"", "/a/2"),
            ("{\"a\":[1,2],\"b\":{}", "/b"),
            ("{\"a\":1,", ""),
            ("{\"a/b~\\\"\":tru", "/a~1b~0\""),
            ("{\"a\\", "/a\\"),
            ("]}]}:,", ""),
            ("{}", ""),
        ] {
            assert_eq!(pointer(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn lines_and_columns_beyond_the_text_are_its_end() {
        assert_eq!(pointer_at(b"{\n\"a\":\n7}", 3, 1), "/a");
        assert_eq!(pointer_at(b"{\n\"a\":7", 9, 9), "/a");
        assert_eq!(pointer_at(b"{\n\"a\":7", 0, 0), "");
    }
}
