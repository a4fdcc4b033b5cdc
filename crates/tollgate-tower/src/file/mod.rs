//! A layer whose rules are in a file.
//!
//! ```text
//!   request -> view -> live rules' verdict -> admitted: charges, headers -> inner service
//!                                         \-> refused: answer
//! ```
//!
//! | file | what |
//! |------|------|
//! | `layer`, `builder`, `error` | the layer, its settings, why it cannot be built |
//! | `reports` | reports of reloads and decisions |
//! | `view` | a request as rules see it |
//! | `generation` | what the layer derives from one generation of rules |
//! | `local` | a thread's handle of the rules and its buffers |
//! | `decide` | from a request to a verdict |
//! | `stores` | the stores of rules |
//! | `aside` | requests that a hook refuses, whatever the rules say |
//! | `charges`, `ticket`, `turns` | what a request may still give back; its turns in queues |
//! | `unserved` | what a response says whose request was not served |
//! | `watched` | what a layer shares with its services |
//! | `service`, `future` | the tower service and its response |

mod aside;
mod builder;
mod charges;
mod decide;
mod error;
mod future;
mod generation;
mod layer;
mod local;
mod reports;
mod service;
mod stores;
mod ticket;
mod turns;
mod unserved;
mod view;
mod watched;

pub use aside::{Aside, Beside};
pub use builder::RulesBuilder;
pub use error::RulesError;
pub use future::RulesFuture;
pub use layer::RulesLayer;
pub use service::RulesService;
pub(crate) use ticket::FileTicket;
pub use unserved::NotServed;

use tollgate_rules::{RuleSet, Verdict};
use tollgate_rules_file::LiveFile;

use crate::rule::SharedClock;

type FileRules = LiveFile<SharedClock>;
type FileSet = RuleSet<SharedClock>;
type FileVerdict<'s> = Verdict<'s, SharedClock>;
