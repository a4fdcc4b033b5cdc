//! Applies the records of a log to the limiters, one by one, and counts the answers.

use std::cell::OnceCell;

use tollgate::{CallQuota, DebitError};
use tollgate_logs::{Op, Record};

use super::answer::{Answer, nanos};
use super::decisions::Decisions;
use super::limit::Limit;
use super::limiter::{CallFailure, Charge, ReplayLimiter, Turn};
use super::outcome::Counts;
use super::outstanding::Outstanding;
use super::state::Saved;
use crate::failure::Failure;

/// How many admissions and how many reservations of a trace can be given back. So many of either
/// take about 250 MB.
pub(super) const MAX_OUTSTANDING: usize = 1 << 20;

/// A replay in progress. It borrows the limiter because outstanding admissions and reservations do.
pub(super) struct Simulation<'g> {
    pub(super) limits: &'g [Limit],
    /// The state to begin with.
    saved: Option<&'g Saved>,
    /// Opened at the first record, whose time it needs.
    pub(super) limiter: &'g OnceCell<ReplayLimiter>,
    pub(super) counts: Counts,
    pub(super) decisions: Option<Decisions>,
    /// The names of the sources, for messages.
    source_names: &'g [String],
    /// Admissions of a trace, any of which a later record may refund.
    admissions: Outstanding<Charge>,
    reservations: Outstanding<Turn<'g>>,
}

impl<'g> Simulation<'g> {
    pub(super) fn new(
        limits: &'g [Limit],
        saved: Option<&'g Saved>,
        limiter: &'g OnceCell<ReplayLimiter>,
        source_names: &'g [String],
        counts: Counts,
        decisions: Option<Decisions>,
    ) -> Self {
        let (admissions, reservations) =
            (Outstanding::new(MAX_OUTSTANDING), Outstanding::new(MAX_OUTSTANDING));
        Self { limits, saved, limiter, counts, decisions, source_names, admissions, reservations }
    }

    /// Applies a record.
    ///
    /// # Errors
    ///
    /// When a decision cannot be written, the limiters cannot be built, or they lack the operation.
    #[inline]
    pub(super) fn step(&mut self, record: &Record<'_>) -> Result<(), Failure> {
        let t_ns = self.counts.time.decided_at(record.t_ns);
        let limiter = self.limiter(t_ns)?;
        if record.is_trace {
            return self.trace_step(limiter, record, t_ns);
        }
        let allowed = match &mut self.decisions {
            None => limiter.admit(record.key, record.cost, t_ns),
            Some(decisions) => {
                let answer = Answer::from(&limiter.check(record.key, record.cost, t_ns));
                decisions.write(record, t_ns, &answer)?;
                answer.allowed
            }
        };
        self.counts.add(record.key, t_ns, allowed);
        Ok(())
    }

