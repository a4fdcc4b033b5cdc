//! The short way of an insertion: into a vacant slot of a bucket in which nothing else goes on.
//!
//! Most keys that a check does not find were seen before and have recovered: their clients come now
//! and then. Such a key takes a slot whose owner has recovered, too. This is the first turn of
//! [`enter`](View::enter) for that case alone, with the same steps and the same orderings. At any
//! doubt it stops before it has changed anything, and `enter` begins anew.
//!
//! The order of its readings matters:
//!
//! 1. The header, from which the insertion commits: no other insertion came in between.
//! 2. All fingerprints: none is the key's.
//! 3. The clock. Before the fingerprints it would be too early: the key's slot may have been
//!    charged, have expired, and been claimed and abandoned without a change of the header.
//! 4. The words. The chosen slot is read once more, as `enter` reads it, and claimed from there.

use crate::algorithm::{Moment, Rule, Verdict};
use crate::ring::Ring;
use crate::table::bucket::View;
use crate::table::dated::Dated;
use crate::table::fingerprint::Fingerprint;
use crate::table::header::Header;
use crate::table::slot::{Ask, Ruling};
use crate::table::slot_index::{SlotIndex, home_slot};
use crate::table::word::Word;
use crate::time::Timestamp;

impl<'a> View<'a> {
    /// Inserts a key that no slot has had since `header` was read. `before` is an earlier reading
    /// of the clock. `None`: see [`enter`](Self::enter).
    #[inline(always)]
    pub(super) fn recycle<R: Rule>(
        self,
        ask: Ask<'_, R>,
        header: Header,
        before: Timestamp,
        clock: impl Fn() -> Timestamp,
    ) -> Option<(Ruling<'a>, Timestamp)> {
        let rule = ask.rule;
        // A ring's times have to be staged. A shared word has to be read with the header.
        if R::RINGED || header.is_shared() || !self.is_home(ask.fingerprint, header) {
            return None;
        }
        let now = clock();
        // The other keys' debts are judged by this version of the quota.
        if rule.before_its_end(now) != now {
            return None;
        }
        let at = rule.moment(now);
        let index = self.vacant_slot(rule, home_slot(ask.fingerprint), header, at)?;
        let (word, owner) = self.bucket.slot(index).read();
        if !self.is_vacant(rule, index, (word, owner), header, at) {
            return None;
        }
        let fresh = rule.forgive(word.payload(), at);
        let Verdict::Allow(payload) = rule.decide(fresh, Ring::NONE, at, ask.cost) else {
            return None;
        };
        self.take_slot(ask.fingerprint, header, false, (index, word, Fingerprint::VACANT), rule, payload)?;
        let events = self.table.events(ask.fingerprint);
        events.inserted(owner.is_key());
        if now < before {
            events.clock_stepped_back();
        }
        Some((Ruling { allowed: true, payload, ring: Ring::NONE }, now))
    }

    /// A slot that may be vacant: the home slot, or the one with the smallest payload. `None` when
    /// a word has another parity than the header's: a claim, or a word to [repair](Self::scan).
    #[inline(always)]
    fn vacant_slot<R: Rule>(
        self,
        rule: Dated<'_, R>,
        home: SlotIndex,
        header: Header,
        at: Moment,
    ) -> Option<SlotIndex> {
        let (mut parities, mut least, mut idle) = (0, u64::MAX, SlotIndex::FIRST);
        for index in SlotIndex::all() {
            let word = self.bucket.slot(index).peek();
            parities |= word.parity() << (index.get() - 1);
            // A frozen word comes last.
            let rank = word.rank();
            (least, idle) = if rank < least { (rank, index) } else { (least, idle) };
        }
        if !header.has_parities(parities) {
            return None;
        }
        let (word, owner) = self.bucket.slot(home).read();
        Some(if self.is_vacant(rule, home, (word, owner), header, at) { home } else { idle })
    }

    /// Whether a slot at rest has no debt.
    #[inline(always)]
    fn is_vacant<R: Rule>(
        self,
        rule: Dated<'_, R>,
        index: SlotIndex,
        (word, owner): (Word, Fingerprint),
        header: Header,
        at: Moment,
    ) -> bool {
        let is_at_rest = !word.is_frozen() && (!owner.is_migrating() || self.has_migrated(owner, header));
        is_at_rest
            && header.commits(index, word)
            && (owner.is_vacant() || rule.quick_expired(word.payload(), at))
    }
}
