//! The counters of an upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
pub struct UpstreamCounts {
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

    /// The URL of the upstream.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The connections of HTTP/2 that are open.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// What became of its requests: events by name, with how often each happened.
    pub fn events(&self) -> impl Iterator<Item = (&'static str, u64)> {
        UpstreamEvent::NAMES.into_iter().zip(self.events.iter().map(|count| count.load(Relaxed)))
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
