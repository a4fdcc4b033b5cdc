//! The insertion of a new key, and the answer when its bucket is full.
//!
//! Two threads may insert one key at once. The header lets one of them commit; the other charges
//! the key there:
//!
//! | thread A | thread B | slot 3 | slot 7 |
//! |----------|----------|--------|--------|
//! | scans: no slot has K | scans: no slot has K | at rest | at rest |
//! | claims slot 3 | claims slot 7 | claimed | claimed |
//! | writes K's fingerprint | writes K's fingerprint | named | named |
//! | commits: the header is as it was | | committed | named |
//! | | fails to commit: the header has changed | committed | named |
//! | publishes | abandons slot 7 | at rest, K's | vacant |
//! | | scans: K is in slot 3; charges it there | at rest, K's | vacant |
//!
//! Where both claim one slot, its word lets one of them claim it. A check that meets K in slot 7
//! reads a frozen word that the header does not commit, and passes it by.

use crate::algorithm::{Moment, Payload, Rule, Stored, Verdict};
use crate::ring::Ring;
use crate::table::basis::Basis;
use crate::table::find::Found;
use crate::table::find::View;
use crate::table::fingerprint::Fingerprint;
use crate::table::full::{Candidates, Inherits, Placement, WhenFull};
use crate::table::header::Header;
use crate::table::recycle::recycle_unseen;
use crate::table::ruling::{Ask, Ruling};
use crate::table::slot_index::SlotIndex;
use crate::table::versioned::VersionedRef;
use crate::table::word::Word;
use crate::time::Timestamp;

/// How often a request tries to evict a key, and then to charge the overflow word, before it is
/// refused. Each attempt that succeeds changes the header, so such requests abort each other.
const TRIES: usize = 3;

impl<'a> View<'a> {
    /// Finds the key with the header in hand, or inserts it.
    #[cold]
    #[inline(never)]
    pub(super) fn find_or_insert<R: Rule>(
        self,
        ask: Ask<'_, R>,
        mut now: Timestamp,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let Ask { rule, fingerprint, .. } = ask;
        let events = self.table.events(fingerprint);
        let (mut evictions, mut shares) = (0, 0);
        let mut view = self;
        // Whether the bucket is another than the one in which the caller tried the fast path.
        let mut is_untried = false;
        loop {
            // A charge of the overflow word needs both it and the header unchanged.
            let overflow = view.bucket.shared();
            let (home, header) = match view.home_bucket_now(fingerprint) {
                // At rest.
                Some(home) => home,
                // The key's bucket is being split: a refusal reads it as it is, everything else
                // helps.
                None => match view.bucket_to_read(fingerprint).refused(ask, now) {
                    Some(refusal) => return (refusal, now),
                    None => {
                        is_untried = true;
                        view.home_bucket(fingerprint)
                    }
                },
            };
            if home.number() != view.number() {
                // The key has migrated: go on there.
                (view, is_untried) = (home, true);
                continue;
            }
            if is_untried {
                match recycle_unseen(view, ask, header, now, &clock) {
                    Ok(inserted) => return inserted,
                    Err(latest) => now = latest,
                }
            }
            let mut candidates = Candidates::default();
            match view.scan(fingerprint, header, |slot| candidates.weigh(rule, slot)) {
                Found::Mine(index, word) => {
                    let (slot, ring) = (view.bucket.slot(index), view.ring::<R>(index));
                    let mut retries = 0;
                    let ruling = slot.charge(word, ask, ring, rule.moment(now), &mut retries);
                    events.retried(retries);
                    match ruling {
                        Some(ruling) => return (ruling, if ruling.allowed { rule.within(now) } else { now }),
                        // The key lost its slot meanwhile: look for it anew.
                        None => continue,
                    }
                }
                Found::Others => {}
                // Another insertion came in between, or a slot was repaired: scan again.
                Found::Changed => continue,
            }
            let before = std::mem::replace(&mut now, clock());
            if now < before {
                events.clock_stepped_back();
            }
            // The other keys' debts are judged by this version of the quota, so at no time after
            // its end.
            let judged = rule.before_its_end(now);
            let at = rule.moment(judged);
            let placement = candidates.placement(self.table.when_full, ask, at);
            if !matches!(placement, Placement::Vacant(..))
                && view.make_room(header, || view.fullness(rule, at))
            {
                // The bucket was split: there may be room now.
                is_untried = true;
                continue;
            }
            let ruling = match placement {
                Placement::Vacant(index, word) => {
                    let inserted = || events.inserted(candidates.recycles());
                    view.insert(ask, header, (index, word, Inherits::Nothing), at, inserted)
                }
                // An older version of the quota cannot add a debt to a later version's overflow
                // word.
                Placement::Evict(..) if rule.is_later(overflow) => {
                    Some(refused(rule.current(overflow), Ring::NONE))
                }
                // The key with the least debt loses its slot, and the new key inherits that debt.
                Placement::Evict(index, word) if evictions < TRIES => {
                    evictions += 1;
                    view.insert(ask, header, (index, word, Inherits::Debt), at, || events.evicted_with_debt())
                }
                // No debt is small enough to be inherited.
                Placement::Shared(least) if shares < TRIES => {
                    shares += 1;
                    view.share(ask, header, overflow, least, at)
                }
                // Other keys evicted first, each time.
                Placement::Evict(..) if self.table.when_full == WhenFull::Share && shares < TRIES => {
                    shares += 1;
                    view.share(ask, header, overflow, Payload::UNSEEN, at)
                }
                // Out of tries.
                Placement::Evict(..) | Placement::Shared(_) => {
                    Some(refused(shared_debt(rule, overflow, at), Ring::NONE))
                }
                Placement::Refuse(payload, index) => {
                    let ring = view.ring::<R>(index);
                    Some(Ruling { allowed: false, payload, ring, basis: Basis::Full })
                }
                Placement::AdmitUncounted(payload) => {
                    events.admitted_uncounted();
                    Some(Ruling { allowed: true, payload, ring: Ring::NONE, basis: Basis::Uncounted })
                }
            };
            match ruling {
                Some(ruling) if ruling.allowed => return (ruling, judged),
                // No answer: the version has ended, which the caller sees by this time.
                Some(ruling) if judged != now => return (ruling, rule.beyond_its_horizon()),
                Some(ruling) => {
                    events.refused(ruling.basis);
                    return (ruling, judged);
                }
                // The bucket has changed.
                None => {}
            }
        }
    }

