//! Why a request to an upstream has no response.

use std::error::Error;
use std::io;
use std::sync::Arc;

use http::StatusCode;

/// How a request was left without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection that takes the request: the upstream has read nothing of it.
    Connect,
    /// No connection in time.
    ConnectLate,
    /// A connection without TLS: its certificate is not the right one, or it speaks none.
    Tls,
    /// No connection has a stream for it, or each was refused: no upstream has acted on it.
    Busy,
    /// The connection ended before an answer.
    Closed,
    /// The upstream reset its stream.
    Reset,
    /// What came is no answer.
    Broken,
}

impl Failure {
    /// As labels and the log say it.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Connect => "upstream_connect",
            Self::ConnectLate => "upstream_connect_timeout",
            Self::Tls => "upstream_tls",
            Self::Busy => "upstream_busy",
            Self::Closed => "upstream_closed",
            Self::Reset => "upstream_reset",
            Self::Broken => "upstream_broken",
        }
    }

    /// What its client is answered, who is not told where the upstream is.
    pub(super) const fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Connect => (StatusCode::BAD_GATEWAY, "the upstream was not reached"),
            Self::ConnectLate => (StatusCode::GATEWAY_TIMEOUT, "the upstream was not reached in time"),
            Self::Tls => (StatusCode::BAD_GATEWAY, "TLS with the upstream failed"),
            Self::Busy => (StatusCode::BAD_GATEWAY, "the upstream takes no more streams"),
            Self::Closed => {
                (StatusCode::BAD_GATEWAY, "the upstream closed the connection before it answered")
            }
            Self::Reset => (StatusCode::BAD_GATEWAY, "the upstream reset the request"),
            Self::Broken => (StatusCode::BAD_GATEWAY, "the upstream's answer is broken"),
        }
    }

    /// Whether an upstream may have acted on the request, which is tried at no other then.
    pub(super) const fn may_have_acted(self) -> bool {
        match self {
            Self::Connect | Self::ConnectLate | Self::Tls | Self::Busy => false,
            Self::Closed | Self::Reset | Self::Broken => true,
        }
    }
}

/// How far a request came by a connection that ended before an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing of it was sent.
    Unsent,
    /// It may have been read. No byte of an answer has come.
    Unanswered,
    /// A part of an answer has come, or bytes that are none.
    Broken,
}

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) failure: Failure,
    /// The words of the error, for the log. `None`: the failure says all.
    reason: Option<Arc<str>>,
}

impl Failed {
    /// No connection of TCP, or one that came too late.
    pub(super) fn of_dial(error: &io::Error) -> Self {
        let failure = match error.kind() {
            io::ErrorKind::TimedOut => Failure::ConnectLate,
            _ => Failure::Connect,
        };
        Self::new(failure, error)
    }

    /// `error` and its sources are the reason.
    pub(super) fn new(failure: Failure, error: &dyn Error) -> Self {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let text = error.to_string();
            // The text of many an error already has that of its source.
            if !reason.contains(&text) {
                reason = format!("{reason}: {text}");
            }
            source = error.source();
        }
        Self { failure, reason: Some(reason.into()) }
    }

    /// The same for a request whose connection ended before, when an upstream may have read it: it
    /// is tried at no other.
    pub(super) fn once_sent(self) -> Self {
        let failure = if self.failure.may_have_acted() { self.failure } else { Failure::Closed };
        Self { failure, ..self }
    }

    /// Why, as the log says it.
    pub(super) fn reason(&self) -> &str {
        match (&self.reason, self.failure) {
            (Some(reason), _) => reason,
            (None, Failure::Connect) => "no connection takes the request",
            (None, Failure::ConnectLate) => "no connection in time",
            (None, Failure::Tls) => "no TLS",
            (None, Failure::Busy) => "it takes no more streams",
            (None, Failure::Closed) => "the connection ended before an answer",
            (None, Failure::Reset) => "it reset the request",
            (None, Failure::Broken) => "what came is no answer",
        }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, reason: None }
    }
}
