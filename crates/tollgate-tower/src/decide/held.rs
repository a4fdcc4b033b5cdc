//! Requests that wait, or are remembered: for a departure, a backend, or the response.
//!
//! What was decided borrows from the limits that decided it. To outlive the call it lives in a future together with
//! them: an async block is the one type of safe Rust that may borrow from itself.
//!
//! ```text
//!                 desk: Deciding ------------> Decided ------------> Taken ----------> Answered
//!  the future     asks, sleeps   puts the verdict     waits for the answer     gives back, ends
//!  the request    polls it                      takes the verdict, is served   says what to give back
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, StatusCode};

use super::ruling::Ruling;
use super::{Rules, Verdict};
use crate::backend::Fallback;
use crate::rule::{Ask, Asked, Compiled, Source};
use crate::{Head, KeyBuf};

/// A request that is being decided, and then what it was charged. Dropped before the verdict, all of it is given back.
pub(crate) struct Held {
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
    desk: Arc<Desk>,
    pub(crate) rules: Arc<Rules>,
}

/// What a rule wants to know of a request, apart from the request.
pub(super) enum Question {
    Nothing,
    NoKey,
    Limit { key: KeyBuf, cost: u64, limits: usize },
}

impl Question {
    pub(super) fn of(rule: &Compiled, head: &Head<'_>) -> Self {
        let mut key = KeyBuf::new();
        match rule.ask(head, &mut key) {
            Ask::Nothing => Self::Nothing,
            Ask::NoKey => Self::NoKey,
            Ask::Limit(Asked { cost, limits, .. }) => Self::Limit { key, cost, limits },
        }
    }

    fn asked(&self) -> Ask<'_> {
        match *self {
            Self::Nothing => Ask::Nothing,
            Self::NoKey => Ask::NoKey,
            Self::Limit { ref key, cost, limits } => Ask::Limit(Asked { key: key.as_bytes(), cost, limits }),
        }
    }
}

/// What the future and the request tell each other.
struct Desk(Mutex<Message>);

#[expect(clippy::large_enum_variant, reason = "a desk holds one of them, and is shared already")]
enum Message {
    Deciding,
    Decided(Verdict),
    Taken,
    /// A bit for each rule whose charge is to be given back.
    Answered(u8),
}

impl Desk {
    fn look(&self) -> MutexGuard<'_, Message> {
        // Nobody panics while holding it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// One question for each rule, in their order.
    pub(super) fn new(rules: Arc<Rules>, questions: Vec<Question>) -> Self {
        let desk = Arc::new(Desk(Mutex::new(Message::Deciding)));
        let work = Box::pin(work(Arc::clone(&rules), questions, Arc::clone(&desk)));
        Self { work, desk, rules }
    }

    /// The verdict, and whether this is still needed when there is a response.
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

    /// Gives back the charges of the rules that do not charge such a response; `None` is an error.
    pub(crate) fn answered(mut self, response: Option<(StatusCode, &HeaderMap)>) {
        let keeps = |charge_if: &crate::rule::ChargeIf| {
            response.is_some_and(|(status, headers)| charge_if(status, headers))
        };
        let back = self.rules.rules.iter().enumerate().fold(0, |back, (index, rule)| {
            back | u8::from(rule.charge_if.as_ref().is_some_and(|charge_if| !keeps(charge_if))) << index
        });
        *self.desk.look() = Message::Answered(back);
        // It is ready to end, and wakes nobody.
        let _ = self.work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
}

async fn work(rules: Arc<Rules>, questions: Vec<Question>, desk: Arc<Desk>) {
    let mut verdict = Verdict::default();
    let mut ruling = Ruling::new(&rules, &mut verdict);
    let mut remembers = false;
    for (index, (rule, question)) in rules.rules.iter().zip(&questions).enumerate() {
        let goes_on = match (question.asked(), &rule.source) {
            (Ask::Nothing, _) => true,
            (Ask::NoKey, _) => ruling.no_key(index),
            (Ask::Limit(asked), Source::Here(limits)) => {
                remembers |= rule.charge_if.is_some();
                ruling.ask(index, &limits[asked.limits], asked)
            }
            (Ask::Limit(asked), Source::There(remote)) => match remote.decide(asked.key, asked.cost).await {
                Ok(reply) => ruling.reply(index, reply, asked.cost),
                Err(error) => {
                    rules.tell_error(index, &*error);
                    match &remote.on_error {
                        Fallback::Allow => {
                            ruling.failed(index, asked.cost);
                            true
                        }
                        Fallback::Refuse => ruling.unavailable(index, asked.cost),
                        Fallback::Limit(limits) => {
                            ruling.failed(index, asked.cost);
                            ruling.ask(index, limits, asked)
                        }
                    }
                }
            },
        };
        if !goes_on {
            break;
        }
    }
    if let Some(departure) = ruling.departure.filter(|_| ruling.departs_later()) {
        loop {
            let missing = departure.saturating_since(rules.clock.now());
            if missing.is_zero() {
                break;
            }
            (rules.sleep)(missing).await;
        }
    }
    ruling.end();
    // Those of a refused request are given back before it is told.
    let charges = ruling.charges;
    let mut charges = verdict.denial.is_none().then_some(charges);
    *desk.look() = Message::Decided(verdict);
    // Who is served stays charged, also when the client does not wait for the answer.
    if let Some(charges) = charges.as_mut().filter(|_| remembers) {
        let answered = |_: &mut Context<'_>| match *desk.look() {
            Message::Answered(back) => Poll::Ready(back),
            _ => Poll::Pending,
        };
        let back = poll_fn(answered).await;
        charges.give_back(|rule| back & (1 << rule) != 0);
    }
}