    /// Writes out the buffered decisions.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.decisions.as_mut().map_or(Ok(()), Decisions::flush)
    }

    fn limiter(&self, t_ns: u64) -> Result<&'g ReplayLimiter, Failure> {
        if let Some(limiter) = self.limiter.get() {
            return Ok(limiter);
        }
        let limiter = ReplayLimiter::open(self.limits, t_ns, self.saved)?;
        Ok(self.limiter.get_or_init(|| limiter))
    }

    /// Applies a record of a trace, which may give back what an earlier one took.
    fn trace_step(
        &mut self,
        limiter: &'g ReplayLimiter,
        record: &Record<'_>,
        t_ns: u64,
    ) -> Result<(), Failure> {
        let &Record { key, cost, id, .. } = record;
        if let Some(quota) = record.quota {
            return self.call_step(limiter, record, quota, t_ns);
        }
        match record.op {
            Op::Check => {
                let decision = limiter.check(key, cost, t_ns);
                let allowed = decision.is_allowed();
                self.write(record, t_ns, || (&decision).into())?;
                // What took nothing has nothing to give back, and must not stand before what did.
                if allowed && cost > 0 {
                    self.admissions.insert(key, id, Charge::Limits(decision.receipt()));
                }
                self.counts.add(key, t_ns, allowed);
            }
            Op::CheckUpTo => {
                let decision = limiter.check_up_to(key, cost, t_ns);
                let allowed = decision.is_allowed();
                let charged = if allowed { decision.cost() } else { 0 };
                self.write(record, t_ns, || Answer { charged: Some(charged), ..(&decision).into() })?;
                if charged > 0 {
                    self.admissions.insert(key, id, Charge::Limits(decision.receipt()));
                }
                self.counts.add(key, t_ns, allowed);
            }
            Op::Debit => match limiter.debit(key, cost, t_ns) {
                Ok(decision) => {
                    let charged = decision.cost();
                    self.write(record, t_ns, || Answer { charged: Some(charged), ..(&decision).into() })?;
                    if charged > 0 {
                        self.admissions.insert(key, id, Charge::Limits(decision.receipt()));
                    }
                    self.counts.add(key, t_ns, true);
                }
                Err(DebitError::Full) => {
                    let refusal = limiter.peek(key, 1, t_ns);
                    self.write(record, t_ns, || Answer { charged: Some(0), ..(&refusal).into() })?;
                    self.counts.add(key, t_ns, false);
                }
                Err(_) => return Err(self.no_debts(record)),
            },
            Op::Credit => self.counts.credit(limiter.credit(key, cost, t_ns)),
            Op::Peek => self.write(record, t_ns, || (&limiter.peek(key, cost, t_ns)).into())?,
            Op::Reserve => {
                let reservation = limiter.reserve(key, cost, record.max_wait_ns, t_ns);
                let reservation = reservation.map_err(|_| self.no_turns(record))?;
                self.write(record, t_ns, || match &reservation {
                    Err(refusal) => refusal.clone(),
                    // Of several limits the reservation's decision is one at the departure.
                    Ok(reserved) => Answer {
                        delay_ns: nanos(reserved.delay()),
                        ..Answer::from(&limiter.peek(key, 0, t_ns))
                    },
                })?;
                self.counts.add(key, t_ns, reservation.is_ok());
                if let Ok(reservation) = reservation
                    && cost > 0
                {
                    self.reservations.insert(key, id, reservation);
                }
            }
            Op::Refund => {
                let admission = self.admissions.take(key, id);
                self.counts.give_back(admission.map(|charge| limiter.refund(charge, cost, t_ns)));
            }
            Op::Cancel => {
                let reservation = self.reservations.take(key, id);
                self.counts.give_back(reservation.map(|reservation| limiter.cancel(reservation, t_ns)));
            }
            Op::Reset => {
                limiter.reset(key, t_ns);
                // The reset already gave these back.
                self.admissions.forget(key);
                self.reservations.forget(key);
            }
        }
        Ok(())
    }

    /// Applies a check or a peek that brings its quota.
    fn call_step(
        &mut self,
        limiter: &ReplayLimiter,
        record: &Record<'_>,
        quota: CallQuota,
        t_ns: u64,
    ) -> Result<(), Failure> {
        let is_peek = record.op == Op::Peek;
        let called = limiter.call(record.key, (quota, record.cost), is_peek, t_ns);
        let (answer, receipt) = called.map_err(|failure| match failure {
            CallFailure::Unbuilt(error) => Failure::Usage(error.to_string()),
            CallFailure::Full { max_keys } => {
                let why =
                    format!("the table has no room for another key: raise max_keys, which is {max_keys}");
                self.cannot(record, "no answer by its quota", &why)
            }
        })?;
        let allowed = answer.allowed;
        self.write(record, t_ns, || answer)?;
        if !is_peek {
            if allowed && record.cost > 0 {
                self.admissions.insert(record.key, record.id, Charge::Call(receipt));
            }
            self.counts.add(record.key, t_ns, allowed);
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

    /// Names the line that asks for a turn where there are none, and what to use instead.
    fn no_turns(&self, record: &Record<'_>) -> Failure {
        self.cannot(
            record,
            "`reserve`: there are no turns",
            "windows have none, nor has a queue beside other limits. Give a token-bucket or a leaky-bucket, or \
             use `check` in the trace",
        )
    }

    /// Names the line that debits a log, and what to use instead.
    fn no_debts(&self, record: &Record<'_>) -> Failure {
        self.cannot(
            record,
            "`debit`: there are no debts",
            "a sliding log keeps no more units than its limit. Give another algorithm, or use `check_up_to` in \
             the trace",
        )
    }

    fn cannot(&self, record: &Record<'_>, what: &str, why: &str) -> Failure {
        let name = self.source_names.get(record.file).map_or("", String::as_str);
        let limits: Vec<String> = self.limits.iter().map(Limit::to_string).collect();
        Failure::Usage(format!("{name}:{}: {what} under {}: {why}", record.line, limits.join(" and ")))
    }
}
