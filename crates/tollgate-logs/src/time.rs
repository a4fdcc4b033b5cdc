//! Reads the times of logs as nanoseconds since the Unix epoch. Only integers are used: a fraction
//! keeps every digit down to the nanosecond, and further digits are cut, not rounded.
//!
//! | written as                                   | read as                                   |
//! |----------------------------------------------|-------------------------------------------|
//! | `20/Feb/2016:00:00:45 -0500`                 | with its own offset ([`clf`])             |
//! | `2016-02-20T00:00:45.123456Z`, `...+01:00`   | RFC 3339                                  |
//! | `2016-02-20 00:00:45.1234567`                | the same; without a zone it is UTC        |
//! | `1455944445`, `1455944445.123456`            | Unix seconds                              |
//! | `1455944445123`, `...123456`, `...123456789` | milli-, micro-, nanoseconds, by magnitude |
//!
//! Magnitude: below 10^11 the unit is seconds (up to the year 5138), below 10^14 milliseconds,
//! below 10^17 microseconds, then nanoseconds. The name of a field that ends in `_s`, `_ms`, `_us`
//! or `_ns` states its unit instead. Times before 1970 or after 2554 are refused; second 60 is the
//! next second.

use std::fmt;

use crate::malformed::Refusal;

const SECOND: u64 = 1_000_000_000;
const UNKNOWN: Refusal = "the time is in no known form";
const TOO_EARLY: Refusal = "the time is before 1970";
const TOO_LATE: Refusal = "the time is after 2554";
const NO_SUCH_DATE: Refusal = "the calendar has no such time";

/// The unit of a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// The unit that its magnitude suggests; of a duration, seconds.
    ByMagnitude,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nanos => "nanoseconds",
            Self::Micros => "microseconds",
            Self::Millis => "milliseconds",
            Self::Seconds | Self::ByMagnitude => "seconds",
        })
    }
}

impl Unit {
    /// The unit that a field's name states.
    pub(crate) fn of_field(name: &str) -> Self {
        match name.rsplit_once('_') {
            Some((_, "s")) => Self::Seconds,
            Some((_, "ms")) => Self::Millis,
            Some((_, "us")) => Self::Micros,
            Some((_, "ns")) => Self::Nanos,
            _ => Self::ByMagnitude,
        }
    }

    /// Its length.
    pub(crate) fn nanos(self) -> u64 {
        10_u64.pow(self.digits(0) as u32)
    }

    /// How many decimal digits of a fraction make nanoseconds.
    fn digits(self, whole: u64) -> usize {
        match self {
            Self::Seconds => 9,
            Self::Millis => 6,
            Self::Micros => 3,
            Self::Nanos => 0,
            Self::ByMagnitude => match whole.checked_ilog10() {
                None | Some(..=10) => 9,
                Some(..=13) => 6,
                Some(..=16) => 3,
                Some(_) => 0,
            },
        }
    }
}

/// Reads a time in any form of the table above.
pub(crate) fn read(text: &[u8], unit: Unit) -> Result<u64, Refusal> {
    let text = text.trim_ascii();
    match text {
        [] | [b'-'] => Err("the time is missing"),
        [b'-', ..] => Err(TOO_EARLY),
        [_, _, b'/', ..] => clf(text.try_into().map_err(|_| UNKNOWN)?),
        [_, _, _, _, b'-', ..] => calendar(text),
        _ => number(text, unit),
    }
}

/// Reads `20/Feb/2016:00:00:45 -0500`.
pub(crate) fn clf(text: &[u8; 26]) -> Result<u64, Refusal> {
    ClfTimes::default().read(text)
}

/// Reads times as [`clf`] does. Those of one day and zone after the first cost a fifth.
pub(crate) struct ClfTimes {
    /// `20/Feb/2016:` of the time read last.
    date: [u8; 12],
    /// Its ` -0500`.
    zone: [u8; 6],
    /// When that day begins there, in seconds.
    midnight: i64,
}

impl Default for ClfTimes {
    fn default() -> Self {
        Self { date: *b"01/Jan/1970:", zone: *b" +0000", midnight: 0 }
    }
}

