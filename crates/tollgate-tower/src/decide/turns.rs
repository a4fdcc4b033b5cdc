//! Turns in the queues of rules that their requests hold, and abandon.
//!
//! A request whose client leaves gives its turn back. The last turn shortens the queue; an earlier
//! one stays charged, and those behind it move up: see [`QueueTurns`](crate::queue::QueueTurns). A
//! generation keeps its own: free ones of rules that are no longer in force are lost, and their
//! queues are longer by them until they have passed.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate::Timestamp;
use tollgate_rules::{Line, Ruling};

use super::generation::Generation;
use super::{LayerTicket, LayerVerdict};
use crate::queue::QueueTurn;

/// The lines of a request that may be held: a bit for each.
const MOST_LINES: usize = u64::BITS as usize;

/// The turns of one request. Those of a request that departs are dropped.
pub(crate) struct Turns {
    generation: Arc<Generation>,
    held: SmallVec<[Held; 1]>,
}

struct Held {
    /// The index of the line.
    index: usize,
    /// That of the rule that has the queue, and of its tier.
    line: Line,
    turn: QueueTurn,
}

impl Turns {
    pub(super) fn none(generation: &Arc<Generation>) -> Self {
        Self { generation: Arc::clone(generation), held: SmallVec::new() }
    }

    /// Claims a free turn in each queue that the request would enter, which departs within
    /// `max_wait`. `looked` is what the rules would say of it.
    pub(super) fn claim(
        generation: &Arc<Generation>,
        looked: &LayerVerdict<'_>,
        max_wait: impl Fn(&Line) -> Duration,
    ) -> Self {
        let mut turns = Self::none(generation);
        let now = looked.decided_at();
        for (index, &line) in looked.lines().iter().enumerate().take(MOST_LINES) {
            // A request of cost 0 needs no turn.
            if line.is_shadow || line.cost == 0 || line.ruling > Ruling::Refused {
                continue;
            }
            let (Some(queue), Some(key)) = (generation.turns(&line), looked.key(index)) else { continue };
            let max_wait = max_wait(&line);
            let max_wait = generation.http.rule(&line).max_wait.map_or(max_wait, |own| own.min(max_wait));
            if let Some(turn) = queue.claim(key, line.cost, now, now + max_wait) {
                turns.held.push(Held { index, line, turn });
            }
        }
        turns
    }

    /// Returns a bit for each line that has a turn.
    pub(super) fn lines(&self) -> u64 {
        self.held.iter().fold(0, |lines, held| lines | 1 << held.index)
    }

    /// Returns whether the turns are of the keys and costs of a verdict. A closure of the layer's
    /// user may have read a label otherwise than before.
    pub(super) fn fit(&self, verdict: &LayerVerdict<'_>) -> bool {
        self.held.iter().all(|held| {
            verdict.key(held.index) == Some(held.turn.key())
                && verdict.lines().get(held.index).is_some_and(|line| {
                    let is_same = (line.rule, line.tier) == (held.line.rule, held.line.tier);
                    is_same && line.cost <= held.turn.units()
                })
        })
    }

    /// Adds the turns that an admitted request was charged for.
    /// `taken_debts` was read before the charge.
    pub(super) fn add_charged(&mut self, verdict: &LayerVerdict<'_>, taken_debts: u64) {
        for (index, &line) in verdict.lines().iter().enumerate() {
            if !line.is_shadow
                && !line.delay.is_zero()
                && let (Some(queue), Some(key)) = (self.generation.turns(&line), verdict.key(index))
            {
                let turn = queue.charged(key, verdict.decided_at() + line.delay, line.cost, taken_debts);
                self.held.push(Held { index, line, turn });
            }
        }
    }

    /// Lets the request move up in its queues.
    pub(super) fn wait(&mut self) {
        let now = self.generation.now();
        self.held.iter_mut().for_each(|held| held.turn.wait(now));
    }

    /// Has this called when the request moves up.
    pub(crate) fn watch(&self, waker: &Waker) {
        self.held.iter().for_each(|held| held.turn.watch(waker));
    }

    /// Returns when the last of the turns departs.
    pub(super) fn last(&self) -> Option<Timestamp> {
        self.held.iter().map(|held| held.turn.departure()).max()
    }

    /// Returns when the request may depart by the turn that it holds in the queue of a line.
    pub(super) fn departure(&self, index: usize) -> Option<Timestamp> {
        self.held.iter().find(|held| held.index == index).map(|held| held.turn.departure())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Gives back the turns, and the charges of a request that holds them: its client left.
    pub(super) fn abandon(mut self: Box<Self>, mut ticket: LayerTicket) {
        self.stay(&mut ticket);
        let mut kept = SmallVec::<[usize; 4]>::new();
        ticket.cancel_each(|rule| kept.push(rule));
        self.held.retain(|held| !held.turn.is_own() || kept.contains(&held.line.rule));
        self.give_back();
    }

    /// The request departs. Of a turn for which another request was charged nothing can come back.
    pub(super) fn depart(mut self: Box<Self>, ticket: Option<&mut LayerTicket>) {
        let now = self.generation.now();
        self.held.iter_mut().for_each(|held| held.turn.depart(now));
        if let Some(ticket) = ticket {
            self.stay(ticket);
        }
    }

    /// The request moves up no more, and keeps the charges for turns that others have now.
    fn stay(&mut self, ticket: &mut LayerTicket) {
        for Held { line, turn, .. } in &mut self.held {
            turn.stay();
            if !turn.is_own() {
                ticket.keep(line.rule);
            }
        }
    }

    /// Lets other requests have the turns.
    pub(super) fn give_back(self) {
        let now = self.generation.now();
        self.held.into_iter().for_each(|held| held.turn.abandon(now));
    }
}
