//! Behaviour of the public API by topic, under a clock that the test moves.
//!
//! Topics with threads have a module for them (`threads`, `meanwhile`).

mod ahead;
mod as_much;
mod change;
mod closed_loop;
mod credit;
mod first_hit;
mod full_bucket;
mod in_flight;
mod keys;
mod lease;
mod named_ranges;
mod observe;
mod per_call;
mod pitfalls;
mod quota_text;
mod refund;
mod reserve;
mod save;
mod settle;
mod several;
mod together;
mod wait;
