//! The engine, as the programs call it: every call into `tollgate` is in this file, in those below
//! it and in `clock`.

pub(crate) mod joint;
mod later;

use std::time::Duration;

use tollgate::{
    BuildError, Decision, GlobalLimiter, Inherit, Limiter, MOST_LIMITS, ManualClock, Part, Quota, Receipt,
    ReserveError, Stats, Timestamp, WhenFull,
};
use tollgate_testing::clocks::Hooked;
use tollgate_testing::keys::Placed;

use super::limits::{Limit, ORIGIN};
pub(crate) use later::{Lent, Turn};

/// The keys of a program.
pub(crate) const KEYS: usize = 3;

/// Which limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A limiter with keys. Its limits are its tiers.
    Keyed,
    /// A limiter for each key, without keys.
    Global,
    /// A limiter with keys and several limits.
    Multi,
    /// The same, and beside it a limiter of one quota, which is asked for as tier 1: the last of
    /// the limits.
    Beside,
}

impl Sort {
    /// Whether a request of tier 0 meets several limits.
    pub(crate) fn is_list(self) -> bool {
        matches!(self, Self::Multi | Self::Beside)
    }
}

/// What room its tables have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// For all keys.
    Enough,
    /// They grow.
    Growing,
    /// One bucket, for which too many keys come.
    Full(WhenFull),
}

/// How a key is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    At,
    Prepared,
}

/// A limiter, or one for each key.
pub(crate) enum Engine {
    Keyed(Box<One>),
    Global(Box<[GlobalLimiter<Quota, 1, Hooked>]>),
    /// A list of limits, and what is beside it.
    Multi(Box<Limiter<Placed, Quota, MOST_LIMITS, Hooked>>, Option<Box<One>>),
}

type One = Limiter<Placed, Quota, 1, Hooked>;

fn placed(key: usize) -> Placed {
    stranger(u64::MAX - key as u64)
}

/// How many keys a full table has room for.
pub(crate) const ROOM: usize = 2 * 15;

/// A key that no verb names. In a table of four buckets, all keys are in two.
fn stranger(number: u64) -> Placed {
    let mixed = (number ^ 0x5851_F42D_4C95_7F2D).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Placed((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1)
}

/// What an answer says. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) allowed: bool,
    pub(crate) never: bool,
    pub(crate) retry_after: Option<u64>,
    pub(crate) reset_after: u64,
    pub(crate) delay: u64,
    /// Of each limit.
    pub(crate) remaining: Vec<u64>,
    /// How many of several limits refuse because their tables are full.
    pub(crate) full: u64,
}

/// What can give back.
pub(crate) enum Kept {
    One(Receipt),
    Many(Receipt<8>),
}

impl From<Receipt> for Kept {
    fn from(receipt: Receipt) -> Self {
        Self::One(receipt)
    }
}

impl Kept {
    /// How many units may still come back.
    pub(crate) fn left(&self) -> u64 {
        match self {
            Self::One(receipt) => receipt.left(),
            Self::Many(receipt) => receipt.left(),
        }
    }
}

impl From<Receipt<8>> for Kept {
    fn from(receipt: Receipt<8>) -> Self {
        Self::Many(receipt)
    }
}

fn told<const N: usize>(decision: &Decision<'_, N>) -> Told {
    let refuses_full = |part: &Part<'_>| N > 1 && part.refuses_full();
    Told {
        allowed: decision.is_allowed(),
        never: decision.is_never(),
        retry_after: decision.retry_after().map(nanos),
        reset_after: nanos(decision.reset_after()),
        delay: nanos(decision.delay()),
        remaining: decision.parts().map(|part| part.remaining()).collect(),
        full: decision.parts().filter(refuses_full).count() as u64,
    }
}

