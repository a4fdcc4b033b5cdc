//! The generations of the rules, with what HTTP needs of them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use tollgate::Clock;
use tollgate_http::{ClientAddress, HttpRules};
use tollgate_redis::rules::{RuleStores, Stores};
use tollgate_rules::{LiveRules, OfRules, RuleSet};

/// The clock of everything that a server decides.
pub type ServerClock = Arc<dyn Clock + Send + Sync>;

/// One generation of the rules.
pub struct Generation {
    /// Its number: 1 for the first.
    pub number: u64,
    /// Its rules, as HTTP asks them.
    pub http: HttpRules<ServerClock>,
    /// Where rules keep their counts that do not keep them here. `None`: there is none.
    pub stores: Option<Arc<RuleStores>>,
}

/// The rules in force, and the newest generation that was met.
pub struct Generations {
    /// The rules in force.
    pub live: LiveRules<ServerClock>,
    /// The connections to the stores of rules, of all listeners.
    pub stores: Stores,
    newest: ArcSwap<Generation>,
    /// Held while the newest is exchanged.
    renews: Mutex<()>,
}

impl Generation {
    fn in_force(live: &LiveRules<ServerClock>, stores: &Stores) -> Self {
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

impl Generations {
    /// Those of these rules and stores.
    #[must_use]
    pub fn new(live: LiveRules<ServerClock>, stores: Stores) -> Self {
        let newest = ArcSwap::from_pointee(Generation::in_force(&live, &stores));
        Self { live, stores, newest, renews: Mutex::new(()) }
    }

    /// The generation in force, with what HTTP needs of it.
    pub fn in_force(&self) -> Arc<Generation> {
        let _renews = self.renews.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&self.live.rules(), self.newest.load().http.set()) {
            self.newest.store(Arc::new(Generation::in_force(&self.live, &self.stores)));
        }
        self.newest.load_full()
    }

    /// The newest generation that was met: that in force, unless a reload has just exchanged the
    /// rules and not asked for [those in force](Self::in_force) yet. Takes no lock.
    pub fn newest(&self) -> Guard<Arc<Generation>> {
        self.newest.load()
    }
}
