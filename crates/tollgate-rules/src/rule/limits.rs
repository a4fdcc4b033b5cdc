//! How much of the requests a rule admits, and what each costs.

use std::time::Duration;

use tollgate::Quota;

use crate::rule::{Attribute, Conditions};

/// The limits of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Limits {
    /// One to eight, all or nothing.
    Each(Vec<Limit>),
    /// The rule is asked and counted, and refuses no request.
    Unlimited,
    /// It refuses all.
    Block,
    /// The one that comes with each request: see [`Request::quota`](crate::Request::quota). A file
    /// has none of these.
    PerRequest,
    /// Those of a store that the caller asks: see [`Verdict::unasked`](crate::Verdict::unasked). Of
    /// a file, they are [`Each`](Self::Each) of a rule with a [`store`](crate::Rule::store).
    Elsewhere,
}

impl Limits {
    /// Whether one of them counts requests in flight.
    #[must_use]
    pub fn counts_in_flight(&self) -> bool {
        let Self::Each(limits) = self else { return false };
        limits.iter().any(|limit| matches!(limit, Limit::InFlight { .. }))
    }
}

/// One limit of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// So many in a time.
    Quota(Quota),
    /// So many at once.
    InFlight {
        /// How many.
        most: u64,
        /// After this time a request counts as ended.
        ttl: Option<Duration>,
    },
}

/// Other limits for some of a rule's requests. A key has a state of its own in each tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// The name, unique in its rule; as a rule's.
    pub name: Box<str>,
    /// The requests of the tier: those of which any of these holds.
    pub applies: Vec<Conditions>,
    /// Their limits.
    pub limits: Limits,
    /// How many keys the tier's tables are built for; `None`: as many as the rule's.
    pub max_keys: Option<usize>,
}

/// What a request costs. A cost of 0 only looks.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// Always this.
    Fixed(u64),
    /// The number that an attribute has.
    From {
        /// The attribute.
        attribute: Attribute,
        /// The cost where it is missing or no number.
        default: u64,
    },
    /// That of the first case of which the conditions hold; 1 if none do.
    Cases(Vec<CostCase>),
}

/// A case of a cost.
#[derive(Clone, Debug, PartialEq)]
pub struct CostCase {
    /// The requests: those of which any of these holds. Empty: all.
    pub applies: Vec<Conditions>,
    /// What they cost.
    pub is: u64,
}
