//! Tests of splits, step by step.

use tollgate_testing::random::scattered;

use super::*;
use crate::algorithm::{Compile, Payload, Refund, TokenBucket, Verdict};
use crate::rate::Rate;
use crate::ring::Ring;
use crate::sync::counted::{Writes, writes_of};
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::slot_index::{SLOTS, home_slot};
use crate::table::validity::Validity;
use crate::table::versioned::Versioned;
use crate::table::word::Word;
use crate::table::{Debt, ROOTS, Size, WhenFull};
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

/// A key with this bit migrates when its bucket is first split.
const LEAVES: u64 = ROOTS as u64;

/// A key of bucket 7 that migrates.
const KEY: Fingerprint = Fingerprint::from_bits(0x1234_5678_0000_0007 | LEAVES);

/// A table in which the key has been charged three of its ten units, and the index of its slot.
fn charged() -> (Table, impl Rule, SlotIndex) {
    let quota = TokenBucket::new(Rate::per_hour(1)).burst(10);
    let rule = TokenBucket::compile(&[quota], 0).unwrap().remove(0);
    let table = Table::new(Size::for_keys(10_000, 0).unwrap(), WhenFull::Deny).unwrap();
    assert!((0..3).all(|_| is_admitted(&table, &rule, KEY)));
    let bucket = table.view(KEY).bucket;
    let index = SlotIndex::all().find(|&index| bucket.slot(index).has_fingerprint(KEY)).unwrap();
    (table, rule, index)
}

fn is_admitted(table: &Table, rule: &impl Rule, fingerprint: Fingerprint) -> bool {
    let current = Versioned { pure: *rule, validity: Validity::of_first(rule) };
    let ask = Ask { rule: current.by_ref(), fingerprint: fingerprint.kept(), cost: 1 };
    table.check(&current, fingerprint, ask.cost, || NOW).0.allowed
}

/// Lowers the key's word to that of a key without debt: whether it has one.
fn forgive<R: Rule>(table: &Table, rule: VersionedRef<'_, R>, key: Fingerprint, now: Timestamp) -> bool {
    let at = rule.moment(now);
    let less = |payload, _: Ring<'_>| Some(Refund::of(rule.forgive(payload, at), 0));
    table.lower::<R>(key, |_, _, _| true, less).is_some()
}

/// Flips the parity of the word, as a stalled helper of the previous owner's split does.
fn skew(view: View<'_>, index: SlotIndex) {
    let slot = view.bucket.slot(index);
    slot.flip_parity(slot.load());
    assert!(!view.bucket.header().commits(index, slot.load()));
}

/// How many slots the key has; the header commits each of their words.
fn slots_of(table: &Table, fingerprint: Fingerprint) -> usize {
    let mut slots = 0;
    for view in table.views() {
        for index in SlotIndex::all() {
            let (word, owner) = view.bucket.slot(index).read();
            if owner == fingerprint {
                assert!(!word.is_frozen() && view.bucket.header().commits(index, word));
                slots += 1;
            }
        }
    }
    slots
}

#[test]
fn another_keys_detached_word_is_repaired_before_a_claim() {
    let (table, rule, index) = charged();
    let view = table.view(KEY);
    skew(view, index);
    assert!(is_admitted(&table, &rule, KEY), "its key does not mind");
    // A scan of the bucket, here for a new key, repairs it.
    assert!(is_admitted(&table, &rule, Fingerprint::from_bits(0x9999_9999_0000_0007 | LEAVES)));
    assert_eq!(slots_of(&table, KEY), 1);
    assert_eq!((0..10).filter(|_| is_admitted(&table, &rule, KEY)).count(), 10 - 4);
    skew(view, index);
    let current = Versioned { pure: rule, validity: Validity::of_first(&rule) };
    assert!(forgive(&table, current.by_ref(), KEY, NOW), "nor is it held so");
    assert_eq!(slots_of(&table, KEY), 1);
    assert_eq!((0..11).filter(|_| is_admitted(&table, &rule, KEY)).count(), 10);
}