impl ClfTimes {
    pub(crate) fn read(&mut self, text: &[u8; 26]) -> Result<u64, Refusal> {
        let (date, zone) = (&text[..12], &text[20..]);
        if *date != self.date || *zone != self.zone {
            self.midnight = clf_midnight(text)?;
            self.date.copy_from_slice(date);
            self.zone.copy_from_slice(zone);
        }
        if [text[14], text[17]] != *b"::" {
            return Err(UNKNOWN);
        }
        let seconds = second_of_day(two(text, 12)?, two(text, 15)?, two(text, 18)?)?;
        nanos(self.midnight + seconds, 0)
    }
}

/// When the day of `20/Feb/2016:00:00:45 -0500` begins there.
fn clf_midnight(text: &[u8; 26]) -> Result<i64, Refusal> {
    if [text[2], text[6], text[11], text[20]] != *b"//: " {
        return Err(UNKNOWN);
    }
    let month = match &text[3..6] {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return Err("the time names no known month"),
    };
    Ok(midnight(two(text, 7)? * 100 + two(text, 9)?, month, two(text, 0)?)? - offset(&text[21..])?)
}

/// Reads `2016-02-20T00:00:45.123Z` and its relatives.
fn calendar(text: &[u8]) -> Result<u64, Refusal> {
    let (date_time, rest) = text.split_at_checked(19).ok_or(UNKNOWN)?;
    let marks = [date_time[4], date_time[7], date_time[13], date_time[16]];
    if marks != *b"--::" || !matches!(date_time[10], b'T' | b't' | b' ') {
        return Err(UNKNOWN);
    }
    let two = |at| two(date_time, at);
    let midnight = midnight(two(0)? * 100 + two(2)?, two(5)?, two(8)?)?;
    let seconds = second_of_day(two(11)?, two(14)?, two(17)?)?;
    let (fraction, zone) = match rest {
        [b'.' | b',', digits @ ..] => {
            let end = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
            (scaled(&digits[..end], 9)?, &digits[end..])
        }
        _ => (0, rest),
    };
    nanos(midnight + seconds - offset(zone.trim_ascii_start())?, fraction)
}

/// Reads a plain decimal number.
fn number(text: &[u8], unit: Unit) -> Result<u64, Refusal> {
    let point = text.iter().position(|&b| b == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    if !whole.iter().all(u8::is_ascii_digit) {
        return Err(UNKNOWN);
    }
    let whole = whole_number(whole).ok_or(TOO_LATE)?;
    let digits = unit.digits(whole);
    let fraction = fraction.map_or(Ok(0), |text| scaled(text, digits))?;
    let one = 10u64.pow(digits as u32);
    whole.checked_mul(one).and_then(|nanos| nanos.checked_add(fraction)).ok_or(TOO_LATE)
}

/// An unsigned decimal number; `None` for an empty text, another character than a digit, or
/// overflow.
pub(crate) fn whole_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(digit.into())
    })
}

/// The digits after a point as a count of 10^-`digits`; further digits are cut.
fn scaled(text: &[u8], digits: usize) -> Result<u64, Refusal> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(UNKNOWN);
    }
    let digit = |at: usize| text.get(at).map_or(0, |byte| u64::from(byte - b'0'));
    Ok((0..digits).fold(0, |value, at| value * 10 + digit(at)))
}

/// When a day of UTC begins, in seconds since the epoch.
fn midnight(year: i64, month: i64, day: i64) -> Result<i64, Refusal> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return Err(NO_SUCH_DATE),
    };
    if !(1..=longest).contains(&day) {
        return Err(NO_SUCH_DATE);
    }
    // Years begin in March, so that the leap day is the last of its year.
    let year = year - i64::from(month <= 2);
    let month = (month + 9) % 12;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    Ok((year * 365 + leap_days + day_of_year - DAYS_TO_1970) * 86_400)
}

