//! Where a rule keeps its counts, if not in this process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::store::{AddressError, StoreAddress};

/// The store of a rule: Redis or Valkey, which all processes that read the rule share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Store {
    /// Where it is.
    pub server: Arc<StoreServer>,
    /// What decides while it does not answer.
    pub on_failure: StoreFailure,
    /// Refusals of how many keys are remembered, and then need no trip.
    pub deny_cache: usize,
    /// How permits are taken ahead. `None`: each request is a trip.
    pub leases: Option<StoreLeases>,
}

impl Store {
    /// A store that is asked for each request. While it does not answer, requests are refused.
    #[must_use]
    pub fn new(server: Arc<StoreServer>) -> Self {
        Self { server, on_failure: StoreFailure::Refuse, deny_cache: 0, leases: None }
    }
}

/// How a process takes permits from a store ahead, and spends them without a trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct StoreLeases {
    /// How many processes share the limit.
    pub nodes: u32,
    /// How long a permit may be spent, counted from before it was asked for.
    pub ttl: Duration,
}

impl StoreLeases {
    /// Leases of a limit that so many processes share, with the `ttl` of leases whose table says
    /// none.
    #[must_use]
    pub fn of(nodes: u32) -> Self {
        Self { nodes, ttl: LEASE_TTL }
    }
}

/// The ttl of leases whose table says none.
const LEASE_TTL: Duration = Duration::from_millis(50);

/// What decides a rule while its store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFailure {
    /// Requests are refused: [`Ruling::Unavailable`](crate::Ruling::Unavailable).
    #[default]
    Refuse,
    /// Requests are admitted.
    Allow,
    /// This process decides, by its share of the limits.
    Local {
        /// How many processes share them.
        nodes: u32,
    },
}

/// A store as a file names it. Its display is that of its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct StoreServer {
    /// Its address.
    pub address: StoreAddress,
    /// Further nodes of a cluster. Empty: it is none.
    pub cluster: Vec<StoreAddress>,
    /// The sentinels that know the master. Empty: there are none.
    pub sentinels: Vec<StoreAddress>,
    /// The longest time that a request waits for its answer.
    pub deadline: Duration,
    /// What the names of all keys begin with.
    pub prefix: Box<str>,
}

/// The deadline of a store whose table says none.
const DEADLINE: Duration = Duration::from_millis(10);

/// The prefix of a store whose table says none.
const PREFIX: &str = "tg1";

impl StoreServer {
    /// A single server at this address, with the deadline and the prefix of a store whose table
    /// says none.
    ///
    /// # Errors
    ///
    /// [`AddressError`], which has none of the text.
    ///
    /// # Examples
    ///
    /// ```
    /// let server = tollgate_rules::StoreServer::parse("redis://app:hunter2@10.0.0.7")?;
    /// assert_eq!(server.to_string(), "redis://10.0.0.7");
    /// assert_eq!(server.deadline.as_millis(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(address: &str) -> Result<Self, AddressError> {
        StoreAddress::parse(address).map(Self::at)
    }

    /// A single server at this address, as [`parse`](Self::parse) makes it.
    #[must_use]
    pub fn at(address: StoreAddress) -> Self {
        Self {
            address,
            cluster: Vec::new(),
            sentinels: Vec::new(),
            deadline: DEADLINE,
            prefix: PREFIX.into(),
        }
    }

    /// Whether both keep the same counts: the user, the password and the deadline may differ.
    #[must_use]
    pub fn keeps_counts_of(&self, other: &Self) -> bool {
        self.prefix == other.prefix && self.to_string() == other.to_string()
    }
}

impl fmt::Display for StoreServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
