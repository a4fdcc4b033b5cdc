//! The cases in which a refund of the engine may differ from the model's: it may be less, with one
//! exception.
//!
//! The model remembers for each key what its refunds left, and until when reservations may depart.
//! The engine remembers it in fewer places, and for longer:
//!
//! * Keys may share a *mark*: then one key loses its order by another key's refunds, or is careful
//!   because of another key's reservations.
//! * A reset forgives the debt and keeps when refunds and reservations came. It also ends the
//!   receipts of the keys that share a mark with it.
//!
//! Only the token bucket, in each form, and the meter depend on these. A log's word tells whether
//! an admission is the newest by the time of the newest that ever was. So an admission that became
//! the newest again, by refunds of all later ones, is not refunded. The model counts units instead,
//! without a bound.
//!
//! A log that counts refusals may give back *more*: refusals at one time of twice the limit or more
//! bring its word to an earlier value. Then a refund removes refused requests, of at most as many
//! units as were admitted, so that no window exceeds the limit.

use tollgate::CountPolicy;
use tollgate_testing::limits::{Kind, Limit};

use super::script::{Action, Line, Said, Script};

/// The state that the keys of a limiter share.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    /// A mark of refunds out of order.
    pub(crate) marks: bool,
    /// Slots, with other keys: a key without debt is forgotten, and with it that its refunds came
    /// out of order. Then a refund may be more than the model's, but never more than the charge.
    pub(crate) slots: bool,
}

impl Shared {
    pub(crate) const NOTHING: Self = Self { marks: false, slots: false };
    pub(crate) const ALL: Self = Self { marks: true, ..Self::NOTHING };
    pub(crate) const ALL_WITH_STRANGERS: Self = Self { slots: true, ..Self::ALL };

    /// Returns the most units of the refund in line `number`, if it may differ from the model's.
    pub(crate) fn leeway(self, limit: &Limit, script: &Script, number: usize) -> Option<u64> {
        let line = &script.lines[number];
        let (Action::Refund(taken) | Action::Part(taken, _) | Action::Cancel(taken), Said::Back(back)) =
            (line.action, line.right)
        else {
            return None;
        };
        let asked = if let Action::Part(_, units) = line.action { units } else { u64::MAX };
        if self.slots
            && let Action::Check(cost)
            | Action::Reserve { cost, .. }
            | Action::UpTo { units: cost, .. }
            | Action::Debit(cost) = script.lines[taken].action
        {
            return Some(cost.min(asked));
        }
        let is_reset = |other: &Line| other.key != line.key && matches!(other.action, Action::Reset);
        if self.marks && script.lines[taken..number].iter().any(is_reset) {
            return Some(back);
        }
        let since = |from: usize| script.lines[from..number].iter().filter(|other| other.key == line.key);
        match limit.kind {
            Kind::Bucket | Kind::Meter | Kind::Intervals => {
                self.may_give_less(limit, script, number, taken).then_some(back)
            }
            Kind::Log => {
                let (Action::Check(cost) | Action::UpTo { units: cost, .. }) = script.lines[taken].action
                else {
                    return None;
                };
                let logged: u128 = since(taken + 1).map(logged(limit)).sum();
                let lapped = limit.policy == CountPolicy::All && logged >= 2 * u128::from(limit.count);
                if lapped { Some(cost.min(asked)) } else { since(taken + 1).any(gives_back).then_some(back) }
            }
            _ => None,
        }
    }

    /// For a bucket. It depends on reservations only if its own mark is not older than the charge,
    /// or if it owes more than its burst, as a debit may leave it.
    fn may_give_less(self, limit: &Limit, script: &Script, number: usize, taken: usize) -> bool {
        let (key, charged) = (script.lines[number].key, script.lines[taken].at);
        let before = &script.lines[..number];
        let reset = before.iter().rposition(|line| line.key == key && matches!(line.action, Action::Reset));
        let (forgiven, since) = before.split_at(reset.unwrap_or(0));
        let mine =
            |lines: &[Line], is: &dyn Fn(&Line) -> bool| lines.iter().any(|line| line.key == key && is(line));
        let others = |is: &dyn Fn(&Line) -> bool| before.iter().any(|line| line.key != key && is(line));
        // A grain may be longer than a nanosecond.
        let marks = |line: &Line| gives_back(line) && line.at + grain(limit, script) >= charged;
        let books = |line: &Line| matches!(line.action, Action::Reserve { .. });
        let elsewhere = |is| self.marks && others(is) || mine(forgiven, is);
        let debits = |line: &Line| matches!(line.action, Action::Debit(_));
        elsewhere(&marks) || (mine(since, &marks) || mine(since, &debits)) && elsewhere(&books)
    }
}

/// Returns the units that a check leaves in a log that counts refusals.
fn logged(limit: &Limit) -> impl Fn(&Line) -> u128 {
    let most = limit.most();
    move |line| match line.action {
        Action::Check(cost) if cost <= most => cost.into(),
        Action::UpTo { units, .. } => units.into(),
        _ => 0,
    }
}

fn gives_back(line: &Line) -> bool {
    let gives = |action| {
        matches!(action, Action::Refund(_) | Action::Part(..) | Action::Cancel(_) | Action::Credit(_))
    };
    gives(line.action) && line.right != Said::Given(0)
}

/// Returns the nanoseconds of a grain, or of what else the clock counts.
fn grain(limit: &Limit, script: &Script) -> u64 {
    match limit.kind {
        Kind::Intervals => limit.period,
        _ => script.resolution.grains.map_or(0, |grains| limit.period / limit.count.saturating_mul(grains)),
    }
}
