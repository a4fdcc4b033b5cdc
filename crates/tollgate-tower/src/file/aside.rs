//! Requests that a hook takes out of the way of others.

use std::time::Duration;

use http::Extensions;
use tollgate_rules::{Line, Ruling};

use super::FileVerdict;
use crate::RequestHead;

/// Is called with each request and its verdict.
pub(super) type AsideHook = Box<dyn Fn(RequestHead<'_>, &FileVerdict<'_>) -> Option<Aside> + Send + Sync>;

/// A request that is refused by [`RulesBuilder::set_aside`](crate::RulesBuilder::set_aside).
#[derive(Debug, Default)]
pub struct Aside {
    /// The index in [`Verdict::lines`](tollgate_rules::Verdict::lines) of the line that refuses the
    /// request, where the rules admit it.
    pub line: usize,
    /// How long it refuses the request then.
    pub retry_after: Duration,
    /// What the refusal carries, for the caller of the service.
    pub note: Extensions,
}

/// Returns the lines of a verdict as lines of which one refuses.
pub(super) fn refused_aside(lines: &[Line], aside: &Aside) -> Vec<Line> {
    let mut lines = lines.to_vec();
    if let Some(line) = lines.get_mut(aside.line) {
        (line.ruling, line.remaining) = (Ruling::Refused, 0);
        line.retry_after = Some(aside.retry_after);
    }
    lines
}
