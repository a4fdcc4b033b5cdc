//! A call decided by the rules: each descriptor is a request with a domain and entries.
//!
//! One descriptor is decided at once. Of several, each step asks the stores of all together:
//!
//! ```text
//!   look at each ---- some refuse ----> those are asked, so that limits which count refusals count
//!        |                              them, and keys are banned; the others are charged nothing
//!        | all admit
//!        v
//!   charge each --- one refuses ----> give the charges back: refused
//!        |          (another call came in between, or two descriptors share a limit)
//!        v
//!     admitted
//! ```

use std::collections::BTreeMap;
use std::mem::take;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Timestamp;
use tollgate_rules::{Ask, Field, Request, Ticket, Verdict};

use super::call::{hits, overall};
use super::proto::{Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use super::refusal::Refusal;
use super::status::{Judged, of as status_of, seconds_up};
use crate::clock::ServerClock;
use crate::core::{Core, Decider, Generation};
use crate::listen::Peer;
use crate::metrics::{Decided, Listener};
use crate::web::Client;

/// The entry by which Envoy names the client's address.
const CLIENT: &str = "remote_address";

/// The entry by which a call reports the status of a response: rules with `charge_if` charge what
/// they list. To a call without it they look only.
const STATUS: &str = "status";

/// A status that no rule lists.
const NO_STATUS: u16 = 0;

/// How often a call is decided anew that a reload overtakes.
const TRIES: usize = 8;

/// Decides a call.
pub(super) async fn decide(
    core: &Core,
    (listener, peer): (Listener, Peer),
    call: &RateLimitRequest,
) -> RateLimitResponse {
    let mut decider = core.decider();
    let mut refusals = Refusals::new();
    let round = Round { core, listener, call, now: None };
    let descriptors = call.descriptors.iter().enumerate();
    let wrong = descriptors.filter_map(|(index, one)| Some((index, names_no_client(&one.entries)?)));
    let wrong: Vec<_> = wrong.collect();
    if let [(index, why), ..] = &*wrong {
        core.metrics.protocol_error(listener, "no_address", peer.address());
        core.metrics.decided_for_envoy(listener, Decided::Limited);
        let raw_body = format!("descriptor {index}: {why}\n").into_bytes();
        let known = wrong.iter().map(|(index, _)| (*index, status_of(Code::OverLimit))).collect();
        let passes = vec![true; call.descriptors.len()];
        let statuses = round.refuse(&mut decider, &mut refusals, &passes, known).await;
        let overall_code = Code::OverLimit.into();
        return RateLimitResponse { statuses, overall_code, raw_body, ..RateLimitResponse::default() };
    }
    let statuses = match &*call.descriptors {
        [descriptor] => {
            let ask = round.ask(0, None);
            let decided = decider.decide(
                core,
                |_| round.view(0),
                ask,
                |verdict, generation| {
                    let (passed, status) = round.judge(0, verdict, generation, &mut refusals);
                    if let Some(mut verdict) = passed {
                        core.metrics.decided(listener, &verdict);
                        verdict.settle(reported(descriptor));
                    }
                    status
                },
            );
            vec![decided.await]
        }
        _ => Round { now: Some(core.now()), ..round }.together(&mut decider, &mut refusals).await,
    };
    let mut response = RateLimitResponse { statuses, ..RateLimitResponse::default() };
    let code = overall(&response);
    response.set_overall_code(code);
    let refusals = refusals.into_values().map(Some);
    if let Some(refusal) = refusals.fold(None, Refusal::longer).filter(|_| code == Code::OverLimit) {
        refusal.write(&mut response);
    }
    response
}

/// A descriptor as rules see it.
#[derive(Clone, Copy)]
struct View<'r> {
    domain: &'r str,
    entries: &'r [Entry],
}

