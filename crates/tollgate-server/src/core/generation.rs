//! One generation of the rules, with what HTTP needs of it.

use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_http::{ClientAddress, HttpRules};
use tollgate_redis::rules::{RuleStores, Stores};
use tollgate_rules::{LiveRules, OfRules, RuleSet};

use crate::clock::ServerClock;

/// One generation of the rules.
pub(crate) struct Generation {
    /// Its number: 1 for the first.
    pub(crate) number: u64,
    pub(crate) http: HttpRules<ServerClock>,
    /// Where rules keep their counts that do not keep them here. `None`: there is none.
    pub(crate) stores: Option<Arc<RuleStores>>,
}

impl Generation {
    /// The generation in force now.
    pub(super) fn in_force(live: &LiveRules<ServerClock>, stores: &Stores) -> Self {
        let mut number = live.status().generation;
        loop {
            let set = live.rules();
            let after = live.status().generation;
            if after == number {
                // Both callers name the address themselves.
                let peer = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
                let stores = stores.of(&set);
                return Self { number, http: HttpRules::new(set, &peer), stores };
            }
            number = after;
        }
    }
}

impl OfRules<ServerClock> for Generation {
    fn rules(&self) -> &Arc<RuleSet<ServerClock>> {
        self.http.set()
    }
}
