//! How rules decide requests together, all or nothing: one request, or several.
//!
//! ```text
//!   look at every limit ---- some refuse ----> refused: only limits that count refusals, and bans,
//!        |                                     write anything, each for its own rule
//!        | all admit
//!        v
//!   take places in flight, and hand the offers of the limits by time to the engine
//!        |                \
//!        | all are charged '-- one refuses, as another request came in between --> refused
//!        v
//!     admitted
//! ```
//!
//! What must stay true:
//!
//! * Only [`together_if`] charges limits by time, and undoes their charges.
//! * All requests charge in one order, by [`Allowance::rank`]. The last limiter holds nothing but
//!   admitted requests, so of requests that race for its last unit one is admitted. Of several
//!   requests each charges after those before it, but for what can be undone only in part: that is
//!   charged last.
//! * Places in flight are taken before the first charge, and given back if it is refused.
//! * A key that a rule has refused and banned is looked up again after the last charge: another
//!   thread may have banned it meanwhile.
//!
//! [`Allowance::rank`]: crate::set::allowance::Allowance::rank

use smallvec::SmallVec;
use tollgate::{Clock, Offer, Outcome, together, together_if};

use crate::set::decide::{Group, Round};
use crate::set::scratch::{Charge, Offers, Turn};

/// What became of requests that were decided together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All are admitted, and charged.
    Admitted,
    /// One is refused, and none is charged.
    Refused,
    /// Stores are to be asked first. None is charged.
    Unasked,
}

/// Requests that are decided together.
pub(super) struct Joint<'j, 'r, C> {
    pub(super) rounds: &'j mut [Round<'r, C>],
    pub(super) turns: &'j mut Vec<Turn>,
}

impl<'r, C: Clock + Clone + 'static> Joint<'_, 'r, C> {
    /// Decides them by the enforced rules, and each by its rules in shadow mode. Where they are
    /// `refused` already, none is charged.
    pub(super) fn decide(&mut self, is_refused: bool) -> Fate {
        let has_shadows = self.rounds.iter().any(Round::has_shadows);
        if has_shadows && self.rounds.iter().any(Round::lacks_answers_of_shadows) {
            if self.look(Group::Enforced, &mut Offers::new()) && !is_refused {
                self.rounds.iter_mut().for_each(|round| round.ask_stores_of(Group::Enforced));
            }
            self.rounds.iter_mut().for_each(Round::ask_stores_of_shadows);
            return Fate::Unasked;
        }
        let fate = self.together(Group::Enforced, is_refused);
        if has_shadows && fate != Fate::Unasked {
            for index in 0..self.rounds.len() {
                // What another request is refused for is no matter of this one's shadows.
                if fate == Fate::Admitted || !self.rounds[index].is_admitted() {
                    self.decide_shadows(index);
                }
            }
        }
        fate
    }

    fn decide_shadows(&mut self, index: usize) {
        let round = &mut self.rounds[index];
        let shadows: SmallVec<[usize; 8]> = round.shadows().collect();
        for line in shadows {
            let mut alone = Joint { rounds: std::slice::from_mut(round), turns: &mut *self.turns };
            alone.together(Group::Shadow(line), false);
        }
    }

    fn together(&mut self, group: Group, is_refused: bool) -> Fate {
        let mut offers = Offers::new();
        let mut counted = None;
        if self.look(group, &mut offers) && !is_refused {
            if self.rounds.iter().any(|round| round.lacks_answers) {
                self.rounds.iter_mut().for_each(|round| round.ask_stores_of(group));
                return Fate::Unasked;
            }
            match self.charge(group, &mut offers) {
                Ok(()) => {
                    self.keep(group, &mut offers);
                    return Fate::Admitted;
                }
                Err(not) => counted = not.counted,
            }
        }
        self.refuse(group, &mut offers, counted);
        Fate::Refused
    }

    /// Looks at the limits, and has each of those by time make its offer. Returns whether all admit
    /// the requests.
    fn look(&mut self, group: Group, offers: &mut Offers<'r>) -> bool {
        let Self { rounds, turns, .. } = self;
        turns.clear();
        let mut admits = true;
        for (number, round) in rounds.iter_mut().enumerate() {
            admits &= round.look_beside_time(group, number, turns);
        }
        turns.sort_unstable_by_key(|turn| (turn.rank.reluctance, turn.round, turn.rank.number));
        for turn in turns.iter_mut() {
            let (round, first) = (&mut rounds[turn.round], offers.len());
            round.offer(turn.line, offers);
            let own = &mut offers[first..];
            if own.iter().any(|offer| offer.outcome() == Outcome::Never) {
                // Nothing is charged. The limits with room show what they hold without the request.
                together(own);
            }
            let is_allowed = own.iter().all(|offer| offer.outcome() == Outcome::Allowed);
            // Otherwise its numbers are noted after the charge, or when another rule refuses.
            if !is_allowed && round.may_queue(turn.line) {
                // An offer that admits shows the queue with the request.
                admits &= round.note_peek(turn.line, round.cost(turn.line));
            } else if !is_allowed || round.notes_looks(turn.line) {
                admits &= round.note_offers(turn.line, own);
            }
            if round.is_peek && round.cost(turn.line) > 0 {
                offers.truncate(first);
            }
            turn.offers = first..offers.len();
        }
        if !admits {
            rounds.iter_mut().for_each(|round| round.show_bans(group));
        }
        admits
    }

