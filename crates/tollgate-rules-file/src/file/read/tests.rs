//! Tests of rules, as data.

use std::ops::Range;
use std::time::Duration;

use toml::de::{DeTable, DeValue};
use toml::value::{Datetime, Offset};

use super::{Reader, boxed, each, inner, number, tables, text};
use crate::file::fields::LOST;
use crate::file::files::Place;
use crate::file::problem::Code;
use crate::file::text::{attribute, limit, value};
use tollgate_rules::{Expected, Outcome, RuleTest, Step};

/// 2026-01-01T00:00:00Z in seconds.
const START: u64 = 1_767_225_600;

/// The rules that tests name, and where.
pub(in crate::file) type Named = Vec<(Box<str>, Place)>;

type Pairs = Vec<(Box<str>, Box<str>)>;

impl Reader<'_, '_> {
    pub(in crate::file) fn test(&mut self, table: &DeTable<'_>, named: &mut Named) -> Option<RuleTest> {
        let starts = match table.get("at").map(|at| (at.get_ref(), at.span())) {
            Some((DeValue::Datetime(at), span)) => self.instant(at, span)?,
            _ => Duration::from_secs(START),
        };
        let mut steps = Vec::new();
        let mut now = Duration::ZERO;
        for (step, _) in tables(table, "steps") {
            let step = self.step(step, now, named)?;
            now = step.at;
            steps.push(step);
        }
        Some(RuleTest::new(boxed(table, "name")?, starts, steps))
    }

    fn instant(&mut self, at: &Datetime, span: Range<usize>) -> Option<Duration> {
        let since = since_1970(at);
        if since.is_none() && at.date.is_some() && at.time.is_some() && at.offset.is_some() {
            self.add(span, Code::BadValue, format!("{at} is before 1970"), "such as 2026-01-01T00:00:00Z");
        }
        since
    }

    fn step(&mut self, table: &DeTable<'_>, before: Duration, named: &mut Named) -> Option<Step> {
        let mut at = before;
        if let Some(value) = table.get("at") {
            at = self.parsed(value, limit::time)?;
            if at < before {
                let message = "the step is before the one before it";
                self.add(value.span(), Code::BadValue, message, "steps are in the order of time");
            }
        }
        let mut request = Step::at(at);
        request.send = table.get("send").and_then(|value| {
            self.parsed(value, |text| {
                attribute::send(text).map(|(method, target)| (method.into(), target.into()))
            })
        });
        request.times = number(table, "times").unwrap_or(request.times);
        request.client = table.get("client").and_then(|value| self.parsed(value, value::address));
        request.headers = pairs(table, "headers", str::to_ascii_lowercase);
        request.labels = pairs(table, "labels", str::to_owned);
        request.domain = boxed(table, "domain");
        request.entries = pairs(table, "entries", str::to_owned);
        request.cost = number(table, "cost");
        request.status = number(table, "status");
        request.is_lost = text(table, "status") == Some(LOST);
        request.lasts =
            table.get("lasts").and_then(|value| self.parsed(value, limit::time)).unwrap_or_default();
        request.settles = number(table, "settles");
        request.expect = self.expected(table, named);
        Some(request)
    }

    fn expected(&mut self, step: &DeTable<'_>, named: &mut Named) -> Expected {
        let mut expected = Expected::default();
        let Some(expect) = inner(step, "expect") else {
            expected.outcome = text(step, "expect").and_then(outcome);
            return expected;
        };
        let mut name = |value: &super::Value<'_>| {
            let name: Box<str> = value.get_ref().as_str()?.into();
            named.push((name.clone(), self.place(value.span())));
            Some(name)
        };
        expected.refused_by = expect.get("refused_by").and_then(&mut name);
        expected.asked = expect.get("asked").map(|asked| each(asked).filter_map(&mut name).collect());
        expected.outcome = text(expect, "outcome").and_then(outcome);
        expected.retry_after = expect.get("retry_after").and_then(|value| self.parsed(value, limit::time));
        expected.delay = expect.get("delay").and_then(|value| self.parsed(value, limit::time));
        let clash = match expected.outcome {
            Some(Outcome::Admitted) => {
                ["refused_by", "retry_after"].iter().find_map(|name| expect.get(*name))
            }
            Some(Outcome::Refused | Outcome::Never) => expect.get("delay"),
            None => None,
        };
        if let Some(value) = clash {
            let message = "no request of this outcome has it";
            self.add(
                value.span(),
                Code::Unfit,
                message,
                "a refusal has refused_by and retry_after, an admission a delay",
            );
        }
        expected
    }
}

fn outcome(text: &str) -> Option<Outcome> {
    match text {
        "admitted" => Some(Outcome::Admitted),
        "refused" => Some(Outcome::Refused),
        "never" => Some(Outcome::Never),
        _ => None,
    }
}

/// Names and their values. A name may have several.
fn pairs(table: &DeTable<'_>, name: &str, spell: impl Fn(&str) -> String) -> Pairs {
    let mut pairs = Pairs::new();
    for (name, values) in inner(table, name).into_iter().flatten() {
        let texts = each(values).filter_map(|value| value.get_ref().as_str());
        pairs.extend(texts.map(|text| (spell(name.get_ref()).into(), text.into())));
    }
    pairs
}

/// `None` before 1970, or if a part is missing.
fn since_1970(at: &Datetime) -> Option<Duration> {
    let (date, time) = (at.date?, at.time?);
    let minutes = match at.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    // Years that begin in March: a leap day is a year's last.
    let (year, month) = (i64::from(date.year), i64::from(date.month));
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = 365 * year + leaps + (153 * month + 2) / 5 + i64::from(date.day) - 1 - 719_468;
    let clock =
        i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second.unwrap_or(0));
    let seconds = days * 86_400 + clock - minutes * 60;
    Some(Duration::new(u64::try_from(seconds).ok()?, time.nanosecond.unwrap_or(0)))
}
