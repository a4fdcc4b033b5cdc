//! A replay under way: what each record asks of the gate, and what is counted of the answer.

use std::cell::OnceCell;

use super::answer::Answer;
use super::decisions::Decisions;
use super::gate::{Charge, Gate, Place};
use super::held::Held;
use super::limit::Limit;
use super::outcome::Counts;
use super::state::Saved;
use crate::failure::Failure;
use crate::ingest::{Op, Record};

/// How many admissions of a trace can be given back, and how many reservations: about 250 MB of each when it is full.
pub(super) const MOST_HELD: usize = 1 << 20;

/// A replay under way. The gate outlives it, because what is held borrows from the gate.
pub(super) struct Course<'g> {
    pub(super) limits: &'g [Limit],
    /// What to begin with.
    saved: Option<&'g Saved>,
    /// In force from the first record on.
    pub(super) gate: &'g OnceCell<Gate>,
    pub(super) counts: Counts,
    pub(super) decisions: Option<Decisions>,
    /// The sources, for messages.
    names: &'g [String],
    /// What was admitted, if the record comes from a trace: whether it will be refunded, only its end would tell.
    admissions: Held<Charge>,
    reservations: Held<Place<'g>>,
}

impl<'g> Course<'g> {
    pub(super) fn new(
        limits: &'g [Limit],
        saved: Option<&'g Saved>,
        gate: &'g OnceCell<Gate>,
        names: &'g [String],
        counts: Counts,
        decisions: Option<Decisions>,
    ) -> Self {
        let (admissions, reservations) = (Held::new(MOST_HELD), Held::new(MOST_HELD));
        Self { limits, saved, gate, counts, decisions, names, admissions, reservations }
    }

    /// Does what a record asks.
    ///
    /// # Errors
    ///
    /// Decisions that cannot be written, limits that cannot be put in force, a reservation that has no meaning.
    #[inline]
    pub(super) fn step(&mut self, record: &Record<'_>) -> Result<(), Failure> {
        let t_ns = self.counts.time.decided_at(record.t_ns);
        let gate = self.gate(t_ns)?;
        if record.is_trace {
            return self.traced(gate, record, t_ns);
        }
        let allowed = match &mut self.decisions {
            None => gate.admit(record.key, record.cost, t_ns),
            Some(decisions) => {
                let answer = Answer::from(&gate.check(record.key, record.cost, t_ns));
                decisions.write(record, t_ns, &answer)?;
                answer.allowed
            }
        };
        self.counts.add(record.key, t_ns, allowed);
        Ok(())
    }

    /// Writes out the decisions that are held back.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.decisions.as_mut().map_or(Ok(()), Decisions::flush)
    }

    fn gate(&self, t_ns: u64) -> Result<&'g Gate, Failure> {
        if let Some(gate) = self.gate.get() {
            return Ok(gate);
        }
        let gate = Gate::open(self.limits, t_ns, self.saved)?;
        Ok(self.gate.get_or_init(|| gate))
    }

    /// A record of a trace, which may give back what one before it took.
    fn traced(&mut self, gate: &'g Gate, record: &Record<'_>, t_ns: u64) -> Result<(), Failure> {
        let &Record { key, cost, id, .. } = record;
        match record.op {
            Op::Check => {
                let decision = gate.check(key, cost, t_ns);
                let allowed = decision.is_allowed();
                self.write(record, t_ns, || (&decision).into())?;
                if allowed {
                    self.admissions.put(key, id, decision.receipt());
                }
                self.counts.add(key, t_ns, allowed);
            }
            Op::Peek => self.write(record, t_ns, || (&gate.peek(key, cost, t_ns)).into())?,
            Op::Reserve => {
                let place = gate.reserve(key, cost, record.max_wait_ns, t_ns);
                let place = place.map_err(|_| self.no_turns(record))?;
                self.write(record, t_ns, || {
                    place.as_ref().map_or_else(Answer::clone, |place| place.decision().into())
                })?;
                self.counts.add(key, t_ns, place.is_ok());
                if let Ok(place) = place {
                    self.reservations.put(key, id, place);
                }
            }
            Op::Refund => {
                let taken = self.admissions.take(key, id);
                self.counts.give_back(taken.map(|charge| gate.refund(charge, cost, t_ns)));
            }
            Op::Cancel => {
                let taken = self.reservations.take(key, id);
                self.counts.give_back(taken.map(|place| gate.cancel(place, t_ns)));
            }
            Op::Reset => {
                gate.reset(key, t_ns);
                // What is forgiven would be given back a second time.
                self.admissions.forget(key);
                self.reservations.forget(key);
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        record: &Record<'_>,
        t_ns: u64,
        answer: impl FnOnce() -> Answer,
    ) -> Result<(), Failure> {
        self.decisions.as_mut().map_or(Ok(()), |decisions| decisions.write(record, t_ns, &answer()))
    }

    /// Says which line asks for a turn where there are none, and what to use instead.
    fn no_turns(&self, record: &Record<'_>) -> Failure {
        let name = self.names.get(record.file).map_or("", String::as_str);
        let limits: Vec<String> = self.limits.iter().map(Limit::to_string).collect();
        let limits = limits.join(" and ");
        Failure::Usage(format!(
            "{name}:{}: `reserve`: {limits} cannot tell when a turn will be: windows cannot, nor can a queue beside \
             other limits. Give a token-bucket or a leaky-bucket, or use `check` in the trace",
            record.line
        ))
    }
}
