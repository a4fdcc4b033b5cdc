//! A rule as data: what the file says, with lists in place of their names, and nothing compiled.
//!
//! | file | what |
//! |------|------|
//! | `attribute` | what a rule can see of a request |
//! | `condition` | which requests a rule concerns |
//! | `limits` | how much of them it admits, and at what cost |
//! | `park` | refused requests that are kept for later |
//! | `refusal` | how a refused request is answered |
//! | `store` | where a rule keeps its counts, if not in this process |
//! | `rules` | the rules of a file and what the file says for all of them |
//! | `test` | requests of a file's test and what must become of them |
//! | `value` | which values a condition can have |

mod attribute;
mod condition;
mod limits;
mod park;
mod refusal;
mod rules;
mod store;
mod test;
mod value;

use std::time::Duration;

use tollgate::{Inherit, WhenFull};

pub use attribute::{Attribute, Transform};
pub use condition::{Condition, Conditions, Values};
pub use limits::{Cost, CostCase, Limit, Limits, Tier};
pub use park::Park;
pub use refusal::{BodyFormat, HeaderStyle, Refusal};
pub use rules::{Clients, Rules, UpstreamLimits};
pub use store::{Store, StoreFailure, StoreLeases, StoreServer};
pub use test::{Expected, Outcome, RuleTest, Step};
pub(crate) use value::MAX_VALUE;
pub use value::WrongValue;

/// A rule: the requests that it concerns, whose limit they use, and the limits.
///
/// Every rule that concerns a request must admit it, all or nothing: refused by one, charged to
/// none. The order of rules means nothing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rule {
    /// The name: 1 to 64 of `A-Za-z0-9-_.:/`. State is kept by it over a reload.
    pub name: Box<str>,
    /// The name that the rule had before: it takes over that rule's state.
    pub was: Option<Box<str>>,
    /// The requests that it concerns: those of which any of these holds. Empty: all requests.
    pub applies: Vec<Conditions>,
    /// Of those, the requests that it does not concern after all.
    pub except: Vec<Conditions>,
    /// Whose limit a request uses.
    pub key: Key,
    /// What happens to a request without a key.
    pub missing: MissingKey,
    /// The limits of a key.
    pub limits: Limits,
    /// Other limits for some requests: those of the first tier of which the conditions hold.
    pub tiers: Vec<Tier>,
    /// A label that may name the tier of a request, before the conditions of the tiers are asked.
    pub tier_named_by: Option<Attribute>,
    /// What a request costs.
    pub cost: Cost,
    /// Whether the rule refuses requests.
    pub mode: Mode,
    /// The rules that are not asked when this one concerns a request.
    pub replaces: Replaces,
    /// The statuses of the responses that are charged; `None`: every request is.
    pub charge_if: Option<Vec<u16>>,
    /// How long a key is refused once the rule has refused it.
    pub ban: Option<Ban>,
    /// The longest wait of a request in a queue.
    pub max_wait: Option<Duration>,
    /// The response to a refused request.
    pub refuse: Refusal,
    /// How much is kept of what the rule refuses for a time; `None`: nothing, it is answered.
    pub park: Option<Park>,
    /// What becomes of the keys' debts when a reload changes the numbers.
    pub inherit: Inherit,
    /// Whether a reload may forget the keys' debts, where the change cannot keep them.
    pub forget: bool,
    /// How many keys the rule's tables are built for; `None`: the default.
    pub max_keys: Option<usize>,
    /// What becomes of a new key when they are full.
    pub when_full: WhenFull,
    /// Where the counts are kept; `None`: in this process.
    pub store: Option<Store>,
}

impl Rule {
    /// A rule that concerns all requests, with the defaults of a rules file for all else.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_rules::{Attribute, Key, Limit, Limits, Mode, Rule};
    ///
    /// let key = Key::Attributes(vec![Attribute::Client]);
    /// let limits = Limits::Each(vec![Limit::Quota("10/s,burst=20".parse()?)]);
    /// let mut rule = Rule::new("per-client", key, limits);
    /// rule.mode = Mode::Shadow;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(name: impl Into<Box<str>>, key: Key, limits: Limits) -> Self {
        Self {
            name: name.into(),
            was: None,
            applies: Vec::new(),
            except: Vec::new(),
            key,
            missing: MissingKey::Share,
            limits,
            tiers: Vec::new(),
            tier_named_by: None,
            cost: Cost::Fixed(1),
            mode: Mode::Enforce,
            replaces: Replaces::None,
            charge_if: None,
            ban: None,
            max_wait: None,
            refuse: Refusal::default(),
            park: None,
            inherit: Inherit::Additive,
            forget: false,
            max_keys: None,
            when_full: WhenFull::default(),
            store: None,
        }
    }
}

/// Whose limit a request uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// All requests use the same.
    Everyone,
    /// Requests with equal values of all these attributes use the same. At least one.
    Attributes(Vec<Attribute>),
}

/// What happens to a request that has no value for a part of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// All such requests share one limit.
    #[default]
    Share,
    /// It is refused.
    Refuse,
    /// The rule does not concern it, if the part is absent. One that is empty, too long or there
    /// twice shares: else a client could leave the rule by it.
    Pass,
}

/// Whether a rule refuses requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    #[default]
    Enforce,
    /// It is decided and charged among shadow rules only, counted, and told to no client.
    Shadow,
    /// It is parsed and checked, and never asked.
    Off,
}

/// The rules that are not asked when this one concerns a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Replaces {
    /// Those of these names.
    Named(Vec<Box<str>>),
    /// All that do not replace all themselves.
    All,
    /// None.
    #[default]
    None,
}

/// How long a key is refused once a rule has refused it. Refusals do not prolong it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban(pub Duration);
