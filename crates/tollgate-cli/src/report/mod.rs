//! `--report FILE.html`: the outcome of a replay as a page.
//!
//! The page is self-contained: inline style, charts as inline SVG, and a short script that shows
//! the numbers of the bar under the pointer. It needs no network, and its content security policy
//! forbids all access.
//!
//! ```text
//!   timeline  counts while the replay runs, in bounded memory
//!      |
//!    page ---- headline, over_time, top_keys, concentration, refused_shares    sections
//!               |
//!              chart, axis, plot                                               parts of a chart
//!               |
//!              calendar, figures, escape                                     times, numbers, keys
//! ```

mod axis;
pub(crate) mod calendar;
mod chart;
mod concentration;
mod contents;
mod escape;
pub(crate) mod figures;
mod headline;
mod over_time;
mod page;
pub mod plot;
mod refused_shares;
mod timeline;
mod top_keys;

pub(crate) use contents::{KeyRow, KeyTally, Report};
pub(crate) use timeline::Timeline;

/// The page, as HTML.
pub(crate) fn render(report: &Report<'_>) -> String {
    page::Page(report).to_string()
}
