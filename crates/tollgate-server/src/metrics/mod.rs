//! What is counted. No key is ever a label.

use std::time::Duration;

use tollgate_rules::Verdict;

use crate::core::ServerClock;

/// Which listener a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    Http,
    Admin,
    Grpc,
    Resp,
}

impl Listener {
    /// As labels and messages say it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Admin => "admin",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
        }
    }
}

/// The counters of a server.
pub(crate) struct Metrics {}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {}
    }

    /// Counts a decision by the rules.
    pub(crate) fn decided(&self, _listener: Listener, _verdict: &Verdict<'_, ServerClock>) {}

    /// Counts a decision whose quota came with the call.
    pub(crate) fn decided_call(&self, _is_admitted: bool) {}

    /// Counts a decision of a call by Envoy that has no verdict of the rules: one by files of
    /// envoyproxy/ratelimit, and one that would have to wait.
    pub(crate) fn decided_for_envoy(&self, _listener: Listener, _is_admitted: bool) {}

    /// Counts input that was refused, by a short word for the reason.
    pub(crate) fn protocol_error(&self, _listener: Listener, _kind: &'static str) {}

    /// Counts an open connection until the guard is dropped.
    pub(crate) fn connection(&self, _listener: Listener) {}

    /// How long a request took, from its head to its answer.
    pub(crate) fn took(&self, _listener: Listener, _duration: Duration) {}
}
