//! One spelling of a value that clients may write in many, so that they have no limit for each.
//!
//! Servers take `bearer   t` for `Bearer t`, and some the cookie `"a%62"` for `ab`. Each function
//! here writes a value in the one spelling of all that mean the same, in place.
//!
//! # Examples
//!
//! ```
//! use tollgate::spelling::{cookie, credentials, respell};
//!
//! let mut key = b"user:bEARER   secret".to_vec();
//! respell(&mut key, 5, credentials);
//! assert_eq!(key, b"user:Bearer secret");
//!
//! let mut session = br#""\141%62c""#.to_vec();
//! respell(&mut session, 0, cookie);
//! assert_eq!(session, b"abc");
//! ```

/// A function that writes a value in one spelling.
pub type Spelling = fn(&mut [u8]) -> Spelled;

/// Where a spelling ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the bytes behind it are left over"]
pub struct Spelled {
    /// The bytes of the slice that are part of it: the first ones.
    pub len: usize,
    /// What follows them: the padding that a Base64 text lacked.
    pub padding: &'static [u8],
}

impl Spelled {
    const fn first(len: usize) -> Self {
        Self { len, padding: b"" }
    }
}

/// Respells the value that begins here and ends with the buffer.
pub fn respell(text: &mut Vec<u8>, begin: usize, spelling: Spelling) {
    let Spelled { len, padding } = spelling(&mut text[begin..]);
    text.truncate(begin + len);
    text.extend_from_slice(padding);
}

/// Whether some server trims this byte: those in Python and JavaScript read a header as Latin-1,
/// which has two blanks beyond ASCII.
fn is_blank(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, 0x85 | 0xA0)
}

/// Cuts the blanks at both ends.
pub fn trim(text: &mut [u8]) -> Spelled {
    let is_there = |byte: &u8| !is_blank(*byte);
    let end = text.iter().rposition(is_there).map_or(0, |last| last + 1);
    let begin = text[..end].iter().position(is_there).unwrap_or(end);
    text.copy_within(begin..end, 0);
    Spelled::first(end - begin)
}

/// Writes ASCII letters small.
pub fn lower(text: &mut [u8]) -> Spelled {
    text.make_ascii_lowercase();
    Spelled::first(text.len())
}

/// Writes the scheme of credentials as `Bearer` is written, and one blank behind it (RFC 9110,
/// sections 11.1 and 11.4). A value without a scheme keeps its case: it is a secret of its own. Of
/// Basic the Base64 has many spellings, too.
pub fn credentials(text: &mut [u8]) -> Spelled {
    let Spelled { len, .. } = trim(text);
    let Some(blank) = text[..len].iter().position(|byte| is_blank(*byte)) else { return Spelled::first(len) };
    let blanks = text[blank..len].iter().take_while(|byte| is_blank(**byte)).count();
    text[blank] = b' ';
    text.copy_within(blank + blanks..len, blank + 1);
    let len = len + 1 - blanks;
    text[..blank].make_ascii_lowercase();
    text[..1].make_ascii_uppercase();
    if text[..=blank] != *b"Basic " {
        return Spelled::first(len);
    }
    let Spelled { len: digits, padding } = base64(&mut text[blank + 1..len]);
    Spelled { len: blank + 1 + digits, padding }
}

/// Writes Base64 as it is encoded. Python, PHP and Node skip other letters and the bits beyond
/// the last byte, and Python skips all behind the padding.
fn base64(text: &mut [u8]) -> Spelled {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut to, mut padding) = (0, 0);
    for at in 0..text.len() {
        let (byte, digits) = (text[at], to % 4);
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
    let (mask, padding): (usize, &[u8]) = match to % 4 {
        2 => (!0b1111, b"=="),
        3 => (!0b11, b"="),
        _ => return Spelled::first(to),
    };
    let value = DIGITS.iter().position(|digit| *digit == text[to - 1]).unwrap_or(0);
    text[to - 1] = DIGITS[value & mask];
    Spelled { len: to, padding }
}

/// Writes a cookie's value without quotes and escapes, and a `+` as a blank, as the servers read it
/// that decode most.
pub fn cookie(text: &mut [u8]) -> Spelled {
    let len = unquote(text).len;
    let len = decode(&mut text[..len]).len;
    blank_pluses(&mut text[..len])
}

/// Takes a value out of its quotes, with what backslashes escape in it, as `http.cookies` of Python
/// and frameworks on it do. Others take the quotes alone off.
pub fn unquote(text: &mut [u8]) -> Spelled {
    let [b'"', .., b'"'] = text else { return Spelled::first(text.len()) };
    let (mut at, mut to, end) = (1, 0, text.len() - 1);
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
    Spelled::first(to)
}

/// Decodes the escapes of a value. A broken one stays.
pub fn decode(text: &mut [u8]) -> Spelled {
    let (mut at, mut to) = (0, 0);
    while at < text.len() {
        let (byte, length) = escape(&text[at..]).map_or((text[at], 1), |byte| (byte, 3));
        text[to] = byte;
        (at, to) = (at + length, to + 1);
    }
    Spelled::first(to)
}

/// Decodes a name or value of a query or a form.
pub fn decode_form(text: &mut [u8]) -> Spelled {
    let _ = blank_pluses(text);
    decode(text)
}

/// Reads a `+` as a blank.
fn blank_pluses(text: &mut [u8]) -> Spelled {
    text.iter_mut().filter(|byte| **byte == b'+').for_each(|byte| *byte = b' ');
    Spelled::first(text.len())
}

/// Returns the byte of the percent-escape with which a text begins.
#[must_use]
pub fn escape(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match text {
        [b'%', high, low, ..] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a spelling makes of a value behind others.
    fn of(spelling: Spelling, text: &str) -> String {
        let mut bytes = [b"other ", text.as_bytes()].concat();
        respell(&mut bytes, 6, spelling);
        assert_eq!(&bytes[..6], b"other ", "{text}");
        String::from_utf8_lossy(&bytes[6..]).into_owned()
    }

    #[test]
    fn what_means_the_same_has_one_spelling() {
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
        respell(&mut latin1, 0, credentials);
        assert_eq!(latin1, b"Bearer t");
    }
}
