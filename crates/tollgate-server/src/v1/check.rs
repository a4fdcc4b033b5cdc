//! `/v1/check`, `/v1/peek`, `/v1/reserve` and `/v1/acquire`: one request, or a batch.
//!
//! A batch is decided request by request, as if they came at the same time: their stores are asked
//! at the same time. With `together` it is admitted as a whole or not at all: the rules decide all
//! of its requests at once.

use std::mem::take;
use std::ops::Range;

use http::{HeaderMap, StatusCode};
use tollgate::Timestamp;
use tollgate_http::HeaderJson;
use tollgate_net::listen::Client;
use tollgate_net::web::{Answer, problem_at, with, with_headers};
use tollgate_proxy::Generation;
use tollgate_rules::{Ask, Limit, Limits, Ruling, Ticket, Verdict};

use super::outcome::{Outcome, status, write_end};
use super::request::{Act, Body, Call, MOST_REQUESTS};
use super::service::Service;
use super::tickets::{TICKET_LIFE, TicketId};
use crate::clock::ServerClock;
use crate::core::Decider;
use crate::metrics::Listener;
use crate::web::read_json;

const JSON: &str = "application/json";

/// The bytes of an answer to one request, mostly.
const USUAL: usize = 400;

/// The most bytes of its end.
const END: usize = 64;

/// The answers to the requests of a call, while they are decided.
struct Answers {
    /// The answers, each without its end, one after the other.
    json: Vec<u8>,
    /// The headers of the request that was decided last.
    headers: HeaderJson,
}

/// A request that was decided.
struct Decided {
    /// `None`: it was admitted, and given back because its ticket has no room.
    ruling: Option<Ruling>,
    generation: u64,
    /// Where its answer is.
    answer: Range<usize>,
    /// What an admitted request may still give back, if that is kept.
    ticket: Option<Ticket<ServerClock>>,
    /// The ticket's name, once it is kept.
    id: Option<TicketId>,
    decided_at: Timestamp,
    /// Until when the ticket is kept.
    end: Timestamp,
}

impl Answers {
    fn with_room(requests: usize, headers: HeaderJson) -> Self {
        Self { json: Vec::with_capacity(requests * USUAL + END), headers }
    }
}

impl Decided {
    fn is_admitted(&self) -> bool {
        self.ruling == Some(Ruling::Admitted)
    }

