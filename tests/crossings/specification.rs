//! The reference model beside a program, as long as it knows the verbs: of one limit without tiers.

use std::collections::BTreeMap;

use tollgate::{Inherit, Outcome};
use tollgate_model::{Answer, Booking, Inherit as ModelInherit, Model, NotReservable, Receipt, Reservation};

use super::engine::joint::Offered;
use super::engine::{KEYS, Told};
use super::limits::Limit;
use super::program::Program;

const NAMES: [&str; KEYS] = ["0", "1", "2"];

pub(crate) struct Specification {
    /// `None`: the model does not know such a limiter.
    model: Option<Model>,
    /// Whether each key's debt is the model's.
    knows: [bool; KEYS],
    receipts: BTreeMap<usize, Receipt>,
    reservations: BTreeMap<usize, Reservation>,
    has_reserved: bool,
    /// When something came back last: from then on requests at that time are refunded by less.
    marked: Option<u64>,
}

impl Specification {
    pub(crate) fn new(program: &Program) -> Self {
        let is_known = !program.sort.is_list() && program.limits.len() == 1 && program.is_roomy();
        Self {
            model: is_known.then(|| Model::new(program.limits[0].algorithm())),
            knows: [true; KEYS],
            receipts: BTreeMap::new(),
            reservations: BTreeMap::new(),
            has_reserved: false,
            marked: None,
        }
    }

    fn of(&mut self, key: usize) -> Option<&mut Model> {
        self.model.as_mut().filter(|_| self.knows[key])
    }

    pub(crate) fn check(
        &mut self,
        id: usize,
        key: usize,
        _tier: usize,
        cost: u64,
        now: u64,
        told: &Told,
    ) -> Result<(), String> {
        let Some(model) = self.of(key) else { return Ok(()) };
        let (answer, receipt) = model.admit(NAMES[key], now, cost);
        self.receipts.extend(receipt.map(|receipt| (id, receipt)));
        same(&answer, told)
    }

    pub(crate) fn peek(
        &mut self,
        key: usize,
        _tier: usize,
        cost: u64,
        now: u64,
        told: &Told,
    ) -> Result<(), String> {
        self.of(key).map_or(Ok(()), |model| same(&model.peek(NAMES[key], now, cost), told))
    }

    /// Up to so many units were asked back.
    pub(crate) fn refund(
        &mut self,
        id: usize,
        key: usize,
        units: u64,
        now: u64,
        back: u64,
    ) -> Result<(), String> {
        self.marked = self.marked.max(Some(now));
        let model = self.model.as_mut().filter(|_| self.knows[key]);
        let (Some(model), Some(receipt)) = (model, self.receipts.get_mut(&id)) else {
            self.lose(key);
            return Ok(());
        };
        let right = model.refund_part(receipt, units, now);
        self.gave_back(key, right, back)
    }

    /// Less than the model gives back may come back, where the engine remembers less: from there on
    /// the two are about different debts.
    fn gave_back(&mut self, key: usize, right: u64, back: u64) -> Result<(), String> {
        if back < right {
            self.lose(key);
        }
        if back > right { Err(format!("{back} units came back, and by the model {right}")) } else { Ok(()) }
    }

    pub(crate) fn up_to(
        &mut self,
        id: usize,
        key: usize,
        most: u64,
        now: u64,
        told: &Told,
        cost: u64,
    ) -> Result<(), String> {
        let Some(model) = self.of(key) else { return Ok(()) };
        let (answer, right, receipt) = model.check_up_to(NAMES[key], now, most);
        self.receipts.extend(receipt.map(|receipt| (id, receipt)));
        if right != cost {
            return Err(format!("{cost} units were taken, and by the model {right}"));
        }
        same(&answer, told)
    }

    /// The parts are charged one after the other where each alone is admitted; and given back, the
    /// newest first, when one of them then is not, or when the caller refuses after so many.
    pub(crate) fn joint(
        &mut self,
        parts: &[(usize, &Offered)],
        refuses: Option<usize>,
        now: u64,
        outcome: Outcome,
    ) -> Result<(), String> {
        if parts.iter().any(|(_, offered)| !self.knows[offered.part.key]) {
            parts.iter().for_each(|(_, offered)| self.lose(offered.part.key));
        }
        let Some(model) = &mut self.model else { return Ok(()) };
        if parts.iter().any(|(_, offered)| !self.knows[offered.part.key]) {
            return Ok(());
        }
        let peeks = parts.iter().map(|(_, Offered { part, .. })| model.peek(NAMES[part.key], now, part.cost));
        let peeks: Vec<Answer> = peeks.collect();
        let is_never = peeks.iter().any(|answer| answer.never);
        let mut is_admitted = peeks.iter().all(|answer| answer.allowed);
        let mut taken = Vec::new();
        for (number, (id, Offered { part, told, .. })) in parts.iter().enumerate() {
            is_admitted = is_admitted && refuses != Some(number);
            if is_admitted {
                let (answer, receipt) = model.admit(NAMES[part.key], now, part.cost);
                is_admitted = answer.allowed;
                taken.extend(receipt.map(|receipt| (*id, receipt)));
                if outcome == Outcome::Allowed {
                    same(&answer, told)?;
                }
            }
        }
        is_admitted = is_admitted && refuses != Some(parts.len());
        if !is_admitted {
            self.marked = self.marked.max(taken.first().map(|_| now));
            for (_, receipt) in taken.drain(..).rev() {
                model.refund(receipt, now);
            }
        }
        self.receipts.extend(taken);
        let right = match (is_never, is_admitted) {
            (true, _) => Outcome::Never,
            (_, true) => Outcome::Allowed,
            (_, false) => Outcome::Denied,
        };
        if right == outcome {
            Ok(())
        } else {
            Err(format!("the model says {right:?}, the engine {outcome:?}"))
        }
    }

