//! What the store answers, and the receipt of what it charged.

use std::fmt;
use std::ops::Deref;
use std::slice;
use std::time::Duration;

use redis::Value;
use tollgate::Outcome;
use tollgate_rules::StoreReply;

use crate::Failed;
use crate::deny::Fingerprint;
use crate::fallback::LocalReceipt;
use crate::id::ChargeId;
use crate::lease::LeasedPermits;

/// The numbers of a request in a script's answer, before those of its limits.
const HEAD: usize = 4;

/// The numbers of a limit in a script's answer.
const EACH: usize = 8;

/// The answer to one request.
///
/// All times are in whole microseconds, rounded up. A decision is neither `Copy` nor `Clone`, so
/// that there is one receipt of a request.
///
/// # Examples
///
/// ```no_run
/// # async fn example(login: &tollgate_redis::Limiter) -> Result<(), tollgate_redis::Failed> {
/// let answer = login.check("alice").await?;
/// if answer.is_allowed() {
///     println!("{} of {} are left", answer.remaining(), answer.limit());
/// } else {
///     println!("refused by limit {:?}: wait {:?}", answer.refused_by(), answer.retry_after());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "an answer that is not looked at limits nothing"]
#[derive(Debug)]
pub struct Answer {
    outcome: Outcome,
    cost: u64,
    refused_by: Option<u8>,
    decided_by: DecidedBy,
    limits: Parts,
    receipt: Option<Receipt>,
}

/// What decided a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecidedBy {
    /// The store, for this request.
    Store,
    /// A permit that this process had taken ahead: [`Mode::Leased`](crate::Mode::Leased).
    Lease,
    /// A refusal of the store that this process remembered.
    DenyCache,
    /// A limiter of this process, while the store does not answer.
    Local,
    /// [`OnFailure::Allow`](crate::OnFailure::Allow) or [`Refuse`](crate::OnFailure::Refuse), while
    /// the store does not answer.
    OnFailure,
    /// Nothing: the limiter is in [shadow mode](crate::LimiterBuilder::shadow), and its real answer
    /// is only counted.
    Shadow,
}

impl DecidedBy {
    /// All of them, for metrics.
    pub const ALL: [Self; 6] =
        [Self::Store, Self::Lease, Self::DenyCache, Self::Local, Self::OnFailure, Self::Shadow];

    /// Its number in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The part of one limit in an [`Answer`].
///
/// If one of several limits refuses, the others are not charged, and their numbers are those
/// without the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitAnswer {
    /// Whether this limit admits the request.
    pub outcome: Outcome,
    /// The most that the limit admits at once.
    pub limit: u64,
    /// How much it would admit now, after the request.
    pub remaining: u64,
    /// How long until it admits the request, if it refuses.
    pub retry_after: Option<Duration>,
    /// How long until the key is as good as new, if no request comes.
    pub reset_after: Duration,
    /// How long the admitted request waits for its departure.
    pub delay: Duration,
}

/// The parts of all limits. Most limiters have one, which takes no allocation.
pub(crate) enum Parts {
    One(LimitAnswer),
    Several(Box<[LimitAnswer]>),
}

impl Deref for Parts {
    type Target = [LimitAnswer];

    fn deref(&self) -> &[LimitAnswer] {
        match self {
            Self::One(part) => slice::from_ref(part),
            Self::Several(parts) => parts,
        }
    }
}

impl From<LimitAnswer> for Parts {
    fn from(part: LimitAnswer) -> Self {
        Self::One(part)
    }
}

impl FromIterator<LimitAnswer> for Parts {
    fn from_iter<I: IntoIterator<Item = LimitAnswer>>(parts: I) -> Self {
        let mut parts = parts.into_iter();
        match (parts.next(), parts.size_hint()) {
            (Some(part), (_, Some(0))) => Self::One(part),
            (first, _) => Self::Several(first.into_iter().chain(parts).collect()),
        }
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// What an admitted request was charged, and may give back once:
/// [`Limiter::refund`](crate::Limiter::refund).
///
/// That of a permit taken ahead gives it back to this process, where another request may spend it
/// or it goes back with the rest. After the permit's ttl, nothing comes back by it.
///
/// A receipt is neither `Copy` nor `Clone`, and dropping it keeps the charge. After a
/// [reset](crate::Limiter::reset) of its key, nothing comes back by it.
#[must_use = "a receipt that is dropped gives nothing back"]
pub struct Receipt {
    /// The limiter's number in this process.
    pub(crate) limiter: u64,
    pub(crate) cost: u64,
    pub(crate) charge: Charge,
}

/// Where a request was charged.
pub(crate) enum Charge {
    /// In the store. Large: an answer is copied around.
    Store(Box<StoreCharge>),
    /// By the local limiters.
    Local(LocalReceipt),
    /// Of a lease's permits.
    Lease(LeasedPermits),
}

/// What finds a charge in the store again.
#[derive(Clone)]
pub(crate) struct StoreCharge {
    /// The names of the charged keys.
    pub(crate) keys: Vec<String>,
    pub(crate) id: ChargeId,
    /// When it was charged, in microseconds.
    pub(crate) at: u64,
    /// How many parts were given back.
    pub(crate) parts: u32,
    /// When a reservation departs: from then on nothing comes back.
    pub(crate) departs: Option<u64>,
    /// For each limit, what finds the charge in the state.
    pub(crate) charges: Vec<[u64; 3]>,
    /// What the deny cache knows the key by.
    pub(crate) fingerprint: Fingerprint,
}

impl Receipt {
    /// The cost that was charged.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("cost", &self.cost).finish_non_exhaustive()
    }
}

impl Answer {
    /// Whether the request is admitted, refused for now, or can never be admitted.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the request is admitted.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.outcome == Outcome::Allowed
    }

