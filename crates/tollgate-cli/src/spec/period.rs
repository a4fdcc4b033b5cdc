//! Reads periods: `s`, `10s`, `1.5h`.

use std::time::Duration;

use tollgate::Rate;

/// Reads a period as it is written in a rate: a unit, with a number before it or not.
///
/// # Errors
///
/// The message names the wrong part and lists the units. A period of 0 or above 584 years is wrong.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    let rate: Rate = format!("1/{text}").parse().map_err(|error: super::BadSpec| {
        let expected = error.expected().join(", ");
        let place = match error.found() {
            "" => "not complete".to_owned(),
            found => format!("wrong at {found:?}"),
        };
        format!("the period {text:?} is {place}: expected {expected} (e.g. 10s)")
    })?;
    let period = rate.period();
    if period.is_zero() {
        return Err(format!("the period {text:?} must be longer than nothing"));
    }
    match u64::try_from(period.as_nanos()) {
        Ok(_) => Ok(period),
        Err(_) => Err(format!("the period {text:?} is above 584 years")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_number_and_a_unit() {
        for (text, nanos) in [("s", 1_000_000_000), ("250ms", 250_000_000), ("1.5 s", 1_500_000_000)] {
            assert_eq!(period(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "10", "x", "1.5", "1.5ns", "0s", "-1s", "1e3s", "1..5s", "99999999999d", "1 2s"] {
            assert!(period(text).is_err(), "{text}");
        }
        assert!(period("fortnight").unwrap_err().contains("ns, us, ms, s, min, h, d"));
        assert!(period("5").unwrap_err().contains("\"5\" is not complete"));
    }
}
