//! `--report FILE.html`: what a replay found, as one page for people to look at.
//!
//! The page is complete in itself: inline style, drawings as inline SVG, a few lines of script that only
//! read bars out under the pointer. It asks nothing of the network, and its policy forbids it to.
//!
//! ```text
//!   timeline  counts while the replay runs, in bounded memory
//!      |
//!    page ---- headline, over_time, top_keys, spread      what the page shows
//!               |
//!              chart, axis                                how a drawing is made
//!               |
//!              calendar, figures, escape                  how a time, a number, a key is written
//! ```

mod axis;
pub(crate) mod calendar;
mod chart;
mod escape;
pub(crate) mod figures;
mod headline;
mod over_time;
mod page;
mod spread;
mod timeline;
mod top_keys;

pub(crate) use timeline::Timeline;

/// What a replay found, for the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    /// The command line that made it.
    pub(crate) command: &'a str,
    /// When it was made, if that shall be said.
    pub(crate) generated_unix_ns: Option<u64>,
    /// The limits in force, as they were given.
    pub(crate) limits: &'a [String],
    pub(crate) requests: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Different keys seen.
    pub(crate) keys: u64,
    /// Lines that could not be read.
    pub(crate) malformed: u64,
    /// Records earlier than one before them.
    pub(crate) out_of_order: u64,
    pub(crate) first_t_ns: Option<u64>,
    pub(crate) last_t_ns: Option<u64>,
    pub(crate) timeline: &'a Timeline,
    /// The most refused keys, most refused first; as many as shall be listed.
    pub(crate) top: &'a [KeyRow<'a>],
    /// One entry for each key that was ever refused, in any order.
    pub(crate) refused_keys: &'a [KeyTally],
}

/// A key in the list of the most refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRow<'a> {
    /// The key as the log has it; the page takes care of its own safety.
    pub(crate) key: &'a str,
    pub(crate) tally: KeyTally,
}

/// How many requests a key made, and how many of them were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyTally {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
}

/// The page, as HTML.
pub(crate) fn render(report: &Report<'_>) -> String {
    page::Page(report).to_string()
}
