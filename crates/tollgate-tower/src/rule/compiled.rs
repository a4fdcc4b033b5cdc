//! A validated rule with its limits.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Version};
#[cfg(any(feature = "metrics", feature = "tracing"))]
use tollgate::Stats;
use tollgate::{Quota, WhenFull};
use tollgate_backend::{AnyBackend, OnBackendError};
use tollgate_http::{KeyBuf, KeyBy, RequestHead};

use super::request::{CheckRequest, RuleMatch};
use super::{
    Ban, ChargeIf, CostFrom, CostOf, InFlightSet, Limit, LimitSet, LocalLimiter, MAX_NAME_LEN, MAX_RULES,
    MissingKey, PerRequest, Predicate, Rule, SharedClock,
};
use crate::BuildError;
use crate::saved::Part;
use crate::telemetry::RuleTelemetry;

/// A rule as a running layer uses it.
pub(crate) struct CompiledRule {
    pub(crate) name: Box<str>,
    pub(crate) shadow: bool,
    pub(crate) cost_from: Option<CostFrom>,
    charge_if: Option<ChargeIf>,
    pub(crate) decider: Decider,
    /// Boxed: few rules have it.
    pub(crate) ban: Option<Box<Ban>>,
    pub(crate) telemetry: RuleTelemetry,
    pub(crate) max_wait: Duration,
    max_wait_with_body: Duration,
    has_queue: bool,
    tiers: Box<[Predicate]>,
    /// The limit set of each key that has limits of its own.
    overrides: HashMap<Box<[u8]>, usize>,
    key: KeyBy,
    missing_key: MissingKey,
    when: Option<Predicate>,
    skip: Option<Predicate>,
    cost: Option<CostOf>,
}

/// Where a rule's requests are decided.
pub(crate) enum Decider {
    /// In this process: by the rule's own limits, those of its tiers, or those of single keys, in
    /// this order.
    Local(Box<[LimitSet]>),
    Backend(BackendDecider),
    /// In this process, by limits that come with the requests.
    PerRequest(Box<PerRequest>),
    /// In this process, by how many requests are in flight; ordered as [`Local`](Self::Local).
    InFlight(Box<[InFlightSet]>),
}

/// A backend, and what happens when it fails.
pub(crate) struct BackendDecider {
    pub(crate) backend: AnyBackend,
    pub(crate) fallback: Fallback,
}

/// [`OnBackendError`] with its local limits.
pub(crate) enum Fallback {
    Allow,
    Refuse,
    LimitLocally(Box<LimitSet>),
}

impl Decider {
    /// Returns a limit set by its index. A backend has at most one: its local limits.
    pub(crate) fn limit_set(&self, index: usize) -> &LimitSet {
        &self.limit_sets()[index]
    }

    pub(crate) fn limit_sets(&self) -> &[LimitSet] {
        match self {
            Self::Local(sets) => sets,
            Self::Backend(backend) => match &backend.fallback {
                Fallback::LimitLocally(set) => std::slice::from_ref(&**set),
                Fallback::Allow | Fallback::Refuse => &[],
            },
            Self::PerRequest(_) | Self::InFlight(_) => &[],
        }
    }
}

impl CompiledRule {
    /// Finds how the rule applies to a request. The request's key is written into `key`.
    #[inline]
    pub(crate) fn match_request<'k>(&self, head: &RequestHead<'_>, key: &'k mut KeyBuf) -> RuleMatch<'k> {
        let holds = |predicate: &Option<Predicate>| predicate.as_ref().map(|predicate| predicate(*head));
        if holds(&self.when) == Some(false) || holds(&self.skip) == Some(true) {
            return RuleMatch::DoesNotApply;
        }
        let quota = match &self.decider {
            Decider::PerRequest(limits) => match limits.quota_of(head) {
                None => return RuleMatch::DoesNotApply,
                quota => quota,
            },
            Decider::Local(_) | Decider::Backend(_) | Decider::InFlight(_) => None,
        };
        key.clear();
        self.key.write(head, key);
        let key = key.as_bytes();
        if key.is_empty() {
            self.telemetry.warn_missing_key();
            match self.missing_key {
                MissingKey::Share => {}
                MissingKey::Refuse => return RuleMatch::NoKey,
                MissingKey::Skip => return RuleMatch::DoesNotApply,
            }
        }
        let cost = self.cost.as_ref().map_or(1, |cost| cost(*head));
        let max_wait = if self.has_queue { self.max_wait_of(head) } else { self.max_wait };
        RuleMatch::Check(CheckRequest { set: self.limit_set_of(key, head), key, cost, max_wait, quota })
    }

