//! Refused requests.

use std::time::Duration;

use http::StatusCode;

use crate::decide::{LayerState, RefusalRecord};
use crate::headers::seconds_up;
use crate::{RequestHead, RuleOutcome};

/// A refused request, for [responders](crate::Respond) and hooks.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'r> {
    pub(crate) head: RequestHead<'r>,
    pub(crate) rule: &'r str,
    /// The names of all limits in the limit set that refuses; empty if no limit of this process
    /// does.
    pub(crate) names: &'r [Box<str>],
    pub(crate) record: &'r RefusalRecord,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The limit is spent for now. The client may retry after [`Refusal::retry_after`].
    Limited,
    /// The cost of the request is above the limit. A retry will be refused too.
    CostAboveLimit,
    /// The request has no key, and the rule refuses such requests.
    NoKey,
    /// The backend failed, and the rule refuses requests then. The client did nothing wrong.
    BackendFailed,
}

impl RefusalReason {
    pub(crate) fn outcome(self) -> RuleOutcome {
        match self {
            Self::Limited => RuleOutcome::Limited,
            Self::CostAboveLimit => RuleOutcome::CostAboveLimit,
            Self::NoKey => RuleOutcome::NoKey,
            Self::BackendFailed => RuleOutcome::BackendFailed,
        }
    }

    /// Returns the usual HTTP status: 429 for a spent limit, 503 for a failed backend, and 400 for
    /// the other reasons.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Limited => StatusCode::TOO_MANY_REQUESTS,
            Self::CostAboveLimit | Self::NoKey => StatusCode::BAD_REQUEST,
            Self::BackendFailed => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns a title for people: `Too Many Requests`, `Cost Above Limit`, `No Key To Limit By`,
    /// `Rate Limiter Unavailable`.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Limited => "Too Many Requests",
            Self::CostAboveLimit => "Cost Above Limit",
            Self::NoKey => "No Key To Limit By",
            Self::BackendFailed => "Rate Limiter Unavailable",
        }
    }
}

impl<'r> Refusal<'r> {
    /// Returns the head of the request.
    #[must_use]
    pub fn head(&self) -> RequestHead<'r> {
        self.head
    }

    /// Returns the name of the rule that refuses.
    #[must_use]
    pub fn rule(&self) -> &'r str {
        self.rule
    }

    /// Returns the name, in headers, of the limit with the longest wait. It is the rule's name if
    /// the rule has one limit.
    #[must_use]
    pub fn limit_name(&self) -> &'r str {
        let slowest = self.record.limits.and_then(|limits| self.names.get(limits.slowest));
        slowest.map_or(self.rule, |name| name)
    }

    /// Returns the names, in headers, of all limits of the rule that refuse, in the order in which
    /// they were given. It is the rule's name if the rule has one limit.
    pub fn limit_names(&self) -> impl Iterator<Item = &'r str> + use<'r> {
        let mask = self.record.limits.map_or(0, |limits| limits.mask);
        let refuses = move |(number, _): &(usize, _)| mask & (1 << number) != 0;
        let names = self.names.iter().enumerate().filter(refuses).map(|(_, name)| &**name);
        // The limit of a backend has the rule's name.
        names.chain(self.record.limits.is_none().then_some(self.rule))
    }

    /// Returns the reason for the refusal.
    #[must_use]
    pub fn reason(&self) -> RefusalReason {
        self.record.reason
    }

    /// Returns the exact time until the rule would admit the request, if no other request of the
    /// key comes. `None` if a later retry would be refused too.
    ///
    /// Rules after this one were not checked and may refuse the retry. All limits of one rule were
    /// checked, so limits of the same key belong in one rule.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.record.retry_after
    }

    /// Returns [`retry_after`](Self::retry_after) in whole seconds for `Retry-After`: rounded up,
    /// so that a client that waits them is not early, and at least 1.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.record.retry_after_seconds()
    }

    /// Returns the cost of the request.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.record.cost
    }

    /// Returns the most that the refusing limit admits at once; 0 if no limit refused the request.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.record.state.map_or(0, |state| state.limit)
    }

    /// Returns how much of the limit is left.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.record.state.map_or(0, |state| state.remaining)
    }
}

impl RefusalRecord {
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(|wait| seconds_up(wait).max(1))
    }
}

impl LayerState {
    pub(crate) fn refusal<'r>(&'r self, head: RequestHead<'r>, record: &'r RefusalRecord) -> Refusal<'r> {
        let rule = &self.rules[record.rule];
        let names = record.limits.map_or(&[][..], |limits| rule.decider.limit_set(limits.set).names());
        Refusal { head, rule: &rule.name, names, record }
    }
}
