//! Tests of the layer through its public API, in one binary so that it links once.

mod abandoned_turns;
mod allocations;
mod backend_faults;
mod backend_refunds;
mod backends;
mod bans;
mod charge_if;
mod client_address;
mod cost_from;
mod full_tables;
mod handles;
mod hooks;
mod identities;
mod in_flight;
mod limit_headers;
mod per_request;
mod published;
mod queues;
mod readiness;
mod reconfigure;
mod refusals;
mod request_limits;
mod rules;
#[cfg(feature = "rules")]
mod rules_file;
mod saved;
#[cfg(feature = "metrics")]
mod series;
mod servers;
mod shadow;
mod support;
mod together;
mod tonic_server;
mod waits;
