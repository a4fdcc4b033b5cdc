//! From a request to a verdict.

mod charges;
mod evaluation;
mod held;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use evaluation::{RefusalRecord, RuleReport, Verdict};
pub(crate) use held::Held;
use held::Question;

use crate::headers::HeaderStyles;
use crate::hooks::Hooks;
use crate::rule::{CompiledRule, Decider, RuleMatch, SharedClock};
use crate::{KeyBuf, RequestHead};
use evaluation::Evaluation;

/// Returns a future that completes after a duration.
pub(crate) type Sleep =
    Box<dyn Fn(Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The state that a layer shares with its services: everything but the responder.
pub(crate) struct LayerState {
    pub(crate) rules: Box<[CompiledRule]>,
    pub(crate) styles: HeaderStyles,
    pub(crate) hooks: Hooks,
    pub(crate) clock: SharedClock,
    pub(crate) sleep: Sleep,
    /// Whether any rule may hold a request.
    pub(crate) may_hold: bool,
}

impl LayerState {
    /// Decides a request at once and reports the decision; or returns the request as [`Held`], if
    /// it has to wait for a queue or a backend, or if its response decides whether it is charged.
    // The verdict is written in place: moving a value right after it was written would stall.
    #[inline]
    pub(crate) fn decide(self: &Arc<Self>, head: &RequestHead<'_>, verdict: &mut Verdict) -> Option<Held> {
        if self.may_hold && self.must_hold(head) || !self.decide_at_once(head, verdict) {
            let questions = self.rules.iter().map(|rule| Question::of(rule, head)).collect();
            return Some(Held::new(Arc::clone(self), questions));
        }
        self.report(head, verdict);
        None
    }

    /// Returns `false` if the request has to wait after all. Its charges are then refunded.
    fn decide_at_once(&self, head: &RequestHead<'_>, verdict: &mut Verdict) -> bool {
        let mut evaluation = Evaluation::new(self, verdict);
        let mut key = KeyBuf::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let admitted = match (rule.match_request(head, &mut key), &rule.decider) {
                (RuleMatch::DoesNotApply, _) => true,
                (RuleMatch::NoKey, _) => evaluation.refuse_without_key(index),
                (RuleMatch::Check(request), Decider::Local(sets)) => {
                    evaluation.check(index, &sets[request.set], request)
                }
                (RuleMatch::Check(_), Decider::Backend(_)) => return false,
            };
            if !admitted {
                break;
            }
        }
        if evaluation.must_wait() {
            // Another request took the turn that `must_hold` saw.
            return false;
        }
        evaluation.finish();
        true
    }

    /// Returns whether the request has to be held. Charges nothing.
    fn must_hold(&self, head: &RequestHead<'_>) -> bool {
        let mut key = KeyBuf::new();
        let mut must_hold = |rule: &CompiledRule| match (rule.match_request(head, &mut key), &rule.decider) {
            (RuleMatch::DoesNotApply | RuleMatch::NoKey, _) => false,
            (RuleMatch::Check(_), Decider::Backend(_)) => true,
            (RuleMatch::Check(request), Decider::Local(sets)) => {
                let limits = &sets[request.set];
                rule.charge_if.is_some()
                    || !rule.shadow
                        && limits.may_queue()
                        && !limits.limiter.prepare(request.key).peek_n(request.cost).delay().is_zero()
            }
        };
        self.rules.iter().filter(|rule| rule.may_hold()).any(&mut must_hold)
    }
}
