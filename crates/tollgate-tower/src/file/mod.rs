//! A layer whose rules are in a file.
//!
//! | file | what |
//! |------|------|
//! | `layer`, `builder`, `error` | the layer, its settings, why it cannot be built |
//! | `reloads` | reports of reloads |

mod builder;
mod error;
mod layer;
mod reloads;

use std::path::PathBuf;

use tollgate_rules_file::{LiveFile, Watched};

pub use builder::RulesBuilder;
pub use error::RulesError;
pub use layer::{RulesLayer, RulesService};

use crate::rule::SharedClock;

/// The file of a layer's rules.
pub(crate) struct FileOfRules {
    /// The thread that watches it. `None`: another part of the process reads it.
    _watched: Option<Watched>,
    file: LiveFile<SharedClock>,
    path: PathBuf,
}
