//! Tests of the layer through its public API, in one binary so that it links once.

mod abandoned_turns;
mod allocations;
mod backend_faults;
mod backend_refunds;
mod backends;
mod charge_if;
mod client_address;
mod hooks;
mod limit_headers;
mod published;
mod queues;
mod reconfigure;
mod refusals;
mod rules;
mod servers;
mod support;
mod tonic_server;
