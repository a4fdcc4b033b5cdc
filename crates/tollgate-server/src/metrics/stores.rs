//! What the stores of rules have counted.

use std::collections::BTreeMap;

use tollgate_net::counts::Histogram;
use tollgate_redis::rules::StoreCounts;
use tollgate_redis::{DecidedBy, FailureKind, TripCounts};

use super::text::{Label, Text};

/// Writes what the limits of rules have counted in their stores. A store is named by its address,
/// without user and password.
pub(super) fn write(text: &mut Text, all: &[StoreCounts]) {
    text.family("tollgate_store_decisions_total", "counter", "Decisions of rules with a store.");
    for one in all {
        for by in DecidedBy::ALL {
            let counts = one.counts.decided(by);
            for (outcome, count) in
                [("allowed", counts.allowed), ("limited", counts.denied), ("cost_above_limit", counts.never)]
            {
                text.sample(&with(one, &[("by", name(by)), ("outcome", outcome)]), count);
            }
        }
    }
    text.family("tollgate_store_failures_total", "counter", "Requests that a store did not answer.");
    for one in all {
        for kind in FailureKind::ALL {
            text.sample(&with(one, &[("kind", kind.name())]), one.counts.failed(kind));
        }
    }
    let help = "Failed requests that the store may have charged.";
    text.family("tollgate_store_charged_perhaps_total", "counter", help);
    for one in all {
        text.sample(&with(one, &[]), one.counts.charged_perhaps);
    }
    let help = "Checks of rules in shadow mode that were not made: too many had not ended.";
    text.family("tollgate_store_shadow_dropped_total", "counter", help);
    for one in all {
        text.sample(&with(one, &[]), one.counts.shadow_dropped);
    }
    let help = "How long trips to a store took, those that failed included.";
    text.family("tollgate_store_trip_seconds", "histogram", help);
    let bounds = TripCounts::BOUNDS.map(|bound| bound.as_nanos() as u64);
    for one in all {
        let TripCounts { by_time: counts, total, .. } = one.counts.trips;
        let histogram = Histogram { counts, sum: total.as_nanos() as u64 };
        text.histogram(&with(one, &[]), &histogram, &bounds, 1e9);
    }
    text.family("tollgate_store_trips_in_flight", "gauge", "Trips to a store that are under way.");
    for one in all {
        text.sample(&with(one, &[]), one.counts.trips.in_flight);
    }
    let help = "Remembered refusals that another key displaced.";
    text.family("tollgate_store_deny_cache_evicted_total", "counter", help);
    for one in all {
        text.sample(&with(one, &[]), one.counts.deny_cache_evicted);
    }
    let help = "Permits of leases: taken ahead, spent, returned to the store, and lapsed.";
    text.family("tollgate_store_leased_permits_total", "counter", help);
    for one in all {
        let leases = one.counts.leases;
        let states = [
            ("taken", leases.taken),
            ("spent", leases.spent),
            ("returned", leases.returned),
            ("lapsed", leases.lapsed),
        ];
        for (state, count) in states {
            text.sample(&with(one, &[("state", state)]), count);
        }
    }
    let breakers: BTreeMap<_, _> = all.iter().map(|one| (&*one.store, one.counts.breaker)).collect();
    text.family("tollgate_store_breaker_open", "gauge", "Whether the store fails, and is not asked.");
    for (store, breaker) in &breakers {
        text.sample(&[("store", store)], u8::from(breaker.is_open));
    }
    text.family("tollgate_store_breaker_transitions_total", "counter", "How often it began, and ended.");
    for (store, breaker) in &breakers {
        for (to, count) in [("open", breaker.opened), ("closed", breaker.closed)] {
            text.sample(&[("store", store), ("to", to)], count);
        }
    }
}

fn with<'l>(of: &'l StoreCounts, more: &[Label<'l>]) -> Vec<Label<'l>> {
    let own = [("rule", &*of.rule), ("tier", of.tier.as_deref().unwrap_or_default()), ("store", &*of.store)];
    own.into_iter().chain(more.iter().copied()).collect()
}

fn name(by: DecidedBy) -> &'static str {
    match by {
        DecidedBy::Store => "store",
        DecidedBy::Lease => "lease",
        DecidedBy::DenyCache => "deny_cache",
        DecidedBy::Local => "local",
        DecidedBy::OnFailure => "on_failure",
        DecidedBy::Shadow => "shadow",
        _ => "other",
    }
}
