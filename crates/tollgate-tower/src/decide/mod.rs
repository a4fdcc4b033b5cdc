//! From a request to a verdict, by the rules in force.
//!
//! ```text
//!   request -> view -> live rules' verdict -> admitted: charges, headers -> inner service
//!                            |            \-> refused: answer
//!                            '-> stores and backends are asked first, and it is decided anew
//! ```
//!
//! | file | what |
//! |------|------|
//! | `view` | a request as rules see it |
//! | `generation`, `local` | what the layer derives from rules; a thread's handle of them |
//! | `settings`, `state` | what the layer's user says; what a layer shares with its services |
//! | `decision`, `departure` | from a request to a decision; when it leaves its queue |
//! | `stores`, `backends` | the stores of rules, and those of a program's own |
//! | `aside`, `unserved` | requests that a hook refuses; responses to those that were not served |
//! | `charges`, `turns` | what a request may still give back; its turns in queues |
//! | `file` | the file that the rules are in |
//! | `left` | what an admitted request leaves of its limits |
//! | `answers`, `response_headers` | how a refused request is answered; the headers of the others |
//! | `reports` | what each rule says, to hooks, counters and events |

mod answers;
mod aside;
mod backends;
mod charges;
mod decision;
mod departure;
#[cfg(feature = "rules")]
mod file;
mod generation;
mod left;
mod local;
mod reports;
mod response_headers;
mod settings;
mod state;
mod stores;
mod turns;
mod unserved;
mod view;

use tollgate_rules::{RuleSet, Ticket, Verdict};

#[cfg(feature = "rules")]
pub use answers::AsRulesSay;
pub use answers::{Answers, RespondBy};
pub use aside::{Aside, Beside};
pub(crate) use backends::Told;
pub(crate) use charges::Charges;
pub(crate) use decision::{Admitted, Decided};
pub(crate) use departure::Departure;
#[cfg(feature = "rules")]
pub(crate) use file::FileOfRules;
pub(crate) use generation::Generation;
pub(crate) use left::LimitsLeft;
pub(crate) use response_headers::{ResponseClock, ResponseHeaders};
pub(crate) use settings::Settings;
pub(crate) use state::LayerState;
pub use unserved::NotServed;
pub(crate) use view::Labels;

use crate::rule::SharedClock;

/// The rules of a layer, with their limiters.
pub(crate) type LayerSet = RuleSet<SharedClock>;
/// What they say of a request.
pub(crate) type LayerVerdict<'s> = Verdict<'s, SharedClock>;
/// What a request may still give back.
pub(crate) type LayerTicket = Ticket<SharedClock>;
