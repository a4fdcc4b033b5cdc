//! The task that forwards the charges of this centre to another one.
//!
//! ```text
//!   check: own counter + cost, key into the set     a task for each shard, every 50 ms:
//!                                                    collect --> merge (there) --> settle
//! ```
//!
//! One process holds the lock of a shard and forwards it. If two do, or an answer is lost, the same
//! counters are sent again: they are totals, so nothing is charged twice.
//!
//! A shard with more keys than one pass carries is forwarded without a pause. It holds up no other
//! shard: each has a task of its own.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Cmd, Value, from_redis_value};
use tokio::time::sleep;

use crate::Failed;
use crate::script::Script;
use crate::store::Store;

/// How many sets a centre's keys are spread over. The number is part of the names in the store.
pub(crate) const SHARDS: u16 = 16;

/// The pause between two looks at the keys that wait.
const TICK: Duration = Duration::from_millis(50);

/// The pause between two looks at the lock of a shard that another process forwards.
const ASK: Duration = Duration::from_millis(400);

/// For how many milliseconds a process holds a lock that it does not renew.
const LOCK: u64 = 1_000;

/// The most keys of a shard in one pass, whose scripts block a store for about a millisecond. More
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
    /// The shards whose last pass failed: a bit for each.
    pub(crate) failing: AtomicU16,
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

    /// Forwards at most [`MOST`] keys of a shard. Returns the pause until the next pass.
    async fn forward(&self, shard: u16) -> Result<Duration, Failed> {
        let lock = format!("{}:{{s:{shard}}}:forward:{}", self.prefix, self.to);
        let set = set_name(&self.prefix, shard, &self.to);
        let body = |command: &mut Cmd| {
            command.arg(2).arg(&lock).arg(&set).arg(&self.holder).arg(LOCK).arg(MOST);
        };
        let collected = texts(self.home.run(&self.scripts.collect, body).await?)?;
        let (head, keys) = collected.split_at_checked(HEAD).ok_or_else(incomplete)?;
        let number = |place: usize| head[place].parse::<u64>().map_err(|_| incomplete());
        let (now, waiting, since, is_mine) = (number(0)?, number(1)?, number(2)?, number(3)? == 1);
        self.shards[usize::from(shard)].waiting.store(waiting, Relaxed);
        self.shards[usize::from(shard)].lag.store(now.saturating_sub(since), Relaxed);
        if !is_mine {
            return Ok(ASK);
        }
        if keys.is_empty() {
            return Ok(TICK);
        }
        let keys: Vec<&[String]> = keys.chunks_exact(EACH).collect();
        let taken = self.merge(&head[0], &keys).await?;
        self.settle(shard, &set, &head[0], &keys, &taken).await?;
        // The other centre takes later what it has not taken now.
        let has_more = keys.len() == MOST && taken.contains(&true);
        Ok(if has_more { Duration::ZERO } else { TICK })
    }

    /// Notes how a pass ended. Each change is logged once.
    fn passed(&self, shard: u16, failed: Option<&Failed>) {
        let (to, bit) = (&self.to, 1 << shard);
        match failed {
            Some(failed) => {
                self.failed.fetch_add(1, Relaxed);
                if self.failing.fetch_or(bit, Relaxed) == 0 {
                    tracing::warn!(to, %failed, "charges are not forwarded to another centre");
                }
            }
            None => {
                if self.failing.fetch_and(!bit, Relaxed) == bit {
                    tracing::info!(to, "charges are forwarded again");
                }
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

/// Forwards a shard until the centre is dropped.
pub(crate) async fn keep(link: Weak<Link>, shard: u16) {
    let mut pause = TICK;
    loop {
        let Some(link) = link.upgrade() else { return };
        let passed = link.forward(shard).await;
        link.passed(shard, passed.as_ref().err());
        // After a failure, the lock is as likely to be this process's as before.
        pause = passed.unwrap_or(pause.max(TICK));
        drop(link);
        sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Topology;
    use crate::fake;

    /// A link to a centre from one whose shard 0 always has keys that wait.
    async fn link_with_a_busy_shard() -> (Arc<Link>, Arc<Vec<AtomicU64>>) {
        let passes: Arc<Vec<_>> = Arc::new((0..SHARDS).map(|_| AtomicU64::new(0)).collect());
        let (counted, scripts) = (Arc::clone(&passes), Scripts::default());
        let answer = move |words: &[String]| {
            if *words[1] == *scripts.settle.hash {
                return ":1\r\n".to_owned();
            }
            let numbers = if *words[1] == *scripts.merge.hash {
                MOST
            } else {
                let shard: usize = words[4].split(['{', ':', '}']).nth(3).unwrap().parse().unwrap();
                counted[shard].fetch_add(1, Relaxed);
                HEAD + if shard == 0 { MOST * EACH } else { 0 }
            };
            format!("*{numbers}\r\n") + &"$1\r\n1\r\n".repeat(numbers)
        };
        let url = fake::serve(answer).await;
        let patient = Duration::from_secs(10);
        let store = Arc::new(Store::open(&fake::address(&url), &Topology::One, "tg1", patient).unwrap());
        let link = Link {
            from: "eu".to_owned(),
            to: "us".to_owned(),
            home: Arc::clone(&store),
            there: store,
            prefix: "tg1".to_owned(),
            holder: "1".to_owned(),
            horizon: patient,
            slack: Duration::ZERO,
            centres: 2,
            scripts: Scripts::default(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            longest: Default::default(),
            forwarded: Default::default(),
            failed: Default::default(),
            failing: Default::default(),
        };
        (Arc::new(link), passes)
    }

    #[tokio::test]
    async fn a_busy_shard_holds_up_no_other() {
        let (link, passes) = link_with_a_busy_shard().await;
        for shard in 0..SHARDS {
            tokio::spawn(keep(Arc::downgrade(&link), shard));
        }
        let enough = async {
            while passes.iter().any(|passes| passes.load(Relaxed) < 3) {
                sleep(TICK).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(5), enough).await.is_ok(), "{passes:?}");
    }
}
