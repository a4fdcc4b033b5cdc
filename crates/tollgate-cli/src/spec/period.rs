//! Lengths of time as text: `s`, `10s`, `1.5h`.

use std::time::Duration;

/// What a unit is called, the name that errors list first, and how many nanoseconds it lasts.
const UNITS: [(&[&str], u64); 7] = [
    (&["ns"], 1),
    (&["us", "µs"], 1_000),
    (&["ms"], 1_000_000),
    (&["s", "sec", "second", "seconds"], 1_000_000_000),
    (&["min", "m", "minute", "minutes"], 60_000_000_000),
    (&["h", "hour", "hours"], 3_600_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000),
];

/// Reads an optional number, which may have a fraction, and a unit.
///
/// # Errors
///
/// Says what is wrong and lists the units.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '_')).unwrap_or(text.len());
    let (number, name) = text.split_at(unit_at);
    let Some((_, unit)) = UNITS.iter().find(|(names, _)| names.contains(&name)) else {
        let units = UNITS.map(|(names, _)| names[0]).join(", ");
        return Err(format!(
            "the period {text:?} does not end in a unit: {units} (with a number before it or not, as in 10s)"
        ));
    };
    let nanos = nanos(number, *unit)
        .ok_or_else(|| format!("the period {text:?} is not a whole number of nanoseconds below 584 years"))?;
    if nanos == 0 {
        return Err(format!("the period {text:?} must be longer than nothing"));
    }
    Ok(Duration::from_nanos(nanos))
}

/// `number` units in nanoseconds, exactly; `None` when that is no whole number or too large.
fn nanos(number: &str, unit: u64) -> Option<u64> {
    if number.is_empty() {
        return Some(unit);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.replace('_', "").parse().ok()?;
    let fraction = fraction.trim_end_matches('0');
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = if fraction.is_empty() { 0 } else { u128::from(fraction.parse::<u64>().ok()?) };
    let rest = parts * u128::from(unit);
    let rest = (rest % scale == 0).then(|| rest / scale)?;
    u64::try_from(u128::from(whole) * u128::from(unit) + rest).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_number_and_a_unit() {
        let cases = [
            ("s", 1_000_000_000),
            ("1s", 1_000_000_000),
            ("250ms", 250_000_000),
            ("7us", 7_000),
            ("7µs", 7_000),
            ("min", 60_000_000_000),
            ("m", 60_000_000_000),
            ("hour", 3_600_000_000_000),
            ("2days", 172_800_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0.25h", 900_000_000_000),
        ];
        for (text, nanos) in cases {
            assert_eq!(period(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_period_is_refused() {
        for text in ["", "10", "w", "1.5", "1.5ns", "0s", "-1s", "1e3s", "1..5s", "99999999999d", "1 s"] {
            assert!(period(text).is_err(), "{text}");
        }
    }
}
