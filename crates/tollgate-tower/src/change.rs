//! Changing the limits of a layer at run time.

use std::error::Error;
use std::fmt;

use std::sync::PoisonError;

use tollgate::{BuildError, Inherit};
use tollgate_rules::{Cause, ExchangeError, Limit as DataLimit, Limits, Rule, SetError};

use crate::rule::{OWN_TIER, limits_of, origin};
use crate::{Limit, TollgateLayer};

/// Why limits could not be changed. The old limits stay current.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconfigureError {
    /// No rule of the layer has this name.
    UnknownRule {
        /// The name given.
        rule: String,
    },
    /// The rule has fewer tiers.
    UnknownTier {
        /// The rule.
        rule: String,
        /// The tier given; tier 0 is the rule's own limits.
        tier: usize,
    },
    /// The key had no [limits of its own](crate::Rule::for_key) when the layer was built.
    UnknownKey {
        /// The rule.
        rule: String,
    },
    /// The rule is decided by a backend.
    Backend {
        /// The rule.
        rule: String,
    },
    /// The rule's limit [comes with each request](crate::Rule::per_request).
    PerRequest {
        /// The rule.
        rule: String,
    },
    /// The rule counts requests [in flight](crate::Limit::InFlight) and was given quotas, or the
    /// other way round.
    OtherKind {
        /// The rule.
        rule: String,
    },
    /// The engine rejects the new limits.
    Limit {
        /// The rule.
        rule: String,
        /// Names the setting, its value and its range, or the setting that cannot be inherited.
        error: tollgate::BuildError,
    },
}

impl fmt::Display for ReconfigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRule { rule } => write!(f, "no rule is called {rule:?}"),
            Self::UnknownTier { rule, tier } => write!(f, "rule {rule:?} has no tier {tier}"),
            Self::UnknownKey { rule } => write!(f, "rule {rule:?} has no limit of this key's own"),
            Self::Backend { rule } => write!(f, "rule {rule:?} is decided by a backend"),
            Self::PerRequest { rule } => write!(f, "the limit of rule {rule:?} comes with each request"),
            Self::OtherKind { rule } => {
                write!(f, "rule {rule:?}: quotas and limits in flight do not replace each other")
            }
            Self::Limit { rule, error } => write!(f, "rule {rule:?}: {error}"),
        }
    }
}

impl Error for ReconfigureError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Limit { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl<R, B> TollgateLayer<R, B> {
    /// Changes the limits of a rule at run time, for this layer, its clones and all their services.
    /// `limits` are given as to [`Rule::new`](crate::Rule::new): as many as the rule has, in the
    /// same order. `inherit` says what happens to the debt of each key.
    ///
    /// **Guarantee.** As for [`tollgate::Limiter::change`], all limits of the rule change
    /// at the same instant: every request is decided either by all of the old limits or by all of
    /// the new ones. So does `RateLimit-Policy`. Each limit keeps its algorithm, and
    /// its name in headers, even if the period changes. A limit [in flight](Limit::InFlight) takes
    /// another number, for any `inherit`: requests in flight keep their places.
    ///
    /// **Cost.** Each change keeps about six kilobytes until the layer is dropped, and a request
    /// that comes in that instant waits for some microseconds. The turns in queues that clients
    /// have abandoned are lost.
    ///
    /// # Errors
    ///
    /// [`ReconfigureError`]; the old limits stay current. One cause is
    /// [`tollgate::BuildError::ChangedTooOften`]: there were too many changes within the time in
    /// which a bucket refills, so the next change has to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, Rate, TokenBucket};
    /// use tollgate_tower::{TollgateLayer, Rule};
    ///
    /// let incident = TokenBucket::new(Rate::per_second(10));
    /// let layer = TollgateLayer::builder().rule(Rule::new("all", [incident])).build()?;
    /// // The layer serves requests. After the incident:
    /// layer.reconfigure("all", [TokenBucket::new(Rate::per_second(500))], Inherit::Additive)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(
        &self,
        rule: &str,
        limits: impl IntoIterator<Item = impl Into<Limit>>,
        inherit: Inherit,
    ) -> Result<(), ReconfigureError> {
        self.change(rule, |_| Ok(None), limits, inherit)
    }

