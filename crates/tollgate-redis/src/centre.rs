//! Several data centres: each decides by its own store, and tells the others what it charged.

mod forward;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Cmd;
use tollgate::{KeyHasher, Quota, TokenBucket};

use crate::answer::{self, Answer, Asked};
use crate::builder::{Redis, check_name};
use crate::cluster::slot;
use crate::deny::DenyCache;
use crate::error::within;
use crate::id::ChargeId;
use crate::layers::{Fallback, Layers};
use crate::metrics::Metrics;
use crate::quota::{Kind, Limit};
use crate::script::Script;
use crate::shared::Shared;
use crate::{BuildError, Counts, Failed, OnFailure, Time, name};
pub use forward::ForwardCounts;
use forward::{Link, SHARDS, Shard};

/// The most centres.
const MOST_CENTRES: usize = 16;

/// A centre among several, of which each has a store of its own. Clones share it.
///
/// A request is decided by the centre's own store, without a trip to another centre. Each centre
/// counts what it has charged, and a task forwards these totals to the others every 50 ms. A total
/// may arrive late, twice or out of order.
///
/// **Bound.** With `M` centres, and at most `L` from a charge to its arrival in all other centres,
/// any interval of length `W` admits at most
/// `burst + rate * W + (M - 1) * (burst + rate * min(L, W))` in all centres together. `L` is
/// [`ForwardCounts::longest_lag`]. While centres are cut off from each other for longer than the
/// [horizon](CentreBuilder::horizon), it is `M * (burst + rate * W)`.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_redis::Redis;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let here = Redis::builder("redis://redis.eu").build().await?;
/// let us = Redis::builder("redis://redis.us").deadline(Duration::from_secs(1)).build().await?;
/// let centre = here.centre("eu", [("us", us)]).build()?;
/// let login = centre.limiter("login", TokenBucket::new(Rate::per_minute(5))).build()?;
/// assert!(login.check("alice").await?.is_allowed());
/// println!("{:?}", centre.counts());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Centre {
    shared: Arc<Shared>,
    links: Arc<[Arc<Link>]>,
    horizon: Duration,
}

impl Redis {
    /// Begins to build a centre among several. This connection leads to its own store; `others` are
    /// the other centres' names, and connections to their stores from here. Their deadline must
    /// cover a trip between the centres.
    ///
    /// All centres must have the same prefix and horizon, and call each other by the same names.
    pub fn centre(
        &self,
        name: impl Into<String>,
        others: impl IntoIterator<Item = (impl Into<String>, Redis)>,
    ) -> CentreBuilder {
        CentreBuilder {
            shared: Arc::clone(&self.shared),
            name: name.into(),
            others: others.into_iter().map(|(name, redis)| (name.into(), redis)).collect(),
            horizon: Duration::from_secs(10),
        }
    }
}

/// Builds a [`Centre`].
#[must_use = "a builder does nothing until it builds"]
pub struct CentreBuilder {
    shared: Arc<Shared>,
    name: String,
    others: Vec<(String, Redis)>,
    horizon: Duration,
}

impl CentreBuilder {
    /// How long a store remembers what another centre told it. It must be longer than any cut after
    /// which the bound is to hold, and than the difference of the stores' clocks. From a second to
    /// a day; by default 10 s.
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.horizon = horizon;
        self
    }

    /// Builds the centre, and begins to forward.
    ///
    /// # Errors
    ///
    /// [`BuildError::Name`] of a centre, also if two have the same; [`BuildError::OutOfRange`] of
    /// the horizon or the number of centres; [`BuildError::Unsupported`] if callers' clocks decide.
    pub fn build(self) -> Result<Centre, BuildError> {
        let Self { shared, name, others, horizon } = self;
        let (second, day) = (1_000_000_000, 86_400_000_000_000);
        within("horizon", horizon.as_nanos(), second, day)?;
        within("number of centres", 1 + others.len() as u128, 2, MOST_CENTRES as u128)?;
        if !matches!(shared.time, Time::Server) {
            return Err(BuildError::Unsupported { setting: "centres with callers' clocks" });
        }
        let mut names = vec![name.clone()];
        for (other, _) in &others {
            check_name(other)?;
            if names.contains(other) {
                return Err(BuildError::Name { name: other.clone() });
            }
            names.push(other.clone());
        }
        check_name(&name)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let holder = RandomState::new().hash_one((now.as_nanos(), std::process::id()));
        let links = others.into_iter().map(|(to, there)| {
            Arc::new(Link {
                from: name.clone(),
                to,
                home: Arc::clone(&shared.store),
                there: Arc::clone(&there.shared.store),
                prefix: shared.prefix.clone(),
                holder: format!("{holder:x}"),
                horizon,
                slack: shared.slack,
                centres: names.len(),
                scripts: Default::default(),
                shards: (0..SHARDS).map(|_| Shard::default()).collect(),
                longest: Default::default(),
                forwarded: Default::default(),
                failed: Default::default(),
                failing: Default::default(),
            })
        });
        let links: Arc<[_]> = links.collect();
        for (link, shard) in links.iter().flat_map(|link| (0..SHARDS).map(move |shard| (link, shard))) {
            shared.store.runtime().spawn(forward::keep(Arc::downgrade(link), shard));
        }
        Ok(Centre { shared, links, horizon })
    }
}

