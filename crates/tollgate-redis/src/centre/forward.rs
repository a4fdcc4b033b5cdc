//! The task that forwards the charges of this centre to another one.
//!
//! ```text
//!   check: own counter + cost, key into the set     every 50 ms, for each shard:
//!                                                    collect --> merge (there) --> settle
//! ```
//!
//! One process holds the lock of a shard and forwards it. If two do, or an answer is lost, the same
//! counters are sent again: they are totals, so nothing is charged twice.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, Value, from_redis_value};
use tokio::time::sleep;

use crate::Failed;
use crate::script::Script;
use crate::store::Store;

/// How many sets a centre's keys are spread over. The number is part of the names in the store.
pub(crate) const SHARDS: u16 = 16;

/// The pause between two looks at the keys that wait.
const TICK: Duration = Duration::from_millis(50);

/// A process that does not forward a shard asks for its lock each so many ticks.
const ASK_EACH: u64 = 8;

/// For how many milliseconds a process holds a lock that it does not renew.
const LOCK: u64 = 1_000;

/// The most keys of a shard in one script, which blocks the store for about a millisecond. More
/// leave at once after them.
const MOST: usize = 100;

/// The numbers before those of the keys in an answer of `collect`, and of each key.
const HEAD: usize = 4;
const EACH: usize = 7;

/// The way from this centre to another one.
pub(crate) struct Link {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) home: Arc<Store>,
    pub(crate) there: Arc<Store>,
    pub(crate) prefix: String,
    /// This process.
    pub(crate) holder: String,
    pub(crate) horizon: Duration,
    pub(crate) slack: Duration,
    /// How many centres there are.
    pub(crate) centres: usize,
    pub(crate) scripts: Scripts,
    pub(crate) shards: Vec<Shard>,
    pub(crate) longest: AtomicU64,
    pub(crate) forwarded: AtomicU64,
    pub(crate) failed: AtomicU64,
}

pub(crate) struct Scripts {
    collect: Script,
    merge: Script,
    settle: Script,
}

/// A shard at the last look.
#[derive(Default)]
pub(crate) struct Shard {
    waiting: AtomicU64,
    /// For how many microseconds the first key has waited.
    lag: AtomicU64,
}

/// What a process knows of the way from its centre to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForwardCounts {
    /// The other centre.
    pub to: String,
    /// How many keys have charges that the other centre has not confirmed.
    pub dirty_keys: u64,
    /// For how long the first of them has waited.
    pub forward_lag: Duration,
    /// The longest time from a charge to its confirmation, of those that this process forwarded:
    /// the `L` of the bound.
    pub longest_lag: Duration,
    /// How many keys this process has forwarded, and the other centre confirmed.
    pub forwarded: u64,
    /// How often this process could not forward, or the other centre did not take all.
    pub failed: u64,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            collect: Script::new(include_str!("collect.lua")),
            merge: Script::new(include_str!("merge.lua")),
            settle: Script::new(include_str!("settle.lua")),
        }
    }
}

/// The name of the set of a shard's keys with charges to forward to a centre.
pub(crate) fn set_name(prefix: &str, shard: u16, to: &str) -> String {
    format!("{prefix}:{{s:{shard}}}:dirty:{to}")
}

