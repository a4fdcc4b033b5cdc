//! Which verbs have met on one key.

use super::engine::KEYS;

/// The verbs, and what can be done by the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Check,
    Cost,
    Peek,
    Refund,
    Part,
    Reserve,
    Cancel,
    Wait,
    Lease,
    Batch,
    Prepare,
    Tier,
    Multi,
    Change,
    Save,
    Reset,
    Growth,
    Full,
    Back,
}

pub(crate) const WORDS: [(Word, &str); 19] = [
    (Word::Check, "check"),
    (Word::Cost, "cost above 1"),
    (Word::Peek, "peek"),
    (Word::Refund, "refund"),
    (Word::Part, "refund of a part"),
    (Word::Reserve, "reserve"),
    (Word::Cancel, "cancel"),
    (Word::Wait, "wait"),
    (Word::Lease, "lease"),
    (Word::Batch, "batch"),
    (Word::Prepare, "prepare"),
    (Word::Tier, "tier"),
    (Word::Multi, "several limits"),
    (Word::Change, "reconfigure"),
    (Word::Save, "save and restore"),
    (Word::Reset, "reset"),
    (Word::Growth, "growth"),
    (Word::Full, "full table"),
    (Word::Back, "clock steps back"),
];

/// How often each word followed each other on one key of one program.
#[derive(Clone, Default)]
pub(crate) struct Table {
    cells: [[u32; WORDS.len()]; WORDS.len()],
}

impl Table {
    pub(crate) fn add(&mut self, other: &Self) {
        for (row, others) in self.cells.iter_mut().zip(&other.cells) {
            for (cell, other) in row.iter_mut().zip(others) {
                *cell += other;
            }
        }
    }

    pub(crate) fn has(&self, first: usize, then: usize) -> bool {
        self.cells[first][then] > 0
    }
}

/// The words that each key of one program has met.
pub(crate) struct Met {
    words: [[bool; WORDS.len()]; KEYS],
    pub(crate) table: Table,
}

impl Met {
    pub(crate) fn new() -> Self {
        Self { words: [[false; WORDS.len()]; KEYS], table: Table::default() }
    }

    /// This was done to the key, all at once.
    pub(crate) fn meets(&mut self, key: usize, words: &[Word]) {
        for word in words {
            for (first, _) in self.words[key].iter().enumerate().filter(|(_, met)| **met) {
                self.table.cells[first][*word as usize] += 1;
            }
        }
        for word in words {
            self.words[key][*word as usize] = true;
        }
    }

    pub(crate) fn all_meet(&mut self, words: &[Word]) {
        (0..KEYS).for_each(|key| self.meets(key, words));
    }
}
