//! Access to the limits of a rule while its layer serves, for operators and handlers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Stats, Usage};
use tollgate_http::{KeyBuf, LimitState, RequestHead};
use tollgate_rules::{Limits, RuleKey};

use crate::decide::{Generation, LayerState};
use crate::rule::SharedClock;

/// The limits of one rule of a layer, while the layer serves: see
/// [`TollgateLayer::handle`](crate::TollgateLayer::handle).
///
/// A handle is small, owned and `Clone`: keep it in the state of a server, or attach it to requests
/// as an extension.
///
/// # Examples
///
/// ```
/// use http::{HeaderName, Request};
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::{KeyBy, TollgateLayer, RequestHead, Rule};
///
/// let rule = Rule::new("api", [TokenBucket::new(Rate::per_hour(10))])
///     .key(KeyBy::header(HeaderName::from_static("x-api-key")))
///     .max_keys(1_000_000);
/// let layer = TollgateLayer::builder().rule(rule).build()?;
/// let api = layer.handle("api").ok_or("no such rule")?;
/// assert_eq!(api.stats().refused_full, 0);
/// assert_eq!(api.usage().map(|usage| usage.live_keys), Some(0));
///
/// // In a handler, the key of the request that it serves:
/// let request = Request::builder().header("x-api-key", "k1").body(())?;
/// let client = api.key_of(RequestHead::of(&request)).ok_or("the rule does not apply")?;
/// assert_eq!(client.peek(1).limit, 10);
/// client.credit(1); // an answer from the cache costs nothing
///
/// // In a support tool, a key by its name:
/// api.key("k1").ok_or("a backend decides")?.reset();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RuleHandle {
    state: Arc<LayerState>,
    /// The index of the rule.
    rule: usize,
}

impl RuleHandle {
    pub(crate) fn new(state: &Arc<LayerState>, rule: &str) -> Option<Self> {
        let set = state.live.rules();
        let rule = set.rules().rules.iter().position(|one| *one.name == *rule)?;
        Some(Self { state: Arc::clone(state), rule })
    }

    /// What the layer derives from the rules in force.
    fn generation(&self) -> Arc<Generation> {
        self.state.generation_of(&self.state.live.rules())
    }

    /// Returns the key of a request, with the limits that decide the request: those of its tier, or
    /// of the key alone. `None` if the rule does not apply to the request, if its
    /// [backend](crate::Rule::backend) decides, or if its limit
    /// [comes with each request](crate::Rule::per_request).
    ///
    /// The rule's closures run with this head, which must have what they read: in a handler, the
    /// extensions that the layer saw, too. They see its
    /// [original target](crate::Builder::original_uri), as the layer does.
    #[must_use]
    pub fn key_of(&self, head: RequestHead<'_>) -> Option<KeyHandle> {
        let head = self.state.original(head);
        self.state.with_key(head, self.rule, |generation, tier, key| {
            KeyHandle::new(generation, self.rule, tier, key)
        })
    }

    /// Returns a key by its bytes, with the limits that the key has outside of every tier. `key` is
    /// written as for [`Rule::for_key`](crate::Rule::for_key). `None` if the rule's
    /// [backend](crate::Rule::backend) decides, or if its limit
    /// [comes with each request](crate::Rule::per_request).
    #[must_use]
    pub fn key(&self, key: impl AsRef<[u8]>) -> Option<KeyHandle> {
        let (generation, key) = (self.generation(), key.as_ref());
        let closures = self.state.closures(self.rule)?;
        let own = closures.own_tier(key);
        let tiers = &generation.http.set().rules().rules[self.rule].tiers;
        let tier = own.and_then(|own| tiers.iter().position(|tier| *tier.name == *own));
        KeyHandle::new(&generation, self.rule, tier, closures.counted(key).as_bytes())
    }