    /// Whether the cost is above a limit, so that no wait will help.
    #[must_use]
    pub fn is_never(&self) -> bool {
        self.outcome == Outcome::Never
    }

    /// What the request asked for; of [`take`](crate::Limiter::take), how much was taken.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// How long until this request would be admitted, if no other request comes: refused one
    /// microsecond earlier, admitted then. `None` if it was admitted or never will be.
    ///
    /// Of a refused [reservation](crate::Limiter::reserve), how long it would wait for its turn.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let waits = || self.limits.iter().filter_map(|limit| limit.retry_after).max().unwrap_or_default();
        (self.outcome == Outcome::Denied).then(waits)
    }

    /// The number of the limit that refuses with the longest wait; of equals, the first.
    #[must_use]
    pub fn refused_by(&self) -> Option<usize> {
        self.refused_by.map(usize::from)
    }

    /// How much more all limits would admit now, after this request. Of a [permit taken
    /// ahead](DecidedBy::Lease), what the store had left when it was taken, and what this process
    /// still holds.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.limits.iter().map(|limit| limit.remaining).min().unwrap_or(0)
    }

    /// The most that can be admitted at once: the smallest of the limits.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limits.iter().map(|limit| limit.limit).min().unwrap_or(0)
    }

    /// How long until the key is as good as new in all limits, if no request comes.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.limits.iter().map(|limit| limit.reset_after).max().unwrap_or_default()
    }

    /// How long an admitted request waits before it acts: its departure from a queue, or the turn
    /// of a reservation. Otherwise zero.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.limits.iter().map(|limit| limit.delay).max().unwrap_or_default()
    }

    /// What decided.
    #[must_use]
    pub fn decided_by(&self) -> DecidedBy {
        self.decided_by
    }

    /// Each limit's part, in their order. Of a remembered refusal only the limit that refused; and
    /// one part for all limits if [`OnFailure`](DecidedBy::OnFailure) or
    /// [`Shadow`](DecidedBy::Shadow) decided.
    #[must_use]
    pub fn limits(&self) -> &[LimitAnswer] {
        &self.limits
    }

    /// What gives the charge back. `None` if nothing was charged.
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt
    }

    /// What a rule or a server hears: the numbers of the limit that refuses, or has the least left.
    pub(crate) fn into_reply(self) -> StoreReply<Receipt> {
        let is_blind = self.decided_by == DecidedBy::OnFailure;
        let least = || {
            let parts = self.limits.iter().enumerate();
            parts.min_by_key(|(_, part)| part.remaining).map(|(number, _)| number)
        };
        let number = self.refused_by().or_else(least).filter(|_| !is_blind);
        // Of a remembered refusal, and of a policy's answer, there is one part.
        let part = number.and_then(|number| self.limits.get(number)).or(self.limits.first());
        StoreReply {
            outcome: self.outcome,
            number,
            limit: part.map_or(u64::MAX, |part| part.limit),
            remaining: part.map_or(0, |part| part.remaining),
            retry_after: self.retry_after(),
            reset_after: part.map_or(Duration::ZERO, |part| part.reset_after),
            receipt: self.receipt,
        }
    }

    pub(crate) fn take_receipt(&mut self) -> Option<Receipt> {
        self.receipt.take()
    }

    /// Notes what the deny cache knows the key by, if the store has charged it.
    pub(crate) fn note(&mut self, fingerprint: Fingerprint) {
        if let Some(Receipt { charge: Charge::Store(charge), .. }) = &mut self.receipt {
            charge.fingerprint = fingerprint;
        }
    }

    /// An answer that is not the store's.
    pub(crate) fn without_store(
        decided_by: DecidedBy,
        outcome: Outcome,
        cost: u64,
        refused_by: Option<usize>,
        limits: Parts,
        receipt: Option<Receipt>,
    ) -> Self {
        let refused_by = refused_by.and_then(|number| u8::try_from(number).ok());
        Self { outcome, cost, refused_by, decided_by, limits, receipt }
    }
}

/// What a request asked for, to make a receipt of its charge.
pub(crate) struct Asked {
    pub(crate) limiter: u64,
    pub(crate) cost: u64,
    /// Whether the store may take less than the cost.
    pub(crate) takes: bool,
    pub(crate) keys: Vec<String>,
    pub(crate) id: ChargeId,
    /// Whether the verb charges what it admits.
    pub(crate) charges: bool,
    pub(crate) is_reservation: bool,
}

