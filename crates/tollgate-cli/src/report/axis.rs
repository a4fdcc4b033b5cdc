//! The ticks of a time axis and their labels.
//!
//! Spans go from microseconds to centuries, so ticks follow the calendar: round seconds, hours,
//! Mondays, the first days of months. A label has what changes from tick to tick (`06:00`). What
//! changes seldom (the day) is on a second line, at the first tick and wherever it changes.

use super::calendar::{
    CalendarTime, DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, MONDAY_BEFORE_EPOCH, SECOND, WEEK, month_of,
    month_start,
};

/// A mark on a time axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) at: u64,
    pub(super) label: String,
    /// What the label omits; `None` where it is the same as at the tick before.
    pub(super) context: Option<String>,
}

/// The distance between two ticks.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// So many nanoseconds.
    Even(u64),
    /// So many months, long or short.
    Months(u64),
}

const STEPS: [Step; 48] = {
    use Step::{Even, Months};
    [
        Even(MICROSECOND),
        Even(2 * MICROSECOND),
        Even(5 * MICROSECOND),
        Even(10 * MICROSECOND),
        Even(20 * MICROSECOND),
        Even(50 * MICROSECOND),
        Even(100 * MICROSECOND),
        Even(200 * MICROSECOND),
        Even(500 * MICROSECOND),
        Even(MILLISECOND),
        Even(2 * MILLISECOND),
        Even(5 * MILLISECOND),
        Even(10 * MILLISECOND),
        Even(20 * MILLISECOND),
        Even(50 * MILLISECOND),
        Even(100 * MILLISECOND),
        Even(200 * MILLISECOND),
        Even(500 * MILLISECOND),
        Even(SECOND),
        Even(2 * SECOND),
        Even(5 * SECOND),
        Even(10 * SECOND),
        Even(15 * SECOND),
        Even(30 * SECOND),
        Even(MINUTE),
        Even(2 * MINUTE),
        Even(5 * MINUTE),
        Even(10 * MINUTE),
        Even(15 * MINUTE),
        Even(30 * MINUTE),
        Even(HOUR),
        Even(2 * HOUR),
        Even(3 * HOUR),
        Even(6 * HOUR),
        Even(12 * HOUR),
        Even(DAY),
        Even(2 * DAY),
        Even(WEEK),
        Even(2 * WEEK),
        Months(1),
        Months(3),
        Months(6),
        Months(12),
        Months(24),
        Months(60),
        Months(120),
        Months(240),
        Months(600),
    ]
};

impl Step {
    /// The length of a step, exact for [`Step::Even`], approximate for months.
    fn length(self) -> u64 {
        match self {
            Self::Even(length) => length,
            Self::Months(months) => months * 30 * DAY,
        }
    }

    /// The ticks from `start` to `end`, both included.
    fn marks(self, start: u64, end: u64) -> Vec<u64> {
        match self {
            Self::Even(step) => {
                let anchor = if step >= WEEK { MONDAY_BEFORE_EPOCH } else { 0 };
                let first = start.saturating_add(anchor).div_ceil(step);
                let times = (first..).map_while(|tick| tick.checked_mul(step)?.checked_sub(anchor));
                times.take_while(|&at| at <= end).collect()
            }
            Self::Months(step) => {
                // Counted from the year 0, so that a step of 20 years falls on 1980, not on 1990.
                let from_year_zero = 1970 * 12 + month_of(start);
                let first = from_year_zero / step;
                let months = (first..).filter_map(|tick| (tick * step).checked_sub(1970 * 12));
                let starts = months.map_while(month_start);
                starts.skip_while(|&at| at < start).take_while(|&at| at <= end).collect()
            }
        }
    }

