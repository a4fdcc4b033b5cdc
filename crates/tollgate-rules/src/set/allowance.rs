//! The limiters behind a rule.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Algorithm, BuildError, Builder, CallQuota, Clock, CountPolicy, Limiter, MOST_LIMITS, Quota, Receipt,
    Stats, Timestamp, Usage, WhenFull,
};

use crate::rule::{Cost, Key, Limit, Limits, Mode, Rule, Tier};
use crate::set::SetError;
use crate::set::at_once::AtOnce;
use crate::set::ban::Bans;

/// A rule with its limiters.
pub(crate) struct Limited<C> {
    pub(crate) is_shadow: bool,
    /// Whether the rule says what a request costs.
    pub(crate) is_costed: bool,
    pub(crate) charge_if: Option<Arc<[u16]>>,
    pub(crate) max_wait: Duration,
    pub(crate) bans: Option<Arc<Bans<C>>>,
    /// How long a ban lasts.
    pub(crate) ban_length: Duration,
    /// The rule's own allowance, and those of its tiers.
    pub(crate) allowances: Box<[Allowance<C>]>,
}

/// What the limits of a rule, or of one of its tiers, admit.
pub(crate) struct Allowance<C> {
    pub(crate) kind: Kind,
    /// The limits by time. Also of a rule that became [`Kind::Unlimited`] or [`Kind::Block`] by a
    /// reload: when its limits come back, no debt is forgotten.
    pub(crate) quotas: Option<Current<C>>,
    /// The limits of requests in flight.
    pub(crate) at_once: Box<[CurrentAtOnce]>,
    /// All requests charge by ascending rank. What can be undone only in part is charged last.
    pub(crate) rank: Rank,
    /// Whether the rule limits by buckets and windows of the key and by nothing else.
    pub(crate) is_brief: bool,
}

/// The place of an allowance in the order of charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// How much of a charge may have to stay when another request was charged since.
    pub(crate) reluctance: u8,
    pub(crate) number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Each,
    Unlimited,
    Block,
    /// A store keeps the counts.
    Stored,
}

/// The limiter of an allowance, and the quotas by which this generation of rules knows it.
pub(crate) struct Current<C> {
    pub(crate) shared: Arc<Shared<C>>,
    pub(crate) quotas: Box<[Quota]>,
    /// Whether a limit is a queue, which may make a request wait.
    pub(crate) may_queue: bool,
    /// Whether a limit counts the requests that it refuses.
    pub(crate) counts_refusals: bool,
}

/// A limiter that generations of a rule share.
#[expect(clippy::large_enum_variant, reason = "each is in an `Arc` of its own")]
pub(crate) enum Shared<C> {
    /// By the rule's own quotas.
    Own {
        limiter: Limiter<[u8], Quota, MOST_LIMITS, C>,
        /// The quotas of which it was built: the ring of a log never grows.
        built: Box<[Quota]>,
    },
    /// By quotas that come with requests.
    PerRequest(Limiter<[u8], CallQuota, 1, C>),
}

impl<C> Shared<C> {
    /// The limiter by the rule's own quotas, if it is one.
    #[inline]
    pub(crate) fn own(&self) -> Option<&Limiter<[u8], Quota, MOST_LIMITS, C>> {
        match self {
            Self::Own { limiter, .. } => Some(limiter),
            Self::PerRequest(_) => None,
        }
    }

    /// The limiter by quotas that come with requests, if it is one.
    pub(crate) fn per_request(&self) -> Option<&Limiter<[u8], CallQuota, 1, C>> {
        match self {
            Self::Own { .. } => None,
            Self::PerRequest(limiter) => Some(limiter),
        }
    }
}

impl<C: Clock + 'static> Shared<C> {
    /// Gives back a charge of a request that was decided at this time.
    pub(crate) fn refund_at(&self, receipt: Receipt, now: Timestamp) -> u64 {
        match self {
            Self::Own { limiter, .. } => limiter.refund_at(receipt, now),
            Self::PerRequest(limiter) => limiter.refund_at(receipt, now),
        }
    }

    /// Gives back up to so many units of a charge. Returns how many.
    pub(crate) fn refund_part<const N: usize>(&self, receipt: &mut Receipt<N>, units: u64) -> u64 {
        match self {
            Self::Own { limiter, .. } => limiter.refund_part(receipt, units),
            Self::PerRequest(limiter) => limiter.refund_part(receipt, units),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        match self {
            Self::Own { limiter, .. } => limiter.stats(),
            Self::PerRequest(limiter) => limiter.stats(),
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        match self {
            Self::Own { limiter, .. } => limiter.usage(),
            Self::PerRequest(limiter) => limiter.usage(),
        }
    }
}

/// A limit of requests in flight, with the numbers of this generation.
pub(crate) struct CurrentAtOnce {
    pub(crate) shared: Arc<AtOnce>,
    pub(crate) most: u64,
    pub(crate) ttl: Option<Duration>,
}

impl<C> Current<C> {
    pub(crate) fn new(shared: Arc<Shared<C>>, quotas: Box<[Quota]>) -> Self {
        let may_queue = quotas.iter().any(Quota::is_queue);
        let counts_refusals = quotas.iter().any(|quota| quota.count_policy() == CountPolicy::All);
        Self { shared, quotas, may_queue, counts_refusals }
    }
}

/// How many keys the tables of a rule are built for; `None`: the engine's default.
pub(crate) fn max_keys(rule: &Rule) -> Option<usize> {
    // None at all is the builder's error.
    if rule.key == Key::Everyone { Some(rule.max_keys.unwrap_or(1).min(1)) } else { rule.max_keys }
}

/// How a table is built.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) max_keys: Option<usize>,
    when_full: WhenFull,
}