#[test]
fn a_key_that_left_a_bucket_leaves_it_once() {
    let quota = TokenBucket::new(Rate::per_hour(1));
    let rule = TokenBucket::compile(&[quota], 0).unwrap().remove(0);
    let table = Table::new(Size::for_keys(1 << 20, 0).unwrap(), WhenFull::Deny).unwrap();
    let keys = || (1..=15).map(|key| Fingerprint::from_bits((key * LEAVES) | 3));
    assert!(keys().all(|key| is_admitted(&table, &rule, key)));
    // All are in bucket 3, and leave it one split after the other.
    let view = table.at(3);
    assert!((0..4).all(|_| view.make_room(view.bucket.header(), || 0)));
    assert_eq!(keys().map(|key| slots_of(&table, key)).max(), Some(1));
}

/// A slot's key has recovered. While an insertion that has chosen it stalls, the slot has another
/// key, which is forgiven its debt, and a third, whose debt is that of the first: its clock is one
/// that stepped back.
#[test]
fn a_stalled_insertion_claims_no_word_that_came_back() {
    let quota = TokenBucket::new(Rate::per_second(1)).burst(10);
    let rule = TokenBucket::compile(&[quota], 0).unwrap().remove(0);
    let table = Table::new(Size::for_keys(10_000, 0).unwrap(), WhenFull::Deny).unwrap();
    let current = Versioned { pure: rule, validity: Validity::of_first(&rule) };
    let check = |key: Fingerprint, cost, clock: &dyn Fn() -> Timestamp| {
        table.check(&current, key, cost, clock).0.allowed
    };
    let at = |seconds: u64| move || Timestamp::from_nanos(seconds * 1_000_000_000);
    // All have one home slot.
    let stays = |number: u64| Fingerprint::from_bits(0x1234_5678_0000_0007 | number << 16);
    let [first, other, mine, stalled] = [stays(1), stays(2), stays(3), stays(4)];
    assert!(check(first, 6, &at(5)));
    // The other slots are in debt when the stalled insertion looks at them.
    let fillers = (5..).map(stays).take(SLOTS - 1);
    assert!(fillers.clone().all(|filler| check(filler, 10, &at(6))));
    let readings = std::cell::Cell::new(0);
    let meddle = || {
        readings.set(readings.get() + 1);
        if readings.get() == 2 {
            let reset = |key: Fingerprint| forgive(&table, current.by_ref(), key, at(5)());
            assert!(check(other, 1, &at(12)) && reset(other));
            assert!(check(mine, 6, &at(5)));
            assert!(table.at(7).bucket.slot(home_slot(mine)).has_fingerprint(mine.kept()));
            // A slot for the insertion's next attempt.
            assert!(fillers.clone().take(1).all(reset));
        }
        at(12)()
    };
    let ask = Ask { rule: current.by_ref(), fingerprint: stalled, cost: 1 };
    assert!(table.check_anywhere(ask, meddle(), meddle).0.allowed);
    assert!(readings.get() > 1 && !check(mine, 5, &at(5)), "it has taken six of ten");
}

#[test]
fn a_word_detached_for_another_key_migrates_with_its_debt() {
    let (table, rule, index) = charged();
    let view = table.view(KEY);
    skew(view, index);
    assert!(view.make_room(view.bucket.header(), || CROWDED));
    assert!(view.has_left(view.bucket.slot(index).fingerprint(), view.bucket.header()));
    assert_eq!(slots_of(&table, KEY), 1);
    assert_eq!((0..10).filter(|_| is_admitted(&table, &rule, KEY)).count(), 10 - 3);
}

/// A key that stays when the bucket of `KEY` is split, and keys that were never seen.
const STAYS: Fingerprint = Fingerprint::from_bits(0x1234_5678_0000_0007);
const STRANGERS: [Fingerprint; 2] =
    [Fingerprint::from_bits(0x7777_7777_0000_0007 | LEAVES), Fingerprint::from_bits(0x7777_7777_0000_0007)];

/// Whether a peek admits this cost; where it refuses, a check does, too.
fn would_admit(table: &Table, rule: &impl Rule, fingerprint: Fingerprint, cost: u64) -> bool {
    let current = Versioned { pure: *rule, validity: Validity::of_first(rule) };
    let ask = Ask { rule: current.by_ref(), fingerprint: fingerprint.kept(), cost };
    let (writes, allowed) = writes_of(|| table.look(Ask { fingerprint, ..ask }, NOW).allowed);
    assert_eq!(writes, Writes::default(), "a peek");
    if !allowed {
        let refused = writes_of(|| table.check(&current, fingerprint, ask.cost, || NOW).0.allowed);
        assert_eq!(refused, (Writes::default(), false), "a refusal");
    }
    allowed
}

