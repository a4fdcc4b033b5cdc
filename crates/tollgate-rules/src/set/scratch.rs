//! The buffers of one request, and what it was charged.

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use smallvec::SmallVec;
use tollgate::{Kept, Offer, Outcome, Receipt, Timestamp};

use crate::matcher::Found;
use crate::set::allowance::Rank;
use crate::set::at_once::Guards;
use crate::set::line::Line;
use crate::set::stored::{StoredAnswer, StoredCharge};

/// The buffers that a thread's requests use one after the other.
///
/// Keep one for each thread: its buffers grow to what requests need and then stay, so that no
/// request allocates.
#[derive(Default)]
pub struct Scratch {
    pub(super) found: Found,
    /// One for each rule that the matcher found.
    pub(super) lines: Lines,
    pub(super) turns: Vec<Turn>,
    pub(super) charges: Charges,
    /// Answers of stores that the next decision may use. The others are given back.
    pub(super) coming: Vec<StoredAnswer>,
    /// The lines whose stores are to be asked: the request was not decided.
    pub(super) unasked: Vec<usize>,
    /// Whether `unasked` is to be asked without a charge.
    pub(super) is_peek: bool,
    /// The time of the decision.
    pub(super) now: Timestamp,
    /// What the request costs where a rule says nothing else.
    pub(super) cost: u64,
}

/// The lines of a request, which may be written when they are first asked for.
#[derive(Default)]
pub(super) struct Lines {
    written: OnceLock<Vec<Line>>,
    /// The buffer while no lines are written. No thread ever waits for it: the cell above lets one
    /// writer in.
    buffer: Mutex<Vec<Line>>,
}

/// What a request was charged, in the order of the charges.
#[derive(Default)]
pub(super) struct Charges {
    /// What the limits of the short way said, with the indices of their lines. The long way leaves
    /// none.
    pub(super) brief: Vec<(usize, Kept)>,
    pub(super) quotas: Vec<Charge>,
    /// What it holds in flight, with the indices of the lines.
    pub(super) guards: Guards,
    /// What stores were charged, with the indices of the lines.
    pub(super) stored: Vec<(usize, Box<dyn StoredCharge>)>,
}

/// The limits by time of a line, which are to be charged.
pub(super) struct Turn {
    pub(super) rank: Rank,
    /// The index of the request, and that of its line.
    pub(super) round: usize,
    pub(super) line: usize,
    /// Its offers.
    pub(super) offers: Range<usize>,
}

impl Turn {
    pub(super) fn new(rank: Rank, round: usize, line: usize) -> Self {
        Self { rank, round, line, offers: 0..0 }
    }
}

/// The offers of a request. More than these take memory of their own.
pub(super) type Offers<'r> = SmallVec<[Offer<'r>; 32]>;

/// What one limit by time was charged.
pub(super) struct Charge {
    /// The index of the line. The limits of a line are charged one after the other.
    pub(super) line: usize,
    pub(super) receipt: Receipt,
}

impl Scratch {
    /// Brings the answers of stores for the next decision.
    pub(crate) fn bring(&mut self, answers: &mut Vec<StoredAnswer>) {
        self.coming.append(answers);
    }

    /// Forgets the request before. What it holds in flight is given back.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.charges.brief.clear();
        self.charges.quotas.clear();
        self.charges.guards.clear();
        self.charges.stored.clear();
        self.unasked.clear();
    }
}

impl Lines {
    #[inline]
    fn clear(&mut self) {
        if let Some(mut lines) = self.written.take() {
            lines.clear();
            *self.buffer() = lines;
        }
    }

    /// The buffer of lines that are being written.
    pub(super) fn buffer(&mut self) -> &mut Vec<Line> {
        self.buffer.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends writing.
    pub(super) fn finish(&mut self) {
        self.written = OnceLock::from(std::mem::take(self.buffer()));
    }

    /// The lines, if they are written.
    #[inline]
    pub(super) fn written(&self) -> Option<&[Line]> {
        self.written.get().map(Vec::as_slice)
    }

    /// The lines, which `write` writes if they are not written.
    pub(super) fn get_or_write(&self, write: impl FnOnce(&mut Vec<Line>)) -> &[Line] {
        self.written.get_or_init(|| {
            let mut lines = std::mem::take(&mut *self.buffer.lock().unwrap_or_else(PoisonError::into_inner));
            write(&mut lines);
            lines
        })
    }
}

impl Charges {
    /// The outcome of the short way, if it refused: by the only rule.
    pub(super) fn refused_briefly(&self) -> Option<Outcome> {
        self.brief.first().map(|(_, kept)| kept.outcome()).filter(|outcome| *outcome != Outcome::Allowed)
    }

    /// What limits by time were charged.
    pub(super) fn take(&mut self) -> impl DoubleEndedIterator<Item = Charge> {
        let brief = self.brief.drain(..);
        let brief = brief.map(|(line, kept)| Charge { line, receipt: kept.receipt() });
        brief.chain(self.quotas.drain(..))
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").field("lines", &self.lines.written()).finish_non_exhaustive()
    }
}
