//! Many threads, real or stalled: exact totals, histories that have an order, growth, faults, and what is counted of it.

mod faults;
mod growth;
mod linearizable;
#[path = "../quotas/mod.rs"]
mod quotas;
mod stats;
mod stress;
