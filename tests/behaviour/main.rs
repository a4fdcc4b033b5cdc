//! What callers see, topic by topic, under a clock that stands until the test moves it.
//!
//! Where threads matter to a topic they are in a module of their own (`threads`, `meanwhile`).

mod ahead;
mod in_flight;
mod lease;
mod observe;
mod pitfalls;
#[path = "../quotas/mod.rs"]
mod quotas;
mod reconfigure;
mod refund;
mod reserve;
mod save;
mod several;
mod wait;
