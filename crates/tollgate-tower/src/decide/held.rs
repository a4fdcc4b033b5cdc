//! Requests that wait for a departure, a backend, or the response.
//!
//! A decision borrows from its limiter. To outlive the call it lives in a future together with the
//! limiter: an async block is the one type of safe Rust that may borrow from itself.
//!
//! ```text
//!          desk: Deciding ----------> Decided ----------> Taken ----------> Answered
//!  future        asks, sleeps   puts the verdict   waits for the response   refunds, ends
//!  request       polls the future          takes the verdict, is served   says what to refund
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, StatusCode};

use super::evaluation::Evaluation;
use super::{LayerState, Verdict};
use crate::rule::{CheckRequest, CompiledRule, Decider, Fallback, RuleMatch};
use crate::{KeyBuf, RequestHead};

/// A request that is being decided, and then its charges. Dropping it before the verdict refunds
/// them.
pub(crate) struct Held {
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
    desk: Arc<Desk>,
    pub(crate) state: Arc<LayerState>,
}

/// A [`RuleMatch`] that does not borrow the request.
pub(super) enum Question {
    Nothing,
    NoKey,
    Limit { key: KeyBuf, cost: u64, set: usize },
}

impl Question {
    pub(super) fn of(rule: &CompiledRule, head: &RequestHead<'_>) -> Self {
        let mut key = KeyBuf::new();
        match rule.match_request(head, &mut key) {
            RuleMatch::DoesNotApply => Self::Nothing,
            RuleMatch::NoKey => Self::NoKey,
            RuleMatch::Check(CheckRequest { cost, set, .. }) => Self::Limit { key, cost, set },
        }
    }

    fn asked(&self) -> RuleMatch<'_> {
        match *self {
            Self::Nothing => RuleMatch::DoesNotApply,
            Self::NoKey => RuleMatch::NoKey,
            Self::Limit { ref key, cost, set } => {
                RuleMatch::Check(CheckRequest { key: key.as_bytes(), cost, set })
            }
        }
    }
}

/// A mailbox between the future and the request.
struct Desk(Mutex<Message>);

#[expect(clippy::large_enum_variant, reason = "a desk holds one of them, and is shared already")]
enum Message {
    Deciding,
    Decided(Verdict),
    Taken,
    /// A bit for each rule whose charge the future gives back.
    Answered(u8),
}

impl Desk {
    fn look(&self) -> MutexGuard<'_, Message> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// One question for each rule, in their order.
    pub(super) fn new(state: Arc<LayerState>, questions: Vec<Question>) -> Self {
        let desk = Arc::new(Desk(Mutex::new(Message::Deciding)));
        let work = Box::pin(work(Arc::clone(&state), questions, Arc::clone(&desk)));
        Self { work, desk, state }
    }

    /// Returns the verdict, and whether the response may give charges back.
    pub(crate) fn poll_verdict(&mut self, context: &mut Context<'_>) -> Poll<(Verdict, bool)> {
        let ended = self.work.as_mut().poll(context).is_ready();
        let mut message = self.desk.look();
        match std::mem::replace(&mut *message, Message::Taken) {
            Message::Decided(verdict) => Poll::Ready((verdict, !ended)),
            before => {
                *message = before;
                Poll::Pending
            }
        }
    }

    /// Gives back the charges of the rules whose `charge_if` is false for the response; `None` is
    /// an error.
    pub(crate) fn answered(mut self, response: Option<(StatusCode, &HeaderMap)>) {
        let keeps = |charge_if: &crate::rule::ChargeIf| {
            response.is_some_and(|(status, headers)| charge_if(status, headers))
        };
        let back = self.state.rules.iter().enumerate().fold(0, |back, (index, rule)| {
            back | u8::from(rule.charge_if.as_ref().is_some_and(|charge_if| !keeps(charge_if))) << index
        });
        *self.desk.look() = Message::Answered(back);
        // The future ends in this poll and wakes no task.
        let _ = self.work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
}

async fn work(state: Arc<LayerState>, questions: Vec<Question>, desk: Arc<Desk>) {
    let mut verdict = Verdict::default();
    let mut evaluation = Evaluation::new(&state, &mut verdict);
    let mut remembers = false;
    for (index, (rule, question)) in state.rules.iter().zip(&questions).enumerate() {
        let admitted = match (question.asked(), &rule.decider) {
            (RuleMatch::DoesNotApply, _) => true,
            (RuleMatch::NoKey, _) => evaluation.refuse_without_key(index),
            (RuleMatch::Check(asked), Decider::Local(sets)) => {
                remembers |= rule.charge_if.is_some();
                evaluation.check(index, &sets[asked.set], asked)
            }
            (RuleMatch::Check(asked), Decider::Backend(remote)) => {
                match remote.backend.decide(asked.key, asked.cost).await {
                    Ok(reply) => evaluation.apply_reply(index, reply, asked.cost),
                    Err(error) => {
                        state.report_backend_error(index, &*error);
                        match &remote.fallback {
                            Fallback::Allow => {
                                evaluation.report_backend_failed(index, asked.cost);
                                true
                            }
                            Fallback::Refuse => evaluation.refuse_for_backend_error(index, asked.cost),
                            Fallback::LimitLocally(limits) => {
                                evaluation.report_backend_failed(index, asked.cost);
                                evaluation.check(index, limits, asked)
                            }
                        }
                    }
                }
            }
        };
        if !admitted {
            break;
        }
    }
    if let Some(departure) = evaluation.departure.filter(|_| evaluation.must_wait()) {
        loop {
            let missing = departure.saturating_since(state.clock.now());
            if missing.is_zero() {
                break;
            }
            (state.sleep)(missing).await;
        }
    }
    evaluation.finish();
    // The charges of a refused request are refunded before the verdict is sent.
    let charges = evaluation.charges;
    let mut charges = verdict.refusal.is_none().then_some(charges);
    *desk.look() = Message::Decided(verdict);
    // If the client disconnects now, the request stays charged: it is being served.
    if let Some(charges) = charges.as_mut().filter(|_| remembers) {
        let answered = |_: &mut Context<'_>| match *desk.look() {
            Message::Answered(back) => Poll::Ready(back),
            _ => Poll::Pending,
        };
        let back = poll_fn(answered).await;
        charges.give_back(|rule| back & (1 << rule) != 0);
    }
}
