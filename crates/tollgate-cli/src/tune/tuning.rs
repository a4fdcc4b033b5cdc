//! The result.

use serde_json::{Value, json};

use super::args::Args;
use super::distribution::{Distribution, Distributions, Point};
use crate::timelines::Timelines;

/// The result.
pub(super) struct Tuning<'a> {
    pub(super) args: &'a Args,
    pub(super) timelines: &'a Timelines,
    /// How many keys a limit must never refuse.
    pub(super) keep: usize,
    pub(super) distributions: &'a Distributions,
}

impl Tuning<'_> {
    pub(super) fn spec(&self, distribution: &Distribution, limit: u64) -> String {
        distribution.algorithm.with_limit(limit, self.args.period).to_string()
    }

    pub(super) fn json(&self) -> Value {
        let point = |distribution: &Distribution, point: &Point| {
            json!({
                "limit": point.limit,
                "spec": self.spec(distribution, point.limit),
                "requests_refused": point.requests_refused,
                "keys_refused": point.keys_refused,
            })
        };
        let distribution = |distribution: &Distribution| {
            let points = distribution.points.iter().flatten().map(|each| point(distribution, each));
            json!({
                "algorithm": distribution.algorithm.name(),
                "limits": points.collect::<Vec<_>>(),
                "smallest": distribution.smallest.as_ref().map(|smallest| point(distribution, smallest)),
            })
        };
        json!({
            "requests": self.timelines.requests(),
            "keys": self.timelines.keys(),
            "period_ns": self.args.period.as_nanos() as u64,
            "keep": self.args.keep.to_string(),
            "keys_to_keep": self.keep,
            "algorithms": self.distributions.by_algorithm.iter().map(distribution).collect::<Vec<_>>(),
        })
    }
}
