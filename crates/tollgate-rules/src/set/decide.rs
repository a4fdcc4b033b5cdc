//! One request, as its rules decide it: what each line says, and what stands beside the limits by
//! time: blocks, missing keys, stores, requests in flight, bans.

use std::time::Duration;

use tollgate::{Account, CallQuota, Clock, MOST_LIMITS, Offer, Outcome, Part, Quota, Timestamp};

use crate::matcher::{Concerned, Found};
use crate::set::allowance::{Current, Kind};
use crate::set::ban::Bans;
use crate::set::line::Line;
use crate::set::ruling::Ruling;
use crate::set::scratch::{Charge, Charges, Offers, Scratch, Turn};
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
    pub(super) charges: &'r mut Charges,
    prepared: [Option<Account<'r, Quota, MOST_LIMITS, C>>; PREPARED],
    now: Timestamp,
    ask: Ask,
    /// Whether nothing is to be written.
    pub(super) is_peek: bool,
    /// What stores have answered.
    answers: &'r mut Vec<StoredAnswer>,
    /// The lines whose stores are to be asked before the request is decided.
    unasked: &'r mut Vec<usize>,
    /// Whether the group that was looked at last needs answers that are not there.
    pub(super) lacks_answers: bool,
    has_shadows: bool,
}

/// Rules that decide together: all that are enforced, or one in shadow mode.
#[derive(Clone, Copy)]
pub(super) enum Group {
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

impl<'r, C: Clock + Clone + 'static> Round<'r, C> {
    /// The request that the matcher has found the rules of.
    pub(super) fn new(set: &'r RuleSet<C>, scratch: &'r mut Scratch, ask: Ask) -> Self {
        let Scratch { found, lines, charges, now, coming, unasked, is_peek, .. } = scratch;
        *is_peek = ask.is_peek;
        let (found, lines) = (&*found, lines.buffer());
        let concerned = found.concerned();
        let prepared = std::array::from_fn(|index| {
            let one = concerned.get(index)?;
            Some(set.allowance(one).asked()?.shared.own()?.account(found.key(one)))
        });
        let line = |one: &Concerned| {
            Line::new(one.rule, one.tier, set.limited(one).is_shadow, set.cost(one, ask.cost))
        };
        lines.extend(concerned.iter().map(line));
        let has_shadows = lines.iter().any(|line| line.is_shadow);
        Self {
            set,
            found,
            lines,
            charges,
            prepared,
            now: *now,
            ask,
            is_peek: ask.is_peek,
            answers: coming,
            unasked,
            lacks_answers: false,
            has_shadows,
        }
    }

    pub(super) fn has_shadows(&self) -> bool {
        self.has_shadows
    }

    /// The lines of rules in shadow mode.
    pub(super) fn shadows(&self) -> impl Iterator<Item = usize> {
        (0..self.lines.len()).filter(|index| self.lines[*index].is_shadow)
    }

    /// Whether every enforced line admits the request.
    pub(super) fn is_admitted(&self) -> bool {
        self.lines.iter().all(|line| line.is_shadow || line.ruling == Ruling::Admitted)
    }

    /// The lines of a group, with what the matcher found.
    fn group(&self, group: Group) -> impl Iterator<Item = (usize, &'r Concerned)> {
        let concerned = self.found.concerned().iter().enumerate();
        concerned.filter(move |(index, _)| group.has(*index, &self.lines[*index]))
    }

