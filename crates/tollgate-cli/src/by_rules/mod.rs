//! Decides a log by a rules file, for `replay --rules`, `rules diff` and `tune --rules`.
//!
//! ```text
//!   rules file -> needs -> wanted parts -> logs -> record -> request, time -> judge -> judgement
//!                   +-- which rules the log can decide ---------------------------^
//! ```
//!
//! | file | what |
//! |------|------|
//! | `load` | reads a rules file |
//! | `args`, `map` | `--map ATTRIBUTE=FIELD`, and what else says how a log is read |
//! | `needs` | the parts of a request that rules need, and why a log cannot decide a rule |
//! | `clients` | the clients of a log: numbers, and addresses for host names |
//! | `request`, `log` | a record as a request; batches of them |
//! | `lasting`, `arrivals` | when requests arrive and how long they last; their order |
//! | `judge` | decides requests |
//! | `deciders` | the threads on which judges decide |
//! | `trial` | a log that rules files decide |
//! | `key_text`, `limits_text` | keys and limits as texts |

mod args;
mod arrivals;
mod clients;
mod deciders;
mod judge;
mod key_text;
mod lasting;
mod limits_text;
mod load;
mod log;
mod map;
mod needs;
mod request;
mod trial;

pub(crate) use args::LogArgs;
pub(crate) use clients::Client;
pub(crate) use judge::{Judge, Judgement};
pub(crate) use lasting::At;
pub(crate) use limits_text::{limits_text, mode_text, time_text};
pub(crate) use load::{load, path};
pub(crate) use log::{Logged, RequestLog, Requests};
pub(crate) use trial::Trial;