impl Link {
    pub(crate) fn counts(&self) -> ForwardCounts {
        let lag = self.shards.iter().map(|shard| shard.lag.load(Relaxed)).max().unwrap_or(0);
        ForwardCounts {
            to: self.to.clone(),
            dirty_keys: self.shards.iter().map(|shard| shard.waiting.load(Relaxed)).sum(),
            forward_lag: Duration::from_micros(lag),
            longest_lag: Duration::from_micros(self.longest.load(Relaxed)),
            forwarded: self.forwarded.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }

    /// Forwards a shard. Returns whether this process is the one that does.
    async fn forward(&self, shard: u16) -> Result<bool, Failed> {
        let lock = format!("{}:{{s:{shard}}}:forward:{}", self.prefix, self.to);
        let set = set_name(&self.prefix, shard, &self.to);
        loop {
            let body = |command: &mut Cmd| {
                command.arg(2).arg(&lock).arg(&set).arg(&self.holder).arg(LOCK).arg(MOST);
            };
            let collected = texts(self.home.run(&self.scripts.collect, body).await?)?;
            let (head, keys) = collected.split_at_checked(HEAD).ok_or_else(incomplete)?;
            let number = |place: usize| head[place].parse::<u64>().map_err(|_| incomplete());
            let (now, waiting, since, is_mine) = (number(0)?, number(1)?, number(2)?, number(3)? == 1);
            self.shards[usize::from(shard)].waiting.store(waiting, Relaxed);
            self.shards[usize::from(shard)].lag.store(now.saturating_sub(since), Relaxed);
            if !is_mine || keys.is_empty() {
                return Ok(is_mine);
            }
            let keys: Vec<&[String]> = keys.chunks_exact(EACH).collect();
            let taken = self.merge(&head[0], &keys).await?;
            self.settle(shard, &set, &head[0], &keys, &taken).await?;
            // The other centre takes the rest later.
            if keys.len() < MOST || !taken.contains(&true) {
                return Ok(true);
            }
        }
    }

    /// Sends the counters. Returns which of them the other centre has taken over.
    async fn merge(&self, sent: &str, keys: &[&[String]]) -> Result<Vec<bool>, Failed> {
        let body = |command: &mut Cmd| {
            command.arg(keys.len());
            for key in keys {
                command.arg(&key[0]);
            }
            let (horizon, slack) = (self.horizon.as_micros() as u64, self.slack.as_millis() as u64);
            command.arg(&self.from).arg(sent).arg(horizon).arg(slack).arg(self.centres);
            for key in keys {
                command.arg(&key[1..6]);
            }
        };
        let answers = texts(self.there.run(&self.scripts.merge, body).await?)?;
        if answers.len() != keys.len() {
            return Err(incomplete());
        }
        Ok(answers.iter().map(|answer| answer == "1").collect())
    }

    /// Removes the confirmed keys from the set. The others go to its end: they hold up no other.
    async fn settle(
        &self,
        shard: u16,
        set: &str,
        sent: &str,
        keys: &[&[String]],
        taken: &[bool],
    ) -> Result<(), Failed> {
        let body = |command: &mut Cmd| {
            command.arg(1).arg(set).arg(sent);
            for (key, &taken) in keys.iter().zip(taken) {
                // No total is "-".
                command.arg(&key[..2]).arg(if taken { &key[2] } else { "-" });
            }
        };
        let now = self.home.run(&self.scripts.settle, body).await?;
        let now: u64 = from_redis_value(now).map_err(|_| incomplete())?;
        let confirmed = || keys.iter().zip(taken).filter(|&(_, &taken)| taken);
        let first = confirmed().filter_map(|(key, _)| key[6].parse::<f64>().ok()).fold(f64::MAX, f64::min);
        self.longest.fetch_max(now.saturating_sub(first as u64), Relaxed);
        let count = confirmed().count() as u64;
        self.forwarded.fetch_add(count, Relaxed);
        self.failed.fetch_add(u64::from(count < keys.len() as u64), Relaxed);
        let state = &self.shards[usize::from(shard)];
        state.waiting.store(state.waiting.load(Relaxed).saturating_sub(count), Relaxed);
        Ok(())
    }
}

fn incomplete() -> Failed {
    Failed::answer("the answer of a script that forwards is not complete")
}

fn texts(value: Value) -> Result<Vec<String>, Failed> {
    from_redis_value(value).map_err(|_| incomplete())
}

/// Forwards until the centre is dropped.
pub(crate) async fn keep(link: Weak<Link>) {
    let (mut mine, mut is_well) = ([false; SHARDS as usize], true);
    for tick in 0_u64.. {
        let Some(link) = link.upgrade() else { return };
        let due = (0..SHARDS).filter(|&shard| mine[usize::from(shard)] || tick.is_multiple_of(ASK_EACH));
        let results = join_all(due.map(async |shard| (shard, link.forward(shard).await))).await;
        let mut failure = None;
        for (shard, result) in results {
            match result {
                Ok(is_mine) => mine[usize::from(shard)] = is_mine,
                Err(failed) => {
                    link.failed.fetch_add(1, Relaxed);
                    failure = Some(failed);
                }
            }
        }
        // Each change is logged once.
        match failure {
            Some(failed) if is_well => {
                tracing::warn!(to = link.to, %failed, "charges are not forwarded to another centre");
                is_well = false;
            }
            None if !is_well => {
                tracing::info!(to = link.to, "charges are forwarded again");
                is_well = true;
            }
            _ => {}
        }
        drop(link);
        sleep(TICK).await;
    }
}
