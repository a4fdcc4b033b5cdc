//! Threads, running or stalled: exact totals, linearizable histories, growth, faults, and
//! statistics.

mod as_much;
mod faults;
mod growth;
mod linearizable;
mod stats;
mod stress;
