//! Why a layer could not be built.

use std::error::Error;
use std::fmt;

use crate::rule::{LONGEST_NAME, MOST_RULES};

/// What is wrong with a description of limits. Nothing was built.
///
/// # Examples
///
/// ```
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::{BuildError, KeyBy, RateLimitLayer, Rule};
///
/// let rule = Rule::new("api", [TokenBucket::new(Rate::per_second(0))]).key(KeyBy::everyone());
/// let error = RateLimitLayer::builder().rule(rule).build().unwrap_err();
/// assert!(matches!(error, BuildError::Limit { ref rule, .. } if rule == "api"));
/// assert!(error.to_string().starts_with("rule \"api\": rate.count is 0, but must be between 1 and "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The engine refuses a rule's limits.
    Limit {
        /// The rule.
        rule: String,
        /// The setting, its value, and its range.
        error: tollgate::BuildError,
    },
    /// A layer has from 1 to 8 rules.
    Rules {
        /// How many were given.
        given: usize,
    },
    /// A rule's name goes into headers and metrics: from 1 to 64 ASCII letters, digits, `-`, `_`, `.`, `:` and `/`.
    Name {
        /// The name given.
        given: String,
    },
    /// Two rules, or a rule and a limit of another, have one name, so nobody could tell them apart in headers and metrics.
    /// Of a rule with several limits each is called after its period, too: `api/s`, `api/h`.
    SameName {
        /// The name of both.
        name: String,
    },
    /// A rule has [`for_key`](crate::Rule::for_key) twice for one key. Which one is not said: keys are often secrets.
    SameKey {
        /// The rule.
        rule: String,
    },
    /// A rule that asks a backend has a setting that only limits in this process have.
    Remote {
        /// The rule.
        rule: String,
        /// The setting.
        setting: &'static str,
    },
    /// A trusted proxy is neither an address nor a network such as `10.0.0.0/8`.
    Network {
        /// The text given.
        given: String,
    },
    /// A network of trusted proxies holds every address, so any client could write its own.
    TrustsEveryone {
        /// The network given.
        given: String,
    },
    /// The prefix by which IPv6 clients are grouped is not from 1 to 128 bits.
    Ipv6Prefix {
        /// The bits given.
        given: u8,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { rule, error } => write!(f, "rule {rule:?}: {error}"),
            Self::Rules { given } => write!(f, "{given} rules, but a layer has between 1 and {MOST_RULES}"),
            Self::Name { given } => write!(
                f,
                "the rule name {given:?} must be 1 to {LONGEST_NAME} ASCII letters, digits, `-`, `_`, `.`, `:` and `/`"
            ),
            Self::SameName { name } => {
                write!(
                    f,
                    "two rules, or their limits, are called {name:?}: headers and metrics need one name each"
                )
            }
            Self::SameKey { rule } => write!(f, "rule {rule:?} has `for_key` twice for one key"),
            Self::Remote { rule, setting } => {
                write!(f, "rule {rule:?} asks a backend, which knows nothing of `{setting}`")
            }
            Self::Network { given } => {
                write!(f, "{given:?} is neither an address nor a network such as 10.0.0.0/8 or fd00::/8")
            }
            Self::TrustsEveryone { given } => {
                write!(f, "{given:?} trusts everybody: any client could choose its own address")
            }
            Self::Ipv6Prefix { given } => {
                write!(f, "ipv6_prefix is {given}, but must be between 1 and 128 bits")
            }
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Limit { error, .. } => Some(error),
            _ => None,
        }
    }
}
