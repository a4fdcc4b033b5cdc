//! A state of the model: the memory, each thread between two of its accesses, and what callers were
//! told.

use crate::ring::{Ring, Seen};
use crate::rule::Rule;
use crate::scenario::{Op, Scenario};
use crate::values::{BUCKETS, Header, Key, Name, SLOTS, Word, number_at};

/// Threads at most.
pub(crate) const THREADS: usize = 3;

/// Keys have numbers below this.
pub(crate) const KEYS: usize = 8;

/// Moments at most.
pub(crate) const MOMENTS: usize = 3;

/// What a thread knows of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// The time of the decision, and the one that is proposed: never earlier than the newest
    /// logged.
    pub(crate) decided: u8,
    pub(crate) now: u8,
    /// Which unit is proposed, or which entry erased.
    pub(crate) unit: u8,
    pub(crate) seen: Seen,
    /// The request is refused, and counts.
    pub(crate) refused: bool,
    /// A new key's, which has no slot yet.
    pub(crate) inserts: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) word: Word,
    pub(crate) name: Name,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) header: Header,
    pub(crate) overflow: u8,
    pub(crate) slots: [Slot; SLOTS],
}

/// Where a thread is: the access that it makes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pc {
    #[default]
    Begin,
    Clock,
    HomeWord,
    HomeName,
    Header,
    Displaced,
    DisplacedWord,
    DisplacedName,
    RecycleClock,
    Intact,
    VacancyWord,
    VacancyName,
    WithoutKey,
    LongestIdle,
    Attempt,
    LogOldest,
    LogDenied,
    StageNewest,
    StageEntry,
    StageStill,
    StagePropose,
    LogCharge,
    Look,
    ReloadWord,
    ReloadName,
    Overflow,
    Home,
    Open,
    ScanWord,
    ScanName,
    ScanHeader,
    ScanAgain,
    ScanSkewed,
    Straighten,
    Gone,
    InsertClock,
    InsertDebt,
    PartWithLoad,
    PartWith,
    PartWithHeader,
    ClaimHeader,
    Claim,
    Rename,
    Commit,
    Publish,
    AbandonName,
    AbandonWord,
    ShareHeader,
    Share,
    ShareLook,
    EraseEntry,
    EraseStill,
    Erase,
    Settle,
    SettleName,
    Settled,
    Hold,
    HoldName,
    RefundClock,
    MarkLoad,
    MarkMax,
    Lower,
    Widen,
    Split,
    SplitOverflow,
    SplitShare,
    PartWord,
    PartName,
    PartOver,
    PartNameCas,
    PartWordCas,
    SplitOver,
    ReceiveWord,
    ReceiveName,
    ReceiveRelease,
    SiblingOpen,
    Finish,
    VacateSeen,
    Vacate,
    VacateWord,
    Vacated,
    Done,
}

/// A split on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) bucket: u8,
    pub(crate) level: u8,
    pub(crate) header: Header,
    /// The overflow word's debt.
    pub(crate) debt: u8,
    pub(crate) place: u8,
    pub(crate) word: Word,
    pub(crate) name: Name,
    pub(crate) moved: Option<(Key, Word)>,
    /// Where the thread goes on.
    pub(crate) then: Pc,
}

/// A request that was admitted and is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) charged: u8,
    /// The number of the tick.
    pub(crate) since: u8,
    pub(crate) at: u8,
    pub(crate) kept: bool,
    pub(crate) marked: bool,
    pub(crate) mine: bool,
    /// Ghost: when a log's was decided.
    pub(crate) decided: u8,
}

