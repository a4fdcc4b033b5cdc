//! Rules: which requests are limited, by which key, to how much.

mod bounds;
mod closures;
mod compile;
mod limit;
mod text;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tollgate::{CallQuota, Clock, Quota, WhenFull};
use tollgate_http::{KeyBy, RequestHead};
use tollgate_rules::{AnyBackend, Backend, OnBackendError};

pub(crate) use bounds::{LONGEST_BAN, MAX_NAME_LEN, MAX_RULES};
pub(crate) use closures::{Closures, tell};
pub(crate) use compile::{OWN_TIER, limits_of};
pub use limit::Limit;
pub(crate) use text::{origin, read};

pub(crate) type Predicate = Box<dyn Fn(RequestHead<'_>) -> bool + Send + Sync>;
pub(crate) type CostOf = Box<dyn Fn(RequestHead<'_>) -> u64 + Send + Sync>;
pub(crate) type ChargeIf = Box<dyn Fn(StatusCode, &HeaderMap) -> bool + Send + Sync>;
pub(crate) type CostFrom = Box<dyn Fn(StatusCode, &HeaderMap) -> Option<u64> + Send + Sync>;
pub(crate) type QuotaOf = Box<dyn Fn(RequestHead<'_>) -> Option<CallQuota> + Send + Sync>;
pub(crate) type SharedClock = Arc<dyn Clock + Send + Sync>;

/// What happens to a request without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissingKey {
    /// All requests without a key share one limit, apart from all keys.
    #[default]
    Share,
    /// The request is refused, with 400 unless the [responder](crate::Respond) says otherwise.
    Refuse,
    /// The rule does not apply to the request.
    Skip,
}

/// One to eight limits, charged all or nothing, and the requests to which they apply.
///
/// Every rule that applies to a request must admit it: all are charged, or none. The layer looks
/// at all of them first, so a refusal charges nothing, and it tells the longest wait. Backends are
/// asked when no rule of this process refuses, all at once; if one refuses then, the others are
/// given back what they charged, where they implement [`Backend::refund`].
///
/// The closures read a request and must not change anything: they may run several times for one
/// request. Settings are validated when the layer is built.
///
/// # Examples
///
/// ```
/// use http::{HeaderName, Method};
/// use tollgate::{FixedWindow, Quota, Rate, TokenBucket};
/// use tollgate_tower::{KeyBy, MissingKey, TollgateLayer, Rule};
///
/// /// Attached by the layer that authenticates: never a header that clients can write.
/// #[derive(Clone)]
/// struct Paid;
///
/// let api_key = || KeyBy::header(HeaderName::from_static("x-api-key"));
/// let bucket = |per_second| TokenBucket::new(Rate::per_second(per_second));
/// let quotas: [Quota; 2] = [bucket(10).into(), FixedWindow::new(Rate::per_hour(1_000)).into()];
/// let layer = TollgateLayer::builder()
///     // 10 a second and 1,000 an hour, all or nothing; other limits for paying clients and for a
///     // partner.
///     .rule(
///         Rule::new("api", quotas)
///             .key(api_key())
///             .tier(|head| head.extension::<Paid>().is_some(), [bucket(100)])
///             .for_key("partner-7", [bucket(5_000)])
///             .skip(|head| head.path() == "/health"),
///     )
///     // 20 writes a minute: each costs 5 of 100.
///     .rule(
///         Rule::new("writes", [TokenBucket::new(Rate::per_minute(100))])
///             .key(api_key())
///             .missing_key(MissingKey::Refuse)
///             .when(|head| head.method() == Method::POST)
///             .cost(|_| 5),
///     )
///     .build()?;
/// # Ok::<(), tollgate_tower::BuildError>(())
/// ```
#[must_use = "a rule limits nothing until a layer has it"]
pub struct Rule {
    name: String,
    limits: Vec<Limit>,
    tiers: Vec<(Predicate, Vec<Limit>)>,
    overrides: Vec<(Vec<u8>, Vec<Limit>)>,
    /// `None`: all requests have the same.
    key: Option<KeyBy>,
    missing_key: MissingKey,
    when: Option<Predicate>,
    skip: Option<Predicate>,
    cost: Option<CostOf>,
    charge_if: Option<ChargeIf>,
    cost_from: Option<CostFrom>,
    ban: Option<Duration>,
    shadow: bool,
    max_wait: Duration,
    max_wait_with_body: Duration,
    max_keys: Option<usize>,
    when_full: WhenFull,
    backend: Option<(Arc<AnyBackend>, OnBackendError)>,
    quota_of: Option<QuotaOf>,
}

impl Rule {
    /// Makes a rule with one to eight limits of any algorithms on each key, charged all or nothing.
    /// All requests share one key until [`key`](Self::key) is set.
    ///
    /// The name appears in headers, bodies and metrics: up to 64 ASCII letters, digits, `-`, `_`,
    /// `.`, `:` and `/`. Several limits are named by rule and period: `api/s`, `api/h`.
    ///
    /// A [`LeakyBucket::queue`](tollgate::LeakyBucket::queue) *shapes* traffic: a request that it
    /// admits waits for its departure, and a request that finds it full is refused at once. A
    /// client that disconnects while it waits gives its turn back: the last turn shortens the
    /// queue, and an earlier one goes to the next request, so that the requests behind keep the
    /// departures that they were promised. If the rule has several limits, only the last turn is
    /// given back: make the queue a rule of its own. See [`max_wait`](Self::max_wait).
    ///
    /// [`Limit::InFlight`] limits the requests at once, instead of those in a time.
    pub fn new(name: impl Into<String>, limits: impl IntoIterator<Item = impl Into<Limit>>) -> Self {
        Self {
            name: name.into(),
            limits: collect(limits),
            tiers: Vec::new(),
            overrides: Vec::new(),
            key: None,
            missing_key: MissingKey::default(),
            when: None,
            skip: None,
            cost: None,
            charge_if: None,
            cost_from: None,
            ban: None,
            shadow: false,
            max_wait: Duration::MAX,
            max_wait_with_body: Duration::ZERO,
            max_keys: None,
            when_full: WhenFull::default(),
            backend: None,
            quota_of: None,
        }
    }

    /// Makes a rule that is decided by a [`Backend`], outside of this process.
    ///
    /// `on_error` says what happens if the backend returns an error, panics, or misses its
    /// [deadline](Backend::deadline), which the layer's [timer](crate::Builder::timer) measures.
    /// [`Builder::on_backend_error`](crate::Builder::on_backend_error) gets the error; the latter
    /// two are a [`BackendFault`](crate::BackendFault).
    pub fn backend(name: impl Into<String>, backend: impl Backend, on_error: OnBackendError) -> Self {
        let none: [Quota; 0] = [];
        Self { backend: Some((Arc::new(AnyBackend::new(backend)), on_error)), ..Self::new(name, none) }
    }

    /// Makes a rule whose limit comes with each request: from a verified token, or from a database
    /// whose row another layer attached. It does not apply to a request for which `quota` is
    /// `None`: so do not return that for numbers out of range.
    ///
    /// The limit is a token bucket: a rate and a burst, as a [`CallQuota`]. A key's debt is a time,
    /// and it stays when the key's next request has other numbers. Take the numbers from what the
    /// server knows, never from what a client can write.
    ///
    /// If the table is full, a new key inherits a slot or is refused, unless
    /// [`when_full`](Self::when_full) lets it pass: such keys share no allowance. Such a rule has
    /// no [`tier`](Self::tier), [`for_key`](Self::for_key),
    /// [`cost_from`](Self::cost_from) and [`ban`](Self::ban), and sends no `RateLimit-Policy`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CallQuota, Rate};
    /// use tollgate_tower::{KeyBy, TollgateLayer, Rule};
    ///
    /// /// Attached by the layer that verifies the token.
    /// #[derive(Clone)]
    /// struct Claims {
    ///     subject: String,
    ///     per_minute: u64,
    /// }
    ///
    /// let least = CallQuota::new(Rate::per_minute(1), 1)?;
    /// let by_plan = Rule::per_request("plan", move |head| {
    ///     let per_minute = head.extension::<Claims>()?.per_minute;
    ///     // A claim out of range is no reason to let the client pass.
    ///     Some(CallQuota::new(Rate::per_minute(per_minute), per_minute).unwrap_or(least))
    /// })
    /// .key(KeyBy::extension(|claims: &Claims, key| key.push(&claims.subject)));
    /// let layer = TollgateLayer::builder().rule(by_plan).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn per_request(
        name: impl Into<String>,
        quota: impl Fn(RequestHead<'_>) -> Option<CallQuota> + Send + Sync + 'static,
    ) -> Self {
        let none: [Quota; 0] = [];
        Self { quota_of: Some(Box::new(quota)), ..Self::new(name, none) }
    }

    /// Sets how the key of a request is found. Requests with the same key share a limit.
    pub fn key(mut self, key: KeyBy) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets what happens to a request without a key. By default, such requests share one limit.
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// Applies the rule only to requests for which `when` is true, such as a route or a method.
    pub fn when(mut self, when: impl Fn(RequestHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Box::new(when));
        self
    }

    /// Does not apply the rule to requests for which `skip` is true, such as health checks or
    /// clients of your own networks: see [`ClientAddress::within`](crate::ClientAddress::within).
    pub fn skip(mut self, skip: impl Fn(RequestHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.skip = Some(Box::new(skip));
        self
    }

    /// Adds a tier: other limits for the requests for which `when` is true. The first tier that
    /// matches decides; if none does, the rule's own limits decide. A key has separate state in
    /// each tier.
    pub fn tier(
        mut self,
        when: impl Fn(RequestHead<'_>) -> bool + Send + Sync + 'static,
        limits: impl IntoIterator<Item = impl Into<Limit>>,
    ) -> Self {
        self.tiers.push((Box::new(when), collect(limits)));
        self
    }

    /// Gives one key limits of its own, in every tier. `key` is written as [`KeyBy`] writes it: a
    /// header's value, a path, or the result of
    /// [`ClientAddress::key_of`](crate::ClientAddress::key_of); for alternatives, see
    /// [`KeyBy::or`]. It may be given once for each key.
    ///
    /// **Cost.** A limiter of about 10 KiB for each key, which suits some hundreds of keys. For
    /// more, use a [`tier`](Self::tier).
    pub fn for_key(
        mut self,
        key: impl AsRef<[u8]>,
        limits: impl IntoIterator<Item = impl Into<Limit>>,
    ) -> Self {
        self.overrides.push((key.as_ref().to_vec(), collect(limits)));
        self
    }

    /// Sets the cost of a request; by default, 1. A request of cost 0 is admitted and changes
    /// nothing. A cost above a limit is [refused for good](crate::RefusalReason::CostAboveLimit).
    pub fn cost(mut self, cost: impl Fn(RequestHead<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Box::new(cost));
        self
    }

    /// Charges only requests whose response matches, such as failed logins.
    ///
    /// Every request is charged before it is served, so concurrent requests cannot exceed the
    /// limit. The charge is given back if `charges` is false for the response, or if the inner
    /// service returns an error or panics. The charge stays if the client disconnects before the
    /// response, and if the limits [change](crate::TollgateLayer::reconfigure) before the response
    /// and the new limits charge the same key first. A [`SlidingLog`](tollgate::SlidingLog) gives
    /// back the newest of a key's concurrent requests only: use a bucket or a window. `charges`
    /// does not see trailers, so not most gRPC statuses. The headers of a response count the charge
    /// even if it is given back. A rule with a [backend](Self::backend) gives a charge back by
    /// [`Backend::refund`].
    ///
    /// **Cost.** The future of the response holds the charge. A request allocates only if several
    /// rules with `charge_if` charge it.
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

    /// Sets the cost of a request by its response, such as the tokens that a language model used.
    ///
    /// A request is charged its [`cost`](Self::cost) before it is served: an estimate, by which it
    /// is admitted or refused. Then `cost` reads the response. If the request cost less, the
    /// difference is given back, subject to the algorithm. If it cost more, the difference is
    /// [debited](tollgate::Account::debit), even above the limit: the key is refused until the
    /// debt has drained. `None` keeps the estimate, and so do an error of the inner service and a
    /// client that leaves before the response.
    ///
    /// Between the estimate and the response, concurrent requests are admitted by their estimates,
    /// so a key may exceed its limit by what the estimates of its concurrent requests lack. A
    /// generous estimate errs by refusing. The cost 0 gives all back.
    ///
    /// Of a [`SlidingLog`](tollgate::SlidingLog), which keeps no debt, the layer cannot be built.
    /// If the [table is full](Self::when_full) of other keys, a debit of a new key is lost.
    ///
    /// **Cost.** Two allocations for each request, for its key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Rate, TokenBucket};
    /// use tollgate_tower::Rule;
    ///
    /// let tokens = Rule::new("tokens", [TokenBucket::new(Rate::per_minute(100_000))])
    ///     .cost(|_| 2_000)
    ///     .cost_from(|_, headers| headers.get("x-tokens-used")?.to_str().ok()?.parse().ok());
    /// ```
    pub fn cost_from(
        mut self,
        cost: impl Fn(StatusCode, &HeaderMap) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.cost_from = Some(Box::new(cost));
        self
    }

    /// Bans a key that the rule refuses: from that refusal on, the rule refuses every request of
    /// the key for this long, from 1 ns to ten years. Refusals during the ban do not prolong it.
    ///
    /// **Guarantee.** After the refusal, the rule admits no request of the key until the ban ends,
    /// to the nanosecond, on any thread. `Retry-After`, the headers and the body tell the end of
    /// the ban, or of the limit's own refusal if that is later.
    ///
    /// A ban is of the key, in all [tiers](Self::tier) of the rule and under
    /// [limits of its own](Self::for_key), and of requests of any cost. (A request that
    /// [`skip`](Self::skip) exempts passes.) It is no ban by other rules. A banned request is
    /// charged to no limit. The rule bans by every refusal for now: also if another rule refuses
    /// the request too, if the wait in a queue is longer than [`max_wait`](Self::max_wait), and if
    /// the charges that leave nothing will be given back by [`charge_if`](Self::charge_if). A
    /// request that can never be admitted, or has no key where the rule
    /// [refuses](MissingKey::Refuse) such requests, bans no key. Nor does a new key that is refused
    /// because the [table is full](Self::when_full): a flood of other keys cannot get it banned,
    /// but the debt that it may inherit with its slot counts as its own. Requests that share a
    /// limit are banned together, so give the rule a [`key`](Self::key). A request that waits in a
    /// queue when its key is banned keeps its turn.
    ///
    /// A [shadow rule](Self::shadow) reports the refusals that it would make, bans included, and
    /// makes none. [`KeyHandle::reset`](crate::KeyHandle::reset) lifts a ban;
    /// [`KeyHandle::credit`](crate::KeyHandle::credit) does not. A rule with a
    /// [backend](Self::backend), a [limit of each request](Self::per_request) or a limit
    /// [in flight](crate::Limit::InFlight) cannot have bans: the layer is not built.
    ///
    /// **Cost.** A second table of [`max_keys`](Self::max_keys): an admitted request looks there
    /// twice, and a refusal charges it once. If it is full, further keys are refused by their
    /// limits only, which `admitted_uncounted` of [`RuleHandle::stats`](crate::RuleHandle::stats)
    /// counts.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::StatusCode;
    /// use tollgate::{Rate, SlidingWindow};
    /// use tollgate_tower::{KeyBy, TollgateLayer, Rule};
    ///
    /// // Five failed logins in any ten minutes, and then none for an hour. (Of a bucket one would
    /// // come back every two minutes.)
    /// let five = SlidingWindow::new(Rate::new(5, Duration::from_secs(600))).subwindows(6);
    /// let logins = Rule::new("logins", [five])
    ///     .key(KeyBy::header(http::HeaderName::from_static("x-account")))
    ///     .charge_if(|status, _| status == StatusCode::UNAUTHORIZED)
    ///     .ban(Duration::from_secs(3_600));
    /// let layer = TollgateLayer::builder().rule(logins).build()?;
    /// # Ok::<(), tollgate_tower::BuildError>(())
    /// ```
    pub fn ban(mut self, duration: Duration) -> Self {
        self.ban = Some(duration);
        self
    }

    /// Makes the rule a shadow rule: it decides, counts and reports, but does not refuse requests,
    /// delay them in a queue, or appear in headers.
    ///
    /// It decides every request to which it applies, also one that another rule refuses: in
    /// any order of the rules, the counters say what the rule would refuse. A request that another
    /// rule refuses is not charged to it, as if the rule were enforced.
    ///
    /// A request waits for the shadow rule's [backend](Self::backend), too.
    pub fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// Sets the longest wait in a queue. A request that would wait longer is refused at once. By
    /// default, only the queue's capacity bounds the wait.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Sets the longest wait of an HTTP/1 request that has a body, if it is below
    /// [`max_wait`](Self::max_wait). **By default, such a request does not wait**: it is served if
    /// its turn is now, and refused otherwise.
    ///
    /// The reason is that no server can see that its client left: until the body is read, hyper
    /// does not read from the connection. The request would keep its turn, and would be served for
    /// a client that is gone. A proxy that reads whole bodies before it forwards a request, as
    /// nginx does, makes a longer wait safe. HTTP/2 announces a client that leaves.
    pub fn max_wait_with_body(mut self, max_wait: Duration) -> Self {
        self.max_wait_with_body = max_wait;
        self
    }

    /// Sets how many keys in debt each limit holds at once, which decides its memory. See
    /// [`tollgate::Builder::max_keys`], also for the default.
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = Some(keys);
        self
    }

    /// Sets what happens to a new key when the table is full: see [`WhenFull`]. By default, new
    /// keys then share an allowance.
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }
}

impl Rule {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a limit counts requests in flight.
    pub(crate) fn counts_in_flight(&self) -> bool {
        self.all_limits().flatten().any(|limit| matches!(limit, Limit::InFlight(_)))
    }
}

fn collect(limits: impl IntoIterator<Item = impl Into<Limit>>) -> Vec<Limit> {
    limits.into_iter().map(Into::into).collect()
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .field("missing_key", &self.missing_key)
            .field("ban", &self.ban)
            .field("shadow", &self.shadow)
            .field("max_wait", &self.max_wait)
            .field("max_keys", &self.max_keys)
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}