    /// `told` is `None` where the limits keep no debts.
    pub(crate) fn debit(
        &mut self,
        id: usize,
        key: usize,
        cost: u64,
        now: u64,
        told: Option<&Told>,
    ) -> Result<(), String> {
        self.has_reserved = true;
        let Some(model) = self.of(key) else { return Ok(()) };
        match (model.debit(NAMES[key], now, cost), told) {
            (Some(receipt), Some(told)) => {
                // The model says nothing of a debit's delay.
                let answer = Answer { delay_ns: told.delay, ..model.peek(NAMES[key], now, 0) };
                self.receipts.insert(id, receipt);
                same(&answer, told)
            }
            (None, None) => Ok(()),
            (right, told) => Err(format!("the model says {right:?}, the engine {told:?}")),
        }
    }

    pub(crate) fn credit(&mut self, key: usize, units: u64, now: u64, given: u64) -> Result<(), String> {
        self.marked = self.marked.max(Some(now));
        let Some(model) = self.of(key) else { return Ok(()) };
        let right = model.credit(NAMES[key], now, units);
        if right == given {
            Ok(())
        } else {
            Err(format!("{given} units were given, and by the model {right}"))
        }
    }

    #[allow(clippy::too_many_arguments, reason = "they are a turn's")]
    pub(crate) fn reserve(
        &mut self,
        id: usize,
        key: usize,
        _tier: usize,
        cost: u64,
        now: u64,
        max_wait: u64,
        departs: Option<u64>,
    ) -> Result<(), String> {
        self.has_reserved = true;
        let Some(model) = self.of(key) else { return Ok(()) };
        let right = match model.reserve(NAMES[key], now, cost, max_wait) {
            Err(NotReservable) | Ok(Booking::Refused { .. } | Booking::Never) => None,
            Ok(Booking::Booked(reservation)) => {
                let departs = reservation.departs_at_ns();
                self.reservations.insert(id, reservation);
                Some(departs)
            }
        };
        if right == departs { Ok(()) } else { Err(format!("departs at {departs:?}, by the model {right:?}")) }
    }

    pub(crate) fn cancel(&mut self, id: usize, key: usize, now: u64, back: u64) -> Result<(), String> {
        let reservation = self.reservations.remove(&id);
        let (Some(model), Some(reservation)) = (self.of(key), reservation) else {
            self.lose(key);
            return Ok(());
        };
        let right = model.cancel(reservation, now);
        self.gave_back(key, right, back)
    }

    pub(crate) fn reset(&mut self, key: usize) {
        if let Some(model) = &mut self.model {
            model.reset(NAMES[key]);
        }
        // Of any key's, nothing comes back any more.
        self.forgave();
    }

    pub(crate) fn change(&mut self, limits: &[Limit], _only: Option<usize>, inherit: Inherit, now: u64) {
        // Of those that are not buckets or fixed windows the model knows no change.
        if !limits[0].kind.converts() {
            self.model = None;
        }
        if let Some(model) = &mut self.model {
            let inherit = match inherit {
                Inherit::AsIs => ModelInherit::AsIs,
                Inherit::Proportional => ModelInherit::Proportional,
                Inherit::Additive => ModelInherit::Additive,
                Inherit::Reset => ModelInherit::Reset,
                other => unreachable!("{other:?}"),
            };
            model.change(limits[0].algorithm(), inherit, now);
        }
        self.forgave();
    }

    /// The clock has reached this time, and never steps back behind it again.
    pub(crate) fn restored(&mut self, reached: u64) {
        // No file tells that a turn was reserved, or when units came back: then a refund gives
        // more.
        if self.has_reserved || self.marked >= Some(reached) {
            self.model = None;
        }
        self.forgave();
    }

    /// From here on the model does not know how much comes back.
    fn forgave(&mut self) {
        self.receipts.clear();
        self.reservations.clear();
    }

    /// The key's debt may be another one from here on.
    pub(crate) fn lose(&mut self, key: usize) {
        self.knows[key] = false;
    }

    /// Of every key.
    pub(crate) fn lost(&mut self) {
        self.knows = [false; KEYS];
    }

    /// Keys that were in no debt may have been forgotten.
    pub(crate) fn clock_stepped_back(&mut self) {
        self.lost();
    }
}

fn same(answer: &Answer, told: &Told) -> Result<(), String> {
    let right = Told {
        allowed: answer.allowed,
        never: answer.never,
        retry_after: answer.retry_after_ns,
        reset_after: answer.reset_after_ns,
        delay: answer.delay_ns,
        remaining: vec![answer.remaining],
        full: told.full,
    };
    if right == *told { Ok(()) } else { Err(format!("the model says {right:?}, the engine {told:?}")) }
}
