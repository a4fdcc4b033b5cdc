//! The short way of a check, where every limit is decided by the key's home slot.
//!
//! Most requests are for a key that has its home in every table, and most limits are few, and
//! buckets or windows. Of a number of limits that the compiler knows, each limit's word stays in
//! registers, and each bucket is found once.
//!
//! What must stay true:
//!
//! * Until every limit has been looked at, nothing is written. So a request that the home slots do
//!   not decide (a key that is new, or not at home; a refusal that counts; a cost that is 0 or
//!   above a limit) begins anew the long way, `charge_anywhere`, by the same version and at the
//!   same time.
//! * A refusal is an answer only when the version has been looked at after the words (edge V1 of
//!   `version`). If it is another by then, the long way goes on to that.
//! * Each limit is charged by one compare-exchange from the word that was looked at. Where the word
//!   is another by now, the limits before are charged: the request goes on from there, by
//!   `charge_anew`, as on the long way.
//!
//! No observer is told of these decisions: with an observer every check takes the long way.

use crate::algorithm::{AnyRule, Payload};
use crate::clock::Clock;
use crate::core::Core;
use crate::core::several::asks::Asks;
use crate::core::several::decision::MultiDecision;
use crate::core::several::{By, Several};
use crate::core::version::State;
use crate::decision::Outcome;
use crate::receipt::{MOST, Set};
use crate::table::dated::Dated;
use crate::table::ruling::Ask;
use crate::table::{HomeProbe, Table};
use crate::time::Timestamp;

impl<C: Clock> Core<Several, C> {
    /// Decides a request and charges it, if a glance at each of the `N` limits will do. `None`:
    /// nothing was written.
    #[inline(always)]
    pub(super) fn charge_briefly<'l, const N: usize, A: Asks>(
        &'l self,
        state: State,
        asks: A,
        now: Timestamp,
        time: &impl Fn() -> Timestamp,
    ) -> Option<MultiDecision<'l, A>> {
        let version = self.versions.of(state);
        if !asks.fit(version) {
            return None;
        }
        let tables = self.places.first_chunk::<N>()?;
        let mut glances = [glance(&tables[0], version.dated(0), asks, 0, now)?; N];
        for index in 1..N {
            glances[index] = glance(&tables[index], version.dated(index), asks, index, now)?;
        }
        let (mut payloads, mut refused) = ([Payload::UNSEEN; MOST], Set::default());
        for (index, glance) in glances.iter().enumerate() {
            payloads[index] = glance.payload;
            refused.add_if(!glance.allowed, index);
        }
        // Made where it is returned: one that is kept and changed lies in memory.
        let decision = |payloads| MultiDecision {
            payloads,
            ..MultiDecision::new(&self.places, version, asks, now, state.resets())
        };
        if !refused.is_empty() {
            // No answer before the version was looked at again: edge V1.
            if self.versions.following(version, now).is_some() {
                return None;
            }
            (0..N).for_each(|index| payloads[index] = glances[index].before);
            return Some(MultiDecision { outcome: Outcome::Denied, refused, ..decision(payloads) });
        }
        for (index, glance) in glances.iter().enumerate() {
            let (slot, word) = glance.seen;
            if !slot.charge_seen(word, glance.payload, asks.fingerprint(index).kept()) {
                return Some(self.charge_on(decision(payloads), index, time));
            }
        }
        Some(MultiDecision { taken: Set::first(N), ..decision(payloads) })
    }

    /// Goes on with a request that was charged to the limits before `index`, whose word is another
    /// by now.
    #[cold]
    #[inline(never)]
    fn charge_on<'l, A: Asks>(
        &'l self,
        mut decision: MultiDecision<'l, A>,
        index: usize,
        time: &impl Fn() -> Timestamp,
    ) -> MultiDecision<'l, A> {
        self.places[index].events(decision.asks.fingerprint(index)).retried(1);
        let then = decision.now;
        if !self.charge_anew(&mut decision, &By::Current, index, then, time) {
            self.charge_by_later(&mut decision, None, time);
        }
        decision
    }
}

/// Looks at the key's home slot by a rule that [is brief](AnyRule::is_brief), little enough to be
/// written out for each limit. `None`: by any other.
#[inline(always)]
pub(super) fn glance<'t>(
    table: &'t Table,
    Dated { rule, term }: Dated<'_, AnyRule>,
    asks: impl Asks,
    index: usize,
    now: Timestamp,
) -> Option<HomeProbe<'t>> {
    let (fingerprint, cost) = (asks.fingerprint(index), asks.cost(index));
    let (view, fingerprint) = (table.view(fingerprint), fingerprint.kept());
    view.prefetch_all();
    match rule {
        AnyRule::Gcra(rule) => view.probe_home(Ask { rule: Dated { rule, term }, fingerprint, cost }, now),
        AnyRule::Fixed(rule) => view.probe_home(Ask { rule: Dated { rule, term }, fingerprint, cost }, now),
        _ => None,
    }
}
