//! Requests that a hook takes out of the way of others.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use http::Extensions;
use tollgate_rules::{Line, Rule, Ruling, StoredAsk};

use super::LayerVerdict;
use crate::RequestHead;

/// Is called with each request and its verdict.
pub(crate) type AsideHook = Box<dyn Fn(RequestHead<'_>, &LayerVerdict<'_>) -> Option<Aside> + Send + Sync>;

/// Is called with each request that asks stores, the rules, and the questions.
pub(crate) type BesideHook =
    Box<dyn Fn(RequestHead<'_>, &[Rule], &[StoredAsk]) -> Option<Beside> + Send + Sync>;

/// What a request asks beside the stores of rules:
/// `RulesBuilder::beside_stores`.
pub type Beside = Pin<Box<dyn Future<Output = Extensions> + Send>>;

/// A request that is refused by `RulesBuilder::set_aside`.
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

/// Waits for both.
pub(super) async fn both<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> (A, B) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut a, mut b) = (None, None);
    poll_fn(|context| {
        if a.is_none()
            && let Poll::Ready(done) = first.as_mut().poll(context)
        {
            a = Some(done);
        }
        if b.is_none()
            && let Poll::Ready(done) = second.as_mut().poll(context)
        {
            b = Some(done);
        }
        match (a.take(), b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (one, other) => {
                (a, b) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}