    /// Returns whether the response changes what a request is charged, or its body holds it.
    #[inline]
    pub(crate) fn awaits_response(&self) -> bool {
        self.charge_if.is_some() || self.cost_from.is_some() || self.is_in_flight()
    }

    /// Returns whether the rule counts requests in flight.
    #[inline]
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.decider, Decider::InFlight(_))
    }

    /// Returns what a request costs by its response; `None` is an error. `None` if it costs what it
    /// was charged.
    pub(crate) fn cost_by(&self, response: Option<(StatusCode, &HeaderMap)>) -> Option<u64> {
        let Some((status, headers)) = response else { return self.charge_if.is_some().then_some(0) };
        match &self.charge_if {
            Some(charge_if) if !charge_if(status, headers) => Some(0),
            _ => self.cost_from.as_ref().and_then(|cost_from| cost_from(status, headers)),
        }
    }

    /// Returns how long a request may wait in a queue.
    fn max_wait_of(&self, head: &RequestHead<'_>) -> Duration {
        if hides_disconnect(head) { self.max_wait.min(self.max_wait_with_body) } else { self.max_wait }
    }

    /// Counts and logs a request to which the rule does not apply. Returns that the rule admits it.
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables))]
    pub(crate) fn pass_by(&self, head: &RequestHead<'_>) -> bool {
        self.telemetry.count_not_applied();
        #[cfg(feature = "tracing")]
        tracing::debug!(rule = &*self.name, path = ?head.path(), "the rule does not apply");
        true
    }

    /// Returns the index of the limit set that decides a request.
    fn limit_set_of(&self, key: &[u8], head: &RequestHead<'_>) -> usize {
        let tier = || self.tiers.iter().position(|tier| tier(*head)).map_or(0, |tier| tier + 1);
        if self.overrides.is_empty() { tier() } else { self.limit_set_of_key(key).unwrap_or_else(tier) }
    }

    /// Returns the counters of the tables that many keys share: not those of single keys.
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    pub(crate) fn table_stats(&self) -> Stats {
        if let Decider::PerRequest(limits) = &self.decider {
            return limits.limiter.stats();
        }
        if let Decider::InFlight(sets) = &self.decider {
            let sets = sets.iter().take(1 + self.tiers.len());
            return sets.map(|set| set.0.stats()).sum();
        }
        let sets = self.decider.limit_sets().iter().take(1 + self.tiers.len());
        let bans = self.ban.iter().map(|ban| ban.stats());
        sets.map(|set| set.limiter.stats()).chain(bans).sum()
    }

    /// Returns the index of a tier's limit set. The rule's own limits are tier 0.
    pub(crate) fn limit_set_of_tier(&self, tier: usize) -> Option<usize> {
        (tier <= self.tiers.len()).then_some(tier)
    }

    /// Returns the index of the limit set of a key that has limits of its own.
    pub(crate) fn limit_set_of_key(&self, key: &[u8]) -> Option<usize> {
        self.overrides.get(key).copied()
    }

    /// Returns the limiters of this process that can be saved, with the part of the rule that each
    /// is.
    pub(crate) fn limiters(&self) -> Vec<(Part<&[u8]>, &LocalLimiter)> {
        let mut limiters = Vec::new();
        match &self.decider {
            Decider::Local(sets) => {
                let tiers = sets.iter().take(1 + self.tiers.len()).enumerate();
                limiters.extend(tiers.map(|(tier, set)| (Part::Tier(tier), &set.limiter)));
                let keys = self.overrides.iter();
                limiters.extend(keys.map(|(key, &set)| (Part::Key(&**key), &sets[set].limiter)));
            }
            Decider::Backend(BackendDecider { fallback: Fallback::LimitLocally(set), .. }) => {
                limiters.push((Part::Fallback, &set.limiter));
            }
            Decider::Backend(_) | Decider::PerRequest(_) | Decider::InFlight(_) => {}
        }
        limiters.extend(self.ban.iter().map(|ban| (Part::Ban, &ban.limiter)));
        limiters
    }

    /// Returns the limiter that is this part of the rule.
    pub(crate) fn limiter_mut(&mut self, part: &Part<Vec<u8>>) -> Option<&mut LocalLimiter> {
        let set = match part {
            Part::Tier(tier) => self.limit_set_of_tier(*tier),
            Part::Key(key) => self.limit_set_of_key(key),
            Part::Ban => return self.ban.as_mut().map(|ban| &mut ban.limiter),
            Part::Fallback | Part::PerRequest => None,
        };
        let set = match (&mut self.decider, set, part) {
            (Decider::Local(sets), Some(set), _) => sets.get_mut(set)?,
            (Decider::Backend(backend), None, Part::Fallback) => match &mut backend.fallback {
                Fallback::LimitLocally(set) => set,
                Fallback::Allow | Fallback::Refuse => return None,
            },
            _ => return None,
        };
        Some(&mut set.limiter)
    }

    /// Returns the names of the rule and of its limits, each once: tiers may share names, because a
    /// request meets only one of them.
    fn names(&self) -> HashSet<&str> {
        let of_limits =
            self.decider.limit_sets().iter().flat_map(|set| set.policies.names()).map(|name| &**name);
        [&*self.name].into_iter().chain(of_limits).collect()
    }
}

