//! A call decided by the rules: each descriptor is a request with a domain and entries.
//!
//! One descriptor is decided at once. Of several:
//!
//! ```text
//!   look at each ---- some refuse ----> those are asked, so that limits which count refusals count
//!        |                              them, and keys are banned; the others are charged nothing
//!        | all admit
//!        v
//!   charge each in order --- one refuses ----> give the charges back: refused
//!        |                   (another call came in between, or two descriptors share a limit)
//!        v
//!     admitted
//! ```

use std::mem::take;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Timestamp;
use tollgate_rules::{Ask, Field, Request, Ticket, Verdict};

use super::call::{hits, overall};
use super::proto::{Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use super::refusal::Refusal;
use super::status::{Judged, seconds_up};
use crate::core::{Core, Decider, Generation, ServerClock};
use crate::metrics::Listener;

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
pub(super) async fn decide(core: &Core, listener: Listener, call: &RateLimitRequest) -> RateLimitResponse {
    let mut decider = core.decider();
    let mut round = Round {
        core,
        listener,
        call,
        decider: &mut decider,
        now: None,
        response: RateLimitResponse {
            statuses: Vec::with_capacity(call.descriptors.len()),
            ..RateLimitResponse::default()
        },
        refusal: None,
    };
    match &*call.descriptors {
        [descriptor] => {
            let (_, status) = round.ask(descriptor, Keep::Settled).await;
            round.response.statuses.push(status);
        }
        _ => round.together().await,
    }
    let Round { mut response, refusal, .. } = round;
    let code = overall(&response);
    response.set_overall_code(code);
    if let Some(refusal) = refusal.filter(|_| code == Code::OverLimit) {
        refusal.write(&mut response);
    }
    response
}

/// A descriptor as rules see it.
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

/// What becomes of the charges of a descriptor that passes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// They stay, but for those of rules with `charge_if` that do not list its status.
    Settled,
    /// They may still be given back.
    Ticket,
    /// They are given back.
    Nothing,
}

/// One call.
struct Round<'r> {
    core: &'r Core,
    listener: Listener,
    call: &'r RateLimitRequest,
    decider: &'r mut Decider,
    /// The time at which all descriptors are decided; `None` if there is one.
    now: Option<Timestamp>,
    response: RateLimitResponse,
    /// The refusal that lasts longest.
    refusal: Option<Refusal>,
}

/// A descriptor that passes.
struct Passed {
    ticket: Option<Ticket<ServerClock>>,
    generation: Arc<Generation>,
}

/// The tickets of the descriptors that were charged. Unless they are taken out, all is given back:
/// also when the caller leaves while a store is asked.
struct Charged(Vec<Option<Ticket<ServerClock>>>);

impl Charged {
    /// Gives all back, the last first.
    fn give_back(&mut self) {
        while let Some(ticket) = self.0.pop() {
            if let Some(ticket) = ticket {
                ticket.cancel();
            }
        }
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Round<'_> {
    /// Decides a descriptor, and counts the decision unless it is given back. `None`: refused.
    async fn ask(
        &mut self,
        descriptor: &RateLimitDescriptor,
        keep: Keep,
    ) -> (Option<Passed>, DescriptorStatus) {
        let hits = hits(self.call, descriptor);
        let ask = Ask { now: self.now, cost: hits, is_peek: hits == 0, in_flight: false, held: 0 };
        let (core, listener, refusal) = (self.core, self.listener, &mut self.refusal);
        let view = |_: &Generation| View { domain: &self.call.domain, entries: &descriptor.entries };
        self.decider
            .decide(core, view, ask, |verdict, generation| {
                let judged = Judged::of(&verdict, ask.is_peek);
                let (status, passes) = (judged.status(), judged.passes);
                if !passes {
                    let own = Refusal::of(core, generation, &judged, verdict.decided_at());
                    *refusal = Refusal::longer(refusal.take(), own);
                    drop(judged);
                    if verdict.is_admitted() {
                        core.metrics.decided_for_envoy(listener, false);
                        verdict.cancel();
                    } else {
                        core.metrics.decided(listener, &verdict);
                    }
                    return (None, status);
                }
                drop(judged);
                if keep == Keep::Nothing {
                    verdict.cancel();
                    return (Some(Passed { ticket: None, generation: Arc::clone(generation) }), status);
                }
                core.metrics.decided(listener, &verdict);
                let ticket = keep_charges(verdict, keep, descriptor);
                (Some(Passed { ticket, generation: Arc::clone(generation) }), status)
            })
            .await
    }

    /// What a descriptor would be answered that costs this. Charges nothing.
    async fn look(&mut self, descriptor: &RateLimitDescriptor, cost: u64) -> (bool, DescriptorStatus) {
        let ask = Ask { now: self.now, cost, is_peek: true, in_flight: false, held: 0 };
        let view = |_: &Generation| View { domain: &self.call.domain, entries: &descriptor.entries };
        let told = |verdict: Verdict<'_, ServerClock>, _: &Arc<Generation>| {
            let judged = Judged::of(&verdict, cost == 0);
            (judged.passes, judged.status())
        };
        self.decider.decide(self.core, view, ask, told).await
    }

