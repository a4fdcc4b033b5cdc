//! What an admitted request may still give back.

use std::fmt;
use std::sync::Arc;

use tollgate::{Clock, Receipt, TscClock};

use crate::set::allowance::Shared;
use crate::set::at_once::Guard;

/// What an admitted request may still give back: see [`Verdict::ticket`](crate::Verdict::ticket).
///
/// It borrows nothing. Dropping it keeps the charges, and gives back the places in flight:
/// keep it for as long as the request is served.
///
/// # Examples
///
/// Failed log-ins only:
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules::{Memory, PlainRequest, RuleSet, Scratch, read};
///
/// let text = "version = 1\nrule = [{ name = 'failed-logins', key = 'client', \
///     limits = 'fixed-window:1/min', charge_if.status = [401, 403] }]";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let set = RuleSet::new(rules, ManualClock::new())?;
/// let mut scratch = Scratch::default();
/// let login = PlainRequest { client: Some([203, 0, 113, 9].into()), ..PlainRequest::default() };
///
/// let mut ticket = set.check(&login, &mut scratch).ticket();
/// ticket.settle(200); // it did not fail: it is not charged
/// let mut ticket = set.check(&login, &mut scratch).ticket();
/// ticket.settle(401);
/// assert!(!set.check(&login, &mut scratch).is_admitted());
/// # Ok::<(), tollgate_rules::SetError>(())
/// ```
#[must_use = "a ticket that is dropped gives back the places in flight, and nothing else"]
pub struct Ticket<C = TscClock> {
    pub(super) charges: Vec<OwnedCharge<C>>,
    pub(super) guards: Vec<Guard>,
}

pub(super) struct OwnedCharge<C> {
    /// The index of the line.
    pub(super) line: usize,
    pub(super) shared: Arc<Shared<C>>,
    pub(super) receipt: Receipt<8>,
    pub(super) charge_if: Option<Arc<[u16]>>,
}

impl<C: Clock> Ticket<C> {
    /// Whether there is nothing to give back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.charges.is_empty() && self.guards.is_empty()
    }

    /// Tells the status of the response: rules with `charge_if` that do not list it give back what
    /// they charged. What remains charged stays so.
    ///
    /// The places in flight stay taken until the ticket is dropped.
    ///
    /// **Cost.** A [refund](tollgate::MultiLimiter::refund) for each rule that gives back.
    pub fn settle(&mut self, status: u16) {
        for OwnedCharge { shared, receipt, charge_if, .. } in self.charges.drain(..).rev() {
            if charge_if.is_some_and(|statuses| !statuses.contains(&status)) {
                shared.limiter.refund(receipt);
            }
        }
    }

    /// Gives back all that was charged, as far as the algorithms can: the request is not served.
    pub fn cancel(self) {
        self.cancel_each(|_| {});
    }

    /// [`cancel`](Self::cancel), which calls `kept` with the index, in
    /// [`Verdict::lines`](crate::Verdict::lines), of each line of which nothing came back. In a
    /// queue a later request has a turn then, and this one stays charged: another request may have
    /// it, by [`Ask::held`](crate::Ask::held).
    pub fn cancel_each(mut self, mut kept: impl FnMut(usize)) {
        for OwnedCharge { line, shared, receipt, .. } in self.charges.drain(..).rev() {
            if shared.limiter.refund(receipt) == 0 {
                kept(line);
            }
        }
    }
}

impl<C> fmt::Debug for Ticket<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("charges", &self.charges.len())
            .field("in_flight", &self.guards.len())
            .finish()
    }
}
