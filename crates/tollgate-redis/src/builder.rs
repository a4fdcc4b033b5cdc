//! The builders of a connection and of its limiters.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::{KeyHasher, MOST_LIMITS, Quota};
use tollgate_rules::{AddressError, StoreAddress};

use crate::connection::Topology;
use crate::deny::DenyCache;
use crate::error::within;
use crate::layers::{Fallback, Layers};
use crate::lease::Mode;
use crate::limiter::{Limiter, Settings};
use crate::metrics::Metrics;
use crate::quota::Limit;
use crate::script::Scripts;
use crate::shadow::Shadow;
use crate::shared::{Shared, Time};
use crate::store::Store;
use crate::{BuildError, OnFailure};

/// A connection to a store: Redis 6.2 or later, or Valkey. Clones share it.
///
/// # Examples
///
/// ```no_run
/// use tollgate::{FixedWindow, Quota, Rate, TokenBucket};
/// use tollgate_redis::Redis;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let redis = Redis::builder("redis://10.0.0.7").build().await?;
/// let quotas: [Quota; 2] =
///     [TokenBucket::new(Rate::per_minute(5)).into(), FixedWindow::new(Rate::per_day(100)).into()];
/// let login = redis.limiter("login", quotas).build()?;
/// assert!(login.check("alice").await?.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redis {
    pub(crate) shared: Arc<Shared>,
}

impl Redis {
    /// Waits for the first connection of one that was [opened](RedisBuilder::open), or for its
    /// failure.
    ///
    /// When would I want this? To serve the first request as fast as all others, where the
    /// deadline is shorter than the handshakes with the server take.
    ///
    /// # Errors
    ///
    /// [`BuildError::Refused`] if the server is there and refuses the password or scripts. A server
    /// that cannot be reached is no error, as for [`build`](RedisBuilder::build).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), tollgate_redis::BuildError> {
    /// let redis = tollgate_redis::Redis::builder("redis://10.0.0.7").open()?;
    /// redis.connected().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connected(&self) -> Result<(), BuildError> {
        self.shared.store.connected(&self.shared.prefix).await
    }

    /// Begins to build a connection. The [address](StoreAddress) is
    /// `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, or
    /// `redis+unix:///path`.
    pub fn builder<A>(address: A) -> RedisBuilder
    where
        A: TryInto<StoreAddress>,
        AddressError: From<A::Error>,
    {
        RedisBuilder {
            address: address.try_into().map_err(Into::into),
            topology: Ok(Topology::One),
            deadline: Duration::from_millis(10),
            prefix: "tg1".to_owned(),
            time: Time::Server,
            slack: Duration::from_secs(1),
        }
    }

    /// Begins to build a limiter of one quota, or of up to 8 that decide together: a request is
    /// admitted by all, or charges none.
    ///
    /// Limiters of the same name, prefix and kinds of quotas share the state of their keys, in all
    /// processes. If their quotas differ, as during a deployment, both charge the same debt.
    /// Windows and logs share it only if they are equally wide: with another width a key begins
    /// anew.
    pub fn limiter(
        &self,
        name: impl Into<String>,
        quotas: impl IntoIterator<Item = impl Into<Quota>>,
    ) -> LimiterBuilder {
        let quotas = quotas.into_iter().map(Into::into).collect();
        LimiterBuilder {
            shared: Arc::clone(&self.shared),
            name: name.into(),
            quotas,
            exact: false,
            deny_cache: 0,
            on_failure: OnFailure::Error,
            mode: Mode::Strict,
            shadow: 0,
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("prefix", &self.shared.prefix).finish_non_exhaustive()
    }
}

/// Builds a [`Redis`].
#[must_use = "a builder does nothing until it builds"]
pub struct RedisBuilder {
    address: Result<StoreAddress, AddressError>,
    topology: Result<Topology, AddressError>,
    deadline: Duration,
    prefix: String,
    time: Time,
    slack: Duration,
}

/// Without the servers.
impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("RedisBuilder");
        builder.field("deadline", &self.deadline).field("prefix", &self.prefix).field("time", &self.time);
        builder.finish_non_exhaustive()
    }
}

