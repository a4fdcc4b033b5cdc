//! Every happens-before edge of the ledgers, as the smallest model that fails when a side of the
//! edge is weakened. Under loom only: `loom-tests/tests/edges.rs` runs them and `cargo xtask
//! mutate-orderings` weakens them.
//!
//! Each has two threads and one part of the engine. The first thread does what the ledger's
//! *release* column says, the second what its *acquire* column says, and must read nothing older
//! than the edge carries. The first begins: loom looks for older values of a load only where there
//! are some.

mod growth;
mod log;

use std::sync::Arc;

use crate::algorithm::{InFlightRule, Payload, Refund, Rule, Stored};
use crate::ring::Ring;
use crate::sync::{AtomicU64, Builder, Ordering::Relaxed, model, spawn};
use crate::table::bucket::Bucket;
use crate::table::fingerprint::Fingerprint;
use crate::table::marks::Marks;
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::slot_index::SlotIndex;
use crate::table::validity::{Horizon, Validity};
use crate::table::versioned::VersionedRef;
use crate::table::word::Word;
use crate::time::Timestamp;

pub use growth::*;
pub use log::*;

/// The fingerprints of three keys.
const X: Fingerprint = Fingerprint::from_bits(0x13);
const Y: Fingerprint = Fingerprint::from_bits(0x23);
const Z: Fingerprint = Fingerprint::from_bits(0x33);

/// Runs the model in every interleaving with at most so many preemptions.
fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 3_000;
    builder.check(model);
}

/// Runs both threads on a part in every interleaving, and passes their results to `judge`.
fn explore<P: Send + Sync + 'static, A: 'static, B: Send + 'static>(
    part: impl Fn() -> P + Send + Sync + 'static,
    first: fn(&P) -> A,
    second: fn(&P) -> B,
    judge: fn(&P, A, B),
) {
    model(move || {
        let part = Arc::new(part());
        let other = part.clone();
        let thread = spawn(move || second(&other));
        let seen = first(&part);
        judge(&part, seen, thread.join().expect("the thread of a model does not panic"));
    });
}

/// The same where the second thread judges for itself.
fn carries<P: Send + Sync + 'static>(
    part: impl Fn() -> P + Send + Sync + 'static,
    first: fn(&P),
    second: fn(&P),
) {
    explore(part, first, second, |_, (), ()| ());
}

/// Something that happened before, in the caller's code or another part of the engine.
struct Deed(AtomicU64);

impl Deed {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn is_done(&self) -> bool {
        self.0.load(Relaxed) == 1
    }

    fn happens(&self) {
        self.0.store(1, Relaxed);
    }
}

/// A slot at rest of the key `X` with this payload, and its word.
fn with_debt(payload: u64) -> (Slot, Word) {
    let slot = Slot::new(X);
    slot.give_to(X, Payload::of(payload));
    let word = slot.load();
    (slot, word)
}

/// The same payload, of a rule without versions.
fn same(payload: Stored) -> Payload {
    Payload::of(payload.bits())
}

fn more(payload: Stored) -> Payload {
    Payload::of(payload.bits() + 1)
}

fn less(payload: Stored) -> Payload {
    Payload::of(payload.bits() - 1)
}

/// Charges the word `seen`, if it is still there and this key's: whether it was admitted.
fn charge(slot: &Slot, seen: Word, fingerprint: Fingerprint) -> Option<bool> {
    let (rule, validity) = (InFlightRule::new(9).expect("nine is a limit"), Validity::endless(u64::MAX));
    let ask = Ask { rule: VersionedRef { pure: &rule, validity: &validity }, fingerprint, cost: 1 };
    slot.charge_once(seen, ask, Ring::NONE, rule.moment(Timestamp::ZERO)).map(|ruling| ruling.allowed)
}

/// The same by the other way of charging.
fn charge_seen(slot: &Slot, seen: Word, fingerprint: Fingerprint) -> bool {
    slot.charge_seen(seen, more(seen.payload()), fingerprint)
}

/// Gives the slot to the key of this fingerprint, with its debt.
fn take_over(slot: &Slot, seen: Word, fingerprint: Fingerprint) -> bool {
    let claim = slot.claim(seen, same(seen.payload()));
    claim
        .map(|claim| {
            claim.write_fingerprint(fingerprint);
            claim.publish();
        })
        .is_some()
}

