//! What is told of each decision, to hooks, counters and events.

use std::error::Error;

use crate::decide::{Rules, Tale, Verdict};
use crate::{Head, Refusal};

/// What one rule said of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// Admitted.
    Allowed,
    /// Refused for now; by a shadow rule: it would have been.
    Limited,
    /// Its cost is above the limit.
    Never,
    /// It has no key, and the rule refuses such requests.
    NoKey,
    /// A backend failed. When local limits decide then, what they say is told too.
    Failed,
}

impl Told {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 5] = [Self::Allowed, Self::Limited, Self::Never, Self::NoKey, Self::Failed];

    /// As it is called in metrics: `allowed`, `limited`, `never`, `no_key`, `failed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Limited => "limited",
            Self::Never => "never",
            Self::NoKey => "no_key",
            Self::Failed => "failed",
        }
    }
}

/// One rule's decision on one request, as [`Builder::on_decision`](crate::Builder::on_decision) sees it.
#[derive(Clone, Copy, Debug)]
pub struct Event<'r> {
    pub(crate) head: Head<'r>,
    pub(crate) rule: &'r str,
    pub(crate) told: Told,
    pub(crate) shadow: bool,
    pub(crate) cost: u64,
}

impl<'r> Event<'r> {
    /// The request.
    #[must_use]
    pub fn head(&self) -> Head<'r> {
        self.head
    }

    /// The rule's name.
    #[must_use]
    pub fn rule(&self) -> &'r str {
        self.rule
    }

    /// What the rule said.
    #[must_use]
    pub fn told(&self) -> Told {
        self.told
    }

    /// Whether the rule only reports.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// What the request costs by this rule.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

type OnDecision = Box<dyn Fn(&Event<'_>) + Send + Sync>;
type OnLimited = Box<dyn Fn(&Refusal<'_>) + Send + Sync>;
type OnError = Box<dyn Fn(&str, &(dyn Error + Send + Sync)) + Send + Sync>;

/// Whom to tell.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) on_decision: Option<OnDecision>,
    pub(crate) on_limited: Option<OnLimited>,
    pub(crate) on_error: Option<OnError>,
}

impl Hooks {
    /// Whether anybody listens to decisions.
    #[inline]
    pub(crate) fn listen(&self) -> bool {
        cfg!(any(feature = "metrics", feature = "tracing"))
            || self.on_decision.is_some()
            || self.on_limited.is_some()
    }
}

impl Rules {
    /// Tells what each rule said of a request.
    #[inline]
    pub(crate) fn tell(&self, head: &Head<'_>, verdict: &Verdict) {
        if self.hooks.listen() {
            self.tell_all(*head, verdict);
        }
    }

    fn tell_all(&self, head: Head<'_>, verdict: &Verdict) {
        for &Tale { rule, told, cost } in &verdict.tales {
            let rule = &self.rules[rule];
            rule.meter.count(told);
            #[cfg(feature = "tracing")]
            if told != Told::Allowed {
                let (outcome, shadow) = (told.as_str(), rule.shadow);
                tracing::debug!(rule = &*rule.name, outcome, shadow, path = ?head.path(), cost, "not admitted");
            }
            if let Some(on_decision) = &self.hooks.on_decision {
                let shadow = rule.shadow;
                on_decision(&Event { head, rule: &rule.name, told, shadow, cost });
            }
        }
        if let (Some(on_limited), Some(denial)) = (&self.hooks.on_limited, &verdict.denial) {
            on_limited(&self.refusal(head, denial));
        }
    }

    /// Tells that a rule's backend failed.
    pub(crate) fn tell_error(&self, rule: usize, error: &(dyn Error + Send + Sync)) {
        let name = &*self.rules[rule].name;
        #[cfg(feature = "tracing")]
        tracing::warn!(rule = name, %error, "a backend failed");
        if let Some(on_error) = &self.hooks.on_error {
            on_error(name, error);
        }
    }
}
