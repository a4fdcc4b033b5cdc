//! The outcome of a replay: counted while it runs, shown afterwards as JSON, as text, as a page.

use serde_json::{Value, json};

use super::overflow::Overflow;
use super::tallies::Tallies;
use crate::reading::{LogTime, ReadSummary};
use crate::report::{KeyTally, Timeline};

/// Counts of a trace's refunds and cancels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GivenBack {
    /// How many refunds and cancels there were.
    pub(crate) asked: u64,
    /// How many units came back.
    pub(crate) units: u64,
    /// How many of them found no admission or reservation to give back.
    pub(crate) found_nothing: u64,
}

/// Counts of a trace's credits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Credited {
    /// How many credits there were.
    pub(crate) asked: u64,
    /// How many units they gave.
    pub(crate) units: u64,
}

/// Counts of a replay.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) time: LogTime,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) tallies: Tallies,
    pub(crate) given_back: GivenBack,
    pub(crate) credited: Credited,
    /// Only for `--report`.
    pub(crate) timeline: Option<Timeline>,
}

impl Counts {
    pub(crate) fn new(timeline: bool) -> Self {
        let timeline = timeline.then(Timeline::new);
        Self {
            time: LogTime::default(),
            allowed: 0,
            denied: 0,
            tallies: Tallies::default(),
            given_back: GivenBack::default(),
            credited: Credited::default(),
            timeline,
        }
    }

    /// Counts a decision.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], t_ns: u64, allowed: bool) {
        self.allowed += u64::from(allowed);
        self.denied += u64::from(!allowed);
        self.tallies.count(key, allowed);
        if let Some(timeline) = &mut self.timeline {
            timeline.add(t_ns, allowed);
        }
    }

    /// Counts a refund or a cancel: how many units came back, or that there was nothing to give
    /// back.
    pub(crate) fn give_back(&mut self, units: Option<u64>) {
        let GivenBack { asked, units: sum, found_nothing } = &mut self.given_back;
        *asked += 1;
        *sum = sum.saturating_add(units.unwrap_or(0));
        *found_nothing += u64::from(units.is_none());
    }

    /// Counts a credit of so many units.
    pub(crate) fn credit(&mut self, units: u64) {
        self.credited.asked += 1;
        self.credited.units = self.credited.units.saturating_add(units);
    }

    /// Requests decided.
    pub(crate) fn requests(&self) -> u64 {
        self.allowed + self.denied
    }

    /// The most refused keys, most refused first.
    pub(crate) fn top_denied(&self, top: usize) -> Vec<(&[u8], KeyTally)> {
        self.tallies.top(top, |tally| tally.denied)
    }
}

/// All that a finished replay shows.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    pub(crate) read: ReadSummary,
    pub(crate) limits: Vec<String>,
    pub(crate) overflows: Vec<Overflow>,
}

impl Outcome {
    /// The outcome as one JSON object. It has `given_back` only for a trace with refunds or
    /// cancels, `credited` only for one with credits, and `full_table` only when a table was full.
    pub(crate) fn json(&self, top: usize) -> Value {
        let Self { counts, read, .. } = self;
        let seconds = read.elapsed.as_secs_f64();
        let key = |(key, tally): (&[u8], KeyTally)| {
            let key = String::from_utf8_lossy(key);
            json!({"key": key, "requests": tally.requests, "refused": tally.denied})
        };
        let mut object = json!({
            "requests": counts.requests(),
            "allowed": counts.allowed,
            "refused": counts.denied,
            "keys": counts.tallies.len(),
            "keys_refused": counts.tallies.refused().len(),
            "malformed": read.totals.malformed,
            "out_of_order": counts.time.out_of_order(),
            "first_t_ns": counts.time.span().map(|(first, _)| first),
            "last_t_ns": counts.time.span().map(|(_, last)| last),
            "elapsed_s": (seconds * 1e6).round() / 1e6,
            "lines_per_s": (read.totals.lines as f64 / seconds.max(1e-9)).round(),
            "limits": self.limits,
            "top_refused": counts.top_denied(top).into_iter().map(key).collect::<Vec<_>>(),
        });
        let GivenBack { asked, units, found_nothing } = counts.given_back;
        if asked > 0 {
            object["given_back"] = json!({"asked": asked, "units": units, "found_nothing": found_nothing});
        }
        let Credited { asked, units } = counts.credited;
        if asked > 0 {
            object["credited"] = json!({"asked": asked, "units": units});
        }
        if !self.overflows.is_empty() {
            let overflow = |overflow: &Overflow| {
                json!({
                    "limit": overflow.limit,
                    "max_keys": overflow.max_keys,
                    "evicted_with_debt": overflow.evicted_with_debt,
                    "shared": overflow.shared,
                    "refused_full": overflow.refused_full,
                })
            };
            object["full_table"] = self.overflows.iter().map(overflow).collect();
        }
        object
    }

    /// What the user should know before believing the figures.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
            .overflows
            .iter()
            .map(|overflow| {
                format!(
                    "{}: more keys were in debt at once than the table of {} has room for, so these figures \
                     may differ from those of unlimited memory ({} keys inherited another's debt, {} requests \
                     shared an allowance, {} were refused because full). Raise --max-keys.",
                    overflow.limit,
                    overflow.max_keys,
                    overflow.evicted_with_debt,
                    overflow.shared,
                    overflow.refused_full
                )
            })
            .collect();
        if self.counts.time.span().is_some_and(|(first, last)| last - first > TEN_YEARS) {
            warnings.push(
                "the log spans more than ten years. A limiter's clock lasts for ten years at least, and \
                 refuses after its end: to be certain, replay the years one by one."
                    .to_owned(),
            );
        }
        warnings
    }
}

/// The engine promises that its clocks last for so many nanoseconds.
const TEN_YEARS: u64 = 10 * 31_557_600_000_000_000;