/// S1: a reader of a published word reads its key's fingerprint.
pub fn a_published_word_has_its_fingerprint() {
    carries(
        || with_debt(0),
        |(slot, word)| {
            let claim = slot.claim(*word, Payload::of(5)).expect("nobody else writes it");
            claim.write_fingerprint(Y);
            claim.publish();
        },
        |(slot, _)| {
            let (word, fingerprint) = slot.read();
            assert!(word.is_frozen() || word.payload().bits() == 0 || fingerprint == Y);
        },
    );
}

/// S1: the same where a charge of the key published the word.
pub fn a_charge_publishes_a_word_with_its_fingerprint() {
    carries(
        || with_debt(0),
        |(slot, word)| {
            let claim = slot.claim(*word, Payload::of(5)).expect("nobody else writes it");
            claim.write_fingerprint(Y);
            assert_eq!(charge(slot, slot.load(), Y), Some(true));
        },
        |(slot, _)| {
            let (word, fingerprint) = slot.read();
            assert!(word.is_frozen() || word.payload().bits() == 0 || fingerprint == Y);
        },
    );
}

/// S1: a reader of a claimed word reads what its last owner left in the overflow word before, as a
/// save does.
pub fn a_claimed_word_carries_the_debt_from_the_overflow_word() {
    carries(
        Bucket::new,
        |bucket| {
            let header = bucket.header();
            assert!(
                bucket.change_shared(Stored::new(0), Stored::new(7))
                    && bucket.advance(header, header.sharing())
            );
            assert!(bucket.slot(SlotIndex::FIRST).claim(Word::ZERO, Payload::of(5)).is_some());
        },
        |bucket| {
            if bucket.slot(SlotIndex::FIRST).load() != Word::ZERO {
                assert!(bucket.shared() == Stored::new(7) && bucket.header().is_shared());
            }
        },
    );
}

/// S1: the word of an abandoned slot comes with the fingerprint that says whether it has remaining
/// debt.
pub fn an_abandoned_word_comes_with_its_fingerprint() {
    carries(
        || with_debt(0),
        |(slot, word)| {
            let claim = slot.claim(*word, Payload::of(5)).expect("nobody else writes it");
            claim.abandon(Fingerprint::VACANT, more);
        },
        |(slot, _)| {
            let (word, fingerprint) = slot.read();
            assert!(word.is_frozen() || word.payload().bits() == 0 || fingerprint == Fingerprint::VACANT);
        },
    );
}

/// S1: the word of a key that has arrived comes with its fingerprint.
pub fn an_arrived_word_has_its_fingerprint() {
    carries(
        Slot::untouched,
        |slot| slot.receive(Some((X, Word::ZERO.charged(Stored::new(5))))),
        |slot| {
            let (word, fingerprint) = slot.read();
            assert!(word.is_frozen() || word == Word::ZERO || fingerprint == X);
        },
    );
}

/// After two owners the slot's word is the one that X had: a charge of X that was decided on it
/// must not count.
fn a_charge_of_a_word_that_came_back(charge: fn(&Slot, Word) -> bool) {
    model(move || {
        let part = Arc::new(with_debt(5));
        let other = part.clone();
        let thread = spawn(move || charge(&other.0, other.1));
        let (slot, word) = &*part;
        let taken = take_over(slot, *word, Y) && take_over(slot, slot.load(), Z);
        let charged = thread.join().expect("a charge does not panic");
        assert!(!(taken && charged), "the slot was another's before it was charged");
    });
}

/// S1: a thread that charged a word knows whose it was.
pub fn a_charge_knows_the_owner_of_its_word() {
    a_charge_of_a_word_that_came_back(|slot, seen| charge(slot, seen, X).is_some());
}

/// S1: the same for a request that several limits decide.
pub fn a_charge_of_several_limits_knows_its_words_owner() {
    a_charge_of_a_word_that_came_back(|slot, seen| charge_seen(slot, seen, X));
}

