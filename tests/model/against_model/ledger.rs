//! The model, with the admissions and reservations that can still be given back, each once. A reset
//! of a key removes its entries: a refund would give them back twice.

use tollgate_model::{Answer, Booking, Model, NotReservable, Receipt, Reservation};

use super::answers::UPTIME;
use super::script::{KEYS, Said};

pub(crate) struct Ledger {
    model: Model,
    admitted: Vec<Held<Receipt>>,
    reserved: Vec<Held<Reservation>>,
}

/// An admission or a reservation of a line of the script.
struct Held<T> {
    line: usize,
    key: usize,
    it: T,
}

impl Ledger {
    pub(crate) fn new(model: Model) -> Self {
        Self { model, admitted: Vec::new(), reserved: Vec::new() }
    }

    pub(crate) fn check(&mut self, line: usize, key: usize, at: u64, cost: u64) -> Answer {
        let (answer, receipt) = self.model.admit(KEYS[key], at, cost);
        self.admitted.extend(receipt.map(|it| Held { line, key, it }));
        answer
    }

    pub(crate) fn peek(&self, key: usize, at: u64, cost: u64) -> Answer {
        self.model.peek(KEYS[key], at, cost)
    }

    pub(crate) fn check_up_to(&mut self, line: usize, key: usize, at: u64, most: u64) -> (u64, Answer) {
        let (answer, units, receipt) = self.model.check_up_to(KEYS[key], at, most);
        self.admitted.extend(receipt.map(|it| Held { line, key, it }));
        (units, answer)
    }

    pub(crate) fn debit(&mut self, line: usize, key: usize, at: u64, cost: u64) -> Said {
        let Some(it) = self.model.debit(KEYS[key], at, cost) else { return Said::NoDebt };
        let units = it.cost();
        self.admitted.push(Held { line, key, it });
        Said::Took(units, self.peek(key, at, 0))
    }

    pub(crate) fn reset(&mut self, key: usize) {
        self.model.reset(KEYS[key]);
        self.admitted.retain(|held| held.key != key);
        self.reserved.retain(|held| held.key != key);
    }

    pub(crate) fn credit(&mut self, key: usize, at: u64, units: u64) -> u64 {
        self.model.credit(KEYS[key], at, units)
    }

    /// Reserves within `patience` nanoseconds, or (`Err`) within this many more than needed.
    /// Returns the longest wait of the request, and the answer.
    ///
    /// No departure is after the ten years of uptime, at which the engine may refuse.
    pub(crate) fn reserve(
        &mut self,
        line: usize,
        key: usize,
        at: u64,
        cost: u64,
        patience: Result<u64, i8>,
    ) -> (u64, Said) {
        let max_wait = patience.unwrap_or_else(|more| {
            let answer = self.peek(key, at, cost);
            answer.retry_after_ns.unwrap_or(answer.delay_ns).saturating_add_signed(more.into())
        });
        let within = max_wait.min(UPTIME - at);
        let said = match self.model.reserve(KEYS[key], at, cost, within) {
            Err(NotReservable) => Said::NoTurns,
            Ok(Booking::Never) => Said::Never,
            Ok(Booking::Refused { wait_ns }) => Said::TooLong { wait: wait_ns },
            Ok(Booking::Booked(it)) => {
                let departs = it.departs_at_ns();
                self.reserved.push(Held { line, key, it });
                Said::Departs(departs, self.peek(key, at, 0))
            }
        };
        (within, said)
    }

    /// Refunds an admission. Returns its line, its key, and the units.
    pub(crate) fn refund(&mut self, pick: u8, at: u64) -> Option<(usize, usize, u64)> {
        let Held { line, key, it } = picked(&mut self.admitted, pick)?;
        Some((line, key, self.model.refund(it, at)))
    }

    /// Refunds up to so many units of an admission, which stays with the rest. Returns as `refund`.
    pub(crate) fn refund_part(&mut self, pick: u8, units: u64, at: u64) -> Option<(usize, usize, u64)> {
        let number = counted_back(&self.admitted, pick)?;
        let Held { line, key, it } = &mut self.admitted[number];
        Some((*line, *key, self.model.refund_part(it, units, at)))
    }

    /// Cancels a reservation. Returns its line, its key, and the units.
    pub(crate) fn cancel(&mut self, pick: u8, at: u64) -> Option<(usize, usize, u64)> {
        let Held { line, key, it } = picked(&mut self.reserved, pick)?;
        Some((line, key, self.model.cancel(it, at)))
    }
}

/// Removes an entry.
fn picked<T>(held: &mut Vec<Held<T>>, pick: u8) -> Option<Held<T>> {
    counted_back(held, pick).map(|number| held.remove(number))
}

/// The number of an entry, counted from the newest, so that simple scripts have small numbers.
pub(crate) fn counted_back<T>(held: &[T], pick: u8) -> Option<usize> {
    usize::from(pick).checked_rem(held.len()).map(|back| held.len() - 1 - back)
}
