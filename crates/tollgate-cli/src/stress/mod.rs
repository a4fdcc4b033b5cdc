//! `tollgate stress`: how fast is it on this machine, and does the limit hold while many threads pull at it?

mod bound;
mod draws;
mod footprint;
mod hammer;

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::columns::{Columns, Side, plain};
use crate::failure::Failure;
use crate::report::figures::{counted, grouped, percent};
use crate::spec::{Spec, within};
use bound::{bound, capacity, recovery};
use footprint::Footprint;
use hammer::{Flood, GROUPS, Hammered, Plan, SAMPLED, STRANGERS, Way, hammer};

/// Hammer one limiter from many threads: how fast is it, and does it hold?
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER)]
pub(crate) struct Args {
    /// Threads [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = within::<u16>(1, u16::MAX.into()), allow_negative_numbers = true)]
    threads: Option<u16>,

    /// Different keys; with --flood, how many the limiter is made for
    #[arg(long, value_name = "K", default_value_t = 10_000)]
    #[arg(value_parser = within::<u32>(1, 1 << 26), allow_negative_numbers = true)]
    keys: u32,

    /// Zipf's exponent: 0 hits all keys alike, 1 is what the web looks like
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = skew, allow_negative_numbers = true)]
    skew: f64,

    /// How long
    #[arg(long, value_name = "T", default_value_t = 5.0, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,

    /// The limit, as for `tollgate replay` [default: token-bucket:1000/s,burst=100; with --grow token-bucket:1/h,burst=100, under
    /// which all keys still owe something when the last one comes]
    #[arg(long, value_name = "SPEC", default_value = "token-bucket:1000/s,burst=100")]
    #[arg(default_value_if("grow", "true", "token-bucket:1/h,burst=100"), hide_default_value = true)]
    limit: Spec,

    /// Let each thread take K permits of a key at once and spend them one by one
    #[arg(long, value_name = "K", conflicts_with = "batch")]
    #[arg(value_parser = within::<u64>(1, u64::MAX), allow_negative_numbers = true)]
    lease: Option<u64>,

    /// Check N keys a call
    #[arg(long, value_name = "N")]
    #[arg(value_parser = within::<u16>(1, u16::MAX.into()), allow_negative_numbers = true)]
    batch: Option<u16>,

    /// Check every key once, in a limiter that starts empty and grows with them: how long does a new key take, and how
    /// many bytes?
    #[arg(long, conflicts_with_all = ["lease", "batch", "seconds", "skew"])]
    grow: bool,

    /// Track some keys, and between any two checks of them check two keys that never came before, at least ten times as
    /// many as the limiter is made for: is a tracked key forgiven, and does memory stay what it was said to be?
    #[arg(long, conflicts_with_all = ["lease", "batch", "grow"])]
    flood: bool,

    /// How many keys are tracked in the flood
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "flood")]
    #[arg(value_parser = within::<u32>(1, 1 << 20), allow_negative_numbers = true)]
    track: u32,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

const AFTER: &str = "\
Keys are drawn beforehand; the figures include walking that list and counting
what was admitted, key by key. One call in 64 is timed (with --grow every call,
and the rate is that of timed calls), and its latency includes one reading of
the timer (shown).

The limit held when no key was admitted more often than
  burst + rate * D + 1             token bucket, leaky bucket (a token may come
                                   one clock grain early)
  limit * aligned windows touched  fixed window, sliding window
  limit * (floor(D / period) + 1)  sliding window with subwindows, sliding log
with D measured from before the first check until after the last, by the
limiter's clock or the operating system's, whichever says more. The same bound
holds with leases: every permit is charged before it is spent, and D begins
before the first charge. A lease takes some 200 bytes, and each thread has one
for every key.

With --flood tracked keys are held to the same bound. A quarter of them asks at
a time, until the next one does; a key that never came before asks for half of
the limit. The limiter's table must take no more than it said when it was built,
nor the process more than that and a MiB a thread.

Exit code: 0 when it held, 1 when it did not, 2 for a bad argument.

Examples:
  tollgate stress
  tollgate stress --threads 8 --keys 1000000 --skew 0 --seconds 10
  tollgate stress --keys 1 --limit sliding-log:100/s
  tollgate stress --keys 1 --limit token-bucket:10000000/s,burst=1000 --lease 100
  tollgate stress --keys 1000000 --skew 0 --batch 32
  tollgate stress --keys 10000000 --grow
  tollgate stress --flood --track 1000 --limit token-bucket:1000/h,burst=20";

fn skew(text: &str) -> Result<f64, String> {
    number(text, 0.0, 10.0)
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.01, 86_400.0)
}

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("it must be from {least} to {most}"))
    }
}

impl Args {
    fn way(&self) -> Way {
        match (self.lease, self.batch) {
            (Some(permits), _) => Way::Leases(permits),
            (None, Some(keys)) => Way::Batches(keys.into()),
            (None, None) if self.grow => Way::Growing,
            (None, None) if self.flood => Way::Flood(self.in_flood()),
            (None, None) => Way::OneByOne,
        }
    }

