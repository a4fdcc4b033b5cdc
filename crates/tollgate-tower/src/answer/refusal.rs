//! Why a request was refused.

use std::time::Duration;

use http::StatusCode;

use crate::decide::{Denial, Rules};
use crate::headers::seconds_up;
use crate::{Head, Told};

/// A refused request, as an answer or a hook sees it.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'r> {
    pub(crate) head: Head<'r>,
    pub(crate) rule: &'r str,
    /// Of the limits that refuse and those beside them; none when no limit of ours does.
    pub(crate) names: &'r [Box<str>],
    pub(crate) denial: &'r Denial,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The limit is spent for now: it may come again after [`Refusal::retry_after`].
    Limited,
    /// Its cost is above the limit: no wait will help.
    Never,
    /// It has no key, and the rule refuses such requests.
    NoKey,
    /// A backend failed, and its rule refuses requests then. Not the client's doing.
    Unavailable,
}

impl Reason {
    pub(crate) fn told(self) -> Told {
        match self {
            Self::Limited => Told::Limited,
            Self::Never => Told::Never,
            Self::NoKey => Told::NoKey,
            Self::Unavailable => Told::Failed,
        }
    }

    /// The usual status: 429, but 400 for what no wait will help and 503 for what is not the client's doing.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Limited => StatusCode::TOO_MANY_REQUESTS,
            Self::Never | Self::NoKey => StatusCode::BAD_REQUEST,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// In a few words, for people: `Too Many Requests`, `Cost Above Limit`, `No Key To Limit By`, `Rate Limiter Unavailable`.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Limited => "Too Many Requests",
            Self::Never => "Cost Above Limit",
            Self::NoKey => "No Key To Limit By",
            Self::Unavailable => "Rate Limiter Unavailable",
        }
    }
}

impl<'r> Refusal<'r> {
    /// The request.
    #[must_use]
    pub fn head(&self) -> Head<'r> {
        self.head
    }

    /// The rule that refuses.
    #[must_use]
    pub fn rule(&self) -> &'r str {
        self.rule
    }

    /// Of the rule's limits, the one with the longest wait, as headers call it; the rule's name when it has but one.
    #[must_use]
    pub fn limit_name(&self) -> &'r str {
        self.denial.by.and_then(|by| self.names.get(by.number)).map_or(self.rule, |name| name)
    }

    /// All of the rule's limits that refuse, as headers call them, in the order in which they were given; the rule's name
    /// when it has but one.
    pub fn limit_names(&self) -> impl Iterator<Item = &'r str> + use<'r> {
        let all = self.denial.by.map_or(0, |by| by.all);
        let refuse = move |(number, _): &(usize, _)| all & (1 << number) != 0;
        let names = self.names.iter().enumerate().filter(refuse).map(|(_, name)| &**name);
        // A backend is known by its rule's name.
        names.chain(self.denial.by.is_none().then_some(self.rule))
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.denial.reason
    }

    /// How long until the rule that refuses would admit the request, if nobody else comes: exact. `None` when waiting does
    /// not help. The rules after it were not asked, and may refuse the request then: limits of one key that belong in one
    /// rule are all asked.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.denial.retry_after
    }

    /// The same in whole seconds for `Retry-After`: rounded up, so that who obeys is not refused
    /// by it again, and at least 1.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.denial.retry_after_seconds()
    }

    /// What the request costs.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.denial.cost
    }

    /// The most that the limit admits at once; 0 when no limit refused it.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.denial.numbers.map_or(0, |numbers| numbers.limit)
    }

    /// What is left of it.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.denial.numbers.map_or(0, |numbers| numbers.remaining)
    }
}

impl Denial {
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(|wait| seconds_up(wait).max(1))
    }
}

impl Rules {
    pub(crate) fn refusal<'r>(&'r self, head: Head<'r>, denial: &'r Denial) -> Refusal<'r> {
        let rule = &self.rules[denial.rule];
        let names = denial.by.map_or(&[][..], |by| rule.source.limits(by.limits).names());
        Refusal { head, rule: &rule.name, names, denial }
    }
}