/// Seconds since midnight. Second 60 is the next second.
fn second_of_day(hour: i64, minute: i64, second: i64) -> Result<i64, Refusal> {
    let exists = hour < 24 && minute < 60 && second <= 60;
    if exists { Ok((hour * 60 + minute) * 60 + second) } else { Err(NO_SUCH_DATE) }
}

/// Days from 1 March of the year 0 to the epoch.
const DAYS_TO_1970: i64 = 719_468;

/// Seconds east of Greenwich: empty, `Z`, `UTC`, `+01:00`, `-0500` or `+01`.
fn offset(text: &[u8]) -> Result<i64, Refusal> {
    const WRONG: Refusal = "the time has no UTC offset that is known";
    let (sign, hours, minutes) = match text {
        [] | b"Z" | b"z" | b"UTC" => return Ok(0),
        [sign, hours @ ..] if hours.len() == 2 => (sign, two(hours, 0), Ok(0)),
        [sign, digits @ ..] if digits.len() == 4 => (sign, two(digits, 0), two(digits, 2)),
        [sign, digits @ ..] if digits.len() == 5 && digits[2] == b':' => {
            (sign, two(digits, 0), two(digits, 3))
        }
        _ => return Err(WRONG),
    };
    let (hours, minutes) = (hours.map_err(|_| WRONG)?, minutes.map_err(|_| WRONG)?);
    if hours >= 24 || minutes >= 60 {
        return Err(WRONG);
    }
    match sign {
        b'+' => Ok((hours * 60 + minutes) * 60),
        b'-' => Ok(-(hours * 60 + minutes) * 60),
        _ => Err(WRONG),
    }
}

/// The two-digit number at `at`, which lies within `text`.
fn two(text: &[u8], at: usize) -> Result<i64, Refusal> {
    let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        Err("the time has a letter for a digit")
    } else {
        Ok(i64::from(tens * 10 + ones))
    }
}

