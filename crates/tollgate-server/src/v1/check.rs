//! `/v1/check`, `/v1/peek`, `/v1/reserve` and `/v1/acquire`: one request, or a batch.
//!
//! A batch is decided request by request, as if they came at the same time: their stores are asked
//! at the same time. With `together` it is admitted as a whole or not at all:
//!
//! ```text
//!   decide and charge each -- one refuses --> give those before it back, the last first: nothing
//!        |                                    is charged
//!        | all admit, by one generation of rules
//!        v
//!     admitted
//! ```
//!
//! Each request is charged by a check of its own, so no limit ever admits more than it would alone.
//! Until the charges are given back, a concurrent call sees them: it may be refused where a batch
//! takes the last units and then is refused itself. The error is on the side of refusing.

use std::mem::take;
use std::ops::ControlFlow;

use http::StatusCode;
use serde::Serialize;
use tollgate::Timestamp;
use tollgate_http::RequestHead;
use tollgate_rules::{Ask, Limit, Limits, Ticket, Verdict};

use super::outcome::Outcome;
use super::request::{Body, Call, MOST_REQUESTS};
use super::service::{Service, TICKET_LIFE};
use super::tickets::TicketId;
use crate::core::{Decider, Generation, ServerClock};
use crate::metrics::Listener;
use crate::web::{Answer, json, problem_at, read_json};

/// What a caller asks of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// To decide and to charge them.
    Check,
    /// To look only.
    Peek,
    /// As a check, and to tell when they may act.
    Reserve,
    /// As a check, by the limits of requests in flight, too.
    Acquire,
}

/// The answer to a batch.
#[derive(Debug, Serialize)]
pub(super) struct Batch {
    /// Whether all requests are admitted.
    pub(super) admitted: bool,
    pub(super) results: Vec<Outcome>,
}

/// A request that was decided.
struct Decided {
    outcome: Outcome,
    /// What an admitted request may still give back, if that is kept.
    ticket: Option<Ticket<ServerClock>>,
    decided_at: Timestamp,
    /// Until when the ticket is kept.
    end: Timestamp,
}

/// The decided requests of a batch with their indices, in the order in which they were decided.
/// Unless they are taken out, what they were charged is given back, the last first: also when the
/// caller leaves while a store is asked.
struct Made(Vec<(usize, Decided)>);

impl Drop for Made {
    fn drop(&mut self) {
        for (_, one) in self.0.iter_mut().rev() {
            if let Some(ticket) = one.ticket.take() {
                ticket.cancel();
            }
        }
    }
}

impl Act {
    fn ask(self, call: &Call<'_>) -> Ask {
        let (is_peek, in_flight) = (self == Self::Peek, self == Self::Acquire);
        Ask { cost: call.cost.unwrap_or(1), is_peek, in_flight, ..Ask::default() }
    }

    fn keeps_ticket(self, call: &Call<'_>) -> bool {
        self == Self::Acquire || call.ticket == Some(true)
    }
}

