//! `tollgate tune --rules`: the smallest numbers of each rule that would leave nearly all keys
//! untouched.

mod requests;
mod scaled;
mod together;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::{BuildError, GlobalLimiter, Limiter, ManualClock, Quota, Receipt, Timestamp};
use tollgate_rules::{Ends, Limit, Limits};

use super::args::Args;
use super::search::smallest;
use crate::by_rules::{Trial, load};
use crate::columns::{Columns, Side, ascii_spaces};
use crate::failure::Failure;
use crate::note::print_note;
use crate::output::print_result;
use crate::progress::work_bar;
use crate::report::figures::{counted, grouped, percent};
use crate::share::Share;
use requests::{Ask, Asked, ByKey};
use scaled::scaled;
use together::smallest_together;

/// Runs the command under a rules file.
///
/// # Errors
///
/// A rules file or a log that is unusable; output that cannot be written.
pub(super) fn run(args: &Args, file: &Path) -> Result<(), Failure> {
    args.reading.validate("tune --rules rules.toml")?;
    let asked = requests::read(&args.reading, load(file)?, &args.log)?;
    let tuning = Tuning {
        asked: &asked,
        keep: args.keep,
        file: file.display().to_string(),
        rows: rows(&asked, args.keep),
    };
    print_result(&if args.json {
        format!("{}\n", tuning.json())
    } else {
        format!("{}: {tuning}", args.reading.title())
    })?;
    let Trial { log, judges: [judge] } = &asked.trial;
    let notes = log.notes().into_iter().chain(judge.notes(log));
    notes.for_each(|note| print_note(&format!("note: {note}")));
    Ok(())
}

/// A limit of a rule, and what the log needs of it.
struct Row {
    /// The rule, and the tier if it is a tier's limit.
    name: String,
    now: Quota,
    keys: usize,
    /// How many keys it never refuses as it is.
    untouched: usize,
    /// With the smallest count beside the rule's other limits, so that enough keys are refused by
    /// none of them, if there are keys and the engine accepts one.
    smallest: Option<Quota>,
}

/// Every limit, over the requests that use it.
fn rows(asked: &Asked, keep: Share) -> Vec<Row> {
    let rules = asked.trial.judges[0].rules();
    let zero = asked.trial.log.time.span().map_or(0, |(first, _)| first);
    let is_decided = |rule: usize| asked.trial.judges[0].reason(rule).is_none();
    let keys: usize = asked.limits.iter().map(|of| of.keys.len()).sum();
    let bar = work_bar(keys as u64, "trying limits");
    let mut rows = Vec::new();
    for of in asked.limits.iter().filter(|of| is_decided(of.rule)) {
        let Limits::Each(limits) = of.limits(rules) else { continue };
        let quota = |limit: &Limit| if let Limit::Quota(quota) = limit { Some(*quota) } else { None };
        let quotas: Vec<Quota> = limits.iter().filter_map(quota).collect();
        let max_wait = rules.rules[of.rule].max_wait.unwrap_or(Duration::MAX);
        let tried = Tried { zero, max_wait };
        let needs: Vec<Vec<u64>> = quotas.iter().map(|quota| tried.needs(*quota, &of.keys)).collect();
        let counts = smallest_together(&needs, keep.of(of.keys.len()));
        rows.extend(quotas.into_iter().zip(counts).map(|(now, count)| Row {
            name: of.name(rules),
            now,
            keys: of.keys.len(),
            untouched: of.keys.values().filter(|asks| tried.admits_all(now, asks)).count(),
            smallest: (count != u64::MAX && !of.keys.is_empty()).then(|| scaled(now, count)),
        }));
        bar.inc(of.keys.len() as u64);
    }
    bar.finish_and_clear();
    rows
}

/// How limits are tried.
#[derive(Clone, Copy)]
struct Tried {
    /// Unix time of the first record.
    zero: u64,
    /// The longest wait in a queue.
    max_wait: Duration,
}

impl Tried {
    /// Of each key the smallest count with which the limit never refuses it alone.
    fn needs(self, quota: Quota, keys: &ByKey) -> Vec<u64> {
        let largest = largest(quota, self.zero);
        let need = |asks: &Vec<Ask>| {
            let count = smallest(largest, |count| self.admits_all(scaled(quota, count), asks));
            count.unwrap_or(u64::MAX)
        };
        keys.values().map(need).collect()
    }