    /// Groups ask in turn, so that each rests until its keys owe a quarter; but where that takes too long there are four
    /// turns each.
    fn in_flood(&self) -> Flood {
        let time = Duration::from_secs_f64(self.seconds);
        let slice = (recovery(self.limit) / GROUPS).min(time / (4 * GROUPS)).max(Duration::from_nanos(1));
        Flood { cost: capacity(self.limit).div_ceil(2), slice }
    }

    /// Keys that are drawn and counted; for how many the limiter is made; and how often strangers are checked at least.
    fn population(&self) -> (u32, usize, u64) {
        let keys = self.keys as usize;
        match self.way() {
            Way::Growing => (self.keys, keys, 0),
            Way::Flood(_) => (self.track, keys, FLOOD * keys as u64),
            // Twice the room: what is measured is checks, not overflow.
            _ => (self.keys, 2 * keys, 0),
        }
    }

    /// How keys are drawn, and what a call is.
    fn calls(&self) -> String {
        match self.way() {
            Way::OneByOne => format!(", skew {}", self.skew),
            Way::Batches(keys) => format!(", skew {}, batches of {}", self.skew, counted(keys as u64, "key")),
            Way::Leases(permits) => format!(", skew {}, leases of {}", self.skew, counted(permits, "permit")),
            Way::Growing => ", each once, from none".to_owned(),
            Way::Flood(_) => format!(", {} tracked in a flood", grouped(self.track.into())),
        }
    }
}

/// Runs the command.
///
/// # Errors
///
/// A limit that the engine does not accept; a key that was admitted beyond its bound.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let threads =
        args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    if args.lease.is_some() && threads as u64 * u64::from(args.keys) > MOST_LEASES {
        return Err(Failure::Usage(format!(
            "--lease: {threads} threads of {} keys each take more than {MOST_LEASES} leases; ask for fewer keys",
            args.keys
        )));
    }
    let (keys, room, strangers) = args.population();
    let plan = Plan {
        limit: args.limit,
        threads,
        keys,
        room,
        time: Duration::from_secs_f64(args.seconds),
        least: (strangers + strangers.div_ceil(STRANGERS)).div_ceil(threads as u64),
        way: args.way(),
        draws: if args.grow { Vec::new() } else { draws::draw(keys, args.skew, 1) },
    };
    let hammered = hammer(&plan)?;
    let footprint = args.flood.then_some(hammered.footprint);
    let verdict = Verdict::new(bound(args.limit, hammered.stretch), &hammered.admitted, footprint);
    let outcome = Outcome { args, threads, hammered: &hammered, verdict: &verdict };
    let text = if args.json { format!("{}\n", outcome.json()) } else { outcome.to_string() };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::writing("the result"))?;
    verdict.judge()
}

/// Two gigabytes.
const MOST_LEASES: u64 = 10_000_000;

/// Strangers of a flood for each key that the limiter is made for, at least.
const FLOOD: u64 = 10;

/// Whether the limit held.
struct Verdict {
    bound: u128,
    /// The key that was admitted most often, and how often.
    most: (usize, u64),
    keys_beyond: usize,
    /// What the limiter takes, where that is judged as well.
    footprint: Option<Footprint>,
}

impl Verdict {
    /// Judges how often each key was admitted.
    fn new(bound: u128, admitted: &[u64], footprint: Option<Footprint>) -> Self {
        let keys = admitted.iter().copied().enumerate();
        let most = keys.clone().rev().max_by_key(|&(_, admitted)| admitted).unwrap_or_default();
        let keys_beyond = keys.filter(|&(_, admitted)| u128::from(admitted) > bound).count();
        Self { bound, most, keys_beyond, footprint }
    }

    fn judge(&self) -> Result<(), Failure> {
        if self.keys_beyond > 0 {
            let (key, admitted) = self.most;
            return Err(Failure::Broken(format!(
                "the limit did not hold: key {key} was admitted {admitted} times, but at most {} were due \
                 ({} keys beyond it)",
                self.bound, self.keys_beyond
            )));
        }
        match self.footprint {
            Some(footprint) if !footprint.is_within() => Err(Failure::Broken(format!(
                "the memory did not stay as it was said: the table takes {} bytes of at most {}, and the process grew by \
                 {} of at most {}",
                footprint.table,
                footprint.most,
                footprint.grown.unwrap_or_default(),
                footprint.allowed()
            ))),
            _ => Ok(()),
        }
    }
}

/// What is shown.
struct Outcome<'a> {
    args: &'a Args,
    threads: usize,
    hammered: &'a Hammered,
    verdict: &'a Verdict,
}

/// The percentiles that are shown.
const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

