//! Joint charges: offers of one or more limiters, all or nothing, and a caller that may refuse.

use tollgate::{Offer, Outcome, together_if};

use super::{Engine, Kept, Told, Way, nanos, placed};

/// What a key is asked for in a joint charge, by each limit that it meets under its tier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) key: usize,
    pub(crate) tier: usize,
    pub(crate) cost: u64,
}

/// What one limit says in the end.
pub(crate) struct Offered {
    pub(crate) part: Part,
    /// The limit's number among those of its limiter.
    pub(crate) number: usize,
    pub(crate) outcome: Outcome,
    pub(crate) told: Told,
    pub(crate) kept: Kept,
}

/// A joint charge that was decided.
pub(crate) struct Joint {
    pub(crate) outcome: Outcome,
    /// How many offers were charged each time that the caller was asked.
    pub(crate) asked: Vec<usize>,
    pub(crate) offers: Vec<Offered>,
}

impl Joint {
    /// How many offers were charged, also if they were given back.
    pub(crate) fn charges(&self) -> usize {
        self.asked.last().copied().unwrap_or(0)
    }
}

impl Engine {
    /// Charges all of these or none. The caller refuses when it is asked after so many charges. The
    /// clock is read between the offers and between the charges, so that others can come there.
    pub(crate) fn joint(&self, parts: &[Part], refuses: Option<usize>, way: Way) -> Joint {
        let (mut offers, mut of) = (Vec::new(), Vec::new());
        for part in parts {
            for offer in self.offers(*part, way) {
                offers.push(offer);
                of.push(*part);
                let _ = self.now();
            }
        }
        let mut asked = Vec::new();
        let outcome = together_if(&mut offers, |charged| {
            asked.push(charged.len());
            let _ = self.now();
            refuses != Some(charged.len())
        });
        Joint { outcome, asked, offers: offers.into_iter().zip(of).map(offered).collect() }
    }

    /// One by one: a list's are of one time, and each is of the quotas that are current by then.
    fn offers(&self, Part { key, tier, cost }: Part, way: Way) -> Box<dyn Iterator<Item = Offer<'_>> + '_> {
        let now = (way == Way::At).then(|| self.now());
        macro_rules! of {
            ($account:expr, |$it:ident| $offers:expr) => {
                match now {
                    Some(now) => {
                        let $it = $account.at(now);
                        Box::new($offers)
                    }
                    None => {
                        let $it = $account;
                        Box::new($offers)
                    }
                }
            };
        }
        let placed = placed(key);
        match self {
            Self::Multi(list, None) => of!(list.account(&placed), |it| it.offers(cost)),
            Self::Multi(list, Some(_)) if tier == 0 => of!(list.account(&placed), |it| it.offers(cost)),
            Self::Multi(_, Some(beside)) => {
                of!(beside.account(&placed), |it| std::iter::once(it.offer(cost)))
            }
            Self::Keyed(limiter) => {
                let account = limiter.account(&placed).tier(tier).expect("it has that tier");
                of!(account, |it| std::iter::once(it.offer(cost)))
            }
            Self::Global(limiters) => {
                of!(limiters[key].account(()), |it| std::iter::once(it.offer(cost)))
            }
        }
    }
}

fn offered((offer, part): (Offer<'_>, Part)) -> Offered {
    let says = offer.part();
    let told = Told {
        allowed: offer.outcome() == Outcome::Allowed,
        never: offer.outcome() == Outcome::Never,
        retry_after: says.retry_after().map(nanos),
        reset_after: nanos(says.reset_after()),
        delay: nanos(says.delay()),
        remaining: vec![says.remaining()],
        full: 0,
    };
    let (number, outcome) = (says.number(), offer.outcome());
    Offered { part, number, outcome, told, kept: offer.receipt().into() }
}
