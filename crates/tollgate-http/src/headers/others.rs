//! The limit headers that a response has already: those of the service that made it.
//!
//! A client reads all limit headers of a response together, so they must tell one limit.

use std::cmp::Reverse;

use http::HeaderName;
use http::header::RETRY_AFTER;

use super::HeaderSink;
use super::written::{RATELIMIT, unix_now};

/// How the names of headers begin that tell the rest of a limit, and for how long.
const DIALECTS: [&str; 3] = ["x-ratelimit-", "x-rate-limit-", "ratelimit-"];

/// A reset above this is in Unix time.
const EPOCHS: u64 = 1_000_000_000;

/// How much a limit leaves, and for how many seconds: the less of two is the stricter.
pub(super) type Strictness = (u64, Reverse<u64>);

/// Whether a header tells of a limit.
pub(super) fn tells_of_limits(name: &HeaderName) -> bool {
    let name = name.as_str();
    let begins = matches!(name.as_bytes().first(), Some(b'r' | b'x'));
    begins && (name == RATELIMIT.as_str() || DIALECTS.iter().any(|begin| name.starts_with(begin)))
}

/// What a client reads of the strictest of these limits. `None` if it can read none.
///
/// A response with `Retry-After` leaves nothing.
pub(super) fn strictest(headers: &impl HeaderSink) -> Option<Strictness> {
    let mut strictest: Option<Strictness> = None;
    let mut add = |remaining: u64, reset: Option<u64>| {
        let one = (remaining, Reverse(reset.unwrap_or(0)));
        strictest = Some(strictest.map_or(one, |other| other.min(one)));
    };
    // A date is a time that is not known.
    headers.read(&RETRY_AFTER, &mut |value| add(0, Some(number(value).unwrap_or(u64::MAX))));
    headers.read(&RATELIMIT, &mut |value| {
        if let Some(remaining) = behind(value, b"remaining=") {
            add(remaining, behind(value, b"reset="));
        }
        for item in value.split(|byte| *byte == b',') {
            if let Some(remaining) = behind(item, b";r=") {
                add(remaining, behind(item, b";t="));
            }
        }
    });
    for begin in DIALECTS {
        let first = |what: &str| {
            let name = HeaderName::try_from(format!("{begin}{what}")).ok()?;
            let mut first = None;
            headers.read(&name, &mut |value| first = first.or_else(|| number(value)));
            first
        };
        if let Some(remaining) = first("remaining") {
            let left =
                |reset: u64| if reset > EPOCHS { reset.saturating_sub(unix_now().as_secs()) } else { reset };
            add(remaining, first("reset").map(left));
        }
    }
    strictest
}

/// The number that follows a text, with blanks between or none.
fn behind(value: &[u8], text: &[u8]) -> Option<u64> {
    // `;r=` may be written `; r=`.
    let plain: Vec<u8> = value.iter().copied().filter(|byte| *byte != b' ').collect();
    let at = plain.windows(text.len()).position(|part| part == text)?;
    number(&plain[at + text.len()..])
}

/// The number that a value begins with.
fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii_start();
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&value[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    #[test]
    fn what_is_left_is_read_in_every_dialect() {
        let day = unix_now().as_secs() + 86_400;
        for (lines, remaining, reset) in [
            (&[("ratelimit", "\"a\";r=7;t=2, \"b\"; r=3; t=60")][..], 3, 60..=60),
            (&[("ratelimit", "limit=100, remaining=50, reset=5")], 50, 5..=5),
            (&[("ratelimit", "\"a\";r=7"), ("ratelimit", "\"b\";r=3;t=9")], 3, 9..=9),
            (&[("ratelimit-remaining", "4"), ("ratelimit-reset", "9")], 4, 9..=9),
            (&[("x-ratelimit-remaining", "0, 0;w=60"), ("x-ratelimit-reset", "12.5")], 0, 12..=12),
            (
                &[("x-rate-limit-remaining", "1"), ("x-rate-limit-reset", &day.to_string())],
                1,
                86_398..=86_400,
            ),
            (&[("x-ratelimit-remaining", "5"), ("ratelimit", "\"a\";r=6;t=1")], 5, 0..=0),
            (&[("x-ratelimit-remaining", "5"), ("retry-after", "30")], 0, 30..=30),
            (&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], 0, u64::MAX..=u64::MAX),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_str(value).unwrap());
            }
            let (left, Reverse(until)) = strictest(&headers).unwrap();
            assert!(left == remaining && reset.contains(&until), "{lines:?}: {left} for {until}");
        }
        let unread = ["x-ratelimit-limit", "ratelimit-policy", "x-ratelimit-remaining", "content-type"];
        for name in unread {
            let name = HeaderName::from_static(name);
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static("many"))]);
            assert_eq!(strictest(&headers), None, "{name}");
            assert_eq!(tells_of_limits(&name), name != "content-type");
        }
    }
}