    /// Whether a limit admits all requests of a key. What it does not charge in the end is given
    /// back when the request ends, as [`Simulation`](tollgate_rules::Simulation) does.
    fn admits_all(self, quota: Quota, asks: &[Ask]) -> bool {
        let Ok(limiter) = limiter(quota, self.zero) else { return false };
        let mut under_way = Ends::default();
        asks.iter().all(|ask| {
            while let Some((at, ended)) = under_way.pop_by(ask.at) {
                settle(&limiter, at, ended);
            }
            let decision = limiter.account(()).at(ask.at).check_n(ask.cost);
            let (is_allowed, delay) = (decision.is_allowed(), decision.delay());
            if ask.settles != ask.cost {
                let ended = Ended { receipt: decision.receipt(), cost: ask.cost, settles: ask.settles };
                // In a queue it lasts at least until its turn.
                let turn = if ask.ends == ask.at { ask.at } else { ask.at + delay };
                under_way.push(ask.ends.max(turn), ended);
            }
            is_allowed && delay <= self.max_wait
        })
    }
}

/// A request that has ended.
struct Ended {
    receipt: Receipt,
    cost: u64,
    /// What stays charged of it.
    settles: u64,
}

/// Makes the charge of a request what stays of it, as far as the limit can.
fn settle(limiter: &OneKey, at: Timestamp, ended: Ended) {
    let Ended { mut receipt, cost, settles } = ended;
    let key = limiter.account(()).at(at);
    match settles.checked_sub(cost) {
        None => _ = key.refund_part(&mut receipt, cost - settles),
        Some(missing) => {
            if key.debit(missing).is_err() {
                let _ = key.check_up_to(missing);
            }
        }
    }
}

/// The limiter of one key.
type OneKey = GlobalLimiter<Quota, 1, ManualClock>;

fn limiter(quota: Quota, zero: u64) -> Result<OneKey, BuildError> {
    let clock = ManualClock::starting_at(Duration::from_nanos(zero));
    Limiter::builder(quota).memory_budget(usize::MAX).clock(clock).build()
}

/// The largest count that is tried of a sliding log, whose memory grows with it.
const LARGEST_LOG: u64 = 1 << 24;

/// A count up to which the engine accepts the quota, at least its own.
fn largest(quota: Quota, zero: u64) -> u64 {
    let most = if matches!(quota, Quota::SlidingLog(_)) { LARGEST_LOG } else { u64::MAX };
    let is_accepted = |next: &u64| *next <= most && limiter(scaled(quota, *next), zero).is_ok();
    let mut count = quota.rate().count();
    while let Some(next) = count.checked_mul(2).filter(is_accepted) {
        count = next;
    }
    count
}

/// The result.
struct Tuning<'a> {
    asked: &'a Asked,
    keep: Share,
    file: String,
    rows: Vec<Row>,
}

impl Tuning<'_> {
    /// The rules that have no limit to tune, with the reasons.
    fn others(&self) -> Vec<(&str, String)> {
        let judge = &self.asked.trial.judges[0];
        let rules = judge.rules().rules.iter().enumerate();
        let other = |(index, rule): (usize, &'_ tollgate_rules::Rule)| match judge.reason(index) {
            Some(reason) => Some((index, format!("not decided: {reason}"))),
            None if matches!(rule.limits, Limits::Each(_)) => None,
            None => {
                Some((index, format!("{}: no number to tune", crate::by_rules::limits_text(&rule.limits))))
            }
        };
        rules.filter_map(other).map(|(index, why)| (&*judge.rules().rules[index].name, why)).collect()
    }

    fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "rule": row.name,
                "limit": row.now.to_string(),
                "keys": row.keys,
                "keys_untouched": row.untouched,
                "smallest": row.smallest.map(|quota| quota.to_string()),
            })
        };
        let other = |(name, why): &(&str, String)| json!({"rule": name, "why": why});
        json!({
            "version": 1,
            "rules_file": self.file,
            "requests": self.asked.requests,
            "keep": self.keep.to_string(),
            "limits": self.rows.iter().map(row).collect::<Vec<_>>(),
            "others": self.others().iter().map(other).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Tuning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} under {}\n", counted(self.asked.requests, "request"), self.file)?;
        let mut columns = Columns::new([Side::Left, Side::Left, Side::Right, Side::Right, Side::Left]);
        let smallest = format!("smallest for {}", self.keep);
        columns.row(["rule", "limit now", "keys", "untouched", &smallest].map(str::to_owned));
        for row in &self.rows {
            let (untouched, none) = match row.keys {
                0 => (String::new(), "no request concerned it"),
                keys => {
                    (ascii_spaces(percent(row.untouched as u64, keys as u64)), "none that the engine accepts")
                }
            };
            columns.row([
                row.name.clone(),
                row.now.to_string(),
                grouped(row.keys as u64),
                untouched,
                row.smallest.map_or(none.to_owned(), |quota| quota.to_string()),
            ]);
        }
        write!(f, "{columns}")?;
        let mut others = Columns::new([Side::Left, Side::Left]);
        for (name, why) in self.others() {
            others.row([name.to_owned(), why]);
        }
        write!(f, "{others}")
    }
}
