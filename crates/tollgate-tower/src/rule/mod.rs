//! What is limited: which requests, by which key, to how much.

mod announced;
mod compiled;
mod engine;
mod limits;
mod vacant;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tollgate::{Clock, Quota, WhenFull};

pub(crate) use compiled::{Ask, Asked, Compiled, Source};
pub(crate) use engine::{Engine, Ruled};
pub(crate) use limits::Limits;
pub(crate) use vacant::Place;

use crate::backend::Remote;
use crate::{Backend, Head, KeyBy, OnError};

/// The most rules of one layer.
pub(crate) const MOST_RULES: usize = 8;
/// The longest name of a rule.
pub(crate) const LONGEST_NAME: usize = 64;

pub(crate) type Test = Box<dyn Fn(Head<'_>) -> bool + Send + Sync>;
pub(crate) type Cost = Box<dyn Fn(Head<'_>) -> u64 + Send + Sync>;
pub(crate) type ChargeIf = Box<dyn Fn(StatusCode, &HeaderMap) -> bool + Send + Sync>;
pub(crate) type SharedClock = Arc<dyn Clock + Send + Sync>;

/// What happens to a request that has no key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missing {
    /// All such requests share one limit, of their own.
    #[default]
    Share,
    /// It is refused, with 400 unless the answer says otherwise.
    Refuse,
    /// The rule does not concern it.
    Pass,
}

/// A limit, or several that are charged all or nothing, and the requests that it concerns.
///
/// A layer asks its rules in the order in which they were given, and every rule that concerns a request must admit it:
/// what the earlier ones were charged is given back when a later one refuses. (As far as the engine gives back: a window
/// as long as it lasts, a log its newest only, a queue its newest and any other place to the next who comes, a backend
/// nothing; while it is being decided, others may see the charge.) Rules that ask a backend come last.
///
/// The closures look at a request and change nothing: a request that has to wait is shown to them up to three times.
/// Nothing is judged before the layer is built.
///
/// # Examples
///
/// ```
/// use http::{HeaderName, Method};
/// use tollgate::{FixedWindow, Quota, Rate, TokenBucket};
/// use tollgate_tower::{KeyBy, Missing, RateLimitLayer, Rule};
///
/// /// Attached by the layer that authenticates: never a header that clients can write.
/// #[derive(Clone)]
/// struct Paid;
///
/// let api_key = || KeyBy::header(HeaderName::from_static("x-api-key"));
/// let layer = RateLimitLayer::builder()
///     // 10 a second and 1,000 an hour, both or neither; 100 a second for who pays; a partner's own.
///     .rule(
///         Rule::new("api", [Quota::from(TokenBucket::new(Rate::per_second(10))), FixedWindow::new(Rate::per_hour(1_000)).into()])
///             .key(api_key())
///             .tier(|head| head.extension::<Paid>().is_some(), [TokenBucket::new(Rate::per_second(100))])
///             .for_key("partner-7", [TokenBucket::new(Rate::per_second(5_000))])
///             .skip(|head| head.path() == "/health"),
///     )
///     // Writes cost five times as much as they look.
///     .rule(
///         Rule::new("writes", [TokenBucket::new(Rate::per_minute(100))])
///             .key(api_key())
///             .missing(Missing::Refuse)
///             .when(|head| head.method() == Method::POST)
///             .cost(|_| 5),
///     )
///     .build()?;
/// # Ok::<(), tollgate_tower::BuildError>(())
/// ```
#[must_use = "a rule limits nothing until a layer has it"]
pub struct Rule {
    pub(crate) name: String,
    quotas: Vec<Quota>,
    tiers: Vec<(Test, Vec<Quota>)>,
    overrides: Vec<(Vec<u8>, Vec<Quota>)>,
    key: KeyBy,
    missing: Missing,
    when: Option<Test>,
    skip: Option<Test>,
    cost: Option<Cost>,
    charge_if: Option<ChargeIf>,
    shadow: bool,
    max_wait: Duration,
    max_keys: Option<usize>,
    when_full: WhenFull,
    remote: Option<Remote<Vec<Quota>>>,
}

impl Rule {
    /// A rule of this name: from one to eight limits of any algorithms on each key, all or nothing; all requests share
    /// one key until [`key`](Self::key) says otherwise.
    ///
    /// The name stands in headers, bodies and metrics: up to 64 ASCII letters, digits, `-`, `_`, `.`, `:` and `/`. Of
    /// several limits each is called after its period too: `api/s`, `api/h`.
    ///
    /// A [`LeakyBucket::queue`](tollgate::LeakyBucket::queue) *shapes*: what it admits waits for its departure time,
    /// what finds it full is refused at once. A client that disconnects while it waits gives its place back: who
    /// stood last shortens the queue, and a departure from its middle is the next newcomer's, while those behind keep the
    /// departures that they were promised. (Of several limits on one key only the last in the queue gives its place back:
    /// make the queue a rule of its own.) See [`max_wait`](Self::max_wait).
    pub fn new(name: impl Into<String>, quotas: impl IntoIterator<Item = impl Into<Quota>>) -> Self {
        Self {
            name: name.into(),
            quotas: collect(quotas),
            tiers: Vec::new(),
            overrides: Vec::new(),
            key: KeyBy::everyone(),
            missing: Missing::default(),
            when: None,
            skip: None,
            cost: None,
            charge_if: None,
            shadow: false,
            max_wait: Duration::MAX,
            max_keys: None,
            when_full: WhenFull::default(),
            remote: None,
        }
    }

    /// A rule that somebody else decides: see [`Backend`].
    pub fn remote(name: impl Into<String>, backend: impl Backend, on_error: OnError) -> Self {
        let none: [Quota; 0] = [];
        Self { remote: Some(Remote::new(backend, on_error)), ..Self::new(name, none) }
    }

    /// Whose limit a request counts against.
    pub fn key(mut self, key: KeyBy) -> Self {
        self.key = key;
        self
    }

    /// What happens to a request without a key; by default such requests share one limit.
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Concerns only the requests for which this is true: a route, a method.
    pub fn when(mut self, when: impl Fn(Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Box::new(when));
        self
    }

    /// Concerns no request for which this is true: health checks, addresses of one's own (by
    /// [`ClientAddress::of`](crate::ClientAddress::of)).
    pub fn skip(mut self, skip: impl Fn(Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.skip = Some(Box::new(skip));
        self
    }

    /// Other limits for the requests for which this is true. The first tier that is true counts, else the rule's own
    /// limits do. A key has a state in each tier.
    pub fn tier(
        mut self,
        when: impl Fn(Head<'_>) -> bool + Send + Sync + 'static,
        quotas: impl IntoIterator<Item = impl Into<Quota>>,
    ) -> Self {
        self.tiers.push((Box::new(when), collect(quotas)));
        self
    }

    /// Other limits for one key, whatever its tier, written as [`KeyBy`] writes it: a header's value, a path, or what
    /// [`ClientAddress::key_of`](crate::ClientAddress::key_of) makes of an address. Once for each key.
    ///
    /// **Cost.** A limiter of its own, about 10 KiB: for some hundreds of keys. For more give them a [`tier`](Self::tier).
    pub fn for_key(
        mut self,
        key: impl AsRef<[u8]>,
        quotas: impl IntoIterator<Item = impl Into<Quota>>,
    ) -> Self {
        self.overrides.push((key.as_ref().to_vec(), collect(quotas)));
        self
    }

    /// What a request costs; 1 by default. One of cost 0 is admitted and changes nothing; one above a limit never is,
    /// and is [told so](crate::Reason::Never).
    pub fn cost(mut self, cost: impl Fn(Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Box::new(cost));
        self
    }

    /// Charges only what is answered like this, such as failed logins: every request is charged before it is served, so
    /// that no number of them at once exceeds the limit, and given back when its response is another one or an error.
    ///
    /// One whose client disconnects before the answer stays charged; so does one in flight while its limits are
    /// [changed](crate::RateLimitLayer::reconfigure), once its key is charged by the new ones. Of a key's requests in
    /// flight at once a [`SlidingLog`](tollgate::SlidingLog) gives back the newest only: take a bucket or a window. A
    /// gRPC status that comes in trailers is not seen. The headers of a response count its own charge, also when it is
    /// given back with it.
    ///
    /// **Cost.** Five allocations a request: it is decided in a boxed future that holds the charge until the answer.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate::{Rate, TokenBucket};
    /// use tollgate_tower::Rule;
    ///
    /// let logins = Rule::new("logins", [TokenBucket::new(Rate::per_minute(5))])
    ///     .when(|head| head.path() == "/login")
    ///     .charge_if(|status, _| status == StatusCode::UNAUTHORIZED);
    /// ```
    pub fn charge_if(
        mut self,
        charges: impl Fn(StatusCode, &HeaderMap) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.charge_if = Some(Box::new(charges));
        self
    }

    /// Decides, counts and reports, but never refuses, makes anybody queue, or shows in headers. Only a
    /// [backend](Self::remote) is waited for all the same, as long as it takes.
    pub fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// The longest that a queue may hold a request; one whose turn would come later is refused at once. By default the
    /// capacity alone bounds it.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// How many keys that owe something each limit is to hold at once, and so its memory: see
    /// [`tollgate::Builder::max_keys`], whose default this has.
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = Some(keys);
        self
    }

    /// What happens to a new key when there is no room: see [`WhenFull`]. By default it shares an allowance.
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }
}

fn collect(quotas: impl IntoIterator<Item = impl Into<Quota>>) -> Vec<Quota> {
    quotas.into_iter().map(Into::into).collect()
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("name", &self.name)
            .field("quotas", &self.quotas)
            .field("missing", &self.missing)
            .field("shadow", &self.shadow)
            .field("max_wait", &self.max_wait)
            .field("max_keys", &self.max_keys)
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}