    /// Changes the limits of one [tier](crate::Rule::tier) of a rule, as
    /// [`reconfigure`](Self::reconfigure) does. Tiers are numbered from 1, in the order in which
    /// they were given.
    ///
    /// # Errors
    ///
    /// As [`reconfigure`](Self::reconfigure).
    pub fn reconfigure_tier(
        &self,
        rule: &str,
        tier: usize,
        limits: impl IntoIterator<Item = impl Into<Limit>>,
        inherit: Inherit,
    ) -> Result<(), ReconfigureError> {
        let unknown = || ReconfigureError::UnknownTier { rule: rule.to_owned(), tier };
        let place = |changed: &Rule| match tier.checked_sub(1) {
            None => Ok(None),
            // Those of single keys stand behind the tiers of requests.
            Some(number) => match changed.tiers.get(number) {
                Some(tier) if !tier.name.starts_with(OWN_TIER) => Ok(Some(number)),
                _ => Err(unknown()),
            },
        };
        self.change(rule, place, limits, inherit)
    }

    /// Changes the [limits of one key](crate::Rule::for_key), as [`reconfigure`](Self::reconfigure)
    /// does.
    ///
    /// # Errors
    ///
    /// As [`reconfigure`](Self::reconfigure).
    pub fn reconfigure_key(
        &self,
        rule: &str,
        key: impl AsRef<[u8]>,
        limits: impl IntoIterator<Item = impl Into<Limit>>,
        inherit: Inherit,
    ) -> Result<(), ReconfigureError> {
        let unknown = || ReconfigureError::UnknownKey { rule: rule.to_owned() };
        let place = |changed: &Rule| {
            let mut closures = (0..).map_while(|rule| self.state().closures(rule));
            let of_rule = closures.find(|closures| *closures.name() == *changed.name);
            let own = of_rule.and_then(|closures| closures.own_tier(key.as_ref()));
            let own = own.and_then(|own| changed.tiers.iter().position(|tier| *tier.name == *own));
            own.map(Some).ok_or_else(unknown)
        };
        self.change(rule, place, limits, inherit)
    }

    /// Changes the limits of a rule, or of the tier whose index `place` finds.
    fn change(
        &self,
        name: &str,
        place: impl FnOnce(&Rule) -> Result<Option<usize>, ReconfigureError>,
        limits: impl IntoIterator<Item = impl Into<Limit>>,
        inherit: Inherit,
    ) -> Result<(), ReconfigureError> {
        let limits = limits_of(&limits.into_iter().map(Into::into).collect::<Vec<_>>());
        let state = self.state();
        let _alone = state.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rules = state.live.rules().rules().clone();
        let rule = rules.rules.iter_mut().find(|rule| *rule.name == *name);
        let rule = rule.ok_or_else(|| ReconfigureError::UnknownRule { rule: name.to_owned() })?;
        let tier = place(rule)?;
        let before = match tier {
            Some(tier) => &mut rule.tiers[tier].limits,
            None => &mut rule.limits,
        };
        let name = || name.to_owned();
        match before {
            Limits::Elsewhere => return Err(ReconfigureError::Backend { rule: name() }),
            Limits::PerRequest => return Err(ReconfigureError::PerRequest { rule: name() }),
            before if counts_in_flight(before) != counts_in_flight(&limits) => {
                return Err(ReconfigureError::OtherKind { rule: name() });
            }
            // The same numbers: nothing is to be read under others.
            before if *before == limits && inherit == Inherit::Reset => {
                let index = rules.rules.iter().position(|rule| *rule.name == *name()).unwrap_or_default();
                let generation = state.generation_of(&state.live.rules());
                let forgive = || state.live.forgive(index, tier).map(drop);
                let forgiven = match generation.turns_of(index, tier) {
                    Some(turns) => turns.change_debt(forgive),
                    None => forgive(),
                };
                return forgiven.map_err(|error| ReconfigureError::Limit { rule: name(), error });
            }
            before => *before = limits,
        }
        rule.inherit = inherit;
        let origin = origin(&rules);
        let error = match state.live.exchange(rules, origin) {
            Ok(_) => return Ok(()),
            Err(ExchangeError::Forgets(conflicts)) => {
                match conflicts.into_iter().next().map(|conflict| conflict.cause) {
                    Some(Cause::Limit(error)) => error,
                    _ => BuildError::CannotInherit { field: "limits" },
                }
            }
            Err(ExchangeError::Change { error, .. } | ExchangeError::Set(SetError::Limit { error, .. })) => {
                error
            }
            // The names, keys and conditions are those of the rules in force.
            Err(_) => BuildError::CannotInherit { field: "limits" },
        };
        Err(ReconfigureError::Limit { rule: name(), error })
    }
}

fn counts_in_flight(limits: &Limits) -> bool {
    let in_flight = |limit: &DataLimit| matches!(limit, DataLimit::InFlight { .. });
    matches!(limits, Limits::Each(limits) if limits.iter().any(in_flight))
}
