//! A call decided by the rules: each descriptor is a request with a domain and entries.
//!
//! One descriptor is decided at once. Of several, those that only look are decided first; then the
//! rules decide all of them together, all or nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tollgate::Timestamp;
use tollgate_net::listen::Peer;
use tollgate_proxy::Generation;
use tollgate_rules::{Ask, Field, Request, Together, Verdict};

use super::call::{hits, overall};
use super::proto::{Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use super::refusal::Refusal;
use super::status::{Judged, of as status_of};
use crate::clock::ServerClock;
use crate::core::{Core, Decider};
use crate::metrics::{Decided, Listener};
use crate::web::Client;

/// The entry by which Envoy names the client's address.
const CLIENT: &str = "remote_address";

/// The entry by which a call reports the status of a response: rules with `charge_if` charge what
/// they list. To a call without it they look only.
const STATUS: &str = "status";

/// A status that no rule lists.
const NO_STATUS: u16 = 0;

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
        core.metrics.counts(listener).protocol_error("no_address", peer.address());
        core.metrics.decided_for_envoy(listener, Decided::Limited);
        let raw_body = format!("descriptor {index}: {why}\n").into_bytes();
        let known = wrong.iter().map(|(index, _)| (*index, status_of(Code::OverLimit))).collect();
        let statuses = round.refuse(&mut decider, known).await;
        let overall_code = Code::OverLimit.into();
        return RateLimitResponse { statuses, overall_code, raw_body, ..RateLimitResponse::default() };
    }
    let statuses = match &*call.descriptors {
        [descriptor] => {
            let ask = round.ask(0);
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

/// The statuses of the refused descriptors of a call, by their indices.
type Refused = BTreeMap<usize, DescriptorStatus>;

/// One call.
#[derive(Clone, Copy)]
struct Round<'r> {
    core: &'r Core,
    listener: Listener,
    call: &'r RateLimitRequest,
    /// The time at which all descriptors are decided; `None` if there is one.
    now: Option<Timestamp>,
}

impl<'r> Round<'r> {
    fn view(self, index: usize) -> View<'r> {
        View { domain: &self.call.domain, entries: &self.call.descriptors[index].entries }
    }

    fn hits(self, index: usize) -> u64 {
        hits(self.call, &self.call.descriptors[index])
    }

    /// What rules are asked about a descriptor: to charge its hits, unless it only looks. Envoy
    /// holds no request until its turn.
    fn ask(self, index: usize) -> Ask {
        let cost = self.hits(index);
        Ask { now: self.now, cost, is_peek: cost == 0, in_flight: false, may_wait: false, ..Ask::default() }
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
        let count = self.call.descriptors.len();
        let looks: Vec<usize> = (0..count).filter(|&index| self.hits(index) == 0).collect();
        let mut refused = Refused::new();
        let looked = decider.decide_all(
            self.core,
            looks.len(),
            |look, _| self.view(looks[look]),
            |look| self.ask(looks[look]),
            |look, verdict, generation| {
                if !Judged::of(&verdict, true).passes {
                    let (_, status) = self.judge(looks[look], verdict, generation, refusals);
                    refused.insert(looks[look], status);
                }
            },
        );
        looked.await;
        let are_refused = !refused.is_empty();
        let decided = decider.decide_together(
            self.core,
            count,
            |index, _| self.view(index),
            |index| self.ask(index),
            are_refused,
            |together, generation| self.charged(together, generation, &mut refused, refusals),
        );
        match decided.await {
            Some(statuses) => statuses,
            None => self.refuse(decider, refused).await,
        }
    }

    /// Says the statuses of descriptors that were decided together, and settles them. `None`: one
    /// is refused, and nothing is charged. Those that are `refused` are counted.
    fn charged(
        self,
        mut together: Together<'_, ServerClock>,
        generation: &Generation,
        refused: &mut Refused,
        refusals: &mut Refusals,
    ) -> Option<Vec<DescriptorStatus>> {
        for index in 0..self.call.descriptors.len() {
            let verdict = together.verdict(index);
            // Another call may have used up what a look has seen.
            if !refused.contains_key(&index) && !Judged::of(&verdict, self.hits(index) == 0).passes {
                let (_, status) = self.judge(index, verdict, generation, refusals);
                refused.insert(index, status);
            }
        }
        if !together.is_admitted() {
            return None;
        }
        if !refused.is_empty() {
            together.cancel();
            return None;
        }
        let status = |(index, descriptor)| {
            let (passed, status) = self.judge(index, together.verdict(index), generation, refusals);
            if let Some(mut verdict) = passed {
                self.core.metrics.decided(self.listener, &verdict);
                verdict.settle(reported(descriptor));
            }
            status
        };
        Some(self.call.descriptors.iter().enumerate().map(status).collect())
    }

    /// Answers a call of which descriptors are `refused`. The others tell their state.
    async fn refuse(self, decider: &mut Decider, refused: Refused) -> Vec<DescriptorStatus> {
        let count = self.call.descriptors.len();
        let mut statuses = vec![DescriptorStatus::default(); count];
        let others: Vec<usize> = (0..count).filter(|index| !refused.contains_key(index)).collect();
        let decided = decider.decide_all(
            self.core,
            others.len(),
            |other, _| self.view(others[other]),
            |other| Ask { cost: 0, is_peek: true, ..self.ask(others[other]) },
            |other, verdict, generation| {
                let judged = Judged::of(&verdict, true);
                statuses[others[other]] = judged.status(|line| generation.http.draw_jitter(line));
            },
        );
        decided.await;
        refused.into_iter().for_each(|(index, status)| statuses[index] = status);
        statuses
    }
}
