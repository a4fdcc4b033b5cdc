//! The edges of a sweep: its course, who is under way, and where keys have settled.

use std::sync::{Arc, Mutex};

use super::{Deed, X, bounded, carries, explore, owing};
use crate::algorithm::{Algorithm, Moment, Rule, TokenBucket};
use crate::rate::Rate;
use crate::sync::spawn;
use crate::table::bucket::{Found, home};
use crate::table::name::UNTOUCHED;
use crate::table::slot::{Ask, Slot};
use crate::table::sweep::Way;
use crate::table::word::Word;
use crate::table::{Size, Table, WhenFull};
use crate::time::Timestamp;

/// W1: whoever reads the course finds the other half clear.
pub fn a_course_knows_that_the_other_half_is_clear() {
    carries(
        || (Way::new(), owing(5)),
        |(way, (slot, _))| {
            slot.clear();
            way.advance();
        },
        |(way, (slot, _))| assert!(way.halves().0.is_none() || slot.has_name(UNTOUCHED)),
    );
}

/// W2: whoever finds nobody under way finds what those did who were.
pub fn whoever_was_under_way_is_done() {
    carries(
        || {
            let way: &Way = Box::leak(Box::new(Way::new()));
            (way, Mutex::new(Some(way.pin(0))), Deed::new())
        },
        |(_, pin, deed)| {
            deed.happens();
            drop(pin.lock().expect("nobody panics").take());
        },
        |(way, _, deed)| assert!(!way.is_clear_of(0) || deed.is_done()),
    );
}

/// W2: who was not found under way finds the new course.
pub fn whoever_was_not_under_way_finds_the_new_course() {
    explore(
        Way::new,
        |way| {
            way.advance();
            way.is_clear_of(0)
        },
        |way| {
            std::mem::forget(way.pin(0));
            way.halves().0.is_some()
        },
        |_, is_clear, is_new| assert!(!is_clear || is_new),
    );
}

/// The moment of all that follows.
const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

/// A table with two halves, and the rule of its keys: one token a second, one at most.
pub(super) fn table() -> (Table, impl Rule) {
    let quota = [TokenBucket::new(Rate::per_second(1)).burst(1)];
    let rule = TokenBucket::compile(&quota, 0).expect("the model's quota is valid").remove(0);
    let size = Size::for_keys(6, 0).expect("six keys are few");
    (Table::new(size, WhenFull::Deny).expect("there is memory"), rule)
}

fn at(rule: &impl Rule) -> Moment {
    rule.moment(NOW)
}

/// The key's home in the first half, where it owes this.
pub(super) fn entered(table: &Table, name: u64, payload: u64) -> &Slot {
    let slot = table.start(0, name).bucket.slot(home(name));
    slot.enter(name, payload);
    slot
}

/// S8: whoever has seen to it that a key settles, or finds that it has, finds it in its new place; and so does everybody to
/// whom he says that its bucket is gone (W3).
pub fn whoever_finds_a_key_settled_finds_where() {
    bounded(3, || {
        let (table, rule) = table();
        assert!(!table.sweep(&rule, 0, || at(&rule)), "the round has begun");
        let slot = entered(&table, X, at(&rule).tick + 5);
        let (_, parted) = slot.part(|_| true, |word| word.parity() == 0, || false).expect("the key is there");
        let part = Arc::new((table, rule, parted));
        let other = part.clone();
        let helper = spawn(move || is_found_where_it_settled(&other.0, &other.1, other.2));
        let found = is_found_where_it_settled(&part.0, &part.1, part.2);
        assert!(helper.join().expect("a helper does not panic") && found);
    });
}

fn is_found_where_it_settled(table: &Table, rule: &impl Rule, parted: Word) -> bool {
    let from = table.start(0, X).bucket.slot(home(X));
    table.settle(rule, 1, X, from, parted);
    let (view, header) = table.start(1, X).holding(X);
    matches!(view.scan(X, header, |_| ()), Found::Mine(_, word) if word.payload() == parted.payload())
}

/// No edge, but as small: a word at rest that does not count, since a late helper parted it for another key, is not vacated.
/// A claim of it would look committed, and what its key is charged meanwhile would be lost.
pub fn a_word_that_does_not_count_is_not_vacated() {
    bounded(3, || {
        let (table, rule) = table();
        // What X was charged has just run out, and its word parted.
        let slot = entered(&table, X, at(&rule).tick);
        slot.turn(slot.load());
        let part = Arc::new((table, rule));
        let other = part.clone();
        let thread = spawn(move || admitted(&other.0, &other.1));
        part.0.view(X).vacate(&part.1, at(&part.1));
        let charged = thread.join().expect("a check does not panic");
        assert_eq!(charged + admitted(&part.0, &part.1), 1);
    });
}

fn admitted(table: &Table, rule: &impl Rule) -> u64 {
    let ask = Ask { rule, name: X, cost: 1 };
    u64::from(table.view(X).check(ask, || NOW).0.allowed)
}
