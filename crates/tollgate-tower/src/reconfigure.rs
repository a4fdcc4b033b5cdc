//! Changing the limits of a layer at run time.

use std::error::Error;
use std::fmt;

use tollgate::Inherit;

use crate::rule::{CompiledRule, Decider};
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
    /// the new ones. `RateLimit-Policy` changes right after. Each limit keeps its algorithm, and
    /// its name in headers, even if the period changes. A limit [in flight](Limit::InFlight) takes
    /// another number, for any `inherit`: requests in flight keep their places.
    ///
    /// **Cost.** Each change keeps about six kilobytes until the layer is dropped. After
    /// the first change, a request that sends `RateLimit-Policy` needs a few loads more, however
    /// many changes follow. No request waits for a change.
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
        self.reconfigure_tier(rule, 0, limits, inherit)
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
        let compiled = self.rule(rule)?;
        let unknown = || ReconfigureError::UnknownTier { rule: rule.to_owned(), tier };
        let set = compiled.limit_set_of_tier(tier).ok_or_else(unknown)?;
        reconfigure_limit_set(compiled, set, limits, inherit)
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
        let compiled = self.rule(rule)?;
        let unknown = || ReconfigureError::UnknownKey { rule: rule.to_owned() };
        let set = compiled.limit_set_of_key(key.as_ref()).ok_or_else(unknown)?;
        reconfigure_limit_set(compiled, set, limits, inherit)
    }

    fn rule(&self, name: &str) -> Result<&CompiledRule, ReconfigureError> {
        let found = self.rules().iter().find(|rule| *rule.name == *name);
        found.ok_or_else(|| ReconfigureError::UnknownRule { rule: name.to_owned() })
    }
}

fn reconfigure_limit_set(
    rule: &CompiledRule,
    set: usize,
    limits: impl IntoIterator<Item = impl Into<Limit>>,
    inherit: Inherit,
) -> Result<(), ReconfigureError> {
    let name = || String::from(&*rule.name);
    let limits: Vec<Limit> = limits.into_iter().map(Into::into).collect();
    let other_kind = || ReconfigureError::OtherKind { rule: name() };
    let changed = match &rule.decider {
        Decider::Local(sets) => {
            sets[set].reconfigure(&Limit::quotas(&limits).ok_or_else(other_kind)?, inherit)
        }
        Decider::InFlight(sets) => sets[set].0.set_limit(Limit::in_flight(&limits).ok_or_else(other_kind)?),
        Decider::Backend(_) => return Err(ReconfigureError::Backend { rule: name() }),
        Decider::PerRequest(_) => return Err(ReconfigureError::PerRequest { rule: name() }),
    };
    changed.map_err(|error| ReconfigureError::Limit { rule: name(), error })
}