#[test]
fn peeks_and_refusals_write_nothing_while_a_split_stands_still() {
    let (table, rule, index) = charged();
    assert!((0..2).all(|_| is_admitted(&table, &rule, STAYS)));
    let view = table.view(KEY);
    let stage = |stage: &str| {
        for (fingerprint, left) in [(KEY, 7), (STAYS, 8), (STRANGERS[0], 10), (STRANGERS[1], 10)] {
            assert!(would_admit(&table, &rule, fingerprint, left), "{stage}: {fingerprint:x?}");
            assert!(
                left == 10 || !would_admit(&table, &rule, fingerprint, left + 1),
                "{stage}: {fingerprint:x?}"
            );
        }
    };
    stage("at rest");
    let (header, level) = (view.bucket.header(), table.roots.trailing_zeros());
    let (splitting, sibling) = (header.splitting(), table.at(view.number() | 1 << level));
    assert!(view.bucket.advance(header, splitting));
    stage("splitting");
    let slot = view.bucket.slot(index);
    let counts = |word: Word| splitting.commits(index, word);
    let looks = std::cell::Cell::new(0);
    // Over when it reads the header for the second time: the fingerprint is marked, the word is
    // as it was.
    assert!(slot.detach(|_| true, counts, || looks.replace(looks.get() + 1) > 0).is_none());
    assert!(counts(slot.load()) && !slot.has_fingerprint(KEY.kept()));
    stage("its fingerprint is marked");
    let moved = slot.detach(|_| true, counts, || false);
    assert!(moved.is_some() && !counts(slot.load()));
    stage("its word is detached");
    sibling.bucket.slot(index).receive(moved);
    stage("it has arrived");
    // A check that finds the fingerprint there charges the key at once.
    let current = Versioned { pure: rule, validity: Validity::of_first(&rule) };
    let ask = Ask { rule: current.by_ref(), fingerprint: KEY.kept(), cost: 1 };
    let (slot, at) = (sibling.bucket.slot(index), current.by_ref().moment(NOW));
    assert!(slot.charge_once(slot.load(), ask, Ring::NONE, at).unwrap().allowed);
    assert!(would_admit(&table, &rule, KEY, 6) && !would_admit(&table, &rule, KEY, 7));
    view.split(level, splitting);
    assert!(sibling.is_open() && view.bucket.header().level() == level + 1);
    assert!(would_admit(&table, &rule, KEY, 6) && !would_admit(&table, &rule, KEY, 7));
    assert_eq!((0..10).filter(|_| is_admitted(&table, &rule, KEY)).count(), 6);
}

/// Two keys that stay in the bucket of `KEY`.
const MINE: Fingerprint = Fingerprint::from_bits(0x1234_5678_0009_0007);
const OTHER: Fingerprint = Fingerprint::from_bits(0x9234_5678_0009_0007);

/// A slot that `KEY` has left, and `MINE` takes with the same debt. The insertion of `KEY` was
/// stopped after its commit, or a thread that split its bucket: that thread goes on, as `meddle`
/// says with the word that it has seen, right before `MINE` is committed. Returns how much of its
/// burst of two `MINE` is admitted, when another insertion comes before that commit.
fn admitted_beside(meddle: fn(&Slot, Word)) -> usize {
    let rule = TokenBucket::compile(&[TokenBucket::new(Rate::per_hour(1)).burst(2)], 0).unwrap().remove(0);
    let table = Table::new(Size::for_keys(20_000, 0).unwrap(), WhenFull::Deny).unwrap();
    let current = Versioned { pure: rule, validity: Validity::of_first(&rule) };
    let (view, index, current) = (table.at(7), home_slot(KEY), current.by_ref());
    let slot = view.bucket.slot(index);
    let claim = |key: Fingerprint| {
        let (header, at, word) = (view.bucket.header(), current.moment(NOW), slot.load());
        let Verdict::Allow(payload) = current.decide(current.forgive(word.payload(), at), Ring::NONE, at, 1)
        else {
            panic!("a new key has its burst")
        };
        let claim = slot.claim(word, payload).unwrap();
        claim.write_fingerprint(key.kept());
        (claim, header)
    };
    let (_stopped, header) = claim(KEY);
    assert!(view.bucket.advance(header, header.committing(index, false)));
    let seen = slot.load();
    assert!(view.make_room(view.bucket.header(), || CROWDED));
    assert_eq!(slots_of(&table, KEY), 1, "it has left");
    view.vacate_left(view.bucket.header());

    let (mine, header) = claim(MINE);
    assert_eq!(slot.load().payload(), seen.payload());
    meddle(slot, seen);
    let mut admitted = usize::from(is_admitted(&table, &rule, MINE));
    assert!(is_admitted(&table, &rule, OTHER));
    assert!(!view.bucket.advance(header, header.committing(index, false)));
    mine.abandon(Fingerprint::VACANT, |stored| current.bump(stored));
    admitted += (0..4).filter(|_| is_admitted(&table, &rule, MINE)).count();
    admitted
}