/// Returns whether the server cannot see that the client leaves before the request is served: the
/// body of an HTTP/1 request lies between the server and the end of the connection.
pub(crate) fn hides_disconnect(head: &RequestHead<'_>) -> bool {
    let has_length = head.header(CONTENT_LENGTH).is_some_and(|length| length != b"0");
    head.version() <= Version::HTTP_11 && (has_length || head.headers().contains_key(TRANSFER_ENCODING))
}

impl Rule {
    /// Validates the rules of a layer and allocates their limits.
    pub(crate) fn compile(rules: Vec<Self>, clock: &SharedClock) -> Result<Box<[CompiledRule]>, BuildError> {
        if !(1..=MAX_RULES).contains(&rules.len()) {
            return Err(BuildError::RuleCount { given: rules.len() });
        }
        for Self { name, overrides, .. } in &rules {
            let mut keys = HashSet::new();
            if !overrides.iter().all(|(key, _)| keys.insert(key)) {
                return Err(BuildError::DuplicateKey { rule: name.clone() });
            }
            let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
            if !(1..=MAX_NAME_LEN).contains(&name.len()) || !name.bytes().all(is_legal) {
                return Err(BuildError::RuleName { given: name.clone() });
            }
        }
        let mut compiled =
            rules.into_iter().map(|rule| rule.validate(clock)).collect::<Result<Box<[_]>, _>>()?;
        let mut names = HashSet::new();
        if let Some(name) = compiled.iter().flat_map(CompiledRule::names).find(|name| !names.insert(*name)) {
            return Err(BuildError::DuplicateName { name: name.to_owned() });
        }
        // A backend may give nothing back, so backends decide last.
        compiled.sort_by_key(|rule| matches!(rule.decider, Decider::Backend(_)));
        Ok(compiled)
    }

    fn validate(mut self, clock: &SharedClock) -> Result<CompiledRule, BuildError> {
        if self.cost_from.is_some() && self.has_log() {
            return Err(BuildError::CostFromOfLog { rule: self.name });
        }
        let limit_error = |rule: &str, error| BuildError::Limit { rule: rule.to_owned(), error };
        let decider = match (self.quota_of.take(), self.backend.take()) {
            (Some(quota_of), _) => {
                if let Some(setting) = self.local_only_setting() {
                    return Err(BuildError::PerRequestSetting { rule: self.name, setting });
                }
                let limits = PerRequest::new(quota_of, self.max_keys, self.when_full, clock.clone());
                Decider::PerRequest(Box::new(limits.map_err(|error| limit_error(&self.name, error))?))
            }
            (None, Some((backend, on_error))) => {
                if let Some(setting) = self.local_only_setting() {
                    return Err(BuildError::BackendSetting { rule: self.name, setting });
                }
                let fallback = match on_error {
                    OnBackendError::Allow => Fallback::Allow,
                    OnBackendError::Refuse => Fallback::Refuse,
                    OnBackendError::LimitLocally(quotas) => {
                        let limits = self.limit_set(0, &quotas, self.max_keys, clock)?;
                        Fallback::LimitLocally(Box::new(limits))
                    }
                };
                Decider::Backend(BackendDecider { backend, fallback })
            }
            (None, None) => self.own_limits(clock)?,
        };
        let ban = |duration| Ban::new(&self.name, duration, self.max_keys, clock.clone()).map(Box::new);
        let ban = self.ban.map(ban).transpose()?;
        let first_override = 1 + self.tiers.len();
        let keys = self.overrides.into_iter().map(|(key, _)| key.into_boxed_slice());
        Ok(CompiledRule {
            telemetry: RuleTelemetry::new(&self.name, self.shadow),
            name: self.name.into(),
            shadow: self.shadow,
            max_wait: self.max_wait,
            max_wait_with_body: self.max_wait_with_body,
            has_queue: decider.limit_sets().iter().any(LimitSet::may_queue),
            charge_if: self.charge_if,
            cost_from: self.cost_from,
            decider,
            ban,
            tiers: self.tiers.into_iter().map(|(predicate, _)| predicate).collect(),
            overrides: keys.zip(first_override..).collect(),
            key: self.key,
            missing_key: self.missing_key,
            when: self.when,
            skip: self.skip,
            cost: self.cost,
        })
    }