    /// Looks at all but the limits by time, which get their turns. Returns whether the request is
    /// admitted, as far as it was looked at.
    pub(super) fn look_beside_time(&mut self, group: Group, number: usize, turns: &mut Vec<Turn>) -> bool {
        self.lacks_answers = false;
        let mut admits = true;
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
            for limit in allowance.at_once.iter().filter(|_| self.ask.in_flight) {
                let key = self.found.key(one);
                let error = limit.shared.peek(key, line.cost, self.now).err();
                let (limit, remaining) = limit.shared.state(key);
                let after = if error.is_some() { remaining } else { remaining.saturating_sub(line.cost) };
                line.add_at_once((limit, after), error);
                admits &= error.is_none();
            }
            if let Some(bans) = &limited.bans
                && let Some(left) = bans.left(self.found.key(one), self.now)
            {
                line.banned = Some(left);
                admits = false;
            }
            if allowance.quotas.is_some() {
                if index < 64 && self.ask.held & (1 << index) != 0 {
                    admits &= self.note_peek(index, 0);
                } else {
                    turns.push(Turn::new(allowance.rank, number, index));
                }
            }
        }
        admits
    }

    /// Whether a line is to show what its limits by time say before they are charged: of a peek, of
    /// a banned key, and of a queue.
    pub(super) fn notes_looks(&self, index: usize) -> bool {
        self.is_peek || self.lines[index].banned.is_some() || self.may_queue(index)
    }

    /// Has the lines of banned keys say so.
    pub(super) fn show_bans(&mut self, group: Group) {
        for index in 0..self.lines.len() {
            let line = &mut self.lines[index];
            if let Some(left) = line.banned.filter(|_| group.has(index, line)) {
                line.ban(left);
            }
        }
    }

    /// Whether a rule has banned the key since it was looked at: another thread did. Its line says
    /// so then.
    pub(super) fn is_banned_since(&mut self, group: Group) -> bool {
        let banned = self.group(group).find_map(|(index, one)| {
            let bans = self.bans(one)?;
            Some((index, bans.left(self.found.key(one), self.now)?))
        });
        if let Some((index, left)) = banned {
            self.lines[index].ban(left);
        }
        banned.is_some()
    }

    /// Whether a rule of the group may ban keys.
    pub(super) fn has_bans(&self, group: Group) -> bool {
        self.group(group).any(|(_, one)| self.bans(one).is_some())
    }

    fn bans(&self, one: &Concerned) -> Option<&'r Bans<C>> {
        let bans = self.set.limited(one).bans.as_deref();
        bans.filter(|_| self.set.allowance(one).kind == Kind::Each && !self.is_peek)
    }

    /// Takes the places in flight of a group. Returns whether there were enough.
    pub(super) fn acquire(&mut self, group: Group) -> bool {
        if !self.ask.in_flight || self.is_peek {
            return true;
        }
        for index in 0..self.lines.len() {
            let one = &self.found.concerned()[index];
            let allowance = self.set.allowance(one);
            let is_asked = group.has(index, &self.lines[index]) && allowance.kind == Kind::Each;
            if !is_asked || allowance.at_once.is_empty() {
                continue;
            }
            self.lines[index].clear();
            let (key, cost) = (self.found.key(one), self.lines[index].cost);
            for limit in &allowance.at_once {
                let taken = limit.shared.acquire(key, cost, limit.ttl, self.now);
                self.lines[index].add_at_once(limit.shared.state(key), taken.as_ref().err().copied());
                match taken {
                    Ok(guard) => self.charges.guards.push((index, guard)),
                    Err(_) => return false,
                }
            }
        }
        true
    }

    /// Whether a line refuses for good.
    pub(super) fn is_final(&self, group: Group) -> bool {
        self.group(group).any(|(index, _)| self.lines[index].ruling > Ruling::Refused)
    }

    /// Whether the limits by time of a line refuse the request, and are to count that if they count
    /// refusals.
    pub(super) fn counts_refusal(&self, index: usize) -> bool {
        let line = &self.lines[index];
        line.is_over && line.banned.is_none() && !self.is_peek
    }

    /// Completes the lines of a refused request: keys are banned, and the lines that admit show
    /// what there is without the request. What no wait helps (`is_final`) bans no key.
    pub(super) fn refuse(&mut self, group: Group, is_final: bool) {
        for (index, one) in self.found.concerned().iter().enumerate() {
            let line = self.lines[index];
            if !group.has(index, &line) || line.ruling > Ruling::Refused {
                continue;
            }
            if line.ruling == Ruling::Admitted {
                self.restate(index);
                self.note_peek(index, 0);
                self.lines[index].delay = Duration::ZERO;
                continue;
            }
            if is_final {
                // A look shows the limit as if it had counted the request.
                if let Some(left) = self.left(index).filter(|_| line.banned.is_none()) {
                    self.lines[index].remaining = left;
                }
                continue;
            }
            let limited = self.set.limited(one);
            // A flood of other keys, which fills the table, gets no key banned.
            let may_ban = line.banned.is_none() && !line.is_full;
            if let Some(bans) = limited.bans.as_ref().filter(|_| may_ban) {
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

    /// Clears what the limits by time said of a line, and shows its requests in flight.
    pub(super) fn restate(&mut self, index: usize) {
        let one = &self.found.concerned()[index];
        let allowance = self.set.allowance(one);
        self.lines[index].clear();
        for limit in allowance.at_once.iter().filter(|_| self.ask.in_flight && allowance.kind == Kind::Each) {
            self.lines[index].add_at_once(limit.shared.state(self.found.key(one)), None);
        }
        if allowance.kind == Kind::Stored
            && let Some(answer) = self.answer(index)
        {
            self.answers[answer].write_given_back(&mut self.lines[index]);
        }
    }

    /// Notes what the limits by time of a line offer, or were charged. Returns whether the request
    /// may depart in time.
    pub(super) fn note_offers(&mut self, index: usize, offers: &[Offer<'_>]) -> bool {
        let outcome = offers.iter().map(Offer::outcome).find(|outcome| *outcome != Outcome::Allowed);
        self.note(index, outcome.unwrap_or(Outcome::Allowed), offers.iter().map(Offer::part))
    }

    /// Notes what the limits by time of a line would say of a request of this cost; of 0, what they
    /// hold. Returns whether the request may depart in time.
    pub(super) fn note_peek(&mut self, index: usize, cost: u64) -> bool {
        if let Some(account) = self.account(index) {
            let decision = account.peek_n(cost);
            return self.note(index, decision.outcome(), decision.parts());
        }
        let Some(account) = self.lent(index) else { return true };
        let decision = account.peek_n(cost);
        self.note(index, decision.outcome(), decision.parts())
    }

    /// What the limits by time of a line have left.
    fn left(&self, index: usize) -> Option<u64> {
        let own = self.account(index).map(|account| account.peek_n(0).remaining());
        own.or_else(|| Some(self.lent(index)?.peek_n(0).remaining()))
    }

    fn note<'d>(&mut self, index: usize, outcome: Outcome, parts: impl Iterator<Item = Part<'d>>) -> bool {
        let one = &self.found.concerned()[index];
        let Some(current) = self.current(one) else { return true };
        let max_wait = self.max_wait(index);
        self.lines[index].add_quotas(outcome, parts, current, max_wait)
    }

    /// Has the limits by time of a line make their offers, in the order in which they are to be
    /// charged.
    #[inline]
    pub(super) fn offer(&self, index: usize, offers: &mut Offers<'r>) {
        if let Some(account) = self.account(index) {
            account.offers(self.lines[index].cost).for_each(|offer| offers.push(offer));
        } else if let Some(account) = self.lent(index) {
            offers.push(account.offer(self.lines[index].cost));
        }
    }

    /// What the request costs a line.
    pub(super) fn cost(&self, index: usize) -> u64 {
        self.lines[index].cost
    }

    /// Whether a limit of a line may have the request wait.
    pub(super) fn may_queue(&self, index: usize) -> bool {
        self.current(&self.found.concerned()[index]).is_some_and(|current| current.may_queue)
    }

    /// Whether a limit of a line counts the requests that it refuses.
    pub(super) fn counts_refusals(&self, index: usize) -> bool {
        self.current(&self.found.concerned()[index]).is_some_and(|current| current.counts_refusals)
    }

    /// How long the request may wait for its turn in a queue of a line.
    pub(super) fn max_wait(&self, index: usize) -> Duration {
        let own = self.set.limited(&self.found.concerned()[index]).max_wait;
        if self.ask.may_wait { own } else { Duration::ZERO }
    }

    /// The account of a line's key with its limits by time, if it has any.
    #[inline]
    fn account(&self, index: usize) -> Option<Account<'r, Quota, MOST_LIMITS, C, Timestamp>> {
        let account = match self.prepared.get(index) {
            Some(prepared) => (*prepared)?,
            None => {
                let one = &self.found.concerned()[index];
                self.current(one)?.shared.own()?.account(self.found.key(one))
            }
        };
        Some(account.at(self.now))
    }

    /// The account of a line's key under the quota that came with the request, if its rule has no
    /// other.
    fn lent(&self, index: usize) -> Option<Account<'r, CallQuota, 1, C, Timestamp>> {
        let one = &self.found.concerned()[index];
        let account = self.current(one)?.shared.per_request()?.account(self.found.key(one));
        Some(account.at(self.now).under(self.found.lent(one)?))
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

    pub(super) fn lacks_answers_of_shadows(&self) -> bool {
        self.set.has_stores && self.shadows().any(|index| self.is_unasked(index))
    }

    /// Notes the stores of rules in shadow mode.
    pub(super) fn ask_stores_of_shadows(&mut self) {
        let shadows: Vec<usize> = self.shadows().collect();
        shadows.into_iter().for_each(|index| self.ask_stores_of(Group::Shadow(index)));
    }

    /// Notes the stores of a group that are to be asked. Until then the request is refused.
    pub(super) fn ask_stores_of(&mut self, group: Group) {
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
    pub(super) fn keep_stored(&mut self, group: Group) {
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
    /// Gives all back, the last charge first.
    #[cold]
    pub(super) fn give_back<C: Clock + Clone + 'static>(
        &mut self,
        set: &RuleSet<C>,
        concerned: &[Concerned],
        now: Timestamp,
    ) {
        for Charge { line, receipt } in self.take().rev() {
            if let Some(current) = &set.allowance(&concerned[line]).quotas {
                current.shared.refund_at(receipt, now);
            }
        }
        self.guards.clear();
        self.stored.drain(..).for_each(|(_, charge)| charge.give_back());
    }
}