#[test]
fn a_stalled_insertion_publishes_no_later_claim() {
    assert_eq!(admitted_beside(|_, _| ()), 2);
    // The last step of an insertion.
    assert_eq!(admitted_beside(Slot::release), 2);
}

#[test]
fn a_stalled_split_detaches_no_later_claim() {
    assert_eq!(admitted_beside(Slot::flip_parity), 2);
}

#[test]
fn a_slot_that_a_key_left_is_vacated_once() {
    let (table, rule, index) = charged();
    let view = table.view(KEY);
    let slot = view.bucket.slot(index);
    let owner = slot.fingerprint().migrating();
    assert!(view.make_room(view.bucket.header(), || 0));
    view.vacate_left(view.bucket.header());
    assert_eq!((slot.fingerprint(), slot.load().payload().bits()), (Fingerprint::VACANT, 0));
    assert!(view.bucket.header().commits(index, slot.load()));
    assert!(is_admitted(&table, &rule, MINE));
    assert!(slot.has_fingerprint(MINE.kept()));
    // A thread that found the slot left, and stalled.
    slot.vacate(owner, view.bucket.header().vacant(index));
    assert_eq!((0..10).filter(|_| is_admitted(&table, &rule, MINE)).count(), 10 - 1);
}

/// Until then its fingerprint tells a thread that has charged the key that the charge counts.
#[test]
fn a_slot_that_a_key_left_keeps_its_fingerprint() {
    let (table, rule, index) = charged();
    let view = table.view(KEY);
    let slot = view.bucket.slot(index);
    let seen = slot.load();
    assert!(view.make_room(view.bucket.header(), || CROWDED));
    assert!(view.has_left(slot.fingerprint(), view.bucket.header()));
    assert!(slot.fingerprint().is_same_key(KEY.kept()) && !slot.is_still(seen));
    assert_eq!((0..10).filter(|_| is_admitted(&table, &rule, KEY)).count(), 10 - 3);
}

#[test]
fn an_insertion_vacates_slots_that_keys_have_left() {
    let (table, rule, index) = charged();
    let view = table.view(KEY);
    assert!(view.make_room(view.bucket.header(), || CROWDED));
    assert!(is_admitted(&table, &rule, MINE));
    assert!(view.bucket.slot(index).has_fingerprint(MINE.kept()), "its home slot");
    assert_eq!((slots_of(&table, KEY), slots_of(&table, MINE)), (1, 1));
    assert_eq!((0..10).filter(|_| is_admitted(&table, &rule, KEY)).count(), 10 - 3);
}

