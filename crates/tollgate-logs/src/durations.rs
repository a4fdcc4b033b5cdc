//! How long requests last, and which end of a request the time of its line is.
//!
//! | log | duration | the time of a line |
//! |-----|----------|--------------------|
//! | nginx, `$request_time` | seconds with three decimals | the end |
//! | Apache, `%D` | microseconds | the start |
//! | Envoy, `%DURATION%` | milliseconds | the start |
//! | Caddy, `duration` | seconds | the end |
//! | Traefik | nanoseconds in JSON, `12ms` in lines | the start; of JSON's `time` the end |
//! | any, `duration_ms` and the like | as the name says | the end, unless its name says the start |
//!
//! A text may have its own unit: `1.5s`, `250ms`, `1m2s`. A number without a unit that is known is
//! read as no duration.

use crate::malformed::Refusal;
use crate::time::Unit;

/// Which end of a request the time of its line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum TimeIs {
    /// The request arrived then.
    Start,
    /// Its response ended then.
    #[default]
    End,
}

/// What a file says of when its requests arrive and end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestTimes {
    /// Which end of a request the time of its line is.
    pub time_is: TimeIs,
    /// The field with the durations; `None`: there is none.
    pub field: Option<String>,
    /// The unit of those that do not name theirs; `None`: it is unknown.
    pub unit: Option<Unit>,
    /// A field that looks like one, but for the unit of its numbers.
    pub without_unit: Option<String>,
}

const TOO_LONG: Refusal = "the duration is above 584 years";
const UNKNOWN: Refusal = "the duration is no number of a known unit";
pub(super) const NO_UNIT: Refusal = "the unit of the duration is unknown";

/// The units that a text may name. Of two that begin alike, the longer one comes first.
const UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration in nanoseconds; `None`: there is none.
///
/// # Errors
///
/// Why the text is none, or why it has no unit.
///
/// # Examples
///
/// ```
/// use tollgate_logs::{Unit, read_duration};
///
/// assert_eq!(read_duration(b"1m2.5s", None), Ok(Some(62_500_000_000)));
/// assert_eq!(read_duration(b"0.005", Some(Unit::Seconds)), Ok(Some(5_000_000)));
/// ```
pub fn read(text: &[u8], unit: Option<Unit>) -> Result<Option<u64>, Refusal> {
    let text = std::str::from_utf8(text.trim_ascii()).map_err(|_| UNKNOWN)?;
    match text.as_bytes() {
        [] | [b'-'] => return Ok(None),
        [b'-', ..] => return Err("the duration is negative"),
        _ => {}
    }
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let end = number_end(rest);
        let (number, after) = rest.split_at(end);
        let named = UNITS.iter().find_map(|(name, nanos)| Some((*nanos, after.strip_prefix(name)?)));
        let (one, after) = match named {
            Some(named) => named,
            // Only a number that is alone may leave its unit out.
            None if after.is_empty() && end == text.len() => (unit.ok_or(NO_UNIT)?.nanos(), after),
            None => return Err(UNKNOWN),
        };
        total = total.checked_add(scaled(number, one)?).ok_or(TOO_LONG)?;
        rest = after;
    }
    Ok(Some(total))
}

/// Where a number ends, with its exponent.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().position(|b| !b.is_ascii_digit() && *b != b'.').unwrap_or(rest.len())
    };
    let end = digits(0);
    let exponent = match bytes.get(end..) {
        Some([b'e' | b'E', b'-' | b'+', b'0'..=b'9', ..]) => digits(end + 2),
        Some([b'e' | b'E', b'0'..=b'9', ..]) => digits(end + 1),
        _ => end,
    };
    if end == 0 { 0 } else { exponent }
}

/// A number of units as nanoseconds. A fraction of a nanosecond is cut.
fn scaled(number: &str, one: u64) -> Result<u64, Refusal> {
    if number.contains(['e', 'E']) {
        let nanos = number.parse::<f64>().map_err(|_| UNKNOWN)? * one as f64;
        return if nanos < 1.8e19 { Ok(nanos.round() as u64) } else { Err(TOO_LONG) };
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return Err(UNKNOWN);
    }
    // Only digits are left, so that an error is an overflow.
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(one)).ok_or(TOO_LONG)?;
    let mut place = one;
    let mut nanos = 0;
    for digit in fraction.bytes() {
        place /= 10;
        nanos += u64::from(digit - b'0') * place;
    }
    whole.checked_add(nanos).ok_or(TOO_LONG)
}

/// Usual names of the fields that hold a duration, without the unit that may follow.
#[rustfmt::skip]
const DURATIONS: [&str; 9] = [
    "request_time", "duration", "request_duration", "response_time", "latency", "elapsed", "time_taken",
    "took", "total_time",
];

/// Whether a field usually holds how long a request lasts.
pub(super) fn names_a_duration(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let bare = ["_s", "_ms", "_us", "_ns"].iter().find_map(|suffix| name.strip_suffix(suffix));
    DURATIONS.contains(&bare.unwrap_or(&name))
}

