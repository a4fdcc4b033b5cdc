//! The counters of an upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::text::Text;

/// What became of requests on their way to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamEvent {
    /// A request was sent once more, as its connection ended under it.
    Repeated,
    /// The upstream refused a stream.
    Refused,
    /// A request waited for a stream.
    Waited,
    /// A request was not sent: there was no stream in time.
    Busy,
    /// So many streams of a connection were reset that it takes no more requests.
    Worn,
}

impl UpstreamEvent {
    /// As labels say it, in the order of the declaration.
    const NAMES: [&str; 5] = ["repeated", "refused", "waited", "busy", "worn"];
}

/// The counters of an upstream.
pub(crate) struct UpstreamCounts {
    name: Box<str>,
    events: [AtomicU64; UpstreamEvent::NAMES.len()],
    /// The connections of HTTP/2 that are open.
    open: AtomicU64,
}

/// Counts a connection as open until it is dropped.
pub(crate) struct OpenUpstream(Arc<UpstreamCounts>);

impl UpstreamCounts {
    pub(crate) fn new(name: String) -> Self {
        Self { name: name.into(), events: Default::default(), open: AtomicU64::new(0) }
    }

    pub(crate) fn count(&self, event: UpstreamEvent) {
        self.events[event as usize].fetch_add(1, Relaxed);
    }

    /// Counts a connection of HTTP/2.
    #[must_use]
    pub(crate) fn open(self: &Arc<Self>) -> OpenUpstream {
        self.open.fetch_add(1, Relaxed);
        OpenUpstream(Arc::clone(self))
    }
}

impl OpenUpstream {
    /// It has taken as many resets as it should.
    pub(crate) fn is_worn(&self) {
        self.0.count(UpstreamEvent::Worn);
    }
}

impl Drop for OpenUpstream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

pub(super) fn write(text: &mut Text, upstreams: &[Arc<UpstreamCounts>]) {
    text.family("tollgate_upstream_connections", "gauge", "Open connections to upstreams of HTTP/2.");
    for upstream in upstreams {
        text.sample(&[("upstream", &*upstream.name)], upstream.open.load(Relaxed));
    }
    let what = "What became of requests on their way to an upstream.";
    text.family("tollgate_upstream_events_total", "counter", what);
    for upstream in upstreams {
        for (event, count) in UpstreamEvent::NAMES.into_iter().zip(&upstream.events) {
            text.sample(&[("upstream", &*upstream.name), ("event", event)], count.load(Relaxed));
        }
    }
}