    /// Decides several descriptors, all or nothing.
    async fn together(&mut self) {
        self.now = Some(self.core.now());
        let call = self.call;
        let mut passes: Vec<bool> = Vec::with_capacity(call.descriptors.len());
        for one in &call.descriptors {
            passes.push(self.look(one, hits(call, one)).await.0);
        }
        if passes.iter().all(|passes| *passes) {
            let Some((late, status)) = self.charge().await else { return };
            // Its refusal has been counted.
            self.refuse(|_| true, Some((late, status))).await;
        } else {
            self.refuse(|index| passes[index], None).await;
        }
    }

    /// Charges each descriptor. If one is refused gives all back: which, and its status.
    async fn charge(&mut self) -> Option<(usize, DescriptorStatus)> {
        let mut charged = Charged(Vec::with_capacity(self.call.descriptors.len()));
        for attempt in 1.. {
            let mut generation: Option<Arc<Generation>> = None;
            let mut is_overtaken = false;
            for (index, descriptor) in self.call.descriptors.iter().enumerate() {
                let (passed, status) = self.ask(descriptor, Keep::Ticket).await;
                let Some(passed) = passed else {
                    self.response.statuses.clear();
                    return Some((index, status));
                };
                charged.0.push(passed.ticket);
                self.response.statuses.push(status);
                let first = generation.get_or_insert_with(|| Arc::clone(&passed.generation));
                is_overtaken |= !Arc::ptr_eq(first, &passed.generation);
            }
            if !is_overtaken || attempt == TRIES {
                break;
            }
            charged.give_back();
            self.response.statuses.clear();
        }
        for (ticket, descriptor) in take(&mut charged.0).iter_mut().zip(&self.call.descriptors) {
            if let Some(ticket) = ticket {
                ticket.settle(reported(descriptor));
            }
        }
        None
    }

    /// Answers a call of which a descriptor is refused. Those that pass by themselves only tell
    /// their state. `known`: one whose refusal has been counted.
    async fn refuse(&mut self, passes: impl Fn(usize) -> bool, known: Option<(usize, DescriptorStatus)>) {
        for (index, descriptor) in self.call.descriptors.iter().enumerate() {
            let status = match &known {
                Some((late, status)) if *late == index => status.clone(),
                _ if passes(index) => self.look(descriptor, 0).await.1,
                _ => match self.ask(descriptor, Keep::Nothing).await {
                    (None, status) => status,
                    // Another call has given something back since. The call stays refused.
                    (Some(_), status) => DescriptorStatus {
                        code: Code::OverLimit.into(),
                        limit_remaining: 0,
                        duration_until_reset: Some(seconds_up(Duration::from_secs(1))),
                        ..status
                    },
                },
            };
            self.response.statuses.push(status);
        }
    }
}

/// Keeps the charges of a descriptor that passes.
fn keep_charges(
    mut verdict: Verdict<'_, ServerClock>,
    keep: Keep,
    descriptor: &RateLimitDescriptor,
) -> Option<Ticket<ServerClock>> {
    if keep == Keep::Ticket {
        return Some(verdict.ticket());
    }
    verdict.settle(reported(descriptor));
    None
}
