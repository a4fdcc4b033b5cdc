//! How rules decide a request together, all or nothing.
//!
//! ```text
//!   look at every limit ---- some refuse ----> refused: only limits that count refusals, and bans,
//!        |                                     write anything, each for its own rule
//!        | all admit
//!        v
//!   charge them in order --- one refuses ----> give the charges back: refused
//!        |                   (another thread came in between)
//!        v
//!     admitted
//! ```
//!
//! What must stay true:
//!
//! * Each limiter is charged by a check of its own, so no limit ever admits more than it would
//!   alone, also when charges are given back.
//! * All requests charge in one order, by [`Allowance::rank`]. The last limiter holds nothing but
//!   admitted requests, so of requests that race for its last unit one is admitted.
//! * The limiter that is charged first need not be looked at before: if it refuses, nothing has
//!   been written.
//! * A key that a rule has refused and banned is looked up again after the charge: another thread
//!   may have banned it meanwhile.

use tollgate::{Account, Clock, Decision, MOST_LIMITS, Quota, Timestamp};

use crate::matcher::{Concerned, Found};
use crate::set::allowance::{Current, Kind};
use crate::set::line::Line;
use crate::set::ruling::Ruling;
use crate::set::scratch::{Charge, Charges, Mark, Scratch};
use crate::set::stored::StoredAnswer;
use crate::set::{Ask, RuleSet};

/// How many keys are hashed before the first decision. Those of further rules are hashed for each
/// decision.
const PREPARED: usize = 8;

/// One request.
pub(super) struct Round<'r, C> {
    set: &'r RuleSet<C>,
    found: &'r Found,
    lines: &'r mut Vec<Line>,
    /// The rank of each limiter that is to be charged, and the index of its line.
    turns: &'r mut Vec<(u32, usize)>,
    charges: &'r mut Charges,
    prepared: [Option<Account<'r, Quota, MOST_LIMITS, C>>; PREPARED],
    now: Timestamp,
    /// Whether nothing is to be written.
    is_peek: bool,
    /// Whether limits of requests in flight are asked.
    in_flight: bool,
    /// The lines whose turns the caller holds: see [`Ask::held`].
    held: u64,
    /// What stores have answered.
    answers: &'r mut Vec<StoredAnswer>,
    /// The lines whose stores are to be asked before the request is decided.
    unasked: &'r mut Vec<usize>,
    /// Whether the group that was looked at last needs answers that are not there.
    lacks_answers: bool,
}

/// Rules that decide together: all that are enforced, or one in shadow mode.
#[derive(Clone, Copy)]
enum Group {
    Enforced,
    Shadow(usize),
}

impl Group {
    fn has(self, index: usize, line: &Line) -> bool {
        match self {
            Self::Enforced => !line.is_shadow,
            Self::Shadow(other) => index == other,
        }
    }
}

/// Why a request was not charged.
struct NotCharged {
    /// The line whose limits by time refused the charge, and counted that if they count refusals.
    counted: Option<usize>,
}

