//! The fast path of an insertion: into a vacant slot of a bucket in which nothing else goes on.
//!
//! Most keys that a check does not find were seen before and have recovered: their clients come now
//! and then. Such a key takes a slot whose owner has recovered, too. This is the first turn of
//! [`find_or_insert`](View::find_or_insert) for that case alone, with the same steps and the same
//! orderings. At any doubt it stops before it has charged the key, and `find_or_insert` begins
//! anew.
//!
//! The order of its readings matters:
//!
//! 1. The header, from which the insertion commits: no other insertion came in between.
//! 2. All fingerprints: none is the key's.
//! 3. The clock. Before the fingerprints it would be too early: the key's slot may have been
//!    charged, have expired, and been claimed and abandoned without a change of the header.
//! 4. The words. The chosen slot is read once more, as `find_or_insert` reads it, and claimed from
//!    there.

use crate::algorithm::{Moment, Payload, Rule, Verdict};
use crate::ring::Ring;
use crate::table::find::View;
use crate::table::fingerprint::Fingerprint;
use crate::table::full::Inherits;
use crate::table::header::Header;
use crate::table::ruling::{Ask, Ruling};
use crate::table::slot_index::{SlotIndex, home_slot, probes};
use crate::table::versioned::VersionedRef;
use crate::table::word::Word;
use crate::time::Timestamp;

/// A slot for a new key, as it was read, and the key's payload there: before its request, and once
/// that is admitted.
struct Vacancy {
    index: SlotIndex,
    word: Word,
    owner: Fingerprint,
    fresh: Payload,
    payload: Payload,
}

/// Inserts a key that no slot has had since `header` was read. `before` is an earlier reading
/// of the clock. An error is the latest reading, to go on with: see
/// [`find_or_insert`](View::find_or_insert).
#[inline(always)]
pub(super) fn recycle<'a, R: Rule>(
    view: View<'a>,
    ask: Ask<'_, R>,
    header: Header,
    before: Timestamp,
    clock: impl Fn() -> Timestamp,
) -> Result<(Ruling<'a>, Timestamp), Timestamp> {
    if !is_quiet(view, ask, header) {
        return Err(before);
    }
    let now = clock();
    let events = view.table.events(ask.fingerprint);
    if now < before {
        events.clock_stepped_back();
    }
    let (ruling, owner) = recycle_at(view, ask, header, now).ok_or(now)?;
    events.inserted(owner.is_key());
    Ok((ruling, now))
}

/// The same for a key that may have a slot: in a bucket that was split for it.
#[inline(never)]
pub(super) fn recycle_unseen<'a, R: Rule>(
    view: View<'a>,
    ask: Ask<'_, R>,
    header: Header,
    before: Timestamp,
    clock: impl Fn() -> Timestamp,
) -> Result<(Ruling<'a>, Timestamp), Timestamp> {
    match view.bucket.slot_of(ask.fingerprint) {
        Some(_) => Err(before),
        None => recycle(view, ask, header, before, clock),
    }
}

/// The same in a quiet bucket, by a reading that came after that of the fingerprints. Returns
/// the slot's owner before, too.
#[inline(always)]
fn recycle_at<'a, R: Rule>(
    view: View<'a>,
    ask: Ask<'_, R>,
    header: Header,
    now: Timestamp,
) -> Option<(Ruling<'a>, Fingerprint)> {
    if !is_intact(view, header) {
        return None;
    }
    let Vacancy { index, word, owner, payload, .. } = vacancy(view, ask, header, now)?;
    let taken = (index, word, Inherits::Nothing);
    view.take_slot(ask.fingerprint, header, false, taken, ask.rule, payload)?;
    Some((Ruling::own(true, payload, Ring::NONE), owner))
}

/// The payload that `recycle` would leave of a key that has no slot here, and the one before. A
/// hint, and writes nothing. `None`: ask the whole bucket.
#[inline]
pub(super) fn recyclable<R: Rule>(
    view: View<'_>,
    ask: Ask<'_, R>,
    now: Timestamp,
) -> Option<(Payload, Payload)> {
    let header = view.bucket.header();
    if !is_quiet(view, ask, header) {
        return None;
    }
    vacancy(view, ask, header, now).map(|vacancy| (vacancy.payload, vacancy.fresh))
}

/// Whether the bucket is the key's, and nothing goes on in it but checks and insertions.
#[inline(always)]
fn is_quiet<R: Rule>(view: View<'_>, ask: Ask<'_, R>, header: Header) -> bool {
    // A ring's times have to be staged. A shared word has to be read with the header.
    !view.has_rings::<R>() && !header.is_shared() && view.is_home(ask.fingerprint, header)
}

/// A vacant slot: the home slot if it will do, so that the key's next check finds it there; or
/// the first without a key, the nearest to the home slot; or the one with the smallest payload.
#[inline(always)]
fn vacancy<R: Rule>(view: View<'_>, ask: Ask<'_, R>, header: Header, now: Timestamp) -> Option<Vacancy> {
    let rule = ask.rule;
    // The other keys' debts are judged by this version of the quota.
    if rule.before_its_end(now) != now {
        return None;
    }
    let at = rule.moment(now);
    let read = |index| (index, view.bucket.slot(index).read());
    let mut chosen = read(home_slot(ask.fingerprint));
    if !is_vacant(rule, chosen, header, at) {
        chosen = read(without_key(view, ask.fingerprint).unwrap_or_else(|| smallest(view)));
        if !is_vacant(rule, chosen, header, at) {
            return None;
        }
    }
    let (index, (word, owner)) = chosen;
    let fresh = rule.forgive(word.payload(), at);
    match rule.decide(fresh, Ring::NONE, at, ask.cost) {
        Verdict::Allow(payload) => Some(Vacancy { index, word, owner, fresh, payload }),
        _ => None,
    }
}

/// Whether the header commits all words. Otherwise there is a claim, or a slot to
/// repair (`View::repair`). Without branches.
#[inline(always)]
fn is_intact(view: View<'_>, header: Header) -> bool {
    let differing = |index| header.differing(index, view.bucket.slot(index).peek());
    SlotIndex::all().map(differing).fold(0, |all, bits| all | bits) == 0
}

/// The slot with the smallest payload: mostly that of the key which is idle longest. Without
/// branches.
#[inline(always)]
fn smallest(view: View<'_>) -> SlotIndex {
    let (mut least, mut idle) = (u64::MAX, SlotIndex::FIRST);
    for index in SlotIndex::all() {
        // A frozen word comes last.
        let rank = view.bucket.slot(index).peek().rank();
        (least, idle) = if rank < least { (rank, index) } else { (least, idle) };
    }
    idle
}

/// The first slot of the probes that belongs to no key. Most buckets have none.
#[inline(never)]
fn without_key(view: View<'_>, fingerprint: Fingerprint) -> Option<SlotIndex> {
    probes(fingerprint).find(|&index| view.bucket.slot(index).fingerprint().is_vacant())
}

/// Whether a slot at rest has no debt.
#[inline(always)]
fn is_vacant<R: Rule>(
    rule: VersionedRef<'_, R>,
    (index, (word, owner)): (SlotIndex, (Word, Fingerprint)),
    header: Header,
    at: Moment,
) -> bool {
    // A thread that empties a slot would take it back from a claim.
    let is_at_rest = !word.is_frozen() && !owner.is_migrating() && owner != Fingerprint::EMPTIED;
    is_at_rest && header.commits(index, word) && (owner.is_vacant() || rule.quick_expired(word.payload(), at))
}

#[cfg(all(test, not(loom)))]
mod tests;
