//! From a request to a verdict.

mod charges;
mod held;
mod ruling;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use held::Held;
use held::Question;
pub(crate) use ruling::{Denial, Tale, Verdict};

use crate::headers::Styles;
use crate::rule::{Ask, Compiled, SharedClock, Source};
use crate::told::Hooks;
use crate::{Head, KeyBuf};
use ruling::Ruling;

/// Sleeps for a time.
pub(crate) type Sleep =
    Box<dyn Fn(Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Everything that a layer knows but its answer. Held in one place by each service, so that a whole set of rules is one
/// pointer.
pub(crate) struct Rules {
    pub(crate) rules: Box<[Compiled]>,
    pub(crate) styles: Styles,
    pub(crate) hooks: Hooks,
    pub(crate) clock: SharedClock,
    pub(crate) sleep: Sleep,
    /// Whether any rule may hold a request.
    pub(crate) may_hold: bool,
}

impl Rules {
    /// Decides a request, and tells it where it is decided at once; what has to wait, or to be remembered, is held.
    // The verdict stays where the caller has it: whatever is moved that was just written is waited for.
    #[inline]
    pub(crate) fn decide(self: &Arc<Self>, head: &Head<'_>, verdict: &mut Verdict) -> Option<Held> {
        if self.may_hold && self.must_hold(head) || !self.decide_at_once(head, verdict) {
            let questions = self.rules.iter().map(|rule| Question::of(rule, head)).collect();
            return Some(Held::new(Arc::clone(self), questions));
        }
        self.tell(head, verdict);
        None
    }

    /// `false`: that is not possible, and what the request was charged is given back.
    fn decide_at_once(&self, head: &Head<'_>, verdict: &mut Verdict) -> bool {
        let mut ruling = Ruling::new(self, verdict);
        let mut key = KeyBuf::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let goes_on = match (rule.ask(head, &mut key), &rule.source) {
                (Ask::Nothing, _) => true,
                (Ask::NoKey, _) => ruling.no_key(index),
                (Ask::Limit(asked), Source::Here(limits)) => ruling.ask(index, &limits[asked.limits], asked),
                (Ask::Limit(_), Source::There(_)) => return false,
            };
            if !goes_on {
                break;
            }
        }
        if ruling.departs_later() {
            // Somebody came in between and it has to wait after all.
            return false;
        }
        ruling.end();
        true
    }

    fn must_hold(&self, head: &Head<'_>) -> bool {
        let mut key = KeyBuf::new();
        let mut holds = |rule: &Compiled| match (rule.ask(head, &mut key), &rule.source) {
            (Ask::Nothing | Ask::NoKey, _) => false,
            (Ask::Limit(_), Source::There(_)) => true,
            (Ask::Limit(asked), Source::Here(limits)) => {
                let limits = &limits[asked.limits];
                rule.charge_if.is_some()
                    || !rule.shadow
                        && limits.may_queue()
                        && !limits.engine.look(asked.key, asked.cost).delay().is_zero()
            }
        };
        self.rules.iter().filter(|rule| rule.may_hold()).any(&mut holds)
    }
}