    /// Returns how often keys came, went, and found the table full, since the layer was built: the
    /// sum over the bans and all limits, tiers and keys of the rule that this process decides.
    ///
    /// If `evicted_with_debt`, `shared`, `refused_full` or `admitted_uncounted` increases, there
    /// are more keys in debt than [`max_keys`](crate::Rule::max_keys): new keys are refused, or
    /// admitted, as [`when_full`](crate::Rule::when_full) says.
    ///
    /// **Cost.** Some hundred loads for each limit. No request waits for it.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.state.live.rules().stats(self.rule).unwrap_or_default()
    }

    /// Returns how many requests wait in the rule's queues now, over all keys.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.generation().telemetry_of(self.rule).waiting()
    }

    /// Returns how many keys are in debt, how many there may be, and how much memory the tables
    /// use: the sum over the bans, tiers and keys of the rule. A key is counted once in each
    /// tier, and once more while it is [banned](crate::Rule::ban). `None` if this process has no
    /// limits of the rule.
    ///
    /// **Cost.** It reads all tables. No request waits for it.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        let set = self.state.live.rules();
        let rule = &set.rules().rules[self.rule];
        let is_here = |limits: &Limits| matches!(limits, Limits::Each(_) | Limits::PerRequest);
        let mut limits = std::iter::once(&rule.limits).chain(rule.tiers.iter().map(|tier| &tier.limits));
        if limits.any(is_here) { set.usage(self.rule) } else { None }
    }
}

/// One key of a rule: see [`RuleHandle::key_of`] and [`RuleHandle::key`].
pub struct KeyHandle {
    generation: Arc<Generation>,
    rule: usize,
    tier: Option<usize>,
    key: KeyBuf,
}

impl KeyHandle {
    /// `None` if the key is not of this process.
    fn new(generation: &Arc<Generation>, rule: usize, tier: Option<usize>, key: &[u8]) -> Option<Self> {
        let mut buffer = KeyBuf::new();
        buffer.push(key);
        let handle = Self { generation: Arc::clone(generation), rule, tier, key: buffer };
        handle.of_rule().is_some().then_some(handle)
    }

    fn of_rule(&self) -> Option<RuleKey<'_, SharedClock>> {
        self.generation.http.set().key_at(self.rule, self.tier, self.key.as_bytes())
    }

    /// Runs `change`, which takes debt from the key.
    fn change_debt<T: Default>(&self, change: impl FnOnce(RuleKey<'_, SharedClock>) -> T) -> T {
        let Some(key) = self.of_rule() else { return T::default() };
        match self.generation.turns_of(self.rule, self.tier) {
            Some(turns) => turns.change_debt(|| change(key)),
            None => change(key),
        }
    }

    /// Returns what the key's limits would decide about a request of this cost: the limit that
    /// refuses it longest, or else the one with the least remaining. Changes nothing.
    ///
    /// The request would be admitted if the cost was at most what `peek(0)` says is remaining. A
    /// [banned](crate::Rule::ban) key has nothing remaining, and `reset` is not before the end of
    /// its ban: no request of it is admitted until then.
    #[must_use]
    pub fn peek(&self, cost: u64) -> LimitState {
        let none = LimitState { limit: 0, remaining: 0, reset: Duration::MAX };
        let line = self.of_rule().map(|key| key.peek(cost));
        line.and_then(|line| Some(self.generation.http.shown(&line)?.1)).unwrap_or(none)
    }

    /// Gives up to `units` of the key's newest requests back, and returns how many: see
    /// [`tollgate::Account::credit`]. The units are on top of the limit. The waiting requests of a
    /// queue keep their departures, and the turns that its clients abandon are lost for now.
    /// Requests [in flight](crate::Limit::InFlight) keep their places: 0.
    pub fn credit(&self, units: u64) -> u64 {
        self.change_debt(|key| key.credit(units))
    }

    /// Forgives the key its debt, lifts its [ban](crate::Rule::ban), and returns whether it may
    /// have had one of the two: see [`tollgate::Account::reset`]. The waiting requests of a queue
    /// keep their departures, and the turns that its clients abandon are lost for now. A request
    /// that is being refused meanwhile may ban the key anew.
    ///
    /// The ban is that of the key in all tiers; the debt is that of this handle's tier. Requests
    /// [in flight](crate::Limit::InFlight) keep their places: `false`.
    pub fn reset(&self) -> bool {
        self.change_debt(|key| key.reset())
    }
}

/// Without the key, which may be a secret.
impl fmt::Debug for KeyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHandle").field("rule", &self.rule).field("key", &self.key).finish_non_exhaustive()
    }
}

impl fmt::Debug for RuleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleHandle").field("rule", &self.rule).finish_non_exhaustive()
    }
}
