//! Why a request to an upstream has no response.

use std::error::Error;
use std::io;
use std::sync::Arc;

/// How a request was left without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection that takes the request: the upstream has read nothing of it.
    Connect,
    /// No connection in time.
    ConnectLate,
    /// No connection has a stream for it, or each was refused: no upstream has acted on it.
    Busy,
    /// The connection ended, or its bytes are no response.
    Broken,
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
    /// No connection, or one that came too late.
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

    /// The same for a request that an upstream may have read before: it is tried at no other.
    pub(super) fn once_sent(self) -> Self {
        Self { failure: Failure::Broken, ..self }
    }

    /// Why, as the log says it.
    pub(super) fn reason(&self) -> &str {
        match (&self.reason, self.failure) {
            (Some(reason), _) => reason,
            (None, Failure::Connect) => "no connection takes the request",
            (None, Failure::ConnectLate) => "no connection in time",
            (None, Failure::Busy) => "it takes no more streams",
            (None, Failure::Broken) => "the connection ended, or its bytes are no response",
        }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, reason: None }
    }
}