/// A restore that splits buckets gives keys the slots that others have left. Such a word must be
/// one that the next split detaches: a charge that comes after the split would be lost.
#[test]
fn a_split_detaches_the_word_of_a_restored_key() {
    let quota = TokenBucket::new(Rate::per_hour(1)).burst(10);
    let rule = TokenBucket::compile(&[quota], 0).unwrap().remove(0);
    let mut table = Table::new(Size::for_keys(1 << 20, 0).unwrap(), WhenFull::Deny).unwrap();
    let (current, at) = (Versioned { pure: rule, validity: Validity::of_first(&rule) }, rule.moment(NOW));
    let Verdict::Allow(payload) = rule.decide(Payload::UNSEEN, Ring::NONE, at, 3) else { unreachable!() };
    let keys = (1..=40).map(|key| Fingerprint::from_bits((key * LEAVES) | 3));
    for fingerprint in keys.clone() {
        assert!(Debt::Key { fingerprint, payload, times: &[] }.restore(&mut table, current.by_ref(), at));
    }
    for key in keys.clone() {
        let (view, header) = table.view(key).home_bucket(key);
        let of_key = |index: &SlotIndex| view.bucket.slot(*index).has_fingerprint(key);
        let slot = view.bucket.slot(SlotIndex::all().find(of_key).unwrap());
        let word = slot.load();
        // As a thread does that finds a bucket on its way that is not open.
        view.split(view.splits(header).unwrap(), header);
        let has_left = !slot.fingerprint().is_key();
        let Verdict::Allow(more) = rule.decide(payload, Ring::NONE, at, 1) else { unreachable!() };
        assert!(!has_left || !slot.charge_seen(word, more, key), "{key:?}: charged where it was");
    }
    assert_eq!(keys.map(|key| slots_of(&table, key)).max(), Some(1));
}

/// Keys come and go. At any time nine of a bucket's fifteen slots are in debt, so buckets are full
/// by chance now and then, and those that were split alone become many.
#[test]
fn a_table_follows_many_buckets_split_alone() {
    let alive = 9 * ROOTS as u64;
    let quota = TokenBucket::new(Rate::per_second(1));
    let rule = TokenBucket::compile(&[quota], 0).unwrap().remove(0);
    let table = Table::new(Size::for_keys(1_000_000, 0).unwrap(), WhenFull::Deny).unwrap();
    let current = Versioned { pure: rule, validity: Validity::of_first(&rule) };
    for number in 0..50 * alive {
        let now = Timestamp::from_nanos((alive + number) * (1_000_000_000 / alive));
        let key = Fingerprint::from_bits(scattered(number));
        assert!(table.check(&current, key, 1, || now).0.allowed);
    }
    assert_eq!(table.in_use(), 2 * ROOTS);
}

/// As a restored table is: each bucket that is full has neighbours that are not yet.
#[test]
fn a_table_filled_in_the_order_of_buckets_follows() {
    const BUCKETS: u64 = 1 << 18;
    let quota = TokenBucket::new(Rate::per_hour(1));
    let rule = TokenBucket::compile(&[quota], 0).unwrap().remove(0);
    let table = Table::new(Size::for_keys(2_400_000, 0).unwrap(), WhenFull::Deny).unwrap();
    assert_eq!(table.buckets() as u64, BUCKETS);
    for number in 0..9 * BUCKETS {
        let bucket = number / 9;
        let key = Fingerprint::from_bits(scattered(number) & !(BUCKETS - 1) | bucket);
        assert!(is_admitted(&table, &rule, key));
    }
    assert_eq!(table.in_use() as u64, BUCKETS);
}

/// The first checks at a new level meet no untouched page.
#[test]
fn memory_is_committed_before_the_table_follows() {
    const IN_USE: usize = 1 << 16;
    let rule = TokenBucket::compile(&[TokenBucket::new(Rate::per_hour(1))], 0).unwrap().remove(0);
    let table = Table::new(Size::for_keys(1_500_000, 0).unwrap(), WhenFull::Deny).unwrap();
    let is_committed = |number: usize| table.buckets.is_committed(number);
    let mut keys = (0..).map(|number| Fingerprint::from_bits(scattered(number)));
    let mut fill = |per_thousand: usize| {
        for key in keys.by_ref().take(IN_USE * SLOTS * per_thousand / 1000) {
            is_admitted(&table, &rule, key);
        }
    };
    fill(640);
    assert_eq!(table.in_use(), IN_USE);
    assert!(!(IN_USE..2 * IN_USE).any(is_committed), "a table within its capacity takes what it needs");
    while table.in_use() == IN_USE && table.ahead.load(TallyOrdering::Relaxed) < 2 * IN_USE as u64 {
        fill(1);
    }
    assert_eq!(table.in_use(), IN_USE);
    assert!((IN_USE..2 * IN_USE).all(is_committed) && !(2 * IN_USE..table.buckets()).any(is_committed));
    fill(100);
    assert_eq!(table.in_use(), 2 * IN_USE);
}
