//! One generation of the rules, with what HTTP needs of it.

use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_http::{ClientAddress, HttpRules};
use tollgate_rules::LiveRules;

use super::ServerClock;

/// One generation of the rules.
pub(crate) struct Generation {
    /// Its number: 1 for the first.
    pub(crate) number: u64,
    pub(crate) http: HttpRules<ServerClock>,
}

impl Generation {
    /// The generation in force now.
    pub(super) fn in_force(live: &LiveRules<ServerClock>) -> Self {
        let mut number = live.status().generation;
        loop {
            let set = live.rules();
            let after = live.status().generation;
            if after == number {
                // Both callers name the address themselves.
                let peer = ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip()));
                return Self { number, http: HttpRules::new(Arc::clone(&set), &peer) };
            }
            number = after;
        }
    }
}
