//! What a rule decides about a request, and why a request is refused.

use http::StatusCode;

/// What one rule decided about one request.
///
/// # Examples
///
/// ```
/// use tollgate_http::{RefusalReason, RuleOutcome};
///
/// let outcome = RefusalReason::Limited.outcome();
/// assert_eq!((outcome, outcome.as_str()), (RuleOutcome::Limited, "limited"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleOutcome {
    /// The rule admitted the request.
    Allowed,
    /// The limit is spent for now. A shadow rule would have refused the request.
    Limited,
    /// The request costs more than the limit can ever admit.
    CostAboveLimit,
    /// The request has no key, and the rule refuses such requests.
    NoKey,
    /// The rule's backend failed. If local limits decide then, their outcome is reported too.
    BackendFailed,
}

impl RuleOutcome {
    /// All outcomes, in the order of their declaration.
    pub const ALL: [Self; 5] =
        [Self::Allowed, Self::Limited, Self::CostAboveLimit, Self::NoKey, Self::BackendFailed];

    /// Returns the label in metrics: `allowed`, `limited`, `cost_above_limit`, `no_key`,
    /// `backend_failed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Limited => "limited",
            Self::CostAboveLimit => "cost_above_limit",
            Self::NoKey => "no_key",
            Self::BackendFailed => "backend_failed",
        }
    }
}

/// Why a request was refused.
///
/// # Examples
///
/// ```
/// use tollgate_http::RefusalReason;
///
/// assert_eq!(RefusalReason::Limited.status(), 429);
/// assert_eq!(RefusalReason::Limited.title(), "Too Many Requests");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The limit is spent for now. The client may retry after
    /// [`Refusal::retry_after`](crate::Refusal::retry_after).
    Limited,
    /// The cost of the request is above the limit. A retry will be refused too.
    CostAboveLimit,
    /// The request has no key, and the rule refuses such requests.
    NoKey,
    /// The backend failed, and the rule refuses requests then. The client did nothing wrong.
    BackendFailed,
    /// The rule refuses all requests that it concerns: a list of banned clients, for example.
    Blocked,
}

impl RefusalReason {
    /// Returns the outcome of the rule that refuses. A block counts as a limit that is spent.
    #[must_use]
    pub fn outcome(self) -> RuleOutcome {
        match self {
            Self::Limited | Self::Blocked => RuleOutcome::Limited,
            Self::CostAboveLimit => RuleOutcome::CostAboveLimit,
            Self::NoKey => RuleOutcome::NoKey,
            Self::BackendFailed => RuleOutcome::BackendFailed,
        }
    }

    /// Returns the usual HTTP status: 429 for a spent limit, 503 for a failed backend, 403 for a
    /// block, and 400 for the other reasons.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Limited => StatusCode::TOO_MANY_REQUESTS,
            Self::CostAboveLimit | Self::NoKey => StatusCode::BAD_REQUEST,
            Self::BackendFailed => StatusCode::SERVICE_UNAVAILABLE,
            Self::Blocked => StatusCode::FORBIDDEN,
        }
    }

    /// Returns a title for people: `Too Many Requests`, `Cost Above Limit`, `No Key To Limit By`,
    /// `Rate Limiter Unavailable`, `Blocked`.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Limited => "Too Many Requests",
            Self::CostAboveLimit => "Cost Above Limit",
            Self::NoKey => "No Key To Limit By",
            Self::BackendFailed => "Rate Limiter Unavailable",
            Self::Blocked => "Blocked",
        }
    }
}