    fn label(self, at: u64) -> String {
        let time = CalendarTime::at(at);
        match self {
            // `.250`; the context has the whole second.
            Self::Even(step) if step < SECOND => {
                let clock = time.clock(step).to_string();
                clock[clock.find('.').unwrap_or(0)..].to_owned()
            }
            Self::Even(step) if step < DAY => time.clock(step).to_string(),
            Self::Even(_) => format!("{} {}", time.day, time.month_name()),
            Self::Months(step) if step < 12 => time.month_name().to_owned(),
            Self::Months(_) => time.year.to_string(),
        }
    }

    fn context(self, at: u64) -> Option<String> {
        let time = CalendarTime::at(at);
        match self {
            Self::Even(step) if step < SECOND => Some(time.clock(SECOND).to_string()),
            Self::Even(step) if step < DAY => Some(format!("{} {}", time.day, time.month_name())),
            Self::Even(_) => Some(time.year.to_string()),
            Self::Months(step) if step < 12 => Some(time.year.to_string()),
            Self::Months(_) => None,
        }
    }
}

/// About `most` ticks at most from `start` to `end`, at least `finest` apart.
pub(super) fn time_ticks(start: u64, end: u64, finest: u64, most: usize) -> Vec<Tick> {
    let span = end.saturating_sub(start);
    let fits = |step: &&Step| step.length() >= finest && span / step.length() <= most.max(1) as u64;
    let step = *STEPS.iter().find(fits).unwrap_or(&STEPS[STEPS.len() - 1]);
    let mut before = None;
    let tick = |at| {
        let context = step.context(at).filter(|context| before.as_ref() != Some(context));
        if context.is_some() {
            before.clone_from(&context);
        }
        Tick { at, label: step.label(at), context }
    };
    step.marks(start, end).into_iter().map(tick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDNIGHT: u64 = 1_768_435_200 * SECOND; // Thu 15 Jan 2026

    fn shown(start: u64, span: u64, most: usize) -> Vec<String> {
        let ticks = time_ticks(start, start + span, MICROSECOND, most);
        ticks
            .iter()
            .map(|tick| format!("{} {}", tick.label, tick.context.as_deref().unwrap_or("-")))
            .collect()
    }

    #[test]
    fn a_day_is_ticked_by_hours_with_the_date() {
        assert_eq!(
            shown(MIDNIGHT, DAY, 5),
            ["00:00 15 Jan", "06:00 -", "12:00 -", "18:00 -", "00:00 16 Jan"]
        );
    }

    #[test]
    fn milliseconds_name_their_second() {
        let start = MIDNIGHT + 999 * MILLISECOND;
        assert_eq!(shown(start, 2 * MILLISECOND, 3), [".999 00:00:00", ".000 00:00:01", ".001 -"]);
    }

    #[test]
    fn weeks_begin_on_mondays_and_months_on_firsts() {
        assert_eq!(shown(MIDNIGHT, 15 * DAY, 2), ["19 Jan 2026", "26 Jan -"]);
        assert_eq!(shown(MIDNIGHT, 100 * DAY, 4), ["Feb 2026", "Mar -", "Apr -"]);
    }

    #[test]
    fn thirteen_years_are_ticked_by_round_years() {
        assert_eq!(shown(MIDNIGHT, 13 * 365 * DAY, 4), ["2030 -", "2035 -"]);
        assert_eq!(shown(0, 31 * 365 * DAY, 4), ["1970 -", "1980 -", "1990 -", "2000 -"]);
    }

    #[test]
    fn there_are_hardly_more_ticks_than_the_most() {
        let mut span = 1;
        while span < u64::MAX / 3 {
            for most in 1..12 {
                let ticks = time_ticks(MIDNIGHT, MIDNIGHT.saturating_add(span), 1, most);
                assert!(ticks.len() <= most + 2, "{span} ns: {} for {most}", ticks.len());
                assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at));
            }
            span = span * 3 / 2 + 1;
        }
    }

    #[test]
    fn ticks_are_no_finer_than_the_bars() {
        let ticks = time_ticks(MIDNIGHT, MIDNIGHT + SECOND, SECOND, 12);
        assert_eq!(ticks.len(), 2);
    }
}