    /// Charges the limits in their order: all, or none.
    fn charge(&mut self, group: Group, offers: &mut Offers<'r>) -> Result<(), NotCharged> {
        let Self { rounds, turns, .. } = self;
        let marks: SmallVec<[usize; 8]> = rounds.iter().map(|round| round.charges.guards.len()).collect();
        let give_back = |rounds: &mut [Round<'r, C>]| {
            for (round, mark) in rounds.iter_mut().zip(&marks) {
                round.charges.guards.truncate(*mark);
            }
        };
        if !rounds.iter_mut().all(|round| round.acquire(group)) {
            give_back(rounds);
            return Err(NotCharged { counted: None });
        }
        let (may_queue, has_bans) = (
            turns.iter().any(|turn| rounds[turn.round].may_queue(turn.line)),
            rounds.iter().any(|round| round.has_bans(group)),
        );
        let all = offers.len();
        let outcome = together_if(offers, |charged| {
            if may_queue && !departs_in_time(rounds, turns, charged) {
                return false;
            }
            !has_bans || charged.len() < all || !rounds.iter_mut().any(|round| round.is_banned_since(group))
        });
        if outcome == Outcome::Allowed {
            return Ok(());
        }
        give_back(rounds);
        let refuses = |turn: &&Turn| offers[turn.offers.clone()].iter().any(|offer| offer.part().refuses());
        let refused = turns.iter().find(refuses);
        let counted = refused.map(|turn| {
            rounds[turn.round].restate(turn.line);
            rounds[turn.round].note_offers(turn.line, &offers[turn.offers.clone()]);
            (turn.round, turn.line)
        });
        Err(NotCharged { counted })
    }

    /// Notes what admitted requests were charged.
    fn keep(&mut self, group: Group, offers: &mut Offers<'r>) {
        let Self { rounds, turns, .. } = self;
        let turns = || turns.iter().filter(|turn| !turn.offers.is_empty());
        for turn in turns() {
            rounds[turn.round].restate(turn.line);
            rounds[turn.round].note_offers(turn.line, &offers[turn.offers.clone()]);
        }
        let mut charged = offers.drain(..);
        for turn in turns() {
            let receipts = charged.by_ref().take(turn.offers.len()).map(Offer::receipt);
            let charges = receipts.map(|receipt| Charge { line: turn.line, receipt });
            if rounds[turn.round].is_peek {
                charges.for_each(drop);
            } else {
                // Of a request of cost 0, too: its cost may be settled later.
                rounds[turn.round].charges.quotas.extend(charges);
            }
        }
        rounds.iter_mut().for_each(|round| round.keep_stored(group));
    }

    /// Completes the lines of refused requests: limits that count their refusals count this one,
    /// unless they have `counted` it; keys are banned; and the lines that admit show what there is
    /// without the request.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, group: Group, offers: &mut Offers<'r>, counted: Option<(usize, usize)>) {
        for (number, round) in self.rounds.iter_mut().enumerate() {
            let is_final = round.is_final(group);
            for turn in self.turns.iter().filter(|turn| turn.round == number && !is_final) {
                let own = &mut offers[turn.offers.clone()];
                if counted != Some((number, turn.line)) && round.counts_refusal(turn.line) {
                    // Nothing is charged: each limit that refuses has its say.
                    together(own);
                    if round.counts_refusals(turn.line) {
                        round.restate(turn.line);
                        round.note_offers(turn.line, own);
                    }
                }
            }
            round.refuse(group, is_final);
        }
    }
}

/// Why requests were not charged.
struct NotCharged {
    /// The request and the line whose limits by time refused the charge, and counted that if they
    /// count refusals.
    counted: Option<(usize, usize)>,
}

/// Whether the request that was charged last departs in time. If not, its line says so.
fn departs_in_time<C: Clock + Clone + 'static>(
    rounds: &mut [Round<'_, C>],
    turns: &[Turn],
    charged: &[Offer<'_>],
) -> bool {
    let Some(last) = charged.len().checked_sub(1) else { return true };
    let Some(turn) = turns.iter().find(|turn| turn.offers.contains(&last)) else { return true };
    let round = &mut rounds[turn.round];
    if !round.may_queue(turn.line) || charged[last].part().delay() <= round.max_wait(turn.line) {
        return true;
    }
    round.restate(turn.line);
    round.note_offers(turn.line, &charged[turn.offers.start..])
}
