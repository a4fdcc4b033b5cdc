//! Whole numbers, and lengths of time.

use std::time::Duration;

use super::error::Problem;

/// The nanoseconds of each unit, and its names. Errors list the first name.
const UNITS: [(u64, &[&str]); 8] = [
    (1, &["ns"]),
    (1_000, &["us", "µs", "μs"]),
    (1_000_000, &["ms"]),
    (1_000_000_000, &["s", "sec", "second", "seconds"]),
    (60_000_000_000, &["min", "m", "minute", "minutes"]),
    (3_600_000_000_000, &["h", "hour", "hours"]),
    (86_400_000_000_000, &["d", "day", "days"]),
    (604_800_000_000_000, &["w", "week", "weeks"]),
];

static UNIT_NAMES: [&str; 8] = ["ns", "us", "ms", "s", "min", "h", "d", "w"];

/// The units that have no fixed length, and what to write for each.
static CALENDAR: [(&[&str], [&str; 1]); 2] =
    [(&["month", "months", "mo"], ["30d"]), (&["year", "years", "y"], ["365d"])];

/// A whole number. Underscores may separate its digits.
pub(super) fn whole(text: &str) -> Result<u64, Problem<'_>> {
    whole_such_as(text, &["a whole number, such as 100 or 1_000"])
}

/// The same, where other numbers are usual.
pub(super) fn whole_such_as<'t>(text: &'t str, example: &'static [&'static str]) -> Result<u64, Problem<'t>> {
    static SMALL: [&str; 1] = ["at most 18446744073709551615"];
    let digits = digits(text).ok_or(Problem::new(text, "is no number", example))?;
    digits.parse().map_err(|_| Problem::new(text, "is too large", &SMALL))
}

/// A unit with an optional number before it.
pub(super) fn period(text: &str) -> Result<Duration, Problem<'_>> {
    static NUMBER: [&str; 1] = ["a number, such as 10 or 1.5"];
    static NANOS: [&str; 1] =
        ["a whole number of nanoseconds, and a length of time that fits 64 bits in seconds"];
    let is_number = |c: char| matches!(c, '0'..='9' | '.' | '_');
    let (number, unit) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    let unit = unit.trim_start();
    let known = UNITS.iter().find(|(_, names)| names.contains(&unit));
    let (nanos, _) = known.ok_or_else(|| match CALENDAR.iter().find(|(names, _)| names.contains(&unit)) {
        Some((_, instead)) => Problem::new(unit, "has no fixed length", instead),
        None => Problem::new(unit, "is no unit of time", &UNIT_NAMES),
    })?;
    if number.is_empty() {
        return Ok(Duration::from_nanos(*nanos));
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let (Some(whole), Some(fraction)) = (digits(whole), digits(fraction)) else {
        return Err(Problem::new(number, "is no number", &NUMBER));
    };
    scaled(&whole, fraction.trim_end_matches('0'), *nanos).ok_or(Problem::new(
        text,
        "is out of range",
        &NANOS,
    ))
}

/// `whole.fraction` times `unit` nanoseconds. `None` when the result is not a whole number or is
/// too large.
fn scaled(whole: &str, fraction: &str, unit: u64) -> Option<Duration> {
    let unit = u128::from(unit);
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let rest = parts.checked_mul(unit)?;
    if rest % scale != 0 {
        return None;
    }
    let nanos = whole.parse::<u128>().ok()?.checked_mul(unit)?.checked_add(rest / scale)?;
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

/// The digits without underscores between them. `None` for any other character, or no digit.
fn digits(text: &str) -> Option<String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let ends = [text.bytes().next()?, text.bytes().next_back()?];
    (is_number && !ends.contains(&b'_')).then(|| text.replace('_', ""))
}