    /// Inserts the key into slot `index`, which has this `word`. `None` when the bucket changed.
    fn insert<R: Rule>(
        self,
        ask: Ask<'_, R>,
        header: Header,
        (index, word, inherits): (SlotIndex, Word, Inherits),
        at: Moment,
        inserted: impl FnOnce(),
    ) -> Option<Ruling<'a>> {
        let ring = self.ring::<R>(index);
        let (slot, rule) = (self.bucket.slot(index), ask.rule);
        let base = self.inherited_debt(rule, word, inherits, at);
        let mut debt = base;
        let mut is_shared = false;
        if header.is_shared() {
            // The key may have been charged to the overflow word. A later charge of that word
            // changes the header, so that this insertion cannot commit.
            let overflow = self.bucket.shared();
            is_shared = !rule.expired(overflow, at);
            if is_shared {
                debt = debt.max(rule.current(overflow));
            }
        }
        let (allowed, payload) = match rule.decide(debt, ring, at, ask.cost) {
            Verdict::Allow(payload) => (true, payload),
            Verdict::DenyAndCount(payload) => (false, payload),
            // A refusal is only valid while the slot is unchanged: its next owner may have written
            // the ring.
            Verdict::Deny(_) if !slot.is_still(word) => return None,
            Verdict::Deny(_) if inherits == Inherits::Debt || is_shared => {
                return Some(refused(debt, ring));
            }
            Verdict::Deny(_) => return Some(Ruling::own(false, debt, ring)),
        };
        if !rule.stage(base.stored(), ring, at, ask.cost, || slot.is_still(word)) {
            // The slot was charged or claimed meanwhile.
            return None;
        }
        let header = if inherits == Inherits::Debt { self.leave_debt(rule, header, base)? } else { header };
        let is_shared = is_shared || inherits == Inherits::Debt;
        self.take_slot(ask.fingerprint, header, is_shared, (index, word, inherits), rule, payload)?;
        inserted();
        Some(Ruling::own(allowed, payload, ring))
    }

    /// Gives slot `index` to the key. `None` when the bucket changed.
    #[inline(always)]
    pub(super) fn take_slot<R: Rule>(
        self,
        fingerprint: Fingerprint,
        header: Header,
        is_shared: bool,
        (index, word, inherits): (SlotIndex, Word, Inherits),
        rule: VersionedRef<'_, R>,
        payload: Payload,
    ) -> Option<()> {
        // Where a clock steps back, the word may come back under a later owner: then the header has
        // changed.
        if self.bucket.header() != header {
            return None;
        }
        let claim = self.bucket.slot(index).claim(word, payload)?;
        claim.write_fingerprint(fingerprint);
        if !self.bucket.advance(header, header.committing(index, is_shared)) {
            // Another insertion committed first: this one leaves the slot without a key.
            claim.abandon(inherits.left(), |stored| rule.bump(stored));
            return None;
        }
        claim.publish();
        Some(())
    }

    /// Leaves the debt of a key that is about to lose its slot in the overflow word. `None` when
    /// the bucket changed.
    fn leave_debt<R: Rule>(
        self,
        rule: VersionedRef<'_, R>,
        header: Header,
        payload: Payload,
    ) -> Option<Header> {
        let (debt, shared_header) = (self.bucket.shared(), header.sharing());
        // A later version's word would not show a debt that is added under this one.
        let parts = !rule.is_later(debt)
            && self.bucket.change_shared(debt, rule.current(debt).max(payload).stored())
            && self.bucket.advance(header, shared_header);
        parts.then_some(shared_header)
    }

    /// The payload from which a new key starts in a slot with this `word`.
    pub(super) fn inherited_debt<R: Rule>(
        self,
        rule: VersionedRef<'_, R>,
        word: Word,
        inherits: Inherits,
        at: Moment,
    ) -> Payload {
        match inherits {
            Inherits::Nothing => rule.forgive(word.payload(), at),
            Inherits::Debt => rule.current(word.payload()),
        }
    }

    /// Charges the bucket's overflow word. `least` is the least debt of a slot. `None` when the
    /// bucket changed.
    fn share<R: Rule>(
        self,
        ask: Ask<'_, R>,
        header: Header,
        overflow: Stored,
        least: Payload,
        at: Moment,
    ) -> Option<Ruling<'a>> {
        let Some(payload) = shared_allowance(ask, overflow, at) else {
            let payload = waited_debt(ask, overflow, least, at);
            return Some(Ruling { allowed: false, payload, ring: Ring::NONE, basis: Basis::Shared });
        };
        // The header last: an insertion that has not seen this charge can no longer commit, and if
        // one committed before, the header is not the one that was read. If only the first of the
        // two succeeds, its charge stays: that refuses more, never less, and `TRIES` bounds it.
        let shares = self.bucket.change_shared(overflow, payload.stored())
            && self.bucket.advance(header, header.sharing());
        shares.then(|| {
            self.table.events(ask.fingerprint).shared();
            Ruling { allowed: true, payload, ring: Ring::NONE, basis: Basis::Shared }
        })
    }
}