    /// Appends the whole answer.
    fn write(&self, answers: &Answers, json: &mut Vec<u8>) {
        match self.ruling {
            Some(_) => json.extend_from_slice(&answers.json[self.answer.clone()]),
            None => write_undecided("error", self.generation, json),
        }
        write_end(self.id, json);
    }
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
    pub(super) async fn check(&self, client: Client, act: Act, body: &[u8]) -> Answer {
        let body: Body<'_> = match read_json(body) {
            Ok(body) => body,
            Err(answer) => return *answer,
        };
        if let Some((pointer, detail)) = mistake(act, &body) {
            return problem_at(&pointer, detail);
        }
        let mut decider = self.core.decider();
        if let Some(calls) = &body.requests {
            // Boxed, as they are rare, and single requests would have room for them.
            return match body.together {
                Some(true) => Box::pin(self.together(client, &mut decider, act, calls)).await,
                _ => Box::pin(self.each(client, &mut decider, act, calls)).await,
            };
        }
        let (call, ask) = (&body.one, act.ask(&body.one));
        let mut answers = Answers::with_room(1, take(&mut decider.headers));
        let mut headers = HeaderMap::new();
        let decided = decider.decide(
            &self.core,
            |_| call,
            ask,
            |verdict, generation| {
                let headers = Some(&mut headers);
                self.decided(act, call, verdict, generation, false, &mut answers, headers)
            },
        );
        let mut decided = decided.await;
        decider.headers = answers.headers;
        drop(decider);
        let mut json = answers.json;
        if !self.keep(client, act, &mut decided) {
            (headers, json) = (HeaderMap::new(), Vec::new());
            write_undecided("error", decided.generation, &mut json);
        }
        write_end(decided.id, &mut json);
        with_headers(status(decided.ruling), headers, JSON, json)
    }

    /// Decides the requests of a batch, each for itself.
    async fn each(&self, client: Client, decider: &mut Decider, act: Act, calls: &[Call<'_>]) -> Answer {
        let mut made = Made(Vec::with_capacity(calls.len()));
        let mut answers = Answers::with_room(calls.len(), HeaderJson::default());
        let decided = decider.decide_all(
            &self.core,
            calls.len(),
            |index, _| &calls[index],
            |index| act.ask(&calls[index]),
            |index, verdict, generation| {
                // While a store is asked for one, the caller of all may leave.
                let may_cancel = generation.stores.is_some();
                let call = &calls[index];
                let one = self.decided(act, call, verdict, generation, may_cancel, &mut answers, None);
                made.0.push((index, one));
            },
        );
        decided.await;
        let mut made = take(&mut made.0);
        made.sort_unstable_by_key(|(index, _)| *index);
        let mut admitted = true;
        for (index, one) in &mut made {
            one.ticket = one.ticket.take().filter(|_| act.keeps_ticket(&calls[*index]));
            admitted &= self.keep(client, act, one) && one.is_admitted();
        }
        batch(admitted, &made, |(_, one), json| one.write(&answers, json))
    }

    /// Decides the requests of a batch, all or nothing.
    async fn together(&self, client: Client, decider: &mut Decider, act: Act, calls: &[Call<'_>]) -> Answer {
        let mut answers = Answers::with_room(calls.len(), HeaderJson::default());
        let decided = decider.decide_together(
            &self.core,
            calls.len(),
            |index, _| &calls[index],
            |index| act.ask(&calls[index]),
            false,
            |mut together, generation| {
                let admitted = together.is_admitted();
                let decide = |(index, call)| {
                    let verdict = together.verdict(index);
                    // The others of a refused batch are not charged.
                    (admitted || !verdict.is_admitted()).then(|| {
                        (index, self.decided(act, call, verdict, generation, true, &mut answers, None))
                    })
                };
                let made = Made(calls.iter().enumerate().filter_map(decide).collect());
                (admitted, generation.number, made)
            },
        );
        let (admitted, number, mut made) = decided.await;
        if admitted && !self.keep_all(client, act, calls, &mut made.0) {
            return batch(false, calls, |_, json| {
                write_undecided("error", number, json);
                write_end(None, json);
            });
        }
        let made = take(&mut made.0);
        let mut results: Vec<_> = calls.iter().map(|_| None).collect();
        made.iter().for_each(|(index, one)| results[*index] = Some(one));
        batch(admitted, results, |one, json| match one {
            Some(one) => one.write(&answers, json),
            None => {
                write_undecided("not_charged", number, json);
                write_end(None, json);
            }
        })
    }

    /// What a verdict says of a request. Its ticket is taken if it is to be kept, or `may_cancel`.
    /// Its answer is written, and its headers into those of a response if there are any.
    #[allow(clippy::too_many_arguments)]
    fn decided(
        &self,
        act: Act,
        call: &Call<'_>,
        verdict: Verdict<'_, ServerClock>,
        generation: &Generation,
        may_cancel: bool,
        answers: &mut Answers,
        headers: Option<&mut HeaderMap>,
    ) -> Decided {
        match act {
            Act::Peek => {}
            Act::Check | Act::Reserve => self.core.metrics.decided(Listener::Http, &verdict),
            Act::Acquire => self.core.metrics.acquired(Listener::Http, &verdict),
        }
        answers.headers.clear();
        let mut outcome = match headers {
            None => Outcome::of(&verdict, generation, &self.core, &mut answers.headers),
            Some(headers) => {
                let both = &mut (headers, &mut answers.headers);
                Outcome::of(&verdict, generation, &self.core, both)
            }
        };
        let (ruling, decided_at) = (verdict.outcome(), verdict.decided_at());
        if act == Act::Reserve {
            outcome.add_not_before(&self.core, decided_at);
        }
        let begin = answers.json.len();
        outcome.write(&answers.headers, &mut answers.json);
        let answer = begin..answers.json.len();
        let takes_ticket = ruling == Ruling::Admitted && (may_cancel || act.keeps_ticket(call));
        let end = match takes_ticket && act == Act::Acquire {
            true => end_of_places(&verdict, generation),
            false => decided_at + TICKET_LIFE,
        };
        let ticket = takes_ticket.then(|| verdict.ticket());
        Decided {
            ruling: Some(ruling),
            generation: generation.number,
            answer,
            ticket,
            id: None,
            decided_at,
            end,
        }
    }

    /// Keeps the ticket of a request, if it has one. If there is no room, the request is given back
    /// and becomes an error.
    fn keep(&self, client: Client, act: Act, decided: &mut Decided) -> bool {
        let Some(ticket) = decided.ticket.take() else { return true };
        match self.tickets_of(act).keep(client, ticket, decided.decided_at, decided.end) {
            Ok(id) => {
                decided.id = Some(id);
                true
            }
            Err(ticket) => {
                ticket.cancel();
                decided.ruling = None;
                false
            }
        }
    }

    /// Keeps the tickets that callers want, or none.
    fn keep_all(&self, client: Client, act: Act, calls: &[Call<'_>], made: &mut [(usize, Decided)]) -> bool {
        for kept in 0..made.len() {
            let (index, one) = &mut made[kept];
            if !act.keeps_ticket(&calls[*index]) || self.keep(client, act, one) {
                continue;
            }
            for (_, one) in &mut made[..kept] {
                let taken = one.id.take().and_then(|id| self.tickets_of(act).take(id, one.decided_at));
                one.ticket = one.ticket.take().or(taken);
            }
            return false;
        }
        true
    }
}

/// The answer to a batch: whether all its requests are admitted, and the answer to each.
pub(super) fn batch<T>(
    admitted: bool,
    results: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    write: impl Fn(T, &mut Vec<u8>),
) -> Answer {
    let results = results.into_iter();
    let mut json = Vec::with_capacity(results.len() * USUAL + END);
    json.extend_from_slice(format!("{{\"admitted\":{admitted},\"results\":[").as_bytes());
    for (index, result) in results.enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write(result, &mut json);
    }
    json.extend_from_slice(b"]}");
    with(StatusCode::OK, JSON, json)
}

/// Appends the answer, without its end, to a request that no rule has decided.
fn write_undecided(word: &'static str, generation: u64, json: &mut Vec<u8>) {
    Outcome::without_numbers(word, generation).write(&HeaderJson::default(), json);
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

#[cfg(test)]
mod tests;
