//! The curves for people: two tables and the answer.

use std::fmt;

use super::Tuning;
use super::curve::{Curve, Point};
use crate::columns::{Columns, Side, plain};
use crate::report::figures::{counted, grouped, percent, span};

/// Everything that was found, in 80 columns.
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
            plain(span(tuning.timelines.span)),
            plain(span(tuning.args.period.as_nanos() as u64)),
        )?;
        self.shares(f, "Requests refused", |point| percent(point.requests_refused, requests))?;
        self.shares(f, "Keys ever refused", |point| percent(point.keys_refused, keys))?;
        self.answer(f, requests)
    }
}

impl Table<'_> {
    fn shares(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        share: impl Fn(&Point) -> String,
    ) -> fmt::Result {
        let curves = &self.0.curves.curves;
        let mut columns = Columns::new(std::iter::repeat_n(Side::Right, curves.len() + 1));
        let names = curves.iter().map(|curve| curve.algorithm.name().to_owned());
        columns.row(std::iter::once("limit".to_owned()).chain(names));
        for (index, limit) in self.0.curves.limits.iter().enumerate() {
            let cell = |curve: &Curve| match &curve.points[index] {
                Some(point) => plain(share(point)),
                None => "too large".to_owned(),
            };
            columns.row(std::iter::once(grouped(*limit)).chain(curves.iter().map(cell)));
        }
        write!(f, "\n{title}\n\n{columns}")
    }

    fn answer(&self, f: &mut fmt::Formatter<'_>, requests: u64) -> fmt::Result {
        let tuning = self.0;
        writeln!(
            f,
            "\nThe smallest limits that leave {} of keys ({} of {}) untouched\n",
            tuning.args.keep,
            grouped(tuning.keep as u64),
            grouped(tuning.timelines.keys() as u64),
        )?;
        let mut columns = Columns::new([Side::Left, Side::Right, Side::Right]);
        columns.row(["limit", "requests refused", "keys refused"].map(str::to_owned));
        for curve in &tuning.curves.curves {
            columns.row(match &curve.smallest {
                Some(point) => [
                    tuning.spec(curve, point.limit),
                    format!(
                        "{}, {}",
                        grouped(point.requests_refused),
                        plain(percent(point.requests_refused, requests))
                    ),
                    grouped(point.keys_refused),
                ],
                None => [
                    format!("{}: none that the engine accepts", curve.algorithm.name()),
                    String::new(),
                    String::new(),
                ],
            });
        }
        write!(f, "{columns}")
    }
}
