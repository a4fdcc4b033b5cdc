//! The spellings of one value, and of a header's name.
//!
//! Servers take `bearer   t` for `Bearer t`, and some the cookie `"a%62"` for `ab`. A key has one
//! spelling of all that mean the same, so that a client has no limit for each. Steps make it: each
//! works in place.

use super::path::escape;

/// Changes the value that begins here and ends with the buffer.
pub(crate) type Step = fn(&mut Vec<u8>, usize);

/// Whether some server trims this byte: those in Python and JavaScript read a header as Latin-1,
/// which has two blanks beyond ASCII.
fn is_blank(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, 0x85 | 0xA0)
}

/// Whether servers that take another character for `-` in the names of headers read this name as
/// that of the header, which it is not: `_` as CGI, WSGI and Puma, `.` as PHP, any as lighttpd.
///
/// For implementations of [`Request`](crate::Request): see
/// [`Field::Misspelled`](crate::Field::Misspelled).
///
/// # Examples
///
/// ```
/// use tollgate_rules::is_misspelled;
///
/// assert!(is_misspelled("X_Api-Key", "x-api-key"));
/// assert!(is_misspelled("X.Api.Key", "x-api-key"));
/// assert!(!is_misspelled("X-Api-Key", "x-api-key"), "the header itself");
/// assert!(!is_misspelled("X_Api_Keys", "x-api-key"));
/// ```
#[must_use]
pub fn is_misspelled(name: &str, header: &str) -> bool {
    let read = |byte: u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    name.len() == header.len()
        && name.bytes().map(read).eq(header.bytes().map(read))
        && !name.eq_ignore_ascii_case(header)
}

/// Cuts the blanks at both ends.
pub(crate) fn trim(text: &mut Vec<u8>, begin: usize) {
    let is_there = |byte: &u8| !is_blank(*byte);
    text.truncate(text[begin..].iter().rposition(is_there).map_or(begin, |last| begin + last + 1));
    if let Some(first) = text[begin..].iter().position(is_there).filter(|first| *first > 0) {
        text.drain(begin..begin + first);
    }
}

/// Writes ASCII letters small.
#[expect(clippy::ptr_arg, reason = "it is a step")]
pub(crate) fn lower(text: &mut Vec<u8>, begin: usize) {
    text[begin..].make_ascii_lowercase();
}

/// Writes the scheme of credentials as `Bearer` is written, and one blank behind it (RFC 9110,
/// sections 11.1 and 11.4). A value without a scheme keeps its case: it is a secret of its own. Of
/// Basic the base64 has many spellings, too.
pub(crate) fn credentials(text: &mut Vec<u8>, begin: usize) {
    trim(text, begin);
    let Some(scheme) = text[begin..].iter().position(|byte| is_blank(*byte)) else { return };
    let blank = begin + scheme;
    let blanks = text[blank..].iter().take_while(|byte| is_blank(**byte)).count();
    text[blank] = b' ';
    text.drain(blank + 1..blank + blanks);
    text[begin..blank].make_ascii_lowercase();
    text[begin..=begin].make_ascii_uppercase();
    if text[begin..=blank] == *b"Basic " {
        base64(text, blank + 1);
    }
}

/// Writes base64 as it is encoded. Python, PHP and Node skip other letters and the bits beyond
/// the last byte, and Python skips all behind the padding.
fn base64(text: &mut Vec<u8>, begin: usize) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut to, mut padding) = (begin, 0);
    for at in begin..text.len() {
        let (byte, digits) = (text[at], (to - begin) % 4);
        if DIGITS.contains(&byte) {
            text[to] = byte;
            (to, padding) = (to + 1, 0);
        } else if byte == b'=' && digits >= 2 {
            padding += 1;
            if digits + padding == 4 {
                break;
            }
        }
    }
    text.truncate(to);
    let digits = (to - begin) % 4;
    if digits >= 2 {
        let mask = if digits == 2 { !0b1111 } else { !0b11 };
        let value = DIGITS.iter().position(|digit| *digit == text[to - 1]).unwrap_or(0);
        text[to - 1] = DIGITS[value & mask];
        text.extend_from_slice(&b"=="[digits - 2..]);
    }
}

