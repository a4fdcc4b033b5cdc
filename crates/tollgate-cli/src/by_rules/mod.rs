//! Decides a log by a rules file, for `replay --rules`, `rules diff` and `tune --rules`.
//!
//! ```text
//!   rules file -> needs -> wanted parts -> ingest -> record -> request, time -> judge -> judgement
//!                   +-- which rules the log can decide ---------------------------^
//! ```
//!
//! | file | what |
//! |------|------|
//! | `load` | reads a rules file |
//! | `map` | `--map ATTRIBUTE=FIELD` |
//! | `needs` | the parts of a request that rules need, and why a log cannot decide a rule |
//! | `clients` | the clients of a log: numbers, and addresses for host names |
//! | `request`, `log` | a record as a request; batches of them |
//! | `judge` | decides requests |
//! | `deciders` | the threads on which judges decide |
//! | `trial` | a log that rules files decide |
//! | `key_text`, `limits_text` | keys and limits as texts |

mod clients;
mod deciders;
mod judge;
mod key_text;
mod limits_text;
mod load;
mod log;
mod map;
mod needs;
mod request;
mod trial;

pub(crate) use clients::Client;
pub(crate) use judge::{Judge, Judgement};
pub(crate) use limits_text::{limits_text, mode_text, time_text};
pub(crate) use load::{load, path};
pub(crate) use log::{At, Logged, RequestLog, Requests};
pub(crate) use map::Map;
pub(crate) use trial::Trial;