/// Adds seconds and a fraction in nanoseconds; refuses times that do not fit.
fn nanos(seconds: i64, fraction: u64) -> Result<u64, Refusal> {
    let seconds = u64::try_from(seconds).map_err(|_| TOO_EARLY)?;
    seconds.checked_mul(SECOND).and_then(|nanos| nanos.checked_add(fraction)).ok_or(TOO_LATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(text: &str) -> Result<u64, Refusal> {
        read(text.as_bytes(), Unit::ByMagnitude)
    }

    // Every expected number is the output of `date -u -d ... +%s`.

    #[test]
    fn a_clf_time_honours_its_own_offset() {
        assert_eq!(any("20/Feb/2016:00:00:45 -0500"), Ok(1_455_944_445 * SECOND));
        assert_eq!(any("20/Feb/2016:05:00:45 +0000"), Ok(1_455_944_445 * SECOND));
        assert_eq!(any("20/Feb/2016:10:30:45 +0530"), Ok(1_455_944_445 * SECOND));
        assert_eq!(any("01/Jan/1970:00:00:00 +0000"), Ok(0));
        assert_eq!(any("31/Dec/1969:19:00:01 -0500"), Ok(SECOND));
    }

    #[test]
    fn clf_times_after_others_are_read_as_each_alone() {
        let mut times = ClfTimes::default();
        let mut texts: Vec<String> = Vec::new();
        for date in ["00/Jan/1970:", "01/Jan/1970:", "20/Feb/2016:", "21/Feb/2016:", "20/Fob/2016:"] {
            for of_day in ["00:00:45", "23:59:60", "24:00:00", "12-00:00", "1x:00:00"] {
                for zone in [" +0000", " -0500", "  0000", "+00000"] {
                    texts.push(format!("{date}{of_day}{zone}"));
                }
            }
        }
        // Each after each other one.
        for first in &texts {
            for second in &texts {
                for text in [first, second] {
                    let text = text.as_bytes().try_into().expect("a time has 26 bytes");
                    assert_eq!(times.read(text), clf(text), "{first}, then {second}");
                }
            }
        }
        assert_eq!(texts.iter().filter(|text| any(text).is_ok()).count(), 12);
        assert_eq!(any("20/Feb/2016:24:00:00 -0500"), Err(NO_SUCH_DATE));
    }

    #[test]
    fn leap_days_exist_only_in_leap_years() {
        assert_eq!(any("29/Feb/2016:12:00:00 +0000"), Ok(1_456_747_200 * SECOND));
        assert_eq!(any("29/Feb/2000:00:00:00 +0000"), Ok(951_782_400 * SECOND));
        assert_eq!(any("01/Mar/2100:00:00:00 +0000"), Ok(4_107_542_400 * SECOND));
        for missing in ["29/Feb/2015", "29/Feb/2100", "31/Apr/2016", "00/Jan/2016", "32/Jan/2016"] {
            assert_eq!(any(&format!("{missing}:00:00:00 +0000")), Err(NO_SUCH_DATE), "{missing}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_day_before() {
        let mut expected = 0;
        for year in 1970..2370 {
            let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
            let february = if leap { 29 } else { 28 };
            for (month, days) in
                [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate()
            {
                for day in 1..=days {
                    let text = format!("{year:04}-{:02}-{day:02}T00:00:00Z", month + 1);
                    assert_eq!(any(&text), Ok(expected), "{text}");
                    expected += 86_400 * SECOND;
                }
            }
        }
    }

    #[test]
    fn fractions_keep_every_digit_down_to_the_nanosecond() {
        assert_eq!(any("2023-11-16 18:17:03.9799600"), Ok(1_700_158_623_979_960_000));
        assert_eq!(any("1521911720.865716"), Ok(1_521_911_720_865_716_000));
        assert_eq!(any("1761019822.3152757"), Ok(1_761_019_822_315_275_700));
        assert_eq!(any("1761019822.123456789999"), Ok(1_761_019_822_123_456_789));
        assert_eq!(any("2013-09-06T20:00:48.124817Z"), Ok(1_378_497_648_124_817_000));
        assert_eq!(any("2013-09-06t22:00:48,5+02:00"), Ok(1_378_497_648_500_000_000));
    }

    #[test]
    fn a_number_has_the_unit_of_field_or_magnitude() {
        let second = 1_712_790_000 * SECOND;
        assert_eq!(any("1712790000"), Ok(second));
        assert_eq!(any("1712790000123"), Ok(second + 123_000_000));
        assert_eq!(any("1712790000123.5"), Ok(second + 123_500_000));
        assert_eq!(any("1712790000123456"), Ok(second + 123_456_000));
        assert_eq!(any("1712790000123456789"), Ok(second + 123_456_789));
        assert_eq!(read(b"5", Unit::of_field("t_ns")), Ok(5));
        assert_eq!(read(b"5", Unit::of_field("sent_us")), Ok(5_000));
        assert_eq!(read(b"5.5", Unit::of_field("t_ms")), Ok(5_500_000));
        assert_eq!(read(b"500000000000", Unit::of_field("t_s")), Err(TOO_LATE));
        assert_eq!(read(b"5", Unit::of_field("ts")), Ok(5 * SECOND));
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        assert_eq!(any(""), Err("the time is missing"));
        assert_eq!(any("-"), Err("the time is missing"));
        assert_eq!(any("-5"), Err(TOO_EARLY));
        assert_eq!(any("31/Dec/1969:23:59:59 +0000"), Err(TOO_EARLY));
        assert_eq!(any("2555-01-01T00:00:00Z"), Err(TOO_LATE));
        assert_eq!(any("99999999999999999999999"), Err(TOO_LATE));
        for text in ["yesterday", "1e9", "12.", ".5x", "2016-02-20", "2016-02-20T00:00:45 CEST"] {
            assert!(any(text).is_err(), "{text}");
        }
        for text in ["20/Fob/2016:00:00:45 -0500", "20/Feb/2016:24:00:45 -0500", "20/Feb/2016:00:00:45 x0500"]
        {
            assert!(any(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_leap_second_is_the_second_after() {
        assert_eq!(any("2016-12-31T23:59:60Z"), any("2017-01-01T00:00:00Z"));
    }
}
