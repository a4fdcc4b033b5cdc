//! Tests of insertions that others overtake.

use std::cell::Cell;

use super::*;
use crate::algorithm::{Compile, TokenBucket};
use crate::rate::Rate;
use crate::table::fingerprint::Fingerprint;
use crate::table::slot_index::SLOTS;
use crate::table::validity::Validity;
use crate::table::versioned::Versioned;
use crate::table::{Size, Table, WhenFull};

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

#[test]
fn a_newcomer_that_others_abort_makes_do_in_time() {
    let rule = TokenBucket::compile(&[TokenBucket::new(Rate::per_hour(1)).burst(10)], 0).unwrap().remove(0);
    let table = Table::new(Size::for_keys(1, 0).unwrap(), WhenFull::Share).unwrap();
    // All are in one bucket.
    let fingerprints = Cell::new(0_u64);
    let newcomer = || {
        fingerprints.set(fingerprints.get() + 1);
        Fingerprint::from_bits(fingerprints.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) << 2)
    };
    let current = Versioned { pure: rule, validity: Validity::of_first(&rule) };
    let check =
        |fingerprint, clock: &dyn Fn() -> Timestamp| table.check(&current, fingerprint, 1, clock).0.allowed;
    assert!((0..SLOTS).all(|_| check(newcomer(), &|| NOW)));
    // At each of its attempts another key evicts one.
    let attempts = Cell::new(0);
    check(newcomer(), &|| {
        attempts.set(attempts.get() + 1);
        check(newcomer(), &|| NOW);
        NOW
    });
    assert!(table.stats().evicted_with_debt >= 5, "{:?}", table.stats());
    // The clock is read once more at the beginning.
    assert!(attempts.get() <= 2 + 2 * TRIES, "{} attempts", attempts.get());
}

/// The caller asks the next quota then: see `Versions::after`.
#[test]
fn a_refusal_by_a_quota_that_has_ended_says_so() {
    let quota = TokenBucket::new(Rate::per_hour(1)).burst(10);
    let rule = TokenBucket::compile(&[quota], 0).unwrap().remove(0);
    let current = Versioned { pure: rule, validity: Validity::of_first(&rule) };
    let table = Table::new(Size::for_keys(1, 0).unwrap(), WhenFull::Deny).unwrap();
    let newcomer = |nth: u64| Fingerprint::from_bits(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) << 2);
    let check = |nth, now| {
        let key = newcomer(nth);
        let (ruling, at) = table.check(&current, key, 10, || now);
        (ruling.allowed, at)
    };
    assert!((0..SLOTS as u64).all(|nth| check(nth, NOW).0));
    assert_eq!(check(77, NOW), (false, NOW));
    let (until, horizon) = (current.validity.until(), current.validity.horizon().unwrap());
    assert!(horizon.seal(until, 2, NOW.as_nanos()));
    let (allowed, at) = check(77, Timestamp::from_nanos(NOW.as_nanos() + 5));
    assert!(!allowed && !current.by_ref().is_timely(at), "{at:?}");
}

/// An insertion that stalls right before its commit, while 65,536 requests charge the
/// overflow word, must not commit: it has not seen their charges.
#[test]
fn an_insertion_that_stalls_over_65536_shares_does_not_commit() {
    let quota = TokenBucket::new(Rate::per_day(1)).burst(140_000);
    let rule = TokenBucket::compile(&[quota], 0).unwrap().remove(0);
    let table = Table::new(Size::for_keys(1, 0).unwrap(), WhenFull::Share).unwrap();
    let view = table.view(Fingerprint::from_bits(0));
    let (at, validity) = (rule.moment(NOW), Validity::of_first(&rule));
    let ask = Ask {
        rule: VersionedRef { pure: &rule, validity: &validity },
        fingerprint: Fingerprint::from_bits(4).kept(),
        cost: 1,
    };
    let share = || {
        let (overflow, header) = (view.bucket.shared(), view.bucket.header());
        view.share(ask, header, overflow, Payload::UNSEEN, at).is_some_and(|ruling| ruling.allowed)
    };
    assert!(share());
    let (stale, slot) = (view.bucket.header(), view.bucket.slot(SlotIndex::FIRST));
    for nth in 1..=65_536 {
        assert!(share());
        // The last two steps of an insertion.
        let claim = slot.claim(slot.load(), Payload::of(5)).unwrap();
        claim.write_fingerprint(ask.fingerprint);
        let commits = view.bucket.advance(stale, stale.committing(SlotIndex::FIRST, true));
        claim.abandon(Fingerprint::VACANT, |stored| ask.rule.bump(stored));
        assert!(!commits, "after {nth} shares");
    }
}