/// Reads the answer to the request at `place` of a script.
pub(crate) fn read(numbers: &[i64], place: usize, mosts: &[u64], asked: Asked) -> Result<Answer, Failed> {
    let size = HEAD + EACH * mosts.len();
    let unreadable = || Failed::answer("the script's answer is not complete");
    let (now, own) = (numbers.first(), numbers.get(1 + place * size..1 + (place + 1) * size));
    let (Some(&now), Some(own)) = (now, own) else { return Err(unreadable()) };
    let (&[verdict, number, _, taken], limits) = own.split_first_chunk().ok_or_else(unreadable)?;
    let cost = if asked.takes { whole(taken).min(asked.cost) } else { asked.cost };
    let parts = limits.chunks_exact(EACH).zip(mosts);
    let limits: Parts = parts
        .map(|(part, &limit)| LimitAnswer {
            outcome: outcome(part[0]),
            limit,
            remaining: whole(part[1]),
            retry_after: (part[0] == 0).then(|| micros(part[2])),
            reset_after: micros(part[3]),
            delay: micros(part[4]),
        })
        .collect();
    let outcome = outcome(verdict);
    let charged = asked.charges && outcome == Outcome::Allowed && cost > 0;
    let receipt = charged.then(|| {
        let delay = own[HEAD..].chunks_exact(EACH).map(|part| part[4]).max().unwrap_or(0);
        let charge = StoreCharge {
            keys: asked.keys,
            id: asked.id,
            at: whole(now),
            parts: 0,
            departs: asked.is_reservation.then(|| whole(now.saturating_add(delay))),
            charges: own[HEAD..].chunks_exact(EACH).map(|part| [5, 6, 7].map(|n| whole(part[n]))).collect(),
            fingerprint: Fingerprint::default(),
        };
        Receipt { limiter: asked.limiter, cost, charge: Charge::Store(Box::new(charge)) }
    });
    Ok(Answer {
        outcome,
        cost,
        refused_by: number.checked_sub(1).and_then(|number| u8::try_from(number).ok()),
        decided_by: DecidedBy::Store,
        limits,
        receipt,
    })
}

fn outcome(verdict: i64) -> Outcome {
    match verdict {
        1 => Outcome::Allowed,
        0 => Outcome::Denied,
        _ => Outcome::Never,
    }
}

/// A number of the script, none of which is negative.
fn whole(number: i64) -> u64 {
    number.max(0).unsigned_abs()
}

fn micros(number: i64) -> Duration {
    Duration::from_micros(whole(number))
}

/// The numbers of a script's answer: a row of doubles, all of them whole.
pub(crate) fn numbers(value: Value) -> Result<Vec<i64>, Failed> {
    let Value::BulkString(bytes) = value else {
        return Err(Failed::answer("the script's answer is no row of numbers"));
    };
    let (numbers, []) = bytes.as_chunks() else {
        return Err(Failed::answer("the script's answer ends within a number"));
    };
    let whole = |&bytes| match f64::from_le_bytes(bytes) {
        number if number.fract() == 0.0 => Ok(number as i64),
        _ => Err(Failed::answer("the script's answer has a number that is not whole")),
    };
    numbers.iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![
            Just(i64::MIN),
            Just(i64::MAX),
            -3..4_i64,
            any::<i64>(),
            1_700_000_000_000_000..1_800_000_000_000_000_i64
        ]
    }

    #[test]
    fn a_row_that_no_script_answers_is_an_error() {
        let row =
            |numbers: &[f64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(numbers(Value::BulkString(row(&[9e15, -1.0]))), Ok(vec![9_000_000_000_000_000, -1]));
        for nonsense in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5] {
            assert!(numbers(Value::BulkString(row(&[1.0, nonsense]))).is_err(), "{nonsense}");
        }
        assert!(numbers(Value::BulkString(row(&[1.0])[..7].to_vec())).is_err());
        assert!(numbers(Value::Array(vec![Value::Int(1)])).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn nonsense_charges_no_more_than_was_asked(
            numbers in prop::collection::vec(number(), 0..60),
            (place, limits) in (0_usize..3, 1_usize..4),
            (cost, takes, charges, is_reservation) in (0_u64..9, any::<bool>(), any::<bool>(), any::<bool>()),
        ) {
            let asked = Asked {
                limiter: 1,
                cost,
                takes,
                keys: vec![String::new(); limits],
                id: ChargeId::default(),
                charges,
                is_reservation,
            };
            let mosts = vec![10; limits];
            let size = 1 + (place + 1) * (HEAD + EACH * limits);
            match read(&numbers, place, &mosts, asked) {
                Err(_) => prop_assert!(numbers.len() < size, "it is complete"),
                Ok(answer) => {
                    prop_assert!(numbers.len() >= size && answer.cost() <= cost);
                    prop_assert!(answer.refused_by().is_none_or(|number| number < 256));
                    let _ = (answer.retry_after(), answer.reset_after(), answer.delay(), answer.remaining());
                    let charge = answer.into_receipt().map(|receipt| receipt.cost());
                    prop_assert!(charge.is_none_or(|charged| charges && charged <= cost));
                }
            }
        }
    }
}
