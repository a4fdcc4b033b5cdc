//! What the page shows.

use super::timeline::Timeline;

/// What the page shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    /// The command line of the replay.
    pub(crate) command: &'a str,
    /// When the page was made; `None` to omit it.
    pub(crate) generated_unix_ns: Option<u64>,
    /// The limits, as the user gave them; if rules decided, the rules file.
    pub(crate) limits: &'a [String],
    /// The rules, if they decided: requests that each concerns and refuses.
    pub(crate) rules: &'a [KeyRow<'a>],
    /// The rules that did not, with the reasons.
    pub(crate) undecided: &'a [(&'a str, &'a str)],
    pub(crate) requests: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// How many different keys there were.
    pub(crate) keys: u64,
    /// Lines that could not be read.
    pub(crate) malformed: u64,
    /// Records that were earlier than a record before them.
    pub(crate) out_of_order: u64,
    pub(crate) first_t_ns: Option<u64>,
    pub(crate) last_t_ns: Option<u64>,
    pub(crate) timeline: &'a Timeline,
    /// The keys to list: the most refused, most refused first.
    pub(crate) top: &'a [KeyRow<'a>],
    /// One entry for each key that was ever refused, in any order.
    pub(crate) refused_keys: &'a [KeyTally],
}

/// A key in the list of the most refused keys, or a rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRow<'a> {
    /// The key as the log has it; the page escapes it.
    pub(crate) key: &'a str,
    pub(crate) tally: KeyTally,
}

/// How many requests a key made, and how many of them were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyTally {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
}