/// S1: a thread that holds a word for a refund knows whose it is.
pub fn a_refund_knows_the_owner_of_its_word() {
    a_charge_of_a_word_that_came_back(|slot, seen| {
        slot.refund(seen, X, |payload| Some(Refund::of(less(payload), 1))).is_some()
    });
}

/// S2: a key is not refused by a word of its slot's last owner.
pub fn a_refusal_is_by_the_keys_own_word() {
    carries(
        || with_debt(InFlightRule::weight(9)),
        |(slot, word)| {
            let claim = slot.claim(*word, Payload::of(0)).expect("nobody else writes it");
            claim.write_fingerprint(Y);
            claim.publish();
        },
        |(slot, _)| {
            let (word, fingerprint) = slot.read();
            let is_refused = fingerprint == Y && !word.is_frozen() && charge(slot, word, Y) == Some(false);
            assert!(!is_refused, "it owes nothing");
        },
    );
}

/// S1: a refund that holds a word sees the marks of earlier refunds of it.
pub fn a_refund_knows_of_the_refund_before() {
    explore(
        || (with_debt(5), Deed::new()),
        |((slot, word), mark)| {
            let lowered = |payload: Stored| {
                mark.happens();
                Some(Refund::of(less(payload), 1))
            };
            slot.charge_seen(*word, Payload::of(6), X) && slot.refund(slot.load(), X, lowered).is_some()
        },
        |((slot, word), mark)| {
            let mut knows = true;
            let lowered = |payload: Stored| {
                knows = mark.is_done();
                Some(Refund::of(less(payload), 1))
            };
            // From the first word, to which the other thread returns.
            slot.refund(*word, X, lowered).map(|_| knows)
        },
        |_, was_first, knows| assert!(!was_first || knows != Some(false)),
    );
}

/// M1: a refund that begins after those beside which a reset forgave comes after their last steps.
pub fn a_refund_comes_after_those_beside_a_reset() {
    let beside_a_reset = || {
        let refunds = Marks::new(1, 1).expect("there is memory for a mark");
        std::mem::forget(refunds.begin(X));
        refunds.begin_reset(X).forgive(1, 0);
        (refunds, Deed::new())
    };
    carries(
        beside_a_reset,
        |(refunds, lowered)| {
            lowered.happens();
            drop(refunds.running(X));
        },
        |(refunds, lowered)| assert!(refunds.begin(X).is_none() || lowered.is_done()),
    );
}

/// S2: a reader of a new fingerprint finds the word claimed.
pub fn a_new_fingerprint_comes_after_the_claim() {
    carries(
        || with_debt(0),
        |(slot, word)| slot.claim(*word, Payload::of(5)).expect("nobody else writes it").write_fingerprint(Y),
        |(slot, word)| assert!(slot.fingerprint() != Y || !slot.is_still(*word)),
    );
}

/// S4: a reader of a booking's word sees that a caller has booked.
pub fn a_booked_word_knows_that_a_caller_booked() {
    carries(
        || (with_debt(0), Deed::new()),
        |((slot, word), booked)| {
            booked.happens();
            assert_eq!(charge(slot, *word, X), Some(true));
        },
        |((slot, word), booked)| assert!(slot.load() == *word || booked.is_done()),
    );
}

/// S4: the same where a refund is the first to read the word, by holding it.
pub fn a_refund_knows_that_a_caller_booked() {
    carries(
        || (with_debt(5), Deed::new()),
        |((slot, word), booked)| {
            booked.happens();
            assert!(charge_seen(slot, *word, X));
        },
        |((slot, word), booked)| {
            slot.refund(word.charged(more(word.payload()).stored()), X, |_| {
                assert!(booked.is_done());
                None
            });
        },
    );
}

/// S5: a thread that acquires after another gave back sees its earlier writes.
pub fn a_release_is_seen_by_the_next_charge() {
    carries(
        || (with_debt(InFlightRule::weight(1)), Deed::new()),
        |((slot, _), deed)| {
            deed.happens();
            slot.give_back(InFlightRule::weight(1));
        },
        |((slot, _), deed)| assert!(slot.load().payload().bits() > 0 || deed.is_done()),
    );
}

