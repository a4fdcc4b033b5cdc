//! Why no limiters can be built for rules.

use std::fmt;

use tollgate::BuildError;

use crate::matcher::CompileError;

/// Why [`RuleSet::new`](crate::RuleSet::new) refuses rules.
///
/// # Examples
///
/// ```
/// use tollgate::{ManualClock, Rate, SlidingLog};
/// use tollgate_rules::{Limit, Limits, RuleSet, SetError};
/// use tollgate_rules_file::{Memory, read};
///
/// let text = "version = 1\nrule = [{ name = 'a', key = 'client', limits = '1/s' }]";
/// let mut rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let never = Limit::Quota(SlidingLog::new(Rate::per_second(0)).into());
/// rules.rules[0].limits = Limits::Each(vec![never]);
/// let error = RuleSet::new(rules, ManualClock::new()).unwrap_err();
/// assert!(error.to_string().starts_with("rule `a`: rate.count is 0"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// The conditions, keys or costs mean nothing.
    Compile(CompileError),
    /// A limit cannot be built.
    Limit {
        /// The rule.
        rule: Box<str>,
        /// The tier of the rule, if it is a tier's limit.
        tier: Option<Box<str>>,
        /// The mistake, or that there is no memory.
        error: BuildError,
    },
    /// All limits together may come to take more memory than the rules'
    /// [`memory_budget`](crate::Rules::memory_budget). Nothing was reserved.
    OverBudget {
        /// Bytes that they may come to take.
        needed: usize,
        /// Bytes that they may.
        budget: usize,
        /// The rule that takes most.
        largest: Box<str>,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(error) => error.fmt(f),
            Self::Limit { rule, tier: None, error } => write!(f, "rule `{rule}`: {error}"),
            Self::Limit { rule, tier: Some(tier), error } => {
                write!(f, "rule `{rule}`, tier `{tier}`: {error}")
            }
            Self::OverBudget { needed, budget, largest } => {
                write!(f, "the keys of all rules may take {needed} bytes, but the budget is {budget}; ")?;
                write!(f, "`{largest}` takes most: lower max_keys, or raise memory_budget_mib")
            }
        }
    }
}

impl std::error::Error for SetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Compile(error) => Some(error),
            Self::Limit { error, .. } => Some(error),
            Self::OverBudget { .. } => None,
        }
    }
}

impl From<CompileError> for SetError {
    fn from(error: CompileError) -> Self {
        Self::Compile(error)
    }
}
