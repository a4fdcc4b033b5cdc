//! The words of a command that is a line, with quotes as `redis-cli` has them.

use std::ops::Range;

/// Splits a line into words, which it leaves in `words` and `ranges`. `None`: a quote is not
/// closed, or text follows its end.
pub(super) fn split(line: &[u8], words: &mut Vec<u8>, ranges: &mut Vec<Range<usize>>) -> Option<()> {
    words.clear();
    ranges.clear();
    let mut rest = line.trim_ascii_start();
    while let Some(first) = rest.first() {
        let begin = words.len();
        rest = match first {
            b'"' => double_quoted(&rest[1..], words)?,
            b'\'' => single_quoted(&rest[1..], words)?,
            _ => plain(rest, words)?,
        };
        ranges.push(begin..words.len());
        rest = rest.trim_ascii_start();
    }
    Some(())
}

/// A word that begins without a quote; a quote inside begins a quoted part, which ends the word.
fn plain<'l>(mut rest: &'l [u8], words: &mut Vec<u8>) -> Option<&'l [u8]> {
    while let Some((byte, behind)) = rest.split_first() {
        match byte {
            b'"' => return double_quoted(behind, words),
            b'\'' => return single_quoted(behind, words),
            byte if byte.is_ascii_whitespace() || *byte == 0 => break,
            byte => words.push(*byte),
        }
        rest = behind;
    }
    // Redis takes a zero byte for an end.
    Some(rest.strip_prefix(b"\0").unwrap_or(rest))
}

fn single_quoted<'l>(mut rest: &'l [u8], words: &mut Vec<u8>) -> Option<&'l [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'\'', behind @ ..] => {
                words.push(b'\'');
                behind
            }
            [b'\'', behind @ ..] => return ended(behind),
            [byte, behind @ ..] => {
                words.push(*byte);
                behind
            }
            [] => return None,
        };
    }
}

fn double_quoted<'l>(mut rest: &'l [u8], words: &mut Vec<u8>) -> Option<&'l [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                words.push(hex(*high) << 4 | hex(*low));
                behind
            }
            [b'\\', escaped, behind @ ..] => {
                words.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                behind
            }
            [b'"', behind @ ..] => return ended(behind),
            [byte, behind @ ..] => {
                words.push(*byte);
                behind
            }
            [] => return None,
        };
    }
}

/// What follows a closing quote: white space, or nothing.
fn ended(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some(rest)
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or_default() as u8
}
