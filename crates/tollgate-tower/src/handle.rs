//! Access to the limits of a rule while its layer serves, for operators and handlers.

use std::fmt;
use std::sync::Arc;

use tollgate::{Stats, Usage};
use tollgate_http::{KeyBuf, LimitState, RequestHead};

use crate::decide::LayerState;
use crate::rule::{Ban, CompiledRule, Decider, InFlightSet, LimitSet, RuleMatch, tightest};

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
        let rule = state.rules.iter().position(|compiled| *compiled.name == *rule)?;
        Some(Self { state: Arc::clone(state), rule })
    }

    fn rule(&self) -> &CompiledRule {
        &self.state.rules[self.rule]
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
    pub fn key_of(&self, head: RequestHead<'_>) -> Option<KeyHandle<'_>> {
        let mut key = KeyBuf::new();
        let head = self.state.original(head);
        let set = match self.rule().match_request(&head, &mut key) {
            RuleMatch::Check(request) => request.set,
            RuleMatch::DoesNotApply | RuleMatch::NoKey => return None,
        };
        self.key_in(set, key)
    }

    /// Returns a key by its bytes, with the limits that the key has outside of every tier. `key` is
    /// written as for [`Rule::for_key`](crate::Rule::for_key). `None` if the rule's
    /// [backend](crate::Rule::backend) decides, or if its limit
    /// [comes with each request](crate::Rule::per_request).
    #[must_use]
    pub fn key(&self, key: impl AsRef<[u8]>) -> Option<KeyHandle<'_>> {
        let set = self.rule().limit_set_of_key(key.as_ref()).unwrap_or(0);
        let mut buffer = KeyBuf::new();
        buffer.push(key);
        self.key_in(set, buffer)
    }

    fn key_in(&self, set: usize, key: KeyBuf) -> Option<KeyHandle<'_>> {
        let limits = match &self.rule().decider {
            Decider::Local(sets) => KeyLimits::Quotas(&sets[set]),
            Decider::InFlight(sets) => KeyLimits::InFlight(&sets[set]),
            Decider::Backend(_) | Decider::PerRequest(_) => return None,
        };
        Some(KeyHandle { limits, ban: self.rule().ban.as_deref(), key })
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
        if let Decider::PerRequest(limits) = &self.rule().decider {
            return limits.limiter.stats();
        }
        if let Decider::InFlight(sets) = &self.rule().decider {
            return sets.iter().map(|set| set.0.stats()).sum();
        }
        let (sets, bans) = (self.rule().decider.limit_sets().iter(), self.rule().ban.iter());
        sets.map(|set| set.limiter.stats()).chain(bans.map(|ban| ban.stats())).sum()
    }

    /// Returns how many requests wait in the rule's queues now, over all keys.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.rule().telemetry.waiting()
    }

    /// Returns how many keys are in debt, how many there may be, and how much memory the tables
    /// use: the sum over the bans, tiers and keys of the rule. A key is counted once in each
    /// tier, and once more while it is [banned](crate::Rule::ban). `None` if this process has no
    /// limits of the rule.
    ///
    /// **Cost.** It reads all tables. No request waits for it.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        if let Decider::PerRequest(limits) = &self.rule().decider {
            return Some(limits.limiter.usage());
        }
        let of_quotas = self.rule().decider.limit_sets().iter().map(|set| set.limiter.usage());
        let in_flight = match &self.rule().decider {
            Decider::InFlight(sets) => &sets[..],
            _ => &[],
        };
        let bans = self.rule().ban.iter().map(|ban| ban.usage());
        let usages = of_quotas.chain(in_flight.iter().map(|set| set.0.usage())).chain(bans);
        let mut usages = usages.peekable();
        usages.peek()?;
        Some(usages.sum())
    }
}

/// One key of a rule: see [`RuleHandle::key_of`] and [`RuleHandle::key`].
#[derive(Debug)]
pub struct KeyHandle<'h> {
    limits: KeyLimits<'h>,
    ban: Option<&'h Ban>,
    key: KeyBuf,
}

#[derive(Debug)]
enum KeyLimits<'h> {
    Quotas(&'h LimitSet),
    InFlight(&'h InFlightSet),
}

impl KeyHandle<'_> {
    /// Returns what the key's limits would decide about a request of this cost: the limit that
    /// refuses it longest, or else the one with the least remaining. Changes nothing.
    ///
    /// The request would be admitted if the cost was at most what `peek(0)` says is remaining. A
    /// [banned](crate::Rule::ban) key has nothing remaining, and `reset` is not before the end of
    /// its ban: no request of it is admitted until then.
    #[must_use]
    pub fn peek(&self, cost: u64) -> LimitState {
        let key = self.key.as_bytes();
        let limits = match self.limits {
            KeyLimits::Quotas(limits) => limits,
            KeyLimits::InFlight(limit) => return limit.state(key),
        };
        let decision = limits.limiter.account(key).peek_n(cost);
        let (state, now) = (tightest(&decision), decision.decided_at());
        let Some(end) = self.ban.and_then(|ban| ban.end(key, now)) else { return state };
        let reset = end.saturating_since(now);
        // Without a refusal, `reset` is when more of the limit comes: that ends no ban.
        let reset = decision.retry_after().map_or(reset, |wait| wait.max(reset));
        LimitState { remaining: 0, reset, ..state }
    }

    /// Gives up to `units` of the key's newest requests back, and returns how many: see
    /// [`tollgate::Account::credit`]. The units are on top of the limit. The waiting requests of a
    /// queue keep their departures, and the turns that its clients abandon are lost for now.
    /// Requests [in flight](crate::Limit::InFlight) keep their places: 0.
    pub fn credit(&self, units: u64) -> u64 {
        let KeyLimits::Quotas(limits) = self.limits else { return 0 };
        limits.change_debt(|limiter| limiter.account(self.key.as_bytes()).credit(units))
    }

    /// Forgives the key its debt, lifts its [ban](crate::Rule::ban), and returns whether it may
    /// have had one of the two: see [`tollgate::Account::reset`]. The waiting requests of a queue
    /// keep their departures, and the turns that its clients abandon are lost for now. A request
    /// that is being refused meanwhile may ban the key anew.
    ///
    /// The ban is that of the key in all tiers; the debt is that of this handle's tier. Requests
    /// [in flight](crate::Limit::InFlight) keep their places: `false`.
    pub fn reset(&self) -> bool {
        let key = self.key.as_bytes();
        let KeyLimits::Quotas(limits) = self.limits else { return false };
        let had_debt = limits.change_debt(|limiter| limiter.account(key).reset());
        // Then: a request would be refused for the debt, and banned anew.
        let was_banned = self.ban.is_some_and(|ban| ban.lift(key));
        had_debt || was_banned
    }
}

impl fmt::Debug for RuleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleHandle").field("rule", &self.rule().name).finish_non_exhaustive()
    }
}
