//! Converts nanoseconds since 1970 to calendar dates in UTC, and back.
//!
//! Days are counted from 0000-03-01, so that the leap day is the last day of its year and the first
//! day of month `m` is `(153 m + 2) / 5`. The method is Howard Hinnant's
//! (<https://howardhinnant.github.io/date_algorithms.html>).

use std::fmt;

pub(crate) const MICROSECOND: u64 = 1_000;
pub(crate) const MILLISECOND: u64 = 1_000 * MICROSECOND;
pub(crate) const SECOND: u64 = 1_000 * MILLISECOND;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;
pub(crate) const WEEK: u64 = 7 * DAY;

/// From a Monday to the epoch, which was a Thursday.
pub(crate) const MONDAY_BEFORE_EPOCH: u64 = 3 * DAY;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: u64 = 719_468;
/// Days in the 400 years after which the calendar repeats.
const ERA: u64 = 146_097;

/// A time as date and time of day, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CalendarTime {
    pub(crate) year: u64,
    /// 1 to 12.
    pub(crate) month: u64,
    /// 1 to 31.
    pub(crate) day: u64,
    /// Nanoseconds since midnight.
    pub(crate) since_midnight: u64,
    /// 0 is Monday.
    weekday: u64,
}

impl CalendarTime {
    /// The date and time `t_ns` nanoseconds after the epoch.
    pub(crate) fn at(t_ns: u64) -> Self {
        let days = t_ns / DAY;
        let from_march = days + EPOCH;
        let (era, of_era) = (from_march / ERA, from_march % ERA);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: of_year - (153 * month_from_march + 2) / 5 + 1,
            since_midnight: t_ns % DAY,
            weekday: (days + 3) % 7,
        }
    }

    pub(crate) fn month_name(self) -> &'static str {
        MONTHS[self.month as usize - 1]
    }

    /// `Thu 15 Jan 2026`
    pub(crate) fn date(self) -> String {
        let weekday = WEEKDAYS[self.weekday as usize];
        format!("{weekday} {} {} {}", self.day, self.month_name(), self.year)
    }

    /// The time of day, as precise as `resolution` (in nanoseconds): `14:05`, `14:05:30`,
    /// `14:05:30.250`.
    pub(crate) fn clock(self, resolution: u64) -> Clock {
        Clock { since_midnight: self.since_midnight, resolution }
    }
}

/// A time of day that is printed as precisely as its resolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    since_midnight: u64,
    resolution: u64,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = self.since_midnight;
        write!(f, "{:02}:{:02}", t / HOUR, t % HOUR / MINUTE)?;
        if self.resolution < MINUTE {
            write!(f, ":{:02}", t % MINUTE / SECOND)?;
        }
        if self.resolution < MILLISECOND {
            write!(f, ".{:06}", t % SECOND / MICROSECOND)?;
        } else if self.resolution < SECOND {
            write!(f, ".{:03}", t % SECOND / MILLISECOND)?;
        }
        Ok(())
    }
}

/// When a month begins, in nanoseconds since the epoch; `None` after 2554, where 64 bits end.
///
/// `months` counts from January 1970.
pub(crate) fn month_start(months: u64) -> Option<u64> {
    let (year, month) = (1970 + months / 12, months % 12 + 1);
    let (year, month_from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year / 400, year % 400);
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month_from_march + 2) / 5;
    (era * ERA + of_era - EPOCH).checked_mul(DAY)
}

/// How many months `t_ns` lies after January 1970.
pub(crate) fn month_of(t_ns: u64) -> u64 {
    let CalendarTime { year, month, .. } = CalendarTime::at(t_ns);
    (year - 1970) * 12 + month - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_their_names() {
        assert_eq!(CalendarTime::at(0).date(), "Thu 1 Jan 1970");
        assert_eq!(CalendarTime::at(951_782_400 * SECOND).date(), "Tue 29 Feb 2000");
        assert_eq!(CalendarTime::at(1_768_435_200 * SECOND).date(), "Thu 15 Jan 2026");
        assert_eq!(CalendarTime::at(u64::MAX).date(), "Sun 21 Jul 2554");
    }

    #[test]
    fn every_month_starts_on_its_first_at_midnight() {
        let mut months = 0;
        while let Some(start) = month_start(months) {
            let time = CalendarTime::at(start);
            assert_eq!((time.day, time.since_midnight), (1, 0));
            assert_eq!(month_of(start), months);
            assert!(start == 0 || month_of(start - 1) == months - 1);
            months += 1;
        }
        assert_eq!(CalendarTime::at(month_start(months - 1).unwrap()).year, 2554);
    }

    #[test]
    fn a_clock_is_as_precise_as_its_resolution() {
        let time = CalendarTime::at(14 * HOUR + 5 * MINUTE + 30 * SECOND + 250_001 * MICROSECOND);
        assert_eq!(time.clock(HOUR).to_string(), "14:05");
        assert_eq!(time.clock(SECOND).to_string(), "14:05:30");
        assert_eq!(time.clock(5 * MILLISECOND).to_string(), "14:05:30.250");
        assert_eq!(time.clock(MICROSECOND).to_string(), "14:05:30.250001");
    }
}
