//! Limits and lengths of time. The grammar is the engine's.

use std::fmt::Write;
use std::time::Duration;

use tollgate::{InFlightLimiter, Limiter, ParseQuotaError, Quota, Rate};

use super::wrong::{Wrong, quoted};
use crate::file::nearest::nearest;
use crate::file::problem::Code;
use tollgate_rules::{Limit, Limits};

/// The limit of a rule: one limit, `unlimited` or `block`.
pub(in crate::file) fn limits(text: &str) -> Result<Limits, Wrong> {
    match text.trim() {
        "unlimited" => Ok(Limits::Unlimited),
        "block" => Ok(Limits::Block),
        _ => Ok(Limits::Each(vec![one(text, &["unlimited", "block"])?])),
    }
}

/// One limit: `in-flight:N[,ttl=TIME]`, or a quota.
pub(crate) fn limit(text: &str) -> Result<Limit, Wrong> {
    one(text, &[])
}

/// One limit; beside it, the text of a rule may be one of `words`.
fn one(text: &str, words: &[&'static str]) -> Result<Limit, Wrong> {
    if let "unlimited" | "block" = text.trim() {
        let message = format!("`{}` stands beside no other limit", text.trim());
        let hint = format!("limits = \"{}\"", text.trim());
        return Err(Wrong::all(text, Code::BadLimit, message, hint));
    }
    if text.split(',').next().unwrap_or_default().trim() == IN_FLIGHT {
        return Err(Wrong::all(text, Code::BadLimit, "`in-flight` has no number", EXAMPLE));
    }
    let in_flight = text.split_once(':').filter(|(algorithm, _)| algorithm.trim() == IN_FLIGHT);
    if let Some((algorithm, rest)) = in_flight {
        return at_once(text, algorithm.len() + 1, rest);
    }
    let quota: Quota = text.parse().map_err(|error: ParseQuotaError| of_limit(text, &error, words))?;
    // What the builder says of the numbers: whether words can count so far.
    match Limiter::builder(quota).per::<[u8]>().max_keys(1).memory() {
        Ok(_) => Ok(Limit::Quota(quota)),
        Err(error) => Err(Wrong::all(text, Code::BadLimit, error.to_string(), "such as 10/s,burst=20")),
    }
}

/// The algorithm that the engine's grammar does not have.
const IN_FLIGHT: &str = "in-flight";
const EXAMPLE: &str = "such as in-flight:2,ttl=10min";

/// The engine's error, with what else a rules file takes in its place.
fn of_limit(text: &str, error: &ParseQuotaError, words: &[&'static str]) -> Wrong {
    let wrong = of_quota(error, 0);
    let (found, expected) = (error.found(), error.expected());
    let is_algorithm = expected.contains(&"token-bucket");
    let is_rate = expected.first().is_some_and(|first| first.starts_with("COUNT/PERIOD"));
    let is_fraction = expected.first().is_some_and(|first| first.starts_with("a whole number, such"))
        && found.contains('.')
        && found.parse::<f64>().is_ok()
        && text[wrong.span.end..].trim_start().starts_with('/');
    let said = |extra: &str| {
        let example = format!(" (e.g. {})", error.hint());
        let rest = wrong.hint.as_deref().unwrap_or_default();
        format!("{}{extra}{example}", rest.strip_suffix(&*example).unwrap_or(rest))
    };
    let hint = if is_algorithm {
        let meant = nearest(found, expected.iter().copied().chain([IN_FLIGHT]));
        meant.map_or_else(|| said(", in-flight"), |meant| format!("did you mean `{meant}`?"))
    } else if is_rate && !text.contains(':') {
        match nearest(found, words.iter().copied().chain([IN_FLIGHT])) {
            Some(IN_FLIGHT) => "did you mean `in-flight:N`?".into(),
            Some(meant) => format!("did you mean `{meant}`?"),
            None => {
                let all = ["in-flight:N"].iter().chain(words);
                said(&all.map(|word| format!(", {word}")).collect::<String>())
            }
        }
    } else if is_fraction {
        said("; a fraction needs a longer period: 1/2s instead of 0.5/s")
    } else {
        return wrong;
    };
    Wrong { hint: Some(hint), ..wrong }
}

/// What comes after `in-flight:`, which ends at `start`.
fn at_once(text: &str, start: usize, rest: &str) -> Result<Limit, Wrong> {
    let wrong = |part: &str, message: String| {
        let from = part.as_ptr().addr() - text.as_ptr().addr();
        let hint = Some(EXAMPLE.into());
        Wrong { span: from..from + part.len(), code: Code::BadLimit, message, hint }
    };
    debug_assert_eq!(start, text.len() - rest.len(), "the rest ends the text");
    let mut parts = rest.split(',').map(str::trim);
    let count = parts.next().unwrap_or_default();
    // The engine reads the number, so that there is one grammar.
    let most = match format!("{count}/s").parse::<Rate>() {
        Ok(rate) if rate.count() > 0 && !count.contains('/') => rate.count(),
        Ok(_) => return Err(wrong(count, "a limit of 0 admits nothing: write `block`".into())),
        Err(_) => return Err(wrong(count, format!("{} is no number", quoted(count)))),
    };
    let mut ttl = None;
    for part in parts {
        let Some(("ttl", length)) = part.split_once('=') else {
            return Err(wrong(part, format!("{} is no option of in-flight, only ttl is", quoted(part))));
        };
        let time = positive(length).map_err(|error| wrong(length, error.message))?;
        if ttl.replace(time).is_some() {
            return Err(wrong(part, "ttl is given twice".into()));
        }
    }
    match InFlightLimiter::builder(most).per::<[u8]>().max_keys(1).memory() {
        Ok(_) => Ok(Limit::InFlight { most, ttl }),
        Err(error) => Err(wrong(count, error.to_string())),
    }
}

/// The engine's error, of a text that begins `before` bytes before the file's.
fn of_quota(error: &ParseQuotaError, before: usize) -> Wrong {
    let offset = error.offset().saturating_sub(before);
    let complaint = error.to_string();
    let complaint = complaint.strip_prefix(&format!("{:?} ", error.found())).unwrap_or(&complaint);
    let complaint = complaint.split(", expected ").next().unwrap_or_default();
    let message = match error.found() {
        "" => format!("something is missing: \"\" {complaint}"),
        found => format!("{} {complaint}", quoted(found)),
    };
    let mut hint = String::from("expected ");
    for (index, word) in error.expected().iter().enumerate() {
        let between = if index == 0 { "" } else { ", " };
        let _ = write!(hint, "{between}{word}");
    }
    if before == 0 {
        let _ = write!(hint, " (e.g. {})", error.hint());
    }
    Wrong { span: offset..offset + error.found().len(), code: Code::BadLimit, message, hint: Some(hint) }
}

/// A length of time: a unit with an optional number before it.
pub(in crate::file) fn time(text: &str) -> Result<Duration, Wrong> {
    const BEFORE: &str = "1/";
    match format!("{BEFORE}{text}").parse::<Rate>() {
        // The engine's parser takes blanks around a rate.
        Ok(rate) if text.trim() == text => Ok(rate.period()),
        Ok(_) => Err(Wrong::bad(text, format!("{} has blanks", quoted(text)), "such as 10min")),
        Err(error) => Err(Wrong { code: Code::BadText, ..of_quota(&error, BEFORE.len()) }),
    }
}

/// The same, of more than nothing.
pub(in crate::file) fn positive(text: &str) -> Result<Duration, Wrong> {
    let time = time(text)?;
    if !time.is_zero() {
        return Ok(time);
    }
    Err(Wrong::all(text, Code::BadValue, "the time must be longer than nothing", "such as 10min"))
}

const COUNT: &str = "[0-9](?:[0-9_]*[0-9])?";
const UNIT: &str = "(?:ns|us|µs|μs|ms|s|sec|seconds?|min|m|minutes?|h|hours?|d|days?|w|weeks?)";

pub(super) fn time_pattern() -> String {
    format!("(?:{COUNT}(?:\\.{COUNT})?)?{UNIT}")
}

pub(super) fn pattern() -> String {
    let (time, option) = (time_pattern(), "(?:\\s*,\\s*[a-z-]+(?:=[0-9a-z_.]+)?)*");
    let algorithm = "(?:(?:token-bucket|leaky-bucket|fixed-window|sliding-window|sliding-log)\\s*:\\s*)?";
    format!("{algorithm}{COUNT}/{time}{option}|in-flight\\s*:\\s*{COUNT}(?:\\s*,\\s*ttl={time})?")
}