impl Room {
    /// That of a rule, or of one of its tiers.
    pub(crate) fn of(rule: &Rule, tier: Option<&Tier>) -> Self {
        let own = tier.and_then(|tier| tier.max_keys);
        Self { max_keys: own.or(max_keys(rule)), when_full: rule.when_full }
    }

    /// A builder of such a table. What all rules may take is checked for all of them.
    pub(crate) fn apply<A: Algorithm, const N: usize, C: Clock>(
        self,
        builder: Builder<[u8], A, N, C>,
    ) -> Builder<[u8], A, N, C> {
        let builder = builder.when_full(self.when_full).memory_budget(usize::MAX);
        if let Some(keys) = self.max_keys { builder.max_keys(keys) } else { builder }
    }
}

/// So many at once, each for this time at most.
pub(crate) type MostAtOnce = (u64, Option<Duration>);

/// The quotas among limits, and the limits of requests in flight.
pub(crate) fn parts(limits: &[Limit]) -> (Box<[Quota]>, Vec<MostAtOnce>) {
    let quota = |limit: &Limit| if let Limit::Quota(quota) = limit { Some(*quota) } else { None };
    let at_once = |limit: &Limit| match limit {
        Limit::InFlight { most, ttl } => Some((*most, *ttl)),
        Limit::Quota(_) => None,
    };
    (limits.iter().filter_map(quota).collect(), limits.iter().filter_map(at_once).collect())
}

impl<C> Allowance<C> {
    fn without_limiters(kind: Kind) -> Self {
        Self { kind, quotas: None, at_once: Box::default(), rank: Rank::default(), is_brief: false }
    }

    /// The limits by time, if requests are asked to keep them.
    #[inline]
    pub(crate) fn asked(&self) -> Option<&Current<C>> {
        self.quotas.as_ref().filter(|_| self.kind == Kind::Each)
    }
}

impl<C: Clock + Clone + 'static> Allowance<C> {
    /// Builds limiters that have seen no key.
    pub(crate) fn new(limits: &Limits, room: Room, clock: &C) -> Result<Self, BuildError> {
        let empty = Self::without_limiters;
        let limits = match limits {
            Limits::Each(limits) => limits,
            Limits::Unlimited => return Ok(empty(Kind::Unlimited)),
            Limits::Block => return Ok(empty(Kind::Block)),
            Limits::Elsewhere => return Ok(empty(Kind::Stored)),
            Limits::PerRequest => {
                // Each request that is limited brings its quota, so the limiter's own is any.
                let builder = Limiter::builder(CallQuota::from_nanos(1, 1)?).per().clock(clock.clone());
                let shared = Shared::PerRequest(room.apply(builder).build()?);
                let quotas = Some(Current::new(Arc::new(shared), Box::default()));
                return Ok(Self { quotas, ..empty(Kind::Each) });
            }
        };
        let (quotas, in_flight) = parts(limits);
        let at_once = |(most, ttl)| {
            Ok(CurrentAtOnce { shared: Arc::new(AtOnce::new(most, room.max_keys)?), most, ttl })
        };
        let at_once = in_flight.into_iter().map(at_once).collect::<Result<_, BuildError>>()?;
        let mut allowance = Self { at_once, ..empty(Kind::Each) };
        // No limit at all is the builder's error.
        if !quotas.is_empty() || allowance.at_once.is_empty() {
            let builder = Limiter::builder(quotas.to_vec()).per().clock(clock.clone());
            let shared = Shared::Own { limiter: room.apply(builder).build()?, built: quotas.clone() };
            allowance.quotas = Some(Current::new(Arc::new(shared), quotas));
        }
        Ok(allowance)
    }

    /// Whether it has only buckets and windows, which keep no request waiting and count no refusal.
    fn can_be_undone(&self) -> bool {
        let Some(Current { quotas, may_queue: false, counts_refusals: false, .. }) = self.asked() else {
            return false;
        };
        let is_brief = |quota: &Quota| !matches!(quota, Quota::SlidingLog(_) | Quota::SlidingWindow(_));
        // Without quotas, they come with requests.
        !quotas.is_empty() && quotas.iter().all(is_brief) && self.at_once.is_empty()
    }

    /// How much of a charge may have to stay when another request was charged since: buckets and
    /// windows undo any charge, a queue and a log the newest only.
    fn reluctance(&self) -> u8 {
        let of = |quota: &Quota| match quota {
            Quota::SlidingLog(_) => 2,
            quota => u8::from(quota.is_queue()),
        };
        let quotas = self.quotas.iter().flat_map(|current| &*current.quotas);
        quotas.map(of).max().unwrap_or(0)
    }
}