    /// Returns the limits of the rule, of its tiers and of single keys, in this order, and the most
    /// keys of each.
    fn limits_and_keys(&self) -> impl Iterator<Item = (&[Limit], Option<usize>)> {
        let of_tiers = self.tiers.iter().map(|(_, limits)| limits);
        let of_tiers = [&self.limits].into_iter().chain(of_tiers);
        let of_tiers = of_tiers.map(|limits| (&limits[..], self.max_keys));
        of_tiers.chain(self.overrides.iter().map(|(_, limits)| (&limits[..], Some(1))))
    }

    /// Returns whether any limit is a sliding log.
    fn has_log(&self) -> bool {
        let mut limits = self.limits_and_keys().flat_map(|(limits, _)| limits);
        limits.any(|limit| matches!(limit, Limit::Quota(Quota::SlidingLog(_))))
    }

    /// Allocates the limits of the rule, of its tiers and of single keys: all are quotas, or each
    /// is one limit in flight.
    fn own_limits(&self, clock: &SharedClock) -> Result<Decider, BuildError> {
        if self.limits_and_keys().any(|(limits, _)| Limit::quotas(limits).is_none()) {
            return self.in_flight_limits();
        }
        let sets = self.limits_and_keys().enumerate();
        let sets = sets.map(|(index, (limits, keys))| {
            self.limit_set(index, &Limit::quotas(limits).unwrap_or_default(), keys, clock)
        });
        Ok(Decider::Local(sets.collect::<Result<_, _>>()?))
    }

    fn in_flight_limits(&self) -> Result<Decider, BuildError> {
        let settings = [
            (self.charge_if.is_some(), "charge_if"),
            (self.cost_from.is_some(), "cost_from"),
            (self.ban.is_some(), "ban"),
            (self.when_full == WhenFull::Allow, "when_full"),
        ];
        if let Some((_, setting)) = settings.into_iter().find(|(is_set, _)| *is_set) {
            return Err(BuildError::InFlightSetting { rule: self.name.clone(), setting });
        }
        let set = |(limits, keys)| {
            let limit = Limit::in_flight(limits)
                .ok_or_else(|| BuildError::MixedLimits { rule: self.name.clone() })?;
            let error = |error| BuildError::Limit { rule: self.name.clone(), error };
            InFlightSet::new(limit, keys).map_err(error)
        };
        Ok(Decider::InFlight(self.limits_and_keys().map(set).collect::<Result<_, _>>()?))
    }

    /// Returns a setting that only works with limits that the rule itself has.
    fn local_only_setting(&self) -> Option<&'static str> {
        let settings = [
            (!self.tiers.is_empty(), "tier"),
            (!self.overrides.is_empty(), "for_key"),
            (self.cost_from.is_some(), "cost_from"),
            (self.ban.is_some(), "ban"),
        ];
        settings.into_iter().find_map(|(is_set, name)| is_set.then_some(name))
    }

    fn limit_set(
        &self,
        index: usize,
        quotas: &[Quota],
        max_keys: Option<usize>,
        clock: &SharedClock,
    ) -> Result<LimitSet, BuildError> {
        let limiter = LocalLimiter::new(quotas, max_keys, self.when_full, clock.clone())
            .map_err(|error| BuildError::Limit { rule: self.name.clone(), error })?;
        Ok(LimitSet::new(&self.name, index, quotas, limiter))
    }
}