impl Request for View<'_> {
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
        match field {
            Field::Domain => see(self.domain.as_bytes()),
            Field::Entry(name) => {
                let named = self.entries.iter().filter(|entry| entry.key == name);
                named.for_each(|entry| see(entry.value.as_bytes()));
            }
            _ => {}
        }
    }

    fn client(&self) -> Option<IpAddr> {
        only(self.entries, CLIENT)?.parse().ok()
    }
}

/// Why these entries name no client, although they have an entry for it. Such a call is over its
/// limit: Envoy would let the request pass on an error.
fn names_no_client(entries: &[Entry]) -> Option<String> {
    let mut named = entries.iter().filter(|entry| entry.key == CLIENT);
    let value = &named.next()?.value;
    if named.next().is_some() {
        return Some(format!("{CLIENT} comes twice"));
    }
    let error = value.parse::<Client>().err()?;
    Some(format!("{CLIENT} {error}"))
}

/// The value of the one entry with this key.
fn only<'e>(entries: &'e [Entry], key: &str) -> Option<&'e str> {
    let mut named = entries.iter().filter(|entry| entry.key == key);
    let first = named.next()?;
    named.next().is_none().then_some(&first.value)
}

/// The status that a descriptor reports.
fn reported(descriptor: &RateLimitDescriptor) -> u16 {
    only(&descriptor.entries, STATUS).and_then(|status| status.parse().ok()).unwrap_or(NO_STATUS)
}

/// The refusals of a call, by the indices of its descriptors.
type Refusals = BTreeMap<usize, Refusal>;

/// One call.
#[derive(Clone, Copy)]
struct Round<'r> {
    core: &'r Core,
    listener: Listener,
    call: &'r RateLimitRequest,
    /// The time at which all descriptors are decided; `None` if there is one.
    now: Option<Timestamp>,
}

/// The tickets of the descriptors that were charged with their indices, in the order of the
/// charges. Unless they are taken out, all is given back, the last first: also when the caller
/// leaves while a store is asked.
struct Charged(Vec<(usize, Ticket<ServerClock>)>);

impl Drop for Charged {
    fn drop(&mut self) {
        while let Some((_, ticket)) = self.0.pop() {
            ticket.cancel();
        }
    }
}