impl RedisBuilder {
    /// Connects to a cluster, of which the builder's address and these are known.
    ///
    /// Each master has a connection and a breaker of its own, so a master that fails fails only its
    /// keys. A request follows its key to another master, which charges nothing twice. While a slot
    /// moves, a new key of several limits fails as [`Moved`](crate::FailureKind::Moved).
    pub fn cluster<A>(mut self, others: impl IntoIterator<Item = A>) -> Self
    where
        A: TryInto<StoreAddress>,
        AddressError: From<A::Error>,
    {
        self.topology = addresses(others).map(Topology::Cluster);
        self
    }

    /// Connects to the master that these sentinels name. In the builder's address, the host is the
    /// name of the master: `redis://user:password@main/0`.
    pub fn sentinel<A>(mut self, sentinels: impl IntoIterator<Item = A>) -> Self
    where
        A: TryInto<StoreAddress>,
        AddressError: From<A::Error>,
    {
        self.topology = addresses(sentinels).map(Topology::Sentinel);
        self
    }

    /// The longest time that a request waits for its answer, for a connection and for room
    /// included. From 1 ms to a minute; by default 10 ms.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What the names of all keys begin with; by default `tg1`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whose clock decides; by default the server's.
    pub fn time(mut self, time: Time) -> Self {
        self.time = time;
        self
    }

    /// How long the store keeps a key after it is as good as new. It must cover the difference of
    /// the callers' clocks, if those decide. From 1 ms to a day; by default a second.
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// Connects. Needs a Tokio runtime, on which a task keeps the connection up.
    ///
    /// A server that cannot be reached is not an error: a limiter must not keep a service from
    /// starting. The task tries again, and requests [fail](crate::Failed) meanwhile.
    ///
    /// # Errors
    ///
    /// [`BuildError::Address`]; [`BuildError::Refused`] if the server is there and refuses the
    /// password or scripts; [`BuildError::OutOfRange`] and [`BuildError::Name`].
    pub async fn build(self) -> Result<Redis, BuildError> {
        let redis = self.open()?;
        redis.connected().await?;
        Ok(redis)
    }

    /// As [`build`](Self::build), and does not wait for the server: it connects meanwhile. A server
    /// that refuses the password or scripts is no error here, but fails every request.
    ///
    /// # Errors
    ///
    /// Those of [`build`](Self::build), but for [`BuildError::Refused`].
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn open(self) -> Result<Redis, BuildError> {
        let (minute, day) = (60_000_000_000, 86_400_000_000_000);
        within("deadline", self.deadline.as_nanos(), 1_000_000, minute)?;
        within("slack", self.slack.as_nanos(), 1_000_000, day)?;
        check_name(&self.prefix)?;
        let Self { address, topology, deadline, prefix, time, slack } = self;
        let (address, topology) =
            (address.map_err(BuildError::Address)?, topology.map_err(BuildError::Address)?);
        let store = Store::open(&address, &topology, &prefix, deadline)?;
        Ok(Redis { shared: Arc::new(Shared { store: Arc::new(store), prefix, time, slack }) })
    }
}

/// The addresses of several servers.
fn addresses<A>(texts: impl IntoIterator<Item = A>) -> Result<Vec<StoreAddress>, AddressError>
where
    A: TryInto<StoreAddress>,
    AddressError: From<A::Error>,
{
    texts.into_iter().map(|text| text.try_into().map_err(Into::into)).collect()
}

/// Builds a [`Limiter`].
#[must_use = "a builder does nothing until it builds"]
pub struct LimiterBuilder {
    shared: Arc<Shared>,
    name: String,
    quotas: Vec<Quota>,
    exact: bool,
    deny_cache: usize,
    on_failure: OnFailure,
    mode: Mode,
    shadow: usize,
}

impl LimiterBuilder {
    /// Remembers refusals of up to this many keys, rounded up to a power of two and at most
    /// 2^24: until their [`retry_after`](crate::Answer::retry_after), and at most for a second, a
    /// key's requests of at least the refused cost are refused without a trip. 128 bytes each. By
    /// default 0: none.
    ///
    /// It never admits. A refund, a reset or a higher quota in another process is noticed when the
    /// entry ends.
    pub fn deny_cache(mut self, keys: usize) -> Self {
        self.deny_cache = keys;
        self
    }