/// A refusal by a debt of other keys.
fn refused(payload: Payload, ring: Ring<'_>) -> Ruling<'_> {
    Ruling { allowed: false, payload, ring, basis: Basis::Inherited }
}

/// The debt of the bucket's new keys together: at least half of the limit, which an evicted key may
/// have had. So it is at least the debt of any key that is not in the bucket.
pub(super) fn shared_debt<R: Rule>(rule: VersionedRef<'_, R>, overflow: Stored, at: Moment) -> Payload {
    rule.current(overflow).max(rule.inheritable(at).unwrap_or(Payload::UNSEEN))
}

/// The debt that a new key waits for, where it may not inherit the `least` debt of a slot: that of
/// the new keys together. A request that is larger than what those ever have waits until there is
/// room for it in the slot, too: it inherits that by then.
pub(super) fn waited_debt<R: Rule>(ask: Ask<'_, R>, overflow: Stored, least: Payload, at: Moment) -> Payload {
    let shared = shared_debt(ask.rule, overflow, at);
    let most = ask.rule.inheritable(at).unwrap_or(Payload::UNSEEN);
    // By the rule itself, since a peek writes nothing: not even the horizon.
    match ask.rule.pure.decide(most, Ring::NONE, at, ask.cost) {
        Verdict::Allow(_) => shared,
        _ => shared.max(least),
    }
}

/// The overflow word after the request, if it is admitted.
fn shared_allowance<R: Rule>(ask: Ask<'_, R>, overflow: Stored, at: Moment) -> Option<Payload> {
    match ask.rule.decide(shared_debt(ask.rule, overflow, at), Ring::NONE, at, ask.cost) {
        Verdict::Allow(payload) => Some(payload),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
