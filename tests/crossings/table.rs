//! Which verbs have met on one key.

use std::collections::BTreeSet;

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
    UpTo,
    Debit,
    Credit,
    Joint,
    Caller,
    Change,
    Save,
    Reset,
    Growth,
    Full,
    Back,
    Panic,
}

pub(crate) const WORDS: [(Word, &str); 25] = [
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
    (Word::UpTo, "up to"),
    (Word::Debit, "debit"),
    (Word::Credit, "credit"),
    (Word::Joint, "joint charge"),
    (Word::Caller, "joint charge that its caller refuses"),
    (Word::Change, "change"),
    (Word::Save, "save and restore"),
    (Word::Reset, "reset"),
    (Word::Growth, "growth"),
    (Word::Full, "full table"),
    (Word::Back, "clock steps back"),
    (Word::Panic, "clock panics"),
];

/// Those of which every three are done to one key, also one twice: most faults were where a change
/// or a restart met a second one, or what gives back, in a table that was full.
const TRIPLED: [Word; 10] = [
    Word::Full,
    Word::Change,
    Word::Save,
    Word::Refund,
    Word::Part,
    Word::Credit,
    Word::Reset,
    Word::Panic,
    Word::Joint,
    Word::Caller,
];

/// Those that threads do in `crowd`.
pub(crate) const THREADED: [Word; 21] = [
    Word::Check,
    Word::Cost,
    Word::Peek,
    Word::Refund,
    Word::Part,
    Word::Reserve,
    Word::Cancel,
    Word::Lease,
    Word::Batch,
    Word::Prepare,
    Word::Tier,
    Word::Multi,
    Word::UpTo,
    Word::Debit,
    Word::Credit,
    Word::Joint,
    Word::Caller,
    Word::Change,
    Word::Reset,
    Word::Growth,
    Word::Full,
];

/// How often each word followed each other on one key of one program.
#[derive(Clone, Default)]
pub(crate) struct Table {
    cells: [[u32; WORDS.len()]; WORDS.len()],
    /// The threes that were done to one key, one before the other.
    threes: BTreeSet<[usize; 3]>,
}

impl Table {
    pub(crate) fn add(&mut self, other: &Self) {
        for (row, others) in self.cells.iter_mut().zip(&other.cells) {
            for (cell, other) in row.iter_mut().zip(others) {
                *cell += other;
            }
        }
        self.threes.extend(&other.threes);
    }

    /// Whether this was done to a key that something else was done to as well.
    pub(crate) fn has(&self, word: Word) -> bool {
        let row = &self.cells[word as usize];
        row.iter().chain(self.cells.iter().map(|row| &row[word as usize])).any(|count| *count > 0)
    }

    /// The threes that no program has done to one key, in this order.
    pub(crate) fn missing_threes(&self) -> Vec<[&'static str; 3]> {
        let three =
            |number: usize| [0, 1, 2].map(|place| TRIPLED[number / TRIPLED.len().pow(place) % TRIPLED.len()]);
        let all = (0..TRIPLED.len().pow(3)).map(three);
        let missing = all.filter(|three| !self.threes.contains(&three.map(|word| word as usize)));
        missing.map(|three| three.map(|word| WORDS[word as usize].1)).collect()
    }

    /// The pairs of which no program has done both to one key, in this order. Leaves out those that
    /// no limiter has at once.
    pub(crate) fn missing(&self) -> Vec<(&'static str, &'static str)> {
        let apart = [(Word::Growth, Word::Full), (Word::Tier, Word::Multi)];
        let mut missing = Vec::new();
        for (row, (first, name)) in self.cells.iter().zip(WORDS) {
            for (count, (then, other)) in row.iter().zip(WORDS) {
                let never = apart.contains(&(first, then)) || apart.contains(&(then, first));
                if *count == 0 && !never {
                    missing.push((name, other));
                }
            }
        }
        missing
    }
}

/// The words that each key of one program has met.
pub(crate) struct Met {
    words: [[bool; WORDS.len()]; KEYS],
    /// The pairs of them, one before the other.
    pairs: [BTreeSet<[usize; 2]>; KEYS],
    pub(crate) table: Table,
}

impl Met {
    pub(crate) fn new() -> Self {
        Self { words: [[false; WORDS.len()]; KEYS], pairs: Default::default(), table: Table::default() }
    }

    /// This was done to the key, all at once.
    pub(crate) fn meets(&mut self, key: usize, words: &[Word]) {
        for word in words {
            for (first, _) in self.words[key].iter().enumerate().filter(|(_, met)| **met) {
                self.table.cells[first][*word as usize] += 1;
            }
        }
        for &word in words.iter().filter(|word| TRIPLED.contains(word)) {
            let word = word as usize;
            self.table.threes.extend(self.pairs[key].iter().map(|&[first, then]| [first, then, word]));
            let before = TRIPLED.into_iter().map(|first| first as usize);
            let before = before.filter(|&first| self.words[key][first]);
            self.pairs[key].extend(before.map(|first| [first, word]));
        }
        for word in words {
            self.words[key][*word as usize] = true;
        }
    }

    pub(crate) fn all_meet(&mut self, words: &[Word]) {
        (0..KEYS).for_each(|key| self.meets(key, words));
    }
}