/// The programs whose logs are known by the names of other fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Envoy,
    Caddy,
    Traefik,
}

fn writer(known: &[String]) -> Option<Writer> {
    let has = |names: &[&str]| known.iter().any(|known| names.contains(&&**known));
    match () {
        () if has(&["StartUTC", "StartLocal", "DownstreamStatus", "RequestAddr"]) => Some(Writer::Traefik),
        () if has(&["response_flags", "upstream_cluster", "bytes_received"]) => Some(Writer::Envoy),
        () if has(&["request.remote_ip", "request.client_ip", "resp_headers"]) => Some(Writer::Caddy),
        () => None,
    }
}

/// What the names of a file's fields say: `time` is that of its times, `field` that of its
/// durations.
pub(super) fn of_names(
    known: &[String],
    time: &str,
    field: Option<&str>,
    named_unit: Option<Unit>,
) -> RequestTimes {
    let writer = writer(known);
    let time = time.to_ascii_lowercase();
    let is_start = ["start", "begin"].iter().any(|word| time.contains(word)) || writer == Some(Writer::Envoy);
    let unit = |field: &str| match (Unit::of_field(&field.to_ascii_lowercase()), writer) {
        (unit @ (Unit::Seconds | Unit::Millis | Unit::Micros | Unit::Nanos), _) => Some(unit),
        _ if field.eq_ignore_ascii_case("request_time") => Some(Unit::Seconds),
        _ if !field.eq_ignore_ascii_case("duration") => None,
        (_, Some(Writer::Envoy)) => Some(Unit::Millis),
        (_, Some(Writer::Caddy)) => Some(Unit::Seconds),
        (_, Some(Writer::Traefik)) => Some(Unit::Nanos),
        _ => None,
    };
    RequestTimes {
        time_is: if is_start { TimeIs::Start } else { TimeIs::End },
        field: field.map(str::to_owned),
        unit: named_unit.or_else(|| field.and_then(unit)),
        without_unit: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_the_unit_of_text_or_field() {
        let second = Some(Unit::Seconds);
        for (text, unit, nanos) in [
            ("0.005", second, 5_000_000),
            ("12", Some(Unit::Micros), 12_000),
            ("12.3456789", Some(Unit::Nanos), 12),
            ("0.1234567899", second, 123_456_789),
            ("1.5s", None, 1_500_000_000),
            ("250ms", second, 250_000_000),
            ("1m2.5s", None, 62_500_000_000),
            ("2h", None, 7_200_000_000_000),
            ("3\u{b5}s", None, 3_000),
            ("3\u{3bc}s", None, 3_000),
            ("9.5e-7", second, 950),
            ("1E3", Some(Unit::Millis), 1_000_000_000),
        ] {
            assert_eq!(read(text.as_bytes(), unit), Ok(Some(nanos)), "{text}");
        }
        assert_eq!([read(b"", second), read(b" - ", second)], [Ok(None), Ok(None)]);
    }

    #[test]
    fn other_durations_are_refused_with_a_reason() {
        for text in
            ["NaN", "inf", "+1", "1.2.3", ".5", "5.", "5x", "5 s", "s", "1s2", "1e", "1ms1", "\u{b5}s"]
        {
            assert_eq!(read(text.as_bytes(), Some(Unit::Seconds)), Err(UNKNOWN), "{text}");
        }
        assert_eq!(read(b"\xff", None), Err(UNKNOWN));
        assert_eq!(read(b"-0.001", Some(Unit::Seconds)), Err("the duration is negative"));
        assert_eq!(read(b"5", None), Err(NO_UNIT));
        for text in
            ["18446744074", "99999999999999999999999", "1e300", "584000000h", "18446744073s999999999999s"]
        {
            assert_eq!(read(text.as_bytes(), Some(Unit::Seconds)), Err(TOO_LONG), "{text}");
        }
    }

    #[test]
    fn each_writer_has_its_unit_and_its_end() {
        let times = |known: &[&str], time: &str, field: &str| {
            let known: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
            let times = of_names(&known, time, Some(field), None);
            (times.unit, times.time_is)
        };
        let (start, end) = (TimeIs::Start, TimeIs::End);
        for (known, time, field, expected) in [
            (&["status"][..], "msec", "request_time", (Some(Unit::Seconds), end)),
            (&["response_flags"], "start_time", "duration", (Some(Unit::Millis), start)),
            (&["response_flags"], "timestamp", "duration", (Some(Unit::Millis), start)),
            (&["request.remote_ip"], "ts", "duration", (Some(Unit::Seconds), end)),
            (&["DownstreamStatus"], "time", "Duration", (Some(Unit::Nanos), end)),
            (&["DownstreamStatus"], "StartUTC", "Duration", (Some(Unit::Nanos), start)),
            (&[], "time", "latency_MS", (Some(Unit::Millis), end)),
            (&[], "time", "duration", (None, end)),
        ] {
            assert_eq!(times(known, time, field), expected, "{known:?} {time} {field}");
        }
    }
}
