//! The result as text: two tables of refusals, and the smallest limits.

use std::fmt;

use super::distribution::{Distribution, Point};
use super::tuning::Tuning;
use crate::columns::{Columns, Side, ascii_spaces};
use crate::report::figures::{counted, grouped, percent, span};

/// The result in 80 columns.
pub(super) struct Table<'a>(pub(super) &'a Tuning<'a>);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tuning = self.0;
        let (requests, keys) = (tuning.timelines.requests(), tuning.timelines.keys() as u64);
        writeln!(
            f,
            "{}: {} of {} in {}; limits for {}",
            tuning.args.reading.title(),
            counted(requests, "request"),
            counted(keys, "key"),
            ascii_spaces(span(tuning.timelines.span)),
            ascii_spaces(span(tuning.args.period.as_nanos() as u64)),
        )?;
        self.shares(f, "Requests refused", |point| percent(point.requests_refused, requests))?;
        self.shares(f, "Keys ever refused", |point| percent(point.keys_refused, keys))?;
        self.smallest_limits(f, requests)
    }
}

impl Table<'_> {
    fn shares(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        share: impl Fn(&Point) -> String,
    ) -> fmt::Result {
        let distributions = &self.0.distributions.by_algorithm;
        let mut columns = Columns::new(std::iter::repeat_n(Side::Right, distributions.len() + 1));
        let names = distributions.iter().map(|distribution| distribution.algorithm.name().to_owned());
        columns.row(std::iter::once("limit".to_owned()).chain(names));
        for (index, limit) in self.0.distributions.limits.iter().enumerate() {
            let cell = |distribution: &Distribution| match &distribution.points[index] {
                Some(point) => ascii_spaces(share(point)),
                None => "too large".to_owned(),
            };
            columns.row(std::iter::once(grouped(*limit)).chain(distributions.iter().map(cell)));
        }
        write!(f, "\n{title}\n\n{columns}")
    }

    fn smallest_limits(&self, f: &mut fmt::Formatter<'_>, requests: u64) -> fmt::Result {
        let tuning = self.0;
        writeln!(
            f,
            "\nThe smallest limits that never refuse {} of keys ({} of {})\n",
            tuning.args.keep,
            grouped(tuning.keep as u64),
            grouped(tuning.timelines.keys() as u64),
        )?;
        let mut columns = Columns::new([Side::Left, Side::Right, Side::Right]);
        columns.row(["limit", "requests refused", "keys refused"].map(str::to_owned));
        for distribution in &tuning.distributions.by_algorithm {
            columns.row(match &distribution.smallest {
                Some(point) => [
                    tuning.spec(distribution, point.limit),
                    format!(
                        "{}, {}",
                        grouped(point.requests_refused),
                        ascii_spaces(percent(point.requests_refused, requests))
                    ),
                    grouped(point.keys_refused),
                ],
                None => [
                    format!("{}: none that the engine accepts", distribution.algorithm.name()),
                    String::new(),
                    String::new(),
                ],
            });
        }
        write!(f, "{columns}")
    }
}