fn both<const N: usize>(decision: Decision<'_, N>) -> (Told, Kept)
where
    Receipt<N>: Into<Kept>,
{
    (told(&decision), decision.receipt().into())
}

fn with_cost<const N: usize>(decision: Decision<'_, N>) -> (Told, u64, Kept)
where
    Receipt<N>: Into<Kept>,
{
    let cost = decision.cost();
    let (told, kept) = both(decision);
    (told, cost, kept)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("it fits")
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Does something with a prepared key of whichever limiter.
macro_rules! prepared {
    ($engine:expr, $key:expr, $tier:expr, |$it:ident| $does:expr) => {
        match $engine {
            Engine::Keyed(limiter) => {
                let $it = match $tier {
                    0 => limiter.account(&placed($key)),
                    tier => limiter.account(&placed($key)).tier(tier).expect("it has that tier"),
                };
                $does
            }
            Engine::Global(limiters) => {
                let $it = limiters[$key].account(());
                $does
            }
            Engine::Multi(limiter, beside) => match beside {
                Some(beside) if $tier == 1 => {
                    let $it = beside.account(&placed($key));
                    $does
                }
                _ => {
                    let $it = limiter.account(&placed($key));
                    $does
                }
            },
        }
    };
}

impl Engine {
    /// The limits are the tiers of a keyed limiter, the limits of a multi limiter, and one for the
    /// others.
    pub(crate) fn new(sort: Sort, room: Room, limits: &[Limit], clock: &Hooked) -> Self {
        Self::from_file(sort, room, limits, clock, None)
    }

    fn from_file(
        sort: Sort,
        room: Room,
        limits: &[Limit],
        clock: &Hooked,
        files: Option<&[Vec<u8>]>,
    ) -> Self {
        let max_keys = match room {
            Room::Enough => 64,
            Room::Growing => 5_000,
            Room::Full(_) => 1,
        };
        let when_full = if let Room::Full(when_full) = room { when_full } else { WhenFull::Deny };
        let quotas: Vec<Quota> = limits.iter().map(|limit| limit.quota()).collect();
        match sort {
            Sort::Keyed => {
                let builder = Limiter::builder(quotas[0]).per().max_keys(max_keys).when_full(when_full);
                let builder = quotas[1..].iter().fold(builder, |builder, quota| builder.tier(*quota));
                let builder = builder.clock(clock.clone()).memory_budget(usize::MAX);
                Self::Keyed(Box::new(match files {
                    None => builder.build().expect("the limits are valid"),
                    Some(files) => builder.restore(&files[0][..]).expect("it was saved just now"),
                }))
            }
            Sort::Global => Self::Global(Box::from_iter((0..KEYS).map(|key| {
                let builder = Limiter::builder(quotas[0]).clock(clock.clone()).memory_budget(usize::MAX);
                match files {
                    None => builder.build().expect("the limits are valid"),
                    Some(files) => builder.restore(&files[key][..]).expect("it was saved just now"),
                }
            }))),
            Sort::Multi | Sort::Beside => {
                let beside = (sort == Sort::Beside).then(|| {
                    let limits = &limits[limits.len() - 1..];
                    match Self::from_file(Sort::Keyed, room, limits, clock, files.map(|files| &files[1..])) {
                        Self::Keyed(beside) => beside,
                        _ => unreachable!("it is of one quota"),
                    }
                });
                let list = quotas[..quotas.len() - beside.iter().len()].to_vec();
                let builder = Limiter::builder(list).per().max_keys(max_keys).when_full(when_full);
                let builder = builder.clock(clock.clone()).memory_budget(usize::MAX);
                let list = match files {
                    None => builder.build().expect("the limits are valid"),
                    Some(files) => builder.restore(&files[0][..]).expect("it was saved just now"),
                };
                Self::Multi(Box::new(list), beside)
            }
        }
    }

    /// Another limiter with the same debts.
    pub(crate) fn restored(&self, sort: Sort, room: Room, limits: &[Limit], clock: &Hooked) -> Self {
        let mut files = vec![Vec::new(); KEYS];
        match self {
            Self::Keyed(limiter) => drop(limiter.save(&mut files[0]).expect("it is written to memory")),
            Self::Global(limiters) => {
                for (limiter, file) in limiters.iter().zip(&mut files) {
                    limiter.save(file).expect("it is written to memory");
                }
            }
            Self::Multi(limiter, beside) => {
                limiter.save(&mut files[0]).expect("it is written to memory");
                if let Some(beside) = beside {
                    beside.save(&mut files[1]).expect("it is written to memory");
                }
            }
        }
        Self::from_file(sort, room, limits, clock, Some(&files))
    }

    pub(crate) fn check(&self, key: usize, tier: usize, cost: u64, way: Way) -> (Told, Kept) {
        match (way, self) {
            (Way::Plain, Self::Keyed(limiter)) if tier == 0 => both(limiter.check_n(placed(key), cost)),
            (Way::Plain, Self::Keyed(limiter)) => {
                both(limiter.account(placed(key)).tier(tier).expect("it has that tier").check_n(cost))
            }
            (Way::Plain, Self::Global(limiters)) => both(limiters[key].check_n((), cost)),
            (Way::Plain, Self::Multi(limiter, _)) if tier == 0 => both(limiter.check_n(placed(key), cost)),
            (Way::At, Self::Keyed(limiter)) if tier == 0 => {
                both(limiter.account(placed(key)).at(limiter.now()).check_n(cost))
            }
            (Way::At, Self::Multi(limiter, _)) if tier == 0 => {
                both(limiter.account(placed(key)).at(limiter.now()).check_n(cost))
            }
            (Way::At, _) => {
                let now = self.now();
                prepared!(self, key, tier, |it| both(it.at(now).check_n(cost)))
            }
            (Way::Plain | Way::Prepared, _) => prepared!(self, key, tier, |it| both(it.check_n(cost))),
        }
    }

    pub(crate) fn peek(&self, key: usize, tier: usize, cost: u64, now: u64) -> Told {
        prepared!(self, key, tier, |it| told(&it.at(at(now)).peek_n(cost)))
    }

    /// Checks these keys at cost 1 in one call; `None` when the limiter has no such call.
    pub(crate) fn batch(&self, keys: &[usize]) -> Option<Vec<(Told, Kept)>> {
        let keys: Vec<Placed> = keys.iter().map(|key| placed(*key)).collect();
        match self {
            Self::Keyed(limiter) => Some(limiter.check_many(&keys).map(both).collect()),
            Self::Global(_) => None,
            Self::Multi(limiter, _) => Some(limiter.check_many(&keys).map(both).collect()),
        }
    }

    /// Gives back all that the receipt still has.
    pub(crate) fn refund(&self, key: usize, kept: Kept) -> u64 {
        match (self, kept) {
            (Self::Keyed(limiter), Kept::One(receipt)) => limiter.refund(receipt),
            (Self::Global(limiters), Kept::One(receipt)) => limiters[key].account(()).refund(receipt),
            (Self::Multi(limiter, _), Kept::Many(receipt)) => limiter.refund(receipt),
            (Self::Multi(..), mut kept) => self.refund_part(key, &mut kept, u64::MAX),
            _ => unreachable!("a receipt is of its own sort of limiter"),
        }
    }

    pub(crate) fn refund_part(&self, key: usize, kept: &mut Kept, units: u64) -> u64 {
        match (self, kept) {
            (Self::Keyed(limiter), Kept::One(receipt)) => limiter.refund_part(receipt, units),
            (Self::Global(limiters), Kept::One(receipt)) => {
                limiters[key].account(()).refund_part(receipt, units)
            }
            (Self::Multi(limiter, _), Kept::Many(receipt)) => limiter.refund_part(receipt, units),
            // The other limiter's gives nothing.
            (Self::Multi(limiter, beside), Kept::One(receipt)) => {
                let back = limiter.refund_part(receipt, units);
                back + beside.iter().map(|beside| beside.refund_part(receipt, units)).sum::<u64>()
            }
            _ => unreachable!("a receipt is of its own sort of limiter"),
        }
    }

    pub(crate) fn reserve(
        &self,
        key: usize,
        tier: usize,
        cost: u64,
        max_wait: u64,
    ) -> Result<Box<dyn Turn<'_> + '_>, ReserveError> {
        let max_wait = Duration::from_nanos(max_wait);
        prepared!(self, key, tier, |it| Ok(Box::new(it.reserve(cost, max_wait)?)))
    }

    pub(crate) fn lease(&self, key: usize, tier: usize, permits: u64, ttl: u64) -> Box<dyn Lent + '_> {
        let ttl = Duration::from_nanos(ttl);
        prepared!(self, key, tier, |it| Box::new(it.lease().permits(permits).ttl(ttl)))
    }

    /// Takes what there is, at most so much, and says how much that was.
    pub(crate) fn up_to(&self, key: usize, tier: usize, most: u64) -> (Told, u64, Kept) {
        prepared!(self, key, tier, |it| with_cost(it.check_up_to(most)))
    }

    /// `None`: the limits keep no debts, or there is no room.
    pub(crate) fn debit(&self, key: usize, tier: usize, cost: u64) -> Option<(Told, u64, Kept)> {
        prepared!(self, key, tier, |it| it.debit(cost).ok().map(with_cost))
    }

    pub(crate) fn credit(&self, key: usize, tier: usize, units: u64) -> u64 {
        prepared!(self, key, tier, |it| it.credit(units))
    }

    pub(crate) fn reset(&self, key: usize, tier: usize) -> bool {
        prepared!(self, key, tier, |it| it.reset())
    }

    /// Makes these limits current; `only` the one of this number, the others are as they were.
    pub(crate) fn change(
        &self,
        limits: &[Limit],
        only: Option<usize>,
        inherit: Inherit,
    ) -> Result<(), BuildError> {
        let quotas: Vec<Quota> = limits.iter().map(|limit| limit.quota()).collect();
        match (self, only) {
            (Self::Keyed(limiter), Some(0)) => limiter.change().to(quotas[0]).inherit(inherit).apply(),
            (Self::Keyed(limiter), _) => {
                let tiers = quotas.into_iter().enumerate();
                let change = tiers.fold(limiter.change(), |change, (tier, quota)| change.tier(tier, quota));
                change.inherit(inherit).apply()
            }
            (Self::Global(limiters), _) => limiters
                .iter()
                .try_for_each(|limiter| limiter.change().to(quotas[0]).inherit(inherit).apply()),
            (Self::Multi(limiter, None), None) => limiter.change().to(quotas).inherit(inherit).apply(),
            (Self::Multi(limiter, None), Some(number)) => {
                limiter.change().limit(number, quotas[number]).inherit(inherit).apply()
            }
            // Of both or of none. The quotas that stay are changed to what they are.
            (Self::Multi(limiter, Some(beside)), only) => {
                let last = quotas.len() - 1;
                let of_list = match only {
                    None => limiter.change().to(quotas[..last].to_vec()).inherit(inherit),
                    Some(number) if number < last => {
                        limiter.change().limit(number, quotas[number]).inherit(inherit)
                    }
                    Some(_) => limiter.change().limit(0, quotas[0]).inherit(Inherit::Additive),
                };
                let is_beside = only.is_none_or(|only| only == last);
                let inherit = if is_beside { inherit } else { Inherit::Additive };
                let of_other = beside.change().to(quotas[last]).inherit(inherit);
                of_list.check().and_then(|()| of_other.check())?;
                of_list.apply().and_then(|()| of_other.apply())
            }
        }
    }

    /// So many new keys, counted from `first`, take all that they can get. Returns how many are
    /// admitted.
    pub(crate) fn strangers(&self, first: u64, count: u64, most: u64) -> usize {
        let is_admitted = |number: &u64| match self {
            Self::Keyed(limiter) => limiter.check_n(stranger(*number), most).is_allowed(),
            Self::Global(_) => false,
            Self::Multi(limiter, beside) => {
                if let Some(beside) = beside {
                    let _ = beside.account(stranger(*number)).check_up_to(most);
                }
                limiter.check_n(stranger(*number), most).is_allowed()
            }
        };
        (first..first + count).filter(is_admitted).count()
    }

    /// How many refusals full buckets have counted, and admissions by what their keys share.
    pub(crate) fn full(&self) -> u64 {
        self.stats().iter().map(|stats| stats.refused_full + stats.shared).sum()
    }

    fn stats(&self) -> Vec<Stats> {
        match self {
            Self::Keyed(limiter) => vec![limiter.stats()],
            Self::Global(limiters) => limiters.iter().map(|limiter| limiter.stats()).collect(),
            Self::Multi(limiter, beside) => {
                std::iter::once(limiter.stats()).chain(beside.iter().map(|beside| beside.stats())).collect()
            }
        }
    }

    /// How many units charges that were undone may have kept, where other units came back at the
    /// same time: of each limiter.
    pub(crate) fn short(&self) -> Vec<u64> {
        self.stats().iter().map(|stats| stats.refunds_short).collect()
    }

    /// How often a full bucket has admitted a request and counted nothing.
    pub(crate) fn uncounted(&self) -> u64 {
        self.stats().iter().map(|stats| stats.admitted_uncounted).sum()
    }

    /// How many keys are in debt, where a table has them.
    pub(crate) fn live_keys(&self) -> usize {
        match self {
            Self::Keyed(limiter) => limiter.usage().live_keys,
            Self::Global(_) => 0,
            Self::Multi(limiter, beside) => {
                let beside = beside.iter().map(|beside| beside.usage().live_keys);
                limiter.usage().live_keys + beside.sum::<usize>()
            }
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Keyed(limiter) => limiter.now(),
            Self::Global(limiters) => limiters[0].now(),
            Self::Multi(limiter, _) => limiter.now(),
        }
    }
}

/// A clock at zero.
pub(crate) fn clock() -> Hooked {
    Hooked(ManualClock::starting_at(Duration::from_nanos(ORIGIN)))
}

/// Sets it.
pub(crate) fn set(clock: &Hooked, now: u64) {
    clock.0.set(at(now));
}
