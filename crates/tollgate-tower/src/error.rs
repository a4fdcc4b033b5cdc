//! The error of building a layer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tollgate_http::AddressError;
use tollgate_rules::SetError;

use crate::rule::{LONGEST_BAN, MAX_NAME_LEN, MAX_RULES};

/// An invalid setting of a layer, a rule or a client address. Nothing was built.
///
/// # Examples
///
/// ```
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::{BuildError, KeyBy, TollgateLayer, Rule};
///
/// let rule = Rule::new("api", [TokenBucket::new(Rate::per_second(0))]).key(KeyBy::everyone());
/// let error = TollgateLayer::builder().rule(rule).build().unwrap_err();
/// assert!(matches!(error, BuildError::Limit { ref rule, .. } if rule == "api"));
/// let message = error.to_string();
/// assert!(message.starts_with("rule \"api\": rate.count is 0, but must be between 1 and "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The engine rejects a limit of a rule.
    Limit {
        /// The rule.
        rule: String,
        /// Names the setting, its value and its range.
        error: tollgate::BuildError,
    },
    /// A layer has 1 to 8 rules.
    RuleCount {
        /// How many were given.
        given: usize,
    },
    /// A rule's name has 1 to 64 ASCII letters, digits, `-`, `_`, `.`, `:` and `/`, because it
    /// appears in headers and metrics.
    RuleName {
        /// The name given.
        given: String,
    },
    /// Two rules have the same name, or a rule has the name of another rule's limit. Headers and
    /// metrics could not tell them apart. The limits of a rule with several limits are named by
    /// rule and period: `api/s`, `api/h`.
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A rule has [`for_key`](crate::Rule::for_key) twice for the same key. The error does not say
    /// which key, because keys are often secrets.
    DuplicateKey {
        /// The rule.
        rule: String,
    },
    /// A rule that is decided by a backend has a setting that only works with limits in this
    /// process.
    BackendSetting {
        /// The rule.
        rule: String,
        /// The setting.
        setting: &'static str,
    },
    /// A rule whose [limit comes with each request](crate::Rule::per_request) has a setting that
    /// only works with limits of its own.
    PerRequestSetting {
        /// The rule.
        rule: String,
        /// The setting.
        setting: &'static str,
    },
    /// A rule has [`cost_from`](crate::Rule::cost_from) and a
    /// [`SlidingLog`](tollgate::SlidingLog), which keeps no debt above its limit.
    CostFromOfLog {
        /// The rule.
        rule: String,
    },
    /// The duration of a [ban](crate::Rule::ban) is from 1 ns to ten years of 365.25 days.
    BanDuration {
        /// The rule.
        rule: String,
        /// The duration given.
        given: Duration,
    },
    /// A rule has a limit [in flight](crate::Limit::InFlight) beside another limit. Make it a rule
    /// of its own, with the same key.
    MixedLimits {
        /// The rule.
        rule: String,
    },
    /// A rule with a limit [in flight](crate::Limit::InFlight) has a setting that only works with
    /// quotas.
    InFlightSetting {
        /// The rule.
        rule: String,
        /// The setting.
        setting: &'static str,
    },
    /// A rule has a limit [in flight](crate::Limit::InFlight), so the layer has to be built by
    /// [`build_in_flight`](crate::Builder::build_in_flight).
    InFlight {
        /// The rule.
        rule: String,
    },
    /// The rules mean nothing together.
    Rules(Box<SetError>),
    /// A setting of a client address.
    Address(AddressError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { rule, error } => write!(f, "rule {rule:?}: {error}"),
            Self::RuleCount { given } => {
                write!(f, "{given} rules, but a layer has between 1 and {MAX_RULES}")
            }
            Self::RuleName { given } => write!(
                f,
                "the rule name {given:?} must be 1 to {MAX_NAME_LEN} ASCII letters, digits, `-`, `_`, `.`, `:` and `/`"
            ),
            Self::DuplicateName { name } => {
                write!(
                    f,
                    "two rules, or their limits, are called {name:?}: headers and metrics need distinct names"
                )
            }
            Self::DuplicateKey { rule } => write!(f, "rule {rule:?} has `for_key` twice for one key"),
            Self::BackendSetting { rule, setting } => {
                write!(f, "rule {rule:?} is decided by a backend, which does not support `{setting}`")
            }
            Self::PerRequestSetting { rule, setting } => {
                write!(
                    f,
                    "the limit of rule {rule:?} comes with each request, which does not support `{setting}`"
                )
            }
            Self::CostFromOfLog { rule } => {
                write!(
                    f,
                    "rule {rule:?} has `cost_from` and a sliding log, which keeps no debt above its limit"
                )
            }
            Self::BanDuration { rule, given } => {
                write!(f, "rule {rule:?}: the ban is {given:?}, but must be between 1ns and {LONGEST_BAN:?}")
            }
            Self::MixedLimits { rule } => {
                write!(f, "rule {rule:?} has a limit in flight beside others: it must be a rule of its own")
            }
            Self::InFlightSetting { rule, setting } => {
                write!(f, "rule {rule:?} has a limit in flight, which does not support `{setting}`")
            }
            Self::InFlight { rule } => write!(
                f,
                "rule {rule:?} has a limit in flight: build the layer by `build_in_flight`, which wraps the \
                 bodies of responses"
            ),
            Self::Rules(error) => error.fmt(f),
            Self::Address(error) => error.fmt(f),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Limit { error, .. } => Some(error),
            Self::Rules(error) => error.source(),
            Self::Address(error) => error.source(),
            _ => None,
        }
    }
}

impl From<AddressError> for BuildError {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}

impl From<SetError> for BuildError {
    fn from(error: SetError) -> Self {
        match error {
            SetError::Limit { rule, error, .. } => Self::Limit { rule: rule.into(), error },
            error => Self::Rules(Box::new(error)),
        }
    }
}