/// A thread's place and what it remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) pc: Pc,
    /// How many of its operations it has begun.
    pub(crate) begun: u8,
    pub(crate) op: Op,
    /// The number of the tick that it has read.
    pub(crate) now: u8,
    pub(crate) shares: u8,
    pub(crate) handovers: u8,
    /// Where it enters: the bucket of the hint, then that of the key.
    pub(crate) view: u8,
    /// Where it is on its way to the key's bucket, or which bucket it wants opened.
    pub(crate) at: u8,
    pub(crate) child: u8,
    pub(crate) header: Header,
    pub(crate) overflow: u8,
    pub(crate) place: u8,
    /// On the fast path of an insertion, one more than the place that a look at all slots has
    /// found; 0: none.
    pub(crate) chosen: u8,
    pub(crate) seen: Word,
    pub(crate) others: [Option<Slot>; SLOTS],
    pub(crate) new: Word,
    /// Takes over the slot's debt.
    pub(crate) owed: bool,
    pub(crate) shared: bool,
    /// Charges the home slot, in one attempt.
    pub(crate) quickly: bool,
    /// Inserts by the fast path.
    pub(crate) short: bool,
    /// Whether the bucket is another than the one in which it tried the fast path.
    pub(crate) untried: bool,
    pub(crate) split: Split,
    pub(crate) log: Look,
    pub(crate) taken: Option<Taken>,
    /// Ghost: the charge that was just made has not been forgiven by a reset.
    pub(crate) paid: bool,
    /// Ghost: the word was the key's at one time.
    pub(crate) just: bool,
}

impl Thread {
    /// Whether it asks for units, and does not give any back.
    pub(crate) fn checks(&self) -> bool {
        matches!(self.op, Op::Check(..) | Op::Take(..)) && self.taken.is_none()
    }

    /// Begins to look for the key's bucket again, remembering nothing.
    pub(crate) fn again(&mut self) {
        *self = Self {
            pc: Pc::Overflow,
            begun: self.begun,
            op: self.op,
            now: self.now,
            shares: self.shares,
            handovers: self.handovers,
            untried: self.untried,
            view: self.view,
            at: self.view,
            taken: self.taken.map(|taken| Taken {
                charged: taken.charged,
                since: taken.since,
                marked: taken.marked,
                decided: taken.decided,
                ..Taken::default()
            }),
            ..Self::default()
        };
        if !self.checks() {
            self.pc = Pc::Home;
        }
    }
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) buckets: [Bucket; BUCKETS],
    /// Of the first bucket's slots: tables of logs do not grow.
    pub(crate) rings: [Ring; SLOTS],
    pub(crate) threads: [Thread; THREADS],
    /// How many low bits of a key pick the bucket to begin with.
    pub(crate) hint: u8,
    /// The number of the tick.
    pub(crate) clock: u8,
    /// One mark for all keys.
    pub(crate) mark: u8,
    /// Ghost: grains that each key was admitted at each tick and keeps.
    pub(crate) admitted: [[u8; MOMENTS]; KEYS],
    /// Ghost: keys whose first debt was forgiven by a reset.
    pub(crate) forgiven: [bool; KEYS],
}

impl State {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut state = Self {
            buckets: [Bucket::default(); BUCKETS],
            rings: Default::default(),
            threads: [Thread::default(); THREADS],
            hint: 0,
            clock: 0,
            mark: 0,
            admitted: [[0; MOMENTS]; KEYS],
            forgiven: [false; KEYS],
        };
        state.hint = scenario.level;
        for bucket in &mut state.buckets[..1 << scenario.level] {
            bucket.header.level = scenario.level;
            if scenario.level > 0 {
                bucket.slots = [Slot { name: Name::Vacant, ..Slot::default() }; SLOTS];
            }
        }
        let mut full = [0; BUCKETS];
        for &(key, payload) in scenario.slots {
            let number = number_at(scenario.level, key);
            let slot = &mut state.buckets[number].slots[full[number]];
            *slot = Slot { word: Word::default().charged(payload), name: Name::Key(key) };
            full[number] += 1;
        }
        if let Rule::Log(log) = scenario.rule {
            let rings = state.rings.iter_mut().zip(&mut state.buckets[0].slots);
            for ((ring, slot), &(key, times)) in rings.zip(scenario.logs) {
                (slot.word, *ring) = log.restored(times);
                slot.name = Name::Key(key);
            }
        }
        if scenario.overflow > 0 {
            state.buckets[0].overflow = scenario.overflow;
            state.buckets[0].header.shared = true;
        }
        state.buckets[0].header.parity[0] = scenario.skewed;
        for (nth, thread) in state.threads.iter_mut().enumerate() {
            match scenario.threads.get(nth).and_then(|ops| ops.first()) {
                Some(&op) => (thread.op, thread.begun) = (op, 1),
                None => thread.pc = Pc::Done,
            }
        }
        state
    }

    pub(crate) fn is_over(&self) -> bool {
        self.threads.iter().all(|thread| thread.pc == Pc::Done)
    }
}
