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

pub use builder::RulesBuilder;
pub use error::RulesError;
pub use layer::{RulesLayer, RulesService};