impl Service {
    /// Answers a body of JSON. The whole body is read before anything is charged.
    pub(super) async fn check(&self, act: Act, body: &[u8], head: RequestHead<'_>) -> Answer {
        let body: Body<'_> = match read_json(body) {
            Ok(body) => body,
            Err(answer) => return *answer,
        };
        if let Some((pointer, detail)) = mistake(act, &body) {
            return problem_at(&pointer, detail);
        }
        let mut decider = self.core.decider();
        if let Some(calls) = &body.requests {
            let (admitted, results) = match body.together {
                Some(true) => self.together(&mut decider, act, calls, head).await,
                _ => self.each(&mut decider, act, calls, head).await,
            };
            return json(StatusCode::OK, &Batch { admitted, results });
        }
        let (call, ask) = (&body.one, act.ask(&body.one));
        let decided = decider.decide(
            &self.core,
            |_| call,
            ask,
            |verdict, generation| self.decided(act, call, verdict, generation, head, false),
        );
        let mut decided = decided.await;
        let status = decided.outcome.status();
        drop(decider);
        let is_kept = self.keep(act, &mut decided);
        let Decided { outcome, .. } = decided;
        let mut answer = json(if is_kept { status } else { StatusCode::SERVICE_UNAVAILABLE }, &outcome);
        answer.headers_mut().extend(outcome.headers);
        answer
    }

    /// Decides the requests of a batch, each for itself.
    async fn each(
        &self,
        decider: &mut Decider,
        act: Act,
        calls: &[Call<'_>],
        head: RequestHead<'_>,
    ) -> (bool, Vec<Outcome>) {
        let mut made = Made(Vec::with_capacity(calls.len()));
        let decided = decider.decide_all(
            &self.core,
            calls.len(),
            |index, _| &calls[index],
            |index| act.ask(&calls[index]),
            |index, verdict, generation| {
                // While a store is asked for one, the caller of all may leave.
                let may_cancel = generation.stores.is_some();
                made.0.push((index, self.decided(act, &calls[index], verdict, generation, head, may_cancel)));
                ControlFlow::Continue(())
            },
        );
        decided.await;
        let mut made = take(&mut made.0);
        made.sort_unstable_by_key(|(index, _)| *index);
        let outcomes = made.into_iter().map(|(index, mut one)| {
            one.ticket = one.ticket.filter(|_| act.keeps_ticket(&calls[index]));
            self.keep(act, &mut one);
            one.outcome
        });
        let outcomes: Vec<_> = outcomes.collect();
        (outcomes.iter().all(Outcome::is_admitted), outcomes)
    }

    /// Decides the requests of a batch, all or nothing.
    async fn together(
        &self,
        decider: &mut Decider,
        act: Act,
        calls: &[Call<'_>],
        head: RequestHead<'_>,
    ) -> (bool, Vec<Outcome>) {
        loop {
            let mut made = Made(Vec::with_capacity(calls.len()));
            let mut refused = None;
            let decided = decider.decide_all(
                &self.core,
                calls.len(),
                |index, _| &calls[index],
                |index| act.ask(&calls[index]),
                |index, verdict, generation| {
                    let one = self.decided(act, &calls[index], verdict, generation, head, true);
                    if one.outcome.is_admitted() {
                        made.0.push((index, one));
                        return ControlFlow::Continue(());
                    }
                    refused = Some((index, one.outcome));
                    ControlFlow::Break(())
                },
            );
            decided.await;
            let numbers = made.0.iter().map(|(_, one)| one.outcome.generation);
            let mut numbers = numbers.chain(refused.iter().map(|(_, outcome)| outcome.generation));
            let number = numbers.next().unwrap_or_default();
            if numbers.any(|other| other != number) {
                // Other rules came into force in between.
                continue;
            }
            if refused.is_none() && self.keep_all(act, calls, &mut made.0) {
                let mut made = take(&mut made.0);
                made.sort_unstable_by_key(|(index, _)| *index);
                return (true, made.into_iter().map(|(_, one)| one.outcome).collect());
            }
            let word = if refused.is_some() { "not_charged" } else { "error" };
            let mut outcomes: Vec<_> = calls.iter().map(|_| Outcome::without_numbers(word, number)).collect();
            if let Some((index, outcome)) = refused {
                outcomes[index] = outcome;
            }
            return (false, outcomes);
        }
    }

    /// What a verdict says of a request. Its ticket is taken if it is to be kept, or `may_cancel`.
    fn decided(
        &self,
        act: Act,
        call: &Call<'_>,
        verdict: Verdict<'_, ServerClock>,
        generation: &Generation,
        head: RequestHead<'_>,
        may_cancel: bool,
    ) -> Decided {
        match act {
            Act::Peek => {}
            Act::Check | Act::Reserve => self.core.metrics.decided(Listener::Http, &verdict),
            Act::Acquire => self.core.metrics.acquired(Listener::Http, &verdict),
        }
        let mut outcome = Outcome::of(&verdict, generation, &self.core, head);
        let decided_at = verdict.decided_at();
        if act == Act::Reserve {
            outcome.add_not_before(&self.core, decided_at);
        }
        let takes_ticket = outcome.is_admitted() && (may_cancel || act.keeps_ticket(call));
        let end = match takes_ticket && act == Act::Acquire {
            true => end_of_places(&verdict, generation),
            false => decided_at + TICKET_LIFE,
        };
        let ticket = takes_ticket.then(|| verdict.ticket());
        Decided { outcome, ticket, decided_at, end }
    }

    /// Keeps the ticket of a request, if it has one. If there is no room, the request is given back
    /// and becomes an error.
    fn keep(&self, act: Act, decided: &mut Decided) -> bool {
        let Some(ticket) = decided.ticket.take() else { return true };
        match self.tickets_of(act).keep(ticket, decided.decided_at, decided.end) {
            Ok(id) => {
                decided.outcome.ticket = Some(id.to_string());
                true
            }
            Err(ticket) => {
                ticket.cancel();
                decided.outcome = Outcome::without_numbers("error", decided.outcome.generation);
                false
            }
        }
    }

    /// Keeps the tickets that callers want, or none.
    fn keep_all(&self, act: Act, calls: &[Call<'_>], made: &mut [(usize, Decided)]) -> bool {
        for kept in 0..made.len() {
            let (index, one) = &mut made[kept];
            if !act.keeps_ticket(&calls[*index]) || self.keep(act, one) {
                continue;
            }
            for (_, one) in &mut made[..kept] {
                let id = one.outcome.ticket.take().and_then(|id| id.parse::<TicketId>().ok());
                let taken = id.and_then(|id| self.tickets_of(act).take(id, one.decided_at));
                one.ticket = one.ticket.take().or(taken);
            }
            return false;
        }
        true
    }
}

/// Until when a request may hold places in flight: the longest `ttl` of its rules.
fn end_of_places(verdict: &Verdict<'_, ServerClock>, generation: &Generation) -> Timestamp {
    let rules = &generation.http.set().rules().rules;
    let mut longest = TICKET_LIFE;
    for line in verdict.lines() {
        let rule = &rules[line.rule];
        let limits = line.tier.map_or(&rule.limits, |tier| &rule.tiers[tier].limits);
        let Limits::Each(limits) = limits else { continue };
        for limit in limits {
            match limit {
                Limit::InFlight { ttl: Some(ttl), .. } => longest = longest.max(*ttl),
                Limit::InFlight { ttl: None, .. } => return Timestamp::from_nanos(u64::MAX),
                Limit::Quota(_) => {}
            }
        }
    }
    verdict.decided_at() + longest
}

/// The error of a body as a whole: where, and why.
fn mistake(act: Act, body: &Body<'_>) -> Option<(String, &'static str)> {
    let Some(calls) = &body.requests else {
        if body.together.is_some() {
            return Some(("/together".into(), "there are no `requests`"));
        }
        let is_wrong = act == Act::Peek && body.one.ticket == Some(true);
        return is_wrong.then(|| ("/ticket".into(), "a peek charges nothing"));
    };
    if let Some(field) = body.field_of_one() {
        return Some((format!("/{field}"), "it belongs to one of the `requests`"));
    }
    if calls.len() > MOST_REQUESTS {
        return Some(("/requests".into(), "a batch has at most 1000 requests"));
    }
    if act != Act::Peek {
        return None;
    }
    if body.together == Some(true) {
        return Some(("/together".into(), "a peek looks at each request for itself"));
    }
    let index = calls.iter().position(|call| call.ticket == Some(true))?;
    Some((format!("/requests/{index}/ticket"), "a peek charges nothing"))
}