impl<'r, C: Clock + Clone + 'static> Round<'r, C> {
    /// Decides the request that the matcher has found the rules of, line by line.
    #[inline(never)]
    pub(super) fn decide(set: &'r RuleSet<C>, scratch: &'r mut Scratch, ask: Ask) {
        let Scratch { found, lines, turns, charges, now, coming, unasked, is_peek, .. } = scratch;
        *is_peek = ask.is_peek;
        let (found, lines) = (&*found, lines.buffer());
        let concerned = found.concerned();
        let prepared = std::array::from_fn(|index| {
            let one = concerned.get(index)?;
            Some(set.allowance(one).asked()?.shared.limiter.account(found.key(one)))
        });
        let mut round = Round {
            set,
            found,
            lines,
            turns,
            charges,
            prepared,
            now: *now,
            is_peek: ask.is_peek,
            in_flight: ask.in_flight,
            held: ask.held,
            answers: coming,
            unasked,
            lacks_answers: false,
        };
        let mut shadows = 0;
        for one in concerned {
            let is_shadow = set.limited(one).is_shadow;
            shadows += usize::from(is_shadow);
            round.lines.push(Line::new(one.rule, one.tier, is_shadow, set.cost(one, ask.cost)));
        }
        if shadows > 0 && set.has_stores && round.lacks_answers_of_shadows() {
            return round.ask_stores_first();
        }
        if shadows < concerned.len() {
            round.together(Group::Enforced);
        }
        if !round.unasked.is_empty() {
            return;
        }
        for index in 0..if shadows > 0 { concerned.len() } else { 0 } {
            if round.lines[index].is_shadow {
                round.together(Group::Shadow(index));
            }
        }
    }

    fn together(&mut self, group: Group) {
        let before = self.charges.mark();
        let mut counted = None;
        if self.foresee(group) {
            if self.lacks_answers {
                return self.ask_stores_of(group);
            }
            if self.is_peek {
                return;
            }
            match self.charge(group) {
                Ok(()) => return,
                Err(not) => counted = not.counted,
            }
            self.charges.give_back(self.set, self.found.concerned(), before, self.now);
        }
        self.refuse(group, counted);
    }

    /// Looks at the limits. Returns whether all admit the request, as far as they were looked at.
    fn foresee(&mut self, group: Group) -> bool {
        self.turns.clear();
        self.lacks_answers = false;
        let mut admits = true;
        // The one that is charged first need not be looked at, if nothing is written before.
        let mut may_skip = !self.is_peek;
        for (index, one) in self.found.concerned().iter().enumerate() {
            let line = &mut self.lines[index];
            if !group.has(index, line) {
                continue;
            }
            let (limited, allowance) = (self.set.limited(one), self.set.allowance(one));
            if one.is_refused_without_key || allowance.kind == Kind::Block {
                let is_blocked = allowance.kind == Kind::Block;
                line.ruling = if is_blocked { Ruling::Blocked } else { Ruling::NoKey };
                (line.limit, line.remaining) = (0, 0);
                admits = false;
                continue;
            }
            if allowance.kind == Kind::Unlimited {
                continue;
            }
            if allowance.kind == Kind::Stored {
                may_skip = false;
                match self
                    .answers
                    .iter()
                    .find(|answer| answer.is_of(self.set.id, line, self.found.key(one), self.is_peek))
                {
                    Some(answer) => {
                        answer.write(line);
                        admits &= line.ruling == Ruling::Admitted;
                    }
                    None => self.lacks_answers = true,
                }
                continue;
            }
            for limit in allowance.at_once.iter().filter(|_| self.in_flight) {
                let key = self.found.key(one);
                let error = limit.shared.peek(key, line.cost, self.now).err();
                let (limit, remaining) = limit.shared.state(key);
                let after = if error.is_some() { remaining } else { remaining.saturating_sub(line.cost) };
                line.add_at_once((limit, after), error);
                admits &= error.is_none();
                may_skip = false;
            }
            if let Some(bans) = &limited.bans
                && let Some(left) = bans.left(self.found.key(one), self.now)
            {
                line.banned = Some(left);
                admits = false;
            }
            if let Some(current) = &allowance.quotas {
                if index < 64 && self.held & (1 << index) != 0 {
                    if let Some(decision) = self.ask(index, |key| key.peek_n(0)) {
                        admits &= self.note(index, &decision);
                    }
                    continue;
                }
                may_skip &= !current.may_queue;
                self.turns.push((allowance.rank, index));
            }
        }
        self.turns.sort_unstable();
        let skipped = usize::from(may_skip && admits && !self.turns.is_empty());
        for turn in skipped..self.turns.len() {
            admits &= self.look(self.turns[turn].1);
        }
        if skipped > 0 && !admits {
            self.look(self.turns[0].1);
        }
        if !admits {
            for index in 0..self.lines.len() {
                let line = &mut self.lines[index];
                if let Some(left) = line.banned.filter(|_| group.has(index, line)) {
                    line.ban(left);
                }
            }
        }
        admits
    }

    /// Looks at the limits by time of a line. Returns whether they admit the request.
    fn look(&mut self, index: usize) -> bool {
        let cost = self.lines[index].cost;
        let Some(decision) = self.ask(index, |key| key.peek_n(cost)) else { return true };
        let one = &self.found.concerned()[index];
        if !self.is_peek
            && decision.is_allowed()
            && self.lines[index].banned.is_none()
            && self.current(one).is_some_and(|current| !current.may_queue)
        {
            // Its numbers are noted after the charge, or when another rule refuses.
            return true;
        }
        self.note(index, &decision)
    }

    /// Charges the limits in their order. On an error the caller gives the charges back.
    fn charge(&mut self, group: Group) -> Result<(), NotCharged> {
        for (index, one) in self.found.concerned().iter().enumerate() {
            if group.has(index, &self.lines[index]) {
                self.acquire(index, one)?;
            }
        }
        for turn in 0..self.turns.len() {
            let index = self.turns[turn].1;
            let cost = self.lines[index].cost;
            let Some(decision) = self.ask(index, |key| key.check_n(cost)) else { continue };
            self.restate(index);
            let departs = self.note(index, &decision);
            if !decision.is_allowed() {
                return Err(NotCharged { counted: Some(index) });
            }
            // Of a request that only looks, too: its cost may be settled later.
            self.charges.quotas.push(Charge { line: index, receipt: decision.receipt() });
            if !departs {
                return Err(NotCharged { counted: None });
            }
        }
        for (index, one) in self.found.concerned().iter().enumerate() {
            if group.has(index, &self.lines[index])
                && self.set.allowance(one).kind == Kind::Each
                && let Some(bans) = &self.set.limited(one).bans
                && let Some(left) = bans.left(self.found.key(one), self.now)
            {
                self.lines[index].ban(left);
                return Err(NotCharged { counted: None });
            }
        }
        self.keep_stored(group);
        Ok(())
    }

    /// Takes the places in flight of a line.
    fn acquire(&mut self, index: usize, one: &Concerned) -> Result<(), NotCharged> {
        let allowance = self.set.allowance(one);
        if !self.in_flight || allowance.at_once.is_empty() || allowance.kind != Kind::Each {
            return Ok(());
        }
        self.lines[index].clear();
        let (key, cost) = (self.found.key(one), self.lines[index].cost);
        for limit in &allowance.at_once {
            let taken = limit.shared.acquire(key, cost, limit.ttl, self.now);
            self.lines[index].add_at_once(limit.shared.state(key), taken.as_ref().err().copied());
            match taken {
                Ok(guard) => self.charges.guards.push((index, guard)),
                Err(_) => return Err(NotCharged { counted: None }),
            }
        }
        Ok(())
    }

    /// Completes lines of which some refuse: limits that count their refusals count this one, keys
    /// are banned, and the lines that admit show what there is without the request.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, group: Group, counted: Option<usize>) {
        // What no wait helps is counted by no limit, and bans no key.
        let mut lines = self.lines.iter().enumerate();
        let is_final = lines.any(|(index, line)| group.has(index, line) && line.ruling > Ruling::Refused);
        for (index, one) in self.found.concerned().iter().enumerate() {
            let line = self.lines[index];
            if !group.has(index, &line) || line.ruling > Ruling::Refused {
                continue;
            }
            if line.ruling == Ruling::Admitted {
                self.restate(index);
                if let Some(decision) = self.ask(index, |key| key.peek_n(0)) {
                    self.note(index, &decision);
                    self.lines[index].delay = std::time::Duration::ZERO;
                }
                continue;
            }
            if is_final {
                // A look shows the limit as if it had counted the request.
                if let Some(decision) = self.ask(index, |key| key.peek_n(0)).filter(|_| line.banned.is_none())
                {
                    self.lines[index].remaining = decision.remaining();
                }
                continue;
            }
            if line.is_over && line.banned.is_none() && counted != Some(index) && !self.is_peek {
                self.count_refusal(index, one);
            }
            let limited = self.set.limited(one);
            if let Some(bans) = limited.bans.as_ref().filter(|_| line.banned.is_none()) {
                let left = match self.is_peek {
                    true => Some(limited.ban_length),
                    false => bans.start(self.found.key(one), self.now),
                };
                if let Some(left) = left {
                    self.lines[index].ban(left);
                }
            }
        }
    }

    /// Has the limits of a line that refuse the request and count refusals count it.
    fn count_refusal(&mut self, index: usize, one: &Concerned) {
        let cost = self.lines[index].cost;
        let counts = self.current(one).is_some_and(|current| current.counts_refusals);
        if !counts {
            return;
        }
        let Some(decision) = self.ask(index, |key| key.check_n(cost)) else { return };
        if decision.is_allowed() {
            // Another thread gave something back meanwhile. The request stays refused.
            if let Some(current) = self.current(one) {
                current.shared.limiter.refund_at(decision, self.now);
            }
        } else if !decision.is_never() {
            self.restate(index);
            self.note(index, &decision);
        }
    }

    /// Clears what the limits by time said of a line, and shows its requests in flight.
    fn restate(&mut self, index: usize) {
        let one = &self.found.concerned()[index];
        let allowance = self.set.allowance(one);
        self.lines[index].clear();
        for limit in allowance.at_once.iter().filter(|_| self.in_flight && allowance.kind == Kind::Each) {
            self.lines[index].add_at_once(limit.shared.state(self.found.key(one)), None);
        }
        if allowance.kind == Kind::Stored
            && let Some(answer) = self.answer(index)
        {
            self.answers[answer].write_given_back(&mut self.lines[index]);
        }
    }

    /// Notes a decision in its line. Returns whether the request may depart in time.
    #[inline]
    fn note(&mut self, index: usize, decision: &Decision<'_, MOST_LIMITS>) -> bool {
        let one = &self.found.concerned()[index];
        let Some(current) = self.current(one) else { return true };
        self.lines[index].add_quotas(decision, current, self.set.limited(one).max_wait)
    }

    /// Asks the limits by time of a line, if it has any.
    #[inline]
    fn ask<T>(
        &self,
        index: usize,
        ask: impl FnOnce(Account<'r, Quota, MOST_LIMITS, C, Timestamp>) -> T,
    ) -> Option<T> {
        let prepared = match self.prepared.get(index) {
            Some(prepared) => (*prepared)?,
            None => {
                let one = &self.found.concerned()[index];
                self.current(one)?.shared.limiter.account(self.found.key(one))
            }
        };
        Some(ask(prepared.at(self.now)))
    }

    /// The answer of a line's store, by its index.
    fn answer(&self, index: usize) -> Option<usize> {
        let (line, key) = (&self.lines[index], self.found.key(&self.found.concerned()[index]));
        self.answers.iter().position(|answer| answer.is_of(self.set.id, line, key, self.is_peek))
    }

    /// Whether a line's store is to be asked still.
    fn is_unasked(&self, index: usize) -> bool {
        let one = &self.found.concerned()[index];
        let is_stored = self.set.allowance(one).kind == Kind::Stored && !one.is_refused_without_key;
        is_stored && self.answer(index).is_none()
    }

    fn lacks_answers_of_shadows(&self) -> bool {
        (0..self.lines.len()).any(|index| self.lines[index].is_shadow && self.is_unasked(index))
    }

    /// Notes the stores of rules in shadow mode and, if the enforced rules of this process admit
    /// the request, those of enforced rules.
    fn ask_stores_first(&mut self) {
        let shadows = (0..self.lines.len()).filter(|index| self.lines[*index].is_shadow);
        let shadows: Vec<usize> = shadows.collect();
        if self.foresee(Group::Enforced) {
            self.ask_stores_of(Group::Enforced);
        }
        shadows.into_iter().for_each(|index| self.ask_stores_of(Group::Shadow(index)));
    }

    /// Notes the stores of a group that are to be asked. Until then the request is refused.
    fn ask_stores_of(&mut self, group: Group) {
        for index in 0..self.lines.len() {
            if group.has(index, &self.lines[index]) && self.is_unasked(index) {
                // Of shadow rules, too: the request was not decided.
                self.lines[index].is_shadow = false;
                self.lines[index].ruling = Ruling::Unavailable;
                self.unasked.push(index);
            }
        }
    }

    /// Keeps what the stores of an admitted group charged.
    fn keep_stored(&mut self, group: Group) {
        if self.answers.is_empty() {
            return;
        }
        for index in 0..self.lines.len() {
            if group.has(index, &self.lines[index])
                && let Some(answer) = self.answer(index)
                && let Some(charge) = self.answers[answer].take_charge()
            {
                self.charges.stored.push((index, charge));
            }
        }
    }

    fn current(&self, one: &Concerned) -> Option<&'r Current<C>> {
        self.set.allowance(one).asked()
    }
}

impl Charges {
    /// Gives the charges since `mark` back, the last first.
    #[cold]
    pub(super) fn give_back<C: Clock + Clone + 'static>(
        &mut self,
        set: &RuleSet<C>,
        concerned: &[Concerned],
        mark: Mark,
        now: Timestamp,
    ) {
        for Charge { line, receipt } in self.take(mark).rev() {
            if let Some(current) = &set.allowance(&concerned[line]).quotas {
                current.shared.limiter.refund_at(receipt, now);
            }
        }
        self.guards.truncate(mark.guards);
        self.stored.drain(mark.stored..).for_each(|(_, charge)| charge.give_back());
    }
}
