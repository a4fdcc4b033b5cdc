//! A share of a whole, exact to the last digit that was typed.

use std::fmt;
use std::str::FromStr;

/// One per cent.
const PERCENT: u64 = 1_000_000_000;

/// A share from 0 % to 100 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// In billionths of a per cent.
    parts: u64,
}

impl Share {
    /// The smallest part of `whole` that is at least this share of it.
    pub(crate) fn of(self, whole: usize) -> usize {
        let parts = whole as u128 * u128::from(self.parts);
        parts.div_ceil(u128::from(100 * PERCENT)) as usize
    }
}

impl Share {
    /// The share that the same number is as a part of 1: 99.9 % for 0.999. `None`: the number is 0,
    /// or above 1.
    pub(crate) fn as_part_of_one(self) -> Option<Self> {
        (1..=PERCENT).contains(&self.parts).then_some(Self { parts: 100 * self.parts })
    }

    /// Whether `part` is more than this share of `whole`.
    pub(crate) fn is_exceeded_by(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(100 * PERCENT) > u128::from(whole) * u128::from(self.parts)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a share such as 99.9%");
        let number = text.strip_suffix('%').unwrap_or(text).trim_end();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let fraction: u64 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
        let parts = whole.checked_mul(PERCENT).map(|parts| parts + fraction);
        match parts.filter(|parts| *parts <= 100 * PERCENT) {
            Some(parts) => Ok(Self { parts }),
            None => Err(format!("{text:?} is more than 100%")),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:09}", self.parts / PERCENT, self.parts % PERCENT);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exact() {
        let share = |text: &str| text.parse::<Share>().expect(text);
        assert_eq!(share("99.9%").of(1000), 999);
        assert_eq!(share("99.9").of(1001), 1000);
        assert_eq!([share("0%").of(7), share("100%").of(7), share("50%").of(0)], [0, 7, 0]);
        assert!(share("0.1%").is_exceeded_by(2, 1000) && !share("0.1%").is_exceeded_by(1, 1000));
        assert!(share("0%").is_exceeded_by(1, u64::MAX) && !share("0%").is_exceeded_by(0, 0));
        for text in ["99.9%", "100%", "0%", "12.000000001%"] {
            assert_eq!(share(text).to_string(), text);
        }
        assert_eq!(share("0.999").as_part_of_one(), Some(share("99.9%")));
        assert_eq!([share("0"), share("1.1")].map(Share::as_part_of_one), [None, None]);
        for text in ["", "%", "100.1%", "-1%", "x", "1.", "0.1234567890%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
