//! Turns in the queues of rules that their requests hold, and abandon.
//!
//! A request whose client leaves gives its turn back. The last turn shortens the queue; an earlier
//! one stays charged, and is kept for the next request of its key: see
//! [`AbandonedTurns`](crate::rule::AbandonedTurns). A generation keeps its own: those of rules that
//! are no longer in force are lost, and their queues are longer by them until they have passed.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate::Timestamp;
use tollgate_rules::{Line, Ruling};

use super::generation::Generation;
use super::{FileTicket, FileVerdict};
use crate::rule::QueueTurn;

/// The lines of a request that may be held: a bit for each.
const MOST_LINES: usize = u64::BITS as usize;

/// The turns of one request. Those of a request that departs are dropped.
pub(super) struct Turns {
    generation: Arc<Generation>,
    held: SmallVec<[Held; 1]>,
}

struct Held {
    /// The index of the line.
    index: usize,
    /// That of the rule that has the queue, and of its tier.
    line: Line,
    turn: QueueTurn,
    /// Whether another request was charged for it.
    is_claimed: bool,
}

impl Turns {
    pub(super) fn none(generation: &Arc<Generation>) -> Self {
        Self { generation: Arc::clone(generation), held: SmallVec::new() }
    }

    /// Claims an abandoned turn in each queue that the request would enter, which departs within
    /// `max_wait`. `looked` is what the rules would say of it.
    pub(super) fn claim(generation: &Arc<Generation>, looked: &FileVerdict<'_>, max_wait: Duration) -> Self {
        let mut turns = Self::none(generation);
        let now = looked.decided_at();
        for (index, &line) in looked.lines().iter().enumerate().take(MOST_LINES) {
            // A request of cost 0 needs no turn.
            if line.is_shadow || line.cost == 0 || line.ruling > Ruling::Refused {
                continue;
            }
            let (Some(abandoned), Some(key)) = (generation.abandoned(&line), looked.key(index)) else {
                continue;
            };
            let max_wait = generation.http.rule(&line).max_wait.map_or(max_wait, |own| own.min(max_wait));
            if let Some(turn) = abandoned.claim(key, line.cost, now, now + max_wait) {
                turns.held.push(Held { index, line, turn, is_claimed: true });
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
    pub(super) fn fit(&self, verdict: &FileVerdict<'_>) -> bool {
        self.held.iter().all(|held| {
            verdict.key(held.index) == Some(&*held.turn.key)
                && verdict.lines().get(held.index).is_some_and(|line| {
                    let is_same = (line.rule, line.tier) == (held.line.rule, held.line.tier);
                    is_same && line.cost <= held.turn.units
                })
        })
    }

    /// Adds the turns that an admitted request was charged for.
    pub(super) fn add_charged(&mut self, verdict: &FileVerdict<'_>) {
        for (index, &line) in verdict.lines().iter().enumerate() {
            if !line.is_shadow
                && !line.delay.is_zero()
                && self.generation.abandoned(&line).is_some()
                && let Some(key) = verdict.key(index)
            {
                let departure = verdict.decided_at() + line.delay;
                let turn = QueueTurn { key: key.into(), departure, units: line.cost, change_count: 0 };
                self.held.push(Held { index, line, turn, is_claimed: false });
            }
        }
    }

    /// Returns when the request may depart by the turn that it holds in the queue of a line.
    pub(super) fn departure(&self, index: usize) -> Option<Timestamp> {
        self.held.iter().find(|held| held.index == index).map(|held| held.turn.departure)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Gives back the turns, and the charges of a request that holds them: its client left.
    pub(super) fn abandon(mut self: Box<Self>, ticket: FileTicket) {
        let mut kept = SmallVec::<[usize; 4]>::new();
        ticket.cancel_each(|line| kept.push(line));
        self.held.retain(|held| held.is_claimed || kept.contains(&held.index));
        self.give_back();
    }

    /// Lets other requests claim the turns.
    pub(super) fn give_back(self) {
        let now = self.generation.http.set().clock().now();
        for Held { line, turn, .. } in self.held {
            self.generation.offer(&line, turn, now);
        }
    }
}