impl fmt::Debug for CentreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CentreBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Centre {
    /// Begins to build a limiter of one token bucket, or leaky bucket without a queue. Limiters of
    /// the same name share the state of their keys, in all centres.
    pub fn limiter(&self, name: impl Into<String>, quota: impl Into<Quota>) -> CentreLimiterBuilder {
        CentreLimiterBuilder {
            centre: self.clone(),
            name: name.into(),
            quota: quota.into(),
            deny_cache: 0,
            on_failure: OnFailure::Error,
        }
    }

    /// The state of the way to each other centre.
    #[must_use]
    pub fn counts(&self) -> Vec<ForwardCounts> {
        self.links.iter().map(|link| link.counts()).collect()
    }
}

impl fmt::Debug for Centre {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Centre").field("forward", &self.counts()).finish_non_exhaustive()
    }
}

/// Builds a [`CentreLimiter`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct CentreLimiterBuilder {
    centre: Centre,
    name: String,
    quota: Quota,
    deny_cache: usize,
    on_failure: OnFailure,
}

impl CentreLimiterBuilder {
    /// As [`LimiterBuilder::deny_cache`](crate::LimiterBuilder::deny_cache).
    pub fn deny_cache(mut self, keys: usize) -> Self {
        self.deny_cache = keys;
        self
    }

    /// As [`LimiterBuilder::on_failure`](crate::LimiterBuilder::on_failure).
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Builds the limiter. Sends nothing.
    ///
    /// # Errors
    ///
    /// [`BuildError::Unsupported`] for any quota but a bucket; [`BuildError::OutOfRange`] if the
    /// debt that the centres can make together is beyond what the store represents exactly.
    pub fn build(self) -> Result<CentreLimiter, BuildError> {
        let Self { centre, name, quota, deny_cache, on_failure } = self;
        check_name(&name)?;
        within("deny_cache", deny_cache as u128, 0, 1 << 24)?;
        let limit = limit(&quota, 1 + centre.links.len(), centre.horizon)?;
        let layers = Layers {
            store: Arc::clone(&centre.shared.store),
            hasher: KeyHasher::default(),
            deny: (deny_cache > 0).then(|| DenyCache::new(deny_cache)),
            fallback: Fallback::new(on_failure, &[quota]).map_err(BuildError::Local)?,
            metrics: Metrics::default(),
            limit: limit.most,
            // No limiter has it: nothing gives back here.
            number: u64::MAX,
            shadow: None,
            leases: None,
        };
        let script = Script::new(include_str!("centre/check.lua"));
        Ok(CentreLimiter { inner: Arc::new(Inner { centre, name, limit, layers, script }) })
    }
}

/// The numbers of a quota. They are exact up to the largest debt that the centres can make.
fn limit(quota: &Quota, centres: usize, horizon: Duration) -> Result<Limit, BuildError> {
    let narrow = Limit::new(quota, false)?;
    if narrow.kind != Kind::Bucket {
        return Err(BuildError::Unsupported { setting: "centres for this algorithm" });
    }
    let (rate, burst, centres) = (quota.rate(), u128::from(narrow.most), centres as u128);
    let in_horizon =
        horizon.as_nanos().saturating_mul(rate.count().into()).div_ceil(rate.period().as_nanos());
    let debt = burst + centres * burst.saturating_add(in_horizon);
    let total = debt + burst;
    let out_of_range = |max| BuildError::OutOfRange {
        field: "burst + centres * (burst + rate * horizon)",
        value: total,
        min: 1,
        max,
    };
    let wide = u64::try_from(total).map_err(|_| out_of_range(u64::MAX.into()))?;
    let wide =
        Limit::new(&TokenBucket::new(rate).burst(wide).into(), false).map_err(|error| match error {
            BuildError::OutOfRange { max, .. } => out_of_range(max),
            other => other,
        })?;
    let [p, q, _] = wide.numbers;
    Ok(Limit { numbers: [p, q, narrow.most], most: narrow.most, ..wide })
}

