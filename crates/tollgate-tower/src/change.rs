//! Other limits for a layer that is serving.

use std::error::Error;
use std::fmt;

use tollgate::{Inherit, Quota};

use crate::RateLimitLayer;
use crate::rule::{Compiled, Source};

/// Why a limit stays as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// No rule of the layer has this name.
    NoRule {
        /// The name given.
        rule: String,
    },
    /// The rule has fewer tiers.
    NoTier {
        /// The rule.
        rule: String,
        /// The tier given; the rule's own limit is 0.
        tier: usize,
    },
    /// No limit of its own was given to the key when the layer was built.
    NoKey {
        /// The rule.
        rule: String,
    },
    /// A backend keeps the rule's limits.
    Remote {
        /// The rule.
        rule: String,
    },
    /// The engine refuses the new limits.
    Limit {
        /// The rule.
        rule: String,
        /// The setting, its value, and its range; or what cannot be inherited.
        error: tollgate::BuildError,
    },
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule { rule } => write!(f, "no rule is called {rule:?}"),
            Self::NoTier { rule, tier } => write!(f, "rule {rule:?} has no tier {tier}"),
            Self::NoKey { rule } => write!(f, "rule {rule:?} has no limit of this key's own"),
            Self::Remote { rule } => write!(f, "the limits of rule {rule:?} are kept by a backend"),
            Self::Limit { rule, error } => write!(f, "rule {rule:?}: {error}"),
        }
    }
}

impl Error for ChangeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Limit { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl<A> RateLimitLayer<A> {
    /// Gives a rule other limits while it serves: for this layer, its clones, and all their services. They are given as to
    /// [`Rule::new`](crate::Rule::new): as many as the rule has, in the same order. What becomes of what keys owe to each is
    /// `inherit`'s to say.
    ///
    /// **Guarantee.** That of [`tollgate::MultiLimiter::reconfigure`]: there is one moment of the change, for all limits of the
    /// rule, and every request is decided wholly by the old ones or wholly by the new ones. `RateLimit-Policy` follows right
    /// after. Each limit stays of its algorithm, and keeps the name by which it is announced, whatever its new period.
    ///
    /// **Cost.** Some hundred bytes a limit that stay, and a few loads more for each later request that announces its limits,
    /// however many changes there were. Requests never wait for it.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; all of the old limits stay in force. [`tollgate::BuildError::ChangedTooOften`] among them: after so many
    /// changes within the time in which a bucket refills, the next has to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, Rate, TokenBucket};
    /// use tollgate_tower::{RateLimitLayer, Rule};
    ///
    /// let layer = RateLimitLayer::builder().rule(Rule::new("all", [TokenBucket::new(Rate::per_second(10))])).build()?;
    /// // served by now; the incident is over:
    /// layer.reconfigure("all", [TokenBucket::new(Rate::per_second(500))], Inherit::Additive)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(
        &self,
        rule: &str,
        limits: impl IntoIterator<Item = impl Into<Quota>>,
        inherit: Inherit,
    ) -> Result<(), ChangeError> {
        self.reconfigure_tier(rule, 0, limits, inherit)
    }

    /// [`reconfigure`](Self::reconfigure) for one of the rule's [tiers](crate::Rule::tier), in the order in which they were
    /// given, from 1.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reconfigure_tier(
        &self,
        rule: &str,
        tier: usize,
        limits: impl IntoIterator<Item = impl Into<Quota>>,
        inherit: Inherit,
    ) -> Result<(), ChangeError> {
        let compiled = self.rule(rule)?;
        let place = compiled.tier(tier).ok_or_else(|| ChangeError::NoTier { rule: rule.to_owned(), tier })?;
        change(compiled, place, limits, inherit)
    }

    /// [`reconfigure`](Self::reconfigure) for a key that was given [limits of its own](crate::Rule::for_key).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reconfigure_key(
        &self,
        rule: &str,
        key: impl AsRef<[u8]>,
        limits: impl IntoIterator<Item = impl Into<Quota>>,
        inherit: Inherit,
    ) -> Result<(), ChangeError> {
        let compiled = self.rule(rule)?;
        let own = compiled.override_of(key.as_ref());
        let place = own.ok_or_else(|| ChangeError::NoKey { rule: rule.to_owned() })?;
        change(compiled, place, limits, inherit)
    }

    fn rule(&self, name: &str) -> Result<&Compiled, ChangeError> {
        let found = self.rules().iter().find(|rule| *rule.name == *name);
        found.ok_or_else(|| ChangeError::NoRule { rule: name.to_owned() })
    }
}

fn change(
    rule: &Compiled,
    place: usize,
    limits: impl IntoIterator<Item = impl Into<Quota>>,
    inherit: Inherit,
) -> Result<(), ChangeError> {
    let name = || String::from(&*rule.name);
    let Source::Here(sources) = &rule.source else { return Err(ChangeError::Remote { rule: name() }) };
    let quotas: Vec<Quota> = limits.into_iter().map(Into::into).collect();
    sources[place].reconfigure(&quotas, inherit).map_err(|error| ChangeError::Limit { rule: name(), error })
}
