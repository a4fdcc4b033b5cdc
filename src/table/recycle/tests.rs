//! A new key on the fast path: at which of the clock's readings, and into which slot.

use std::cell::Cell;

use crate::algorithm::{Compile, TokenBucket};
use crate::rate::Rate;
use crate::table::fingerprint::Fingerprint;
use crate::table::slot_index::home_slot;
use crate::table::validity::Validity;
use crate::table::versioned::Versioned;
use crate::table::{Size, Table, WhenFull};
use crate::time::Timestamp;

/// Two keys of one bucket with the same home slot.
const MINE: Fingerprint = Fingerprint::from_bits(0x1234_5678_0000_0047);
const OTHER: Fingerprint = Fingerprint::from_bits(0x1234_5678_0000_0147);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

/// A check of a key at a clock's readings: whether it is admitted.
type Check = dyn Fn(&Table, Fingerprint, &dyn Fn() -> Timestamp) -> bool;

/// A table of one token a second and one at most, and a check of it.
fn checks() -> (Table, Box<Check>) {
    let rule = TokenBucket::compile(&[TokenBucket::new(Rate::per_second(1))], 0).unwrap().remove(0);
    let current = Versioned { pure: rule, validity: Validity::of_first(&rule) };
    let table = Table::new(Size::for_keys(1_000, 0).unwrap(), WhenFull::Deny).unwrap();
    let check = move |table: &Table, key: Fingerprint, clock: &dyn Fn() -> Timestamp| {
        table.check(&current, key, 1, clock).0.allowed
    };
    (table, Box::new(check))
}

/// Between the first reading and the look at the fingerprints, the key is admitted, recovers
/// and loses its slot. Charged at the first reading, it would be admitted three times.
#[test]
fn an_insertion_is_charged_at_a_time_after_its_scan() {
    let (table, check) = checks();
    let readings = Cell::new(0);
    let stalled = || {
        readings.set(readings.get() + 1);
        if readings.get() > 1 {
            return at(12_100);
        }
        assert!(check(&table, MINE, &|| at(11_000)));
        assert!(check(&table, OTHER, &|| at(12_050)));
        at(10_500)
    };
    assert!(check(&table, MINE, &stalled));
    assert!(!check(&table, MINE, &|| at(12_100)), "it was admitted just now");
}

/// Otherwise a split could lose the charge of that word.
#[test]
fn an_insertion_repairs_the_parity_of_other_words() {
    let (table, check) = checks();
    assert!(check(&table, MINE, &|| at(1_000)));
    let (view, index) = (table.view(MINE), home_slot(MINE));
    let slot = view.bucket.slot(index);
    slot.flip_parity(slot.load());
    assert!(!view.bucket.header().commits(index, slot.load()));
    assert!(check(&table, OTHER, &|| at(1_000)));
    assert!(view.bucket.header().commits(index, slot.load()));
    assert!(!check(&table, MINE, &|| at(1_000)), "its charge is still there");
}