impl<'r> Round<'r> {
    fn view(self, index: usize) -> View<'r> {
        View { domain: &self.call.domain, entries: &self.call.descriptors[index].entries }
    }

    fn hits(self, index: usize) -> u64 {
        hits(self.call, &self.call.descriptors[index])
    }

    /// What rules are asked about a descriptor: to charge its hits, or to look at so many.
    fn ask(self, index: usize, look_at: Option<u64>) -> Ask {
        let cost = look_at.unwrap_or_else(|| self.hits(index));
        let is_peek = look_at.is_some() || cost == 0;
        Ask { now: self.now, cost, is_peek, in_flight: false, ..Ask::default() }
    }

    /// Says the status of a descriptor. The verdict of one that passes comes back. A refusal is
    /// counted and kept, and its charge given back.
    fn judge<'v>(
        self,
        index: usize,
        verdict: Verdict<'v, ServerClock>,
        generation: &Generation,
        refusals: &mut Refusals,
    ) -> (Option<Verdict<'v, ServerClock>>, DescriptorStatus) {
        let judged = Judged::of(&verdict, self.hits(index) == 0);
        if judged.passes {
            let status = judged.status(|line| generation.http.draw_jitter(line));
            drop(judged);
            return (Some(verdict), status);
        }
        let refusal = Refusal::of(self.core, generation, &judged, verdict.decided_at());
        // As its headers say.
        let status = judged.status(|_| refusal.as_ref().map_or(Duration::ZERO, |refusal| refusal.jitter));
        refusals.extend(refusal.map(|refusal| (index, refusal)));
        drop(judged);
        if verdict.is_admitted() {
            self.core.metrics.decided_for_envoy(self.listener, Decided::Limited);
            verdict.cancel();
        } else {
            self.core.metrics.decided(self.listener, &verdict);
        }
        (None, status)
    }

    /// Decides several descriptors, all or nothing.
    async fn together(self, decider: &mut Decider, refusals: &mut Refusals) -> Vec<DescriptorStatus> {
        let mut passes = vec![false; self.call.descriptors.len()];
        let looked = decider.decide_all(
            self.core,
            passes.len(),
            |index, _| self.view(index),
            |index| self.ask(index, Some(self.hits(index))),
            |index, verdict, _| {
                passes[index] = Judged::of(&verdict, self.hits(index) == 0).passes;
                ControlFlow::Continue(())
            },
        );
        looked.await;
        let mut late = BTreeMap::new();
        if passes.iter().all(|passes| *passes) {
            match self.charge(decider, refusals).await {
                Ok(statuses) => return statuses,
                Err((index, status)) => _ = late.insert(index, status),
            }
        }
        self.refuse(decider, refusals, &passes, late).await
    }

    /// Charges each descriptor. If one is refused gives all back: which, and its status.
    async fn charge(
        self,
        decider: &mut Decider,
        refusals: &mut Refusals,
    ) -> Result<Vec<DescriptorStatus>, (usize, DescriptorStatus)> {
        let count = self.call.descriptors.len();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut charged = Charged(Vec::with_capacity(count));
            let mut statuses = vec![DescriptorStatus::default(); count];
            let (mut late, mut first, mut is_overtaken) = (None, None, false);
            let decided = decider.decide_all(
                self.core,
                count,
                |index, _| self.view(index),
                |index| self.ask(index, None),
                |index, verdict, generation| {
                    let (passed, status) = self.judge(index, verdict, generation, refusals);
                    let Some(verdict) = passed else {
                        late = Some((index, status));
                        return ControlFlow::Break(());
                    };
                    self.core.metrics.decided(self.listener, &verdict);
                    charged.0.push((index, verdict.ticket()));
                    statuses[index] = status;
                    is_overtaken |=
                        !Arc::ptr_eq(first.get_or_insert_with(|| Arc::clone(generation)), generation);
                    ControlFlow::Continue(())
                },
            );
            decided.await;
            if let Some(late) = late {
                return Err(late);
            }
            if is_overtaken && attempts < TRIES {
                continue;
            }
            for (index, mut ticket) in take(&mut charged.0) {
                ticket.settle(reported(&self.call.descriptors[index]));
            }
            return Ok(statuses);
        }
    }

    /// Answers a call of which a descriptor is refused. Descriptors with room only tell
    /// their state. `known`: the descriptors whose refusal is decided, and counted.
    async fn refuse(
        self,
        decider: &mut Decider,
        refusals: &mut Refusals,
        passes: &[bool],
        known: BTreeMap<usize, DescriptorStatus>,
    ) -> Vec<DescriptorStatus> {
        let mut statuses = vec![DescriptorStatus::default(); passes.len()];
        let others: Vec<usize> = (0..passes.len()).filter(|index| !known.contains_key(index)).collect();
        let decided = decider.decide_all(
            self.core,
            others.len(),
            |other, _| self.view(others[other]),
            |other| self.ask(others[other], passes[others[other]].then_some(0)),
            |other, verdict, generation| {
                let index = others[other];
                statuses[index] = if passes[index] {
                    Judged::of(&verdict, true).status(|line| generation.http.draw_jitter(line))
                } else {
                    match self.judge(index, verdict, generation, refusals) {
                        (None, status) => status,
                        // Another call has given something back since. The call stays refused.
                        (Some(verdict), status) => {
                            verdict.cancel();
                            DescriptorStatus {
                                code: Code::OverLimit.into(),
                                limit_remaining: 0,
                                duration_until_reset: Some(seconds_up(Duration::from_secs(1))),
                                ..status
                            }
                        }
                    }
                };
                ControlFlow::Continue(())
            },
        );
        decided.await;
        known.into_iter().for_each(|(index, status)| statuses[index] = status);
        statuses
    }
}