/// S2, for S5: the same where the slot was vacated since, and only its fingerprint is read.
pub fn a_release_is_seen_in_a_vacated_slot() {
    carries(
        || (with_debt(InFlightRule::weight(1)), Deed::new()),
        |((slot, _), deed)| {
            deed.happens();
            slot.give_back(InFlightRule::weight(1));
            let seen = slot.load();
            let claim = slot.claim(seen, same(seen.payload())).expect("nobody else writes it");
            claim.abandon(Fingerprint::VACANT, more);
        },
        |((slot, _), deed)| assert!(slot.fingerprint() != Fingerprint::VACANT || deed.is_done()),
    );
}

/// S6: a reader of a migrating fingerprint sees the splitting header.
pub fn a_migrating_fingerprint_comes_after_the_header() {
    carries(
        || {
            let bucket = Bucket::new();
            bucket.slot(SlotIndex::FIRST).give_to(X, Payload::of(5));
            bucket
        },
        |bucket| {
            let splitting = bucket.header().splitting();
            assert!(bucket.advance(bucket.header(), splitting));
            bucket.slot(SlotIndex::FIRST).detach(
                |_| true,
                |word| splitting.commits(SlotIndex::FIRST, word),
                || false,
            );
        },
        |bucket| {
            assert!(
                !bucket.slot(SlotIndex::FIRST).fingerprint().is_migrating() || bucket.header().is_splitting()
            )
        },
    );
}

/// S6: a reader of a detached word finds its key migrating.
pub fn a_detached_word_has_a_migrating_fingerprint() {
    carries(
        || with_debt(5),
        |(slot, _)| {
            slot.detach(|_| true, |word| word.parity() == 0, || false);
        },
        |(slot, _)| {
            let (word, fingerprint) = slot.read();
            assert!(word.parity() == 0 || fingerprint.is_migrating());
        },
    );
}

/// S7: a reader of an arrived key's fingerprint finds its word.
pub fn an_arrived_fingerprint_has_its_word() {
    carries(
        Slot::untouched,
        |slot| slot.receive(Some((X, Word::ZERO.charged(Stored::new(5))))),
        |slot| assert!(slot.fingerprint() != X || !slot.is_still(Word::ZERO)),
    );
}

/// A slot whose key has left it.
fn left() -> Slot {
    let (slot, _) = with_debt(5);
    slot.detach(|_| true, |word| word.parity() == 0, || false);
    slot
}

/// S2: a reader of a vacated slot's fingerprint finds the word with which the slot was vacated.
pub fn a_vacated_slot_has_its_word() {
    carries(
        left,
        |slot| slot.vacate(X.migrating(), Word::ZERO),
        |slot| assert!(slot.fingerprint() != Fingerprint::VACANT || slot.is_still(Word::ZERO)),
    );
}

/// S1: a reader of the word with which a slot was vacated does not find the key that has left.
pub fn a_vacated_word_has_no_key() {
    carries(
        left,
        |slot| slot.vacate(X.migrating(), Word::ZERO),
        |slot| {
            let (word, fingerprint) = slot.read();
            assert!(word != Word::ZERO || !fingerprint.is_same_key(X));
        },
    );
}

/// B1: a reader of a header finds the slots that it commits.
pub fn a_header_knows_the_slots_that_it_commits() {
    carries(
        Bucket::new,
        |bucket| {
            let (header, slot) = (bucket.header(), bucket.slot(SlotIndex::FIRST));
            slot.claim(Word::ZERO, Payload::of(5)).expect("nobody else writes it").write_fingerprint(X);
            assert!(bucket.advance(header, header.committing(SlotIndex::FIRST, false)));
        },
        |bucket| {
            let is_committed = !bucket.header().commits(SlotIndex::FIRST, Word::ZERO);
            assert!(!is_committed || bucket.slot(SlotIndex::FIRST).has_fingerprint(X));
        },
    );
}

/// E1: a thread that finds a version sealed finds the one that follows, and when that began.
pub fn a_sealed_version_knows_the_next() {
    carries(
        Horizon::new,
        |horizon| assert!(horizon.seal(0, 7, 9)),
        |horizon| {
            assert!(horizon.next().is_none_or(|next| next == 7));
            assert!(horizon.end().is_none_or(|end| end == 9));
        },
    );
}
