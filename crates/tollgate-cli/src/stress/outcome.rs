//! The outcome of a stress run as JSON and as a table.

use std::fmt;

use serde_json::{Value, json};

use super::args::Args;
use super::hammer::Measurements;
use super::verdict::Verdict;
use super::worker::{SAMPLED, timer_cost};
use crate::columns::{Columns, Side, ascii_spaces};
use crate::report::figures::{counted, grouped, percent};

const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

/// All that is shown.
pub(super) struct Outcome<'a> {
    pub(super) args: &'a Args,
    pub(super) threads: usize,
    pub(super) measured: &'a Measurements,
    pub(super) verdict: &'a Verdict,
}

impl Outcome<'_> {
    fn allowed(&self) -> u64 {
        let totals = &self.measured.totals;
        totals.admitted.iter().sum::<u64>() - totals.admitted_again + totals.strangers_admitted
    }

    fn checks_per_second(&self) -> f64 {
        let totals = &self.measured.totals;
        totals.checks as f64 / totals.busy.as_secs_f64()
    }

    fn latencies(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let latency = &self.measured.totals.latency;
        PERCENTILES.into_iter().map(|(name, quantile)| (name, latency.value_at_quantile(quantile)))
    }

    /// How much faster the limiter's clock ran than the operating system's, in millionths.
    fn clock_drift(&self) -> f64 {
        let Measurements { limiter_elapsed, elapsed, .. } = self.measured;
        (limiter_elapsed.as_secs_f64() / elapsed.as_secs_f64() - 1.0) * 1e6
    }

    pub(super) fn json(&self) -> Value {
        let Measurements { totals, stats, footprint, .. } = self.measured;
        let latency: serde_json::Map<String, Value> =
            self.latencies().map(|(name, nanos)| (name.to_owned(), nanos.into())).collect();
        json!({
            "limit": self.args.limit.to_string(),
            "threads": self.threads,
            "keys": self.args.keys,
            "skew": self.args.skew,
            "lease": self.args.lease,
            "batch": self.args.batch,
            "grow": self.args.grow,
            "flood": self.args.flood,
            "tracked": self.args.flood.then_some(self.args.track),
            "strangers": self.args.flood.then_some(totals.strangers),
            "memory": footprint.table,
            "memory_most": footprint.announced,
            "memory_grown": footprint.grown,
            "elapsed_s": totals.busy.as_secs_f64(),
            "decisions": totals.checks,
            "decisions_per_s": self.checks_per_second().round(),
            "allowed": self.allowed(),
            "latency_ns": latency,
            "timer_ns": timer_cost(),
            "pause_ns": self.args.grow.then_some(totals.pause.as_nanos() as u64),
            "bound": self.verdict.bound as u64,
            "most_admitted": {"key": self.verdict.top_key, "admitted": self.verdict.top_admitted},
            "keys_beyond": self.verdict.keys_beyond,
            "evicted_with_debt": stats.evicted_with_debt,
            "shared": stats.shared,
            "refused_full": stats.refused_full,
            "retried": stats.retried,
        })
    }
}

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { args, verdict, .. } = self;
        let Measurements { totals, stats, footprint, .. } = self.measured;
        let (threads, keys) = (counted(self.threads as u64, "thread"), counted(args.keys.into(), "key"));
        writeln!(f, "{} on {threads}, {keys}{}\n", args.limit, args.calls())?;
        let mut facts = Columns::new([Side::Left, Side::Right, Side::Left]);
        let mut fact = |name: &str, value: String, note: String| facts.row([name.to_owned(), value, note]);
        fact(
            "M decisions/s",
            format!("{:.2}", self.checks_per_second() / 1e6),
            format!("{} in {:.2} s", grouped(totals.checks), totals.busy.as_secs_f64()),
        );
        let allowed = self.allowed();
        fact("allowed", grouped(allowed), ascii_spaces(percent(allowed, totals.checks)));
        for (name, nanos) in self.latencies() {
            let note = match name {
                "p50" if args.grow => format!("every call; {} ns of it for the timer", timer_cost()),
                "p50" => format!("one call in {SAMPLED}; {} ns of it for the timer", timer_cost()),
                "max" if args.grow => {
                    let pause = grouped(totals.pause.as_nanos() as u64);
                    format!("{pause} ns in a thread that only read the timer")
                }
                _ => String::new(),
            };
            fact(name, format!("{} ns", grouped(nanos)), note);
        }
        if args.grow {
            let per_key = footprint.table as f64 / f64::from(args.keys);
            fact("bytes a key", format!("{per_key:.1}"), format!("{} in use", grouped(footprint.table)));
        }
        if args.flood {
            let times = totals.strangers as f64 / f64::from(args.keys);
            let note = format!("{times:.0} times as many as the limiter has room for");
            fact("strangers", grouped(totals.strangers), note);
            let note = format!("bytes of the table, of at most {}", grouped(footprint.announced));
            fact("memory", grouped(footprint.table), note);
            if let Some(grown) = footprint.grown {
                let note = format!("bytes more in all, of at most {}", grouped(footprint.allowed()));
                fact("resident", grouped(grown), note);
            }
        }
        let note = format!("key {}, of at most {}", verdict.top_key, verdict.bound);
        fact("most admitted", grouped(verdict.top_admitted), note);
        let note = "admitted more often than the limit allows".to_owned();
        fact("keys beyond", grouped(verdict.keys_beyond as u64), note);
        if stats.evicted_with_debt + stats.shared + stats.refused_full > 0 {
            let note = format!("{} shared, {} refused because full", stats.shared, stats.refused_full);
            fact("evicted with debt", grouped(stats.evicted_with_debt), note);
        }
        fact("retried", grouped(stats.retried), "charges that lost to a concurrent update".to_owned());
        fact(
            "clock",
            format!("{:+.1} ppm", self.clock_drift()),
            "the limiter's against the system's".to_owned(),
        );
        facts.fmt(f)
    }
}
