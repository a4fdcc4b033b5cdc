//! What follows the known fields of an access log, and the durations in it.
//!
//! ```text
//!   ... "GET / HTTP/1.1" 200 187 "-" "curl/8" 0.005 "-" rt=0.005
//!                                             |     |   extra.3, and extra.rt
//!                                       extra.1     extra.2
//! ```

use memchr::memchr;

use crate::durations::TimeIs;
use crate::time::Unit;

/// A text behind the known fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extra {
    /// By its number, from 0.
    Number(usize),
    /// The value behind this name and `=`.
    Named(Box<str>),
    /// The part behind the slash of Apache's `%T/%D`, by its number.
    BehindSlash(usize),
}

impl Extra {
    /// Reads `extra.1` and `extra.rt`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix("extra.").filter(|name| !name.is_empty())?;
        match name.parse::<usize>() {
            Ok(number) => number.checked_sub(1).map(Self::Number),
            Err(_) => Some(Self::Named(name.into())),
        }
    }

    /// The text; empty if it is not there.
    pub(super) fn of<'l>(&self, mut texts: impl Iterator<Item = &'l [u8]>) -> &'l [u8] {
        let text = match self {
            Self::Number(number) | Self::BehindSlash(number) => texts.nth(*number),
            Self::Named(name) => texts.find_map(|text| {
                unquoted(text.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")))
            }),
        };
        let text = text.unwrap_or_default();
        match (self, memchr(b'/', text)) {
            (Self::BehindSlash(_), Some(at)) => &text[at + 1..],
            _ => text,
        }
    }

    /// As an option names it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Number(number) | Self::BehindSlash(number) => format!("extra.{}", number + 1),
            Self::Named(name) => format!("extra.{name}"),
        }
    }
}

fn unquoted(text: Option<&[u8]>) -> Option<&[u8]> {
    let inner = |text: &[u8]| matches!(text, [b'"', .., b'"']);
    text.map(|text| if inner(text) { &text[1..text.len() - 1] } else { text })
}

/// The texts of the rest of a line: words, or what stands between quotes.
pub(super) fn texts(rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = rest;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let first = *rest.first()?;
        let quoted = (first == b'"').then(|| memchr(b'"', &rest[1..])).flatten();
        let (text, after) = match quoted {
            Some(end) => (&rest[1..=end], &rest[end + 2..]),
            None => {
                // A value may be quoted: `uct="0.001, 0.002"`.
                let mut is_quoted = false;
                let end = rest.iter().position(|&b| {
                    is_quoted ^= b == b'"';
                    b == b' ' && !is_quoted
                });
                rest.split_at(end.unwrap_or(rest.len()))
            }
        };
        rest = after;
        Some(text)
    })
}

/// Names that nginx's users give to `$request_time`.
const NAMES: [&str; 2] = ["rt", "request_time"];

/// The durations among the texts of some lines: where they are, their unit, and which end of a
/// request the lines' times are.
pub(super) fn durations<'l>(
    lines: impl Iterator<Item = Vec<&'l [u8]>>,
) -> Option<(Extra, Option<Unit>, TimeIs)> {
    let lines: Vec<_> = lines.collect();
    let all = |test: &dyn Fn(&[&[u8]]) -> bool| !lines.is_empty() && lines.iter().all(|texts| test(texts));
    let named = NAMES.iter().map(|name| Extra::Named((*name).into()));
    if let Some(named) =
        named.into_iter().find(|named| all(&|texts| is_nginx(named.of(texts.iter().copied()))))
    {
        return Some((named, Some(Unit::Seconds), TimeIs::End));
    }
    let shortest = lines.iter().map(Vec::len).min()?;
    if let Some(number) = (0..shortest).find(|&number| all(&|texts| is_nginx(texts[number]))) {
        return Some((Extra::Number(number), Some(Unit::Seconds), TimeIs::End));
    }
    // Traefik: number, router, server, duration.
    let is_millis = |text: &[u8]| text.strip_suffix(b"ms").is_some_and(is_whole);
    if all(&|texts| texts.len() == 4 && is_millis(texts[3])) {
        return Some((Extra::Number(3), None, TimeIs::Start));
    }
    // Apache: %D alone, or %T/%D.
    if all(&|texts| matches!(texts, [one] if is_whole(one))) {
        return Some((Extra::Number(0), Some(Unit::Micros), TimeIs::Start));
    }
    let is_both =
        |text: &[u8]| memchr(b'/', text).is_some_and(|at| is_whole(&text[..at]) && is_whole(&text[at + 1..]));
    let both = (0..shortest).find(|&number| all(&|texts| is_both(texts[number])))?;
    Some((Extra::BehindSlash(both), Some(Unit::Micros), TimeIs::Start))
}

/// Whether a text is seconds with three decimals, as nginx writes them.
pub(super) fn is_nginx(text: &[u8]) -> bool {
    match text {
        [whole @ .., b'.', a, b, c] => is_whole(whole) && is_whole(&[*a, *b, *c]),
        _ => false,
    }
}

fn is_whole(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_words_or_quoted() {
        let seen: Vec<_> = texts(b" 0.005 \"a b\" rt=1 uct=\"2, 3\"  \"open").collect();
        assert_eq!(seen, [&b"0.005"[..], b"a b", b"rt=1", b"uct=\"2, 3\"", b"\"open"]);
        let of = |name: &str| Extra::parse(name).map(|extra| extra.of(seen.iter().copied()));
        assert_eq!([of("extra.2"), of("extra.rt")], [Some(&b"a b"[..]), Some(b"1")]);
        assert_eq!([of("extra.uct"), of("extra.9")], [Some(&b"2, 3"[..]), Some(b"")]);
        assert_eq!([of("extra.0"), of("extra."), of("agent")], [None; 3]);
    }

    #[test]
    fn durations_are_known_by_their_shapes() {
        let found =
            |lines: &[&'static str]| durations(lines.iter().map(|line| texts(line.as_bytes()).collect()));
        let seconds = Some(Unit::Seconds);
        let micros = Some(Unit::Micros);
        for (lines, expected) in [
            (
                &["\"-\" 0.005 0.004", "\"10.0.0.1\" 1.000 -"][..],
                Some((Extra::Number(1), seconds, TimeIs::End)),
            ),
            (&["a=1 rt=0.005"], Some((Extra::Named("rt".into()), seconds, TimeIs::End))),
            (&["17 \"web@file\" \"10.0.0.2\" 12ms"], Some((Extra::Number(3), None, TimeIs::Start))),
            (&["5123", "17"], Some((Extra::Number(0), micros, TimeIs::Start))),
            (&["x 0/5123"], Some((Extra::BehindSlash(1), micros, TimeIs::Start))),
            (&["5123", "17 4"], None),
            (&["5123", "-"], None),
            (&["0.05"], None),
            (&[""], None),
            (&[], None),
        ] {
            assert_eq!(found(lines), expected, "{lines:?}");
        }
        assert_eq!(Extra::BehindSlash(0).of(texts(b"0/5123")), b"5123");
    }
}
