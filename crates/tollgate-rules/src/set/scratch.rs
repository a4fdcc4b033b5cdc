//! The buffers of one request, and what it was charged.

use tollgate::{Clock, Receipt, Timestamp};

use crate::matcher::{Concerned, Found};
use crate::set::RuleSet;
use crate::set::decide::Guards;
use crate::set::line::Line;

/// The buffers that a thread's requests use one after the other.
///
/// Keep one for each thread: its buffers grow to what requests need and then stay, so that no
/// request allocates.
#[derive(Default)]
pub struct Scratch {
    pub(super) found: Found,
    /// One for each rule that the matcher found.
    pub(super) lines: Vec<Line>,
    pub(super) turns: Vec<(u32, usize)>,
    pub(super) charges: Charges,
    /// The time of the decision.
    pub(super) now: Timestamp,
}

/// What a request was charged, in the order of the charges.
#[derive(Default)]
pub(super) struct Charges {
    pub(super) quotas: Vec<Charge>,
    /// What it holds in flight, with the indices of the lines.
    pub(super) guards: Guards,
}

pub(super) struct Charge {
    /// The index of the line.
    pub(super) line: usize,
    pub(super) receipt: Receipt<8>,
}

/// How much was charged at some time.
#[derive(Clone, Copy, Default)]
pub(super) struct Mark {
    quotas: usize,
    guards: usize,
}

impl Scratch {
    /// Forgets the request before. What it holds in flight is given back.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.charges.quotas.clear();
        self.charges.guards.clear();
    }
}

impl Charges {
    pub(super) fn mark(&self) -> Mark {
        Mark { quotas: self.quotas.len(), guards: self.guards.len() }
    }

    /// Gives back what was charged since `mark`, the last first.
    #[cold]
    pub(super) fn give_back<C: Clock + Clone + 'static>(
        &mut self,
        set: &RuleSet<C>,
        concerned: &[Concerned],
        mark: Mark,
        now: Timestamp,
    ) {
        for Charge { line, receipt } in self.quotas.drain(mark.quotas..).rev() {
            if let Some(current) = &set.allowance(&concerned[line]).quotas {
                current.shared.limiter.at(now).refund(receipt);
            }
        }
        self.guards.truncate(mark.guards);
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").field("lines", &self.lines).finish_non_exhaustive()
    }
}