    /// Puts the limiter into shadow mode: each check is admitted at once, and what it would have
    /// been answered is only [counted](Limiter::counts). Up to this many checks, at most 2^16, are
    /// on their way at once; more are not made, and counted. By default 0: not in shadow mode.
    ///
    /// So neither a slow nor a failing store is noticed by requests. The checks charge as usual.
    pub fn shadow(mut self, checks: usize) -> Self {
        self.shadow = checks;
        self
    }

    /// Whether each check asks the store, or permits are taken ahead. By default [`Mode::Strict`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate::{Rate, TokenBucket};
    /// use tollgate_redis::{Limiter, Mode, Redis};
    ///
    /// async fn api(redis: &Redis) -> Result<Limiter, tollgate_redis::BuildError> {
    ///     let quota = TokenBucket::new(Rate::per_second(100_000)).burst(20_000);
    ///     // Three processes share it: each takes at most 20,000 / (4 * 3) permits ahead.
    ///     redis.limiter("api", [quota]).mode(Mode::leased(3)).deny_cache(10_000).build()
    /// }
    /// ```
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// What decides a check when the store fails. By default [`OnFailure::Error`].
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Refuses quotas that the store cannot represent exactly. Without this, it takes the nearest
    /// lower rate, or counts time in longer steps: [`Limiter::resolution`].
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Builds the limiter. Sends nothing: each request brings its quotas.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: a number is out of range, or the store does not have a setting.
    pub fn build(self) -> Result<Limiter, BuildError> {
        static LIMITERS: AtomicU64 = AtomicU64::new(0);
        check_name(&self.name)?;
        within("number of limits", self.quotas.len() as u128, 1, MOST_LIMITS as u128)?;
        let limits = self.quotas.iter().map(|quota| Limit::new(quota, self.exact));
        let limits = limits.collect::<Result<Vec<_>, _>>()?;
        let kinds: Vec<_> = limits.iter().map(|limit| limit.kind).collect();
        let suffixes = limits.iter().enumerate().map(|(number, limit)| match limits.len() {
            1 => format!("{}:{}", self.name, limit.suffix()),
            _ => format!("{}:{number}{}", self.name, limit.suffix()),
        });
        within("deny_cache", self.deny_cache as u128, 0, 1 << 24)?;
        within("shadow", self.shadow as u128, 0, 1 << 16)?;
        let leases = self.mode.leases(&limits)?;
        let deny = (self.deny_cache > 0).then(|| DenyCache::new(self.deny_cache));
        let number = LIMITERS.fetch_add(1, Ordering::Relaxed);
        let layers = Layers {
            store: Arc::clone(&self.shared.store),
            hasher: KeyHasher::default(),
            deny: match &leases {
                Some(leases) => deny.map(|deny| deny.at_most(leases.ttl())),
                None => deny,
            },
            fallback: Fallback::new(self.on_failure, &self.quotas).map_err(BuildError::Local)?,
            metrics: Metrics::default(),
            limit: limits.iter().map(|limit| limit.most).min().unwrap_or(0),
            number,
            shadow: (self.shadow > 0).then(|| Shadow::new(self.shadow, self.shared.store.runtime().clone())),
            leases,
        };
        let settings = Settings {
            number,
            suffixes: suffixes.collect(),
            once: format!("{}:once", self.name),
            scripts: Scripts::of(&kinds),
            limits,
        };
        Ok(Limiter::new(self.shared, settings, layers))
    }
}

impl fmt::Debug for LimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("LimiterBuilder");
        builder.field("name", &self.name).field("quotas", &self.quotas).finish_non_exhaustive()
    }
}

/// Names become parts of the keys' names, in which `:`, `{` and `}` have a meaning.
pub(crate) fn check_name(name: &str) -> Result<(), BuildError> {
    let is_harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(is_harmless) {
        return Ok(());
    }
    Err(BuildError::Name { name: name.to_owned() })
}