impl Outcome<'_> {
    fn allowed(&self) -> u64 {
        self.hammered.admitted.iter().sum::<u64>() - self.hammered.again + self.hammered.strangers.1
    }

    fn a_second(&self) -> f64 {
        self.hammered.checks as f64 / self.hammered.busy.as_secs_f64()
    }

    fn latencies(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let latency = &self.hammered.latency;
        PERCENTILES.into_iter().map(|(name, quantile)| (name, latency.value_at_quantile(quantile)))
    }

    /// How much faster the limiter's clock ran than the operating system's, in millionths.
    fn drift(&self) -> f64 {
        let Hammered { limiter_elapsed, elapsed, .. } = self.hammered;
        (limiter_elapsed.as_secs_f64() / elapsed.as_secs_f64() - 1.0) * 1e6
    }

    fn json(&self) -> Value {
        let stats = self.hammered.stats;
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
            "strangers": self.args.flood.then_some(self.hammered.strangers.0),
            "memory": self.hammered.footprint.table,
            "memory_most": self.hammered.footprint.most,
            "memory_grown": self.hammered.footprint.grown,
            "elapsed_s": self.hammered.busy.as_secs_f64(),
            "decisions": self.hammered.checks,
            "decisions_per_s": self.a_second().round(),
            "allowed": self.allowed(),
            "latency_ns": latency,
            "timer_ns": hammer::timer_cost(),
            "pause_ns": self.args.grow.then_some(self.hammered.pause.as_nanos() as u64),
            "bound": self.verdict.bound as u64,
            "most_admitted": {"key": self.verdict.most.0, "admitted": self.verdict.most.1},
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
        let Self { args, hammered, verdict, .. } = self;
        let (threads, keys) = (counted(self.threads as u64, "thread"), counted(args.keys.into(), "key"));
        writeln!(f, "{} on {threads}, {keys}{}\n", args.limit, args.calls())?;
        let mut facts = Columns::new([Side::Left, Side::Right, Side::Left]);
        let mut fact = |name: &str, value: String, note: String| facts.row([name.to_owned(), value, note]);
        let seconds = hammered.busy.as_secs_f64();
        fact(
            "M decisions/s",
            format!("{:.2}", self.a_second() / 1e6),
            format!("{} in {seconds:.2} s", grouped(hammered.checks)),
        );
        fact("allowed", grouped(self.allowed()), plain(percent(self.allowed(), hammered.checks)));
        for (name, nanos) in self.latencies() {
            let note = match name {
                "p50" => {
                    let calls =
                        if args.grow { "every call".to_owned() } else { format!("one call in {SAMPLED}") };
                    format!("{calls}; {} ns of it for the timer", hammer::timer_cost())
                }
                "max" if args.grow => {
                    let pause = grouped(hammered.pause.as_nanos() as u64);
                    format!("{pause} ns where a thread only read the timer, for as long")
                }
                _ => String::new(),
            };
            fact(name, format!("{} ns", grouped(nanos)), note);
        }
        if args.grow {
            let per_key = hammered.footprint.table as f64 / f64::from(args.keys);
            fact(
                "bytes a key",
                format!("{per_key:.1}"),
                format!("{} in use", grouped(hammered.footprint.table)),
            );
        }
        if let Some(footprint) = verdict.footprint {
            let times = hammered.strangers.0 as f64 / f64::from(args.keys);
            let note = format!("{times:.0} times what the limiter is made for");
            fact("strangers", grouped(hammered.strangers.0), note);
            let note = format!("bytes of the table, of at most {}", grouped(footprint.most));
            fact("memory", grouped(footprint.table), note);
            if let Some(grown) = footprint.grown {
                let note = format!("bytes more in all, of at most {}", grouped(footprint.allowed()));
                fact("resident", grouped(grown), note);
            }
        }
        let (key, admitted) = verdict.most;
        fact("most admitted", grouped(admitted), format!("key {key}, of at most {}", verdict.bound));
        fact(
            "keys beyond",
            grouped(verdict.keys_beyond as u64),
            "admitted more often than the limit allows".to_owned(),
        );
        let stats = hammered.stats;
        if stats.evicted_with_debt + stats.shared + stats.refused_full > 0 {
            let note = format!("{} shared, {} turned away", stats.shared, stats.refused_full);
            fact("slots handed over", grouped(stats.evicted_with_debt), note);
        }
        fact("retried", grouped(stats.retried), "charges, because another thread was faster".to_owned());
        fact("clock", format!("{:+.1} ppm", self.drift()), "the limiter's against the system's".to_owned());
        facts.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_did_not_hold_is_named_with_its_numbers() {
        assert!(Verdict::new(7, &[7, 0, 3], None).judge().is_ok());
        let failure = Verdict::new(7, &[8, 0, 9, 7], None).judge().expect_err("two keys are beyond it");
        assert!(matches!(failure, Failure::Broken(_)), "that is exit code 1");
        let message = failure.to_string();
        assert!(message.contains("key 2 was admitted 9 times, but at most 7 were due (2 keys"), "{message}");
    }
    #[test]
    fn memory_beyond_what_was_said_is_named_with_its_numbers() {
        let footprint = Footprint { table: 4_096, most: 1_024, grown: Some(8_192), threads: 1 };
        let failure = Verdict::new(7, &[7], Some(footprint)).judge().expect_err("the table takes more");
        assert!(matches!(failure, Failure::Broken(_)), "that is exit code 1");
        let message = failure.to_string();
        assert!(
            message.contains("4096 bytes of at most 1024") && message.contains("grew by 8192"),
            "{message}"
        );
    }
}
