//! The outcome of a replay as text in 80 columns.

use std::fmt;

use super::outcome::{Credited, GivenBack, Outcome};
use crate::columns::{Columns, Side, ascii_spaces, printable};
use crate::report::KeyTally;
use crate::report::calendar::CalendarTime;
use crate::report::figures::{counted, grouped, percent, rate, span};

/// How wide a key may be, so that the three columns beside it fit.
const KEY_WIDTH: usize = 40;

/// The table: facts first, then the most refused keys, then the busiest.
pub(crate) struct Table<'a> {
    pub(crate) outcome: &'a Outcome,
    pub(crate) title: &'a str,
    pub(crate) top: usize,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.outcome.counts;
        writeln!(f, "{} under {}\n", self.title, self.outcome.limits.join(" and "))?;
        self.facts().fmt(f)?;
        if counts.denied > 0 {
            self.keys(f, "Most refused keys", &counts.top_denied(self.top))?;
        } else if counts.requests() > 0 {
            writeln!(f, "\nNo request would have been refused.")?;
        }
        if counts.requests() > 0 {
            let busiest = counts.tallies.top(self.top, |tally| tally.requests);
            self.keys(f, "Busiest keys", &busiest)?;
        }
        Ok(())
    }
}

impl Table<'_> {
    fn facts(&self) -> Columns {
        let (counts, read) = (&self.outcome.counts, &self.outcome.read);
        let requests = counts.requests();
        let (keys, refused) = (counts.tallies.len() as u64, counts.tallies.refused().len() as u64);
        let mut facts = Columns::new([Side::Left, Side::Right, Side::Left]);
        let mut fact = |name: &str, number: u64, note: String| {
            facts.row([name.to_owned(), grouped(number), ascii_spaces(note)]);
        };
        fact("requests", requests, self.period());
        fact("allowed", counts.allowed, percent(counts.allowed, requests));
        fact("refused", counts.denied, percent(counts.denied, requests));
        fact("keys", keys, String::new());
        fact("keys ever refused", refused, format!("{} of keys", percent(refused, keys)));
        let GivenBack { asked, units, found_nothing } = counts.given_back;
        if asked > 0 {
            fact("units given back", units, format!("by {} refunds and cancels", grouped(asked)));
        }
        if found_nothing > 0 {
            fact("found nothing", found_nothing, "of these: there was nothing to give back".to_owned());
        }
        let Credited { asked, units } = counts.credited;
        if asked > 0 {
            fact("units credited", units, format!("by {}", counted(asked, "credit")));
        }
        if counts.time.out_of_order() > 0 {
            fact(
                "out of order",
                counts.time.out_of_order(),
                "decided at the latest time before them".to_owned(),
            );
        }
        if read.totals.malformed > 0 {
            fact(
                "unreadable lines",
                read.totals.malformed,
                percent(read.totals.malformed, read.totals.lines),
            );
        }
        let pace = read.totals.lines as f64 / read.elapsed.as_secs_f64().max(1e-9);
        let pace = format!("in {:.2} s, {} a second", read.elapsed.as_secs_f64(), grouped(pace as u64));
        fact("lines read", read.totals.lines, pace);
        facts
    }

    /// The days of the log, its duration and its average rate.
    fn period(&self) -> String {
        let Some((first, last)) = self.outcome.counts.time.span() else { return String::new() };
        let day = |t: u64| {
            let CalendarTime { year, month, day, .. } = CalendarTime::at(t);
            format!("{year}-{month:02}-{day:02}")
        };
        let days =
            if day(first) == day(last) { day(first) } else { format!("{} to {}", day(first), day(last)) };
        match last - first {
            0 => format!("all at one time, {days}"),
            length => {
                format!(
                    "{days}, {}, {} on average",
                    span(length),
                    rate(self.outcome.counts.requests(), length)
                )
            }
        }
    }

    fn keys(&self, f: &mut fmt::Formatter<'_>, title: &str, keys: &[(&[u8], KeyTally)]) -> fmt::Result {
        let mut columns = Columns::new([Side::Left, Side::Right, Side::Right, Side::Right]);
        columns.row([title, "requests", "refused", "share"].map(str::to_owned));
        for (key, tally) in keys {
            let share = ascii_spaces(percent(tally.denied, tally.requests));
            columns.row([printable(key, KEY_WIDTH), grouped(tally.requests), grouped(tally.denied), share]);
        }
        write!(f, "\n{columns}")
    }
}