/// A limit for all centres. Clones share everything.
///
/// It has checks only: what a centre has charged, it has told the others, who cannot take it back.
#[derive(Clone)]
pub struct CentreLimiter {
    inner: Arc<Inner>,
}

struct Inner {
    centre: Centre,
    name: String,
    limit: Limit,
    layers: Layers,
    script: Script,
}

impl CentreLimiter {
    /// Decides a request of cost 1, and charges it if it is admitted.
    ///
    /// # Errors
    ///
    /// [`Failed`]: the centre's own store gave no answer. The request may be charged.
    pub async fn check(&self, key: impl AsRef<[u8]>) -> Result<Answer, Failed> {
        self.check_n(key, 1).await
    }

    /// Decides a request of this cost, and charges it if it is admitted. A cost of 0 is always
    /// admitted and charges nothing.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub async fn check_n(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Answer, Failed> {
        let (key, layers) = (key.as_ref(), &self.inner.layers);
        // The time before it is sent: a remembered refusal ends by it.
        let sent = layers.store.now();
        if let Some(refused) = layers.remembered(layers.fingerprint(key), cost, sent) {
            return Ok(refused);
        }
        let answer = match layers.closed_to(|| self.inner.name(key).0) {
            Some(failed) => Err(failed),
            // Large: not copied around where there is no trip.
            None => layers.trip(sent, Box::pin(self.inner.ask(sent, key, cost, true))).await,
        };
        let mut answer = layers.settle(key, cost, answer, sent)?;
        answer.take_receipt();
        Ok(answer)
    }

    /// Answers what a check of this cost would. Changes nothing.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub async fn peek(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Answer, Failed> {
        let sent = self.inner.layers.store.now();
        self.inner.layers.trip(sent, pin!(self.inner.ask(sent, key.as_ref(), cost, false))).await
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.inner.centre.shared.store.deadline()
    }

    /// What the limiter has counted in this process.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.inner.layers.counts()
    }
}

impl Inner {
    /// The name of a key, and its shard.
    fn name(&self, key: &[u8]) -> (String, u16) {
        let (prefix, tag) = (&self.centre.shared.prefix, name::tag(key));
        let shard = slot::of_name(tag.as_bytes()) % SHARDS;
        (format!("{prefix}:{{s:{shard}}}:{tag}:{}:c", self.name), shard)
    }

    async fn ask(&self, sent: Duration, key: &[u8], cost: u64, charges: bool) -> Result<Answer, Failed> {
        let store = &self.centre.shared.store;
        let (prefix, (name, shard)) = (&self.centre.shared.prefix, self.name(key));
        let mut keys = vec![name];
        keys.extend(self.centre.links.iter().map(|link| forward::set_name(prefix, shard, &link.to)));
        let horizon = u64::try_from(self.centre.horizon.as_micros()).unwrap_or(u64::MAX);
        let slack = u64::try_from(self.centre.shared.slack.as_millis()).unwrap_or(u64::MAX);
        let body = |command: &mut Cmd| {
            command.arg(keys.len()).arg(&keys).arg(u8::from(charges));
            command.arg(&self.limit.numbers[..]).arg(cost).arg(horizon).arg(slack);
        };
        let value = store.run_in_trip(store.until(sent), &self.script, body).await?;
        let numbers = answer::numbers(value)?;
        let asked = Asked {
            limiter: u64::MAX,
            cost,
            takes: false,
            keys: Vec::new(),
            id: ChargeId::default(),
            charges: false,
            is_reservation: false,
        };
        answer::read(&numbers, 0, &[self.limit.most], asked)
    }
}

impl fmt::Debug for CentreLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CentreLimiter").field("limit", &self.inner.limit).finish_non_exhaustive()
    }
}
