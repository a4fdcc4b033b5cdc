//! Formats numbers for people: grouped digits, shares, durations, rates.

use super::calendar::{DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND};

/// A narrow space that keeps a number and its unit on one line.
const SPACE: char = '\u{202f}';

/// `206,860`
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 key`, `97 keys`
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// `950`, `12k`, `1.5M`: for the labels of an axis.
#[must_use]
pub fn compact(n: u64) -> String {
    let (unit, name) = match n {
        0..10_000 => return grouped(n),
        10_000..1_000_000 => (1_000, 'k'),
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        _ => (1_000_000_000, 'G'),
    };
    let tenth = n % unit * 10 / unit;
    let whole = grouped(n / unit);
    if tenth == 0 { format!("{whole}{name}") } else { format!("{whole}.{tenth}{name}") }
}

/// A share in per cent to two digits or more. Only none of `whole` is shown as 0 %, only all of it
/// as 100 %. A share that is a whole number of per cent is shown as one.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return format!("0{SPACE}%");
    }
    let hundredfold = u128::from(part) * 100;
    if hundredfold.is_multiple_of(u128::from(whole)) {
        return format!("{}{SPACE}%", hundredfold / u128::from(whole));
    }
    let share = part as f64 / whole as f64 * 100.0;
    let digits = match share {
        ..0.001 => "under 0.001".to_owned(),
        ..0.0995 => format!("{share:.3}"),
        ..0.995 => format!("{share:.2}"),
        ..99.95 => format!("{share:.1}"),
        _ => "over 99.9".to_owned(),
    };
    format!("{digits}{SPACE}%")
}

/// A duration in its two largest units: `23 h 59 min`.
#[must_use]
pub fn span(ns: u64) -> String {
    const UNITS: [(u64, &str, &str); 7] = [
        (365 * DAY, "year", "years"),
        (DAY, "day", "days"),
        (HOUR, "h", "h"),
        (MINUTE, "min", "min"),
        (SECOND, "s", "s"),
        (MILLISECOND, "ms", "ms"),
        (MICROSECOND, "µs", "µs"),
    ];
    let Some(largest) = UNITS.iter().position(|&(unit, ..)| ns >= unit) else {
        return format!("{ns}{SPACE}ns");
    };
    let mut rest = ns;
    let mut parts = Vec::new();
    for &(unit, one, many) in UNITS[largest..].iter().take(2) {
        let count = rest / unit;
        rest %= unit;
        if count > 0 {
            parts.push(format!("{}{SPACE}{}", grouped(count), if count == 1 { one } else { many }));
        }
    }
    parts.join(" ")
}

/// A duration after the word "per": `5 min`, but `min` for one.
pub(crate) fn per_unit(ns: u64) -> String {
    let span = span(ns);
    span.strip_prefix("1\u{202f}").map_or_else(|| span.clone(), str::to_owned)
}

/// The mean of `count` over so many: `3.4`, `3,000`.
pub(crate) fn mean(count: u64, over: u64) -> String {
    decimal(count as f64 / over.max(1) as f64)
}

/// One digit after the point below 100, else none: `9.5`, `1,204`.
#[must_use]
pub fn decimal(value: f64) -> String {
    if value < 99.95 { format!("{value:.1}") } else { grouped(value.round() as u64) }
}

/// A rate in the smallest unit that gives at least 1: `2.4/s`, `12.0/min`, `3.0/day`.
pub(crate) fn rate(count: u64, ns: u64) -> String {
    let per = |unit: u64| count as f64 * unit as f64 / ns.max(1) as f64;
    let (value, name) = [(SECOND, "s"), (MINUTE, "min"), (HOUR, "h"), (DAY, "day")]
        .into_iter()
        .map(|(unit, name)| (per(unit), name))
        .find(|&(value, _)| value >= 1.0)
        .unwrap_or((per(365 * DAY), "year"));
    format!("{}/{name}", decimal(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace(SPACE, " ")
    }

    #[test]
    fn digits_come_in_threes() {
        for (n, shown) in [(0, "0"), (999, "999"), (1_000, "1,000"), (206_860, "206,860")] {
            assert_eq!(grouped(n), shown);
        }
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn an_axis_label_is_short() {
        for (n, shown) in [(9_999, "9,999"), (20_000, "20k"), (1_500_000, "1.5M"), (2_000_000_000, "2G")] {
            assert_eq!(compact(n), shown);
        }
    }

    #[test]
    fn only_none_is_zero_and_only_all_is_a_hundred() {
        let shares = [
            (0, 10, "0 %"),
            (0, 0, "0 %"),
            (10, 10, "100 %"),
            (1, 2, "50 %"),
            (6_412, 206_860, "3.1 %"),
            (1, 1_500, "0.067 %"),
            (1, 100, "1 %"),
            (1_999, 10_000, "20.0 %"),
            (1, u64::MAX, "under 0.001 %"),
            (99_999_999, 100_000_000, "over 99.9 %"),
        ];
        for (part, whole, shown) in shares {
            assert_eq!(plain(&percent(part, whole)), shown, "{part} of {whole}");
        }
    }

    #[test]
    fn a_span_has_its_two_largest_units() {
        let spans = [
            (0, "0 ns"),
            (2 * MILLISECOND, "2 ms"),
            (5 * MINUTE, "5 min"),
            (DAY - SECOND, "23 h 59 min"),
            (DAY, "1 day"),
            (4_748 * DAY, "13 years 3 days"),
        ];
        for (ns, shown) in spans {
            assert_eq!(plain(&span(ns)), shown);
        }
    }

    #[test]
    fn a_rate_takes_the_smallest_unit_above_one() {
        assert_eq!(rate(206_860, DAY), "2.4/s");
        assert_eq!(rate(12, MINUTE), "12.0/min");
        assert_eq!(rate(1, 365 * DAY), "1.0/year");
        assert_eq!(rate(5, 0), "5,000,000,000/s");
    }
}
