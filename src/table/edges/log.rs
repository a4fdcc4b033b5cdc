//! The edges of a log: its slot's word, which holds the head, and the times in its ring.

use super::{X, carries, explore};
use crate::algorithm::{Compile, Moment, Payload, Refund, Rule, SlidingLog, Verdict};
use crate::rate::Rate;
use crate::ring::Ring;
use crate::sync::AtomicU64;
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::validity::Validity;
use crate::table::versioned::VersionedRef;
use crate::table::word::Word;
use crate::time::Timestamp;

/// A slot and its ring of one entry, of a key that was admitted at second 0.
struct Log {
    rule: <SlidingLog as Compile>::Rule,
    validity: Validity,
    slot: Slot,
    word: Word,
    entries: Vec<AtomicU64>,
}

impl Log {
    fn new() -> Self {
        let quota = [SlidingLog::new(Rate::per_second(1))];
        let rule = SlidingLog::compile(&quota, 0).expect("the model's quota is valid").remove(0);
        let slot = Slot::new(X);
        let entries = vec![AtomicU64::new(0)];
        let mut log = Self { rule, validity: Validity::endless(u64::MAX), slot, word: Word::ZERO, entries };
        assert!(log.charge(0));
        log.word = log.slot.load();
        log
    }

    fn rule(&self) -> VersionedRef<'_, <SlidingLog as Compile>::Rule> {
        VersionedRef { pure: &self.rule, validity: &self.validity }
    }

    fn ring(&self) -> Ring<'_> {
        Ring::new(&self.entries)
    }

    fn at(&self, second: u64) -> Moment {
        self.rule.moment(Timestamp::from_nanos(second * 1_000_000_000))
    }

    /// The payload after an admission at that second on the first word.
    fn decide(&self, second: u64) -> Option<Payload> {
        match self.rule.decide(self.rule().read(self.word.payload()), self.ring(), self.at(second), 1) {
            Verdict::Allow(payload) => Some(payload),
            _ => None,
        }
    }

    fn charge(&self, second: u64) -> bool {
        let ask = Ask { rule: self.rule(), fingerprint: X, cost: 1 };
        let ruling = self.slot.charge(self.slot.load(), ask, self.ring(), self.at(second), &mut 0);
        ruling.is_some_and(|ruling| ruling.allowed)
    }
}

/// S3: a reader of a log's head finds the times behind it.
pub fn a_head_has_its_times() {
    carries(
        Log::new,
        |log| {
            let (rule, at) = (log.rule(), log.at(2));
            let Some(payload) = log.decide(2) else { unreachable!("the first has left the window") };
            assert!(rule.stage(log.word.payload(), log.ring(), at, 1, || log.slot.is_still(log.word)));
            assert!(log.slot.charge_seen(log.word, payload, X));
        },
        |log| {
            if log.slot.load() != log.word {
                assert_eq!(log.ring().entry(0).when(), Some(log.at(2).tick));
            }
        },
    );
}

/// S3: the same after a reset: no time is left.
pub fn a_head_that_was_reset_has_no_times() {
    carries(
        Log::new,
        |log| {
            assert!(log.rule().erase(log.word.payload(), log.ring(), || log.slot.is_still(log.word)));
            let forgiven = |payload| Some(Refund::of(log.rule().forgive(payload, log.at(0)), 0));
            assert!(log.slot.refund(log.word, X, forgiven).is_some());
        },
        |log| {
            // While the reset holds the word, it is not lowered yet.
            let word = log.slot.load();
            if word != log.word && !word.is_frozen() {
                assert_eq!(log.ring().entry(0).when(), None);
            }
        },
    );
}

/// R2: a reader of a later lap's time finds that the head has moved, and so proposes nothing over
/// it.
pub fn a_time_of_a_later_lap_shows_the_moved_head() {
    carries(
        Log::new,
        |log| assert!(log.charge(2) && log.charge(4)),
        |log| {
            let when = log.ring().entry(0).when();
            assert!(when != Some(log.at(4).tick) || !log.slot.is_still(log.word));
        },
    );
}

/// R2: a reader of an erased time finds the head at which it was erased.
pub fn an_erased_time_says_that_the_head_moved() {
    carries(
        Log::new,
        |log| {
            assert!(log.charge(2));
            let word = log.slot.load();
            assert!(log.rule().erase(word.payload(), log.ring(), || log.slot.is_still(word)));
        },
        |log| {
            let when = log.ring().entry(0).when();
            assert!(when.is_some() || !log.slot.is_still(log.word));
        },
    );
}

/// R2: a reset that erases the times of an earlier head erases none of a later lap.
pub fn a_late_reset_erases_no_time_of_a_later_lap() {
    explore(
        Log::new,
        |log| (log.charge(2), log.charge(4)),
        |log| log.rule().erase(log.word.payload(), log.ring(), || log.slot.is_still(log.word)),
        |log, charged, _| {
            assert_eq!(charged, (true, true));
            assert_eq!(log.ring().entry(0).when(), Some(log.at(4).tick));
        },
    );
}
