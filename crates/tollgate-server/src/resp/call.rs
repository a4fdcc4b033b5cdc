//! A command of a client, as it is answered.

use super::client::{Next, Shared};
use super::parse::Arguments;
use super::reply::Reply;
use crate::core::CallLimiter;

/// A command of a client.
pub(super) struct Call<'c> {
    pub(super) shared: &'c Shared,
    pub(super) limiter: &'c CallLimiter,
    pub(super) arguments: Arguments<'c>,
}

/// What a command does besides its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// The client's next command waits for this.
    Then(Next),
}

/// How much of a client's bytes an error shows.
pub(super) const SHOWN: usize = 128;

impl Call<'_> {
    /// Writes that the command has too many or too few arguments.
    pub(super) fn wrong_number(&self, reply: &mut Reply<'_>) {
        let name = self.arguments.get(0);
        let name = String::from_utf8_lossy(&name[..name.len().min(SHOWN)]).to_lowercase();
        reply.error(format_args!("ERR wrong number of arguments for '{name}' command"));
    }

    /// Whether an argument is this word, in any case.
    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.arguments.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Writes that the command has no such subcommand.
    pub(super) fn unknown_subcommand(&self, reply: &mut Reply<'_>) {
        let given = self.arguments.get(1);
        reply.error_about("ERR unknown subcommand: ", &given[..given.len().min(SHOWN)]);
    }
}