/// Takes a value out of its quotes, with what backslashes escape in it, as `http.cookies` of Python
/// and frameworks on it do. Others take the quotes alone off.
pub(crate) fn unquote(text: &mut Vec<u8>, begin: usize) {
    let [b'"', .., b'"'] = text[begin..] else { return };
    let (mut at, mut to, end) = (begin + 1, begin, text.len() - 1);
    while at < end {
        let (byte, length) = match text[at..end] {
            [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', ..] => {
                ((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'), 4)
            }
            [b'\\', byte, ..] => (byte, 2),
            _ => (text[at], 1),
        };
        text[to] = byte;
        (at, to) = (at + length, to + 1);
    }
    text.truncate(to);
}

/// Decodes the escapes of a value. A broken one stays.
pub(crate) fn decode(text: &mut Vec<u8>, begin: usize) {
    let (mut at, mut to) = (begin, begin);
    while at < text.len() {
        let (byte, length) = escape(&text[at..]).map_or((text[at], 1), |byte| (byte, 3));
        text[to] = byte;
        (at, to) = (at + length, to + 1);
    }
    text.truncate(to);
}

/// Reads a `+` as a blank.
#[expect(clippy::ptr_arg, reason = "it is a step")]
pub(crate) fn blank_pluses(text: &mut Vec<u8>, begin: usize) {
    text[begin..].iter_mut().filter(|byte| **byte == b'+').for_each(|byte| *byte = b' ');
}

/// Decodes a name or value of a query or a form.
pub(crate) fn decode_form(text: &mut Vec<u8>, begin: usize) {
    blank_pluses(text, begin);
    decode(text, begin);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a step makes of a value behind others.
    fn of(step: Step, text: &str) -> String {
        let mut bytes = [b"other ", text.as_bytes()].concat();
        step(&mut bytes, 6);
        assert_eq!(&bytes[..6], b"other ", "{text}");
        String::from_utf8_lossy(&bytes[6..]).into_owned()
    }

    #[test]
    fn steps_make_one_spelling() {
        for (text, spelling) in [
            ("Bearer t", "Bearer t"),
            ("bEARER \t  T  ", "Bearer T"),
            (" DPoP a b", "Dpop a b"),
            ("Basic dTpwMQ==", "Basic dTpwMQ=="),
            ("bASIC dT!pw\tM-R==junk", "Basic dTpwMQ=="),
            ("Basic =d=TpwM=Q", "Basic dTpwMQ=="),
            ("Basic dTpwMTK=", "Basic dTpwMTI="),
            ("Basic dTpw====", "Basic dTpw"),
            ("Basic d", "Basic d"),
            ("Basic =", "Basic "),
            ("Bearer", "Bearer"),
            ("bearer ", "bearer"),
            ("seCret", "seCret"),
            ("  ", ""),
            ("", ""),
        ] {
            assert_eq!(of(credentials, text), spelling, "{text:?}");
        }
        for (text, value) in [
            (r#""ab""#, "ab"),
            (r#""a\142\"\\c""#, r#"ab"\c"#),
            (r#""\777\4x\""#, r"7774x\"),
            (r#"ab""#, r#"ab""#),
            ("\"", "\""),
            ("\"\"", ""),
            ("", ""),
        ] {
            assert_eq!(of(unquote, text), value, "{text:?}");
        }
        for (text, value, form) in
            [("%61+%2b%", "a++%", "a +%"), ("%6", "%6", "%6"), ("%%41", "%A", "%A"), ("%2525", "%25", "%25")]
        {
            assert_eq!((of(decode, text), of(decode_form, text)), (value.into(), form.into()), "{text:?}");
        }
        let mut latin1 = b"bearer \xa0t\x85".to_vec();
        credentials(&mut latin1, 0);
        assert_eq!(latin1, b"Bearer t");
    }
}
