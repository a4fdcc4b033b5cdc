//! The command line of `tollgate stress`, and the plan that it asks for.

use std::time::Duration;

use super::bound::{capacity, recovery};
use super::key_sequence::key_sequence;
use super::worker::{Flood, GROUPS, Mode, Plan, STRANGERS};
use crate::failure::Failure;
use crate::report::figures::{counted, grouped};
use crate::spec::{Spec, within};

/// The most leases of all threads together; they take two gigabytes.
const MAX_LEASES: u64 = 10_000_000;

/// At least so many strangers come in a flood for each key that the limiter has room for.
const STRANGERS_PER_KEY: u64 = 10;

/// Hammer one limiter from many threads: how fast is it, and does it hold?
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER)]
pub(crate) struct Args {
    /// Threads [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = within::<u16>(1, u16::MAX.into()), allow_negative_numbers = true)]
    threads: Option<u16>,

    /// Different keys; with --flood, how many the limiter has room for
    #[arg(long, value_name = "K", default_value_t = 10_000)]
    #[arg(value_parser = within::<u32>(1, 1 << 26), allow_negative_numbers = true)]
    pub(super) keys: u32,

    /// Zipf's exponent: 0 draws all keys alike, 1 resembles web traffic
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = skew, allow_negative_numbers = true)]
    pub(super) skew: f64,

    /// How long
    #[arg(long, value_name = "T", default_value_t = 5.0, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,

    /// The limit, as for `tollgate replay` [default: token-bucket:1000/s,burst=100; with --grow
    /// token-bucket:1/h,burst=100, under which all keys are still in debt when the last one comes]
    #[arg(long, value_name = "SPEC", default_value = "token-bucket:1000/s,burst=100")]
    #[arg(default_value_if("grow", "true", "token-bucket:1/h,burst=100"), hide_default_value = true)]
    pub(super) limit: Spec,

    /// Let each thread acquire K permits of a key at once and spend them one by one
    #[arg(long, value_name = "K", conflicts_with = "batch")]
    #[arg(value_parser = within::<u64>(1, u64::MAX), allow_negative_numbers = true)]
    pub(super) lease: Option<u64>,

    /// Check N keys a call
    #[arg(long, value_name = "N")]
    #[arg(value_parser = within::<u16>(1, u16::MAX.into()), allow_negative_numbers = true)]
    pub(super) batch: Option<u16>,

    /// Check every key once, in a limiter that starts empty and grows: how long does a new key
    /// take, and how many bytes?
    #[arg(long, conflicts_with_all = ["lease", "batch", "seconds", "skew"])]
    pub(super) grow: bool,

    /// Track some keys, and between any two of their checks check two strangers: keys that come
    /// only once. At least ten strangers come for each key that the limiter has room for. Is a
    /// tracked key forgiven its debt, and does the memory stay within the announced size?
    #[arg(long, conflicts_with_all = ["lease", "batch", "grow"])]
    pub(super) flood: bool,

    /// How many keys are tracked in the flood
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "flood")]
    #[arg(value_parser = within::<u32>(1, 1 << 20), allow_negative_numbers = true)]
    pub(super) track: u32,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(super) json: bool,
}

const AFTER: &str = "\
Keys are drawn beforehand; the figures include walking that list and counting
what was admitted, key by key. One call in 64 is timed (with --grow every call,
and the rate is that of timed calls), and its latency includes one reading of
the timer (shown).

The limit held when no key was admitted more often than
  burst + rate * D + 1             token bucket, leaky bucket (a token may come
                                   one clock tick early)
  limit * aligned windows touched  fixed window, sliding window
  limit * (floor(D / period) + 1)  sliding window with subwindows, sliding log
with D measured from before the first check until after the last, by the
limiter's clock or the operating system's, the longer of the two. The same bound
holds with leases: every permit is charged before it is spent, and D begins
before the first charge. A lease takes some 200 bytes, and each thread has one
for every key.

With --flood tracked keys are held to the same bound. A quarter of them is
checked at a time, then the next quarter; a stranger asks for half of the limit.
The limiter's table must take no more than its builder announced, and the
process no more than that and a MiB a thread.

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
    /// How many threads to start.
    ///
    /// # Errors
    ///
    /// When their leases would take too much memory.
    pub(super) fn threads(&self) -> Result<usize, Failure> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or_else(cores, usize::from);
        if self.lease.is_some() && threads as u64 * u64::from(self.keys) > MAX_LEASES {
            return Err(Failure::Usage(format!(
                "--lease: {threads} threads of {} keys each take more than {MAX_LEASES} leases; ask for fewer keys",
                self.keys
            )));
        }
        Ok(threads)
    }

    pub(super) fn plan(&self, threads: usize) -> Plan {
        let room = self.keys as usize;
        let (keys, max_keys, strangers) = match self.mode() {
            Mode::Growing => (self.keys, room, 0),
            Mode::Flood(_) => (self.track, room, STRANGERS_PER_KEY * room as u64),
            // Twice the room: checks are measured, not overflow.
            _ => (self.keys, 2 * room, 0),
        };
        Plan {
            limit: self.limit,
            threads,
            keys,
            max_keys,
            time: Duration::from_secs_f64(self.seconds),
            min_checks: (strangers + strangers.div_ceil(STRANGERS)).div_ceil(threads as u64),
            mode: self.mode(),
            key_sequence: if self.grow { Vec::new() } else { key_sequence(keys, self.skew, 1) },
        }
    }

    fn mode(&self) -> Mode {
        match (self.lease, self.batch) {
            (Some(permits), _) => Mode::Leases(permits),
            (None, Some(keys)) => Mode::Batches(keys.into()),
            (None, None) if self.grow => Mode::Growing,
            (None, None) if self.flood => Mode::Flood(self.flood_plan()),
            (None, None) => Mode::OneByOne,
        }
    }

    /// A group pauses for three slices, in which its keys recover three quarters of the limit.
    /// Where that takes too long, each group gets four slices of the time.
    fn flood_plan(&self) -> Flood {
        let time = Duration::from_secs_f64(self.seconds);
        let slice = (recovery(self.limit) / GROUPS).min(time / (4 * GROUPS)).max(Duration::from_nanos(1));
        Flood { cost: capacity(self.limit).div_ceil(2), slice }
    }

    /// How the keys are drawn and checked, for the table's first line.
    pub(super) fn calls(&self) -> String {
        match self.mode() {
            Mode::OneByOne => format!(", skew {}", self.skew),
            Mode::Batches(keys) => {
                format!(", skew {}, batches of {}", self.skew, counted(keys as u64, "key"))
            }
            Mode::Leases(permits) => {
                format!(", skew {}, leases of {}", self.skew, counted(permits, "permit"))
            }
            Mode::Growing => ", each once, from none".to_owned(),
            Mode::Flood(_) => format!(", {} tracked in a flood", grouped(self.track.into())),
        }
    }
}