impl<C> Limited<C> {
    /// The allowance of a tier, or the rule's own.
    #[inline]
    pub(crate) fn allowance(&self, tier: Option<usize>) -> &Allowance<C> {
        &self.allowances[tier.map_or(0, |tier| tier + 1)]
    }
}

impl<C: Clock + 'static> Limited<C> {
    fn realign(&self, unix_at_zero: Duration) -> Result<(), BuildError> {
        let mut first = Ok(());
        for limits in self.allowances.iter().filter_map(|allowance| allowance.quotas.as_ref()) {
            if let Some(limiter) = limits.shared.own() {
                first = first.and(limiter.realign(unix_at_zero));
            }
        }
        first
    }
}

impl<C: Clock + Clone + 'static> Limited<C> {
    /// A rule whose limiters have seen no key.
    pub(crate) fn new(rule: &Rule, clock: &C) -> Result<Self, SetError> {
        let build = |limits: &Limits, tier: Option<&Tier>| {
            if rule.store.is_some() && matches!(limits, Limits::Each(_)) {
                return Ok(Allowance::without_limiters(Kind::Stored));
            }
            let tier_name = tier.map(|tier| tier.name.clone());
            let fail = |error| SetError::Limit { rule: rule.name.clone(), tier: tier_name, error };
            Allowance::new(limits, Room::of(rule, tier), clock).map_err(fail)
        };
        let own = std::iter::once(build(&rule.limits, None));
        let tiers = rule.tiers.iter().map(|tier| build(&tier.limits, Some(tier)));
        let allowances = own.chain(tiers).collect::<Result<_, _>>()?;
        let bans = match &rule.ban {
            Some(ban) => {
                Some(Bans::new(ban.0, max_keys(rule), clock.clone()).map_err(|error| SetError::Limit {
                    rule: rule.name.clone(),
                    tier: None,
                    error,
                })?)
            }
            None => None,
        };
        Ok(Self::of(rule, allowances, bans.map(Arc::new)))
    }

    /// A rule with these limiters.
    pub(crate) fn of(rule: &Rule, allowances: Box<[Allowance<C>]>, bans: Option<Arc<Bans<C>>>) -> Self {
        Self {
            is_shadow: rule.mode == Mode::Shadow,
            is_costed: rule.cost != Cost::Fixed(1),
            charge_if: rule.charge_if.as_deref().map(Into::into),
            max_wait: rule.max_wait.unwrap_or(Duration::MAX),
            bans,
            ban_length: rule.ban.map_or(Duration::ZERO, |ban| ban.0),
            allowances,
        }
    }
}

/// Aligns the windows of all limits of these rules to another Unix time: as many as can be. The
/// error is of the first rule that cannot.
pub(crate) fn realign<'r, C: Clock + 'static>(
    rules: impl Iterator<Item = (&'r Rule, &'r Limited<C>)>,
    unix_at_zero: Duration,
) -> Result<(), (Box<str>, BuildError)> {
    let mut first = Ok(());
    for (rule, limited) in rules {
        let done = limited.realign(unix_at_zero);
        first = first.and(done.map_err(|error| (rule.name.clone(), error)));
    }
    first
}

/// Gives each allowance its rank among all, and notes which are brief.
pub(crate) fn rank<C: Clock + Clone + 'static>(rules: &mut [Limited<C>]) {
    for rule in &mut *rules {
        let is_alone = !rule.is_shadow && rule.bans.is_none();
        for allowance in &mut rule.allowances {
            allowance.is_brief = is_alone && allowance.can_be_undone();
        }
    }
    let mut all: Vec<&mut Allowance<C>> = rules.iter_mut().flat_map(|rule| &mut *rule.allowances).collect();
    // Stable: by the rule's index, then the tier's.
    all.sort_by_key(|allowance| allowance.reluctance());
    for (number, allowance) in (0..).zip(all) {
        allowance.rank = Rank { reluctance: allowance.reluctance(), number };
    }
}
