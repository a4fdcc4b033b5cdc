//! Reports each decision to hooks, counters and log events.

use std::error::Error;

use tollgate_http::{LimitState, Refusal, RequestHead, RuleOutcome};

/// The decision of one rule about one request, for
/// [`Builder::on_decision`](crate::Builder::on_decision).
#[derive(Clone, Copy, Debug)]
pub struct RuleDecision<'r> {
    pub(crate) head: RequestHead<'r>,
    pub(crate) rule: &'r str,
    pub(crate) outcome: RuleOutcome,
    pub(crate) shadow: bool,
    pub(crate) cost: u64,
    pub(crate) limit: Option<LimitState>,
}

impl<'r> RuleDecision<'r> {
    /// Returns the head of the request.
    #[must_use]
    pub fn head(&self) -> RequestHead<'r> {
        self.head
    }

    /// Returns the rule's name.
    #[must_use]
    pub fn rule(&self) -> &'r str {
        self.rule
    }

    /// Returns what the rule decided.
    #[must_use]
    pub fn outcome(&self) -> RuleOutcome {
        self.outcome
    }

    /// Returns whether the rule is a [shadow rule](crate::Rule::shadow), which only reports.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Returns the cost of the request under this rule.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the state of the rule's limit after the decision; of several limits, the one that
    /// refuses the request longest, or else the one with the least remaining. `None` if no limit
    /// decided: the request has no key, or the backend failed.
    #[must_use]
    pub fn limit(&self) -> Option<LimitState> {
        self.limit
    }
}

type DecisionHook = Box<dyn Fn(&RuleDecision<'_>) + Send + Sync>;
type LimitedHook = Box<dyn Fn(&Refusal<'_>) + Send + Sync>;
type BackendErrorHook = Box<dyn Fn(&str, &(dyn Error + Send + Sync + 'static)) + Send + Sync>;

/// The closures of the layer's user.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) on_decision: Option<DecisionHook>,
    pub(crate) on_limited: Option<LimitedHook>,
    pub(crate) on_backend_error: Option<BackendErrorHook>,
    /// Whether admitted requests get a [`RequestLimits`](crate::RequestLimits).
    pub(crate) attach_limits: bool,
}

impl Hooks {
    /// Returns whether decisions are reported to a hook, a counter or an event.
    #[inline]
    pub(crate) fn need_reports(&self) -> bool {
        cfg!(any(feature = "metrics", feature = "tracing")) || self.on_decision.is_some()
    }
}
